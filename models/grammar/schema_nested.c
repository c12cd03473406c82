/* schema_nested.c - objects and arrays of a schema. */
#include "models/grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MOST 1000u
#define ITEMS_MOST 60000u

/* ---- objects ---- */

struct member {
    const char *key;
    const json_t *value; /* the member's schema */
    bool required;
};

/* Appends `"key": value`. */
static bool put_member(struct schema *schema, const struct member *member, const struct schema_place *at,
                       struct kvc_regex *out) {
    const struct schema_place members = {at, "properties", 0}, here = {&members, member->key, 0};
    json_t *key = json_string(member->key);
    const bool good = key && schema_literal(schema, key, out);
    json_decref(key);
    kvc_regex_put(out, ":(?&w)");
    return good && schema_call(schema, member->value, &here, out);
}

static bool is_required(const json_t *required, const char *key) {
    for (size_t i = 0; i < json_array_size(required); i++)
        if (strcmp(json_string_value(json_array_get(required, i)), key) == 0)
            return true;
    return false;
}

/* Collects the members in the schema's order, then required members without a schema of their own. */
static bool collect(struct schema *schema, const json_t *node, const struct schema_place *at, struct member *members,
                    size_t *count) {
    const json_t *required = json_object_get(node, "required"), *more = json_object_get(node, "additionalProperties");
    json_t *properties = json_object_get(node, "properties"), *value;
    const char *key;
    *count = 0;
    json_object_foreach(properties, key, value) {
        if (json_is_false(value) && !is_required(required, key))
            continue;
        members[(*count)++] = (struct member){key, value, is_required(required, key)};
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        const struct schema_place list = {at, "required", 0}, here = {&list, NULL, i};
        key = json_string_value(json_array_get(required, i));
        bool known = json_object_get(properties, key) != NULL;
        for (size_t j = 0; j < *count; j++)
            known = known || strcmp(members[j].key, key) == 0;
        if (known)
            continue;
        if (json_is_false(more))
            return schema_refuse(schema, &here, "has no schema, and additionalProperties is false");
        members[(*count)++] = (struct member){key, more ? more : json_true(), true};
    }
    return true;
}

/* Appends optional members. For each of them, a group lists the members that may follow it. */
static bool optional_members(struct schema *schema, const struct member *members, size_t count,
                             const struct schema_place *at, struct kvc_regex *out) {
    const unsigned first = schema->last_group;
    schema->last_group += (unsigned)count;
    kvc_regex_put(out, "(?:");
    for (size_t i = 0; i < count; i++) {
        struct kvc_regex tail = {0};
        kvc_regex_put(out, i ? "|" : "");
        if (!put_member(schema, &members[i], at, out))
            return false;
        if (i + 1 < count)
            kvc_regex_print(out, "(?&g%u)", first + (unsigned)i + 2);
        if (i == 0)
            continue;
        /* Group first + i + 1 matches member i or nothing, then the later members. */
        kvc_regex_print(&tail, "(?<g%u>(?:,(?&w)", first + (unsigned)i + 1);
        const bool good = put_member(schema, &members[i], at, &tail);
        kvc_regex_put(&tail, ")?");
        if (i + 1 < count)
            kvc_regex_print(&tail, "(?&g%u)", first + (unsigned)i + 2);
        kvc_regex_put(&tail, ")");
        kvc_regex_put(&schema->groups, tail.text ? tail.text : "");
        schema->groups.failed = schema->groups.failed || tail.failed;
        kvc_regex_free(&tail);
        if (!good)
            return false;
    }
    kvc_regex_put(out, ")?");
    return true;
}

static bool put_members(struct schema *schema, const struct member *members, size_t count,
                        const struct schema_place *at, struct kvc_regex *out) {
    bool before = false; /* another member certainly precedes the next one */
    size_t required = 0;
    while (required < count && !members[required].required)
        required++;
    if (required == count)
        return optional_members(schema, members, count, at, out);
    for (size_t i = 0; i < count; i++) {
        const bool comma_after = i < required;
        kvc_regex_put(out, members[i].required ? "" : "(?:");
        kvc_regex_put(out, before ? ",(?&w)" : "");
        if (!put_member(schema, &members[i], at, out))
            return false;
        kvc_regex_put(out, comma_after ? ",(?&w)" : "");
        kvc_regex_put(out, members[i].required ? "" : ")?");
        before = before || members[i].required;
    }
    return true;
}

/* Appends members with any names. */
static bool free_members(struct schema *schema, const json_t *value, const struct schema_place *at, uint64_t least,
                         uint64_t most, struct kvc_regex *out) {
    const struct schema_place here = {at, "additionalProperties", 0};
    struct kvc_regex call = {0};
    if (json_is_false(value) || most == 0)
        return least == 0 || schema_refuse(schema, at, "allows no member, and needs %llu", (unsigned long long)least);
    if (!schema_call(schema, value ? value : json_true(), &here, &call)) {
        kvc_regex_free(&call);
        return false;
    }
    kvc_regex_print(out, "(?:(?&s):(?&w)%s(?:,(?&w)(?&s):(?&w)%s)", call.text ? call.text : "",
                    call.text ? call.text : "");
    if (most <= MEMBERS_MOST)
        kvc_regex_print(out, "{0,%u}", (unsigned)most - 1);
    else
        kvc_regex_put(out, "*");
    kvc_regex_put(out, least ? ")" : ")?");
    out->failed = out->failed || call.failed;
    kvc_regex_free(&call);
    return true;
}

