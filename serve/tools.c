/* tools.c - the functions that a request lets the model call, and calls in earlier messages. */
#include <string.h>

#include "serve/serve.h"

#define TOOLS_MOST 128

static bool tools_refuse(struct serve_error *error, const char *field, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: %s", field, what);
}

static bool tools_lost(struct serve_error *error) {
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

/* Parses JSON text that is a JSON string, within the limits of bodies. Returns NULL if it is wrong. */
static json_t *tools_parse(const json_t *string) {
    struct serve_error error;
    const char *text = json_string_value(string);
    const size_t bytes = json_string_length(string);
    return serve_body_bounded(text, bytes, &error) ? json_loadb(text, bytes, 0, NULL) : NULL;
}

/* ---- requests ---- */

static const char *name_of(const json_t *function) { return json_string_value(json_object_get(function, "name")); }

/* Returns the function with this name, or NULL. */
static const json_t *find_function(const json_t *functions, const char *name) {
    for (size_t i = 0; name && i < json_array_size(functions); i++)
        if (strcmp(name_of(json_array_get(functions, i)), name) == 0)
            return json_array_get(functions, i);
    return NULL;
}

/* Collects the functions of `tools` in an array. */
static bool read_functions(const json_t *tools, json_t *functions, struct serve_error *error) {
    if (!json_is_array(tools) || json_array_size(tools) > TOOLS_MOST)
        return tools_refuse(error, "tools", "must be an array of at most 128 functions");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *type = json_object_get(tool, "type");
        json_t *function = json_object_get(tool, "function");
        const json_t *parameters = json_object_get(function, "parameters");
        if (type && (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0))
            return tools_refuse(error, "tools", "only tools of type function are supported");
        if (!name_of(function) || !*name_of(function))
            return tools_refuse(error, "tools", "each must have a function with a name");
        if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
            return tools_refuse(error, "tools", "the parameters of a function must be a JSON schema");
        if (find_function(functions, name_of(function)))
            return tools_refuse(error, "tools", "two functions have the same name");
        if (json_array_append(functions, function) != 0)
            return tools_lost(error);
    }
    return true;
}

/* Reads tool_choice. *none: no function may be called. *forced: a call is required. *only: the one function that may be
 * called. */
static bool read_choice(const json_t *choice, const json_t *functions, bool *none, bool *forced, const char **only,
                        struct serve_error *error) {
    const char *word = json_string_value(choice);
    *none = json_array_size(functions) == 0;
    *forced = false;
    *only = NULL;
    if (!choice || (word && strcmp(word, "auto") == 0))
        return true;
    if (word && strcmp(word, "none") == 0) {
        *none = true;
        return true;
    }
    *forced = true;
    *only = name_of(json_object_get(choice, "function"));
    if ((!word || strcmp(word, "required") != 0) && !*only)
        return tools_refuse(error, "tool_choice",
                            "must be none, auto, required or {\"type\": \"function\", \"function\": {\"name\": ...}}");
    if (*none || (*only && !find_function(functions, *only)))
        return tools_refuse(error, "tool_choice", "tools is empty or lacks the function");
    return true;
}

bool serve_tools_read(struct serve_request *request, struct serve_error *error) {
    const struct serve_values *values = &request->values;
    json_t *functions = json_array();
    const char *only;
    bool none;
    bool good = functions || tools_lost(error);
    good = good && (!values->tools || read_functions(values->tools, functions, error)) &&
           read_choice(values->tool_choice, functions, &none, &request->forced, &only, error);
    if (good && request->forced && request->grammar)
        good = tools_refuse(error, "tool_choice", "requires a call, but another field gives the answer's form");
    request->named = good && only;
    if (request->named) {
        json_t *one = json_pack("[O]", find_function(functions, only));
        json_decref(functions);
        functions = one;
        good = functions || tools_lost(error);
    }
    if (good && !none)
        request->functions = functions;
    else
        json_decref(functions);
    return good;
}

/* ---- earlier calls ---- */

bool serve_tools_unwrap(json_t *message) {
    json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;
    if (!json_is_array(calls))
        return true;
    json_t *copy = json_deep_copy(calls);
    json_array_foreach(copy, i, call) {
        json_t *function = json_object_get(call, "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments))
            continue;
        json_t *value = tools_parse(arguments);
        if (json_is_object(value))
            (void)json_object_set(function, "arguments", value);
        json_decref(value);
    }
    return copy && json_object_set_new(message, "tool_calls", copy) == 0;
}
