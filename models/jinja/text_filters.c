/* text_filters.c - filters that return text or numbers, and helpers that string methods share. */
#include "models/jinja/parts.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define FILTER(name)                                                                                                   \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

/* ---- shared with string methods ---- */

static bool in_set(uint32_t code, const struct jinja_string *chars) {
    uint32_t one;
    if (!chars) {
        return code != KVC_NOT_UTF8 && jinja_space(code);
    }
    for (size_t at = 0; at < chars->bytes;) {
        at += jinja_next(chars->data + at, chars->bytes - at, &one);
        if (one == code) {
            return true;
        }
    }
    return false;
}

struct jinja_value jinja_strip(struct jinja *j, const struct jinja_string *text, const struct jinja_string *chars,
                               enum jinja_sides sides) {
    size_t begin = 0, end = 0;
    bool seen = !(sides & JINJA_LEFT);
    jinja_step(j, text->bytes / 4 * (1 + (chars ? chars->bytes : 0)));
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        uint32_t code;
        const size_t bytes = jinja_next(text->data + at, text->bytes - at, &code);
        if (!in_set(code, chars)) {
            begin = seen ? begin : at;
            seen = true;
            end = at + bytes;
        }
        at += bytes;
    }
    if (!(sides & JINJA_RIGHT)) {
        end = text->bytes;
        begin = seen ? begin : end;
    }
    return jinja_part(j, text, begin, end > begin ? end - begin : 0);
}

struct jinja_value jinja_replace(struct jinja *j, const struct jinja_string *text, const struct jinja_string *old,
                                 const struct jinja_string *new, int64_t most) {
    struct jinja_text out = {0};
    size_t at = 0;
    jinja_step(j, text->bytes / 4);
    while (most != 0 && j->status == KVC_OK && jinja_step(j, 1)) {
        const size_t found = jinja_search(text->data, text->bytes, at, old->data, old->bytes);
        if (found == SIZE_MAX) {
            break;
        }
        jinja_put(j, &out, text, at, found - at);
        jinja_put_all(j, &out, new);
        at = found + old->bytes;
        most -= most > 0;
        if (!old->bytes) { /* inserts between all characters */
            uint32_t code;
            if (at >= text->bytes) {
                break;
            }
            const size_t bytes = jinja_next(text->data + at, text->bytes - at, &code);
            jinja_put(j, &out, text, at, bytes);
            at += bytes;
        }
    }
    jinja_put(j, &out, text, at, text->bytes - at);
    return jinja_taken(j, &out);
}

static bool ends_line(uint32_t code) {
    return (code >= '\n' && code <= '\r') || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 ||
           code == 0x2029;
}

struct jinja_value jinja_lines(struct jinja *j, const struct jinja_string *text, bool keep_ends) {
    struct jinja_value lines = jinja_list(j, JINJA_PLAIN);
    size_t begin = 0;
    jinja_step(j, text->bytes / 4);
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        uint32_t code;
        const size_t end = at;
        at += jinja_next(text->data + at, text->bytes - at, &code);
        if (ends_line(code)) {
            at += code == '\r' && at < text->bytes && text->data[at] == '\n';
            jinja_add(j, lines, jinja_part(j, text, begin, (keep_ends ? at : end) - begin));
            begin = at;
        }
    }
    if (begin < text->bytes) {
        jinja_add(j, lines, jinja_part(j, text, begin, text->bytes - begin));
    }
    return lines;
}

/* ---- filters ---- */

FILTER(do_trim) {
    UNUSED;
    const bool chars = a[0].kind != JINJA_UNSET && a[0].kind != JINJA_NONE;
    const struct jinja_string *text = jinja_str(j, self);
    return jinja_safe_as(j, jinja_strip(j, text, chars ? jinja_str(j, a[0]) : NULL, JINJA_BOTH), text);
}
FILTER(do_upper) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    return jinja_safe_as(j, jinja_in_case(j, text, JINJA_UPPER), text);
}
FILTER(do_lower) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    return jinja_safe_as(j, jinja_in_case(j, text, JINJA_LOWER), text);
}
FILTER(do_capitalize) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    return jinja_safe_as(j, jinja_capitalized(j, text), text);
}

