/* test_gbnf_drawn.c - compares random grammars in llama.cpp's format with the sets of their texts.
 *
 * The sets hold texts of at most MOST characters over two letters, so that a set is small and can be computed as the
 * definition says. Texts have numbers: the empty text 0, "a" 1, "b" 2, "aa" 3, ... */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "models/grammar/grammar.h"
#include "tests/check.h"

#define MOST 5
#define TEXTS ((1 << (MOST + 1)) - 1)
#define RULES 4

static size_t length_of(unsigned text) {
    size_t length = 0;
    for (; text > 0; text = (text - 1) / 2)
        length++;
    return length;
}

/* Writes the text of a number. */
static void spell(unsigned text, char letters[MOST + 1]) {
    const size_t length = length_of(text);
    letters[length] = '\0';
    for (size_t i = length; i > 0; i--, text = (text - 1) / 2)
        letters[i - 1] = text % 2 ? 'a' : 'b';
}

/* Returns the number of a text, cut after MOST letters. */
static unsigned number_of(const char *letters) {
    unsigned text = 0;
    for (size_t i = 0; letters[i] && i < MOST; i++)
        text = 2 * text + (letters[i] == 'a' ? 1 : 2);
    return text;
}

/* The texts of a language that have at most MOST letters, and the beginnings of all its texts, up to MOST letters. */
struct language {
    bool whole[TEXTS], begun[TEXTS];
};

static void add_text(struct language *language, const char *letters) {
    char beginning[MOST + 1];
    language->whole[number_of(letters)] = true;
    for (size_t i = 0; i <= strlen(letters); i++) {
        memcpy(beginning, letters, i);
        beginning[i] = '\0';
        language->begun[number_of(beginning)] = true;
    }
}

static void add_language(struct language *to, const struct language *from) {
    for (unsigned t = 0; t < TEXTS; t++) {
        to->whole[t] = to->whole[t] || from->whole[t];
        to->begun[t] = to->begun[t] || from->begun[t];
    }
}

/* Makes the language of all texts of `left` followed by all texts of `right`. */
static struct language follow(const struct language *left, const struct language *right) {
    struct language made = {0};
    char letters[2 * MOST + 1];
    for (unsigned l = 0; l < TEXTS; l++) {
        made.begun[l] = made.begun[l] || left->begun[l];
        for (unsigned r = 0; left->whole[l] && r < TEXTS; r++) {
            spell(l, letters);
            spell(r, letters + strlen(letters));
            if (right->begun[r])
                made.begun[number_of(letters)] = true;
            if (right->whole[r] && strlen(letters) <= MOST)
                made.whole[number_of(letters)] = true;
        }
    }
    return made;
}

/* A random grammar: its text grows while its languages are computed. */
struct maker {
    uint64_t state;
    char text[8192];
    size_t bytes;
    struct language rules[RULES]; /* rules of higher numbers are already known */
};

static unsigned draw(struct maker *maker, unsigned below) {
    maker->state = maker->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(maker->state >> 33) % below;
}

__attribute__((format(printf, 2, 3))) static void put(struct maker *maker, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int bytes = vsnprintf(maker->text + maker->bytes, sizeof maker->text - maker->bytes, format, list);
    va_end(list);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof maker->text - maker->bytes);
    maker->bytes += (size_t)bytes;
}

static struct language choice(struct maker *maker, unsigned rule, unsigned depth);

/* A literal, a class, a call of a rule with a higher number, or a group. */
static struct language atom(struct maker *maker, unsigned rule, unsigned depth) {
    static const struct {
        const char *written, *texts[3];
    } atoms[] = {{"\"a\"", {"a"}},     {"\"b\"", {"b"}},       {"\"ab\"", {"ab"}},   {"\"ba\"", {"ba"}},
                 {"[ab]", {"a", "b"}}, {"[^a]", {"b"}},        {"\"\\x61\"", {"a"}}, {"[a-b]", {"a", "b"}},
                 {"\"aab\"", {"aab"}}, {"[^\\u0000-a]", {"b"}}};
    struct language made = {0};
    const unsigned kind = draw(maker, 4);
    if (kind == 0 && depth > 0) {
        put(maker, "(");
        made = choice(maker, rule, depth - 1);
        put(maker, ")");
        return made;
    }
    if (kind == 1 && rule + 1 < RULES) {
        const unsigned called = rule + 1 + draw(maker, RULES - rule - 1);
        put(maker, "r-%u", called);
        return maker->rules[called];
    }
    const unsigned which = draw(maker, sizeof atoms / sizeof *atoms);
    put(maker, "%s", atoms[which].written);
    for (size_t i = 0; i < 3 && atoms[which].texts[i]; i++)
        add_text(&made, atoms[which].texts[i]);
    return made;
}

static struct language item(struct maker *maker, unsigned rule, unsigned depth) {
    static const struct {
        const char *written;
        unsigned minimum, limit; /* more than minimum + MOST repeats add nothing within MOST letters */
    } repeats[] = {{"?", 0, 1},     {"*", 0, MOST}, {"+", 1, 1 + MOST},    {"{2}", 2, 2},
                   {"{0,2}", 0, 2}, {"{3}", 3, 3},  {"{2,}", 2, 2 + MOST}, {"{1,3}", 1, 3}};
    const struct language once = atom(maker, rule, depth);
    struct language made = {0}, times = {0};
    if (draw(maker, 4) > 0)
        return once;
    const unsigned which = draw(maker, sizeof repeats / sizeof *repeats);
    put(maker, "%s", repeats[which].written);
    add_text(&times, "");
    for (unsigned count = 0; count <= repeats[which].limit; count++) {
        if (count >= repeats[which].minimum)
            add_language(&made, &times);
        times = follow(&times, &once);
    }
    return made;
}

