/* pair.h - test support: the same buffers and cache lists on two devices, the reference and the device under test. */
#ifndef KVC_TESTS_BACKENDS_PAIR_H
#define KVC_TESTS_BACKENDS_PAIR_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"
#include "core/base/backends.h"
#include "tests/check.h"

enum { REF, PATH, SIDES };

struct pair {
    struct kvc_device *device[SIDES];
    char name[64];
    uint64_t seed;
};

struct both { /* one buffer on each device */
    struct kvc_buffer *on[SIDES];
    size_t bytes;
};

struct both_lists {
    struct kvc_lists on[SIDES];
    struct both base, count, blocks, order, position, state;
    uint32_t *taken[SIDES];
    uint32_t block_count;
    bool owns_arena;
};

/* ---- chance ---- */

static inline uint32_t chance(struct pair *pair) {
    pair->seed += 0x9e3779b97f4a7c15u;
    uint64_t z = pair->seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 16);
}

static inline uint32_t below(struct pair *pair, uint32_t n) { return chance(pair) % n; }

/* The kinds of values that random inputs consist of. */
enum values { ORDINARY, WIDE, NASTY, BROKEN };

static inline float chance_value(struct pair *pair, enum values kind) {
    const float x = (float)((int32_t)chance(pair) >> 8) / (float)(1 << 22);
    if (kind == WIDE)
        return ldexpf(x, (int)below(pair, 30) - 20);
    if (kind == NASTY || kind == BROKEN)
        switch (below(pair, 12)) {
        case 0:
            return 0.0f;
        case 1:
            return -0.0f;
        case 2:
            return ldexpf(x, -140); /* a denormal number */
        case 3:
            return ldexpf(x, -75); /* a number whose square is denormal */
        case 4:
            return ldexpf(x, 14);
        case 5:
            return 1.0f;
        case 6:
            if (kind == BROKEN)
                return below(pair, 40) ? 1.0f : below(pair, 2) ? kvc_nan() : kvc_from_bits(0xffc00001u);
            return -1.0f;
        case 7:
            if (kind == BROKEN)
                return below(pair, 40) ? 1.0f : below(pair, 2) ? kvc_infinity() : -kvc_infinity();
            return 0.5f;
        default:
            return x;
        }
    return x;
}

/* ---- devices and buffers ---- */

static inline void pair_open(struct pair *pair, const char *path, int threads) {
    struct kvc_error error = {KVC_OK, ""};
    pair->seed = 1;
    snprintf(pair->name, sizeof pair->name, "%s, %d thread%s", path, threads, threads == 1 ? "" : "s");
    if (kvc_backend_ref.open(NULL, 0, 1, KVC_MATH_EXACT, &pair->device[REF], &error) != KVC_OK ||
        kvc_backend_cpu.open(path, 0, threads, KVC_MATH_EXACT, &pair->device[PATH], &error) != KVC_OK)
        fail_msg("%s", error.text);
}

static inline void pair_close(struct pair *pair) {
    for (int s = 0; s < SIDES; s++) {
        struct kvc_error error = {KVC_OK, ""};
        if (pair->device[s]->ops->sync(pair->device[s], &error) != KVC_OK)
            fail_msg("%s", error.text);
        for (int kind = 0; kind < KVC_MEMORY_KINDS; kind++)
            if (kind != KVC_MEMORY_SCRATCH)
                assert_int_equal(pair->device[s]->memory.now[kind], 0);
        pair->device[s]->ops->close(pair->device[s]);
    }
}

static inline struct both both_make(struct pair *pair, size_t bytes) {
    struct both both = {.bytes = bytes};
    for (int s = 0; s < SIDES; s++) {
        struct kvc_error error = {KVC_OK, ""};
        if (pair->device[s]->ops->buffer_create(pair->device[s], KVC_MEMORY_STATE, bytes, &both.on[s], &error) !=
            KVC_OK)
            fail_msg("%s", error.text);
    }
    return both;
}

static inline void both_free(struct pair *pair, struct both *both) {
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->buffer_free(pair->device[s], both->on[s]);
    memset(both, 0, sizeof *both);
}

static inline struct both both_floats(struct pair *pair, size_t n, enum values kind) {
    struct both both = both_make(pair, (n ? n : 1) * sizeof(float));
    float *x = both.on[REF]->data;
    for (size_t i = 0; i < n; i++)
        x[i] = chance_value(pair, kind);
    memcpy(both.on[PATH]->data, x, n * sizeof *x);
    return both;
}

