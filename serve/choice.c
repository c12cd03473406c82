/* choice.c - one growing answer: its tokens, their probabilities, its text, and its stop texts. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

#include "core/base/assert.h"

void serve_choice_free(struct serve_choice *choice) {
    /* usually NULL already, because the engine thread closes the session and the sampler */
    kvc_session_close(choice->session);
    kvc_sampler_close(choice->sampler);
    kvc_hash_close(choice->hash);
    serve_reader_free(&choice->reader);
    for (size_t i = 0; i < choice->record_count; i++)
        free(choice->records[i].best);
    free(choice->records);
    free(choice->held);
    free(choice->lost);
    free(choice->cells);
    free(choice->answer.items);
    serve_text_free(&choice->text);
    choice->session = NULL;
    choice->sampler = NULL;
    choice->hash = NULL;
}

enum kvc_status serve_choice_sampler(struct serve_choice *choice, struct kvc_error *error) {
    const struct serve_request *request = choice->request;
    const struct serve_values *values = &request->values;
    struct kvc_sampler_options options;
    kvc_sampler_defaults(&options);
    options.temperature = (float)values->temperature;
    options.top_k = (int32_t)values->top_k;
    options.top_p = (float)values->top_p;
    options.min_p = (float)values->min_p;
    options.repeat_penalty = (float)values->repeat_penalty;
    options.seed = (uint64_t)values->seed + choice->index % (uint64_t)values->n;
    enum kvc_status status = kvc_sampler_open(&options, request->serve->info->vocab, &choice->sampler, error);
    if (status == KVC_OK)
        status = kvc_sampler_penalties(choice->sampler, (float)values->frequency_penalty,
                                       (float)values->presence_penalty, error);
    return status == KVC_OK ? kvc_sampler_bias(choice->sampler, request->biases, request->bias_count, error) : status;
}

enum kvc_status serve_choice_begin(struct serve_choice *choice, struct kvc_error *error) {
    const struct serve_request *request = choice->request;
    return request->grammar
               ? kvc_sampler_grammar(choice->sampler, request->serve->model, request->grammar, choice->first, error)
               : KVC_OK;
}

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "answer: no memory"); }

bool serve_choice_record(struct serve_choice *choice, int32_t token, const float *logits) {
    const size_t top = choice->request->top;
    if (!choice->request->logprobs)
        return true;
    if (choice->record_count == choice->record_capacity) {
        const size_t capacity = choice->record_capacity ? 2 * choice->record_capacity : 64;
        struct serve_record *grown = realloc(choice->records, capacity * sizeof *grown);
        if (!grown)
            return false;
        choice->records = grown;
        choice->record_capacity = capacity;
    }
    struct serve_record record = {.token = token, .known = logits != NULL};
    if (logits && top > 0 && !(record.best = malloc(top * sizeof *record.best)))
        return false;
    if (logits)
        record.logprob = kvc_logprobs(logits, choice->request->serve->info->vocab, token, record.best, top);
    choice->records[choice->record_count++] = record;
    KVC_ASSERT(choice->record_count <= choice->record_capacity);
    return true;
}

/* Adds the name of a control token if it divides the answer into parts. */
static enum kvc_status add_name(struct serve_choice *choice, int32_t token, struct kvc_error *error) {
    char *name = NULL;
    size_t bytes;
    enum kvc_status status = kvc_detokenize(choice->request->serve->model, &token, 1, true, &name, &bytes, error);
    if (status == KVC_OK && serve_reader_wants(&choice->reader, name) && !serve_text_add(&choice->text, name, bytes))
        status = no_memory(error);
    free(name);
    return status;
}

static enum kvc_status add_text(struct serve_choice *choice, int32_t token, struct kvc_error *error) {
    char bytes[256], *more = bytes;
    size_t count;
    const struct kvc_model *model = choice->request->serve->model;
    enum kvc_status status = kvc_token_bytes(model, token, choice->first, bytes, sizeof bytes, &count, error);
    if (status != KVC_OK)
        return status;
    if (count > sizeof bytes) {
        if (!(more = malloc(count)))
            return no_memory(error);
        status = kvc_token_bytes(model, token, choice->first, more, count, &count, error);
    }
    if (status == KVC_OK && !serve_text_add(&choice->text, more, count))
        status = no_memory(error);
    if (status == KVC_OK && count == 0 && choice->request->chat)
        status = add_name(choice, token, error);
    if (count > 0)
        choice->first = false;
    if (more != bytes)
        free(more);
    return status;
}

