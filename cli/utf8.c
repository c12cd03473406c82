/* utf8.c - splits text into complete, incomplete and invalid UTF-8 characters. */
#include "cli/cli.h"
#include "core/base/assert.h"

size_t cli_part(const char *text, size_t bytes, enum cli_part *kind) {
    const unsigned char *at = (const unsigned char *)text;
    unsigned char first = at[0], low = 0x80, high = 0xbf; /* range of the second byte */
    size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;

    low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    for (size_t i = 1; i < n; i++) {
        if (i < bytes && at[i] >= low && at[i] <= high) {
            low = 0x80;
            high = 0xbf;
            continue;
        }
        *kind = i < bytes ? CLI_PART_NONE : CLI_PART_BEGUN;
        return i;
    }
    *kind = n ? CLI_CHARACTER : CLI_PART_NONE;
    return n ? n : 1;
}

size_t cli_character(const char *text, size_t bytes) {
    enum cli_part kind;
    size_t n = cli_part(text, bytes, &kind);

    return kind == CLI_CHARACTER ? n : 0;
}

size_t cli_begun(const char *text, size_t bytes) {
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        enum cli_part kind;

        if (cli_part(text + bytes - back, back, &kind) == back && kind == CLI_PART_BEGUN)
            return back;
    }
    return 0;
}

void cli_write_text(FILE *stream, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        enum cli_part kind;
        size_t n = cli_part(text + i, bytes - i, &kind);
        KVC_ASSERT(n > 0 && n <= bytes - i);

        if (kind == CLI_CHARACTER)
            fwrite(text + i, 1, n, stream);
        else
            fputs(CLI_REPLACEMENT, stream);
        i += n;
    }
}
