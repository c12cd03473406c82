/* format.c - text with values put in: '%s' % value, '{}'.format(value), and dates by strftime's letters. */
#include "models/jinja/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- fields: [fill]align, width, precision, as both forms share them ---- */

struct field {
    char align; /* <, > or ^; 0: text to the left, numbers to the right */
    char fill, sign;
    bool marked;       /* the caller wrote the form */
    int width, places; /* places -1: not given */
    char kind;         /* s, d, f, x, X, o; 0: by the value */
};

enum { MOST_WIDTH = 10000 };

/* A number at text[*at]; -1 where there is none. */
static int number(const struct jinja_string *text, size_t *at) {
    int value = -1;
    for (; *at < text->bytes && text->data[*at] >= '0' && text->data[*at] <= '9'; (*at)++) {
        value = (value < 0 ? 0 : value) * 10 + (text->data[*at] - '0');
        value = value > MOST_WIDTH ? MOST_WIDTH : value;
    }
    return value;
}

static void put_whole(struct jinja *j, struct jinja_text *text, int64_t whole, char kind) {
    char digits[32];
    if (kind == 'd') {
        jinja_put_int(j, text, whole);
        return;
    }
    const unsigned long long size = whole < 0 ? 0ull - (unsigned long long)whole : (unsigned long long)whole;
    snprintf(digits, sizeof digits,
             kind == 'o'   ? "%s%llo"
             : kind == 'X' ? "%s%llX"
                           : "%s%llx",
             whole < 0 ? "-" : "", size);
    jinja_puts(j, text, digits);
}

static void put_field(struct jinja *j, struct jinja_text *text, const struct field *field, struct jinja_value value) {
    struct jinja_text made = {0};
    bool right = false;
    if (field->kind == 0 || field->kind == 's') {
        if (field->kind == 's' || value.kind == JINJA_STRING || field->places < 0) {
            const struct jinja_string *string = jinja_str(j, value);
            const size_t bytes = field->places < 0 ? string->bytes : jinja_offset(string, (size_t)field->places);
            jinja_put(j, &made, string, 0, bytes);
        } else {
            jinja_fail(j, "a precision for a %s is not supported", jinja_type(value));
        }
        right = field->kind == 0 && jinja_is_number(value);
    } else if (!jinja_is_number(value)) {
        jinja_fail(j, "%%%c takes a number, not a %s", field->kind, jinja_type(value));
    } else if (field->kind == 'f') {
        right = true;
        jinja_put_fixed(j, &made, jinja_real(value), field->places < 0 ? 6 : field->places);
    } else if (!jinja_is_whole(value) && (field->kind != 'd' || !(fabs(value.real) < 9e18))) {
        jinja_fail(j, "%%%c takes a whole number", field->kind);
    } else {
        right = true;
        put_whole(j, &made, jinja_is_whole(value) ? jinja_whole(value) : (int64_t)value.real, field->kind);
    }
    const struct jinja_string written = jinja_seen(&made);
    const size_t there = jinja_characters(&written);
    const size_t blanks = field->width > 0 && (size_t)field->width > there ? (size_t)field->width - there : 0;
    const char align = field->align ? field->align : right ? '>' : '<';
    const size_t before = align == '>' ? blanks : align == '^' ? blanks / 2 : 0;
    size_t from = 0;
    if (field->fill == '0' && align == '>' && written.bytes && written.data[0] == '-') {
        jinja_puts(j, text, "-");
        from = 1;
    } else if (field->sign == '+' && right && written.data[0] != '-') {
        jinja_puts(j, text, "+");
    }
    for (size_t i = 0; i < before; i++) {
        jinja_put_made(j, text, &field->fill, 1, field->marked);
    }
    jinja_put(j, text, &written, from, written.bytes - from);
    for (size_t i = before; i < blanks; i++) {
        jinja_put_made(j, text, &field->fill, 1, field->marked);
    }
}

/* ---- '%s' % value ---- */