/* Creates a buffer with the same bytes on both devices. */
static inline struct both both_copy(struct pair *pair, const void *from, size_t bytes) {
    struct both both = both_make(pair, bytes ? bytes : 1);
    for (int s = 0; s < SIDES; s++)
        memcpy(both.on[s]->data, from, bytes);
    return both;
}

static inline struct kvc_span span_of(const struct both *both, int side) {
    return (struct kvc_span){both->on[side], 0};
}

/* Compares words (uint32 or float32); any difference fails the test. For floats, all NaNs count as equal. */
static inline void same_words(const struct pair *pair, const void *a, const void *b, size_t words, bool floats,
                              const char *format, ...) {
    const uint32_t *x = a, *y = b;
    for (size_t i = 0; i < words; i++) {
        const uint32_t u = floats ? kvc_hash_bits(kvc_from_bits(x[i])) : x[i];
        const uint32_t v = floats ? kvc_hash_bits(kvc_from_bits(y[i])) : y[i];
        if (u != v) {
            char where[200];
            va_list arguments;
            va_start(arguments, format);
            vsnprintf(where, sizeof where, format, arguments);
            va_end(arguments);
            fail_msg("%s: %s: word %zu of %zu is %08x (%g), ref has %08x (%g)", pair->name, where, i, words, v,
                     (double)kvc_from_bits(v), u, (double)kvc_from_bits(u));
        }
    }
}

#define SAME_FLOATS(pair, both, ...)                                                                                   \
    same_words(pair, (both)->on[REF]->data, (both)->on[PATH]->data, (both)->bytes / 4, true, __VA_ARGS__)
#define SAME_WORDS(pair, both, ...)                                                                                    \
    same_words(pair, (both)->on[REF]->data, (both)->on[PATH]->data, (both)->bytes / 4, false, __VA_ARGS__)

/* ---- lists ---- */

struct lists_shape {
    uint32_t kv_heads, head_size, columns;
    enum kvc_type type;
    uint32_t count[16], extra_slot[16]; /* Number of entries of each head; minimum number of its free slots. */
    bool permuted; /* If true, the lists have order and position arrays, slots in random order, and positions with gaps.
                    */
    enum values values;
};

static inline void shuffle(struct pair *pair, uint32_t *x, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = below(pair, i), held = x[i - 1];
        x[i - 1] = x[j];
        x[j] = held;
    }
}

/* Returns the number of slots for a number of entries. A single entry beyond whole blocks is in an extra slot. */
static inline uint32_t slots_for(uint32_t entries) {
    return entries > 1 && entries % KVC_BLOCK == 1 ? entries - 1 + KVC_EXTRA_SLOTS
                                                   : (entries + KVC_BLOCK - 1) / KVC_BLOCK * KVC_BLOCK;
}

/* Gives each head the next blocks in `taken` and, if it needs one, an extra slot in the block `extra_slot`. */
static inline void name_blocks(const struct lists_shape *shape, const uint32_t *base, const uint32_t *taken,
                               uint32_t extra_slot, uint32_t *blocks) {
    for (uint32_t h = 0; h < shape->kv_heads; h++) {
        const uint32_t slots = base[h + 1] - base[h], first = kvc_first_block(base[h], h);
        for (uint32_t i = 0; i < slots / KVC_BLOCK; i++)
            blocks[first + i] = *taken++;
        if (slots % KVC_BLOCK)
            blocks[first + slots / KVC_BLOCK] =
                KVC_EXTRA_SLOT + extra_slot * KVC_BLOCK + (KVC_BLOCK - 1 - 3 * h) % KVC_BLOCK;
    }
}

/* Creates lists with a key and a value in every slot, also in free slots. The lists are in the arena of `beside` or, if
 * beside is NULL, in a new arena. */
