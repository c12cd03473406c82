/* tools.c - functions that a request lets the model call: they go to the chat template, and an answer in one of the
 * known forms becomes calls.
 *
 * Models write calls as JSON objects with a name and arguments (or parameters): between <tool_call> and </tool_call>
 * (Hermes, Qwen), alone (Llama 3), or in an array after a control token (Mistral, Granite). */
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "serve/serve.h"

#define OPEN "<tool_call>"
#define CLOSE "</tool_call>"
#define TOOLS_MOST 128

static bool tools_refuse(struct serve_error *error, const char *field, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: %s", field, what);
}

static bool tools_lost(struct serve_error *error) {
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Parses JSON in a string of JSON, within the bounds of bodies. Returns NULL if it is wrong. */
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

/* Reads tool_choice. *none: no function may be called; *forced: a call is required; *only: of this function. */
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
    if (good && only) {
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

/* ---- forced calls ---- */

/* Returns a copy of a schema in which local references begin with `path`, where the schema will be. */
static json_t *moved(const json_t *schema, const char *path) {
    json_t *copy, *value;
    const char *name;
    if (json_is_array(schema)) {
        copy = json_array();
        for (size_t i = 0; i < json_array_size(schema); i++)
            json_array_append_new(copy, moved(json_array_get(schema, i), path));
        return copy;
    }
    if (!json_is_object(schema))
        return json_deep_copy(schema);
    copy = json_object();
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) {
        const char *text = strcmp(name, "$ref") == 0 ? json_string_value(value) : NULL;
        const bool local = text && text[0] == '#' && (text[1] == '/' || !text[1]);
        json_object_set_new(copy, name, local ? json_sprintf("%s%s", path, text + 1) : moved(value, path));
    }
    return copy;
}

/* Returns the schema of a call of one of the functions. `arguments`: the name of the member that has the arguments. */
static json_t *call_schema(const json_t *functions, const char *arguments) {
    json_t *any = json_array();
    for (size_t i = 0; i < json_array_size(functions); i++) {
        const json_t *function = json_array_get(functions, i), *parameters = json_object_get(function, "parameters");
        char path[80];
        snprintf(path, sizeof path, "#/anyOf/%zu/properties/%s", i, arguments);
        json_t *inner = json_object_size(parameters) > 0 ? moved(parameters, path) : json_object();
        json_object_del(inner, "$id"); /* the schema is no longer at the root */
        json_object_del(inner, "id");
        if (json_object_get(inner, "properties") || json_object_size(inner) == 0)
            json_object_set_new(inner, "type", json_string("object"));
        json_array_append_new(any,
                              json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s]}", "type", "object", "properties", "name",
                                        "const", name_of(function), arguments, inner, "required", "name", arguments));
    }
    return json_pack("{s:o}", "anyOf", any);
}

/* Appends the tokens of a text to the prompt. */
static bool begin_with(struct serve_request *request, const char *text, struct serve_error *error) {
    struct serve_tokens *prompt = &request->prompts[0];
    int32_t *tokens, *grown;
    size_t count;
    struct kvc_error cause;
    if (kvc_tokenize(request->serve->model, text, strlen(text), KVC_TOKENIZE_SPECIAL, &tokens, &count, &cause) !=
        KVC_OK)
        return tools_refuse(error, "tool_choice", cause.text);
    grown = realloc(prompt->items, (prompt->count + count) * sizeof *grown);
    if (grown) {
        memcpy(grown + prompt->count, tokens, count * sizeof *tokens);
        prompt->items = grown;
        prompt->count += count;
    }
    free(tokens);
    return grown || tools_lost(error);
}

bool serve_tools_force(struct serve_request *request, const char *prompt, struct serve_error *error) {
    const char *arguments = strstr(prompt, "\"parameters\": dictionary") ? "parameters" : "arguments"; /* Llama 3 */
    struct kvc_error cause = {KVC_RESOURCE, "no memory for a grammar"};
    json_t *schema = call_schema(request->functions, arguments);
    char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    if (!text || cli_json_lost()) {
        cli_json_free(text);
        return tools_lost(error);
    }
    const enum kvc_status status =
        kvc_grammar_open(KVC_GRAMMAR_JSON_SCHEMA, text, strlen(text), &request->grammar, &cause);
    cli_json_free(text);
    if (status == KVC_RESOURCE)
        return tools_lost(error);
    if (status != KVC_OK)
        return tools_refuse(error, "tools", cause.text);
    return !strstr(prompt, OPEN) || begin_with(request, OPEN "\n", error);
}

/* ---- answers ---- */

/* Returns a call with id, name and arguments as JSON text (a new reference), or NULL if the value is no call of a known
 * function. */
static json_t *read_call(const struct serve_request *request, const json_t *written, uint32_t choice, size_t index) {
    const char *name = name_of(written);
    const json_t *arguments = json_object_get(written, "arguments");
    if (!arguments)
        arguments = json_object_get(written, "parameters");
    if (!find_function(request->functions, name) ||
        (arguments && !json_is_object(arguments) && !json_is_string(arguments)))
        return NULL;
    json_t *value = json_is_string(arguments) ? tools_parse(arguments) : NULL;
    const bool wrong = json_is_string(arguments) && !json_is_object(value);
    json_decref(value);
    if (wrong)
        return NULL;
    char *text = json_is_string(arguments) ? NULL : json_dumps(arguments, JSON_COMPACT);
    const char *given = json_is_string(arguments) ? json_string_value(arguments) : text ? text : "{}";
    char id[80];
    snprintf(id, sizeof id, "call_%llu_%u_%zu", (unsigned long long)request->id, choice, index);
    json_t *call = json_pack("{s:s, s:s, s:s}", "id", id, "name", name, "arguments", given);
    cli_json_free(text);
    return call;
}

