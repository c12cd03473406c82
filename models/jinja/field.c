/* field.c - formats numbers and text into fields: sign, digits, digit groups, padding. */
#include "models/jinja/field.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZE = 100000000, MOST_PLAIN = 60 };

int64_t jinja_field_number(struct jinja *j, const struct jinja_string *text, size_t *at) {
    int64_t value = -1;
    for (; *at < text->bytes && text->data[*at] >= '0' && text->data[*at] <= '9'; (*at)++) {
        value = (value < 0 ? 0 : value) * 10 + (text->data[*at] - '0');
        if (value > MOST_SIZE) {
            jinja_fail(j, "a width or precision is too large");
            return -1;
        }
    }
    return value;
}

void jinja_put_filled(struct jinja *j, struct jinja_text *text, const struct jinja_field *field, const char *prefix,
                      const struct jinja_string *body, char align) {
    const int64_t there = (int64_t)(strlen(prefix) + jinja_characters(body));
    const int64_t blanks = field->width > there ? field->width - there : 0;
    const int64_t before = align == '>' || align == '=' ? blanks : align == '^' ? blanks / 2 : 0;
    if (align == '=') {
        jinja_puts(j, text, prefix);
    }
    for (int64_t i = 0; i < before && j->status == KVC_OK; i++) {
        jinja_put_all(j, text, &field->fill);
    }
    if (align != '=') {
        jinja_puts(j, text, prefix);
    }
    jinja_put_all(j, text, body);
    for (int64_t i = before; i < blanks && j->status == KVC_OK; i++) {
        jinja_put_all(j, text, &field->fill);
    }
}

/* ---- digits ---- */

/* Writes the digits of an integer, at least `least` of them. */
static void put_digits(struct jinja *j, struct jinja_text *text, uint64_t size, char kind, int64_t least) {
    const char *const digits = kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    const unsigned base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' || kind == 'X' ? 16 : 10;
    char out[64];
    size_t at = sizeof out;
    do {
        out[--at] = digits[size % base];
        size /= base;
    } while (size);
    for (int64_t i = (int64_t)(sizeof out - at); i < least && j->status == KVC_OK; i++) {
        jinja_puts(j, text, "0");
    }
    jinja_put_made(j, text, out + at, sizeof out - at, false);
}

/* Writes a nonnegative number with C's formatting, but with a decimal point in every locale. `alternate` is C's flag #.
 */
static void put_real(struct jinja *j, struct jinja_text *text, double real, int places, char kind, bool alternate) {
    const char *point = localeconv()->decimal_point;
    const char form[] = {
        '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : kind, alternate ? kind : 0, 0};
    const size_t capacity = (size_t)places + 400;
    char *out = jinja_alloc(j, capacity);
    if (!out || !jinja_step(j, (uint64_t)places / 16)) {
        return;
    }
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"")
        snprintf(out, capacity, form, places, real);
    _Pragma("GCC diagnostic pop") char *at = *point && strcmp(point, ".") != 0 ? strstr(out, point) : NULL;
    if (at) {
        *at = '.';
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    }
    jinja_puts(j, text, out);
}

/* Writes a real number without its sign. */
static void put_magnitude(struct jinja *j, struct jinja_text *text, const struct jinja_field *field, double real) {
    const char kind = field->kind == 'n' ? 'g' : field->kind;
    if (isnan(real) || isinf(real)) {
        const bool upper = kind == 'E' || kind == 'F' || kind == 'G';
        jinja_puts(j, text, isnan(real) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
    } else if (kind) {
        const int places = field->places < 0 ? 6 : (int)field->places;
        put_real(j, text, kind == '%' ? real * 100 : real, places, kind == '%' ? 'f' : kind, field->alternate);
    } else if (field->alternate || field->places > MOST_PLAIN) {
        jinja_fail(j, "a format with # or more than %d digits and without a letter is not supported", MOST_PLAIN);
    } else {
        jinja_put_significant(j, text, real, field->places < 0 ? -1 : field->places < 1 ? 1 : (int)field->places);
    }
    if (kind == '%') {
        jinja_puts(j, text, "%");
    }
}

/* Inserts separators between groups of `size` digits, counted from the end of the integer part. */
static struct jinja_string grouped(struct jinja *j, const struct jinja_string *digits, char group, size_t size) {
    struct jinja_text text = {0};
    size_t whole = 0;
    while (whole < digits->bytes && ((digits->data[whole] >= '0' && digits->data[whole] <= '9') ||
                                     (size == 4 && strchr("abcdefABCDEF", digits->data[whole])))) {
        whole++;
    }
    for (size_t i = 0; i < whole && j->status == KVC_OK; i++) {
        if (i && (whole - i) % size == 0) {
            jinja_put_made(j, &text, &group, 1, false);
        }
        jinja_put(j, &text, digits, i, 1);
    }
    jinja_put(j, &text, digits, whole, digits->bytes - whole);
    return jinja_seen(&text);
}

static void put_signed(struct jinja *j, struct jinja_text *text, const struct jinja_field *field, bool negative,
                       const struct jinja_text *digits) {
    const bool based = field->kind == 'x' || field->kind == 'X' || field->kind == 'o' || field->kind == 'b';
    struct jinja_string body = jinja_seen(digits);
    char prefix[4] = "", *at = prefix;
    const char align = field->align ? field->align : '>';
    if (negative || field->sign) {
        *at++ = negative ? '-' : field->sign;
    }
    if (field->alternate && based) {
        *at++ = '0';
        *at++ = field->kind;
    }
    *at = '\0';
    if (field->group && align == '=' && field->fill.data[0] == '0') {
        jinja_fail(j, "a format with both leading zeros and a separator is not supported");
    } else if (field->group) {
        body = grouped(j, &body, field->group, based ? 4 : 3);
    }
    jinja_put_filled(j, text, field, prefix, &body, align);
}

void jinja_put_number(struct jinja *j, struct jinja_text *text, const struct jinja_field *field,
                      struct jinja_value value, int64_t least) {
    struct jinja_text digits = {0};
    const bool real = value.kind == JINJA_FLOAT || (field->kind && strchr("eEfFgG%", field->kind));
    if (real) {
        const double number = jinja_real(value);
        put_magnitude(j, &digits, field, fabs(number));
        put_signed(j, text, field, signbit(number) && !isnan(number), &digits);
    } else {
        const int64_t whole = jinja_whole(value);
        const uint64_t size = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
        put_digits(j, &digits, size, field->kind, least);
        put_signed(j, text, field, whole < 0, &digits);
    }
}
