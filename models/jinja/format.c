/* format.c - '{} and {x:>5}'.format(...), as in Python's str. */
#include "models/jinja/field.h"

#include <string.h>

struct format {
    const struct jinja_call *call;
    size_t next;            /* next argument for a field without a name */
    bool counted, numbered; /* a field without a name occurred; a field with a number occurred */
};

static size_t digits_at(const struct jinja_string *text) {
    size_t count = 0;
    while (count < text->bytes && text->data[count] >= '0' && text->data[count] <= '9') {
        count++;
    }
    return count;
}

/* Returns the argument that a field's name begins with. */
static struct jinja_value argument(struct jinja *j, struct format *format, const struct jinja_string *name) {
    const struct jinja_call *call = format->call;
    size_t at = 0;
    if (digits_at(name) == name->bytes) {
        format->counted |= !name->bytes;
        format->numbered |= name->bytes > 0;
        const size_t i = name->bytes ? (size_t)jinja_field_number(j, name, &at) : format->next++;
        if (format->counted && format->numbered) {
            return JINJA_FAIL(j, "format: numbered and unnumbered fields are mixed");
        }
        return i < call->count ? call->values[i] : JINJA_FAIL(j, "format: there is no argument %zu", i);
    }
    for (size_t i = 0; i < call->named_count; i++) {
        if (strlen(call->names[i]) == name->bytes && !memcmp(call->names[i], name->data, name->bytes)) {
            return call->named[i];
        }
    }
    return JINJA_FAIL(j, "format: there is no argument \"%.*s\"", name->bytes > 40 ? 40 : (int)name->bytes, name->data);
}

/* Resolves name.attribute[key]. `rest` begins at the first point or bracket. */
static struct jinja_value looked_up(struct jinja *j, struct jinja_value value, const struct jinja_string *rest) {
    for (size_t at = 0; at < rest->bytes && j->status == KVC_OK;) {
        const bool key = rest->data[at] == '[';
        if (!key && rest->data[at] != '.') {
            return JINJA_FAIL(j, "format: only . or [ may follow ]");
        }
        const size_t begin = ++at;
        while (at < rest->bytes && (key ? rest->data[at] != ']' : !strchr(".[", rest->data[at]))) {
            at++;
        }
        const struct jinja_string name = jinja_cut(rest, begin, at - begin);
        size_t from = 0;
        if (!name.bytes || (key && at >= rest->bytes)) {
            return JINJA_FAIL(j, "format: an empty attribute or an unmatched bracket");
        }
        at += key;
        if (!key) {
            value = jinja_attribute(j, value, jinja_intern(j, name.data, name.bytes));
        } else if (digits_at(&name) == name.bytes) {
            value = jinja_item(j, value, jinja_int(jinja_field_number(j, &name, &from)));
        } else {
            value = jinja_item(j, value, (struct jinja_value){.kind = JINJA_STRING, .string = &name});
        }
    }
    return value;
}

static struct jinja_field read_field(struct jinja *j, const struct jinja_string *spec) {
    struct jinja_field field = {.fill = {" ", 1, NULL, NULL, false}, .places = -1};
    uint32_t code;
    const size_t first = spec->bytes ? jinja_next(spec->data, spec->bytes, &code) : 0;
    size_t at = 0;
    bool filled = false;
    if (first && first < spec->bytes && spec->data[first] && strchr("<>^=", spec->data[first])) {
        field.fill = jinja_cut(spec, 0, first);
        field.align = spec->data[first];
        filled = true;
        at = first + 1;
    } else if (spec->bytes && spec->data[0] && strchr("<>^=", spec->data[0])) {
        field.align = spec->data[at++];
    }
    if (at < spec->bytes && (spec->data[at] == '+' || spec->data[at] == '-' || spec->data[at] == ' ')) {
        field.sign = spec->data[at++];
    }
    if (at < spec->bytes && spec->data[at] == 'z') {
        jinja_fail(j, "format: z in a field is not supported");
    }
    if (at < spec->bytes && spec->data[at] == '#') {
        field.alternate = true;
        at++;
    }
    if (!filled && at < spec->bytes && spec->data[at] == '0') {
        field.fill = jinja_cut(spec, at++, 1);
        field.zeros = true;
    }
    field.width = jinja_field_number(j, spec, &at);
    if (at < spec->bytes && (spec->data[at] == ',' || spec->data[at] == '_')) {
        field.group = spec->data[at++];
    }
    if (at < spec->bytes && spec->data[at] == '.') {
        at++;
        field.places = jinja_field_number(j, spec, &at);
        if (field.places < 0) {
            jinja_fail(j, "format: a precision is missing");
        }
    }
    if (at < spec->bytes) {
        field.kind = spec->data[at++];
    }
    if (at < spec->bytes) {
        jinja_fail(j, "format: a field's format specification is malformed");
    }
    return field;
}

