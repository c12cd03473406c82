/* schema_types.c - the types that a schema allows, and schemas that exclude each other. */
#include "models/grammar/schema.h"

#include <string.h>

#define ALL ((1u << SCHEMA_TYPES) - 1)
#define STEPS_MOST 1000000u /* steps of all comparisons of schemas together */
#define NUMBERS (1u << SCHEMA_INTEGER | 1u << SCHEMA_NUMBER)

static bool type_of_name(const json_t *name, unsigned *types) {
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (unsigned i = 0; i < SCHEMA_TYPES; i++)
        if (json_is_string(name) && strcmp(json_string_value(name), names[i]) == 0) {
            *types |= i == SCHEMA_NUMBER ? NUMBERS : 1u << i;
            return true;
        }
    return false;
}

/* Returns the types to which the schema's keywords apply; all types if there are none. */
static unsigned implied(const json_t *node) {
    static const struct {
        const char *name;
        unsigned types;
    } keywords[] = {{"properties", 1u << SCHEMA_OBJECT},
                    {"required", 1u << SCHEMA_OBJECT},
                    {"minProperties", 1u << SCHEMA_OBJECT},
                    {"maxProperties", 1u << SCHEMA_OBJECT},
                    {"additionalProperties", 1u << SCHEMA_OBJECT},
                    {"items", 1u << SCHEMA_ARRAY},
                    {"prefixItems", 1u << SCHEMA_ARRAY},
                    {"minItems", 1u << SCHEMA_ARRAY},
                    {"maxItems", 1u << SCHEMA_ARRAY},
                    {"pattern", 1u << SCHEMA_STRING},
                    {"minLength", 1u << SCHEMA_STRING},
                    {"maxLength", 1u << SCHEMA_STRING},
                    {"format", 1u << SCHEMA_STRING},
                    {"minimum", NUMBERS},
                    {"maximum", NUMBERS},
                    {"exclusiveMinimum", NUMBERS},
                    {"exclusiveMaximum", NUMBERS},
                    {"multipleOf", 1u << SCHEMA_INTEGER}};
    unsigned types = 0;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(node, keywords[i].name))
            types |= keywords[i].types;
    return types ? types : ALL;
}

bool schema_types(struct schema *schema, const json_t *node, const struct schema_place *at, unsigned *types) {
    const json_t *type = json_object_get(node, "type");
    const struct schema_place here = {at, "type", 0};
    const char *const wanted = "must be null, boolean, integer, number, string, array, object, or an array of these";
    *types = type ? 0 : implied(node);
    if (json_is_string(type) && !type_of_name(type, types))
        return schema_refuse(schema, &here, "%s", wanted);
    for (size_t i = 0; i < json_array_size(type); i++)
        if (!type_of_name(json_array_get(type, i), types))
            return schema_refuse(schema, &here, "%s", wanted);
    if (!*types)
        return schema_refuse(schema, &here, "%s", wanted);
    if (json_object_get(node, "multipleOf"))
        *types &= ~(1u << SCHEMA_NUMBER); /* only multiples of 1 are supported */
    return *types || schema_refuse(schema, &here, "allows no value");
}

bool schema_has_type(const json_t *value, unsigned types) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return types >> SCHEMA_NULL & 1;
    case JSON_TRUE:
    case JSON_FALSE:
        return types >> SCHEMA_BOOLEAN & 1;
    case JSON_INTEGER:
        return types & NUMBERS;
    case JSON_REAL:
        return types >> SCHEMA_NUMBER & 1;
    case JSON_STRING:
        return types >> SCHEMA_STRING & 1;
    case JSON_ARRAY:
        return types >> SCHEMA_ARRAY & 1;
    default:
        return types >> SCHEMA_OBJECT & 1;
    }
}

/* Returns the constants of a schema as an array (new reference), or NULL if it has none. */
static json_t *values_of(const json_t *node) {
    const json_t *only = json_object_get(node, "const"), *list = json_object_get(node, "enum");
    if (only)
        return json_pack("[O]", only);
    return json_is_array(list) ? json_incref((json_t *)(uintptr_t)list) : NULL;
}

/* Returns the types of a schema or, if it has constants, of its constants. */
static unsigned possible(const json_t *node) {
    unsigned types = 0, each;
    json_t *values = values_of(node), *type = json_object_get(node, "type");
    for (size_t i = 0; i < json_array_size(values); i++)
        for (each = 0; each < SCHEMA_TYPES; each++)
            types |= schema_has_type(json_array_get(values, i), 1u << each) ? 1u << each : 0;
    if (values)
        json_decref(values);
    else if (json_is_string(type))
        (void)type_of_name(type, &types);
    else
        for (size_t i = 0; i < json_array_size(type); i++)
            (void)type_of_name(json_array_get(type, i), &types);
    return types ? types : ALL;
}

/* Returns the number of steps that schema_disjoint takes for two schemas. */
static size_t steps(const json_t *a, const json_t *b) {
    const json_t *left = json_object_get(a, "enum"), *right = json_object_get(b, "enum");
    json_t *member, *members = json_object_get(a, "properties");
    const char *name;
    size_t sum = 1 + (1 + json_array_size(left)) * (1 + json_array_size(right));
    json_object_foreach(members, name, member) sum +=
        json_array_size(json_object_get(a, "required")) + json_array_size(json_object_get(b, "required")) + 1 +
        (1 + json_array_size(json_object_get(member, "enum"))) *
            (1 + json_array_size(json_object_get(json_object_get(json_object_get(b, "properties"), name), "enum")));
    return sum;
}

/* Returns true if both schemas have constants and none in common. */
static bool different(const json_t *a, const json_t *b) {
    json_t *left = values_of(a), *right = values_of(b);
    bool common = !left || !right;
    for (size_t i = 0; i < json_array_size(left); i++)
        for (size_t j = 0; j < json_array_size(right); j++)
            common = common || json_equal(json_array_get(left, i), json_array_get(right, j)) ||
                     (json_is_number(json_array_get(left, i)) && json_is_number(json_array_get(right, j)));
    json_decref(left);
    json_decref(right);
    return !common;
}

static bool requires(const json_t *node, const char *name) {
    const json_t *required = json_object_get(node, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *item = json_string_value(json_array_get(required, i));
        if (item && strcmp(item, name) == 0)
            return true;
    }
    return false;
}

bool schema_disjoint(struct schema *schema, const json_t *a, const json_t *b, const struct schema_place *at) {
    const json_t *sides[2] = {a, b};
    for (int side = 0; side < 2; side++)
        for (int steps = 0; steps < 8; steps++) {
            const json_t *reference = json_object_get(sides[side], "$ref");
            if (json_is_string(reference) && !(sides[side] = schema_target(schema, json_string_value(reference), at)))
                return false;
        }
    if (!json_is_object(sides[0]) || !json_is_object(sides[1]))
        return false;
    schema->steps += steps(sides[0], sides[1]);
    if (schema->steps > STEPS_MOST)
        return schema_refuse(schema, at, "too many values to compare; use anyOf");
    if (!(possible(sides[0]) & possible(sides[1])) || different(sides[0], sides[1]))
        return true;
    if (possible(sides[0]) != 1u << SCHEMA_OBJECT || possible(sides[1]) != 1u << SCHEMA_OBJECT)
        return false;
    const char *name;
    json_t *value, *members = json_object_get(sides[0], "properties");
    json_object_foreach(members, name, value) {
        const json_t *other = json_object_get(json_object_get(sides[1], "properties"), name);
        if (other && requires(sides[0], name) && requires(sides[1], name) && different(value, other))
            return true;
    }
    return false;
}
