/* test_ref.c - each reference operation against double precision, a plain model in this file, or results worked by
 * hand. (test_verify.c compares every other path with the reference.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "core/backends.h"

static struct kvc_device *device;
#define OPS (device->ops)

static int open_ref(void **state) {
    (void)state;
    return kvc_backend_ref.open(NULL, 0, 1, KVC_MATH_EXACT, &device, NULL) == KVC_OK ? 0 : -1;
}
static int close_ref(void **state) {
    (void)state;
    device->ops->close(device);
    return 0;
}

static uint64_t random_state = 1;
static uint32_t draw(uint32_t below) { /* splitmix64 */
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 33) % below;
}
static float value(void) { return (float)((int)draw(20001) - 10000) / 5000.0f; }

/* Buffers of one test, freed at its end. */
static struct kvc_buffer *made[512];
static size_t made_count;

static struct kvc_span buffer(size_t bytes) {
    struct kvc_span span = {NULL, 0};
    assert_true(made_count < 512);
    assert_int_equal(OPS->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, NULL), KVC_OK);
    made[made_count++] = span.buffer;
    return span;
}
static struct kvc_span holding(const void *contents, size_t bytes) {
    struct kvc_span span = buffer(bytes);
    memcpy(kvc_span_data(span), contents, bytes);
    return span;
}
static struct kvc_span values(size_t n) {
    struct kvc_span span = buffer(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        ((float *)span.buffer->data)[i] = value();
    return span;
}
static float *floats(struct kvc_span span) { return kvc_span_data(span); }
static int end_test(void **state) {
    (void)state;
    assert_int_equal(OPS->sync(device, NULL), KVC_OK);
    while (made_count > 0)
        OPS->buffer_free(device, made[--made_count]);
    return 0;
}

static void assert_near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.9g is not %.9g", a, b);
}

/* ---- rows ---- */

static void linear_close(void **state) {
    static const uint32_t widths[] = {1, 5, 31, 32, 33, 64, 172, 300};
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        uint32_t K = widths[w], N = 7, rows = 3;
        struct kvc_span x = values((size_t)rows * K), m = values((size_t)N * K), y = buffer(rows * N * 4),
                        bias = values(N);
        struct kvc_weight *weight;
        assert_int_equal(OPS->weight_create(device, KVC_F32, N, K, floats(m), &weight, NULL), KVC_OK);
        OPS->linear(device, y, x, weight, bias, rows);
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t n = 0; n < N; n++) {
                double sum = floats(bias)[n];
                for (uint32_t k = 0; k < K; k++)
                    sum += (double)floats(x)[i * K + k] * floats(m)[n * K + k];
                assert_near(floats(y)[i * N + n], sum, 1e-5);
            }
        OPS->weight_free(device, weight);
    }
}

/* The order of the dot product, where it shows. */
static void linear_order(void **state) {
    float a[70] = {0}, b[70];
    struct kvc_span none = {NULL, 0}, x, y = buffer(4);
    struct kvc_weight *weight;
    (void)state;
    for (int k = 0; k < 70; k++)
        b[k] = 1.0f;
    a[0] = 1e8f; /* lane 0 loses what follows, until -1e8 in the same lane brings it back to 0 */
    a[1] = 1.0f;
    a[32] = 3.0f;
    a[64] = -1e8f;
    x = holding(a, sizeof a);
    assert_int_equal(OPS->weight_create(device, KVC_F32, 1, 70, b, &weight, NULL), KVC_OK);
    OPS->linear(device, y, x, weight, none, 1);
    assert_true(floats(y)[0] == 1.0f); /* 1e8 + 3 rounds to 1e8, in lane 0; lane 1 holds 1 */
    a[64] = 0.0f;
    a[16] = -1e8f; /* another lane, which meets lane 0 first: nothing is lost elsewhere */
    memcpy(floats(x), a, sizeof a);
    OPS->linear(device, y, x, weight, none, 1);
    assert_true(floats(y)[0] == 1.0f);
    a[16] = 0.0f;
    a[1] = -1e8f; /* meets lane 0 last */
    a[17] = 4.0f; /* ... but its lane has lost this one before */
    memcpy(floats(x), a, sizeof a);
    OPS->linear(device, y, x, weight, none, 1);
    assert_true(floats(y)[0] == 0.0f);
    OPS->weight_free(device, weight);
}