static void put_string(struct jinja *j, struct jinja_text *text, const struct jinja_field *field,
                       struct jinja_string string) {
    if ((field->kind && field->kind != 's') || field->sign || field->alternate || field->group || field->align == '=') {
        jinja_fail(j, "format: a field's format specification is not valid for a string");
        return;
    }
    if (field->places >= 0) {
        string.bytes = jinja_offset(&string, (size_t)field->places);
    }
    jinja_put_filled(j, text, field, "", &string, field->align ? field->align : '<');
}

static void put_number(struct jinja *j, struct jinja_text *text, struct jinja_field *field, struct jinja_value value) {
    const bool whole = jinja_is_whole(value), real = !whole || (field->kind && strchr("eEfFgG%", field->kind));
    const char *const kinds = whole ? "bcdoxXneEfFgG%" : "eEfFgGn%";
    if (field->kind == '\0' ? false : !strchr(kinds, field->kind)) {
        jinja_fail(j, "format: a field's format specification is not valid for a %s", jinja_type(value));
    } else if ((!real && field->places >= 0) || (field->group == ',' && field->kind && strchr("bcoxXn", field->kind)) ||
               (field->group == '_' && (field->kind == 'c' || field->kind == 'n'))) {
        jinja_fail(j, "format: a field's type does not allow a precision or separator");
    } else if (field->kind == 'c') {
        jinja_fail(j, "format: c in a field is not supported");
    } else {
        field->sign = field->sign == '-' ? 0 : field->sign;
        field->align = field->align ? field->align : field->zeros ? '=' : '>';
        field->kind = field->kind == 'n' && !real ? 'd' : field->kind;
        jinja_put_number(j, text, field, value, 0);
    }
}

/* Writes a value by a nonempty format specification. */
static void put_by(struct jinja *j, struct jinja_text *text, const struct jinja_string *spec,
                   struct jinja_value value) {
    struct jinja_field field = read_field(j, spec);
    if (j->status != KVC_OK) {
        return;
    }
    if (value.kind == JINJA_STRING) {
        put_string(j, text, &field, *value.string);
    } else if (jinja_is_number(value)) {
        put_number(j, text, &field, value);
    } else {
        jinja_fail(j, "format: a %s does not accept a format specification", jinja_type(value));
    }
}

static void put_fields(struct jinja *j, struct jinja_text *text, const struct jinja_string *form, struct format *format,
                       int depth);

/* Converts a value to text by the letter after an exclamation mark: r, s or a. */
static struct jinja_value converted(struct jinja *j, struct jinja_value value, char how) {
    struct jinja_text text = {0};
    if (how == 's') {
        jinja_put_str(j, &text, value);
    } else if (how == 'r' || how == 'a') {
        jinja_put_repr(j, &text, value);
    } else {
        jinja_fail(j, "format: only r, s and a may follow !");
    }
    struct jinja_string string = jinja_seen(&text);
    if (how == 'a') {
        string = jinja_ascii(j, &string);
    }
    return jinja_part(j, &string, 0, string.bytes);
}