static inline struct both_lists *lists_make_beside(struct pair *pair, const struct lists_shape *shape,
                                                   const struct both_lists *beside) {
    struct both_lists *made = calloc(1, sizeof *made);
    struct kvc_error error = {KVC_OK, ""};
    const struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(shape->type), shape->head_size);
    uint32_t base[17] = {0}, slots;
    assert_non_null(made);
    made->owns_arena = !beside;
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        base[h + 1] = base[h] + slots_for(shape->count[h] + shape->extra_slot[h]);
    slots = base[shape->kv_heads];
    made->block_count = slots / KVC_BLOCK + 1;
    made->base = both_copy(pair, base, (shape->kv_heads + 1) * sizeof *base);
    made->count = both_copy(pair, shape->count, shape->kv_heads * sizeof *shape->count);
    made->blocks = both_make(pair, (kvc_first_block(slots, shape->kv_heads) + 1) * 4);
    if (shape->columns)
        made->state = both_floats(pair, (size_t)shape->columns * slots, shape->values);
    if (shape->permuted) {
        uint32_t *order;
        made->order = both_make(pair, slots * 4 + 4);
        made->position = both_make(pair, slots * 4 + 4);
        order = made->order.on[REF]->data;
        for (uint32_t h = 0; h < shape->kv_heads; h++) {
            int32_t *position = (int32_t *)made->position.on[REF]->data + base[h], next = 0;
            for (uint32_t i = base[h]; i < base[h + 1]; i++)
                order[i] = i - base[h];
            if (base[h + 1] > base[h])
                shuffle(pair, order + base[h],
                        below(pair, 3) ? kvc_slots_hold(base[h + 1] - base[h]) : shape->count[h]);
            for (uint32_t r = 0; r < base[h + 1] - base[h]; r++) {
                next += 1 + (below(pair, 4) ? 0 : (int32_t)below(pair, 5));
                position[order[base[h] + r]] = next;
            }
        }
        memcpy(made->order.on[PATH]->data, order, made->order.bytes);
        memcpy(made->position.on[PATH]->data, made->position.on[REF]->data, made->position.bytes);
    }
    for (int s = 0; s < SIDES; s++) {
        struct kvc_device *device = pair->device[s];
        struct kvc_lists *lists = &made->on[s];
        *lists = (struct kvc_lists){shape->kv_heads,
                                    shape->columns,
                                    format,
                                    NULL,
                                    made->base.on[s]->data,
                                    made->base.on[s],
                                    made->count.on[s],
                                    made->blocks.on[s],
                                    made->order.on[s],
                                    made->position.on[s],
                                    made->state.on[s]};
        made->taken[s] = calloc(made->block_count, sizeof *made->taken[s]);
        assert_non_null(made->taken[s]);
        if (beside)
            lists->arena = beside->on[s].arena;
        else if (device->ops->arena_create(device, &format, &lists->arena, &error) != KVC_OK)
            fail_msg("%s", error.text);
        if (device->ops->arena_take(device, lists->arena, made->block_count, made->taken[s], &error) != KVC_OK)
            fail_msg("%s", error.text);
        if (s == REF)
            shuffle(pair, made->taken[s], made->block_count);
        else
            memcpy(made->taken[s], made->taken[REF], made->block_count * sizeof *made->taken[s]);
        name_blocks(shape, base, made->taken[s], made->taken[s][made->block_count - 1], made->blocks.on[s]->data);
    }
    float *x = calloc(shape->head_size, sizeof *x);
    assert_non_null(x);
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        for (uint32_t slot = 0; slot < kvc_slots_hold(base[h + 1] - base[h]); slot++)
            for (int value = 0; value < 2; value++) {
                for (uint32_t c = 0; c < shape->head_size; c++)
                    x[c] = chance_value(pair, shape->values);
                for (int s = 0; s < SIDES; s++)
                    (value ? kvc_ref_store_value : kvc_ref_store_key)(&made->on[s], h, slot, x);
            }
    free(x);
    return made;
}

static inline struct both_lists *lists_make(struct pair *pair, const struct lists_shape *shape) {
    return lists_make_beside(pair, shape, NULL);
}

static inline void lists_free(struct pair *pair, struct both_lists *lists) {
    for (int s = 0; s < SIDES; s++) {
        struct kvc_device *device = pair->device[s];
        device->ops->arena_return(device, lists->on[s].arena, lists->block_count, lists->taken[s]);
        if (lists->owns_arena)
            device->ops->arena_free(device, lists->on[s].arena);
        free(lists->taken[s]);
    }
    both_free(pair, &lists->base);
    both_free(pair, &lists->count);
    both_free(pair, &lists->blocks);
    both_free(pair, &lists->order);
    both_free(pair, &lists->position);
    both_free(pair, &lists->state);
    free(lists);
}