struct jinja_value jinja_percent(struct jinja *j, const struct jinja_string *form, struct jinja_value value) {
    const bool tuple = value.kind == JINJA_LIST && value.list->flavor == JINJA_TUPLE;
    const size_t given = tuple ? value.list->count : 1;
    size_t used = 0;
    struct jinja_text text = {0};
    for (size_t at = 0; at < form->bytes && j->status == KVC_OK;) {
        if (form->data[at] != '%') {
            jinja_put(j, &text, form, at++, 1);
            continue;
        }
        struct field field = {.align = '>', .fill = ' ', .marked = jinja_marked(form, at), .places = -1};
        for (at++; at < form->bytes && form->data[at] && strchr("-0+ ", form->data[at]); at++) {
            field.align = form->data[at] == '-' ? '<' : field.align;
            field.fill = form->data[at] == '0' ? '0' : field.fill;
            field.sign = form->data[at] == '+' ? '+' : field.sign;
        }
        field.width = number(form, &at);
        if (at < form->bytes && form->data[at] == '.') {
            at++;
            field.places = number(form, &at);
            field.places = field.places < 0 ? 0 : field.places;
        }
        const char kind = at < form->bytes ? form->data[at++] : '\0';
        if (kind == '%') {
            jinja_put(j, &text, form, at - 1, 1);
            continue;
        }
        if (!kind || !strchr("sdifxXor", kind)) {
            return JINJA_FAIL(j, "a %% without s, d, f, x or %% behind it is not supported");
        }
        if (used >= given) {
            return JINJA_FAIL(j, "more %% in a string than values for it");
        }
        struct jinja_value one = tuple ? value.list->items[used] : value;
        used++;
        if (kind == 'r') {
            struct jinja_text repr = {0};
            jinja_put_repr(j, &repr, one);
            one = jinja_taken(j, &repr);
        }
        field.kind = (char)(kind == 'i' ? 'd' : kind == 'r' ? 's' : kind);
        put_field(j, &text, &field, one);
    }
    if (used < given && (tuple || value.kind != JINJA_DICT)) {
        return JINJA_FAIL(j, "more values for a string than %% in it");
    }
    return jinja_taken(j, &text);
}

/* ---- '{}'.format(...) ---- */

static struct jinja_value argument(struct jinja *j, const struct jinja_call *call, const char *name, size_t bytes,
                                   size_t *next) {
    const struct jinja_string string = {name, bytes, NULL, NULL, false};
    size_t at = 0;
    const int place = number(&string, &at);
    if (bytes == 0 || (place >= 0 && at == bytes)) {
        const size_t i = bytes ? (size_t)place : (*next)++;
        return i < call->count ? call->values[i] : JINJA_FAIL(j, "format: there is no argument %zu", i);
    }
    for (size_t i = 0; i < call->named_count; i++) {
        if (strlen(call->names[i]) == bytes && !memcmp(call->names[i], name, bytes)) {
            return call->named[i];
        }
    }
    return JINJA_FAIL(j, "format: there is no argument \"%.*s\"", bytes > 40 ? 40 : (int)bytes, name);
}

static struct field read_field(struct jinja *j, const struct jinja_string *form, size_t at, size_t end) {
    struct field field = {.fill = ' ', .marked = jinja_marked(form, at - 1), .places = -1};
    const struct jinja_string part = jinja_cut(form, 0, end);
    if (at + 1 < end && form->data[at + 1] && strchr("<>^", form->data[at + 1])) {
        field.fill = form->data[at++];
    }
    if (at < end && form->data[at] && strchr("<>^", form->data[at])) {
        field.align = form->data[at++];
    }
    if (at < end && form->data[at] == '0') {
        field.fill = '0';
        field.align = field.align ? field.align : '>';
    }
    field.width = number(&part, &at);
    if (at < end && form->data[at] == '.') {
        at++;
        field.places = number(&part, &at);
    }
    if (at < end && form->data[at] && strchr("sdfxXo", form->data[at])) {
        field.kind = form->data[at++];
    }
    if (at < end) {
        jinja_fail(j, "format: a field's form is not supported");
    }
    return field;
}

struct jinja_value jinja_format(struct jinja *j, const struct jinja_string *form, const struct jinja_call *call) {
    struct jinja_text text = {0};
    size_t next = 0;
    for (size_t at = 0; at < form->bytes && j->status == KVC_OK;) {
        const char c = form->data[at];
        if ((c == '{' || c == '}') && at + 1 < form->bytes && form->data[at + 1] == c) {
            jinja_put(j, &text, form, at, 1);
            at += 2;
            continue;
        }
        if (c != '{' && c != '}') {
            jinja_put(j, &text, form, at, 1);
            at++;
            continue;
        }
        const char *close = memchr(form->data + at, '}', form->bytes - at);
        if (c == '}' || !close) {
            return JINJA_FAIL(j, "format: a brace without its other one");
        }
        const size_t begin = at + 1, end = (size_t)(close - form->data);
        const char *colon = memchr(form->data + begin, ':', end - begin);
        const size_t name_end = colon ? (size_t)(colon - form->data) : end;
        const struct jinja_value value = argument(j, call, form->data + begin, name_end - begin, &next);
        const struct field field = read_field(j, form, colon ? name_end + 1 : end, end);
        put_field(j, &text, &field, value);
        at = end + 1;
    }
    return jinja_taken(j, &text);
}

