/* format.c - the grammar that a request's answers must match. It comes from OpenAI's field response_format, or from a
 * field of llama.cpp or vLLM. */
#include <stddef.h>
#include <string.h>

#include "serve/serve.h"

#define AT(member) offsetof(struct serve_values, member)

/* What a request says about the form of its answers. */
struct format {
    const char *field; /* the field that gives the grammar; NULL: none does */
    enum kvc_grammar_kind kind;
    const char *text;    /* the grammar, or NULL if it is in `value` */
    const json_t *value; /* a JSON schema, or an array of texts to choose from */
};

/* The fields whose value is a grammar. */
static const struct source {
    const char *name;
    enum kvc_grammar_kind kind;
    size_t target;
    bool is_json;
} sources[] = {{"json_schema", KVC_GRAMMAR_JSON_SCHEMA, AT(json_schema), true},
               {"guided_json", KVC_GRAMMAR_JSON_SCHEMA, AT(guided_json), true},
               {"guided_choice", KVC_GRAMMAR_GBNF, AT(guided_choice), true},
               {"regex", KVC_GRAMMAR_REGEX, AT(regex), false},
               {"guided_regex", KVC_GRAMMAR_REGEX, AT(guided_regex), false},
               {"grammar", KVC_GRAMMAR_GBNF, AT(grammar), false},
               {"guided_grammar", KVC_GRAMMAR_GBNF, AT(guided_grammar), false}};

static bool format_refuse(struct serve_error *error, const char *field, const char *what) {
    return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: %s", field, what);
}

/* Stores the grammar that a field gives. Refuses a second grammar. */
static bool give(struct format *format, const char *field, enum kvc_grammar_kind kind, const char *text,
                 const json_t *value, struct serve_error *error) {
    if (format->field && strcmp(format->field, field) == 0)
        return format_refuse(error, field, "must have only one of json, json_object, regex, grammar and choice");
    if (format->field)
        return serve_refuse(error, 400, SERVE_INVALID, field, NULL, "%s: the request also has %s; give only one", field,
                            format->field);
    *format = (struct format){field, kind, text, value};
    return true;
}

/* Stores a JSON schema, which is given as an object or as its text. */
static bool give_schema(struct format *format, const char *field, const json_t *schema, struct serve_error *error) {
    if (!json_is_object(schema) && !json_is_string(schema))
        return format_refuse(error, field, "the schema must be an object or a text");
    return give(format, field, KVC_GRAMMAR_JSON_SCHEMA, json_string_value(schema), schema, error);
}

/* Stores texts to choose from. */
static bool give_choice(struct format *format, const char *field, const json_t *texts, struct serve_error *error) {
    bool good = json_array_size(texts) > 0;
    for (size_t i = 0; i < json_array_size(texts); i++)
        good = good && json_is_string(json_array_get(texts, i));
    return good ? give(format, field, KVC_GRAMMAR_GBNF, NULL, texts, error)
                : format_refuse(error, field, "the choice must be a non-empty array of strings");
}

/* Refuses members whose names are not in names [..., NULL], unless they are null. */
static bool check_members(const json_t *object, const char *const *names, const char *field,
                          struct serve_error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        char clean[60];
        size_t i = 0;
        while (names[i] && strcmp(names[i], name) != 0)
            i++;
        if (names[i] || json_is_null(value))
            continue;
        kvc_printable(name, strlen(name), clean, sizeof clean);
        return serve_refuse(error, 400, SERVE_INVALID, field, "unsupported_parameter", "%s: %s: not supported here",
                            field, clean);
    }
    return true;
}

