/* edit_text.c - the text of the line editor: inserting, removing, and finding characters, words and lines. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "cli/cli.h"
#include "cli/edit.h"
#include "core/base/assert.h"

bool edit_text_open(struct edit_text *text) {
    *text = (struct edit_text){.data = calloc(1, 64), .capacity = 64};
    return text->data != NULL;
}

void edit_text_free(struct edit_text *text) {
    free(text->data);
    free(text->cut);
    *text = (struct edit_text){.data = NULL};
}

static uint32_t code_point(const char *data, size_t n) {
    const unsigned char *at = (const unsigned char *)data;
    uint32_t c = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (at[i] & 0x3fu);
    return c;
}

/* Returns the length of the code point at `at`. */
static size_t point(const struct edit_text *text, size_t at) {
    const size_t n = cli_character(text->data + at, text->bytes - at);
    KVC_ASSERT(at < text->bytes && n > 0);
    return n ? n : 1;
}

enum { TAB = 4 }; /* columns of a tab */

int edit_width(const struct edit_text *text, size_t at) {
    const uint32_t c = code_point(text->data + at, point(text, at));
    if (c < 0x80)
        return c == '\t' ? TAB : 1;
    return utf8proc_charwidth((utf8proc_int32_t)c);
}

/* ---- changes ---- */

static bool text_reserve(struct edit_text *text, size_t more) {
    if (text->bytes + more + 1 <= text->capacity)
        return true;
    const size_t capacity = cli_max(2 * text->capacity, text->bytes + more + 1);
    char *grown = realloc(text->data, capacity);
    if (!grown)
        return false;
    text->data = grown;
    text->capacity = capacity;
    return true;
}

/* Copies the characters that the text may contain. Returns the number of bytes written. `to` has room for three times
 * as many bytes as `data`. */
static size_t clean(char *to, const char *data, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0, n; i < bytes; i += n) {
        enum cli_part kind;
        n = cli_part(data + i, bytes - i, &kind);
        const unsigned char c = (unsigned char)data[i];
        const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
                             (c == 0xc2 && n == 2 && (unsigned char)data[i + 1] < 0xa0);
        if (kind != CLI_CHARACTER) {
            memcpy(to + count, CLI_REPLACEMENT, 3);
            count += 3;
        } else if (c == '\r' && !(i + 1 < bytes && data[i + 1] == '\n')) {
            to[count++] = '\n';
        } else if (!control) {
            memcpy(to + count, data + i, n);
            count += n;
        }
    }
    return count;
}

void edit_insert(struct edit_text *text, const char *data, size_t bytes) {
    char *cleaned = malloc(3 * bytes + 1);
    if (!cleaned)
        return;
    const size_t count = clean(cleaned, data, bytes);
    if (count > 0 && text_reserve(text, count)) {
        memmove(text->data + text->at + count, text->data + text->at, text->bytes - text->at + 1);
        memcpy(text->data + text->at, cleaned, count);
        text->bytes += count;
        text->at += count;
    }
    free(cleaned);
    KVC_ASSERT(text->at <= text->bytes && text->bytes < text->capacity);
}

void edit_replace(struct edit_text *text, const char *data) {
    text->bytes = text->at = 0;
    text->data[0] = '\0';
    edit_insert(text, data, strlen(data));
}

void edit_remove(struct edit_text *text, size_t from, size_t to) {
    KVC_ASSERT(from <= to && to <= text->bytes);
    memmove(text->data + from, text->data + to, text->bytes - to + 1);
    text->bytes -= to - from;
    text->at = from;
}

void edit_cut(struct edit_text *text, size_t from, size_t to) {
    char *cut = from < to ? strndup(text->data + from, to - from) : NULL;
    if (cut) {
        free(text->cut);
        text->cut = cut;
    }
    edit_remove(text, from, to);
}

void edit_put_back(struct edit_text *text) {
    if (text->cut)
        edit_insert(text, text->cut, strlen(text->cut));
}

/* ---- places ---- */

size_t edit_back(const struct edit_text *text, size_t at) {
    while (at > 0) {
        do
            at--;
        while (at > 0 && ((unsigned char)text->data[at] & 0xc0) == 0x80);
        if (edit_width(text, at) > 0)
            break;
    }
    return at;
}

size_t edit_forward(const struct edit_text *text, size_t at) {
    if (at < text->bytes)
        at += point(text, at);
    while (at < text->bytes && edit_width(text, at) == 0)
        at += point(text, at);
    return at;
}

static bool is_blank(const struct edit_text *text, size_t at) { return strchr(" \t\n", text->data[at]) != NULL; }

size_t edit_word_back(const struct edit_text *text, size_t at) {
    while (at > 0 && is_blank(text, edit_back(text, at)))
        at = edit_back(text, at);
    while (at > 0 && !is_blank(text, edit_back(text, at)))
        at = edit_back(text, at);
    return at;
}

size_t edit_word_forward(const struct edit_text *text, size_t at) {
    while (at < text->bytes && is_blank(text, at))
        at = edit_forward(text, at);
    while (at < text->bytes && !is_blank(text, at))
        at = edit_forward(text, at);
    return at;
}

size_t edit_line_begin(const struct edit_text *text, size_t at) {
    while (at > 0 && text->data[at - 1] != '\n')
        at--;
    return at;
}

size_t edit_line_end(const struct edit_text *text, size_t at) {
    while (at < text->bytes && text->data[at] != '\n')
        at++;
    return at;
}

bool edit_move_line(struct edit_text *text, bool up) {
    const size_t begin = edit_line_begin(text, text->at), end = edit_line_end(text, text->at);
    size_t column = 0, to;
    if (up ? begin == 0 : end == text->bytes)
        return false;
    for (size_t at = begin; at < text->at; at = edit_forward(text, at))
        column += (size_t)edit_width(text, at);
    to = up ? edit_line_begin(text, begin - 1) : end + 1;
    for (size_t x = 0; to < text->bytes && text->data[to] != '\n'; to = edit_forward(text, to)) {
        x += (size_t)edit_width(text, to);
        if (x > column)
            break;
    }
    text->at = to;
    return true;
}

bool edit_goes_on(const char *data, size_t bytes, size_t *remove) {
    static const char quotes[] = "\"\"\"";
    const bool block = bytes >= 3 && memcmp(data, quotes, 3) == 0;
    *remove = !block && bytes > 0 && data[bytes - 1] == '\\';
    return *remove > 0 || (block && !(bytes >= 6 && memcmp(data + bytes - 3, quotes, 3) == 0));
}