/* Appends the calls in text [bytes], a JSON object or an array of them. Returns false if it is something else. */
static bool read_calls(const struct serve_choice *choice, const char *text, size_t bytes, json_t *calls) {
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    bool good = value && count > 0;
    for (size_t i = 0; good && i < count; i++) {
        json_t *call = read_call(choice->request, json_is_array(value) ? json_array_get(value, i) : value,
                                 choice->index, json_array_size(calls));
        good = call && json_array_append_new(calls, call) == 0;
    }
    json_decref(value);
    return good;
}

static size_t skip_space(const char *text, size_t at, size_t bytes) {
    while (at < bytes && is_blank(text[at]))
        at++;
    return at;
}

/* Appends the calls between tags, from the tag at offset `at` on. Returns false if one of them is none. */
static bool read_tagged(const struct serve_choice *choice, size_t at, json_t *calls) {
    const struct serve_text *text = &choice->text;
    const char *end = text->data + text->bytes;
    for (const char *open = text->data + at; open;) {
        const char *from = open + strlen(OPEN);
        const char *close = memmem(from, (size_t)(end - from), CLOSE, strlen(CLOSE));
        if (!read_calls(choice, from, (size_t)((close ? close : end) - from), calls))
            return false;
        open = close ? memmem(close, (size_t)(end - close), OPEN, strlen(OPEN)) : NULL;
    }
    return true;
}

/* Returns the offset of the text after a control token that some models write before calls. */
static size_t after_prefix(const char *text, size_t at, size_t bytes) {
    static const char *const prefixes[] = {"[TOOL_CALLS]", "<|tool_call|>", "<|python_tag|>"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (bytes - at >= strlen(prefixes[i]) && memcmp(text + at, prefixes[i], strlen(prefixes[i])) == 0)
            return skip_space(text, at + strlen(prefixes[i]), bytes);
    return at;
}

const char *serve_tools_end(struct serve_choice *choice, const char *why) {
    const struct serve_request *request = choice->request;
    struct serve_text *text = &choice->text;
    if (!request->functions || strcmp(why, "stop") != 0 || text->bytes == 0)
        return why;
    json_t *calls = json_array();
    const char *tag = memmem(text->data, text->bytes, OPEN, strlen(OPEN));
    size_t at = tag ? (size_t)(tag - text->data) : skip_space(text->data, 0, text->bytes);
    const size_t from = tag ? at : after_prefix(text->data, at, text->bytes);
    bool good = tag ? read_tagged(choice, at, calls) : read_calls(choice, text->data + from, text->bytes - from, calls);
    while (good && !request->values.parallel_tool_calls && json_array_size(calls) > 1)
        json_array_remove(calls, json_array_size(calls) - 1);
    if (!good || cli_json_lost()) {
        json_decref(calls);
        cli_json_forget();
        return why;
    }
    while (at > 0 && is_blank(text->data[at - 1]))
        at--;
    KVC_ASSERT(choice->text_sent <= at); /* serve_tools_ready has held back the rest */
    text->bytes = at;
    text->data[text->bytes] = '\0';
    choice->calls = calls;
    return "tool_calls";
}

size_t serve_tools_ready(const struct serve_choice *choice, size_t ready) {
    const struct serve_text *text = &choice->text;
    if (!choice->request->functions || ready == 0)
        return ready;
    const size_t begin = skip_space(text->data, 0, text->bytes);
    if (begin >= ready || text->data[begin] == '{' || text->data[begin] == '[' ||
        (text->data[begin] == '<' && text->bytes - begin < 16) || after_prefix(text->data, begin, text->bytes) != begin)
        return 0;
    const size_t sent = choice->text_sent; /* without any part of a tag */
    const char *tag = memmem(text->data + sent, text->bytes - sent, OPEN, strlen(OPEN));
    if (tag)
        ready = cli_min(ready, (size_t)(tag - text->data));
    for (size_t n = strlen(OPEN) - 1; !tag && n > 0; n--) /* a tag may have begun */
        if (n <= ready && memcmp(text->data + ready - n, OPEN, n) == 0) {
            ready -= n;
            break;
        }
    while (ready > 0 && is_blank(text->data[ready - 1])) /* blanks before a tag are not text */
        ready--;
    return ready;
}

void serve_tools_put(struct serve_text *text, const struct serve_choice *choice, bool chunk) {
    json_t *call;
    size_t i;
    if (!choice->calls)
        return;
    serve_text_put(text, ",\"tool_calls\":[");
    json_array_foreach(choice->calls, i, call) {
        const json_t *arguments = json_object_get(call, "arguments");
        serve_text_put(text, i ? ",{" : "{");
        if (chunk)
            serve_text_print(text, "\"index\":%zu,", i);
        serve_text_print(text, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
                         json_string_value(json_object_get(call, "id")));
        serve_text_string(text, name_of(call), strlen(name_of(call)));
        serve_text_put(text, ",\"arguments\":");
        serve_text_string(text, json_string_value(arguments), json_string_length(arguments));
        serve_text_put(text, "}}");
    }
    serve_text_put(text, "]");
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