static struct language choice(struct maker *maker, unsigned rule, unsigned depth) {
    struct language made = {0};
    for (unsigned alternatives = 1 + draw(maker, 2); alternatives > 0; alternatives--) {
        struct language sequence = {0};
        add_text(&sequence, "");
        unsigned items = draw(maker, 12) == 0 ? 0 : 1 + draw(maker, 3);
        put(maker, items == 0 ? "\"\" " : "");
        for (; items > 0; items--) {
            const struct language next = item(maker, rule, depth);
            put(maker, " ");
            sequence = follow(&sequence, &next);
        }
        add_language(&made, &sequence);
        put(maker, "%s", alternatives > 1 ? "| " : "");
    }
    return made;
}

/* Makes a grammar and returns the language of its root. */
static struct language make(struct maker *maker, uint64_t seed) {
    *maker = (struct maker){.state = seed * 0x9e3779b97f4a7c15u};
    for (unsigned rule = RULES; rule > 0; rule--) {
        put(maker, "r-%u ::= ", rule - 1);
        maker->rules[rule - 1] = choice(maker, rule - 1, 2);
        put(maker, "\n");
    }
    put(maker, "root ::= r-0\n");
    return maker->rules[0];
}

/* Returns true if a text is refused because its match takes too many steps: the grammar is too ambiguous. */
static bool is_exhausted(const struct kvc_grammar *grammar, const char *letters) {
    struct kvc_matcher matcher;
    char text[MOST + 4];
    assert_true(kvc_matcher_open(&matcher, grammar));
    strcpy(text, letters);
    (void)kvc_matcher_possible(&matcher, text, strlen(letters));
    (void)kvc_matcher_whole(&matcher, text, strlen(letters));
    const bool exhausted = matcher.exhausted;
    kvc_matcher_close(&matcher);
    return exhausted;
}

/* Counts of texts: by result, and of those whose match took too many steps. */
struct counts {
    size_t results[3], exhausted;
};

/* Compares all texts of up to MOST letters. */
static void compare(const struct maker *maker, const struct language *language, struct counts *counts) {
    struct kvc_grammar *grammar;
    struct kvc_error error;
    if (kvc_grammar_open(KVC_GRAMMAR_GBNF, maker->text, maker->bytes, &grammar, &error) != KVC_OK)
        fail_msg("%s\n%s", maker->text, error.text);
    for (unsigned t = 0; t < TEXTS; t++) {
        const enum kvc_grammar_match wanted = language->whole[t]   ? KVC_GRAMMAR_WHOLE
                                              : language->begun[t] ? KVC_GRAMMAR_BEGUN
                                                                   : KVC_GRAMMAR_WRONG;
        enum kvc_grammar_match match;
        char letters[MOST + 1];
        spell(t, letters);
        FINE(kvc_grammar_check(grammar, letters, strlen(letters), &match, &error));
        counts->results[match]++;
        if (match == wanted)
            continue;
        if (!is_exhausted(grammar, letters))
            fail_msg("%s\n\"%s\": %d, not %d", maker->text, letters, match, wanted);
        counts->exhausted++;
    }
    kvc_grammar_close(grammar);
}

static void check_counts(const struct counts *counts) {
    print_message("%zu wrong, %zu begun, %zu whole; %zu took too many steps\n", counts->results[KVC_GRAMMAR_WRONG],
                  counts->results[KVC_GRAMMAR_BEGUN], counts->results[KVC_GRAMMAR_WHOLE], counts->exhausted);
    for (size_t i = 0; i < 3; i++)
        assert_true(counts->results[i] > 200 && counts->results[i] > 100 * counts->exhausted);
}

static void test_beside_sets(void **state) {
    (void)state;
    static struct maker maker;
    struct counts counts = {0};
    for (uint64_t seed = 1; seed <= (kvc_test_thinned() ? 60 : 3000); seed++) {
        const struct language language = make(&maker, seed);
        compare(&maker, &language, &counts);
    }
    check_counts(&counts);
}

/* Right recursion: root ::= LEFT root | LAST, whose texts are LEFT* LAST. */
static void test_recursion(void **state) {
    (void)state;
    static struct maker maker;
    struct counts counts = {0};
    for (uint64_t seed = 1; seed <= (kvc_test_thinned() ? 30 : 1000); seed++) {
        const struct language last = make(&maker, seed);
        struct language more = last;
        maker.bytes -= strlen("root ::= r-0\n");
        put(&maker, "left ::= ");
        struct language left = choice(&maker, RULES, 1), letter = {0};
        add_text(&letter, seed % 2 ? "a" : "b");
        left = follow(&letter, &left);
        put(&maker, "\nroot ::= \"%s\" left root | r-0\n", seed % 2 ? "a" : "b");
        for (unsigned times = 0; times < MOST; times++) {
            more = follow(&left, &more);
            add_language(&more, &last);
        }
        compare(&maker, &more, &counts);
    }
    check_counts(&counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_sets), cmocka_unit_test(test_recursion)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
