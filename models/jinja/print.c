/* print.c - converts values to text as Python's str() and repr() do. */
#include "models/jinja/parts.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 80 };

void jinja_put_int(struct jinja *j, struct jinja_text *text, int64_t whole) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, whole);
    jinja_puts(j, text, digits);
}

/* Computes `count` decimal digits of a number. Returns the power of ten of the first digit. Skips the locale's decimal
 * point. */
static int digits_of(double real, int count, char digits[MOST_DIGITS]) {
    char written[MOST_DIGITS + 20];
    snprintf(written, sizeof written, "%.*e", count - 1, real);
    size_t n = 0;
    const char *at = written;
    for (; *at && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9') {
            digits[n++] = *at;
        }
    }
    digits[n] = '\0';
    return *at ? atoi(at + 1) : 0;
}

int jinja_exponent(double real) {
    char digits[MOST_DIGITS];
    return digits_of(real, 25, digits);
}

void jinja_put_scientific(struct jinja *j, struct jinja_text *text, double real, int count) {
    char digits[MOST_DIGITS], out[MOST_DIGITS + 20];
    const int exponent = digits_of(real, count < MOST_DIGITS - 1 ? count : MOST_DIGITS - 1, digits);
    snprintf(out, sizeof out, "%.1s.%s0e%d", digits, digits + 1, exponent);
    jinja_puts(j, text, out);
}

/* Reads a float written in the "C" locale's form. */
bool jinja_read_float(const char *text, size_t bytes, double *real) {
    const char *point = localeconv()->decimal_point;
    char copy[400], *end;
    size_t n = 0;
    if (bytes > 300) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '.' && strlen(point) < 16) {
            memcpy(copy + n, point, strlen(point));
            n += strlen(point);
            point = ""; /* a second point is an error */
        } else if (text[i] == '.' || !strchr("0123456789eE+-", text[i])) {
            return false;
        } else {
            copy[n++] = text[i];
        }
    }
    copy[n] = '\0';
    *real = strtod(copy, &end);
    return n > 0 && end == copy + n;
}

