/* nearest.c - finds the known name that a mistyped word most likely means. */
#include "kvcull.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 40 };

/* Returns the number of edits (insert, delete, replace, swap neighbors) that turn a [n] into b [m]. Returns LONGEST if
 * a or b is too long. */
static size_t edits(const char *a, size_t n, const char *b, size_t m) {
    size_t row[3][LONGEST] = {{0}}; /* row i of the table is row[i % 3] */
    if (n >= LONGEST || m >= LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];
        size_t *now = row[i % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

struct kvc_nearest kvc_nearest(const char *word, size_t bytes) {
    return (struct kvc_nearest){.word = word, .word_bytes = bytes, .edits = bytes < 4 ? 2 : 3};
}

void kvc_nearest_try(struct kvc_nearest *nearest, const char *name, size_t bytes) {
    const size_t common = nearest->word_bytes < bytes ? nearest->word_bytes : bytes;
    const bool begins = common >= 2 && memcmp(nearest->word, name, common) == 0; /* one is a prefix of the other */
    const size_t distance = begins ? 1 : edits(nearest->word, nearest->word_bytes, name, bytes);
    if (distance < nearest->edits) {
        nearest->edits = distance;
        nearest->name = name;
        nearest->bytes = bytes;
    }
}

void kvc_nearest_try_choices(struct kvc_nearest *nearest, const char *choices) {
    while (choices && *choices) {
        const size_t bytes = strcspn(choices, "|");
        kvc_nearest_try(nearest, choices, bytes);
        choices += bytes + (choices[bytes] == '|');
    }
}

const char *kvc_nearest_hint(const struct kvc_nearest *nearest, char text[KVC_NEAREST_HINT]) {
    text[0] = '\0';
    if (nearest->name)
        snprintf(text, KVC_NEAREST_HINT, "; did you mean %.*s?", (int)nearest->bytes, nearest->name);
    return text;
}
