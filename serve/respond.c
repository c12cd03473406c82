/* respond.c - sends HTTP responses: headers, CORS, errors, and the log. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "serve/http.h"

const char *serve_header(const struct serve_exchange *exchange, const char *name) {
    const char *value = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* ---- CORS ---- */

/* Returns the value of Access-Control-Allow-Origin: the request's origin, or * if every origin is allowed. Returns NULL
 * if this origin is not allowed. */
static const char *allowed_origin(const struct serve_exchange *exchange) {
    const struct cli_texts *origins = &exchange->http->serve->options->origins;
    const char *origin = serve_header(exchange, MHD_HTTP_HEADER_ORIGIN);
    for (size_t i = 0; i < origins->count; i++)
        if (strcmp(origins->items[i].text, "*") == 0 || (*origin && strcasecmp(origins->items[i].text, origin) == 0))
            return origins->items[i].text;
    return NULL;
}

static void add_origin(const struct serve_exchange *exchange, struct MHD_Response *response) {
    const char *origin = allowed_origin(exchange);
    if (exchange->http->serve->options->origins.count > 0)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    if (!origin)
        return;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers", MHD_HTTP_HEADER_RETRY_AFTER);
}

enum MHD_Result serve_respond_preflight(struct serve_exchange *exchange) {
    static char nothing[] = "";
    struct MHD_Response *response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    const char *headers = serve_header(exchange, "Access-Control-Request-Headers");
    if (!response)
        return MHD_NO;
    if (allowed_origin(exchange)) {
        (void)MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, HEAD, POST");
        (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
        if (*headers)
            (void)MHD_add_response_header(response, "Access-Control-Allow-Headers", headers);
    }
    return serve_respond_with(exchange, MHD_HTTP_NO_CONTENT, response);
}

/* ---- answers ---- */

enum MHD_Result serve_respond_with(struct serve_exchange *exchange, int status, struct MHD_Response *response) {
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    add_origin(exchange, response);
    if (exchange->closes)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    const enum MHD_Result result = MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    exchange->status = status;
    return result;
}

enum MHD_Result serve_respond(struct serve_exchange *exchange, int status, const char *type, struct serve_text *text,
                              const char *header, const char *value) {
    static char failed[] = "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\"}}";
    struct MHD_Response *response;
    if (text->failed) {
        serve_text_free(text);
        status = 500;
        response = MHD_create_response_from_buffer(sizeof failed - 1, failed, MHD_RESPMEM_PERSISTENT);
    } else {
        response = MHD_create_response_from_buffer(text->bytes, text->data, MHD_RESPMEM_MUST_FREE);
    }
    if (!response) {
        serve_text_free(text);
        return MHD_NO;
    }
    *text = (struct serve_text){NULL, 0, 0, false};
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (header)
        (void)MHD_add_response_header(response, header, value);
    return serve_respond_with(exchange, status, response);
}

enum MHD_Result serve_respond_error(struct serve_exchange *exchange, const struct serve_error *error) {
    struct serve_text text = {0};
    char seconds[16];
    const char *header = NULL, *value = NULL;
    snprintf(seconds, sizeof seconds, "%d", error->retry_after);
    serve_error_json(&text, error);
    if (error->retry_after) {
        header = MHD_HTTP_HEADER_RETRY_AFTER;
        value = seconds;
    } else if (error->status == MHD_HTTP_UNAUTHORIZED) {
        header = MHD_HTTP_HEADER_WWW_AUTHENTICATE;
        value = "Bearer";
    } else if (error->status == MHD_HTTP_UNSUPPORTED_MEDIA_TYPE) {
        header = MHD_HTTP_HEADER_ACCEPT_ENCODING;
        value = "identity";
    }
    return serve_respond(exchange, error->status, "application/json", &text, header, value);
}

enum MHD_Result serve_respond_refusal(struct serve_exchange *exchange, const struct serve_error *error) {
    struct serve *serve = exchange->http->serve;
    pthread_mutex_lock(&serve->lock);
    serve->metrics.refused++;
    pthread_mutex_unlock(&serve->lock);
    return serve_respond_error(exchange, error);
}

/* ---- the log ---- */

/* Copies a word of a log line. Bytes outside of visible ASCII become ?. */
static void make_word(const char *text, char *word, size_t capacity) {
    size_t i = 0;
    for (; text[i] && i + 1 < capacity; i++)
        word[i] = text[i] > ' ' && text[i] < 0x7f ? text[i] : '?';
    word[i] = '\0';
}

/* Writes the number of prompt tokens and of answer tokens, how many prompt tokens a cached session held already, and
 * the time to the first answer token. */
static void put_tokens(const struct serve_request *request, char *line, size_t capacity) {
    unsigned long long prompt = 0;
    for (size_t i = 0; i < request->prompt_count; i++)
        prompt += request->prompts[i].count;
    pthread_mutex_lock(&request->serve->lock);
    const unsigned long long answer = request->tokens_out;
    const unsigned long long cached = request->cached_tokens;
    const double first = request->first_token;
    pthread_mutex_unlock(&request->serve->lock);
    const int length = snprintf(line, capacity, " in=%llu cached=%llu out=%llu", prompt, cached, answer);
    if (answer > 0)
        snprintf(line + length, capacity - (size_t)length, " first=%.3f", first);
}

void serve_log(const struct serve_exchange *exchange, bool whole) {
    char method[sizeof exchange->method], path[200], when[32] = "-", status[16] = "-", tokens[100] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (!exchange->http->serve->options->log)
        return;
    make_word(*exchange->method ? exchange->method : "-", method, sizeof method);
    make_word(exchange->said, path, sizeof path);
    if (gmtime_r(&now, &parts))
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (exchange->status)
        snprintf(status, sizeof status, "%d", exchange->status);
    if (exchange->request)
        put_tokens(exchange->request, tokens, sizeof tokens);
    fprintf(stderr, "%s %s %s %s%s all=%.3f%s\n", when, method, path, status, tokens, cli_seconds() - exchange->began,
            whole ? "" : " cut");
}
