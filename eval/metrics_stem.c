/* metrics_stem.c - Porter stems of English words (An algorithm for suffix stripping, 1980), with NLTK's changes, which
 * `rouge_score` uses. */
#include "eval/metrics.h"

#include <string.h>

/* Words are ASCII; a stem is no longer than its word. */
static bool is_consonant(struct eval_codes word, size_t i) {
    const int32_t c = word.items[i];
    if (c == 'y') { /* a consonant at the beginning and after a vowel, otherwise a vowel */
        size_t first = i;
        while (first > 0 && word.items[first - 1] == 'y')
            first--;
        const bool consonant = first == 0 || !is_consonant(word, first - 1);
        return (i - first) % 2 == 0 ? consonant : !consonant;
    }
    return c != 'a' && c != 'e' && c != 'i' && c != 'o' && c != 'u';
}

static struct eval_codes front(struct eval_codes word, size_t less) {
    return eval_codes_part(word, 0, word.count - less);
}

/* Returns the number of vowel-consonant sequences (Porter's measure). */
static size_t metrics_stem_measure(struct eval_codes word) {
    size_t count = 0;
    for (size_t i = 1; i < word.count; i++)
        count += !is_consonant(word, i - 1) && is_consonant(word, i);
    return count;
}

static bool has_vowel(struct eval_codes word) {
    bool found = false;
    for (size_t i = 0; i < word.count; i++)
        found = found || !is_consonant(word, i);
    return found;
}

static bool ends(struct eval_codes word, const char *suffix) {
    const size_t bytes = strlen(suffix);
    return word.count >= bytes && eval_codes_is(eval_codes_from(word, word.count - bytes), suffix);
}

/* Returns true for words that end in consonant, vowel, consonant, where the last is not w, x or y; and for a vowel
 * followed by a consonant. */
static bool ends_cvc(struct eval_codes word) {
    const size_t n = word.count;
    if (n == 2)
        return !is_consonant(word, 0) && is_consonant(word, 1);
    if (n < 3 || !is_consonant(word, n - 3) || is_consonant(word, n - 2) || !is_consonant(word, n - 1))
        return false;
    const int32_t last = word.items[n - 1];
    return last != 'w' && last != 'x' && last != 'y';
}

/* Replaces the last `less` letters by `end`. `end` may be at most one letter longer than them, and then only in place
 * of removed letters. */
static void metrics_stem_replace(struct eval_codes *word, size_t less, const char *end) {
    word->count -= less;
    for (; *end; end++)
        word->items[word->count++] = (unsigned char)*end;
}

struct rule {
    const char *suffix, *end;
};

/* Applies the first rule with a matching suffix, if the rest of the word has a measure greater than `above`. */
static void apply(struct eval_codes *word, const struct rule *rules, size_t above) {
    for (; rules->suffix; rules++) {
        const size_t bytes = strlen(rules->suffix);
        if (!ends(*word, rules->suffix))
            continue;
        if (metrics_stem_measure(front(*word, bytes)) > above)
            metrics_stem_replace(word, bytes, rules->end);
        return;
    }
}

static void plurals(struct eval_codes *word) {
    if (ends(*word, "ies") && word->count == 4)
        metrics_stem_replace(word, 3, "ie");
    else if (ends(*word, "sses"))
        metrics_stem_replace(word, 4, "ss");
    else if (ends(*word, "ies"))
        metrics_stem_replace(word, 3, "i");
    else if (ends(*word, "s") && !ends(*word, "ss"))
        metrics_stem_replace(word, 1, "");
}

static void past_and_participle(struct eval_codes *word) {
    size_t less = 0;
    if (ends(*word, "ied")) {
        metrics_stem_replace(word, 3, word->count == 4 ? "ie" : "i");
        return;
    }
    if (ends(*word, "eed")) {
        if (metrics_stem_measure(front(*word, 3)) > 0)
            metrics_stem_replace(word, 3, "ee");
        return;
    }
    if (ends(*word, "ed") && has_vowel(front(*word, 2)))
        less = 2;
    else if (ends(*word, "ing") && has_vowel(front(*word, 3)))
        less = 3;
    if (less == 0)
        return;
    word->count -= less;
    const size_t n = word->count;
    const int32_t last = word->items[n - 1];
    if (ends(*word, "at") || ends(*word, "bl") || ends(*word, "iz"))
        metrics_stem_replace(word, 0, "e");
    else if (n >= 2 && word->items[n - 2] == last && is_consonant(*word, n - 1))
        metrics_stem_replace(word, last != 'l' && last != 's' && last != 'z', "");
    else if (metrics_stem_measure(*word) == 1 && ends_cvc(*word))
        metrics_stem_replace(word, 0, "e");
}

static void last_y(struct eval_codes *word) {
    if (ends(*word, "y") && word->count > 2 && is_consonant(*word, word->count - 2))
        metrics_stem_replace(word, 1, "i");
}

static void double_suffixes(struct eval_codes *word) {
    static const struct rule rules[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                                        {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
                                        {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                                        {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                                        {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
                                        {"fulli", "ful"},   {NULL, NULL}};
    while (ends(*word, "alli") && metrics_stem_measure(front(*word, 4)) > 0)
        metrics_stem_replace(word, 4, "al");
    if (ends(*word, "logi")) { /* the l belongs to the measured part */
        if (metrics_stem_measure(front(*word, 3)) > 0)
            metrics_stem_replace(word, 4, "log");
        return;
    }
    apply(word, rules, 0);
}

static void single_suffixes(struct eval_codes *word) {
    static const struct rule rules[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                                        {"ical", "ic"},  {"ful", ""},   {"ness", ""},    {NULL, NULL}};
    apply(word, rules, 0);
}

static void long_words(struct eval_codes *word) {
    static const struct rule rules[] = {{"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},    {"ic", ""},
                                        {"able", ""}, {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""},
                                        {"ent", ""},  {"ou", ""},   {"ism", ""},  {"ate", ""},   {"iti", ""},
                                        {"ous", ""},  {"ive", ""},  {"ize", ""},  {NULL, NULL}};
    if (!ends(*word, "ion")) {
        apply(word, rules, 1);
        return;
    }
    const struct eval_codes stem = front(*word, 3);
    if (metrics_stem_measure(stem) > 1 && (ends(stem, "s") || ends(stem, "t")))
        metrics_stem_replace(word, 3, "");
}

static void last_letters(struct eval_codes *word) {
    if (ends(*word, "e")) {
        const struct eval_codes stem = front(*word, 1);
        const size_t m = metrics_stem_measure(stem);
        if (m > 1 || (m == 1 && !ends_cvc(stem)))
            metrics_stem_replace(word, 1, "");
    }
    if (ends(*word, "ll") && metrics_stem_measure(front(*word, 1)) > 1)
        metrics_stem_replace(word, 1, "");
}

void eval_stem(struct eval_codes *word) {
    static const struct rule known[] = {
        {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
        {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
        {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
        {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"},
        {NULL, NULL}};
    if (word->count <= 2)
        return;
    for (const struct rule *rule = known; rule->suffix; rule++) {
        if (eval_codes_is(*word, rule->suffix)) {
            metrics_stem_replace(word, word->count, rule->end);
            return;
        }
    }
    plurals(word);
    past_and_participle(word);
    last_y(word);
    double_suffixes(word);
    single_suffixes(word);
    long_words(word);
    last_letters(word);
}
