/* grammar.c - opens grammars and compares texts with them.
 *
 * A grammar is a pattern of PCRE2. A partial match at the end of a text tells that the text can still become one of the
 * grammar's. */
#include "models/grammar/grammar.h"

#include "core/base/assert.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST (1u << 20)                   /* bytes of a grammar's text */
#define HEAP_LIMIT 65536u                      /* KiB that one match may use */
#define STEPS(bytes) (200u * (bytes) + 50000u) /* of one match */
#define COMPLETIONS 4096u                      /* ends of a character that are tried */

struct kvc_grammar {
    pcre2_code *code;
};

static enum kvc_status no_memory(struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "grammar: no memory");
}

/* Compiles a pattern. A pattern that the user wrote is named in the message by the offset of the fault. A match must be
 * of the whole text: PCRE2_EXTRA_MATCH_LINE, because partial matches exclude PCRE2_ENDANCHORED. */
static enum kvc_status compile(const char *regex, size_t bytes, bool users, pcre2_code **code,
                               struct kvc_error *error) {
    int number;
    PCRE2_SIZE at;
    PCRE2_UCHAR reason[200];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return no_memory(error);
    (void)pcre2_set_compile_extra_options(context, PCRE2_EXTRA_MATCH_LINE);
    *code = pcre2_compile((PCRE2_SPTR)regex, bytes,
                          PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &number,
                          &at, context);
    pcre2_compile_context_free(context);
    if (*code)
        return KVC_OK;
    if (number == PCRE2_ERROR_HEAP_FAILED)
        return no_memory(error);
    pcre2_get_error_message(number, reason, sizeof reason);
    if (users)
        return kvc_fail(error, KVC_USAGE, "regular expression, byte %zu: %s", (size_t)at, (const char *)reason);
    return kvc_fail(error, KVC_USAGE, "grammar: too large: %s", (const char *)reason);
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
        break;
    case KVC_GRAMMAR_JSON_SCHEMA:
        status = kvc_schema_regex(text, bytes, &regex, error);
        break;
    case KVC_GRAMMAR_GBNF:
        status = kvc_gbnf_regex(text, bytes, &regex, error);
        break;
    default:
        return kvc_fail(error, KVC_USAGE, "grammar: kind %d: there are 0 to %d", (int)kind, (int)KVC_GRAMMAR_GBNF);
    }
    if (status == KVC_OK && regex.failed)
        status = no_memory(error);
    if (status == KVC_OK && !(made = calloc(1, sizeof *made)))
        status = no_memory(error);
    if (status == KVC_OK) {
        const bool users = kind == KVC_GRAMMAR_REGEX;
        status = compile(users ? text : regex.text, users ? bytes : regex.bytes, users, &made->code, error);
        if (status == KVC_OK)
            *grammar = made;
        else
            free(made);
    }
    kvc_regex_free(&regex);
    return status;
}

void kvc_grammar_close(struct kvc_grammar *grammar) {
    if (!grammar)
        return;
    pcre2_code_free(grammar->code);
    free(grammar);
}

bool kvc_matcher_open(struct kvc_matcher *matcher, const struct kvc_grammar *grammar) {
    *matcher = (struct kvc_matcher){.grammar = grammar};
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->data || !matcher->context) {
        kvc_matcher_close(matcher);
        return false;
    }
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT);
    return true;
}

void kvc_matcher_close(struct kvc_matcher *matcher) {
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    matcher->data = matcher->context = NULL;
}

/* Returns PCRE2's result for text [bytes]. */
static int match(struct kvc_matcher *matcher, const char *text, size_t bytes) {
    pcre2_set_match_limit(matcher->context,
                          (uint32_t)(STEPS((uint64_t)bytes) < UINT32_MAX ? STEPS(bytes) : UINT32_MAX));
    const int result = pcre2_match(matcher->grammar->code, (PCRE2_SPTR)text, bytes, 0,
                                   PCRE2_ANCHORED | PCRE2_PARTIAL_SOFT, matcher->data, matcher->context);
    if (result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT ||
        result == PCRE2_ERROR_NOMEMORY)
        matcher->exhausted = true;
    return result;
}

static enum kvc_grammar_match meaning(int result) {
    return result >= 0 ? KVC_GRAMMAR_WHOLE : result == PCRE2_ERROR_PARTIAL ? KVC_GRAMMAR_BEGUN : KVC_GRAMMAR_WRONG;
}

/* Returns true if some character that begins with the bytes from `at` on keeps the text possible. Tries all ends of up
 * to two bytes. Of the ends of three bytes it tries each 64th, so a class of few rare characters may be missed. */
static bool can_complete(struct kvc_matcher *matcher, char *text, size_t bytes, unsigned missing) {
    for (uint32_t i = 0; i < COMPLETIONS && !matcher->exhausted; i++) {
        const uint32_t end = missing == 1 ? i : missing == 2 ? i : i << 6;
        if (missing == 1 && i == 64)
            return false;
        for (unsigned b = 0; b < missing; b++)
            text[bytes + b] = (char)(0x80 | (end >> 6 * (missing - 1 - b) & 63));
        if (meaning(match(matcher, text, bytes + missing)) != KVC_GRAMMAR_WRONG)
            return true;
    }
    return false;
}

enum kvc_grammar_match kvc_matcher_check(struct kvc_matcher *matcher, char *text, size_t bytes) {
    const int result = match(matcher, text, bytes);
    if (result <= PCRE2_ERROR_UTF8_ERR1 && result >= PCRE2_ERROR_UTF8_ERR3) { /* the last character is not complete */
        const unsigned missing = (unsigned)(PCRE2_ERROR_UTF8_ERR1 - result + 1);
        const size_t whole = pcre2_get_startchar(matcher->data);
        KVC_ASSERT(whole < bytes && missing <= 3);
        const bool possible = whole == 0 || meaning(match(matcher, text, whole)) != KVC_GRAMMAR_WRONG;
        return possible && can_complete(matcher, text, bytes, missing) ? KVC_GRAMMAR_BEGUN : KVC_GRAMMAR_WRONG;
    }
    if (bytes == 0 && result < 0) /* PCRE2 reports no partial match of an empty text */
        return KVC_GRAMMAR_BEGUN;
    return meaning(result);
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
    *result = kvc_matcher_check(&matcher, copy, bytes);
    kvc_matcher_close(&matcher);
    free(copy);
    return KVC_OK;
}
