/* schema.c - translates JSON schemas into patterns: references, constants, choices, types.
 *
 * The pattern describes a part of the valid values: members come in the schema's order, white space is short, and
 * numbers have at most 18 digits before and after the point. Every text that the pattern matches is valid. */
#include "models/grammar/schema.h"

#include "core/base/assert.h"
#include "models/files/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMAS_MOST 4096u
#define DEEPEST 100u /* maximum nesting of schemas */

/* The groups of every schema. w: white space; c: a character of a string; d and k: 64 and 4,096 of them; s: a string;
 * i: a whole number; n: a number; v: any value. */
#define ESCAPE                                                                                                         \
    "\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cA-CeEfF][0-9a-fA-F]{3}|[dD](?:[0-7][0-9a-fA-F]{2}|[89abAB][0-9a-fA-F]{2}"        \
    "\\\\u[dD][c-fC-F][0-9a-fA-F]{2})))"
static const char common[] = "(?<w>(?: |\\n[ \\t]{0,40})?)"
                             "(?<c>[^\"\\\\\\x00-\\x1f]|" ESCAPE ")"
                             "(?<d>(?&c){64})(?<k>(?&d){64})"
                             "(?<s>\"(?:[^\"\\\\\\x00-\\x1f]++|" ESCAPE ")*+\")"
                             "(?<i>-?(?:0|[1-9][0-9]{0,17}))"
                             "(?<n>(?&i)(?:\\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?)"
                             "(?<m>(?&s):(?&w)(?&v))"
                             "(?<v>(?&s)|(?&n)|true|false|null|\\[(?&w)(?:(?&v)(?:,(?&w)(?&v))*)?(?&w)\\]|"
                             "\\{(?&w)(?:(?&m)(?:,(?&w)(?&m))*)?(?&w)\\})";

/* Keywords that restrict values and are not supported. Unknown keywords restrict nothing, as the JSON schema standard
 * says. */
static const char *const refused[] = {"not",
                                      "if",
                                      "then",
                                      "else",
                                      "dependentSchemas",
                                      "dependentRequired",
                                      "dependencies",
                                      "contains",
                                      "propertyNames",
                                      "minContains",
                                      "maxContains",
                                      "unevaluatedItems",
                                      "unevaluatedProperties",
                                      "$dynamicRef",
                                      "$recursiveRef",
                                      "additionalItems",
                                      "extends",
                                      "disallow"};
/* ---- messages ---- */

static void write_place(const struct schema_place *at, struct kvc_regex *text) {
    if (!at)
        return;
    write_place(at->up, text);
    if (at->key) {
        char clean[60];
        kvc_printable(at->key, strlen(at->key), clean, sizeof clean);
        kvc_regex_print(text, "/%s", clean);
    } else {
        kvc_regex_print(text, "/%zu", at->index);
    }
}

bool schema_refuse(struct schema *schema, const struct schema_place *at, const char *format, ...) {
    struct kvc_regex place = {0};
    char message[300];
    va_list arguments;
    if (schema->status != KVC_OK)
        return false;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    write_place(at, &place);
    const char *text = place.text ? place.text : "";
    const size_t most = 150;
    schema->status = kvc_fail(schema->error, KVC_USAGE, "schema: #%s%s: %s", place.bytes > most ? "..." : "",
                              place.bytes > most ? text + place.bytes - most : text, message);
    kvc_regex_free(&place);
    return false;
}

static bool no_memory(struct schema *schema) {
    if (schema->status == KVC_OK)
        schema->status = kvc_fail(schema->error, KVC_RESOURCE, "schema: no memory");
    return false;
}

bool schema_count(struct schema *schema, const json_t *node, const struct schema_place *at, const char *name,
                  uint64_t most, uint64_t *number) {
    const json_t *value = json_object_get(node, name);
    const struct schema_place here = {at, name, 0};
    double given = json_number_value(value);
    if (!value)
        return true;
    if (!json_is_number(value) || !(given >= 0) || given != floor(given))
        return schema_refuse(schema, &here, "must be a whole number, 0 or more");
    if (given > (double)most)
        return schema_refuse(schema, &here, "%.0f: at most %llu is supported", given, (unsigned long long)most);
    *number = (uint64_t)given;
    return true;
}

static int add_literal(const char *text, size_t bytes, void *out) {
    kvc_regex_literal(out, text, bytes);
    return 0;
}

