/* spans.c - decodes a prompt's tokens, and finds the tokens of a piece of text. */
#include "eval/trace.h"
#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

enum kvc_status eval_prompt_text_open(const struct kvc_model *model, const struct eval_prompt *prompt,
                                      struct eval_prompt_text *text, struct kvc_error *error) {
    size_t capacity = 8 * prompt->count + 64;
    *text = (struct eval_prompt_text){.tokens = prompt->count};
    text->bytes = malloc(capacity + 1);
    text->ends = calloc(prompt->count + 1, sizeof *text->ends);
    enum kvc_status status = text->bytes && text->ends ? KVC_OK : no_memory(error);
    for (size_t i = 0; i < prompt->count && status == KVC_OK; i++) {
        size_t bytes = 0;
        status = kvc_token_bytes(model, prompt->tokens[i], false, text->bytes + text->count, capacity - text->count,
                                 &bytes, error);
        if (status == KVC_OK && bytes > capacity - text->count) { /* tries again with enough room */
            char *more = realloc(text->bytes, 2 * (capacity + bytes) + 1);
            if (!more) {
                status = no_memory(error);
                break;
            }
            text->bytes = more;
            capacity = 2 * (capacity + bytes);
            status = kvc_token_bytes(model, prompt->tokens[i], false, text->bytes + text->count, capacity - text->count,
                                     &bytes, error);
        }
        for (size_t b = 0; status == KVC_OK && b < bytes; b++) { /* a NUL would end the text when it is read back */
            if (text->bytes[text->count + b] == 0)
                text->bytes[text->count + b] = '?';
        }
        text->count += status == KVC_OK ? bytes : 0;
        KVC_ASSERT(text->count <= capacity);
        text->ends[i] = text->count;
    }
    if (text->bytes)
        text->bytes[text->count] = '\0';
    return status;
}

void eval_prompt_text_free(struct eval_prompt_text *text) {
    free(text->bytes);
    free(text->ends);
    *text = (struct eval_prompt_text){0};
}

json_t *eval_prompt_text_json(const struct eval_prompt_text *text) {
    json_t *tokens = json_array();
    size_t from = 0;
    for (size_t i = 0; i < text->tokens; i++) {
        KVC_ASSERT(text->ends[i] >= from);
        const size_t bytes = text->ends[i] - from;
        const bool ends = i + 1 == text->tokens || bytes == 0 || cli_begun(text->bytes + from, bytes) == 0;
        json_array_append_new(tokens, cli_json_text(text->bytes + from, ends ? bytes : 0));
        from = ends ? text->ends[i] : from;
    }
    return tokens;
}

/* Returns the next position of `what` at or after `at`, or the text's length. */
static size_t spans_find(const struct eval_prompt_text *text, const char *what, size_t bytes, size_t at) {
    for (; at + bytes <= text->count; at++) {
        if (memcmp(text->bytes + at, what, bytes) == 0)
            return at;
    }
    return text->count;
}

enum kvc_status eval_spans_add(struct eval_spans *spans, const struct eval_prompt_text *text, const char *what,
                               size_t skip, bool *there, struct kvc_error *error) {
    const size_t bytes = strlen(what);
    size_t at = bytes ? spans_find(text, what, bytes, 0) : text->count, first = 0;
    for (; skip > 0 && at < text->count; skip--)
        at = spans_find(text, what, bytes, at + 1);
    *there = at < text->count;
    if (!*there)
        return KVC_OK;
    struct eval_traced_span *items = realloc(spans->items, (spans->count + 1) * sizeof *items);
    if (!items)
        return no_memory(error);
    spans->items = items;
    while (text->ends[first] <= at)
        first++;
    KVC_ASSERT(first < text->tokens);
    size_t end = first + 1;
    while (end < text->tokens && text->ends[end - 1] < at + bytes)
        end++;
    char *copy = strdup(what);
    if (!copy)
        return no_memory(error);
    items[spans->count++] = (struct eval_traced_span){copy, first, end - first};
    return KVC_OK;
}

void eval_spans_free(struct eval_spans *spans) {
    for (size_t i = 0; i < spans->count; i++)
        free(spans->items[i].what);
    free(spans->items);
    *spans = (struct eval_spans){NULL, 0};
}