static void embed_types(void **state) {
    float table[3 * 4] = {1, 2, 3, 4, 0.5f, -0.25f, 1e-3f, 100, 7, 8, 9, 10};
    int32_t tokens[] = {2, 0, 1, 1};
    struct kvc_span t = holding(tokens, sizeof tokens), out = buffer(4 * 4 * 4);
    kvc_u16 half[12];
    struct kvc_weight *weight;
    (void)state;
    assert_int_equal(OPS->weight_create(device, KVC_F32, 3, 4, table, &weight, NULL), KVC_OK);
    OPS->embed(device, out, weight, t, 4);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(floats(out) + 4 * i, table + 4 * tokens[i], 16);
    OPS->weight_free(device, weight);
    for (int i = 0; i < 12; i++)
        half[i] = kvc_f32_to_f16(table[i]);
    assert_int_equal(OPS->weight_create(device, KVC_F16, 3, 4, half, &weight, NULL), KVC_OK);
    OPS->embed(device, out, weight, t, 4);
    for (int i = 0; i < 16; i++)
        assert_true(floats(out)[i] == kvc_f16_to_f32(half[4 * tokens[i / 4] + i % 4]));
    OPS->weight_free(device, weight);
}

static void norm_close(void **state) {
    uint32_t rows = 4, K = 77;
    struct kvc_span x = values(rows * K), w = values(K), y = buffer(rows * K * 4);
    (void)state;
    OPS->norm(device, y, x, w, rows, K, 1e-5f);
    for (uint32_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < K; k++)
            sum += (double)floats(x)[i * K + k] * floats(x)[i * K + k];
        for (uint32_t k = 0; k < K; k++)
            assert_near(floats(y)[i * K + k], floats(x)[i * K + k] / sqrt(sum / K + 1e-5) * floats(w)[k], 1e-6);
    }
    OPS->norm(device, x, x, w, rows, K, 1e-5f); /* in place */
    assert_memory_equal(floats(x), floats(y), rows * K * 4);
}

static void rope_both_orders(void **state) {
    uint32_t rows = 3, heads = 2, d = 10, rotary = 6, half = 3;
    struct kvc_span x = values(rows * heads * d), y = buffer(rows * heads * d * 4), z = buffer(rows * heads * d * 4);
    struct kvc_span c = values(rows * half), s = values(rows * half), apart = buffer(rows * heads * d * 4);
    (void)state;
    OPS->rope(device, y, x, c, s, rows, heads, d, rotary, true);
    for (uint32_t i = 0; i < rows * heads; i++)
        for (uint32_t k = 0; k < d; k++) { /* the same pairs, laid out half-split */
            uint32_t to = k >= rotary ? k : k % 2 ? k / 2 + half : k / 2;
            floats(apart)[i * d + to] = floats(x)[i * d + k];
        }
    OPS->rope(device, z, apart, c, s, rows, heads, d, rotary, false);
    assert_memory_equal(floats(y), floats(z), rows * heads * d * 4);
    for (uint32_t i = 0; i < rows * heads; i++) {
        for (uint32_t k = 0; k < half; k++) {
            double x0 = floats(x)[i * d + 2 * k], x1 = floats(x)[i * d + 2 * k + 1];
            double cosine = floats(c)[i / heads * half + k], sine = floats(s)[i / heads * half + k];
            assert_near(floats(y)[i * d + k], x0 * cosine - x1 * sine, 1e-6);
            assert_near(floats(y)[i * d + k + half], x0 * sine + x1 * cosine, 1e-6);
        }
        for (uint32_t k = rotary; k < d; k++)
            assert_true(floats(y)[i * d + k] == floats(x)[i * d + k]);
    }
    OPS->rope(device, apart, apart, c, s, rows, heads, d, rotary, false); /* in place */
    assert_memory_equal(floats(apart), floats(z), rows * heads * d * 4);
}

static void simple_rows(void **state) {
    size_t n = 100;
    struct kvc_span a = values(n), b = values(n), y = buffer(n * 4), before = buffer(n * 4);
    uint32_t index[] = {3, 0, 3};
    struct kvc_span indices = holding(index, sizeof index), out = buffer(3 * 5 * 4);
    (void)state;
    OPS->gated_silu(device, y, a, b, n);
    for (size_t i = 0; i < n; i++)
        assert_near(floats(y)[i], floats(a)[i] / (1 + exp(-(double)floats(a)[i])) * floats(b)[i], 1e-6);
    OPS->copy(device, before, y, n * 4);
    OPS->add(device, y, a, n);
    for (size_t i = 0; i < n; i++)
        assert_true(floats(y)[i] == floats(before)[i] + floats(a)[i]);
    OPS->gather(device, out, a, indices, 3, 5);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(floats(out) + 5 * i, floats(a) + 5 * index[i], 20);
}

/* ---- lists ---- */

enum { HEADS = 2, D = 8, SLOTS = 512 }; /* KV heads, head size, slots of a head */

