/* percent.c - '%s and %5.1f' % values, as in Python's str. */
#include "models/jinja/field.h"

#include <math.h>
#include <string.h>

/* The values that remain for a format. */
struct values {
    struct jinja_value all; /* a tuple or a single value */
    struct jinja_value one; /* the value of a name: '%(name)s' */
    bool by_name;
    size_t used, count;
};

static struct jinja_value next_value(struct jinja *j, struct values *values) {
    if (values->by_name) {
        values->by_name = false;
        values->count = values->used;
        return values->one;
    }
    if (values->used >= values->count) {
        return JINJA_FAIL(j, "more %% in a string than values for it");
    }
    const bool tuple = values->all.kind == JINJA_LIST && values->all.list->flavor == JINJA_TUPLE;
    return tuple ? values->all.list->items[values->used++] : (values->used++, values->all);
}

/* Parses '(name)'. */
static void take_name(struct jinja *j, const struct jinja_string *form, size_t *at, struct values *values) {
    const size_t begin = ++*at;
    for (size_t open = 1; *at < form->bytes; ++*at) {
        open += form->data[*at] == '(';
        open -= form->data[*at] == ')';
        if (!open) {
            break;
        }
    }
    if (*at >= form->bytes || values->all.kind != JINJA_DICT) {
        jinja_fail(j, "%%(...) must end in a bracket and takes its values from a dict");
        return;
    }
    const struct jinja_string name = jinja_cut(form, begin, *at - begin);
    const struct jinja_value *found =
        jinja_find(j, values->all.dict, (struct jinja_value){.kind = JINJA_STRING, .string = &name});
    ++*at;
    if (!found) {
        jinja_fail(j, "%%(...): the dict has no \"%.*s\"", name.bytes > 40 ? 40 : (int)name.bytes, name.data);
        return;
    }
    values->one = *found;
    values->by_name = true;
}

/* Reads a width or precision: digits, or * for the next value, which may be negative. Returns -1 if there is none. */
static int64_t take_size(struct jinja *j, const struct jinja_string *form, size_t *at, struct values *values,
                         bool *negative) {
    if (*at >= form->bytes || form->data[*at] != '*') {
        return jinja_field_number(j, form, at);
    }
    ++*at;
    const struct jinja_value given = next_value(j, values);
    const int64_t size = jinja_is_whole(given) ? jinja_whole(given) : INT64_MAX;
    if (j->status == KVC_OK && (form->safe || size > INT32_MAX || size < -INT32_MAX)) {
        jinja_fail(j, "a * in a format takes an int; in text that is marked safe it is not supported");
    }
    *negative = size < 0;
    return j->status != KVC_OK ? -1 : size < 0 ? -size : size;
}

static struct jinja_field take_field(struct jinja *j, const struct jinja_string *form, size_t *at,
                                     struct values *values) {
    struct jinja_field field = {.fill = {" ", 1, NULL, NULL, false}, .align = '>', .places = -1};
    bool left = false;
    if (*at < form->bytes && form->data[*at] == '(') {
        take_name(j, form, at, values);
    }
    for (; *at < form->bytes && form->data[*at] && strchr("-0+ #", form->data[*at]); ++*at) {
        const char flag = form->data[*at];
        left |= flag == '-';
        field.zeros |= flag == '0';
        field.alternate |= flag == '#';
        field.sign = flag == '+' || (flag == ' ' && !field.sign) ? flag : field.sign;
    }
    bool negative = false;
    field.width = take_size(j, form, at, values, &negative);
    left |= negative;
    if (*at < form->bytes && form->data[*at] == '.') {
        negative = false;
        ++*at;
        field.places = take_size(j, form, at, values, &negative);
        field.places = negative || field.places < 0 ? 0 : field.places;
    }
    if (*at < form->bytes && form->data[*at] && strchr("hlL", form->data[*at])) {
        ++*at;
    }
    field.align = left ? '<' : '>';
    field.kind = *at < form->bytes ? form->data[(*at)++] : '\0';
    return field;
}

static void put_text(struct jinja *j, struct jinja_text *text, struct jinja_field *field, struct jinja_value value,
                     bool safe) {
    struct jinja_text made = {0};
    if (field->kind == 's') {
        jinja_put_str(j, &made, value);
    } else {
        jinja_put_repr(j, &made, value);
    }
    struct jinja_string string = jinja_seen(&made);
    if (field->kind == 'a') {
        string = jinja_ascii(j, &string);
    }
    if (safe && !(field->kind == 's' && value.kind == JINJA_STRING && value.string->safe)) {
        struct jinja_text escaped = {0};
        jinja_put_escaped(j, &escaped, &string);
        string = jinja_seen(&escaped);
    }
    if (field->places >= 0) {
        string.bytes = jinja_offset(&string, (size_t)field->places);
    }
    jinja_put_filled(j, text, field, "", &string, field->align);
}