/* Capitalizes words. A word begins after whitespace, a hyphen or an opening bracket. */
FILTER(do_title) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    struct jinja_text out = {0};
    bool begins = true, letter = false;
    for (size_t at = 0; at < text->bytes && j->status == KVC_OK;) {
        uint32_t code;
        jinja_next(text->data + at, text->bytes - at, &code);
        jinja_put_case(j, &out, text, &at, begins ? JINJA_UPPER : JINJA_LOWER, &letter);
        letter = letter && !begins;
        begins = code != KVC_NOT_UTF8 && (jinja_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code)));
    }
    return jinja_taken(j, &out);
}

static struct jinja_value string_of(struct jinja *j, const struct jinja_string *string) {
    (void)j;
    return (struct jinja_value){.kind = JINJA_STRING, .string = string};
}

FILTER(do_string) {
    UNUSED;
    return string_of(j, jinja_str(j, self));
}

static struct jinja_value marked_safe(struct jinja *j, struct jinja_value value) {
    struct jinja_string *marked = jinja_alloc(j, sizeof *marked);
    if (!marked || value.kind != JINJA_STRING) {
        return jinja_undefined(NULL);
    }
    *marked = *value.string;
    marked->safe = true;
    return string_of(j, marked);
}

FILTER(do_safe) {
    UNUSED;
    return marked_safe(j, string_of(j, jinja_str(j, self)));
}
FILTER(do_force_escape) {
    UNUSED;
    struct jinja_text out = {0};
    jinja_put_escaped(j, &out, jinja_str(j, self));
    return marked_safe(j, jinja_taken(j, &out));
}
FILTER(do_escape) { return self.kind == JINJA_STRING && self.string->safe ? self : do_force_escape(j, self, a, call); }
FILTER(do_replace) {
    UNUSED;
    if (a[2].kind != JINJA_UNSET && a[2].kind != JINJA_NONE && !jinja_is_whole(a[2])) {
        return JINJA_FAIL(j, "replace: count is a %s; it must be an int", jinja_type(a[2]));
    }
    return jinja_replace(j, jinja_str(j, self), jinja_str(j, a[0]), jinja_str(j, a[1]),
                         jinja_is_whole(a[2]) ? jinja_whole(a[2]) : -1);
}
FILTER(do_format) {
    UNUSED;
    if (call->named_count) {
        return JINJA_FAIL(j, "format: named arguments are not supported");
    }
    struct jinja_value values = jinja_list(j, JINJA_TUPLE);
    for (size_t i = 0; i < call->count; i++) {
        jinja_add(j, values, call->values[i]);
    }
    return j->status == KVC_OK ? jinja_percent(j, jinja_str(j, self), values) : values;
}

/* indent(width=4, first=False, blank=False) */
FILTER(do_indent) {
    UNUSED;
    struct jinja_text out = {0}, by = {0};
    if (a[0].kind == JINJA_STRING) {
        jinja_put_all(j, &by, a[0].string);
    } else if (a[0].kind == JINJA_UNSET || jinja_is_whole(a[0])) {
        const int64_t width = a[0].kind == JINJA_UNSET ? 4 : jinja_whole(a[0]);
        for (int64_t i = 0; i < width && j->status == KVC_OK; i++) {
            jinja_puts(j, &by, " ");
        }
    } else {
        return JINJA_FAIL(j, "indent: width is a %s; it must be an int or a string", jinja_type(a[0]));
    }
    const struct jinja_string prefix = jinja_seen(&by);
    const struct jinja_string newline = {"\n", 1, NULL, NULL, false};
    const struct jinja_value whole = jinja_joined(j, jinja_str(j, self), &newline);
    const struct jinja_value lines = j->status == KVC_OK ? jinja_lines(j, whole.string, false) : whole;
    for (size_t i = 0; j->status == KVC_OK && i < lines.list->count; i++) {
        const struct jinja_string *line = lines.list->items[i].string;
        jinja_puts(j, &out, i ? "\n" : "");
        if (i ? line->bytes || jinja_true(j, a[2]) : jinja_true(j, a[1])) {
            jinja_put_all(j, &out, &prefix);
        }
        jinja_put_all(j, &out, line);
    }
    return jinja_taken_safe(j, &out, jinja_str(j, self)->safe);
}

