/* answer.c - writes answers and errors in the format of OpenAI's interface. */
#include <stdlib.h>
#include <string.h>

#include "serve/serve.h"

void serve_error_json(struct serve_text *text, const struct serve_error *error) {
    serve_text_put(text, "{\"error\":{\"message\":");
    serve_text_string(text, error->text, strlen(error->text));
    serve_text_print(text, ",\"type\":\"%s\",\"param\":", error->type);
    if (error->param[0])
        serve_text_string(text, error->param, strlen(error->param));
    else
        serve_text_put(text, "null");
    if (error->code)
        serve_text_print(text, ",\"code\":\"%s\"}}", error->code);
    else
        serve_text_put(text, ",\"code\":null}}");
}

/* ---- tokens and their probabilities ---- */

/* Writes the text of one token: for a control token its name, for text that is not valid UTF-8 its bytes, such as
 * bytes:\xe2\x82. */
static void token_text(const struct serve *serve, int32_t token, struct serve_text *piece) {
    char bytes[256], *named = NULL;
    size_t count = 0;
    struct kvc_error error;
    enum cli_part kind;
    bool whole = true;
    piece->bytes = 0;
    serve_text_put(piece, "");
    if (kvc_token_bytes(serve->model, token, false, bytes, sizeof bytes, &count, &error) == KVC_OK && count == 0 &&
        kvc_detokenize(serve->model, &token, 1, true, &named, &count, &error) == KVC_OK)
        serve_text_add(piece, named, count);
    else
        serve_text_add(piece, bytes, cli_min(count, sizeof bytes));
    free(named);
    for (size_t i = 0; i < piece->bytes && whole;) {
        i += cli_part(piece->data + i, piece->bytes - i, &kind);
        whole = kind == CLI_CHARACTER;
    }
    if (whole)
        return;
    count = cli_min(count, sizeof bytes);
    piece->bytes = 0;
    serve_text_put(piece, "bytes:");
    for (size_t i = 0; i < count; i++)
        serve_text_print(piece, "\\x%02x", (unsigned char)bytes[i]);
}

static void put_piece(struct serve_text *text, const struct serve *serve, int32_t token, struct serve_text *piece) {
    token_text(serve, token, piece);
    serve_text_string(text, piece->data ? piece->data : "", piece->bytes);
}

/* Writes a token of a chat's answer: its text, log probability and bytes. The caller closes the JSON object. */
static void put_chat_token(struct serve_text *text, const struct serve *serve, int32_t token, float logprob,
                           struct serve_text *piece) {
    char bytes[256];
    size_t count = 0;
    struct kvc_error error;
    serve_text_put(text, "{\"token\":");
    put_piece(text, serve, token, piece);
    serve_text_put(text, ",\"logprob\":");
    serve_text_number(text, (double)logprob);
    serve_text_put(text, ",\"bytes\":[");
    if (kvc_token_bytes(serve->model, token, false, bytes, sizeof bytes, &count, &error) != KVC_OK)
        count = 0;
    for (size_t i = 0; i < cli_min(count, sizeof bytes); i++)
        serve_text_print(text, "%s%u", i ? "," : "", (unsigned char)bytes[i]);
    serve_text_put(text, "]");
}

static void put_chat_logprobs(struct serve_text *text, const struct serve_choice *choice, size_t from) {
    const struct serve *serve = choice->request->serve;
    struct serve_text piece = {0};
    serve_text_put(text, "{\"content\":[");
    for (size_t i = from; i < choice->record_count; i++) {
        const struct serve_record *record = &choice->records[i];
        serve_text_put(text, i > from ? "," : "");
        put_chat_token(text, serve, record->token, record->logprob, &piece);
        serve_text_put(text, ",\"top_logprobs\":[");
        for (size_t k = 0; k < choice->request->top && record->best[k].token >= 0; k++) {
            serve_text_put(text, k ? "," : "");
            put_chat_token(text, serve, record->best[k].token, record->best[k].logprob, &piece);
            serve_text_put(text, "}");
        }
        serve_text_put(text, "]}");
    }
    serve_text_put(text, "],\"refusal\":null}");
    serve_text_free(&piece);
}

