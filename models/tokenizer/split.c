/* split.c - pre-tokenization: splits text into words with the models' own patterns, through pcre2. */
#include "models/tokenizer/parts.h"

#include "core/base/assert.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- patterns ---- */

#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* Scripts that tokenizers' patterns use. In these patterns, a name stands for a character's own script. Since pcre2
 * 10.40 a name also matches characters that are used with the script, unless it has the prefix "sc". */
#if PCRE2_MAJOR > 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR >= 40)
#define OWN_SCRIPT "sc:"
#else
#define OWN_SCRIPT ""
#endif
static const char *const scripts[] = {"Han}",      "Hiragana}",   "Katakana}",  "Hangul}",   "Bopomofo}", "Latin}",
                                      "Cyrillic}", "Greek}",      "Arabic}",    "Hebrew}",   "Thai}",     "Lao}",
                                      "Khmer}",    "Myanmar}",    "Tibetan}",   "Bengali}",  "Tamil}",    "Telugu}",
                                      "Gujarati}", "Devanagari}", "Malayalam}", "Georgian}", "Armenian}", "Ethiopic}"};

/* Returns true if text, which follows \p or \P, names a script. */
static bool names_script(const char *text, size_t bytes) {
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (bytes > strlen(scripts[i]) && text[0] == '{' && !memcmp(text + 1, scripts[i], strlen(scripts[i])))
            return true;
    return false;
}

/* Translates an expression for pcre2. \s and \S become explicit, because pcre2's include U+180E, which has not been a
 * space since Unicode 6.3. Sets *nested if the expression has a class within a class or an intersection, which pcre2
 * would read as plain characters. */
static bool translate(const char *expression, size_t bytes, struct kvc_text *out, bool *nested) {
    bool inside = false;
    bool fits = true;
    *nested = false;
    for (size_t i = 0; i < bytes && fits; i++) {
        char c = expression[i];
        if (c == '\\' && i + 1 < bytes) {
            char next = expression[++i];
            if (next == 's')
                fits = inside ? kvc_text_add(out, SPACES, sizeof SPACES - 1)
                              : kvc_text_add(out, "[" SPACES "]", sizeof SPACES + 1);
            else if (next == 'S' && !inside)
                fits = kvc_text_add(out, "[^" SPACES "]", sizeof SPACES + 2);
            else if ((next == 'p' || next == 'P') && names_script(expression + i + 1, bytes - i - 1)) {
                fits = kvc_text_add(out, expression + i - 1, 2) && kvc_text_add(out, "{" OWN_SCRIPT, sizeof OWN_SCRIPT);
                i++; /* skips the brace */
            } else
                fits = kvc_text_add(out, expression + i - 1, 2);
            continue;
        }
        size_t take = 1;
        if (c == '[' && !inside) {
            inside = true;
            take += i + take < bytes && expression[i + take] == '^';
            take += i + take < bytes && expression[i + take] == ']';
        } else if (c == '[' && i + 1 < bytes && expression[i + 1] == ':') { /* [:name:] inside a class */
            while (i + take < bytes && expression[i + take] != ']')
                take++;
            take += i + take < bytes;
        } else if (c == ']') {
            inside = false;
        } else if (inside && (c == '[' || (c == '&' && i + 1 < bytes && expression[i + 1] == '&'))) {
            *nested = true;
        }
        fits = kvc_text_add(out, expression + i, take);
        i += take - 1;
    }
    return fits;
}

/* Returns the largest number after a '{', ignoring "\p{...}" and "\x{...}". */
static uint32_t most_repeats(const char *expression, size_t bytes) {
    uint32_t most = 0;
    for (size_t i = 0; i + 1 < bytes; i++) {
        uint32_t number = 0;
        if (expression[i] == '\\' && i + 2 < bytes) {
            const char next = expression[i + 1];
            i += (next == 'p' || next == 'P' || next == 'x') && expression[i + 2] == '{' ? 2 : 1;
            continue;
        }
        if (expression[i] != '{')
            continue;
        for (size_t at = i + 1; at < bytes && expression[at] >= '0' && expression[at] <= '9' && number < 100000; at++)
            number = 10 * number + (uint32_t)(expression[at] - '0');
        most = number > most ? number : most;
    }
    return most;
}