FILTER(do_wordcount) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    int64_t count = 0;
    bool within = false;
    jinja_step(j, text->bytes / 4);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += jinja_next(text->data + at, text->bytes - at, &code);
        const bool word = jinja_alnum(code) || code == '_';
        count += word && !within;
        within = word;
    }
    return jinja_int(count);
}

/* ---- numbers ---- */

/* Strips whitespace and converts the decimal digits of all scripts to ASCII. */
static struct jinja_string bare(struct jinja *j, const struct jinja_string *text) {
    struct jinja_text out = {0};
    const struct jinja_value stripped = jinja_strip(j, text, NULL, JINJA_BOTH);
    for (size_t at = 0; j->status == KVC_OK && at < stripped.string->bytes;) {
        uint32_t code, before = 0;
        const size_t bytes = jinja_next(stripped.string->data + at, stripped.string->bytes - at, &code);
        if (code >= 0x80 && jinja_decimal(code)) {
            while (jinja_decimal(code - before - 1)) { /* the ten digits of a script are consecutive */
                before++;
            }
            const char digit = (char)('0' + before % 10);
            jinja_put_made(j, &out, &digit, 1, false);
        } else {
            jinja_put(j, &out, stripped.string, at, bytes);
        }
        at += bytes;
    }
    return jinja_seen(&out);
}

/* Reads an integer in a base as Python's int() does, with whitespace around it and single underscores between
 * digits. */
static bool read_whole(struct jinja *j, const struct jinja_string *text, int64_t base, int64_t *whole) {
    const struct jinja_string plain = bare(j, text);
    if (j->status != KVC_OK || base < 2 || base > 36) {
        return false;
    }
    const char *at = plain.data, *end = at + plain.bytes;
    const bool negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (end - at > 2 && at[0] == '0' &&
        ((base == 16 && (at[1] | 0x20) == 'x') || (base == 8 && (at[1] | 0x20) == 'o') ||
         (base == 2 && (at[1] | 0x20) == 'b'))) {
        at += 2;
    }
    int64_t value = 0;
    bool digit_before = false;
    for (; at < end; at++) {
        const char c = *at;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 10
                          : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                                 : 99;
        if (c == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
            return false;
        }
        digit_before = true;
    }
    *whole = value;
    return digit_before;
}

static bool read_real(struct jinja *j, const struct jinja_string *text, double *real) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    const struct jinja_string plain = bare(j, text);
    const size_t sign = plain.bytes && (plain.data[0] == '-' || plain.data[0] == '+');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (plain.bytes - sign == strlen(names[i]) && !strncasecmp(plain.data + sign, names[i], strlen(names[i]))) {
            *real = copysign(i == 2 ? NAN : INFINITY, plain.data[0] == '-' ? -1 : 1);
            return true;
        }
    }
    struct jinja_text digits = {0};
    for (size_t i = 0; i < plain.bytes; i++) { /* skip single underscores between digits */
        const bool between = i && i + 1 < plain.bytes && plain.data[i - 1] >= '0' && plain.data[i - 1] <= '9' &&
                             plain.data[i + 1] >= '0' && plain.data[i + 1] <= '9';
        if (plain.data[i] != '_' || !between) {
            jinja_put(j, &digits, &plain, i, 1);
        }
    }
    return j->status == KVC_OK && jinja_read_float(digits.data, digits.bytes, real);
}

static struct jinja_value whole_of(struct jinja *j, double real, struct jinja_value standard) {
    if (isnan(real)) {
        return standard;
    }
    return fabs(real) < 9.2e18 ? jinja_int((int64_t)real) : JINJA_FAIL(j, "int: the number has more than 64 bits");
}