bool schema_object(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    const json_t *properties = json_object_get(node, "properties"), *required = json_object_get(node, "required");
    const struct schema_place here = {at, "properties", 0}, list = {at, "required", 0};
    uint64_t least = 0, most = UINT64_MAX;
    size_t count = json_object_size(properties) + json_array_size(required), needed = 0;
    if (!schema_count(schema, node, at, "minProperties", MEMBERS_MOST, &least) ||
        !schema_count(schema, node, at, "maxProperties", INT32_MAX, &most))
        return false;
    if (properties && !json_is_object(properties))
        return schema_refuse(schema, &here, "must be an object");
    if (required && !json_is_array(required))
        return schema_refuse(schema, &list, "must be an array");
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_is_string(json_array_get(required, i)))
            return schema_refuse(schema, &list, "must have strings");
    if (count > MEMBERS_MOST)
        return schema_refuse(schema, at, "%zu members; at most %u are supported", count, MEMBERS_MOST);
    struct member *members = calloc(count + 1, sizeof *members);
    if (!members) {
        schema->status = kvc_fail(schema->error, KVC_RESOURCE, "schema: no memory");
        return false;
    }
    bool good = collect(schema, node, at, members, &count);
    for (size_t i = 0; i < count; i++)
        needed += members[i].required;
    kvc_regex_put(out, "\\{(?&w)");
    if (good && count == 0) {
        good = least <= 1 || schema_refuse(schema, at, "minProperties %llu: at most 1 is supported without properties",
                                           (unsigned long long)least);
        good = good && free_members(schema, json_object_get(node, "additionalProperties"), at, least, most, out);
    } else if (good) {
        good = (least <= needed && most >= count) ||
               schema_refuse(schema, at, "minProperties and maxProperties must follow from properties and required");
        good = good && put_members(schema, members, count, at, out);
    }
    kvc_regex_put(out, "(?&w)\\}");
    free(members);
    return good;
}

/* ---- arrays ---- */

/* Appends elements that match `call`: at least `least` and at most `most`. `first`: no element precedes them. */
static void rest(const char *call, bool first, uint64_t least, uint64_t most, struct kvc_regex *out) {
    char upper[24] = "";
    if (most == 0)
        return;
    if (most <= ITEMS_MOST)
        (void)snprintf(upper, sizeof upper, "%u", (unsigned)(most - first));
    if (!first)
        kvc_regex_print(out, "(?:,(?&w)%s){%u,%s}", call, (unsigned)least, upper);
    else
        kvc_regex_print(out, "(?:%s(?:,(?&w)%s){%u,%s})%s", call, call, (unsigned)(least ? least - 1 : 0), upper,
                        least ? "" : "?");
}

bool schema_array(struct schema *schema, const json_t *node, const struct schema_place *at, struct kvc_regex *out) {
    const json_t *items = json_object_get(node, "items"), *prefix = json_object_get(node, "prefixItems");
    const bool old = json_is_array(items); /* before 2020, prefixItems was written as an array in `items` */
    const struct schema_place before = {at, old ? "items" : "prefixItems", 0}, here = {at, "items", 0};
    uint64_t least = 0, most = UINT64_MAX;
    if (old && prefix)
        return schema_refuse(schema, &here, "must be a schema");
    if (prefix && !json_is_array(prefix))
        return schema_refuse(schema, &before, "must be an array");
    if (old) {
        prefix = items;
        items = NULL;
    }
    const size_t fixed = json_array_size(prefix);
    if (!schema_count(schema, node, at, "minItems", ITEMS_MOST, &least) ||
        !schema_count(schema, node, at, "maxItems", ITEMS_MOST, &most))
        return false;
    if (json_is_false(items) && most > fixed)
        most = fixed;
    if (least > most)
        return schema_refuse(schema, at, "minItems is above the number of items that are allowed");
    size_t optional = 0;
    kvc_regex_put(out, "\\[(?&w)");
    for (size_t i = 0; i < fixed && i < most; i++) {
        const struct schema_place place = {&before, NULL, i};
        if (i >= least) {
            kvc_regex_put(out, "(?:");
            optional++;
        }
        kvc_regex_put(out, i ? ",(?&w)" : "");
        if (!schema_call(schema, json_array_get(prefix, i), &place, out))
            return false;
    }
    if (most > fixed) {
        struct kvc_regex call = {0};
        const bool good = schema_call(schema, items ? items : json_true(), &here, &call);
        if (good)
            rest(call.text ? call.text : "", fixed == 0, least > fixed ? least - fixed : 0,
                 most == UINT64_MAX ? most : most - fixed, out);
        out->failed = out->failed || call.failed;
        kvc_regex_free(&call);
        if (!good)
            return false;
    }
    for (size_t i = 0; i < optional; i++)
        kvc_regex_put(out, ")?");
    kvc_regex_put(out, "(?&w)\\]");
    return true;
}