/* ---- strftime_now ---- */

struct date {
    int year, month, day, hour, minute, second;
};

static int weekday(const struct date *date) { /* 0: Sunday */
    static const int offset[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    const int year = date->year - (date->month < 3);
    return (year + year / 4 - year / 100 + year / 400 + offset[date->month - 1] + date->day) % 7;
}

static int day_of_year(const struct date *date) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const bool leap = (date->year % 4 == 0 && date->year % 100 != 0) || date->year % 400 == 0;
    return before[date->month - 1] + date->day + (leap && date->month > 2);
}

/* One letter of the form; false: it is not known. */
static bool put_part(struct jinja *j, struct jinja_text *text, const struct date *date, char letter, bool bare) {
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
                             *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                                "July",    "August",   "September", "October", "November", "December"};
    const int hour12 = date->hour % 12 ? date->hour % 12 : 12;
    const struct {
        char letter;
        int value, digits;
    } numbers[] = {{'Y', date->year, 1},    {'y', date->year % 100, 2},
                   {'m', date->month, 2},   {'d', date->day, 2},
                   {'e', date->day, 1},     {'H', date->hour, 2},
                   {'I', hour12, 2},        {'M', date->minute, 2},
                   {'S', date->second, 2},  {'j', day_of_year(date), 3},
                   {'w', weekday(date), 1}, {'u', (weekday(date) + 6) % 7 + 1, 1}};
    char out[64] = "";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].letter == letter) {
            snprintf(out, sizeof out, letter == 'e' ? "%*d" : "%0*d",
                     bare            ? 1
                     : letter == 'e' ? 2
                                     : numbers[i].digits,
                     numbers[i].value);
        }
    }
    switch (letter) {
    case 'A':
    case 'a':
        snprintf(out, sizeof out, letter == 'A' ? "%s" : "%.3s", days[weekday(date)]);
        break;
    case 'B':
    case 'b':
    case 'h':
        snprintf(out, sizeof out, letter == 'B' ? "%s" : "%.3s", months[date->month - 1]);
        break;
    case 'p':
        snprintf(out, sizeof out, "%s", date->hour < 12 ? "AM" : "PM");
        break;
    case 'F':
        snprintf(out, sizeof out, "%d-%02d-%02d", date->year, date->month, date->day);
        break;
    case 'D':
    case 'x':
        snprintf(out, sizeof out, "%02d/%02d/%02d", date->month, date->day, date->year % 100);
        break;
    case 'T':
    case 'X':
        snprintf(out, sizeof out, "%02d:%02d:%02d", date->hour, date->minute, date->second);
        break;
    case 'R':
        snprintf(out, sizeof out, "%02d:%02d", date->hour, date->minute);
        break;
    case '%':
        snprintf(out, sizeof out, "%%");
        break;
    default:
        break;
    }
    jinja_puts(j, text, out);
    return out[0] != '\0';
}

struct jinja_value jinja_date(struct jinja *j, const struct jinja_string *form) {
    struct date date = {0};
    const int read = sscanf(j->date, "%4d-%2d-%2d %2d:%2d:%2d", &date.year, &date.month, &date.day, &date.hour,
                            &date.minute, &date.second);
    if ((read != 3 && read != 6) || date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > 31 || date.hour < 0 || date.hour > 23 || date.minute < 0 || date.minute > 59 || date.second < 0 ||
        date.second > 60) {
        return JINJA_FAIL(j, "the date \"%.30s\" is none; it must be like 2025-06-30", j->date);
    }
    struct jinja_text text = {0};
    for (size_t at = 0; at < form->bytes && j->status == KVC_OK; at++) {
        if (form->data[at] != '%') {
            jinja_put(j, &text, form, at, 1);
            continue;
        }
        const bool bare = at + 2 < form->bytes && form->data[at + 1] == '-';
        at += bare ? 2 : 1;
        if (at >= form->bytes || !put_part(j, &text, &date, form->data[at], bare)) {
            return JINJA_FAIL(j, "strftime_now: a letter after %% is not supported");
        }
    }
    return jinja_taken(j, &text);
}