/* Lists with room for SLOTS entries a head, and with order where asked. */
static struct kvc_lists make_lists(enum kvc_type type, uint32_t columns, bool ordered, struct kvc_arena **arena) {
    static uint32_t base[HEADS + 1] = {0, SLOTS, 2 * SLOTS};
    uint32_t blocks[HEADS * SLOTS / KVC_TILE];
    struct kvc_entry_format format = {type, D, type == KVC_F32 ? 4 * D : type == KVC_F16 ? 2 * D : 2 + D};
    struct kvc_lists lists = {.kv_heads = HEADS, .columns = columns, .format = format, .host_base = base};
    assert_int_equal(OPS->arena_create(device, &format, arena, NULL), KVC_OK);
    assert_int_equal(OPS->arena_take(device, *arena, HEADS * SLOTS / KVC_TILE, blocks, NULL), KVC_OK);
    lists.arena = *arena;
    lists.base = holding(base, sizeof base).buffer;
    lists.count = buffer(HEADS * 4).buffer;
    lists.blocks = holding(blocks, sizeof blocks).buffer;
    if (columns)
        lists.state = buffer((size_t)columns * HEADS * SLOTS * 4).buffer;
    if (ordered) {
        lists.order = buffer(HEADS * SLOTS * 4).buffer;
        lists.position = buffer(HEADS * SLOTS * 4).buffer;
        OPS->identity(device, &lists);
    }
    return lists;
}

/* Appends rows at positions first, first+1, ...; k and v [rows, HEADS, D]. */
static void append(struct kvc_lists *lists, uint32_t rows, int32_t first, struct kvc_span k, struct kvc_span v) {
    struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
    struct kvc_span positions = buffer(rows * 4 + 4);
    for (uint32_t i = 0; i < rows; i++)
        ((int32_t *)kvc_span_data(positions))[i] = first + (int32_t)i;
    OPS->append(device, &segment, 1, k, v, positions);
}

static struct kvc_read_list ranks(const uint32_t *first, uint32_t first_count, const uint32_t *second,
                                  uint32_t second_count) {
    uint32_t count[HEADS] = {first_count, second_count};
    struct kvc_read_list list = {holding(count, sizeof count).buffer, buffer(HEADS * SLOTS * 4).buffer, SLOTS};
    if (first_count)
        memcpy(list.rank->data, first, first_count * 4);
    if (second_count)
        memcpy((uint32_t *)list.rank->data + SLOTS, second, second_count * 4);
    return list;
}

static uint32_t count_of(const struct kvc_lists *lists, uint32_t h) {
    return ((const uint32_t *)lists->count->data)[h];
}
static int32_t position_of(const struct kvc_lists *lists, uint32_t h, uint32_t rank) {
    return kvc_list_position(lists, h, kvc_list_slot(lists, h, rank));
}

static void append_rounds(void **state) {
    static const float given[D] = {1.0f, -65519.0f, 65520.0f, 1e-8f, 0.1f, -3.14159f, -1e30f, 2049.0f};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct kvc_arena *arena;
        struct kvc_lists lists = make_lists(types[t], 0, false, &arena);
        struct kvc_span k = buffer(HEADS * D * 4), v = values(HEADS * D), keys = buffer(D * 4), found = buffer(D * 4);
        uint64_t before = device->saturated;
        float amax = 0;
        memcpy(floats(k), given, sizeof given);
        memcpy(floats(k) + D, floats(v), sizeof given);
        append(&lists, 1, 0, k, v);
        assert_int_equal(count_of(&lists, 0), 1);
        OPS->entries(device, &lists, 0, keys, found);
        for (int i = 0; i < D; i++)
            amax = fmaxf(amax, fabsf(floats(v)[i]));
        for (int i = 0; i < D; i++) {
            if (types[t] == KVC_F32) {
                assert_true(floats(keys)[i] == given[i]);
                assert_true(floats(found)[i] == floats(v)[i]);
            } else if (types[t] == KVC_F16) {
                float expected = kvc_f16_to_f32(kvc_f32_to_f16(given[i]));
                assert_true(floats(keys)[i] ==
                            (fabsf(given[i]) >= 65520.0f ? copysignf(65504.0f, given[i]) : expected));
            } else {
                float scale = kvc_f16_to_f32(kvc_f32_to_f16(amax / 127.0f));
                assert_true(floats(found)[i] == scale * rintf(floats(v)[i] / scale));
                assert_true(floats(keys)[i] == 65504.0f * fmaxf(-127.0f, rintf(given[i] / 65504.0f)));
            }
        }
        assert_int_equal(device->saturated - before, types[t] == KVC_F32 ? 0 : types[t] == KVC_F16 ? 2 : 1);
        OPS->arena_free(device, arena);
    }
}

static void append_not_a_number(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_Q8_0, 0, false, &arena);
    struct kvc_span k = values(HEADS * D), v = buffer(HEADS * D * 4), keys = buffer(D * 4), found = buffer(D * 4);
    (void)state;
    floats(k)[3] = NAN;
    append(&lists, 1, 0, k, v); /* v is all zeros: scale 0 */
    OPS->entries(device, &lists, 0, keys, found);
    for (int i = 0; i < D; i++) {
        assert_true(isnan(floats(keys)[i]));
        assert_true(floats(found)[i] == 0.0f);
    }
    OPS->entries(device, &lists, 1, keys, found);
    assert_true(!isnan(floats(keys)[0])); /* other groups keep their values */
    OPS->arena_free(device, arena);
}

