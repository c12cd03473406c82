/* head.c - refuses ambiguous request heads. If a proxy could read a request's path or length differently, the server
 * refuses the request and closes the connection, because it is then uncertain where the next request begins.
 *
 * libmicrohttpd's strict level does part of this; how much depends on its version. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/http.h"

/* Facts from the headers about a request's length and host. */
struct head {
    const char *wrong; /* the error, if a single header has one; NULL: none */
    unsigned hosts, lengths, codings;
    const char *host, *coding;
    bool apart;    /* more than a line end separates two headers */
    uintptr_t end; /* end of the last header's value; 0: adjacent headers are not compared */
};

/* Since 0.9.77 the strict level refuses lines that end in LF alone, folded lines, and NUL. Older versions cut a line at
 * a NUL. There, however, names and values point into the received bytes, so their addresses show what lies between
 * them. */
bool serve_library_is_strict(void) {
    const char *version = MHD_get_version();
    return strncmp(version, "0.9.", 4) != 0 || strtoul(version + 4, NULL, 10) >= 77;
}

static bool is_token(const char *name, size_t bytes) {
    static const char more[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return bytes > 0 && strspn(name, more) == bytes;
}

/* Returns true if the value has no control characters other than tabs, which HTTP allows. */
static bool is_clean(const char *value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((unsigned char)value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
            return false;
    return true;
}

static enum MHD_Result head_look(void *user, enum MHD_ValueKind kind, const char *name, size_t name_bytes,
                                 const char *value, size_t bytes) {
    struct head *head = user;
    (void)kind;
    value = value ? value : "";
    if (head->end && (uintptr_t)name != head->end + 2)
        head->apart = true;
    if (head->end)
        head->end = (uintptr_t)value + bytes;
    if (!is_token(name, name_bytes))
        head->wrong = "a header's name has characters that names cannot have";
    else if (!is_clean(value, bytes))
        head->wrong = "a header's value has control characters";
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        head->hosts++;
        head->host = value;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->lengths++;
        if (bytes == 0 || strspn(value, "0123456789") != bytes)
            head->wrong = "Content-Length: must be a number of bytes";
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->codings++;
        head->coding = value;
    }
    return MHD_YES;
}

/* Returns true if method, target, version and headers follow each other with no other bytes between them, up to the end
 * of the head. */
static bool nothing_between(const struct serve_exchange *exchange, const char *method, const char *target,
                            const char *version, const struct head *head) {
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return (uintptr_t)target == (uintptr_t)method + strlen(method) + 1 &&
           (uintptr_t)version == (uintptr_t)target + exchange->target_bytes + 1 && !head->apart && size &&
           (uintptr_t)method + size->header_size == head->end + 4;
}

/* Returns a description of what is contradictory in the headers; NULL: nothing. */
static const char *contradiction(const struct head *head, bool newest) {
    if (head->hosts > 1 || (newest && head->hosts == 0))
        return "Host: must be given once";
    if (head->lengths > 1)
        return "Content-Length: must be given once";
    if (head->codings > 0 && head->lengths > 0)
        return "Content-Length and Transfer-Encoding: a request must not have both";
    if (head->codings > 0 && (!newest || head->codings > 1 || strcasecmp(head->coding, "chunked") != 0))
        return "Transfer-Encoding: must be chunked, given once, in HTTP/1.1";
    return NULL;
}

bool serve_head_check(struct serve_exchange *exchange, const char *method, const char *target, const char *version,
                      struct serve_error *error) {
    const bool newest = strcmp(version, MHD_HTTP_VERSION_1_0) != 0, strict = serve_library_is_strict();
    struct head head = {.end = strict ? 0 : (uintptr_t)version + strlen(version)};
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, head_look, &head);
    exchange->host = head.host;
    const char *wrong = exchange->wrong ? exchange->wrong : head.wrong ? head.wrong : contradiction(&head, newest);
    if (!wrong && !strict && !nothing_between(exchange, method, target, version, &head))
        wrong = "header lines must end in CR LF, must have no NUL, and must not continue in the next line";
    /* older versions accept ambiguous line ends within a chunked body, too */
    exchange->closes = wrong || (!strict && head.codings > 0);
    return !wrong || serve_refuse(error, 400, SERVE_INVALID, "", "bad_request", "%s", wrong);
}

/* ---- the target: the text between the method and the version ---- */

static int hex(char c) {
    static const char digits[] = "0123456789abcdef";
    const char *place = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return place ? (int)(place - digits) : -1;
}

size_t serve_decode(char *path, bool slashes) {
    size_t out = 0;
    for (size_t i = 0; path[i]; i++, out++) {
        const int high = path[i] == '%' ? hex(path[i + 1]) : -1, low = high >= 0 ? hex(path[i + 2]) : -1;
        const int code = high * 16 + low;
        path[out] = path[i];
        if (path[i] != '%' || (low >= 0 && code == '/' && !slashes))
            continue;
        if (low < 0 || code < 0x20 || code == 0x7f)
            return SIZE_MAX;
        path[out] = (char)code;
        i += 2;
    }
    path[out] = '\0';
    return out;
}

bool serve_target(struct serve_exchange *exchange, const char *target) {
    const size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    const char *rest = target + scheme;
    exchange->target_bytes = strlen(target);
    for (const char *c = target; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            exchange->wrong = "the path must have no blanks and no control characters";
    if (scheme) { /* the absolute form of a target, which clients use for proxies */
        const size_t length = strcspn(rest, "/?#");
        exchange->authority = strndup(rest, length);
        rest += length;
        if (!exchange->authority)
            return false;
    }
    const size_t length = strcspn(rest, "?#");
    exchange->path = length ? strndup(rest, length) : strdup("/");
    exchange->said = exchange->path ? strdup(exchange->path) : NULL;
    if (!exchange->said)
        return false;
    if (exchange->path[0] != '/' && strcmp(exchange->path, "*") != 0)
        exchange->wrong = "the path must begin with /";
    if (serve_decode(exchange->path, false) == SIZE_MAX)
        exchange->wrong = "the path has a % without two hexadecimal digits of a printable character";
    return true;
}
