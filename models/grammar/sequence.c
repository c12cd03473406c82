/* sequence.c - translates a sequence of texts and JSON values to a pattern. A sequence is JSON:
 * {"before": TEXT, "items": [[PART, ...], ...], "between": TEXT, "after": TEXT}. It stands for the text `before`, an
 * item, and the text `after`. If there is `between`, any number of further items may follow the first item, each after
 * the text `between`. An item is one of `items`: its parts in order. A part that is a string is a text; any other value
 * is a schema. */
#include "models/grammar/schema.h"

#include "models/files/json.h"

/* Appends a member that is a text. Returns false if the member is something else. */
static bool add_text(const json_t *root, const char *name, struct kvc_regex *out) {
    const json_t *text = json_object_get(root, name);
    if (json_is_string(text))
        kvc_regex_literal(out, json_string_value(text), json_string_length(text));
    return !text || json_is_string(text);
}

static bool add_item(struct schema *schema, const json_t *parts, const struct schema_place *at, struct kvc_regex *out) {
    if (json_array_size(parts) == 0)
        return schema_refuse(schema, at, "must be an array of texts and schemas");
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const struct schema_place place = {at, NULL, i};
        const json_t *part = json_array_get(parts, i);
        if (json_is_string(part))
            kvc_regex_literal(out, json_string_value(part), json_string_length(part));
        else if (!schema_call(schema, part, &place, out))
            return false;
    }
    return true;
}

/* Appends the items as alternatives. */
static bool add_items(struct schema *schema, struct kvc_regex *out) {
    const json_t *items = json_object_get(schema->root, "items");
    const struct schema_place at = {NULL, "items", 0};
    if (json_array_size(items) == 0)
        return schema_refuse(schema, &at, "must be an array of items");
    for (size_t i = 0; i < json_array_size(items); i++) {
        const struct schema_place place = {&at, NULL, i};
        kvc_regex_put(out, i > 0 ? "|" : "");
        if (!add_item(schema, json_array_get(items, i), &place, out))
            return false;
    }
    return true;
}

enum kvc_status kvc_sequence_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error) {
    json_t *root = NULL;
    struct kvc_regex items = {0};
    struct kvc_error reason;
    const enum kvc_status status = kvc_json_parse("sequence", text, bytes, &root, &reason);
    if (status != KVC_OK)
        return kvc_fail(error, status == KVC_RESOURCE ? status : KVC_USAGE, "%s", reason.text);
    struct schema schema = {.root = root, .error = error, .value = 1, .values = 1};
    bool good = add_items(&schema, &items);
    if (good) {
        schema_define(&schema, regex);
        kvc_regex_put(regex, "(?<item>");
        kvc_regex_put(regex, items.text);
        kvc_regex_put(regex, "))");
        good = add_text(root, "before", regex);
        kvc_regex_put(regex, "(?&item)");
        if (json_object_get(root, "between")) {
            kvc_regex_put(regex, "(?:");
            good = add_text(root, "between", regex) && good;
            kvc_regex_put(regex, "(?&item))*");
        }
        good = add_text(root, "after", regex) && good;
        if (!good)
            (void)schema_refuse(&schema, NULL, "before, between and after must be texts");
    }
    regex->failed = regex->failed || items.failed;
    kvc_regex_free(&items);
    schema_close(&schema);
    json_decref(root);
    return schema.status;
}