static void evict_and_reuse(void **state) {
    static const uint32_t first[] = {0, 2, 5}, second[] = {1, 2, 3, 4, 5};
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 2, true, &arena);
    struct kvc_span k = values(7 * HEADS * D), v = values(7 * HEADS * D), keys = buffer(SLOTS * D * 4),
                    found = buffer(SLOTS * D * 4);
    struct kvc_read_list kept;
    const uint32_t *order = lists.order->data;
    (void)state;
    append(&lists, 6, 0, k, v);
    for (int i = 0; i < 2 * HEADS * SLOTS; i++)
        floats((struct kvc_span){lists.state, 0})[i] = (float)i;
    kept = ranks(first, 3, second, 5);
    OPS->evict(device, &lists, &kept);
    assert_int_equal(count_of(&lists, 0), 3);
    assert_int_equal(count_of(&lists, 1), 5);
    assert_true(order[0] == 0 && order[1] == 2 && order[2] == 5);                  /* kept */
    assert_true(order[3] == 1 && order[4] == 3 && order[5] == 4 && order[6] == 6); /* evicted, then what was free */
    assert_int_equal(order[SLOTS + 5], 0);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(position_of(&lists, 0, r), first[r]);
    OPS->entries(device, &lists, 0, keys, found);
    for (uint32_t r = 0; r < 3; r++) {
        assert_memory_equal(floats(keys) + r * D, floats(k) + first[r] * HEADS * D, D * 4);
        assert_memory_equal(floats(found) + r * D, floats(v) + first[r] * HEADS * D, D * 4);
    }
    append(&lists, 1, 6, k, v); /* takes slot 1 of head 0 and slot 0 of head 1 */
    assert_int_equal(order[3], 1);
    assert_int_equal(position_of(&lists, 0, 3), 6);
    assert_int_equal(position_of(&lists, 1, 5), 6);
    assert_true(floats((struct kvc_span){lists.state, 0})[1] == 0 &&
                floats((struct kvc_span){lists.state, 0})[SLOTS + 1] == 0);
    assert_true(floats((struct kvc_span){lists.state, 0})[2] == 2); /* only the new slot's columns are zeroed */
    kept = ranks(second, 2, second, 2); /* again, now that ranks and slots differ: ranks 1 and 2 of 4 and of 6 */
    OPS->evict(device, &lists, &kept);
    assert_true(order[0] == 2 && order[1] == 5 && order[2] == 0 && order[3] == 1 && order[4] == 3);
    append(&lists, 2, 7, k, v);
    OPS->drop(device, &lists, 2);
    assert_int_equal(count_of(&lists, 0), 2);
    assert_int_equal(count_of(&lists, 1), 2);
    OPS->drop(device, &lists, 100);
    assert_int_equal(count_of(&lists, 0), 0);
    OPS->arena_free(device, arena);
}

static void append_without_room(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F16, 0, false, &arena);
    struct kvc_span k = values((SLOTS + 1) * HEADS * D);
    struct kvc_error error;
    (void)state;
    append(&lists, SLOTS + 1, 0, k, k);
    assert_int_equal(OPS->sync(device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "no free slot"));
    assert_int_equal(count_of(&lists, 0), SLOTS);
    OPS->arena_free(device, arena);
}

