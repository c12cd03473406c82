/* points.c - finds boundary code points: between two of them, a pattern treats all characters alike.
 *
 * Any two characters between neighbouring points are in the same classes of the pattern. So if the pattern allows one
 * of them, it allows the other. */
#include "models/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

/* The boundaries of characters that a pattern can match without containing them: those of \R, \h and \v, and the two
 * that match s and k if case is ignored. The last point is the first character after the surrogates. */
static const uint32_t implied[] = {0x85,   0x86,   0xa0,   0xa1,   0x17f,  0x180,  0x1680, 0x1681,
                                   0x180e, 0x180f, 0x2000, 0x200b, 0x2028, 0x202a, 0x202f, 0x2030,
                                   0x205f, 0x2060, 0x212a, 0x212b, 0x3000, 0x3001, 0xe000};

static void add_point(struct kvc_points *points, uint32_t code) {
    if (code < 0x80)
        return;
    points->items[points->count++] = code;
    points->items[points->count++] = code + 1;
}

static int hexadecimal(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Adds the code point of \xHH or \x{HHH}, whose digits begin at `at`. */
static void add_escaped(struct kvc_points *points, const char *regex, size_t bytes, size_t at) {
    const bool braces = at < bytes && regex[at] == '{';
    const size_t most = braces ? 6 : 2;
    uint32_t code = 0;
    at += braces;
    while (braces && at < bytes && (regex[at] == ' ' || regex[at] == '\t' || regex[at] == '0'))
        at++;
    for (size_t n = 0; n < most && at < bytes && hexadecimal(regex[at]) >= 0; n++)
        code = code << 4 | (uint32_t)hexadecimal(regex[at++]);
    add_point(points, code);
}

/* Adds the character at `at`, whose first byte is not ASCII. The pattern is valid UTF-8. */
static void add_character(struct kvc_points *points, const char *regex, size_t bytes, size_t at) {
    const unsigned char first = (unsigned char)regex[at];
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = first & (0x7fu >> length);
    for (size_t i = 1; i < length && at + i < bytes; i++)
        code = code << 6 | ((unsigned char)regex[at + i] & 63);
    add_point(points, code);
}

/* Looks at a group's beginning. Returns false if the group may have boundary points that this file cannot find. */
static bool look_at_group(const char *regex, size_t bytes, size_t at, bool *caseless) {
    if (at + 1 >= bytes || regex[at + 1] == '*')
        return at + 1 >= bytes;
    if (regex[at + 1] != '?')
        return true;
    for (at += 2; at < bytes && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ^-", regex[at]); at++)
        *caseless = *caseless || regex[at] == 'i';
    return !(at < bytes && regex[at] == '=' && regex[at - 1] == 'P'); /* (?P=name): a back reference */
}

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool kvc_points_find(struct kvc_points *points, const char *regex, size_t bytes) {
    bool caseless = false;
    *points = (struct kvc_points){.exact = true};
    points->items = malloc((2 * bytes + sizeof implied / sizeof *implied) * sizeof *points->items);
    if (!points->items)
        return false;
    for (size_t at = 0; at < bytes; at++) {
        const unsigned char c = (unsigned char)regex[at];
        if (c >= 0xc0)
            add_character(points, regex, bytes, at);
        else if (c == '(')
            points->exact = look_at_group(regex, bytes, at, &caseless) && points->exact;
        if (c != '\\' || at + 1 == bytes || (unsigned char)regex[at + 1] >= 0x80)
            continue;
        at++;
        if (regex[at] == 'x')
            add_escaped(points, regex, bytes, at + 1);
        else if (strchr("0123456789gkoNpPX", regex[at])) /* back references, octal numbers, names and properties */
            points->exact = false;
    }
    points->exact = points->exact && !(caseless && points->count > 0);
    memcpy(points->items + points->count, implied, sizeof implied);
    points->count += sizeof implied / sizeof *implied;
    qsort(points->items, points->count, sizeof *points->items, compare);
    return true;
}
