/* force.c - makes the grammar of the answers if a request requires calls. Such an answer consists of calls, written as
 * the chat template tells the model to write them. */
#include <stdlib.h>
#include <string.h>

#include "kvcull/chat.h"
#include "serve/serve.h"

/* How a family writes calls. With `head`, a call is this text, the function's name, `middle` and the arguments.
 * Without `head`, a call is an object, and `id`, `name` and `arguments` are the names of its members in this order. */
static const struct form {
    const char *sign; /* text in a prompt that shows that the model is of this family */
    const char *before, *between, *after, *head, *middle, *name, *arguments, *id;
} forms[] = {{.sign = "[ARGS]", .before = "", .between = "", .after = "", .head = "[TOOL_CALLS]", .middle = "[ARGS]"},
             {"<tool_call>", "<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>", NULL, NULL, "name",
              "arguments", NULL},
             {"[TOOL_CALLS]", "[TOOL_CALLS][", ", ", "]", NULL, NULL, "name", "arguments", NULL},
             {"[AVAILABLE_TOOLS]", "[TOOL_CALLS][", ", ", "]", NULL, NULL, "name", "arguments", NULL},
             {"<|tool_call|>", "<|tool_call|>[", ", ", "]", NULL, NULL, "name", "arguments", NULL},
             {"<|START_ACTION|>", "<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>", NULL, NULL, "tool_name",
              "parameters", "tool_call_id"},
             {"Write 'Action:' followed by", "Action: ```json\n[\n    ", ",\n    ", "\n]\n```", NULL, NULL, "tool_name",
              "parameters", NULL},
             {"\"parameters\": dictionary", "", NULL, "", NULL, NULL, "name", "parameters", NULL}, /* Llama 3 */
             {"", "", NULL, "", NULL, NULL, "name", "arguments", NULL}};
static const struct form channel_form = {.before = "",
                                         .after = "",
                                         .head = "<|channel|>commentary to=functions.",
                                         .middle = " <|constrain|>json<|message|>"};

/* Returns a copy of a schema that will be at `path`. Local references of the copy begin with `path`. */
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

/* Returns the schema of a function's arguments. The schema will be at `path`. */
static json_t *arguments_schema(const json_t *function, const char *path) {
    const json_t *parameters = json_object_get(function, "parameters");
    json_t *schema = json_object_size(parameters) > 0 ? moved(parameters, path) : json_object();
    json_object_del(schema, "$id"); /* the schema is no longer at the root */
    json_object_del(schema, "id");
    if (json_object_get(schema, "properties") || json_object_size(schema) == 0)
        json_object_set_new(schema, "type", json_string("object"));
    return schema;
}

/* Returns the grammar of a call of one function. It is item i of the whole grammar. */
static json_t *call_item(const struct form *form, const json_t *function, size_t i) {
    const char *name = json_string_value(json_object_get(function, "name"));
    char path[80];
    if (form->head) {
        snprintf(path, sizeof path, "#/items/%zu/1", i);
        return json_pack("[o, o]", json_sprintf("%s%s%s", form->head, name, form->middle),
                         arguments_schema(function, path));
    }
    snprintf(path, sizeof path, "#/items/%zu/0/properties/%s", i, form->arguments);
    json_t *members = json_object(), *required = json_array();
    if (form->id) {
        json_object_set_new(members, form->id, json_pack("{s:s, s:s}", "type", "string", "pattern", "^[0-9]{1,3}$"));
        json_array_append_new(required, json_string(form->id));
    }
    json_object_set_new(members, form->name, json_pack("{s:s}", "const", name));
    json_object_set_new(members, form->arguments, arguments_schema(function, path));
    json_array_append_new(required, json_string(form->name));
    json_array_append_new(required, json_string(form->arguments));
    return json_pack("[{s:s, s:o, s:o}]", "type", "object", "properties", members, "required", required);
}

/* Returns the grammar of calls as text, to be freed with cli_json_free, or NULL. */
static char *calls_text(const struct form *form, const json_t *functions, bool several) {
    json_t *items = json_array();
    for (size_t i = 0; i < json_array_size(functions); i++)
        json_array_append_new(items, call_item(form, json_array_get(functions, i), i));
    json_t *sequence = json_pack("{s:s, s:o, s:s}", "before", form->before, "items", items, "after", form->after);
    if (several && form->between)
        json_object_set_new(sequence, "between", json_string(form->between));
    char *text = sequence ? json_dumps(sequence, JSON_COMPACT) : NULL;
    json_decref(sequence);
    return text;
}

/* Appends the text that the template writes for the messages `earlier` (JSON text). Bytes that do not come from the
 * template become blanks. */
static void add_rendered(const struct serve_request *request, const struct kvc_chat_options *options,
                         const char *earlier, struct serve_text *out) {
    struct kvc_chat_options own = *options;
    struct kvc_rendered made = {0};
    struct kvc_error cause;
    own.earlier = earlier;
    if (kvc_chat_rendered(request->serve->model, &own, NULL, 0, &made, &cause) != KVC_OK)
        return; /* the template may refuse the messages */
    for (size_t i = 0; i < made.bytes; i++)
        if (made.marks[i])
            made.text[i] = ' ';
    serve_text_add(out, made.text, made.bytes);
    free(made.text); /* this also frees the marks */
}

/* Returns the form of calls, or NULL if memory runs out. The form depends only on the template: on the text that it
 * writes before a first message, and on how it writes an earlier call. The conversation does not matter. */
static const struct form *form_of(const struct serve_request *request, const struct kvc_chat_options *options) {
    static const char greeting[] = "[{\"role\":\"user\",\"content\":\"hello\"}]";
    const struct form *form = forms;
    struct serve_text text = {0};
    const json_t *function = json_array_get(request->functions, 0);
    json_t *example = json_pack(
        "[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:{s:s, s:{}}}]}, {s:s, s:s, s:s, s:s}]", "role", "user", "content",
        "hello", "role", "assistant", "content", "", "tool_calls", "id", "call00001", "type", "function", "function",
        "name", json_string_value(json_object_get(function, "name")), "arguments", "role", "tool", "tool_call_id",
        "call00001", "name", json_string_value(json_object_get(function, "name")), "content", "1");
    char *written = example ? json_dumps(example, JSON_COMPACT) : NULL;
    json_decref(example);
    serve_text_put(&text, "");
    add_rendered(request, options, greeting, &text);
    if (written)
        add_rendered(request, options, written, &text);
    while (!text.failed && written && !strstr(text.data, form->sign))
        form++;
    const bool failed = text.failed || !written;
    cli_json_free(written);
    serve_text_free(&text);
    return failed ? NULL : form;
}

bool serve_force(struct serve_request *request, const struct kvc_chat_options *options, struct serve_error *error) {
    struct kvc_error cause = {KVC_RESOURCE, "no memory for a grammar"};
    const struct form *form = request->channels ? &channel_form : form_of(request, options);
    const bool several = !request->named && request->values.parallel_tool_calls;
    enum kvc_status status = KVC_RESOURCE;
    char *text = form ? calls_text(form, request->functions, several) : NULL;
    if (text && !cli_json_lost())
        status = kvc_grammar_open(KVC_GRAMMAR_SEQUENCE, text, strlen(text), &request->grammar, &cause);
    cli_json_free(text);
    if (status == KVC_RESOURCE)
        return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
    return status == KVC_OK || serve_refuse(error, 400, SERVE_INVALID, "tools", NULL, "tools: %s", cause.text);
}