static void relayout_shrinks(void **state) {
    uint32_t base[HEADS + 1] = {0, KVC_TILE, 4 * KVC_TILE}, kept_ranks[300], more, n = 0; /* head 1 grows by a block */
    struct kvc_arena *arena;
    struct kvc_lists src = make_lists(KVC_F16, 1, true, &arena), dst = src;
    struct kvc_span k = values(SLOTS * HEADS * D), v = values(SLOTS * HEADS * D);
    struct kvc_span keys = buffer(SLOTS * D * 4), found = buffer(SLOTS * D * 4), keys2 = buffer(SLOTS * D * 4),
                    found2 = buffer(SLOTS * D * 4);
    struct kvc_read_list kept;
    bool seen[KVC_TILE] = {false};
    (void)state;
    append(&src, SLOTS, 0, k, v);
    for (int i = 0; i < HEADS * SLOTS; i++)
        floats((struct kvc_span){src.state, 0})[i] = (float)i;
    for (uint32_t r = 0; r < SLOTS && n < 200; r++)
        if (draw(2) == 0)
            kept_ranks[n++] = r;
    kept = ranks(kept_ranks, n, kept_ranks, n);
    OPS->evict(device, &src, &kept);
    dst.host_base = base;
    dst.base = holding(base, sizeof base).buffer;
    dst.count = buffer(HEADS * 4).buffer;
    dst.blocks = buffer(4 * 4).buffer;
    dst.order = buffer(4 * KVC_TILE * 4).buffer;
    dst.position = buffer(4 * KVC_TILE * 4).buffer;
    dst.state = buffer(4 * KVC_TILE * 4).buffer;
    assert_int_equal(OPS->arena_take(device, arena, 1, &more, NULL), KVC_OK);
    ((uint32_t *)dst.blocks->data)[3] = more;
    OPS->relayout(device, &dst, &src);
    for (uint32_t h = 0; h < HEADS; h++) {
        assert_int_equal(count_of(&dst, h), n);
        OPS->entries(device, &src, h, keys, found);
        OPS->entries(device, &dst, h, keys2, found2);
        assert_memory_equal(floats(keys), floats(keys2), n * D * 4);
        assert_memory_equal(floats(found), floats(found2), n * D * 4);
        for (uint32_t r = 0; r < n; r++) {
            uint32_t from = kvc_list_slot(&src, h, r), to = kvc_list_slot(&dst, h, r);
            assert_int_equal(position_of(&dst, h, r), kept_ranks[r]);
            assert_true(floats((struct kvc_span){dst.state, 0})[base[h] + to] == (float)(h * SLOTS + from));
            assert_true(h == 1 || to < KVC_TILE);
            assert_true(from >= base[h + 1] - base[h] || to == from); /* what has a slot stays in it */
        }
    }
    for (uint32_t i = 0; i < KVC_TILE; i++) { /* head 0: each slot once, free ones ascending */
        uint32_t slot = ((const uint32_t *)dst.order->data)[i];
        assert_true(slot < KVC_TILE && !seen[slot]);
        seen[slot] = true;
        assert_true(i <= n || slot > ((const uint32_t *)dst.order->data)[i - 1]);
    }
    assert_int_equal(((const uint32_t *)dst.blocks->data)[0], ((const uint32_t *)src.blocks->data)[0]);
    assert_int_equal(((const uint32_t *)dst.blocks->data)[1], ((const uint32_t *)src.blocks->data)[2]);
    assert_int_equal(((const uint32_t *)dst.blocks->data)[3], more);
    OPS->arena_free(device, arena);
}

/* ---- attention and weights, against double ---- */

struct rows {
    struct kvc_lists lists;
    struct kvc_arena *arena;
    uint32_t heads, rows, window;
    const struct kvc_read_list *reads;
    struct kvc_span q, out, M, L, positions, later, keys[HEADS], values[HEADS];
};

/* Lists of `entries` entries of which every third is evicted, and rows that look at them. */
static struct rows make_rows(uint32_t entries, uint32_t group, uint32_t row_count, enum kvc_type type,
                             uint32_t columns) {
    struct rows r = {.heads = HEADS * group, .rows = row_count};
    struct kvc_span k = values((size_t)entries * HEADS * D), v = values((size_t)entries * HEADS * D);
    uint32_t kept_ranks[SLOTS], n = 0;
    struct kvc_read_list kept;
    r.lists = make_lists(type, columns, true, &r.arena);
    append(&r.lists, entries, 0, k, v);
    for (uint32_t i = 0; i < entries; i++)
        if (i % 3 != 1)
            kept_ranks[n++] = i;
    kept = ranks(kept_ranks, n, kept_ranks, n > 5 ? n - 5 : n); /* head 1 loses its newest too: ragged */
    OPS->evict(device, &r.lists, &kept);
    r.q = values((size_t)row_count * r.heads * D);
    r.out = buffer((size_t)row_count * r.heads * D * 4);
    r.M = buffer((size_t)row_count * r.heads * 4);
    r.L = buffer((size_t)row_count * r.heads * 4);
    r.positions = buffer(row_count * 4);
    r.later = buffer(row_count * 4);
    for (uint32_t i = 0; i < row_count; i++) {
        ((int32_t *)kvc_span_data(r.positions))[i] = (int32_t)(entries - row_count + i);
        ((uint32_t *)kvc_span_data(r.later))[i] = row_count - 1 - i;
    }
    for (uint32_t h = 0; h < HEADS; h++) {
        r.keys[h] = buffer(SLOTS * D * 4);
        r.values[h] = buffer(SLOTS * D * 4);
        OPS->entries(device, &r.lists, h, r.keys[h], r.values[h]);
    }
    return r;
}

static bool sees(const struct rows *r, uint32_t row, uint32_t h, uint32_t rank) {
    uint32_t later = ((const uint32_t *)kvc_span_data(r->later))[row];
    int32_t position = ((const int32_t *)kvc_span_data(r->positions))[row];
    if (rank + later >= count_of(&r->lists, h))
        return false;
    if (r->window && position_of(&r->lists, h, rank) <= position - (int32_t)r->window)
        return false;
    if (r->reads) {
        const uint32_t *list = (const uint32_t *)r->reads->rank->data + (size_t)h * r->reads->stride;
        for (uint32_t i = 0; i < ((const uint32_t *)r->reads->count->data)[h]; i++)
            if (list[i] == rank)
                return true;
        return false;
    }
    return true;
}

