/* fields.c - reads the fields of a record with type checks, and fills templates. */
#include "eval/records.h"

#include <string.h>

static const char *kind_of(const json_t *value) {
    if (!value)
        return "is missing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "is an object";
    case JSON_ARRAY:
        return "is a list";
    case JSON_STRING:
        return json_string_length(value) ? "is a text" : "is an empty text";
    case JSON_INTEGER:
    case JSON_REAL:
        return "is a number";
    case JSON_NULL:
        return "is null";
    default:
        return "is true or false";
    }
}

void eval_row_wrong(struct eval_row *row, const char *field, const char *takes) {
    if (row->status != KVC_OK)
        return;
    row->status = kvc_fail(row->error, KVC_INPUT, "--%s: %s: line %llu: \"%s\" %s; it must be %s", row->from->option,
                           row->from->path, (unsigned long long)row->from->items[row->index].line, field,
                           kind_of(json_object_get(row->object, field)), takes);
}

const char *eval_row_text(struct eval_row *row, const char *field) {
    const json_t *value = json_object_get(row->object, field);
    if (json_is_string(value))
        return json_string_value(value);
    eval_row_wrong(row, field, "a text");
    return NULL;
}

const char *eval_row_words(struct eval_row *row, const char *field) {
    const json_t *value = json_object_get(row->object, field);
    if (json_string_length(value) > 0)
        return json_string_value(value);
    eval_row_wrong(row, field, "a text that is not empty");
    return NULL;
}

json_t *eval_row_list(struct eval_row *row, const char *field, size_t least) {
    json_t *value = json_object_get(row->object, field);
    char takes[64];
    if (json_is_array(value) && json_array_size(value) >= least)
        return value;
    snprintf(takes, sizeof takes, "a list of %zu or more", least);
    eval_row_wrong(row, field, takes);
    return NULL;
}

json_t *eval_row_texts(struct eval_row *row, const char *field, size_t least, bool alone) {
    json_t *value = json_object_get(row->object, field), *text;
    bool fine = json_is_array(value) && json_array_size(value) >= least;
    size_t i;
    json_array_foreach(value, i, text) fine = fine && json_string_length(text) > 0;
    if (fine || (alone && json_string_length(value) > 0))
        return value;
    eval_row_wrong(row, field, alone ? "a text, or a list of texts" : "a list of texts, none of them empty");
    return NULL;
}

bool eval_row_number(struct eval_row *row, const char *field, int64_t least, int64_t most, int64_t *number) {
    const json_t *value = json_object_get(row->object, field);
    char takes[80];
    *number = json_integer_value(value);
    if (json_is_integer(value) && *number >= least && *number <= most)
        return true;
    snprintf(takes, sizeof takes, "a whole number from %lld to %lld", (long long)least, (long long)most);
    eval_row_wrong(row, field, takes);
    return false;
}

const char *eval_text_at(const json_t *texts, size_t i) {
    return json_string_value(json_is_array(texts) ? json_array_get(texts, i) : texts);
}

size_t eval_texts_count(const json_t *texts) { return json_is_array(texts) ? json_array_size(texts) : texts != NULL; }

/* ---- templates ---- */

static const struct eval_field *fields_find(const struct eval_field *fields, size_t count, const char *name,
                                            size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(fields[i].name) == bytes && memcmp(fields[i].name, name, bytes) == 0)
            return &fields[i];
    }
    return NULL;
}

/* Finds the field that begins here. Returns the length of its name with delimiters, or 0 if no field begins here. */
static size_t field_at(const char *text, bool dollars, const struct eval_field *fields, size_t count,
                       const struct eval_field **field) {
    *field = NULL;
    if (text[0] != (dollars ? '$' : '{'))
        return 0;
    const size_t bytes = strcspn(text + 1, dollars ? "$" : "{}");
    if (text[1 + bytes] != (dollars ? '$' : '}'))
        return dollars ? 0 : 1;
    *field = fields_find(fields, count, text + 1, bytes);
    return *field || !dollars ? bytes + 2 : 0;
}

enum kvc_status eval_fill(const char *where, const char *template, bool dollars, const struct eval_field *fields,
                          size_t count, const char *split, struct eval_text *before, struct eval_text *after,
                          struct kvc_error *error) {
    struct eval_text *into = before;
    const struct eval_field *field;
    for (const char *at = template; *at;) {
        if (!dollars && (at[0] == '{' || at[0] == '}') && at[1] == at[0]) {
            eval_add(into, "%c", *at);
            at += 2;
            continue;
        }
        const size_t bytes = field_at(at, dollars, fields, count, &field);
        if (bytes > 0 && !field)
            return kvc_fail(error, KVC_INPUT, "%s: %.40s: not a field of these records", where, at);
        if (field)
            eval_add(into, "%s", field->text);
        else
            eval_add(into, "%c", *at);
        if (field && strcmp(field->name, split) == 0)
            into = after;
        at += cli_max(bytes, 1);
    }
    if (into == before)
        return kvc_fail(error, KVC_INPUT, "%s: must contain %s, which stands for the text", where, split);
    return KVC_OK;
}