/* Compares counts, order, positions, state and the bytes of every slot. */
static inline void same_lists(const struct pair *pair, const struct both_lists *lists, const char *what) {
    const struct kvc_lists *a = &lists->on[REF], *b = &lists->on[PATH];
    SAME_WORDS(pair, &lists->count, "%s: counts", what);
    if (lists->order.on[REF]) {
        SAME_WORDS(pair, &lists->order, "%s: order", what);
        SAME_WORDS(pair, &lists->position, "%s: positions", what);
    }
    if (lists->state.on[REF])
        SAME_FLOATS(pair, &lists->state, "%s: state", what);
    for (uint32_t h = 0; h < a->kv_heads; h++)
        for (uint32_t slot = 0; slot < kvc_slots_hold(a->host_base[h + 1] - a->host_base[h]); slot++) {
            if (memcmp(kvc_list_key(a, h, slot), kvc_list_key(b, h, slot), a->format.key.bytes) != 0 ||
                memcmp(kvc_list_value(a, h, slot), kvc_list_value(b, h, slot), a->format.value.bytes) != 0)
                fail_msg("%s: %s: head %u, slot %u holds other bytes", pair->name, what, (unsigned)h, (unsigned)slot);
        }
}

/* Read lists, which contain about `percent` percent of each head's entries, in ascending order. */
struct both_reads {
    struct kvc_read_list on[SIDES];
    struct both count, index;
};

static inline struct both_reads reads_make(struct pair *pair, const struct lists_shape *shape, uint32_t percent) {
    struct both_reads made;
    uint32_t most = 1;
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        most = shape->count[h] > most ? shape->count[h] : most;
    made.count = both_make(pair, shape->kv_heads * 4);
    made.index = both_make(pair, (size_t)shape->kv_heads * most * 4);
    for (uint32_t h = 0; h < shape->kv_heads; h++) {
        uint32_t *index = (uint32_t *)made.index.on[REF]->data + (size_t)h * most, n = 0;
        for (uint32_t r = 0; r < shape->count[h]; r++)
            if (below(pair, 100) < percent)
                index[n++] = r;
        ((uint32_t *)made.count.on[REF]->data)[h] = n;
    }
    memcpy(made.count.on[PATH]->data, made.count.on[REF]->data, made.count.bytes);
    memcpy(made.index.on[PATH]->data, made.index.on[REF]->data, made.index.bytes);
    for (int s = 0; s < SIDES; s++)
        made.on[s] = (struct kvc_read_list){made.count.on[s], made.index.on[s], most};
    return made;
}

static inline void reads_free(struct pair *pair, struct both_reads *reads) {
    both_free(pair, &reads->count);
    both_free(pair, &reads->index);
}

/* Lists the instruction sets of this CPU that the backend supports. Returns their number. */
static inline size_t paths_here(const char **paths) {
    static const char *const all[] = {"avx512", "avx2", "neon"};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        struct kvc_device *device = NULL;
        struct kvc_error error;
        if (kvc_backend_cpu.open(all[i], 0, 1, KVC_MATH_EXACT, &device, &error) == KVC_OK) {
            device->ops->close(device);
            paths[n++] = all[i];
        }
    }
    return n;
}

#define COUNT(x) (sizeof(x) / sizeof *(x))

/* Calls `check` `cases` times with every instruction set and with 1, 2 and 3 threads. */
static inline void on_all(void (*check)(struct pair *), int cases) {
    const char *paths[3];
    const size_t n = paths_here(paths);
    if (n == 0)
        SKIP_BECAUSE("this CPU or build has no instruction set beside ref");
    const int most = kvc_test_thinned() ? 1 : 3;
    if (kvc_test_thinned())
        cases = (cases + 14) / 15;
#if defined(__SANITIZE_ADDRESS__)
    cases = (cases + 2) / 3;
#endif
    for (size_t p = 0; p < n; p++)
        for (int threads = 3; threads > 3 - most; threads--) {
            struct pair pair;
            pair_open(&pair, paths[p], threads);
            pair.seed = (uint64_t)threads * 1000 + p;
            for (int i = 0; i < cases; i++)
                check(&pair);
            pair_close(&pair);
        }
}

#endif