/* Scores and weights of one row and query head in double; 0 where not seen. Returns the entries seen. */
static uint32_t exact_weights(const struct rows *r, uint32_t row, uint32_t head, double *score, double *weight,
                              double *M, double *L) {
    uint32_t h = head / (r->heads / HEADS), n = count_of(&r->lists, h), seen = 0;
    const float *q = floats(r->q) + ((size_t)row * r->heads + head) * D;
    *M = -INFINITY;
    *L = 0;
    for (uint32_t i = 0; i < n; i++) {
        score[i] = 0;
        for (int c = 0; c < D; c++)
            score[i] += (double)q[c] * floats(r->keys[h])[i * D + (uint32_t)c] / sqrt(D);
        if (sees(r, row, h, i) && score[i] > *M)
            *M = score[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        weight[i] = sees(r, row, h, i) ? exp(score[i] - *M) : 0;
        *L += weight[i];
        seen += sees(r, row, h, i) ? 1 : 0;
    }
    for (uint32_t i = 0; i < n && seen; i++)
        weight[i] /= *L;
    return seen;
}

static void attend(struct rows *r, uint64_t *bytes) {
    struct kvc_segment segment = {&r->lists, r->reads, 0, r->rows, r->rows, bytes};
    struct kvc_attention a = {&segment, 1,    r->heads, HEADS,        D,       r->window, r->q,
                              r->out,   r->M, r->L,     r->positions, r->later};
    OPS->attention(device, &a);
}

static void check_attention(struct rows *r) {
    static double score[SLOTS], weight[SLOTS];
    uint64_t bytes = 100, seen = 0;
    attend(r, &bytes);
    for (uint32_t row = 0; row < r->rows; row++)
        for (uint32_t head = 0; head < r->heads; head++) {
            uint32_t h = head / (r->heads / HEADS), n = count_of(&r->lists, h), here;
            size_t at = (size_t)row * r->heads + head;
            double M, L;
            here = exact_weights(r, row, head, score, weight, &M, &L);
            seen += head % (r->heads / HEADS) == 0 ? here : 0;
            if (here == 0) {
                assert_true(floats(r->L)[at] == 0 && isinf(floats(r->M)[at]) && floats(r->M)[at] < 0);
                assert_true(floats(r->out)[at * D] == 0);
                continue;
            }
            assert_near(floats(r->M)[at], M, 1e-5);
            assert_near(floats(r->L)[at], L, 1e-5);
            for (uint32_t c = 0; c < D; c++) {
                double o = 0;
                for (uint32_t i = 0; i < n; i++)
                    o += weight[i] * floats(r->values[h])[i * D + c];
                assert_near(floats(r->out)[at * D + c], o, 1e-5);
            }
        }
    assert_int_equal(bytes, 100 + seen * 2 * r->lists.format.row_bytes);
}

static void attention_close(void **state) {
    static const uint32_t entries[] = {1, 2, 32, 33, 255, 256, 257, 384, 387, 511, 512};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        struct rows r = make_rows(entries[i], 1 + (uint32_t)i % 3, entries[i] < 4 ? 1 : 4, types[i % 3], 0);
        check_attention(&r);
        r.window = 1 + draw(entries[i]);
        check_attention(&r);
        end_test(state);
        OPS->arena_free(device, r.arena);
    }
}

static void attention_read_lists(void **state) {
    uint32_t list[SLOTS], n = 0;
    struct rows r = make_rows(500, 4, 1, KVC_F16, 0);
    struct kvc_read_list reads;
    (void)state;
    for (uint32_t i = 0; i < 320; i++)
        if (draw(3))
            list[n++] = i;
    reads = ranks(list, n, list, 0); /* head 1 reads nothing */
    r.reads = &reads;
    check_attention(&r);
    for (uint32_t i = 0; i < n; i++) { /* ranks that are read but too new to be seen */
        ((uint32_t *)kvc_span_data(r.later))[0] = count_of(&r.lists, 0) - list[i];
        if (i % 40 == 7)
            check_attention(&r);
    }
    OPS->arena_free(device, r.arena);
}

/* Tiles are tiles of ranks: a masked first tile changes nothing, and the merge starts from what there is. */
static void attention_masked_tile(void **state) {
    struct rows r = make_rows(512, 1, 1, KVC_F32, 0);
    struct kvc_span out;
    float M;
    (void)state;
    r.window = 100; /* the first tile of each head lies before it */
    check_attention(&r);
    out = holding(floats(r.out), r.heads * D * 4);
    M = floats(r.M)[0];
    for (uint32_t i = 0; i < KVC_TILE; i++) { /* make it overflow: it must not be looked at */
        memset(kvc_list_key(&r.lists, 0, kvc_list_slot(&r.lists, 0, i)), 0x7f, D * 4);
        memset(kvc_list_value(&r.lists, 0, kvc_list_slot(&r.lists, 0, i)), 0xff, D * 4);
    }
    attend(&r, NULL);
    assert_memory_equal(floats(out), floats(r.out), r.heads * D * 4);
    assert_true(floats(r.M)[0] == M);
    OPS->arena_free(device, r.arena);
}

