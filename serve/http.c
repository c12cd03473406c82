/* http.c - HTTP connections through libmicrohttpd: access checks, limits of body sizes, and suspended requests. */
#include "serve/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 2, IDLE_SECONDS = 60, HEADERS = 32 << 10 };

/* ---- one exchange ---- */

/* Begins an exchange when libmicrohttpd has read the request's target. */
static void *target(void *user, const char *said, struct MHD_Connection *connection) {
    struct serve_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    *exchange = (struct serve_exchange){.http = user, .connection = connection, .began = cli_seconds()};
    if (serve_target(exchange, said ? said : ""))
        return exchange;
    free(exchange->said);
    free(exchange->path);
    free(exchange->authority);
    free(exchange);
    return NULL;
}

static bool is_path(const struct serve_route *route, const char *path) {
    const size_t length = strlen(route->path) - 1;
    return route->path[length] == '*' ? strncmp(route->path, path, length) == 0 : strcmp(route->path, path) == 0;
}

/* Finds the exchange's route. Returns false if there is none, after queuing an answer with the reason. */
static bool find_route(struct serve_exchange *exchange, const char *method, enum MHD_Result *result) {
    const struct serve_route *other = NULL;
    struct serve_error error;
    for (const struct serve_route *route = serve_routes; route->path; route++)
        if (is_path(route, exchange->path)) {
            if (strcmp(route->method, strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 ? MHD_HTTP_METHOD_GET : method) == 0) {
                exchange->route = route;
                return true;
            }
            other = route;
        }
    if (other && strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0 && exchange->http->serve->options->origins.count > 0) {
        *result = serve_respond_preflight(exchange);
    } else if (other) {
        const char *allowed = strcmp(other->method, "GET") == 0 ? "GET, HEAD" : other->method;
        struct serve_text text = {0};
        (void)serve_refuse(&error, 405, SERVE_INVALID, "", NULL, "this path accepts only %s", allowed);
        serve_error_json(&text, &error);
        *result = serve_respond(exchange, 405, "application/json", &text, MHD_HTTP_HEADER_ALLOW, allowed);
    } else {
        (void)serve_refuse(&error, 404, SERVE_INVALID, "", "unknown_url", "there is nothing at this path");
        *result = serve_respond_error(exchange, &error);
    }
    return false;
}

/* Returns true if the header has this value, with or without parameters after a semicolon. */
static bool says(const char *header, const char *value) {
    const size_t length = strlen(value);
    return strncasecmp(header, value, length) == 0 && strchr("; \t", header[length]) != NULL;
}