/* Returns the number of characters that begin in a token's text. */
static size_t characters(const struct serve *serve, int32_t token) {
    char bytes[256];
    size_t size = 0, count = 0;
    struct kvc_error error;
    if (kvc_token_bytes(serve->model, token, false, bytes, sizeof bytes, &size, &error) != KVC_OK)
        return 0;
    for (size_t i = 0; i < cli_min(size, sizeof bytes); i++)
        count += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return count;
}

static void put_best(struct serve_text *text, const struct serve_choice *choice, const struct serve_record *record,
                     struct serve_text *piece) {
    if (!record->known) {
        serve_text_put(text, "null");
        return;
    }
    serve_text_put(text, "{");
    for (size_t k = 0; k < choice->request->top && record->best[k].token >= 0; k++) {
        serve_text_put(text, k ? "," : "");
        put_piece(text, choice->request->serve, record->best[k].token, piece);
        serve_text_put(text, ":");
        serve_text_number(text, (double)record->best[k].logprob);
    }
    serve_text_put(text, "}");
}

/* Writes the log probabilities of the API `completions`. *offset is the number of characters before the first record;
 * it becomes the number before the next record. */
static void put_logprobs(struct serve_text *text, const struct serve_choice *choice, size_t from, size_t *offset) {
    const struct serve *serve = choice->request->serve;
    struct serve_text piece = {0}, offsets = {0};
    serve_text_put(text, "{\"tokens\":[");
    for (size_t i = from; i < choice->record_count; i++) {
        serve_text_put(text, i > from ? "," : "");
        put_piece(text, serve, choice->records[i].token, &piece);
        serve_text_print(&offsets, "%s%zu", i > from ? "," : "", *offset);
        *offset += characters(serve, choice->records[i].token);
    }
    serve_text_put(text, "],\"token_logprobs\":[");
    for (size_t i = from; i < choice->record_count; i++) {
        serve_text_put(text, i > from ? "," : "");
        if (choice->records[i].known)
            serve_text_number(text, (double)choice->records[i].logprob);
        else
            serve_text_put(text, "null");
    }
    serve_text_put(text, "],\"top_logprobs\":");
    if (choice->request->top == 0) {
        serve_text_put(text, "null");
    } else {
        for (size_t i = from; i < choice->record_count; i++) {
            serve_text_put(text, i > from ? "," : "[");
            put_best(text, choice, &choice->records[i], &piece);
        }
        serve_text_put(text, choice->record_count > from ? "]" : "[]");
    }
    serve_text_put(text, ",\"text_offset\":[");
    serve_text_add(text, offsets.data ? offsets.data : "", offsets.bytes);
    serve_text_put(text, "]}");
    serve_text_free(&piece);
    serve_text_free(&offsets);
}

static void put_pieces(struct serve_text *text, const struct serve_choice *choice, const char *name,
                       const struct serve_tokens *tokens, size_t from) {
    struct serve_text piece = {0};
    serve_text_print(text, ",\"%s\":[", name);
    for (size_t i = from; i < tokens->count; i++) {
        serve_text_put(text, i > from ? "," : "");
        put_piece(text, choice->request->serve, tokens->items[i], &piece);
    }
    serve_text_put(text, "]");
    serve_text_free(&piece);
}

/* ---- answers ---- */

static void put_head(struct serve_text *text, const struct serve_request *request, bool chunk) {
    const struct serve *serve = request->serve;
    serve_text_print(text, "{\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%lld,\"model\":",
                     request->chat ? "chatcmpl" : "cmpl", (unsigned long long)request->id,
                     !request->chat ? "text_completion"
                     : chunk        ? "chat.completion.chunk"
                                    : "chat.completion",
                     (long long)request->created);
    serve_text_string(text, serve->name, strlen(serve->name));
    serve_text_print(text, ",\"system_fingerprint\":\"kvcull-%s-arithmetic-%d\",\"choices\":[", KVC_VERSION,
                     KVC_ARITHMETIC_VERSION);
}

