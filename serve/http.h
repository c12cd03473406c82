/* http.h - exchanges: a request of HTTP on its way to its answer. */
#ifndef KVC_SERVE_HTTP_H
#define KVC_SERVE_HTTP_H

#include <microhttpd.h>

#include "serve/serve.h"

struct serve_http {
    struct serve *serve;
    struct MHD_Daemon *daemon;
    int listener;
    unsigned limit; /* of connections */
    /* serve->lock: */
    size_t busy; /* exchanges whose answers are not over */
    size_t connections;
    uint64_t bodies; /* bytes of the bodies of all exchanges */
};

struct serve_exchange {
    struct serve_http *http;
    struct MHD_Connection *connection;
    const struct serve_route *route;
    struct serve_text body;
    uint64_t counted; /* bytes of it in http->bodies */
    bool crowded;     /* the bodies of all were too much: it was dropped */
    double began;
    struct serve_request *request; /* NULL: it is answered at once */
};

struct serve_route {
    const char *method, *path;
    bool open; /* needs no key */
    enum MHD_Result (*answer)(struct serve_exchange *exchange);
};
extern const struct serve_route serve_routes[]; /* ends with path NULL */

/* Queues an answer. data is taken and will be freed. */
enum MHD_Result serve_respond(struct MHD_Connection *connection, int status, const char *type, struct serve_text *text,
                              const char *header, const char *value);
enum MHD_Result serve_respond_error(struct MHD_Connection *connection, const struct serve_error *error);
/* The same, counted as refused. */
enum MHD_Result serve_respond_refusal(struct serve *serve, struct MHD_Connection *connection,
                                      const struct serve_error *error);
enum MHD_Result serve_page(struct serve_exchange *exchange);
/* Waits for the request's answer, or gives what there is. */
enum MHD_Result serve_stream(struct serve_exchange *exchange);

/* listen.c */
int serve_listen(struct serve *serve, int *listener, int *port);
unsigned serve_connections(const struct serve *serve); /* as many as descriptors allow */
/* Whether a request may come by this name; NULL: it says none. */
bool serve_host_allowed(const struct serve *serve, const char *host);

#endif