FILTER(do_int) {
    UNUSED;
    const struct jinja_value standard = a[0].kind == JINJA_UNSET ? jinja_int(0) : a[0];
    int64_t whole;
    double real;
    if (jinja_is_whole(self)) {
        return jinja_int(jinja_whole(self));
    }
    if (self.kind == JINJA_FLOAT) {
        return whole_of(j, self.real, standard);
    }
    if (self.kind == JINJA_UNDEFINED) {
        return JINJA_FAIL(j, "%.60s is undefined; int cannot take it", self.what ? self.what : "a value");
    }
    if (self.kind != JINJA_STRING) {
        return standard;
    }
    if (read_whole(j, self.string, jinja_is_whole(a[1]) ? jinja_whole(a[1]) : 10, &whole)) {
        return jinja_int(whole);
    }
    return read_real(j, self.string, &real) && !isinf(real) ? whole_of(j, real, standard) : standard;
}

FILTER(do_float) {
    UNUSED;
    double real;
    if (jinja_is_number(self)) {
        return jinja_float(jinja_real(self));
    }
    if (self.kind == JINJA_UNDEFINED) {
        return JINJA_FAIL(j, "%.60s is undefined; float cannot take it", self.what ? self.what : "a value");
    }
    if (self.kind == JINJA_STRING && read_real(j, self.string, &real)) {
        return jinja_float(real);
    }
    return a[0].kind == JINJA_UNSET ? jinja_float(0) : a[0];
}

FILTER(do_abs) {
    UNUSED;
    if (self.kind == JINJA_FLOAT) {
        return jinja_float(fabs(self.real));
    }
    return jinja_is_whole(self) && jinja_whole(self) >= 0 ? jinja_int(jinja_whole(self)) : jinja_negative(j, self);
}

FILTER(do_center) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, self);
    if (a[0].kind != JINJA_UNSET && !jinja_is_whole(a[0])) {
        return JINJA_FAIL(j, "center: a width that is a %s; it must be an int", jinja_type(a[0]));
    }
    const int64_t width = jinja_is_whole(a[0]) ? jinja_whole(a[0]) : 80, length = (int64_t)jinja_characters(text);
    const int64_t blanks = width > length ? width - length : 0, left = blanks / 2 + (blanks & width & 1);
    struct jinja_text out = {0};
    for (int64_t i = 0; i < left && j->status == KVC_OK; i++) {
        jinja_puts(j, &out, " ");
    }
    jinja_put_all(j, &out, text);
    for (int64_t i = left; i < blanks && j->status == KVC_OK; i++) {
        jinja_puts(j, &out, " ");
    }
    return jinja_taken_safe(j, &out, text->safe);
}

FILTER(do_default) {
    UNUSED;
    if (self.kind == JINJA_UNDEFINED || (jinja_true(j, a[1]) && !jinja_true(j, self))) {
        return a[0].kind == JINJA_UNSET ? jinja_literal(j, "", 0) : a[0];
    }
    return self;
}

const struct jinja_builtin jinja_text_filters[] = {
    {"abs", "", 0, do_abs},
    {"capitalize", "", 0, do_capitalize},
    {"center", "width", 0, do_center},
    {"d", "default_value boolean", 0, do_default},
    {"default", "default_value boolean", 0, do_default},
    {"e", "", 0, do_escape},
    {"escape", "", 0, do_escape},
    {"filesizeformat", "binary", 0, NULL},
    {"float", "default", 0, do_float},
    {"forceescape", "", 0, do_force_escape},
    {"format", "*", 0, do_format},
    {"indent", "width first blank", 0, do_indent},
    {"int", "default base", 0, do_int},
    {"lower", "", 0, do_lower},
    {"pprint", "", 0, NULL},
    {"replace", "old new count", 2, do_replace},
    {"round", "precision method", 0, jinja_round},
    {"safe", "", 0, do_safe},
    {"string", "", 0, do_string},
    {"striptags", "", 0, NULL},
    {"title", "", 0, do_title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, jinja_tojson},
    {"trim", "chars", 0, do_trim},
    {"truncate", "length", 0, NULL},
    {"upper", "", 0, do_upper},
    {"urlencode", "", 0, NULL},
    {"urlize", "", 0, NULL},
    {"wordcount", "", 0, do_wordcount},
    {"wordwrap", "", 0, NULL},
    {"xmlattr", "", 0, NULL},
    {NULL, NULL, 0, NULL},
};
