/* refuse.c - formats the reason why a request is refused as one printable line. */
#include <stdarg.h>
#include <string.h>

#include "serve/serve.h"

bool serve_refuse(struct serve_error *error, int status, const char *type, const char *param, const char *code,
                  const char *format, ...) {
    va_list list;
    *error = (struct serve_error){.status = status, .type = type, .code = code};
    snprintf(error->param, sizeof error->param, "%s", param);
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    kvc_printable(error->text, strlen(error->text), error->text, sizeof error->text);
    return false;
}

bool serve_refuse_by(struct serve_error *error, const char *param, const struct kvc_error *cause) {
    if (cause->status == KVC_USAGE)
        return serve_refuse(error, 400, SERVE_INVALID, param, NULL, "%s: %s", param, cause->text);
    fprintf(stderr, "kvcull serve: %s\n", cause->text);
    return serve_refuse(error, 500, "server_error", "", NULL, "the server could not prepare this request");
}
