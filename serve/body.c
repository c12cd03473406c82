/* body.c - parses JSON bodies. It checks the nesting and the number of values before it parses. */
#include "serve/serve.h"

/* Counts brackets and commas outside of strings. It ignores invalid JSON, which the parser reports. */
bool serve_body_bounded(const char *text, size_t bytes, struct serve_error *error) {
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

/* Returns a message for a parser error. jansson's own messages name its functions and flags. */
static const char *json_wrong(const json_error_t *cause) {
    switch (json_error_code(cause)) {
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "text follows its end";
    case json_error_invalid_utf8:
        return "a text is not UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a text has a NUL character (\\u0000), which is not allowed";
    case json_error_duplicate_key:
        return "an object has the same name twice";
    case json_error_numeric_overflow:
        return "a number is too large";
    default:
        return "a character that JSON does not allow here";
    }
}

json_t *serve_body(const char *text, size_t bytes, struct serve_error *error) {
    json_error_t cause;
    if (!serve_body_bounded(text, bytes, error))
        return NULL;
    cli_json_forget(); /* clears a failed allocation of an earlier request */
    json_t *body = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
    if (cli_json_lost()) {
        json_decref(body);
        (void)serve_refuse(error, 500, "server_error", "", NULL, "the server has run out of memory");
        return NULL;
    }
    if (!body) {
        (void)serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body is not JSON: line %d, column %d: %s",
                           cause.line, cause.column, json_wrong(&cause));
    } else if (!json_is_object(body)) {
        json_decref(body);
        body = NULL;
        (void)serve_refuse(error, 400, SERVE_INVALID, "", NULL, "the body must be a JSON object");
    }
    return body;
}