/* Does not use json_dumps, because the calling program may have replaced jansson's allocation functions. */
bool schema_literal(struct schema *schema, const json_t *value, struct kvc_regex *out) {
    return json_dump_callback(value, add_literal, out, JSON_ENCODE_ANY | JSON_COMPACT) == 0 || no_memory(schema);
}

/* ---- references ---- */

/* Decodes one step of a JSON pointer in place: %41 is A, ~1 is a slash, ~0 a tilde. */
static bool decode_step(char *step) {
    char *to = step;
    for (const char *from = step; *from; from++) {
        unsigned code;
        if (*from == '%') {
            if (sscanf(from + 1, "%2x", &code) != 1 || code == 0 || !from[1] || !from[2])
                return false;
            *to++ = (char)code;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    to = step;
    for (const char *from = step; *from; from++) {
        const bool escaped = *from == '~';
        if (escaped && *++from != '0' && *from != '1')
            return false;
        *to++ = (char)(!escaped ? *from : *from == '0' ? '~' : '/');
    }
    *to = '\0';
    return true;
}

static const json_t *follow(const json_t *node, char *path) {
    for (char *step = path, *next; node && step; step = next) {
        next = strchr(step, '/');
        if (next)
            *next++ = '\0';
        if (!decode_step(step))
            return NULL;
        if (json_is_array(node)) {
            char *end;
            const unsigned long index = strtoul(step, &end, 10);
            node = *step >= '0' && *step <= '9' && !*end ? json_array_get(node, index) : NULL;
        } else {
            node = json_object_get(node, step);
        }
    }
    return node;
}

const json_t *schema_target(struct schema *schema, const char *reference, const struct schema_place *at) {
    const json_t *found;
    if (reference[0] != '#' || (reference[1] && reference[1] != '/')) {
        char clean[80];
        kvc_printable(reference, strlen(reference), clean, sizeof clean);
        (void)schema_refuse(schema, at, "%s: only references to the same schema, #/..., are supported", clean);
        return NULL;
    }
    if (!reference[1])
        return schema->root;
    char *copy = strdup(reference + 2);
    if (!copy) {
        (void)no_memory(schema);
        return NULL;
    }
    found = follow(schema->root, copy);
    free(copy);
    if (!found)
        (void)schema_refuse(schema, at, "there is no such schema");
    return found;
}

/* ---- schemas ---- */

static bool listed(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Refuses keywords that are not supported. */
static bool check_keywords(struct schema *schema, const json_t *node, const struct schema_place *at) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)node, name, value) {
        const struct schema_place here = {at, name, 0};
        if (listed(name, refused, sizeof refused / sizeof *refused))
            return schema_refuse(schema, &here, "is not supported");
        if (strcmp(name, "patternProperties") == 0 && !(json_is_object(value) && json_object_size(value) == 0))
            return schema_refuse(schema, &here, "is not supported");
        if (strcmp(name, "uniqueItems") == 0 && !json_is_false(value))
            return schema_refuse(schema, &here, "is not supported");
        if (strcmp(name, "multipleOf") == 0 && !(json_is_number(value) && json_number_value(value) == 1))
            return schema_refuse(schema, &here, "only 1 is supported");
        if ((strcmp(name, "$id") == 0 || strcmp(name, "id") == 0) && at && json_is_string(value))
            return schema_refuse(schema, &here, "is supported only at the root");
    }
    return true;
}

/* Refuses keywords other than `name`, unless they restrict nothing. `also` is another permitted keyword, or NULL. */
static bool check_alone(struct schema *schema, const json_t *node, const struct schema_place *at, const char *name,
                        const char *also) {
    static const char *const known[] = {"type",
                                        "enum",
                                        "const",
                                        "anyOf",
                                        "oneOf",
                                        "allOf",
                                        "$ref",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "minProperties",
                                        "maxProperties",
                                        "items",
                                        "prefixItems",
                                        "minItems",
                                        "maxItems",
                                        "minLength",
                                        "maxLength",
                                        "pattern",
                                        "format",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_object_get(node, known[i]) && strcmp(known[i], name) != 0 && (!also || strcmp(known[i], also) != 0))
            return schema_refuse(schema, at, "%s beside %s is not supported", known[i], name);
    return true;
}