static void attention_not_a_number(void **state) {
    struct rows r = make_rows(20, 1, 1, KVC_F32, 0);
    float key = NAN;
    (void)state;
    memcpy(kvc_list_key(&r.lists, 0, kvc_list_slot(&r.lists, 0, 3)), &key, 4);
    attend(&r, NULL);
    assert_true(isnan(floats(r.L)[0]) && isnan(floats(r.M)[0]) && isnan(floats(r.out)[0]));
    assert_true(!isnan(floats(r.out)[D])); /* the other head */
    OPS->arena_free(device, r.arena);
}

static void window_mass_close(void **state) {
    static double score[SLOTS], weight[SLOTS], sum[SLOTS];
    uint32_t list[SLOTS], n = 0;
    struct kvc_read_list reads;
    (void)state;
    for (uint32_t group = 1; group <= 4; group += 3) {
        struct rows r = make_rows(400, group, 9, KVC_F16, 0);
        struct kvc_span scores = buffer(HEADS * SLOTS * 4);
        struct kvc_weight_rows w = {&r.lists, NULL, r.rows, r.heads, HEADS, D, 0, r.q, r.M, r.L, r.positions, r.later};
        if (group == 4) {
            for (uint32_t i = 0; i < 250; i += 1 + draw(3))
                list[n++] = i;
            reads = ranks(list, n, list, n / 2);
            r.reads = w.reads = &reads;
        }
        attend(&r, NULL);
        OPS->window_mass(device, &w, scores, SLOTS);
        for (uint32_t h = 0; h < HEADS; h++) {
            memset(sum, 0, sizeof sum);
            for (uint32_t row = 0; row < r.rows; row++)
                for (uint32_t g = 0; g < group; g++) {
                    double M, L;
                    exact_weights(&r, row, h * group + g, score, weight, &M, &L);
                    for (uint32_t i = 0; i < count_of(&r.lists, h); i++)
                        sum[i] += weight[i];
                }
            for (uint32_t i = 0; i < count_of(&r.lists, h); i++)
                assert_near(floats(scores)[h * SLOTS + i], sum[i], 2e-6);
        }
        OPS->arena_free(device, r.arena);
    }
}

static void rings(void **state) {
    static double score[SLOTS], weight[SLOTS], rows[4][SLOTS];
    const uint32_t group = 4, ring = 4, filled = 3;
    const int64_t recent = 281; /* a position that is held */
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct rows r = make_rows(400, group, filled, KVC_F32, ring);
        struct kvc_span scores = buffer(HEADS * SLOTS * 4);
        struct kvc_weight_rows w = {&r.lists, NULL, r.rows, r.heads, HEADS, D, 0, r.q, r.M, r.L, r.positions, r.later};
        float *column = floats((struct kvc_span){r.lists.state, 0});
        attend(&r, NULL);
        for (uint32_t i = 0; i < ring * HEADS * SLOTS; i++)
            column[i] = -7.0f;
        OPS->ring_write(device, &w, ring, kind ? KVC_ROW_LOGITS : KVC_ROW_WEIGHTS);
        for (uint32_t h = 0; h < HEADS; h++) {
            uint32_t n = count_of(&r.lists, h);
            memset(rows, 0, sizeof rows);
            for (uint32_t row = 0; row < filled; row++) {
                uint32_t c = (uint32_t)((const int32_t *)kvc_span_data(r.positions))[row] % ring;
                for (uint32_t g = 0; g < group; g++) {
                    double M, L;
                    exact_weights(&r, row, h * group + g, score, weight, &M, &L);
                    for (uint32_t i = 0; i < n; i++)
                        rows[row][i] += kind == 0 ? weight[i] : sees(&r, row, h, i) ? score[i] : 0;
                }
                for (uint32_t i = 0; i < n; i++)
                    assert_near(column[ring * h * SLOTS + c * SLOTS + kvc_list_slot(&r.lists, h, i)], rows[row][i],
                                2e-6);
            }
            assert_true(column[ring * h * SLOTS + 400 % ring * SLOTS + 0] == -7.0f); /* the column of no query */
            for (uint32_t row = 0; kind && row < filled; row++) {
                double sum = 0; /* softmax over the older entries */
                for (uint32_t i = 0; i < n; i++)
                    sum += position_of(&r.lists, h, i) < recent ? exp(rows[row][i]) : 0;
                for (uint32_t i = 0; i < n; i++)
                    rows[row][i] = exp(rows[row][i]) / sum;
            }
            for (int fusion = 0; fusion < 2; fusion++) {
                OPS->ring_fuse(device, &r.lists, ring, filled, 400, kind ? KVC_ROW_LOGITS : KVC_ROW_WEIGHTS,
                               fusion ? KVC_FUSE_MAX : KVC_FUSE_SUM, recent, scores, SLOTS);
                for (uint32_t i = 0; i < n; i++) {
                    double F = 0;
                    for (uint32_t row = 0; row < filled; row++)
                        F = fusion ? fmax(F, rows[row][i]) : F + rows[row][i];
                    assert_near(floats(scores)[h * SLOTS + i], position_of(&r.lists, h, i) < recent ? F : 0, 2e-6);
                }
            }
        }
        OPS->arena_free(device, r.arena);
    }
}

