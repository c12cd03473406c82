/* printable.c - converts arbitrary bytes to one line that is safe to print on a terminal. */
#include "kvcull.h"

#include <string.h>

/* Returns the bytes of the UTF-8 character at the beginning of text [left]. Returns 0 if the character is invalid or a
 * control character. */
static size_t character(const unsigned char *text, size_t left) {
    if (text[0] < 0x80) {
        return text[0] >= 0x20 && text[0] != 0x7f;
    }
    const size_t bytes = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0xa0 /* 0x80 to 0x9f are control characters */, 0x800, 0x10000};
    uint32_t code = text[0] & (0x7fu >> bytes);
    if (text[0] < 0xc2 || text[0] > 0xf4 || bytes > left) {
        return 0;
    }
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : bytes;
}

void kvc_printable(const char *text, size_t bytes, char *line, size_t capacity) {
    static const char gap[] = "...";
    const bool cut = bytes >= capacity && capacity > 2 * sizeof gap;
    /* Long text is cut in the middle: its beginning, often a path, says where the error is, and its end gives the
     * reason. */
    const size_t head = cut ? capacity / 5 : capacity - 1;
    const size_t tail = cut ? bytes - (capacity - sizeof gap - head) : bytes;
    size_t used = 0, wide;
    bool skipped = false;
    for (size_t i = 0; i < bytes; i += wide) {
        const size_t valid = character((const unsigned char *)text + i, bytes - i);
        wide = valid ? valid : 1;
        if (i + wide > head && i < tail) {
            skipped = true;
            continue;
        }
        if (skipped) {
            memcpy(line + used, gap, sizeof gap - 1);
            used += sizeof gap - 1;
            skipped = false;
        }
        memmove(line + used, valid ? text + i : "?", wide);
        used += wide;
    }
    line[used] = '\0';
}
