/* bump.h - a bump allocator: places arrays one after another in a block of scratch memory. */
#ifndef KVC_SIMD_BUMP_H
#define KVC_SIMD_BUMP_H

#include <stddef.h>

struct bump {
    unsigned char *base; /* NULL: the allocator only counts bytes */
    size_t used;
};

static inline void *bump_take(struct bump *from, size_t bytes) {
    unsigned char *here = from->base ? from->base + from->used : NULL;
    from->used += (bytes + 63) / 64 * 64;
    return here;
}

#endif
