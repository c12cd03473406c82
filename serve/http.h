/* http.h - exchanges: a request of HTTP on its way to its answer. */
#ifndef KVC_SERVE_HTTP_H
#define KVC_SERVE_HTTP_H

#include <microhttpd.h>

#include "serve/serve.h"

struct serve_http {
    struct serve *serve;
    struct MHD_Daemon *daemon;
    int listener;
    size_t busy; /* exchanges whose answers are not over; serve->lock */
};

struct serve_exchange {
    struct serve_http *http;
    struct MHD_Connection *connection;
    const struct serve_route *route;
    struct serve_text body;
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
enum MHD_Result serve_page(struct serve_exchange *exchange);
/* Waits for the request's answer, or gives what there is. */
enum MHD_Result serve_stream(struct serve_exchange *exchange);

#endif