static void put_ids(struct serve_text *text, const struct serve_choice *choice, size_t from, bool first) {
    if (choice->request->values.return_held && first)
        put_pieces(text, choice, "prompt_pieces", choice->prompt, 0);
    if (choice->request->values.return_held)
        put_pieces(text, choice, "pieces", &choice->answer, from);
    if (!choice->request->values.return_token_ids)
        return;
    serve_text_put(text, ",\"token_ids\":[");
    for (size_t i = from; i < choice->answer.count; i++)
        serve_text_print(text, "%s%d", i > from ? "," : "", choice->answer.items[i]);
    serve_text_put(text, "]");
}

static void put_finish(struct serve_text *text, const struct serve_choice *choice, bool more) {
    if (choice->finish && !more)
        serve_text_print(text, ",\"finish_reason\":\"%s\"", choice->finish);
    else
        serve_text_put(text, ",\"finish_reason\":null");
    if (choice->finish && !more && choice->hash)
        serve_text_print(text, ",\"logits_hash\":\"%016llx\"", (unsigned long long)kvc_hash_value(choice->hash));
}

static void put_choice_logprobs(struct serve_text *text, const struct serve_choice *choice, size_t from,
                                size_t *offset) {
    serve_text_put(text, ",\"logprobs\":");
    if (!choice->request->logprobs)
        serve_text_put(text, "null");
    else if (choice->request->chat)
        put_chat_logprobs(text, choice, from);
    else
        put_logprobs(text, choice, from, offset);
}

static void put_usage(struct serve_text *text, const struct serve_request *request) {
    uint64_t prompt = 0, answer = 0, cached = 0, cache = 0, state = 0, read = 0, full = 0, entries = 0, peak = 0;
    for (size_t i = 0; i < request->prompt_count; i++)
        prompt += request->prompts[i].count;
    for (size_t i = 0; i < request->choice_count; i++) {
        const struct serve_choice *choice = &request->choices[i];
        answer += choice->answer.count;
        cached += choice->index % (uint64_t)request->values.n == 0 ? choice->cached : 0;
        cache += choice->stats.cache_bytes;
        state += choice->stats.state_bytes;
        read += choice->stats.read_bytes;
        full += choice->stats.full_bytes;
        entries += choice->stats.entries;
        peak += choice->stats.peak_bytes;
    }
    serve_text_print(text,
                     "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%llu},\"kv\":{\"policy\":",
                     (unsigned long long)prompt, (unsigned long long)answer, (unsigned long long)(prompt + answer),
                     (unsigned long long)cached);
    serve_text_string(text, request->spec, strlen(request->spec));
    serve_text_print(text,
                     ",\"cache_bytes\":%llu,\"state_bytes\":%llu,\"read_bytes\":%llu,\"full_bytes\":%llu,"
                     "\"entries\":%llu,\"peak_bytes\":%llu}}",
                     (unsigned long long)cache, (unsigned long long)state, (unsigned long long)read,
                     (unsigned long long)full, (unsigned long long)entries, (unsigned long long)peak);
}

void serve_answer_json(struct serve_text *text, const struct serve_request *request) {
    put_head(text, request, false);
    for (size_t i = 0; i < request->choice_count; i++) {
        struct serve_choice *choice = &request->choices[i];
        size_t offset = 0;
        serve_text_print(text, "%s{\"index\":%u,", i ? "," : "", choice->index);
        serve_text_put(text, request->chat ? "\"message\":" : "\"text\":");
        if (request->chat)
            serve_message_put(text, choice);
        else
            serve_text_string(text, choice->text.data ? choice->text.data : "", choice->text.bytes);
        put_choice_logprobs(text, choice, 0, &offset);
        put_ids(text, choice, 0, true);
        serve_held_put(text, choice);
        put_finish(text, choice, false);
        serve_text_put(text, "}");
    }
    serve_text_put(text, "],");
    put_usage(text, request);
    serve_text_put(text, "}");
}

