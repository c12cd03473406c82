/* grammar.c - opens grammars and compares texts with them.
 *
 * A grammar is a pattern of PCRE2. A partial match at the end of a text shows that the text is the beginning of a text
 * of the grammar. */
#include "models/grammar/grammar.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST (1u << 20) /* bytes of a grammar's text */
#define HEAP_LIMIT 65536u    /* KiB that one match may use */
/* Limits on the steps of one match. Ordinary texts need 2 to 6 steps for each byte. If a match exceeds the first limit,
 * it is tried again with higher limits, until the matches of a token have used STEPS_OF_TOKEN steps. So a hostile
 * grammar cannot delay other work for long, however many tokens are compared. */
#define STEPS_FIRST(bytes) (16u * (uint64_t)(bytes) + 4000u)
#define STEPS_MOST(bytes) (200u * (uint64_t)(bytes) + 50000u)
#define STEPS_OF_TOKEN 50000000u
#define SAMPLES 64u        /* maximum number of other characters to try if the boundary code points are not exact */
#define STACK_FIRST 65536u /* bytes of the stack of compiled patterns */
#define STACK_MOST (16u << 20)

struct kvc_grammar {
    pcre2_code *code;
    struct kvc_points points;
    bool names; /* see kvc_grammar_names */
};

bool kvc_grammar_names(const struct kvc_grammar *grammar) { return grammar->names; }

static enum kvc_status no_memory(struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "grammar: no memory");
}

/* Compiles a pattern. For a user's expression, the message gives the offset of the error. PCRE2_EXTRA_MATCH_LINE makes
 * a match cover the whole text, because partial matches exclude PCRE2_ENDANCHORED. PCRE2_ANCHORED is an option of the
 * pattern, because pcre2_match with this option would not use the machine code. */
static enum kvc_status compile(const struct kvc_regex *regex, bool users, pcre2_code **code, struct kvc_error *error) {
    int number;
    PCRE2_SIZE at;
    PCRE2_UCHAR reason[200];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return no_memory(error);
    (void)pcre2_set_compile_extra_options(context, PCRE2_EXTRA_MATCH_LINE);
    *code = pcre2_compile((PCRE2_SPTR)regex->text, regex->bytes,
                          PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY |
                              PCRE2_NO_AUTO_CAPTURE,
                          &number, &at, context);
    pcre2_compile_context_free(context);
    if (*code) {
        (void)pcre2_jit_compile(*code,
                                PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD); /* without it, matches are slower */
        return KVC_OK;
    }
    if (number == PCRE2_ERROR_HEAP_FAILED)
        return no_memory(error);
    pcre2_get_error_message(number, reason, sizeof reason);
    if (users)
        return kvc_fail(error, KVC_USAGE, "regular expression, byte %zu: %s", (size_t)at, (const char *)reason);
    const bool large = number == PCRE2_ERROR_PATTERN_TOO_LARGE || number == PCRE2_ERROR_PATTERN_TOO_COMPLICATED;
    return kvc_fail(error, KVC_USAGE, "grammar: %s%s", large ? "too large: " : "", (const char *)reason);
}

enum kvc_status kvc_grammar_open(enum kvc_grammar_kind kind, const char *text, size_t bytes,
                                 struct kvc_grammar **grammar, struct kvc_error *error) {
    struct kvc_regex regex = {0};
    struct kvc_grammar *made;
    enum kvc_status status = KVC_OK;
    *grammar = NULL;
    if (bytes > TEXT_MOST)
        return kvc_fail(error, KVC_USAGE, "grammar: %zu bytes; at most %u", bytes, TEXT_MOST);
    switch (kind) {
    case KVC_GRAMMAR_REGEX:
        kvc_regex_add(&regex, text, bytes);
        break;
    case KVC_GRAMMAR_JSON_SCHEMA:
        status = kvc_schema_regex(text, bytes, &regex, error);
        break;
    case KVC_GRAMMAR_GBNF:
        status = kvc_gbnf_regex(text, bytes, &regex, error);
        break;
    case KVC_GRAMMAR_SEQUENCE:
        status = kvc_sequence_regex(text, bytes, &regex, error);
        break;
    default:
        return kvc_fail(error, KVC_USAGE, "grammar: kind %d: there are 0 to %d", (int)kind, (int)KVC_GRAMMAR_SEQUENCE);
    }
    if (status == KVC_OK && regex.failed)
        status = no_memory(error);
    if (status == KVC_OK && !(made = calloc(1, sizeof *made)))
        status = no_memory(error);
    if (status == KVC_OK) {
        made->names = kind == KVC_GRAMMAR_SEQUENCE;
        status = compile(&regex, kind == KVC_GRAMMAR_REGEX, &made->code, error);
        if (status == KVC_OK && !kvc_points_find(&made->points, regex.text, regex.bytes))
            status = no_memory(error);
        if (status == KVC_OK)
            *grammar = made;
        else
            kvc_grammar_close(made);
    }
    kvc_regex_free(&regex);
    return status;
}

void kvc_grammar_close(struct kvc_grammar *grammar) {
    if (!grammar)
        return;
    pcre2_code_free(grammar->code);
    free(grammar->points.items);
    free(grammar);
}

bool kvc_matcher_open(struct kvc_matcher *matcher, const struct kvc_grammar *grammar) {
    *matcher = (struct kvc_matcher){.grammar = grammar};
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
    if (!matcher->data || !matcher->context) {
        kvc_matcher_close(matcher);
        return false;
    }
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT);
    kvc_matcher_refill(matcher);
    return true;
}

void kvc_matcher_refill(struct kvc_matcher *matcher) { matcher->steps_left = STEPS_OF_TOKEN; }

