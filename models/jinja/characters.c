/* characters.c - text as Python sees it: a sequence of characters. An invalid UTF-8 byte counts as one character. */
#include <string.h>
#include <utf8proc.h>

#include "models/jinja/parts.h"

size_t jinja_next(const char *text, size_t bytes, uint32_t *code) { return kvc_utf8_next(text, bytes, code); }

bool jinja_space(uint32_t code) { return kvc_is_space(code) || (code >= 0x1c && code <= 0x1f); }

static utf8proc_category_t category(uint32_t code) {
    return code > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category((utf8proc_int32_t)code);
}

bool jinja_printable(uint32_t code) {
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return code == ' ';
    default:
        return true;
    }
}

bool jinja_letter(uint32_t code) {
    switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

bool jinja_decimal(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

size_t jinja_characters(const struct jinja_string *text) {
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0; at < text->bytes; count++) {
        at += jinja_next(text->data + at, text->bytes - at, &code);
    }
    return count;
}

size_t jinja_offset(const struct jinja_string *text, size_t character) {
    size_t at = 0;
    uint32_t code;
    for (; character && at < text->bytes; character--) {
        at += jinja_next(text->data + at, text->bytes - at, &code);
    }
    return at;
}

size_t jinja_search(const char *text, size_t bytes, size_t from, const char *part, size_t part_bytes) {
    if (from > bytes || part_bytes > bytes - from) {
        return SIZE_MAX;
    }
    if (!part_bytes) {
        return from;
    }
    const char *found = memmem(text + from, bytes - from, part, part_bytes);
    return found ? (size_t)(found - text) : SIZE_MAX;
}
