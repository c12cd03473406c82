/* route.c - the table of paths, and how answers reach their clients: immediately, when complete, or as a stream. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kvcull/ranks.h"
#include "serve/http.h"

/* ---- answers from the engine thread ---- */

static ssize_t read_out(void *user, uint64_t position, char *buffer, size_t most) {
    struct serve_exchange *exchange = user;
    struct serve_request *request = exchange->request;
    struct serve *serve = request->serve;
    ssize_t n = 0;
    (void)position;
    pthread_mutex_lock(&serve->lock);
    const size_t left = request->out.bytes - request->out_taken;
    if (left > 0) {
        const size_t some = cli_min(left, most);
        memcpy(buffer, request->out.data + request->out_taken, some);
        request->out_taken += some;
        if (request->out_taken == request->out.bytes) {
            request->out.bytes = request->out_taken = 0;
            serve_buffer_shrink(request);
        }
        n = (ssize_t)some;
    } else if (request->out_over) {
        n = request->gone ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        request->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&serve->lock);
    return n;
}

static enum MHD_Result begin_stream(struct serve_exchange *exchange) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, &read_out, exchange, NULL);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* tells proxies not to buffer the stream */
    return serve_respond_with(exchange, MHD_HTTP_OK, response);
}

enum MHD_Result serve_stream(struct serve_exchange *exchange) {
    struct serve_request *request = exchange->request;
    struct serve *serve = request->serve;
    struct serve_text text = {0};
    const bool stream = request->values.stream;
    pthread_mutex_lock(&serve->lock);
    const enum serve_state state = request->state;
    const bool ready = stream ? state != SERVE_QUEUED : state == SERVE_DONE || state == SERVE_FAILED;
    if (!ready) {
        request->suspended = true;
        MHD_suspend_connection(exchange->connection);
    }
    pthread_mutex_unlock(&serve->lock);
    if (!ready)
        return MHD_YES;
    if (state == SERVE_FAILED)
        return request->error.status ? serve_respond_error(exchange, &request->error) : MHD_NO;
    if (stream)
        return begin_stream(exchange);
    serve_answer_json(&text, request);
    return serve_respond(exchange, MHD_HTTP_OK, "application/json", &text, NULL, NULL);
}

static enum MHD_Result generate(struct serve_exchange *exchange, bool chat) {
    struct serve *serve = exchange->http->serve;
    struct serve_error error;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    json_t *body = serve_body(exchange->body.data ? exchange->body.data : "", exchange->body.bytes, &error);
    if (!body)
        return serve_respond_refusal(exchange, &error);
    struct serve_request *request = info ? serve_request_new(serve, chat) : NULL;
    if (!request) {
        json_decref(body);
        return MHD_NO;
    }
    request->connection = exchange->connection;
    request->descriptor = info->connect_fd;
    serve_text_free(&exchange->body);
    const bool good = serve_prepare(request, body, &error);
    json_decref(body);
    if (!good || !serve_enqueue(request, &exchange->http->busy, &error)) {
        serve_request_release(request);
        return serve_respond_refusal(exchange, &error);
    }
    exchange->request = request;
    return serve_stream(exchange);
}

static enum MHD_Result completions(struct serve_exchange *exchange) { return generate(exchange, false); }
static enum MHD_Result chat(struct serve_exchange *exchange) { return generate(exchange, true); }

/* ---- immediate answers ---- */

static enum MHD_Result answer_json(struct serve_exchange *exchange, int status, struct serve_text *text) {
    return serve_respond(exchange, status, "application/json", text, NULL, NULL);
}

enum { SILENCE = 2 }; /* number of seconds without a sign of life from a rank; a rank gives four signs a second */

static enum MHD_Result health(struct serve_exchange *exchange) {
    struct serve *serve = exchange->http->serve;
    struct serve_text text = {0};
    uint32_t rank = 0;
    const double silent = cli_ranks() ? kvc_ranks_silence(cli_ranks(), &rank) : 0;
    pthread_mutex_lock(&serve->lock);
    const bool draining = serve->draining;
    pthread_mutex_unlock(&serve->lock);
    if (silent >= SILENCE)
        serve_text_print(&text, "{\"status\":\"waiting\",\"rank\":%" PRIu32 ",\"silent_seconds\":%.1f}", rank, silent);
    else
        serve_text_print(&text, "{\"status\":\"%s\"}", draining ? "ending" : "ok");
    return answer_json(exchange, draining || silent >= SILENCE ? 503 : 200, &text);
}

static enum MHD_Result models(struct serve_exchange *exchange) {
    struct serve_text text = {0};
    serve_text_put(&text, "{\"object\":\"list\",\"data\":[");
    serve_model_json(&text, exchange->http->serve);
    serve_text_put(&text, "]}");
    return answer_json(exchange, 200, &text);
}

static enum MHD_Result one_model(struct serve_exchange *exchange) {
    const struct serve *serve = exchange->http->serve;
    struct serve_text text = {0}, path = {0};
    struct serve_error error;
    serve_text_print(&path, "/v1/models/%s", serve->name);
    const bool here =
        !path.failed && serve_decode(exchange->said, true) == path.bytes && strcmp(exchange->said, path.data) == 0;
    serve_text_free(&path);
    if (!here) {
        (void)serve_refuse(&error, 404, SERVE_INVALID, "model", "model_not_found",
                           "model: there is no such model here; this server has %s", serve->name);
        return serve_respond_refusal(exchange, &error);
    }
    serve_model_json(&text, serve);
    return answer_json(exchange, 200, &text);
}

