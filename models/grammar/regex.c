/* regex.c - a growable pattern of PCRE2. */
#include "models/grammar/grammar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kvc_regex_add(struct kvc_regex *regex, const char *text, size_t bytes) {
    if (regex->failed)
        return;
    if (regex->capacity - regex->bytes <= bytes) {
        const size_t capacity = 2 * regex->capacity + bytes + 64;
        char *grown = realloc(regex->text, capacity);
        regex->failed = !grown;
        if (!grown)
            return;
        regex->text = grown;
        regex->capacity = capacity;
    }
    memcpy(regex->text + regex->bytes, text, bytes);
    regex->bytes += bytes;
    regex->text[regex->bytes] = '\0';
}

void kvc_regex_put(struct kvc_regex *regex, const char *text) { kvc_regex_add(regex, text, strlen(text)); }

void kvc_regex_print(struct kvc_regex *regex, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (bytes < 0 || (size_t)bytes >= sizeof text)
        regex->failed = true;
    else
        kvc_regex_add(regex, text, (size_t)bytes);
}

void kvc_regex_literal(struct kvc_regex *regex, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x80)
            kvc_regex_add(regex, text + i, 1);
        else
            kvc_regex_code_point(regex, c);
    }
}

void kvc_regex_code_point(struct kvc_regex *regex, uint32_t code) {
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9'))
        kvc_regex_print(regex, "%c", (int)code);
    else if (code > ' ' && code < 0x7f)
        kvc_regex_print(regex, "\\%c", (int)code);
    else
        kvc_regex_print(regex, "\\x{%x}", code);
}

void kvc_regex_free(struct kvc_regex *regex) {
    free(regex->text);
    *regex = (struct kvc_regex){0};
}
