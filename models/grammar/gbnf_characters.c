/* gbnf_characters.c - reads blanks, comments, literals and classes of grammars in llama.cpp's format. */
#include "models/grammar/gbnf_read.h"
#include "models/tokenizer/parts.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_CODE 0x10ffffu
#define IS_SURROGATE(code) ((code) >= 0xd800 && (code) <= 0xdfff)

bool kvc_gbnf_fail(struct gbnf_reader *reader, uint32_t line, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reader->status = kvc_fail(reader->error, KVC_USAGE, "grammar, line %u: %s", line, text);
    return false;
}

const char *kvc_gbnf_found(const struct gbnf_reader *reader, char text[GBNF_FOUND_BYTES]) {
    uint32_t code;
    if (reader->at >= reader->bytes)
        return "the end";
    if (reader->text[reader->at] == '\n' || reader->text[reader->at] == '\r')
        return "the end of the line";
    const size_t length = kvc_utf8_next(reader->text + reader->at, reader->bytes - reader->at, &code);
    snprintf(text, GBNF_FOUND_BYTES, "'%.*s'", (int)length, reader->text + reader->at);
    return text;
}

static void skip(struct gbnf_reader *reader) {
    reader->line += reader->text[reader->at] == '\n';
    reader->at++;
}

void kvc_gbnf_space(struct gbnf_reader *reader, bool lines) {
    for (;;) {
        const int c = gbnf_peek(reader);
        if (c == '#')
            while (gbnf_peek(reader) != -1 && gbnf_peek(reader) != '\n')
                reader->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            skip(reader);
        else
            return;
    }
}

/* Reads `digits` hexadecimal digits. */
static bool read_hex(struct gbnf_reader *reader, unsigned digits, uint32_t *code) {
    *code = 0;
    for (unsigned i = 0; i < digits; i++) {
        const int c = gbnf_peek(reader);
        if (c == -1 || !isxdigit(c))
            return kvc_gbnf_fail(reader, reader->line, "the escape needs %u hexadecimal digits", digits);
        *code = *code << 4 | (uint32_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
        reader->at++;
    }
    if (*code > LAST_CODE || IS_SURROGATE(*code))
        return kvc_gbnf_fail(reader, reader->line, "U+%04X is no character%s", *code,
                             IS_SURROGATE(*code) ? "; write one above U+FFFF as \\UHHHHHHHH" : "");
    return true;
}

static bool read_escape(struct gbnf_reader *reader, uint32_t *code) {
    static const char names[] = "ntr\\\"[]-", codes[] = "\n\t\r\\\"[]-";
    char found[GBNF_FOUND_BYTES];
    const int c = gbnf_peek(reader);
    const char *name = c > 0 ? strchr(names, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U') {
        reader->at++;
        return read_hex(reader, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
    }
    if (!name)
        return kvc_gbnf_fail(reader, reader->line,
                             "no escape after \\: %s; there are \\n \\t \\r \\\\ \\\" \\[ \\] \\- \\xHH \\uHHHH "
                             "\\UHHHHHHHH",
                             kvc_gbnf_found(reader, found));
    *code = (unsigned char)codes[name - names];
    reader->at++;
    return true;
}

/* Reads one character of a literal or class that began on line `begun`. */
static bool read_character(struct gbnf_reader *reader, uint32_t begun, const char *what, uint32_t *code) {
    if (gbnf_peek(reader) == -1)
        return kvc_gbnf_fail(reader, begun, "the %s is not closed", what);
    if (gbnf_peek(reader) == '\\') {
        reader->at++;
        return read_escape(reader, code);
    }
    const size_t length = kvc_utf8_next(reader->text + reader->at, reader->bytes - reader->at, code);
    if (*code == KVC_NOT_UTF8)
        return kvc_gbnf_fail(reader, reader->line, "a byte that is not UTF-8");
    reader->line += *code == '\n';
    reader->at += length;
    return true;
}

bool kvc_gbnf_literal(struct gbnf_reader *reader, struct gbnf_node *node) {
    const uint32_t begun = reader->line;
    *node = (struct gbnf_node){.kind = GBNF_LITERAL, .from = reader->gbnf->range_count};
    reader->at++;
    while (gbnf_peek(reader) != '"') {
        uint32_t code;
        if (!read_character(reader, begun, "literal", &code))
            return false;
        if (!kvc_gbnf_range(reader->gbnf, code, code))
            return kvc_gbnf_no_room(reader);
    }
    reader->at++;
    node->count = reader->gbnf->range_count - node->from;
    return true;
}

static int compare_ranges(const void *left, const void *right) {
    const struct gbnf_range *a = left, *b = right;
    return a->low < b->low ? -1 : a->low > b->low;
}

/* Returns true if the ranges leave no character out. Sorts them. */
static bool covers_all(struct gbnf_range *ranges, uint32_t count) {
    uint32_t next = 0; /* all characters before it are covered */
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (uint32_t i = 0; i < count; i++) {
        next = IS_SURROGATE(next) ? 0xe000 : next;
        if (ranges[i].low > next)
            return false;
        next = ranges[i].high >= next ? ranges[i].high + 1 : next;
    }
    return next > LAST_CODE;
}

bool kvc_gbnf_class(struct gbnf_reader *reader, struct gbnf_node *node) {
    const uint32_t begun = reader->line;
    struct gbnf *gbnf = reader->gbnf;
    reader->at++;
    *node = (struct gbnf_node){.kind = GBNF_CLASS, .from = gbnf->range_count, .negated = gbnf_peek(reader) == '^'};
    reader->at += node->negated;
    while (gbnf_peek(reader) != ']') {
        uint32_t low, high;
        if (!read_character(reader, begun, "class", &low))
            return false;
        high = low;
        if (gbnf_peek(reader) == '-' && reader->at + 1 < reader->bytes && reader->text[reader->at + 1] != ']') {
            reader->at++;
            if (!read_character(reader, begun, "class", &high))
                return false;
        }
        if (low > high)
            return kvc_gbnf_fail(reader, reader->line, "the range from U+%04X to U+%04X is in the wrong order", low,
                                 high);
        if (!kvc_gbnf_range(gbnf, low, high))
            return kvc_gbnf_no_room(reader);
    }
    reader->at++;
    node->count = gbnf->range_count - node->from;
    if (node->count == 0)
        return kvc_gbnf_fail(reader, begun, "the class has no characters%s", node->negated ? "; write . for any" : "");
    if (node->negated && covers_all(gbnf->ranges + node->from, node->count))
        return kvc_gbnf_fail(reader, begun, "the class leaves no character");
    return true;
}
