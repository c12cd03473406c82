/* text.h - a growable string buffer. `failed` is true after an allocation has failed. */
#ifndef KVC_SERVE_TEXT_H
#define KVC_SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serve_text {
    char *data; /* ends with a NUL, which `bytes` does not count */
    size_t bytes, capacity;
    bool failed;
};
bool serve_text_add(struct serve_text *text, const char *data, size_t bytes);
/* Returns the capacity after `more` further bytes are appended. */
size_t serve_text_capacity(const struct serve_text *text, size_t more);
void serve_text_put(struct serve_text *text, const char *string);
__attribute__((format(printf, 2, 3))) void serve_text_print(struct serve_text *text, const char *format, ...);
/* Appends a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD. */
void serve_text_string(struct serve_text *text, const char *data, size_t bytes);
void serve_text_number(struct serve_text *text, double number); /* as JSON; null if not finite */
void serve_text_free(struct serve_text *text);

#endif