/* Writes %c: a character, or the character of a code. */
static void put_character(struct jinja *j, struct jinja_text *text, struct jinja_field *field,
                          struct jinja_value value) {
    char code[4];
    struct jinja_string string = {code, 0, NULL, NULL, false};
    if (value.kind == JINJA_STRING && jinja_characters(value.string) == 1) {
        string = *value.string;
    } else if (jinja_is_whole(value) && jinja_whole(value) > 0 && jinja_whole(value) <= 0x10ffff &&
               (jinja_whole(value) < 0xd800 || jinja_whole(value) > 0xdfff)) {
        string.bytes = kvc_utf8_put((uint32_t)jinja_whole(value), code);
    } else {
        jinja_fail(j, "%%c takes one character or the code of one; a byte 0 is not supported");
    }
    jinja_put_filled(j, text, field, "", &string, field->align);
}

static void put_number(struct jinja *j, struct jinja_text *text, struct jinja_field *field, struct jinja_value value) {
    const bool real = strchr("eEfFgG", field->kind) != NULL, based = strchr("oxX", field->kind) != NULL;
    if (!jinja_is_number(value) || (based && !jinja_is_whole(value))) {
        jinja_fail(j, "%%%c takes a number%s, not a %s", field->kind, based ? " that is whole" : "", jinja_type(value));
        return;
    }
    if (!real && !jinja_is_whole(value)) {
        if (!(fabs(value.real) < 9.2e18)) {
            jinja_fail(j, "%%%c: the number has more than 64 bits", field->kind);
            return;
        }
        value = jinja_int((int64_t)value.real);
    }
    if (field->zeros && field->align == '>') {
        field->fill.data = "0";
        field->align = '=';
    }
    jinja_put_number(j, text, field, value, real ? 0 : field->places);
}

static void put_value(struct jinja *j, struct jinja_text *text, struct jinja_field *field, struct jinja_value value,
                      bool safe) {
    if (!field->kind || !strchr("sracdiuoxXeEfFgG", field->kind)) {
        jinja_fail(j, "a %% must be followed by one of sracdiuoxXeEfFgG%%");
    } else if (strchr("sra", field->kind)) {
        put_text(j, text, field, value, safe);
    } else if (safe && strchr("coxX", field->kind)) {
        jinja_fail(j, "%%%c of text that is marked safe is not supported", field->kind);
    } else if (field->kind == 'c') {
        put_character(j, text, field, value);
    } else {
        field->kind = field->kind == 'i' || field->kind == 'u' ? 'd' : field->kind;
        put_number(j, text, field, value);
    }
}

struct jinja_value jinja_percent(struct jinja *j, const struct jinja_string *form, struct jinja_value value) {
    const bool tuple = value.kind == JINJA_LIST && value.list->flavor == JINJA_TUPLE,
               mapping = value.kind == JINJA_DICT || value.kind == JINJA_UNDEFINED ||
                         (value.kind == JINJA_LIST &&
                          (value.list->flavor == JINJA_PLAIN || value.list->flavor == JINJA_RANGE));
    struct values values = {.all = value, .count = tuple ? value.list->count : 1};
    struct jinja_text text = {0};
    for (size_t at = 0; at < form->bytes && j->status == KVC_OK;) {
        if (form->data[at] != '%') {
            const char *next = memchr(form->data + at, '%', form->bytes - at);
            const size_t bytes = next ? (size_t)(next - form->data) - at : form->bytes - at;
            jinja_put(j, &text, form, at, bytes);
            at += bytes;
            continue;
        }
        const bool marked = jinja_marked(form, at++);
        if (at < form->bytes && form->data[at] == '%') {
            jinja_put(j, &text, form, at++, 1);
            continue;
        }
        struct jinja_field field = take_field(j, form, &at, &values);
        static const char mark[] = {1};
        field.fill.marks = marked ? mark : NULL;
        if (j->status == KVC_OK) {
            const struct jinja_value one = next_value(j, &values);
            if (j->status == KVC_OK) {
                put_value(j, &text, &field, one, form->safe);
            }
        }
    }
    if (values.used < values.count && !mapping) {
        return JINJA_FAIL(j, "more values for a string than %% in it");
    }
    return jinja_taken_safe(j, &text, form->safe);
}