/* Makes all checks that are possible before the body arrives. */
static bool may_go_on(const struct serve_exchange *exchange, struct serve_error *error) {
    const struct serve *serve = exchange->http->serve;
    const char *length = serve_header(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *coding = serve_header(exchange, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (!exchange->route->open && serve->keys.count > 0 &&
        !serve_key_known(&serve->keys, serve_header(exchange, MHD_HTTP_HEADER_AUTHORIZATION)))
        return serve_refuse(error, 401, SERVE_INVALID, "", "invalid_api_key",
                            "give an API key of this server, as Authorization: Bearer KEY");
    if (strcmp(exchange->route->method, "POST") != 0)
        return true;
    /* without a preflight request, a browser sends forms of other sites, but not their JSON */
    if (!says(serve_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE), "application/json"))
        return serve_refuse(error, 415, SERVE_INVALID, "", NULL, "send JSON, with Content-Type: application/json");
    if (*coding && strcasecmp(coding, "identity") != 0)
        return serve_refuse(error, 415, SERVE_INVALID, "", NULL,
                            "Content-Encoding: send the body as it is, without compression");
    if (strtoull(length, NULL, 10) > serve->options->body)
        return serve_refuse(error, 413, SERVE_INVALID, "", NULL, "the body may have %llu bytes at most",
                            (unsigned long long)serve->options->body);
    return true;
}

static enum MHD_Result http_begin(struct serve_exchange *exchange, const char *target, const char *method,
                                  const char *version) {
    const struct serve *serve = exchange->http->serve;
    enum MHD_Result result = MHD_NO;
    struct serve_error error;
    snprintf(exchange->method, sizeof exchange->method, "%s", method);
    if (!serve_head_check(exchange, method, target, version, &error))
        return serve_respond_refusal(exchange, &error);
    if (!serve_host_allowed(serve, exchange->host) || !serve_host_allowed(serve, exchange->authority)) {
        (void)serve_refuse(&error, 403, SERVE_INVALID, "", "host_not_allowed",
                           "Host: not a name of this server; --allow-host NAME adds one");
        return serve_respond_refusal(exchange, &error);
    }
    if (!find_route(exchange, method, &result))
        return result;
    return may_go_on(exchange, &error) ? MHD_YES : serve_respond_refusal(exchange, &error);
}

/* Stores a piece of a body. If all bodies together are too large, drops this body. Returns false if memory runs out. */
static bool take_in(struct serve_exchange *exchange, const char *data, size_t bytes) {
    struct serve_http *http = exchange->http;
    pthread_mutex_lock(&http->serve->lock);
    exchange->crowded = exchange->crowded || http->bodies + bytes > SERVE_BODIES_MOST * http->serve->options->body;
    const uint64_t counted = exchange->crowded ? 0 : exchange->counted + bytes;
    http->bodies += counted - exchange->counted;
    exchange->counted = counted;
    pthread_mutex_unlock(&http->serve->lock);
    if (!exchange->crowded)
        return serve_text_add(&exchange->body, data, bytes);
    serve_text_free(&exchange->body);
    return true;
}

static enum MHD_Result answer(struct serve_exchange *exchange) {
    struct serve_error error;
    if (exchange->request)
        return serve_stream(exchange);
    if (!exchange->crowded)
        return exchange->route->answer(exchange);
    (void)serve_refuse(&error, 503, "server_error", "", NULL, "the server has no room for this body now");
    error.retry_after = 5;
    return serve_respond_error(exchange, &error);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **context) {
    struct serve_exchange *exchange = *context;
    (void)user;
    (void)connection;
    if (!exchange)
        return MHD_NO; /* memory ran out */
    if (!exchange->route)
        return http_begin(exchange, url, method, version);
    if (*bytes > 0) {
        if (exchange->body.bytes + *bytes > exchange->http->serve->options->body ||
            cli_seconds() - exchange->began > SERVE_UPLOAD_SECONDS || !take_in(exchange, data, *bytes))
            return MHD_NO; /* closes the connection */
        *bytes = 0;
        return MHD_YES;
    }
    return answer(exchange);
}

/* Ends the exchange after an answer or an error. */
static void completed(void *user, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code) {
    struct serve_http *http = user;
    struct serve_exchange *exchange = *context;
    (void)connection;
    if (!exchange)
        return;
    *context = NULL;
    pthread_mutex_lock(&http->serve->lock);
    http->bodies -= exchange->counted;
    if (exchange->request) {
        http->busy--;
        exchange->request->connection = NULL;
        exchange->request->suspended = false;
        if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
            exchange->request->gone = true;
        pthread_cond_signal(&http->serve->wake);
    }
    pthread_mutex_unlock(&http->serve->lock);
    serve_log(exchange, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (exchange->request)
        serve_request_release(exchange->request);
    serve_text_free(&exchange->body);
    free(exchange->said);
    free(exchange->path);
    free(exchange->authority);
    free(exchange);
}

/* ---- connections ---- */

/* Closes a connection beyond the limit immediately, so that its client does not wait. */
static enum MHD_Result admit(void *user, const struct sockaddr *address, socklen_t length) {
    struct serve_http *http = user;
    (void)address;
    (void)length;
    pthread_mutex_lock(&http->serve->lock);
    const bool room = http->connections < http->limit;
    http->serve->metrics.turned_away += !room;
    pthread_mutex_unlock(&http->serve->lock);
    return room ? MHD_YES : MHD_NO;
}

static void http_count(void *user, struct MHD_Connection *connection, void **context,
                       enum MHD_ConnectionNotificationCode code) {
    struct serve_http *http = user;
    (void)connection;
    (void)context;
    pthread_mutex_lock(&http->serve->lock);
    http->connections += code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -(size_t)1;
    http->serve->metrics.connections = http->connections;
    pthread_mutex_unlock(&http->serve->lock);
}

/* ---- called by the engine thread ---- */

void serve_http_resume(struct serve_request *request) {
    if (!request->suspended)
        return;
    request->suspended = false;
    MHD_resume_connection(request->connection);
}

/* A client that has closed its sending side is treated as disconnected. */
bool serve_http_closed(const struct serve_request *request) {
    char byte;
    if (!request->suspended)
        return false;
    const ssize_t n = recv(request->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* ---- opening and closing ---- */

__attribute__((format(printf, 2, 0))) static void say_nothing(void *user, const char *format, va_list list) {
    (void)user;
    (void)format;
    (void)list;
}

int serve_http_open(struct serve *serve, struct serve_http **http, int *port) {
    struct serve_http *made = calloc(1, sizeof *made);
    *http = NULL;
    if (!made)
        return cli_no_memory(serve->command);
    made->serve = serve;
    int status = serve_listen(serve, &made->listener, port);
    if (status != KVC_OK) {
        free(made);
        return status;
    }
    made->limit = serve_connections(serve);
    /* libmicrohttpd divides its own limit among threads, and lets connections above it wait. Here that limit is never
     * reached, because `admit` refuses connections earlier. */
    made->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, &admit, made,
        &handle, made, MHD_OPTION_EXTERNAL_LOGGER, &say_nothing, NULL, MHD_OPTION_URI_LOG_CALLBACK, &target, made,
        MHD_OPTION_STRICT_FOR_CLIENT, serve_library_is_strict() ? 1 : 0, MHD_OPTION_LISTEN_SOCKET, made->listener,
        MHD_OPTION_CONNECTION_LIMIT, THREADS * (made->limit + 1), MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)serve->options->connections_each, MHD_OPTION_NOTIFY_CONNECTION, &http_count, made,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_NOTIFY_COMPLETED, &completed, made, MHD_OPTION_END);
    if (!made->daemon) {
        close(made->listener);
        free(made);
        return cli_error(serve->command, KVC_RESOURCE, "libmicrohttpd could not start its threads");
    }
    *http = made;
    return KVC_OK;
}

void serve_http_refuse(struct serve_http *http) {
    const MHD_socket listener = MHD_quiesce_daemon(http->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
}

void serve_http_close(struct serve_http *http) {
    if (!http)
        return;
    MHD_stop_daemon(http->daemon);
    free(http);
}

size_t serve_http_busy(struct serve_http *http) {
    pthread_mutex_lock(&http->serve->lock);
    const size_t busy = http->busy;
    pthread_mutex_unlock(&http->serve->lock);
    return busy;
}
