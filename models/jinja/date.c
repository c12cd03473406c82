/* date.c - strftime_now: formats a date with strftime's letters. */
#include "models/jinja/parts.h"

#include <stdio.h>
#include <string.h>

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

/* Writes the value of one format letter. Returns false if the letter is unknown. */
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
        return JINJA_FAIL(j, "\"%.30s\" is not a date; it must be like 2025-06-30", j->date);
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