static bool constants(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    const json_t *list = json_object_get(node, "enum"), *only = json_object_get(node, "const");
    const struct schema_place here = {at, only ? "const" : "enum", 0};
    const size_t count = only ? 1 : json_array_size(list);
    unsigned types = ~0u;
    bool any = false;
    if (only && list) { /* some generators write both `const` and `enum` */
        bool found = false;
        for (size_t i = 0; i < json_array_size(list); i++)
            found = found || json_equal(json_array_get(list, i), only);
        if (!found)
            return schema_refuse(schema, &here, "is not among the values of enum");
    }
    if (list && !json_is_array(list))
        return schema_refuse(schema, &here, "must be an array");
    if (json_object_get(node, "type") && !schema_types(schema, node, at, &types))
        return false;
    kvc_regex_put(out, "(?:");
    for (size_t i = 0; i < count; i++) {
        const json_t *value = only ? only : json_array_get(list, i);
        if (!schema_has_type(value, types))
            continue;
        kvc_regex_put(out, any ? "|" : "");
        if (!schema_literal(schema, value, out))
            return false;
        any = true;
    }
    kvc_regex_put(out, ")");
    return any || schema_refuse(schema, &here, "allows no value");
}

/* Appends a choice among the schemas of an array. */
static bool choice(struct schema *schema, const json_t *list, const struct schema_place *at, bool one,
                   struct kvc_regex *out) {
    const size_t count = json_array_size(list);
    if (count == 0)
        return schema_refuse(schema, at, "must be an array of schemas");
    for (size_t i = 0; one && i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (!schema_disjoint(schema, json_array_get(list, j), json_array_get(list, i), at))
                return schema_refuse(schema, at, "schemas %zu and %zu may overlap; use anyOf", j, i);
    kvc_regex_put(out, "(?:");
    for (size_t i = 0; i < count; i++) {
        const struct schema_place here = {at, NULL, i};
        kvc_regex_put(out, i ? "|" : "");
        if (!schema_call(schema, json_array_get(list, i), &here, out))
            return false;
    }
    kvc_regex_put(out, ")");
    return true;
}

/* Appends an array or object. The schemas within it describe other values than `node` does. */
static bool within(struct schema *schema, const json_t *node, const struct schema_place *at,
                   bool (*append)(struct schema *, const json_t *, const struct schema_place *, struct kvc_regex *),
                   struct kvc_regex *out) {
    const unsigned value = schema->value;
    schema->value = ++schema->values;
    const bool good = append(schema, node, at, out);
    schema->value = value;
    return good;
}

static bool typed(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    unsigned types;
    const char *before = "(?:";
    if (!schema_types(schema, node, at, &types))
        return false;
    if (types == (1u << SCHEMA_TYPES) - 1) {
        kvc_regex_put(out, "(?&v)");
        return true;
    }
    if (types & 1u << SCHEMA_NUMBER)
        types &= ~(1u << SCHEMA_INTEGER);
    for (unsigned type = 0; type < SCHEMA_TYPES; type++) {
        if (!(types >> type & 1))
            continue;
        kvc_regex_put(out, before);
        before = "|";
        bool good = true;
        switch ((enum schema_type)type) {
        case SCHEMA_NULL:
            kvc_regex_put(out, "null");
            break;
        case SCHEMA_BOOLEAN:
            kvc_regex_put(out, "true|false");
            break;
        case SCHEMA_INTEGER:
            good = schema_number(schema, node, at, true, out);
            break;
        case SCHEMA_NUMBER:
            good = schema_number(schema, node, at, false, out);
            break;
        case SCHEMA_STRING:
            good = schema_string(schema, node, at, out);
            break;
        case SCHEMA_ARRAY:
            good = within(schema, node, at, schema_array, out);
            break;
        default:
            good = within(schema, node, at, schema_object, out);
            break;
        }
        if (!good)
            return false;
    }
    kvc_regex_put(out, ")");
    return true;
}

static bool define(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    static const char *const choices[] = {"anyOf", "oneOf", "allOf"};
    const json_t *reference = json_object_get(node, "$ref");
    if (!json_is_object(node))
        return schema_refuse(schema, at, json_is_false(node) ? "allows no value" : "must be an object or true");
    if (!check_keywords(schema, node, at))
        return false;
    if (reference) {
        const struct schema_place here = {at, "$ref", 0};
        if (!json_is_string(reference))
            return schema_refuse(schema, &here, "must be a string");
        const json_t *target = schema_target(schema, json_string_value(reference), &here);
        return check_alone(schema, node, at, "$ref", NULL) && target && schema_call(schema, target, &here, out);
    }
    for (size_t i = 0; i < 3; i++) {
        const json_t *list = json_object_get(node, choices[i]);
        const struct schema_place here = {at, choices[i], 0};
        if (!list)
            continue;
        if (i == 2 && json_array_size(list) != 1)
            return schema_refuse(schema, &here, "only one schema is supported");
        return check_alone(schema, node, at, choices[i], NULL) && choice(schema, list, &here, i == 1, out);
    }
    if (json_object_get(node, "const") || json_object_get(node, "enum")) {
        const bool both = json_object_get(node, "const") && json_object_get(node, "enum");
        json_t *rest = json_copy((json_t *)(uintptr_t)node);
        bool good = rest != NULL || no_memory(schema);
        if (both)
            json_object_del(rest, "enum");
        good = good && check_alone(schema, rest, at, json_object_get(rest, "const") ? "const" : "enum", "type");
        json_decref(rest);
        return good && constants(schema, node, at, out);
    }
    return typed(schema, node, at, out);
}

/* Returns a new group for a schema, or 0 if there are too many or no memory. */
static unsigned new_group(struct schema *schema, const json_t *node, const struct schema_place *at) {
    if (schema->known_count == SCHEMAS_MOST || schema->depth == DEEPEST) {
        (void)schema_refuse(
            schema, at, schema->depth == DEEPEST ? "schemas are nested too deeply" : "the schema has too many parts");
        return 0;
    }
    if (schema->known_count == schema->known_capacity) {
        const size_t capacity = 2 * schema->known_capacity + 16;
        struct schema_known *grown = realloc(schema->known, capacity * sizeof *grown);
        if (!grown) {
            (void)no_memory(schema);
            return 0;
        }
        schema->known = grown;
        schema->known_capacity = capacity;
    }
    schema->known[schema->known_count++] = (struct schema_known){node, ++schema->last_group, schema->value};
    return schema->last_group;
}

bool schema_call(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    struct kvc_regex body = {0};
    unsigned group = 0;
    if (json_is_true(node)) {
        kvc_regex_put(out, "(?&v)");
        return true;
    }
    for (size_t i = 0; i < schema->known_count && group == 0; i++)
        if (schema->known[i].node == node) {
            group = schema->known[i].group;
            if (schema->known[i].value == schema->value)
                return schema_refuse(schema, at, "refers to itself without an object or array between");
        }
    const bool is_new = group == 0;
    if (is_new && !(group = new_group(schema, node, at)))
        return false;
    kvc_regex_print(out, "(?&g%u)", group);
    if (!is_new)
        return true;
    const size_t index = schema->known_count - 1;
    schema->depth++;
    const bool good = define(schema, node, at, &body);
    schema->depth--;
    schema->known[index].value = 0;
    kvc_regex_print(&schema->groups, "(?<g%u>", group);
    kvc_regex_put(&schema->groups, body.text ? body.text : "");
    kvc_regex_put(&schema->groups, ")");
    const bool failed = body.failed || schema->groups.failed;
    kvc_regex_free(&body);
    return good && (!failed || no_memory(schema));
}

void schema_define(const struct schema *schema, struct kvc_regex *out) {
    kvc_regex_put(out, "(?(DEFINE)");
    kvc_regex_put(out, common);
    kvc_regex_put(out, schema->groups.text ? schema->groups.text : "");
}

void schema_close(struct schema *schema) {
    kvc_regex_free(&schema->groups);
    free(schema->known);
}

enum kvc_status kvc_schema_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error) {
    json_t *root = NULL;
    struct kvc_regex call = {0};
    struct kvc_error reason;
    enum kvc_status status = kvc_json_parse("schema", text, bytes, &root, &reason);
    if (status != KVC_OK)
        return kvc_fail(error, status == KVC_RESOURCE ? status : KVC_USAGE, "%s", reason.text);
    struct schema schema = {.root = root, .error = error, .value = 1, .values = 1};
    if (schema_call(&schema, root, NULL, &call) && (!call.failed || no_memory(&schema))) {
        schema_define(&schema, regex);
        kvc_regex_put(regex, ")");
        kvc_regex_put(regex, call.text);
    }
    KVC_ASSERT(schema.status != KVC_OK || schema.depth == 0);
    kvc_regex_free(&call);
    schema_close(&schema);
    json_decref(root);
    return schema.status;
}