enum kvc_status kvc_pattern_compile(const char *expression, size_t bytes, const char *where,
                                    struct kvc_pattern *pattern, struct kvc_error *error) {
    struct kvc_text text = {0};
    bool nested;
    if (bytes > 100000)
        return kvc_fail(error, KVC_INPUT, "%s: a pattern of %zu bytes; at most 100000 are taken", where, bytes);
    pattern->expression = malloc(bytes + 1);
    if (!pattern->expression || !translate(expression, bytes, &text, &nested) || !kvc_text_add(&text, "", 1)) {
        kvc_text_free(&text);
        kvc_pattern_free(pattern);
        return kvc_no_memory(error);
    }
    if (nested) {
        kvc_text_free(&text);
        kvc_pattern_free(pattern);
        return kvc_fail(error, KVC_INPUT,
                        "%s: the split pattern '%.80s' has a class within a class, which is not supported", where,
                        expression);
    }
    memcpy(pattern->expression, expression, bytes);
    pattern->expression[memchr(expression, 0, bytes) ? 0 : bytes] = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        kvc_text_free(&text);
        kvc_pattern_free(pattern);
        return kvc_no_memory(error);
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int code = 0;
    PCRE2_SIZE offset = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)text.data, text.bytes - 1, options, &code, &offset, context);
    if (pattern->code)
        pattern->counted =
            pcre2_compile((PCRE2_SPTR)text.data, text.bytes - 1, options | PCRE2_AUTO_CALLOUT, &code, &offset, context);
    pcre2_compile_context_free(context);
    kvc_text_free(&text);
    if (!pattern->counted) {
        char reason[120] = "";
        kvc_pattern_free(pattern);
        if (code == PCRE2_ERROR_HEAP_FAILED)
            return kvc_no_memory(error);
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return kvc_fail(error, KVC_INPUT, "%s: a split pattern does not compile: %s", where, reason);
    }
    pattern->repeats = most_repeats(expression, bytes);
    return KVC_OK;
}

enum kvc_status kvc_pattern_literal(const char *text, size_t bytes, struct kvc_pattern *pattern,
                                    struct kvc_error *error) {
    pattern->literal = malloc(bytes + 1);
    if (!pattern->literal)
        return kvc_no_memory(error);
    memcpy(pattern->literal, text, bytes);
    pattern->literal[bytes] = 0;
    pattern->literal_bytes = bytes;
    return KVC_OK;
}

void kvc_pattern_free(struct kvc_pattern *pattern) {
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->counted);
    free(pattern->expression);
    free(pattern->literal);
    *pattern = (struct kvc_pattern){0};
}

/* ---- splitting ---- */

void kvc_words_free(struct kvc_words *words) {
    kvc_text_free(&words->text);
    free(words->spans);
    *words = (struct kvc_words){0};
}

static bool add_span(struct kvc_words *words, size_t at, size_t bytes) {
    if (!bytes)
        return true;
    void *spans = words->spans;
    if (!kvc_grow(&spans, &words->capacity, words->count, sizeof *words->spans))
        return false;
    words->spans = spans;
    words->spans[words->count++] = (struct kvc_span){at, bytes};
    return true;
}

/* State between the parts of a word: where the pending part began, and whether the last part matched. */
struct split_state {
    bool open, matched;
    size_t at, end;
};

/* Processes the next part of a word: a match, or the text between two matches. */
static bool take_part(const struct kvc_split_step *step, struct split_state *state, size_t at, size_t end, bool match,
                      struct kvc_words *out) {
    if (at == end)
        return true;
    match ^= step->invert;
    KVC_ASSERT(at < end);
    bool joins = false;
    switch (step->behavior) {
    case KVC_SPLIT_REMOVED:
        return match || add_span(out, at, end - at);
    case KVC_SPLIT_ISOLATED:
        return add_span(out, at, end - at);
    case KVC_SPLIT_MERGED_PREVIOUS:
        joins = match && !state->matched;
        break;
    case KVC_SPLIT_MERGED_NEXT: /* joins a match to the text after it, unless another match follows */
        joins = !match && state->matched;
        break;
    case KVC_SPLIT_CONTIGUOUS:
        joins = match == state->matched;
        break;
    }
    bool fits = true;
    if (!(joins && state->open)) {
        if (state->open)
            fits = add_span(out, state->at, state->end - state->at);
        state->at = at;
    }
    state->open = true;
    state->end = end;
    state->matched = match;
    return fits;
}

