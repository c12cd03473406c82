/* text.c - functions that append JSON to a growable text. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/assert.h"
#include "serve/text.h"

size_t serve_text_capacity(const struct serve_text *text, size_t more) {
    const size_t wanted = text->bytes + more + 1;
    KVC_ASSERT(text->bytes <= text->capacity);
    return wanted <= text->capacity ? text->capacity : cli_max(wanted, cli_max(2 * text->capacity, 256));
}

static bool text_reserve(struct serve_text *text, size_t more) {
    if (text->failed || more > SIZE_MAX / 4 - text->bytes) {
        text->failed = true;
        return false;
    }
    const size_t capacity = serve_text_capacity(text, more);
    if (capacity == text->capacity)
        return true;
    char *grown = realloc(text->data, capacity);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

bool serve_text_add(struct serve_text *text, const char *data, size_t bytes) {
    if (!text_reserve(text, bytes))
        return false;
    if (bytes > 0)
        memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    KVC_ASSERT(text->bytes < text->capacity);
    text->data[text->bytes] = '\0';
    return true;
}

void serve_text_put(struct serve_text *text, const char *string) { serve_text_add(text, string, strlen(string)); }

void serve_text_print(struct serve_text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (length < 0 || !text_reserve(text, (size_t)length)) {
        text->failed = true;
        return;
    }
    va_start(list, format);
    vsnprintf(text->data + text->bytes, (size_t)length + 1, format, list);
    va_end(list);
    text->bytes += (size_t)length;
}

void serve_text_string(struct serve_text *text, const char *data, size_t bytes) {
    serve_text_put(text, "\"");
    for (size_t i = 0; i < bytes;) {
        enum cli_part kind;
        const size_t n = cli_part(data + i, bytes - i, &kind);
        const unsigned char c = (unsigned char)data[i];
        if (kind != CLI_CHARACTER)
            serve_text_put(text, CLI_REPLACEMENT);
        else if (c == '"' || c == '\\')
            serve_text_print(text, "\\%c", c);
        else if (c == '\n')
            serve_text_put(text, "\\n");
        else if (c < 0x20 || c == 0x7f)
            serve_text_print(text, "\\u%04x", c);
        else
            serve_text_add(text, data + i, n);
        i += n;
    }
    serve_text_put(text, "\"");
}

void serve_text_number(struct serve_text *text, double number) {
    if (isfinite(number))
        serve_text_print(text, "%.9g", number);
    else
        serve_text_put(text, "null");
}

void serve_text_free(struct serve_text *text) {
    free(text->data);
    *text = (struct serve_text){NULL, 0, 0, false};
}
