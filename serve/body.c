/* body.c - a body of JSON, looked at before it is parsed: nothing nests deeply, nothing has more values than the server
 * is willing to hold. */
#include <string.h>

#include "serve/serve.h"

/* Counts what stands outside of strings; what is no JSON at all is the parser's to say. */
static bool within_bounds(const char *text, size_t bytes, struct serve_error *error) {
    size_t depth = 0, values = 1;
    bool string = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                string = false;
            continue;
        }
        if (c == '"')
            string = true;
        else if (c == '[' || c == '{')
            depth++, values++;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        else if (c == ',')
            values++;
        if (depth > SERVE_DEPTH_MOST)
            return serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body nests deeper than %d", SERVE_DEPTH_MOST);
        if (values > SERVE_VALUES_MOST)
            return serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body has more than %d values",
                                SERVE_VALUES_MOST);
    }
    return true;
}

json_t *serve_body(const char *text, size_t bytes, struct serve_error *error) {
    json_error_t cause;
    char line[200];
    if (!within_bounds(text, bytes, error))
        return NULL;
    cli_json_forget(); /* an earlier request may have found no memory; its JSON is gone */
    json_t *body = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
    if (cli_json_lost()) {
        json_decref(body);
        (void)serve_refuse(error, 500, "server_error", "", NULL, "the server has run out of memory");
        return NULL;
    }
    if (!body) {
        kvc_printable(cause.text, strlen(cause.text), line, sizeof line);
        (void)serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body is not JSON: line %d, column %d: %s",
                           cause.line, cause.column, line);
    } else if (!json_is_object(body)) {
        json_decref(body);
        body = NULL;
        (void)serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body must be a JSON object");
    }
    return body;
}