/* Appends an event. Returns true if another one must follow, because an event of a chat has only one part of the
 * message. */
static bool put_event(struct serve_text *text, struct serve_choice *choice) {
    const struct serve_request *request = choice->request;
    const char *data = choice->text.data ? choice->text.data + choice->text_sent : "";
    serve_text_put(text, "data: ");
    put_head(text, request, true);
    serve_text_print(text, "{\"index\":%u,", choice->index);
    if (request->chat) {
        serve_message_delta(text, choice);
    } else {
        serve_text_put(text, "\"text\":");
        serve_text_string(text, data, choice->text_ready - choice->text_sent);
    }
    const bool more = request->chat && !choice->reader.failed && serve_message_news(choice);
    put_choice_logprobs(text, choice, choice->records_sent, &choice->offset);
    put_ids(text, choice, choice->tokens_sent, !choice->said);
    serve_held_put(text, choice);
    put_finish(text, choice, more);
    serve_text_put(text, "}]}\n\n");
    choice->said = true;
    choice->text_sent = choice->text_ready;
    choice->records_sent = choice->record_count;
    choice->tokens_sent = choice->answer.count;
    return more;
}

void serve_answer_chunk(struct serve_text *text, struct serve_choice *choice) {
    while (put_event(text, choice))
        continue;
}

void serve_answer_progress(struct serve_text *text, const struct serve_choice *choice, size_t tokens, double seconds) {
    const struct serve_request *request = choice->request;
    serve_text_put(text, "data: ");
    put_head(text, request, true);
    serve_text_print(text, "{\"index\":%u,%s,\"finish_reason\":null}]", choice->index,
                     request->chat ? "\"delta\":{}" : "\"text\":\"\"");
    serve_text_print(text, ",\"prompt_progress\":{\"total\":%zu,\"cache\":%zu,\"processed\":%zu,\"time_ms\":%.0f}}\n\n",
                     choice->prompt->count, choice->cached, tokens, 1000 * seconds);
}

void serve_answer_end(struct serve_text *text, const struct serve_request *request) {
    if (request->values.include_usage) {
        serve_text_put(text, "data: ");
        put_head(text, request, true);
        serve_text_put(text, "],");
        put_usage(text, request);
        serve_text_put(text, "}\n\n");
    }
    serve_text_put(text, "data: [DONE]\n\n");
}

/* Writes the methods that need no option other than a budget. */
static void put_methods(struct serve_text *text, const struct kvc_engine *engine) {
    const struct kvc_policy_class *method;
    const char *comma = "";
    serve_text_put(text, ",\"methods\":[");
    for (size_t i = 0; (method = kvc_policy(engine, i)); i++) {
        char spec[96];
        struct kvc_error error;
        bool budget = false;
        for (const struct kvc_option *o = method->options; o && o->name; o++)
            budget = budget || strcmp(o->name, "budget") == 0;
        snprintf(spec, sizeof spec, "%s%s", method->name, budget ? ":budget=256" : "");
        if (kvc_policy_check(engine, spec, &error) != KVC_OK)
            continue;
        serve_text_print(text, "%s{\"name\":\"%s\",\"budget\":%s}", comma, method->name, budget ? "true" : "false");
        comma = ",";
    }
    serve_text_put(text, "]");
}

void serve_model_json(struct serve_text *text, const struct serve *serve) {
    serve_text_put(text, "{\"id\":");
    serve_text_string(text, serve->name, strlen(serve->name));
    serve_text_put(text, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"kvcull\",\"architecture\":");
    serve_text_string(text, serve->info->architecture, strlen(serve->info->architecture));
    serve_text_print(text, ",\"context_length\":%llu,\"vocabulary\":%u,\"parameters\":%llu,\"default_kv\":",
                     (unsigned long long)serve->context, serve->info->vocab,
                     (unsigned long long)serve->info->parameters);
    serve_text_string(text, serve->options->kv, strlen(serve->options->kv));
    put_methods(text, serve->engine);
    serve_text_put(text, "}");
}