static void put_field(struct jinja *j, struct jinja_text *text, struct format *format, const struct jinja_string *name,
                      char how, const struct jinja_string *spec, int depth, bool safe) {
    size_t first = 0;
    while (first < name->bytes && name->data[first] && !strchr(".[", name->data[first])) {
        first++;
    }
    const struct jinja_string begin = jinja_cut(name, 0, first), rest = jinja_cut(name, first, name->bytes - first);
    struct jinja_text own = {0}, made = {0};
    if (!first && rest.bytes) {
        jinja_fail(j, "format: a field begins with an attribute");
        return;
    }
    struct jinja_value value = argument(j, format, &begin);
    if (j->status == KVC_OK) {
        value = looked_up(j, value, &rest);
    }
    if (j->status == KVC_OK && how) {
        value = converted(j, value, how);
    }
    put_fields(j, &own, spec, format, depth - 1);
    const struct jinja_string expanded = jinja_seen(&own);
    const bool markup = value.kind == JINJA_STRING && value.string->safe && safe;
    if (j->status != KVC_OK) {
        return;
    }
    if (markup && expanded.bytes) {
        jinja_fail(j, "format: text that is marked safe accepts no format specification");
    } else if (expanded.bytes) {
        put_by(j, &made, &expanded, value);
    } else {
        jinja_put_str(j, &made, value);
    }
    const struct jinja_string string = jinja_seen(&made);
    if (safe && !markup) {
        jinja_put_escaped(j, text, &string);
    } else {
        jinja_put_all(j, text, &string);
    }
}

/* Writes the field whose opening brace is at *at, and moves *at past the closing brace. */
static void take_field(struct jinja *j, struct jinja_text *text, const struct jinja_string *form, struct format *format,
                       size_t *at, int depth) {
    const size_t begin = *at + 1;
    size_t end = begin, open = 1;
    bool bracket = false;
    char how = '\0';
    for (; end < form->bytes && (bracket || !strchr("}:!", form->data[end])); end++) {
        if (form->data[end] == '{') {
            jinja_fail(j, "format: a brace within a field's name");
            return;
        }
        bracket = form->data[end] == '[' || (bracket && form->data[end] != ']');
    }
    const struct jinja_string name = jinja_cut(form, begin, end - begin);
    if (end + 1 < form->bytes && form->data[end] == '!') {
        how = form->data[end + 1];
        end += 2;
        if (end < form->bytes && form->data[end] != ':' && form->data[end] != '}') {
            jinja_fail(j, "format: more than one letter follows !");
            return;
        }
    }
    const size_t from = end < form->bytes && form->data[end] == ':' ? end + 1 : end;
    for (end = from; end < form->bytes; end++) {
        open += form->data[end] == '{';
        open -= form->data[end] == '}';
        if (!open) {
            break;
        }
    }
    if (end >= form->bytes) {
        jinja_fail(j, "format: an unmatched brace");
        return;
    }
    const struct jinja_string spec = jinja_cut(form, from, end - from);
    *at = end + 1;
    put_field(j, text, format, &name, how, &spec, depth, form->safe);
}

static void put_fields(struct jinja *j, struct jinja_text *text, const struct jinja_string *form, struct format *format,
                       int depth) {
    if (depth < 0 && j->status == KVC_OK) {
        jinja_fail(j, "format: fields within fields within fields");
    }
    for (size_t at = 0; at < form->bytes && j->status == KVC_OK;) {
        const char c = form->data[at];
        if ((c == '{' || c == '}') && at + 1 < form->bytes && form->data[at + 1] == c) {
            jinja_put(j, text, form, at, 1);
            at += 2;
        } else if (c == '{') {
            take_field(j, text, form, format, &at, depth);
        } else if (c == '}') {
            jinja_fail(j, "format: an unmatched brace");
        } else {
            jinja_put(j, text, form, at++, 1);
        }
    }
}

struct jinja_value jinja_format(struct jinja *j, const struct jinja_string *form, const struct jinja_call *call) {
    struct jinja_text text = {0};
    struct format format = {.call = call};
    put_fields(j, &text, form, &format, 2);
    return jinja_taken_safe(j, &text, form->safe);
}