/* ---- pooling and keeping ---- */

static void pools(void **state) {
    static const uint32_t kernels[] = {1, 3, 7, 63, 999};
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, false, &arena);
    struct kvc_span in = values(HEADS * SLOTS), out = buffer(HEADS * SLOTS * 4);
    uint32_t *count = lists.count->data;
    (void)state;
    count[0] = 100;
    count[1] = 3;
    for (size_t k = 0; k < 5; k++)
        for (int pooling = 0; pooling < 2; pooling++) {
            int half = (int)kernels[k] / 2;
            OPS->pool(device, &lists, out, in, SLOTS, 5, kernels[k], pooling ? KVC_POOL_AVERAGE : KVC_POOL_MAX);
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < (int)count[h]; i++) {
                    int n = (int)count[h] - 5;
                    double most = -INFINITY, sum = 0;
                    for (int j = i - half; j <= i + half; j++)
                        if (j >= 0 && j < n) {
                            most = fmax(most, floats(in)[h * SLOTS + j]);
                            sum += floats(in)[h * SLOTS + j];
                        }
                    if (i >= n)
                        assert_true(floats(out)[h * SLOTS + i] == 0);
                    else
                        assert_near(floats(out)[h * SLOTS + i], pooling ? sum / kernels[k] : most, 1e-6);
                }
        }
    OPS->arena_free(device, arena);
}

/* Whether a (score, rank) goes before another: docs/methods.md rule 4. */
static bool before(float a, uint32_t rank_a, float b, uint32_t rank_b) {
    if (isnan(a) != isnan(b))
        return isnan(b);
    if (!isnan(a) && a != b)
        return a > b;
    return rank_a < rank_b;
}

static void keeps(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    struct kvc_span scores = values(HEADS * SLOTS);
    struct kvc_read_list kept = ranks(NULL, 0, NULL, 0);
    uint32_t *count = lists.count->data;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct kvc_keep rule = {.recent = INT64_MAX};
        bool keep[SLOTS];
        count[0] = draw(60);
        count[1] = draw(6);
        for (uint32_t i = 0; i < HEADS * SLOTS; i++) {
            static const float some[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, -INFINITY};
            floats(scores)[i] = some[draw(round % 2 ? 2 : 7)];
        }
        rule.first = draw(2) ? draw(5) : 0;
        rule.tail = draw(2) ? draw(9) : 0;
        rule.top = draw(2) ? draw(30) : 0;
        rule.fill = draw(2) ? draw(40) : 0;
        rule.recent = draw(3) ? INT64_MAX : (int64_t)draw(60);
        OPS->keep(device, &lists, &rule, scores, SLOTS, &kept);
        for (uint32_t h = 0; h < HEADS; h++) {
            uint32_t n = count[h], forced = 0, found = 0;
            uint64_t top = rule.top;
            const float *s = floats(scores) + h * SLOTS;
            const uint32_t *list = (const uint32_t *)kept.rank->data + h * SLOTS;
            for (uint32_t i = 0; i < n; i++) {
                keep[i] = i < rule.first || i + rule.tail >= n || (int64_t)i >= rule.recent;
                forced += keep[i] ? 1 : 0;
            }
            if (forced + top < rule.fill)
                top = rule.fill - forced;
            for (uint32_t i = 0; i < n; i++) {
                uint64_t better = 0; /* candidates ahead of i */
                if (i < rule.first || i + rule.tail >= n || (int64_t)i >= rule.recent)
                    continue;
                for (uint32_t j = 0; j < n; j++)
                    if (!(j < rule.first || j + rule.tail >= n || (int64_t)j >= rule.recent) &&
                        before(s[j], j, s[i], i))
                        better++;
                keep[i] = better < top;
            }
            for (uint32_t i = 0; i < n; i++)
                if (keep[i])
                    assert_int_equal(list[found++], i);
            assert_int_equal(((const uint32_t *)kept.count->data)[h], found);
        }
    }
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(linear_close),
        TEST(linear_order),
        TEST(embed_types),
        TEST(norm_close),
        TEST(rope_both_orders),
        TEST(simple_rows),
        TEST(append_rounds),
        TEST(append_not_a_number),
        TEST(evict_and_reuse),
        TEST(append_without_room),
        TEST(relayout_shrinks),
        TEST(attention_close),
        TEST(attention_read_lists),
        TEST(attention_masked_tile),
        TEST(attention_not_a_number),
        TEST(window_mass_close),
        TEST(rings),
        TEST(pools),
        TEST(keeps),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