/* Returns a member if it is present and not null, otherwise NULL. */
static const json_t *member(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

/* Reads response_format: {"type": "json_schema", "json_schema": {"schema": ...}}. The schema may also be a direct
 * member of response_format. */
static bool read_response_format(const json_t *value, struct format *format, struct serve_error *error) {
    static const char *const name = "response_format", *const names[] = {"type", "json_schema", "schema", NULL},
                             *const inner[] = {"name", "description", "strict", "schema", NULL};
    const char *type = json_string_value(member(value, "type"));
    const json_t *object = member(value, "json_schema"), *schema = member(value, "schema");
    const bool any = type && strcmp(type, "json_object") == 0, text = type && strcmp(type, "text") == 0;
    if (!json_is_object(value) || !type || (!any && !text && strcmp(type, "json_schema") != 0))
        return serve_refuse(error, 400, SERVE_INVALID, name, "unsupported_parameter",
                            "%s: type must be text, json_object or json_schema", name);
    if (!check_members(value, names, name, error) || !check_members(object, inner, name, error))
        return false;
    if ((text && (object || schema)) || (any && object) || (object && schema))
        return format_refuse(error, name, "has a schema that does not belong to its type");
    if (object && !json_is_object(object))
        return format_refuse(error, name, "json_schema must be an object");
    if (text)
        return true;
    schema = schema ? schema : member(object, "schema");
    if (schema)
        return give_schema(format, name, schema, error);
    return any ? give(format, name, KVC_GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\"}", NULL, error)
               : format_refuse(error, name, "json_schema must have a schema");
}

/* Reads vLLM's structured_outputs, an object with one grammar. */
static bool read_structured(const json_t *value, struct format *format, struct serve_error *error) {
    static const char *const name = "structured_outputs", *const names[] = {"json",    "json_object", "regex",
                                                                            "grammar", "choice",      NULL};
    const json_t *schema = member(value, "json"), *any = member(value, "json_object"), *regex = member(value, "regex"),
                 *grammar = member(value, "grammar"), *choice = member(value, "choice");
    if (!json_is_object(value))
        return format_refuse(error, name, "must be an object");
    if (!check_members(value, names, name, error))
        return false;
    if ((any && !json_is_boolean(any)) || (regex && !json_is_string(regex)) || (grammar && !json_is_string(grammar)))
        return format_refuse(error, name, "json_object must be true or false, regex and grammar must be texts");
    return (!schema || give_schema(format, name, schema, error)) &&
           (!json_is_true(any) || give(format, name, KVC_GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\"}", NULL, error)) &&
           (!regex || give(format, name, KVC_GRAMMAR_REGEX, json_string_value(regex), NULL, error)) &&
           (!grammar || give(format, name, KVC_GRAMMAR_GBNF, json_string_value(grammar), NULL, error)) &&
           (!choice || give_choice(format, name, choice, error));
}

static bool read_source(const struct source *source, const struct serve_values *values, struct format *format,
                        struct serve_error *error) {
    const void *target = (const char *)values + source->target;
    const json_t *value = source->is_json ? *(json_t *const *)target : NULL;
    const char *text = source->is_json ? NULL : *(const char *const *)target;
    if (value)
        return source->kind == KVC_GRAMMAR_GBNF ? give_choice(format, source->name, value, error)
                                                : give_schema(format, source->name, value, error);
    return !text || !*text || give(format, source->name, source->kind, text, NULL, error);
}

/* Writes a grammar that allows exactly these texts. Strings of GBNF have the same escapes as JSON strings. */
static void write_choice(struct serve_text *grammar, const json_t *texts) {
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        serve_text_put(grammar, i ? " | " : "root ::= ");
        serve_text_string(grammar, json_string_value(text), json_string_length(text));
    }
}

static void write_schema(struct serve_text *text, const json_t *schema) {
    char *written = json_dumps(schema, JSON_COMPACT);
    if (written)
        serve_text_put(text, written);
    text->failed = text->failed || !written || cli_json_lost();
    cli_json_free(written);
}

/* Opens the grammar. If it is wrong, the client gets the library's message. */
static bool open_grammar(struct serve_request *request, const struct format *format, struct serve_error *error) {
    struct kvc_error cause = {KVC_RESOURCE, "no memory for a grammar"};
    struct serve_text written = {0};
    if (format->text)
        serve_text_put(&written, format->text);
    else if (json_is_array(format->value))
        write_choice(&written, format->value);
    else
        write_schema(&written, format->value);
    const enum kvc_status status =
        written.failed ? KVC_RESOURCE
                       : kvc_grammar_open(format->kind, written.data, written.bytes, &request->grammar, &cause);
    serve_text_free(&written);
    if (status == KVC_OK)
        return true;
    if (status == KVC_USAGE)
        return format_refuse(error, format->field, cause.text);
    fprintf(stderr, "kvcull serve: %s\n", cause.text);
    return serve_refuse(error, 500, "server_error", "", NULL, "the server has no memory for this request");
}

bool serve_format_read(struct serve_request *request, struct serve_error *error) {
    const struct serve_values *values = &request->values;
    struct format format = {0};
    if (values->response_format && !read_response_format(values->response_format, &format, error))
        return false;
    if (values->structured_outputs && !read_structured(values->structured_outputs, &format, error))
        return false;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!read_source(&sources[i], values, &format, error))
            return false;
    return !format.field || open_grammar(request, &format, error);
}
