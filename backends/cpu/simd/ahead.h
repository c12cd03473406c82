/* ahead.h - template: asking for what a thread will read after what it works on: entries of another head. */
#ifndef KVC_CPU_AHEAD_H
#define KVC_CPU_AHEAD_H

#include "backends/cpu/simd/entries.h"

/* Asks for what will be read: a row of `bytes`. */
INLINE void prefetch_row(const unsigned char *row, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b);
}
INLINE void prefetch_row_later(const unsigned char *row, size_t bytes) { /* into the second cache */
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(row + b, 0, 2);
}

/* Entries that will be read: those of a head whose ranks are listed, rank [count], and up to which they were asked for.
 */
struct listed_ahead {
    const struct kvc_lists *lists;
    const uint32_t *rank;
    uint32_t h, count, next;
};

INLINE void ask_entry(struct listed_ahead *ahead) {
    if (ahead->next >= ahead->count)
        return;
    const size_t row = ahead->lists->format.row_bytes;
    const uint32_t slot = kvc_list_slot(ahead->lists, ahead->h, ahead->rank[ahead->next++]);
    const unsigned char *key = kvc_list_key(ahead->lists, ahead->h, slot);
    prefetch_row_later(key, row);
    prefetch_row_later(key + KVC_TILE * row, row);
}

#endif