static enum kvc_status split_word(const struct kvc_split_step *step, const struct kvc_words *in, struct kvc_span word,
                                  struct kvc_words *out, struct kvc_error *error) {
    struct kvc_subject subject;
    const char *text = in->text.data + word.at;
    KVC_ASSERT(word.at + word.bytes <= in->text.bytes);
    if (!kvc_subject_open(&subject, text, word.bytes))
        return kvc_no_memory(error);
    struct split_state state = {0};
    size_t done = 0, from = 0;
    enum kvc_status status = KVC_OK;
    bool fits = true;
    while (fits && from <= word.bytes) {
        bool found;
        size_t start, end;
        status = kvc_pattern_find(&step->pattern, &subject, from, &found, &start, &end, error);
        if (status != KVC_OK || !found)
            break;
        if (start == end) {
            if (start >= word.bytes)
                break;
            uint32_t code;
            from = start + kvc_utf8_next(text + start, word.bytes - start, &code);
            continue;
        }
        fits = take_part(step, &state, word.at + done, word.at + start, false, out) &&
               take_part(step, &state, word.at + start, word.at + end, true, out);
        KVC_ASSERT(start >= done && end > start && end <= word.bytes);
        done = from = end;
    }
    kvc_subject_close(&subject);
    if (status != KVC_OK)
        return status;
    fits = fits && take_part(step, &state, word.at + done, word.at + word.bytes, false, out);
    if (fits && state.open)
        fits = add_span(out, state.at, state.end - state.at);
    return fits ? KVC_OK : kvc_no_memory(error);
}

/* Applies a step that changes the text. Rewrites out->text. */
static bool rewrite_word(const struct kvc_split_step *step, const char *text, size_t bytes, bool first,
                         struct kvc_words *out) {
    size_t begin = out->text.bytes;
    bool fits = true;
    if (step->kind == KVC_STEP_PREFIX_SPACE) {
        fits = (text[0] == ' ' || kvc_text_add(&out->text, " ", 1)) && kvc_text_add(&out->text, text, bytes);
        return fits && add_span(out, begin, out->text.bytes - begin);
    }
    if (step->kind == KVC_STEP_BYTES) {
        for (size_t i = 0; i < bytes && fits; i++) {
            char spelled[4];
            fits = kvc_text_add(&out->text, spelled, kvc_utf8_put(kvc_byte_to_char((unsigned char)text[i]), spelled));
        }
        return fits && add_span(out, begin, out->text.bytes - begin);
    }
    bool marked = text[0] == ' ' || (bytes >= step->mark_bytes && !memcmp(text, step->mark, step->mark_bytes));
    if (!marked && (step->prefix == KVC_PREFIX_ALWAYS || (step->prefix == KVC_PREFIX_FIRST && first)))
        fits = kvc_text_add(&out->text, step->mark, step->mark_bytes);
    for (size_t i = 0; i < bytes && fits; i++)
        fits = text[i] == ' ' ? kvc_text_add(&out->text, step->mark, step->mark_bytes)
                              : kvc_text_add(&out->text, text + i, 1);
    return fits && add_span(out, begin, out->text.bytes - begin);
}

enum kvc_status kvc_split(const struct kvc_split_step *steps, size_t count, const char *text, size_t bytes, bool first,
                          struct kvc_words *words, struct kvc_error *error) {
    words->text.bytes = 0;
    words->count = 0;
    if (!kvc_text_add(&words->text, text, bytes) || !add_span(words, 0, bytes))
        return kvc_no_memory(error);
    struct kvc_words next = {0};
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < count && status == KVC_OK; i++) {
        next.text.bytes = 0;
        next.count = 0;
        for (size_t k = 0; k < words->count && status == KVC_OK; k++) {
            struct kvc_span word = words->spans[k];
            if (steps[i].kind == KVC_STEP_SPLIT)
                status = split_word(&steps[i], words, word, &next, error);
            else if (!rewrite_word(&steps[i], words->text.data + word.at, word.bytes, first && word.at == 0, &next))
                status = kvc_no_memory(error);
        }
        struct kvc_words swap = *words;
        *words = next;
        next = swap;
        if (steps[i].kind == KVC_STEP_SPLIT) { /* splitting leaves the text unchanged, so reuse it */
            struct kvc_text same = next.text;
            next.text = words->text;
            words->text = same;
        }
    }
    kvc_words_free(&next);
    return status;
}