/* Writes digits with the decimal point, or in exponent notation if `exponent` is below -4 or at least `most`. */
static void put_placed(struct jinja *j, struct jinja_text *text, const char *digits, int exponent, int most) {
    const int n = (int)strlen(digits);
    char out[160];
    if (exponent < -4 || exponent >= most) {
        snprintf(out, sizeof out, "%.1s%s%se%c%02d", digits, n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    } else if (exponent < 0) {
        snprintf(out, sizeof out, "0.%.*s%s", -exponent - 1, "0000", digits);
    } else if (n <= exponent + 1) {
        snprintf(out, sizeof out, "%s%.*s.0", digits, exponent + 1 - n,
                 "0000000000000000000000000000000000000000000000000000000000000000");
    } else {
        snprintf(out, sizeof out, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    }
    jinja_puts(j, text, out);
}

void jinja_put_significant(struct jinja *j, struct jinja_text *text, double real, int count) {
    char digits[MOST_DIGITS], out[64];
    if (count > 0) {
        const int exponent = digits_of(real, count, digits);
        for (size_t n = strlen(digits); n > 1 && digits[n - 1] == '0'; n--) {
            digits[n - 1] = '\0';
        }
        put_placed(j, text, digits, exponent, count - 1);
        return;
    }
    int exponent = 0;
    for (count = 1; count <= 17; count++) { /* find the shortest digits that read back as the same number */
        double again;
        exponent = digits_of(real, count, digits);
        snprintf(out, sizeof out, "%.1s.%.20se%d", digits, digits[1] ? digits + 1 : "0", exponent);
        if (jinja_read_float(out, strlen(out), &again) && again == real) {
            break;
        }
    }
    put_placed(j, text, digits, exponent, 16);
}

/* Writes a float as repr() does. */
void jinja_put_float(struct jinja *j, struct jinja_text *text, double real) {
    if (isnan(real)) {
        jinja_puts(j, text, "nan");
        return;
    }
    jinja_puts(j, text, signbit(real) ? "-" : "");
    if (isinf(real)) {
        jinja_puts(j, text, "inf");
    } else {
        jinja_put_significant(j, text, fabs(real), -1);
    }
}

/* Writes a finite number with this many digits after the point. */
void jinja_put_fixed(struct jinja *j, struct jinja_text *text, double real, int places) {
    char out[400];
    snprintf(out, sizeof out, "%.*f", places > 60 ? 60 : places, real);
    const char *point = localeconv()->decimal_point;
    char *at = *point ? strstr(out, point) : NULL;
    if (at && strcmp(point, ".") != 0) {
        *at = '.';
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    }
    jinja_puts(j, text, out);
}

/* ---- repr() ---- */

static void put_code(struct jinja *j, struct jinja_text *text, uint32_t code, bool marked) {
    char out[16];
    snprintf(out, sizeof out, code > 0xffff ? "\\U%08x" : code > 0xff ? "\\u%04x" : "\\x%02x", (unsigned)code);
    jinja_put_made(j, text, out, strlen(out), marked);
}

struct jinja_string jinja_ascii(struct jinja *j, const struct jinja_string *string) {
    struct jinja_text text = {0};
    for (size_t at = 0; at < string->bytes && j->status == KVC_OK;) {
        uint32_t code;
        const size_t bytes = jinja_next(string->data + at, string->bytes - at, &code);
        if (code < 0x80) {
            jinja_put(j, &text, string, at, bytes);
        } else {
            put_code(j, &text, code == KVC_NOT_UTF8 ? (unsigned char)string->data[at] : code, jinja_marked(string, at));
        }
        at += bytes;
    }
    return jinja_seen(&text);
}

static void put_quoted(struct jinja *j, struct jinja_text *text, const struct jinja_string *string) {
    const bool single = string->bytes && memchr(string->data, '\'', string->bytes);
    const char quote = single && !memchr(string->data, '"', string->bytes) ? '"' : '\'';
    jinja_put_made(j, text, &quote, 1, false);
    for (size_t at = 0; at < string->bytes && j->status == KVC_OK;) {
        uint32_t code;
        const bool marked = jinja_marked(string, at);
        const size_t bytes = jinja_next(string->data + at, string->bytes - at, &code);
        const char *escape = code == '\n' ? "\\n" : code == '\r' ? "\\r" : code == '\t' ? "\\t" : NULL;
        if (escape) {
            jinja_put_made(j, text, escape, 2, marked);
        } else if (code == '\\' || code == (uint32_t)quote) {
            const char escaped[2] = {'\\', (char)code};
            jinja_put_made(j, text, escaped, 2, marked);
        } else if (code == KVC_NOT_UTF8) {
            put_code(j, text, (unsigned char)string->data[at], marked);
        } else if (!jinja_printable(code)) {
            put_code(j, text, code, marked);
        } else {
            jinja_put(j, text, string, at, bytes);
        }
        at += bytes;
    }
    jinja_put_made(j, text, &quote, 1, false);
}

static void put_list(struct jinja *j, struct jinja_text *text, const struct jinja_list *list) {
    if (list->flavor >= JINJA_RANGE) {
        jinja_fail(j, "a %s cannot be written; make a list of it first",
                   jinja_type((struct jinja_value){.kind = JINJA_LIST, .list = (void *)(uintptr_t)list}));
        return;
    }
    const bool tuple = list->flavor == JINJA_TUPLE;
    jinja_puts(j, text, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count && jinja_step(j, 1); i++) {
        jinja_puts(j, text, i ? ", " : "");
        jinja_put_repr(j, text, list->items[i]);
    }
    jinja_puts(j, text, tuple && list->count == 1 ? ",)" : tuple ? ")" : "]");
}

static void put_dict(struct jinja *j, struct jinja_text *text, const struct jinja_dict *dict) {
    jinja_puts(j, text, "{");
    for (size_t i = 0; i < dict->count && jinja_step(j, 1); i++) {
        jinja_puts(j, text, i ? ", " : "");
        jinja_put_repr(j, text, dict->entries[i].key);
        jinja_puts(j, text, ": ");
        jinja_put_repr(j, text, dict->entries[i].value);
    }
    jinja_puts(j, text, "}");
}

void jinja_put_repr(struct jinja *j, struct jinja_text *text, struct jinja_value value) {
    if (!jinja_enter(j)) {
        jinja_leave(j);
        return;
    }
    switch (value.kind) {
    case JINJA_UNSET:
    case JINJA_UNDEFINED:
        jinja_puts(j, text, "Undefined");
        break;
    case JINJA_NONE:
        jinja_puts(j, text, "None");
        break;
    case JINJA_BOOL:
        jinja_puts(j, text, value.truth ? "True" : "False");
        break;
    case JINJA_INT:
        jinja_put_int(j, text, value.whole);
        break;
    case JINJA_FLOAT:
        jinja_put_float(j, text, value.real);
        break;
    case JINJA_STRING:
        jinja_puts(j, text, value.string->safe ? "Markup(" : "");
        put_quoted(j, text, value.string);
        jinja_puts(j, text, value.string->safe ? ")" : "");
        break;
    case JINJA_LIST:
        put_list(j, text, value.list);
        break;
    case JINJA_DICT:
        put_dict(j, text, value.dict);
        break;
    default:
        jinja_fail(j, "a %s cannot be written", jinja_type(value));
    }
    jinja_leave(j);
}

/* ---- str() ---- */

void jinja_put_str(struct jinja *j, struct jinja_text *text, struct jinja_value value) {
    if (value.kind == JINJA_STRING) {
        jinja_put_all(j, text, value.string);
    } else if (value.kind != JINJA_UNDEFINED) {
        jinja_put_repr(j, text, value);
    }
}

const struct jinja_string *jinja_str(struct jinja *j, struct jinja_value value) {
    static const struct jinja_string empty = {"", 0, NULL, NULL, false};
    if (value.kind == JINJA_STRING) {
        return value.string;
    }
    struct jinja_text text = {0};
    jinja_put_str(j, &text, value);
    value = jinja_taken(j, &text);
    return j->status == KVC_OK ? value.string : &empty;
}

void jinja_put_escaped(struct jinja *j, struct jinja_text *text, const struct jinja_string *string) {
    for (size_t i = 0; i < string->bytes && j->status == KVC_OK; i++) {
        const char c = string->data[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (entity) {
            jinja_put_made(j, text, entity, strlen(entity), jinja_marked(string, i));
        } else {
            jinja_put(j, text, string, i, 1);
        }
    }
}
