/* http.h - an exchange: one HTTP request and its answer. */
#ifndef KVC_SERVE_HTTP_H
#define KVC_SERVE_HTTP_H

#include <microhttpd.h>

#include "serve/serve.h"

struct serve_http {
    struct serve *serve;
    struct MHD_Daemon *daemon;
    int listener;
    unsigned limit; /* maximum number of connections */
    /* protected by serve->lock */
    size_t busy; /* exchanges whose answers are incomplete */
    size_t connections;
    uint64_t bodies; /* bytes of the bodies of all exchanges */
};

struct serve_exchange {
    struct serve_http *http;
    struct MHD_Connection *connection;
    const struct serve_route *route; /* NULL until the head has been checked */
    char *said, *path;               /* the path: `said` as received, `path` with %XX decoded except for %2F */
    char *authority;                 /* host and port of an absolute target; NULL: none */
    size_t target_bytes;             /* length of the whole target: path, query and authority */
    const char *wrong;               /* what is wrong with the target; NULL: nothing */
    const char *host;                /* the Host header; NULL: none */
    char method[16];                 /* HTTP method, for the log */
    int status;                      /* status of the answer; 0: there was no answer */
    bool closes;                     /* true if the connection closes after the answer */
    struct serve_text body;
    uint64_t counted; /* number of bytes of this body that are counted in http->bodies */
    bool crowded;     /* the body was dropped because all bodies together were too large */
    double began;
    struct serve_request *request; /* NULL: the exchange is answered immediately */
};

struct serve_route {
    const char *method, *path; /* a path that ends in '*' stands for all paths with this beginning; a GET route also
                                * serves HEAD */
    bool open;                 /* true if requests need no API key */
    enum MHD_Result (*answer)(struct serve_exchange *exchange);
};
extern const struct serve_route serve_routes[]; /* the last route's path is NULL */

/* head.c */
/* Returns true if the strict level of this libmicrohttpd refuses ambiguous header lines. */
bool serve_library_is_strict(void);
/* Sets the fields that come from the target. Returns false if memory runs out. */
bool serve_target(struct serve_exchange *exchange, const char *target);
/* Returns true if the head can be read in one way only. Otherwise `error` receives the reason. `target` is the request
 * target as libmicrohttpd received it. */
bool serve_head_check(struct serve_exchange *exchange, const char *method, const char *target, const char *version,
                      struct serve_error *error);
/* Decodes the %XX of a path in place; %2F only if `slashes` is true. Returns the new length, or SIZE_MAX for an invalid
 * %XX. */
size_t serve_decode(char *path, bool slashes);

/* respond.c */
/* Returns a header of the request, or "" if the request does not have it. */
const char *serve_header(const struct serve_exchange *exchange, const char *name);
/* Queues an answer. `header` may be NULL; otherwise it is sent too. Takes ownership of the text's data. */
enum MHD_Result serve_respond(struct serve_exchange *exchange, int status, const char *type, struct serve_text *text,
                              const char *header, const char *value);
/* Queues the response and gives up the caller's reference to it. */
enum MHD_Result serve_respond_with(struct serve_exchange *exchange, int status, struct MHD_Response *response);
enum MHD_Result serve_respond_error(struct serve_exchange *exchange, const struct serve_error *error);
/* Queues an error like serve_respond_error, and counts it as refused. */
enum MHD_Result serve_respond_refusal(struct serve_exchange *exchange, const struct serve_error *error);
/* Answers a browser's CORS preflight request (--cors-origin). */
enum MHD_Result serve_respond_preflight(struct serve_exchange *exchange);
/* With --log, prints one line about a finished exchange. `whole` is true if the client received all of the answer. */
void serve_log(const struct serve_exchange *exchange, bool whole);

enum MHD_Result serve_page(struct serve_exchange *exchange);
enum MHD_Result serve_methods(struct serve_exchange *exchange);   /* methods.c */
enum MHD_Result serve_forecasts(struct serve_exchange *exchange); /* forecast.c */
/* Queues the request's answer, or suspends the connection until the answer is ready. */
enum MHD_Result serve_stream(struct serve_exchange *exchange);

/* listen.c */
int serve_listen(struct serve *serve, int *listener, int *port);
/* Returns the maximum number of connections, which the limit of open files determines. */
unsigned serve_connections(const struct serve *serve);
/* Returns true if requests may use this Host header. `host` is NULL if the request has none. */
bool serve_host_allowed(const struct serve *serve, const char *host);

#endif
