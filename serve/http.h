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
    const struct serve_route *route; /* NULL: its head has not been looked at */
    char *said, *path;               /* the path as it came, and with its %XX decoded but for %2F */
    char *authority;                 /* host and port, where the target names them; NULL */
    size_t target_bytes;             /* of the target: the path with all that is around it */
    const char *wrong;               /* with the target; NULL: nothing */
    const char *host;                /* what the header Host says; NULL */
    char method[16];                 /* for the log */
    int status;                      /* of the answer; 0: there was none */
    bool closes;                     /* the connection, after the answer */
    struct serve_text body;
    uint64_t counted; /* bytes of it in http->bodies */
    bool crowded;     /* the bodies of all were too much: it was dropped */
    double began;
    struct serve_request *request; /* NULL: it is answered at once */
};

struct serve_route {
    const char *method, *path; /* a path that ends in * stands for all that begin so; GET is HEAD, too */
    bool open;                 /* needs no key */
    enum MHD_Result (*answer)(struct serve_exchange *exchange);
};
extern const struct serve_route serve_routes[]; /* ends with path NULL */

/* head.c */
/* Whether the strict level of this libmicrohttpd refuses lines that have more than one meaning. */
bool serve_library_is_strict(void);
/* Fills in what the exchange says of its target. False: no memory. */
bool serve_target(struct serve_exchange *exchange, const char *target);
/* Whether the head can be read in one way only; otherwise the error says why not. target: as libmicrohttpd has it. */
bool serve_head_check(struct serve_exchange *exchange, const char *method, const char *target, const char *version,
                      struct serve_error *error);
/* Decodes the %XX of a path in place, those of / only with slashes; its bytes, SIZE_MAX: not all of them are such. */
size_t serve_decode(char *path, bool slashes);

/* respond.c */
/* A request's header; "": it has none. */
const char *serve_header(const struct serve_exchange *exchange, const char *name);
/* Queues an answer, with another header unless it is NULL. data is taken and will be freed. */
enum MHD_Result serve_respond(struct serve_exchange *exchange, int status, const char *type, struct serve_text *text,
                              const char *header, const char *value);
/* Queues the response and gives up the caller's reference to it. */
enum MHD_Result serve_respond_with(struct serve_exchange *exchange, int status, struct MHD_Response *response);
enum MHD_Result serve_respond_error(struct serve_exchange *exchange, const struct serve_error *error);
/* The same, counted as refused. */
enum MHD_Result serve_respond_refusal(struct serve_exchange *exchange, const struct serve_error *error);
/* Answers a browser that asks which requests pages of other sites may send (--cors-origin). */
enum MHD_Result serve_respond_preflight(struct serve_exchange *exchange);
/* With --log: one line about an exchange that is over. whole: the client has got all of the answer. */
void serve_log(const struct serve_exchange *exchange, bool whole);

enum MHD_Result serve_page(struct serve_exchange *exchange);
/* Waits for the request's answer, or gives what there is. */
enum MHD_Result serve_stream(struct serve_exchange *exchange);

/* listen.c */
int serve_listen(struct serve *serve, int *listener, int *port);
unsigned serve_connections(const struct serve *serve); /* as many as descriptors allow */
/* Whether a request may come by this name; NULL: it says none. */
bool serve_host_allowed(const struct serve *serve, const char *host);

#endif