void kvc_matcher_close(struct kvc_matcher *matcher) {
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    matcher->data = matcher->context = matcher->stack = NULL;
}

/* Returns PCRE2's result for text [bytes]. PCRE2_PARTIAL_HARD ends a match at the first way to reach the end of the
 * text, so a possible text takes few steps even if the pattern is ambiguous. */
static int match(struct kvc_matcher *matcher, const char *text, size_t bytes, uint32_t options) {
    uint64_t limit = STEPS_FIRST(bytes);
    int result;
    for (;;) {
        pcre2_set_match_limit(matcher->context, (uint32_t)kvc_min_u64(limit, UINT32_MAX));
        result =
            pcre2_match(matcher->grammar->code, (PCRE2_SPTR)text, bytes, 0, options, matcher->data, matcher->context);
        if (result != PCRE2_ERROR_MATCHLIMIT || limit >= STEPS_MOST(bytes))
            break;
        limit = kvc_min_u64(4 * limit, STEPS_MOST(bytes));
        if (limit > matcher->steps_left)
            break;
        matcher->steps_left -= limit;
    }
    if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT ||
        result == PCRE2_ERROR_NOMEMORY || result == PCRE2_ERROR_JIT_STACKLIMIT)
        matcher->exhausted = true;
    matcher->no_memory = matcher->no_memory || result == PCRE2_ERROR_NOMEMORY;
    return result;
}

static bool reaches_end(int result) { return result >= 0 || result == PCRE2_ERROR_PARTIAL; }

/* Completes the text with the last `missing` bytes of the character `code`. Returns true if the text can still begin a
 * text of the grammar. */
static bool can_be(struct kvc_matcher *matcher, char *text, size_t bytes, unsigned missing, uint32_t code) {
    for (unsigned b = 0; b < missing; b++)
        text[bytes + b] = (char)(0x80 | (code >> 6 * (missing - 1 - b) & 63));
    return !matcher->exhausted && reaches_end(match(matcher, text, bytes + missing, PCRE2_PARTIAL_HARD));
}

/* Returns true if some character that begins with the bytes from `whole` on keeps the text possible. Tries one
 * character between each two neighbouring points of the pattern. If the points are not exact, it also tries some
 * others, so it may miss a class of rare characters. */
static bool can_complete(struct kvc_matcher *matcher, char *text, size_t whole, size_t bytes, unsigned missing) {
    static const uint32_t least[] = {0x80, 0x800, 0x10000}; /* smallest characters of 2, 3 and 4 bytes */
    const struct kvc_points *points = &matcher->grammar->points;
    const size_t length = bytes - whole + missing;
    uint32_t low = (unsigned char)text[whole] & (0x7fu >> length);
    for (size_t i = whole + 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) /* PCRE2 has looked at the first byte only */
            return false;
        low = low << 6 | ((unsigned char)text[i] & 63);
    }
    low <<= 6 * missing;
    uint32_t high = low | ((1u << 6 * missing) - 1);
    KVC_ASSERT(length >= 2 && missing >= 1);
    if (length > 4) /* no character begins with a byte above 0xf7 */
        return false;
    low = low > least[length - 2] ? low : least[length - 2];
    high = high < 0x10ffff ? high : 0x10ffff;
    if (low > high)
        return false;
    const uint32_t step = points->exact ? high - low + 1 : (high - low) / SAMPLES + 1;
    bool possible = false;
    for (uint32_t code = low; code <= high && !possible && !matcher->exhausted; code += step)
        possible = can_be(matcher, text, bytes, missing, code);
    for (size_t i = 0; i < points->count && !possible && points->items[i] <= high; i++)
        if (points->items[i] > low && (i == 0 || points->items[i] != points->items[i - 1]))
            possible = can_be(matcher, text, bytes, missing, points->items[i]);
    return possible;
}

bool kvc_matcher_possible(struct kvc_matcher *matcher, char *text, size_t bytes) {
    matcher->exhausted = false;
    const int result = match(matcher, text, bytes, PCRE2_PARTIAL_HARD);
    if (result > PCRE2_ERROR_UTF8_ERR1 || result < PCRE2_ERROR_UTF8_ERR3)
        return bytes == 0 || reaches_end(result); /* PCRE2 reports no partial match of an empty text */
    /* The last character is not complete. */
    const unsigned missing = (unsigned)(PCRE2_ERROR_UTF8_ERR1 - result + 1);
    const size_t whole = pcre2_get_startchar(matcher->data);
    KVC_ASSERT(whole < bytes && missing <= 3);
    return (whole == 0 || reaches_end(match(matcher, text, whole, PCRE2_PARTIAL_HARD))) &&
           can_complete(matcher, text, whole, bytes, missing);
}

bool kvc_matcher_whole(struct kvc_matcher *matcher, const char *text, size_t bytes) {
    return match(matcher, text, bytes, 0) >= 0;
}

enum kvc_status kvc_grammar_check(const struct kvc_grammar *grammar, const char *text, size_t bytes,
                                  enum kvc_grammar_match *result, struct kvc_error *error) {
    struct kvc_matcher matcher;
    char *copy = malloc(bytes + 4);
    if (!copy)
        return no_memory(error);
    if (!kvc_matcher_open(&matcher, grammar)) {
        free(copy);
        return no_memory(error);
    }
    if (bytes > 0)
        memcpy(copy, text, bytes);
    *result = !kvc_matcher_possible(&matcher, copy, bytes) ? KVC_GRAMMAR_WRONG
              : kvc_matcher_whole(&matcher, copy, bytes)   ? KVC_GRAMMAR_WHOLE
                                                           : KVC_GRAMMAR_BEGUN;
    kvc_matcher_close(&matcher);
    free(copy);
    return matcher.no_memory ? no_memory(error) : KVC_OK;
}
