/* tiles.h - AMX's tiles: eight two-dimensional registers, and the product of two of them.
 *
 * A tile has up to 16 rows of up to 64 bytes. TILE_MULTIPLY(t, c, a, b) multiplies the signed bytes of row i of `a` by
 * those of column j of `b`, and adds the products to the 32-bit element (i, j) of `c`: it adds the sum over k of
 * a[i][k] * b[k / 4][4 * j + k % 4]. For example, `a` has 16 rows of 32 bytes, the 32 quants of each of 16 rows, and
 * `b` has 8 rows of 64 bytes, the 32 quants of each of 16 outputs.
 *
 * t is a struct kvc_tiles * on the stack of the task that uses tiles. c, a and b are the tiles' numbers, as constant
 * expressions. A task configures the tiles first and releases them before it returns, so that no thread keeps their
 * state.
 *
 * The instructions are in inline assembly, which needs no compiler option. TILES_CONFIGURE names its whole structure as
 * operand, because gcc 12's intrinsic names only eight bytes, and gcc then drops stores to the other bytes. With
 * KVC_TILES_PLAIN, plain C replaces the instructions, for tests on machines without AMX. */
#ifndef KVC_SIMD_INT8_TILES_H
#define KVC_SIMD_INT8_TILES_H

#include <stddef.h>

#include "core/base/assert.h"
#include "core/base/canon.h"

#define KVC_TILE_COUNT 8
#define KVC_TILE_ROWS 16
#define KVC_TILE_BYTES 64 /* size of a tile's row in bytes */

/* The operand of LDTILECFG. Palette 1 selects the tiles described above. */
struct kvc_tile_shapes {
    kvc_u8 palette, start_row, reserved[14];
    kvc_u16 row_bytes[16];
    kvc_u8 rows[16];
};
_Static_assert(sizeof(struct kvc_tile_shapes) == 64, "the configuration of tiles has 64 bytes");

/* Sets the shape of tile n before TILES_CONFIGURE. */
static inline void kvc_tile_shape(struct kvc_tile_shapes *shapes, unsigned n, unsigned rows, unsigned row_bytes) {
    KVC_ASSERT(n < KVC_TILE_COUNT && rows >= 1 && rows <= KVC_TILE_ROWS);
    KVC_ASSERT(row_bytes >= 4 && row_bytes <= KVC_TILE_BYTES && row_bytes % 4 == 0);
    shapes->palette = 1;
    shapes->rows[n] = (kvc_u8)rows;
    shapes->row_bytes[n] = (kvc_u16)row_bytes;
}

#if defined(KVC_TILES_PLAIN)

#include <string.h>

struct kvc_tiles {
    struct kvc_tile_shapes shapes;
    kvc_u8 row[KVC_TILE_COUNT][KVC_TILE_ROWS][KVC_TILE_BYTES];
};

static inline void kvc_plain_configure(struct kvc_tiles *t, const struct kvc_tile_shapes *shapes) {
    memset(t, 0, sizeof *t);
    t->shapes = *shapes;
}

/* A load and a product set the elements outside of the tile's shape to zero. */
static inline void kvc_plain_load(struct kvc_tiles *t, int n, const void *from, size_t stride) {
    const struct kvc_tile_shapes *s = &t->shapes;
    KVC_ASSERT(s->palette == 1 && s->rows[n] > 0);
    memset(t->row[n], 0, sizeof t->row[n]);
    for (size_t i = 0; i < s->rows[n]; i++)
        memcpy(t->row[n][i], (const kvc_u8 *)from + i * stride, s->row_bytes[n]);
}

static inline void kvc_plain_store(const struct kvc_tiles *t, int n, void *to, size_t stride) {
    const struct kvc_tile_shapes *s = &t->shapes;
    KVC_ASSERT(s->palette == 1 && s->rows[n] > 0);
    for (size_t i = 0; i < s->rows[n]; i++)
        memcpy((kvc_u8 *)to + i * stride, t->row[n][i], s->row_bytes[n]);
}

static inline void kvc_plain_multiply(struct kvc_tiles *t, int c, int a, int b) {
    const struct kvc_tile_shapes *s = &t->shapes;
    KVC_ASSERT(s->palette == 1 && s->rows[c] == s->rows[a] && s->row_bytes[c] == s->row_bytes[b]);
    KVC_ASSERT(s->row_bytes[a] == 4 * s->rows[b] && c != a && c != b && a != b);
    for (size_t i = 0; i < s->rows[c]; i++)
        for (size_t j = 0; j < s->row_bytes[c] / 4u; j++) {
            kvc_u32 sum;
            memcpy(&sum, t->row[c][i] + 4 * j, 4);
            for (size_t k = 0; k < s->row_bytes[a]; k++)
                sum += (kvc_u32)((kvc_i8)t->row[a][i][k] * (kvc_i8)t->row[b][k / 4][4 * j + k % 4]);
            memcpy(t->row[c][i] + 4 * j, &sum, 4);
        }
}

#define TILES_CONFIGURE(t, s) kvc_plain_configure(t, s)
#define TILE_ZERO(t, n) memset((t)->row[n], 0, sizeof(t)->row[n])
#define TILE_LOAD(t, n, from, stride) kvc_plain_load(t, n, from, stride)
#define TILE_MULTIPLY(t, c, a, b) kvc_plain_multiply(t, c, a, b)
#define TILE_STORE(t, n, to, stride) kvc_plain_store(t, n, to, stride)
#define TILES_RELEASE(t) ((t)->shapes.palette = 0)

#elif defined(__x86_64__)

struct kvc_tiles {
    char unused; /* empty: the CPU's registers hold the tiles */
};

static inline void kvc_tiles_configure(const struct kvc_tile_shapes *shapes) {
    __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
}
#define TILES_CONFIGURE(t, s) ((void)(t), kvc_tiles_configure(s))
/* An inline assembly statement: its text, then its operands. */
#define TILE_ASSEMBLY(t, ...)                                                                                          \
    do {                                                                                                               \
        (void)(t);                                                                                                     \
        __asm__ volatile(__VA_ARGS__);                                                                                 \
    } while (0)
#define TILE_ZERO(t, n) TILE_ASSEMBLY(t, "tilezero %%tmm%c0" : : "i"(n))
#define TILE_LOAD(t, n, from, stride)                                                                                  \
    TILE_ASSEMBLY(t, "tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"((size_t)(stride)), "i"(n) : "memory")
#define TILE_MULTIPLY(t, c, a, b) TILE_ASSEMBLY(t, "tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b))
#define TILE_STORE(t, n, to, stride)                                                                                   \
    TILE_ASSEMBLY(t, "tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"((size_t)(stride)), "i"(n) : "memory")
#define TILES_RELEASE(t) TILE_ASSEMBLY(t, "tilerelease")

#endif

#endif
