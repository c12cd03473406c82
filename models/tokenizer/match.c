/* match.c - finds matches of patterns with pcre2, in time linear in the length of the text for every pattern.
 *
 * pcre2's own limits apply per starting offset and do not count the characters that a repeat passes. So a match is
 * first searched for within a few bytes and with a low limit, which nearly always suffices; a partial match tells that
 * pcre2 would have read further. If that fails, the pattern's second form runs over the whole text. The second form
 * calls back before each of its parts, and the callbacks count steps: the characters passed since the last callback,
 * plus those that a part may pass without a callback. The count is deterministic. */
#include "models/tokenizer/parts.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 64u          /* bytes of text in the first attempt */
#define NEAR_LIMIT 256u   /* pcre2's step limit in the first attempt */
#define HEAP_LIMIT 65536u /* KiB; pcre2's default is 20 GB */
#define STEPS_EACH 250u   /* steps per byte of text; patterns of real models take up to 30 */
#define STEPS_MORE 20000u

/* Called before each part of a pattern. A nonzero result ends the match. */
static int count_step(pcre2_callout_block *block, void *user) {
    struct kvc_subject *subject = user;
    const size_t at = block->current_position;
    const uint64_t steps = 1 + (at > subject->at ? at - subject->at : subject->at - at) + subject->unseen;
    subject->at = at;
    if (steps > subject->steps)
        return PCRE2_ERROR_CALLOUT;
    subject->steps -= steps;
    return 0;
}

bool kvc_subject_open(struct kvc_subject *subject, const char *text, size_t bytes) {
    *subject = (struct kvc_subject){.text = text ? text : "", .bytes = bytes};
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = kvc_utf8_next(text + at, bytes - at, &code);
        if (code == KVC_NOT_UTF8) {
            if (!subject->copy) {
                subject->copy = malloc(bytes);
                if (!subject->copy)
                    return false;
                memcpy(subject->copy, text, bytes);
                subject->text = subject->copy;
            }
            subject->copy[at] = 1;
        }
        at += length;
    }
    pcre2_match_context *near = pcre2_match_context_create(NULL), *counting = pcre2_match_context_create(NULL);
    subject->near = near;
    subject->counting = counting;
    subject->match_data = pcre2_match_data_create(1, NULL);
    if (!near || !counting || !subject->match_data) {
        kvc_subject_close(subject);
        return false;
    }
    subject->steps = subject->most_steps = STEPS_EACH * (uint64_t)bytes + STEPS_MORE;
    pcre2_set_match_limit(near, NEAR_LIMIT);
    pcre2_set_match_limit(counting, UINT32_MAX);
    pcre2_set_heap_limit(near, HEAP_LIMIT);
    pcre2_set_heap_limit(counting, HEAP_LIMIT);
    pcre2_set_callout(counting, count_step, subject);
    return true;
}

void kvc_subject_close(struct kvc_subject *subject) {
    free(subject->copy);
    pcre2_match_data_free(subject->match_data);
    pcre2_match_context_free(subject->near);
    pcre2_match_context_free(subject->counting);
    *subject = (struct kvc_subject){0};
}

static bool find_literal(const struct kvc_pattern *pattern, const struct kvc_subject *subject, size_t from,
                         size_t *start) {
    if (!pattern->literal_bytes)
        return false;
    while (from < subject->bytes && subject->bytes - from >= pattern->literal_bytes) {
        const char *hit = memchr(subject->text + from, pattern->literal[0], subject->bytes - from);
        if (!hit)
            return false;
        from = (size_t)(hit - subject->text);
        if (subject->bytes - from >= pattern->literal_bytes && !memcmp(hit, pattern->literal, pattern->literal_bytes)) {
            *start = from;
            return true;
        }
        from++;
    }
    return false;
}

/* Searches for a match at or after `from` within a few bytes and with a low limit. Returns an error if these bytes or
 * this limit do not suffice. */
static int match_near(const struct kvc_pattern *pattern, const struct kvc_subject *subject, size_t from) {
    size_t end = subject->bytes - from > NEAR ? from + NEAR : subject->bytes;
    while (end < subject->bytes && ((unsigned char)subject->text[end] & 0xc0) == 0x80)
        end++;
    const bool all = end == subject->bytes;
    const int result =
        pcre2_match(pattern->code, (PCRE2_SPTR)subject->text, end, from,
                    PCRE2_NO_UTF_CHECK | (all ? 0 : PCRE2_PARTIAL_HARD), subject->match_data, subject->near);
    if (all || result < 0)
        return all || result != PCRE2_ERROR_NOMATCH ? result : PCRE2_ERROR_PARTIAL;
    /* an empty match at the cut may be longer in the full text */
    return pcre2_get_ovector_pointer(subject->match_data)[0] < end ? result : PCRE2_ERROR_PARTIAL;
}

/* Searches the whole text and counts every step. */
static int match_counted(const struct kvc_pattern *pattern, struct kvc_subject *subject, size_t from) {
    uint32_t references = 0;
    pcre2_pattern_info(pattern->counted, PCRE2_INFO_BACKREFMAX, &references);
    subject->at = from;
    subject->unseen = references ? subject->bytes : pattern->repeats;
    subject->steps -= subject->steps < NEAR_LIMIT ? subject->steps : NEAR_LIMIT; /* the steps of the first attempt */
    return pcre2_match(pattern->counted, (PCRE2_SPTR)subject->text, subject->bytes, from, PCRE2_NO_UTF_CHECK,
                       subject->match_data, subject->counting);
}

enum kvc_status kvc_pattern_find(const struct kvc_pattern *pattern, struct kvc_subject *subject, size_t from,
                                 bool *found, size_t *start, size_t *end, struct kvc_error *error) {
    if (pattern->literal) {
        *found = find_literal(pattern, subject, from, start);
        *end = *found ? *start + pattern->literal_bytes : 0;
        return KVC_OK;
    }
    int result = match_near(pattern, subject, from);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        result = match_counted(pattern, subject, from);
    *found = result >= 0;
    if (result == PCRE2_ERROR_NOMATCH)
        return KVC_OK;
    if (result == PCRE2_ERROR_NOMEMORY)
        return kvc_no_memory(error);
    if (result == PCRE2_ERROR_CALLOUT || result == PCRE2_ERROR_MATCHLIMIT)
        return kvc_fail(error, KVC_INPUT,
                        "tokenizer: the split pattern '%.80s' takes more than %llu steps for a text of %zu bytes, at "
                        "byte %zu: must not try the same characters over and over",
                        pattern->expression, (unsigned long long)subject->most_steps, subject->bytes, from);
    if (result < 0) {
        char reason[120] = "";
        pcre2_get_error_message(result, (PCRE2_UCHAR *)reason, sizeof reason);
        return kvc_fail(error, KVC_INPUT, "tokenizer: the split pattern '%.80s' fails at byte %zu of the text: %s",
                        pattern->expression, from, reason);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(subject->match_data);
    *start = ends[0];
    *end = ends[1];
    if (*start < from || *end < *start || *end > subject->bytes) /* \K in a lookaround can cause this */
        return kvc_fail(error, KVC_INPUT, "tokenizer: a split pattern matches backwards at byte %zu of the text", from);
    return KVC_OK;
}
