/* listen.c - the listening socket, the limit of connections, and the accepted hosts and origins. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http.h"

enum {
    OTHER_FILES = 64, /* number of open files that are not connections */
    BACKLOG = 4096    /* length of the queue of unaccepted connections; the system may have a lower limit */
};

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

int serve_listen(struct serve *serve, int *listener, int *port) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const struct serve_options *options = serve->options;
    struct addrinfo *found = NULL;
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char service[16], text[16] = "";
    const int yes = 1;
    snprintf(service, sizeof service, "%lld", (long long)options->port);
    const int unknown = getaddrinfo(options->host, service, &hints, &found);
    if (unknown)
        return cli_error(serve->command, KVC_USAGE, "--host %s: %s", options->host, gai_strerror(unknown));
    serve->loopback = is_loopback(found->ai_addr);
    *listener = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, found->ai_protocol);
    int bad = *listener < 0 || setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
              bind(*listener, found->ai_addr, found->ai_addrlen) != 0 || listen(*listener, BACKLOG) != 0 ||
              getsockname(*listener, (struct sockaddr *)&address, &length) != 0 ||
              getnameinfo((struct sockaddr *)&address, length, NULL, 0, text, sizeof text, NI_NUMERICSERV) != 0;
    const int cause = errno;
    freeaddrinfo(found);
    if (bad) {
        if (*listener >= 0)
            close(*listener);
        return cli_error(serve->command, KVC_RESOURCE, "%s port %s: %s; give another --port or --host", options->host,
                         service, strerror(cause));
    }
    *port = atoi(text);
    return KVC_OK;
}

/* Returns true if the text is an origin: a scheme, a host and perhaps a port, but no path. */
static bool is_origin(const char *text) {
    const char *host = strstr(text, "://");
    return strcmp(text, "*") == 0 || strcmp(text, "null") == 0 ||
           (host && host > text && host[3] && !host[3 + strcspn(host + 3, "/?#@* \t")] &&
            strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == (size_t)(host - text));
}

int serve_origins_check(const struct serve *serve) {
    const struct cli_texts *origins = &serve->options->origins;
    for (size_t i = 0; i < origins->count; i++)
        if (!is_origin(origins->items[i].text))
            return cli_error(serve->command, KVC_USAGE,
                             "--cors-origin %s: must be * or an origin like https://example.org:8443, without a path",
                             origins->items[i].text);
    return KVC_OK;
}

/* Raises the limit of open files as far as it is needed and allowed. */
unsigned serve_connections(const struct serve *serve) {
    const uint64_t wanted = (uint64_t)serve->options->connections;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return (unsigned)wanted;
    if (limit.rlim_cur < wanted + OTHER_FILES) {
        const rlim_t before = limit.rlim_cur;
        limit.rlim_cur = cli_min(wanted + OTHER_FILES, limit.rlim_max);
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    const uint64_t files = limit.rlim_cur, most = files > 2 * OTHER_FILES ? files - OTHER_FILES : files / 2;
    if (most < wanted)
        cli_warn(serve->command, "--connections %llu: the limit of open files allows %llu (ulimit -Hn)",
                 (unsigned long long)wanted, (unsigned long long)most);
    return (unsigned)cli_min(wanted, most);
}

/* Returns true if text [length] is `name`. In `text`, an IPv6 address may be in brackets. */
static bool is_name(const char *text, size_t length, const char *name) {
    if (strchr(name, ':') && length > 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    return strlen(name) == length && strncasecmp(text, name, length) == 0;
}

/* Prevents DNS rebinding: a web site can make its own host name resolve to this machine, but the browser then sends
 * that host name in the Host header. */
bool serve_host_allowed(const struct serve *serve, const char *host) {
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const struct cli_texts *more = &serve->options->allowed;
    if (!host || (!serve->loopback && more->count == 0))
        return true;
    const char *colon = strrchr(host, ':');
    const bool port = colon && colon[1 + strspn(colon + 1, "0123456789")] == '\0' && !strchr(colon, ']');
    const size_t length = port ? (size_t)(colon - host) : strlen(host);
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (is_name(host, length, local[i]))
            return true;
    for (size_t i = 0; i < more->count; i++)
        if (is_name(host, length, more->items[i].text))
            return true;
    return is_name(host, length, serve->options->host);
}