static size_t stop_count(const struct serve_choice *choice) {
    const json_t *stop = choice->request->values.stop;
    return json_is_string(stop) ? 1 : json_array_size(stop);
}
static const json_t *stop_text(const struct serve_choice *choice, size_t i) {
    const json_t *stop = choice->request->values.stop;
    return json_is_string(stop) ? stop : json_array_get(stop, i);
}

/* Returns the offset of the first stop text that the last token completed, or SIZE_MAX if there is none. `before` is
 * the number of bytes of text before that token. */
static size_t find_stop(const struct serve_choice *choice, size_t before) {
    const struct serve_text *text = &choice->text;
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < stop_count(choice); i++) {
        const json_t *stop = stop_text(choice, i);
        const size_t length = json_string_length(stop);
        const size_t from = cli_max(choice->echoed, before >= length ? before - length + 1 : 0);
        const char *place = text->bytes >= from + length
                                ? memmem(text->data + from, text->bytes - from, json_string_value(stop), length)
                                : NULL;
        if (place)
            first = cli_min(first, (size_t)(place - text->data));
    }
    return first;
}

enum kvc_status serve_choice_token(struct serve_choice *choice, int32_t token, const float *logits, bool *stopped,
                                   struct kvc_error *error) {
    const size_t before = choice->text.bytes;
    *stopped = false;
    if (choice->answer.count == choice->capacity) {
        const size_t capacity = choice->capacity ? 2 * choice->capacity : 64;
        int32_t *grown = realloc(choice->answer.items, capacity * sizeof *grown);
        if (!grown)
            return no_memory(error);
        choice->answer.items = grown;
        choice->capacity = capacity;
    }
    choice->answer.items[choice->answer.count++] = token;
    KVC_ASSERT(choice->answer.count <= choice->capacity);
    if (!serve_choice_record(choice, token, logits))
        return no_memory(error);
    const enum kvc_status status = add_text(choice, token, error);
    const size_t at = status == KVC_OK ? find_stop(choice, before) : SIZE_MAX;
    if (at != SIZE_MAX) {
        *stopped = true;
        KVC_ASSERT(at >= choice->echoed && at < choice->text.bytes);
        choice->text.bytes = at;
        choice->text.data[at] = '\0';
    }
    return status;
}

enum kvc_status serve_choice_echo(struct serve_choice *choice, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    choice->first = true;
    for (size_t i = 0; i < choice->prompt->count && status == KVC_OK; i++)
        status = add_text(choice, choice->prompt->items[i], error);
    choice->echoed = choice->text.bytes;
    return status;
}

/* Returns the number of bytes of text that are final: neither a stop text nor the rest of a character can change
 * them. */
static size_t ready(const struct serve_choice *choice) {
    const struct serve_text *text = &choice->text;
    const size_t bytes = text->bytes;
    size_t most = 0;
    for (size_t i = 0; i < stop_count(choice); i++) {
        const json_t *stop = stop_text(choice, i);
        for (size_t n = json_string_length(stop) - 1; n > most; n--)
            if (n <= bytes - choice->echoed && memcmp(text->data + bytes - n, json_string_value(stop), n) == 0)
                most = n;
    }
    KVC_ASSERT(most <= bytes);
    return bytes ? bytes - most - cli_begun(text->data, bytes - most) : 0;
}

static void read_until(struct serve_choice *choice, size_t bytes) {
    if (choice->request->chat && bytes > choice->text_ready)
        serve_reader_read(&choice->reader, choice->text.data + choice->text_ready, bytes - choice->text_ready);
    choice->text_ready = bytes;
}

bool serve_choice_news(struct serve_choice *choice) {
    read_until(choice, cli_max(ready(choice), choice->text_ready));
    return choice->request->chat ? serve_message_news(choice) : choice->text_ready > choice->text_sent;
}

const char *serve_choice_end(struct serve_choice *choice, const char *why) {
    read_until(choice, choice->text.bytes);
    const bool cut = strcmp(why, "stop") != 0;
    return choice->request->chat && serve_reader_end(&choice->reader, cut) ? "tool_calls" : why;
}