static enum MHD_Result metrics(struct serve_exchange *exchange) {
    struct serve_text text = {0};
    serve_metrics_print(&text, exchange->http->serve);
    return serve_respond(exchange, 200, "text/plain; version=0.0.4", &text, NULL, NULL);
}

/* Parses the body of a request that is answered immediately. The caller frees it. Returns NULL and sets *result if the
 * body is refused. */
static json_t *read_body(struct serve_exchange *exchange, enum serve_where where, struct serve_values *values,
                         enum MHD_Result *result) {
    struct serve_error error;
    json_t *body = serve_body(exchange->body.data ? exchange->body.data : "", exchange->body.bytes, &error);
    if (body && !serve_fields_read(body, where, exchange->http->serve->options, values, &error)) {
        json_decref(body);
        body = NULL;
    }
    if (!body)
        *result = serve_respond_refusal(exchange, &error);
    return body;
}

static void put_piece(struct serve_text *text, const struct serve *serve, int32_t token) {
    struct kvc_error error;
    char *piece = NULL;
    size_t bytes = 0;
    if (kvc_detokenize(serve->model, &token, 1, true, &piece, &bytes, &error) != KVC_OK)
        bytes = 0;
    serve_text_print(text, "{\"id\":%d,\"piece\":", token);
    serve_text_string(text, piece ? piece : "", bytes);
    serve_text_put(text, "}");
    free(piece);
}

static enum MHD_Result tokenize(struct serve_exchange *exchange) {
    const struct serve *serve = exchange->http->serve;
    struct serve_values values;
    struct serve_text text = {0};
    struct kvc_error cause;
    enum MHD_Result result = MHD_NO;
    int32_t *tokens = NULL;
    size_t count = 0;
    json_t *body = read_body(exchange, SERVE_TOKENIZE, &values, &result);
    if (!body)
        return result;
    const unsigned flags = (values.special ? KVC_TOKENIZE_SPECIAL : 0u) | (values.add_special ? KVC_TOKENIZE_BOS : 0u);
    if (kvc_tokenize(serve->model, values.content, strlen(values.content), flags, &tokens, &count, &cause) != KVC_OK) {
        struct serve_error error;
        (void)serve_refuse(&error, 400, SERVE_INVALID, "content", NULL, "content: cannot be tokenized");
        result = serve_respond_refusal(exchange, &error);
    } else {
        serve_text_put(&text, "{\"tokens\":[");
        for (size_t i = 0; i < count; i++) {
            serve_text_put(&text, i ? "," : "");
            if (values.pieces)
                put_piece(&text, serve, tokens[i]);
            else
                serve_text_print(&text, "%d", tokens[i]);
        }
        serve_text_print(&text, "],\"count\":%zu}", count);
        result = answer_json(exchange, 200, &text);
    }
    free(tokens);
    json_decref(body);
    return result;
}

/* Returns an array of token ids that the caller frees. Returns NULL if an element is not a token id or memory runs
 * out. */
static int32_t *read_tokens(const struct serve *serve, const json_t *array, size_t *count) {
    int32_t *tokens = malloc((json_array_size(array) + 1) * sizeof *tokens);
    *count = 0;
    for (size_t i = 0; tokens && i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        const json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= serve->info->vocab) {
            free(tokens);
            return NULL;
        }
        tokens[(*count)++] = (int32_t)id;
    }
    return tokens;
}

static enum MHD_Result detokenize(struct serve_exchange *exchange) {
    const struct serve *serve = exchange->http->serve;
    struct serve_values values;
    struct serve_text text = {0};
    struct kvc_error cause;
    enum MHD_Result result = MHD_NO;
    char *content = NULL;
    size_t count = 0, bytes = 0;
    json_t *body = read_body(exchange, SERVE_DETOKENIZE, &values, &result);
    if (!body)
        return result;
    int32_t *tokens = json_is_array(values.tokens) ? read_tokens(serve, values.tokens, &count) : NULL;
    if (!tokens || kvc_detokenize(serve->model, tokens, count, true, &content, &bytes, &cause) != KVC_OK) {
        struct serve_error error;
        (void)serve_refuse(&error, 400, SERVE_INVALID, "tokens", NULL, "tokens: must be an array of ids from 0 to %u",
                           serve->info->vocab - 1);
        result = serve_respond_refusal(exchange, &error);
    } else {
        serve_text_put(&text, "{\"content\":");
        serve_text_string(&text, content, bytes);
        serve_text_put(&text, "}");
        result = answer_json(exchange, 200, &text);
    }
    free(content);
    free(tokens);
    json_decref(body);
    return result;
}

const struct serve_route serve_routes[] = {{"GET", "/", true, serve_page},
                                           {"GET", "/health", true, health},
                                           {"GET", "/kvcull", false, serve_methods},
                                           {"GET", "/v1/models", false, models},
                                           {"GET", "/v1/models/*", false, one_model},
                                           {"POST", "/kvcull/forecast", false, serve_forecasts},
                                           {"GET", "/metrics", false, metrics},
                                           {"POST", "/v1/completions", false, completions},
                                           {"POST", "/v1/chat/completions", false, chat},
                                           {"POST", "/tokenize", false, tokenize},
                                           {"POST", "/detokenize", false, detokenize},
                                           {NULL, NULL, false, NULL}};
