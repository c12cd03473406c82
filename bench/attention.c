/* attention.c - measures attention over caches of several shapes: a decode step (limited by memory), and 256 rows of a
 * prompt (limited by arithmetic). Only the flops of the two products count, because docs/measured/attention.md defines
 * its goals in terms of these. */
#include "bench/measure.h"
#include "core/base/integers.h"
#include "core/base/types.h"

struct cache {
    uint32_t heads, kv_heads, d, entries;
    enum kvc_type type;
    bool permuted; /* slots in random order, as after many evictions */
    bool integers; /* entries are multiplied as integers */
};

static void cache_row(struct kvc_measure *m, const struct cache *c, uint32_t rows) {
    const uint32_t n = m->settings.once ? kvc_min_u32(c->entries, 256) : c->entries;
    m->kv_heads = c->kv_heads;
    m->head_size = c->d;
    m->permuted = c->permuted;
    struct kvc_lists *lists = kvc_measure_lists(m, c->type, (uint32_t)kvc_round_up(n, KVC_TILE), n, 0, c->permuted);
    const struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
    struct kvc_attention a = kvc_measure_make_attention(m, &segment, c->heads, n);
    a.scoring.integers = c->integers;
    const uint64_t seen = (uint64_t)rows * n - (uint64_t)rows * (rows - 1) / 2;
    kvc_measure_counts(m, (uint64_t)c->kv_heads * n * kvc_entry_bytes(&lists->format), 4 * seen * c->heads * c->d,
                       "%s%s, %u/%u heads x %u, %u row%s, %u entries%s", kvc_type_name(c->type),
                       c->integers ? " as integers" : "", (unsigned)c->heads, (unsigned)c->kv_heads, (unsigned)c->d,
                       (unsigned)rows, rows == 1 ? "" : "s", (unsigned)n, c->permuted ? ", permuted" : "");
    while (kvc_measure_again(m))
        m->ops->attention(m->device, &a);
}

static void decode(struct kvc_measure *m, uint32_t variant) {
    static const struct cache caches[] = {
        {32, 8, 128, 8192, KVC_F16, false, false}, {32, 8, 128, 8192, KVC_F16, true, false},
        {32, 8, 64, 8192, KVC_F16, false, false},  {12, 12, 64, 8192, KVC_F16, false, false},
        {12, 12, 64, 1024, KVC_F16, true, false},  {12, 4, 64, 1024, KVC_F16, false, false},
        {12, 4, 64, 1024, KVC_F16, true, false},   {28, 4, 128, 8192, KVC_F16, false, false},
        {32, 32, 80, 4096, KVC_F16, false, false}, {32, 8, 128, 8192, KVC_Q8_0, false, false},
        {32, 8, 128, 8192, KVC_Q8_0, false, true}, {32, 8, 64, 8192, KVC_Q8_0, false, false},
        {32, 8, 64, 8192, KVC_Q8_0, false, true},  {12, 12, 64, 8192, KVC_Q8_0, false, false},
        {12, 12, 64, 8192, KVC_Q8_0, false, true}, {32, 8, 128, 8192, KVC_F32, false, false},
        {8, 1, 256, 32768, KVC_F16, false, false}, {32, 8, 128, 8192, KVC_Q4H, false, true},
        {32, 8, 64, 8192, KVC_Q4H, false, true},   {12, 12, 64, 8192, KVC_Q4H, false, true},
        {32, 8, 128, 8192, KVC_Q4H, false, false}};
    _Static_assert(sizeof caches / sizeof *caches == 21, "kvc_measure_decode_attention has as many variants");
    cache_row(m, &caches[variant], 1);
}

static void prefill(struct kvc_measure *m, uint32_t variant) {
    static const struct cache caches[] = {
        {32, 8, 64, 4096, KVC_F16, false, false},   {32, 8, 128, 4096, KVC_F16, false, false},
        {12, 12, 64, 4096, KVC_F16, false, false},  {8, 8, 80, 4096, KVC_F16, false, false},
        {32, 8, 64, 4096, KVC_Q8_0, false, false},  {32, 8, 64, 4096, KVC_Q8_0, false, true},
        {32, 8, 128, 4096, KVC_Q8_0, false, false}, {32, 8, 128, 4096, KVC_Q8_0, false, true},
        {8, 2, 128, 256, KVC_F16, false, false}};
    _Static_assert(sizeof caches / sizeof *caches == 9, "kvc_measure_prefill_attention has as many variants");
    cache_row(m, &caches[variant], 256);
}

/* Two KV heads with groups of 1 to 8 query heads. */
static void groups(struct kvc_measure *m, uint32_t variant) {
    static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8};
    const uint32_t d = variant / 6 % 2 ? 128 : 64, entries = variant / 12 ? 16384 : 4096;
    cache_row(m, &(struct cache){2 * sizes[variant % 6], 2, d, entries, KVC_F16, false, false}, 256);
}

/* One row, with groups of 1, 4 and 7 query heads for each of four KV heads, over short and long caches. */
static void decode_groups(struct kvc_measure *m, uint32_t variant) {
    static const uint32_t sizes[] = {1, 4, 7}, entries[] = {8192, 32768, 98304};
    const enum kvc_type type = variant / 18 ? KVC_F32 : KVC_F16;
    const uint32_t d = variant / 3 % 2 ? 128 : 64;
    cache_row(m, &(struct cache){4 * sizes[variant % 3], 4, d, entries[variant / 6 % 3], type, false, false}, 1);
}

/* Q8_0 and Q4_1 entries, in integer arithmetic compared with float: groups of 1, 4 and 7 query heads, with one row and
 * with the rows of a chunk. */
static void int8(struct kvc_measure *m, uint32_t variant) {
    static const uint32_t sizes[] = {1, 4, 7};
    const enum kvc_type type = variant / 12 ? KVC_Q4_1 : KVC_Q8_0;
    const uint32_t rows = variant % 12 < 6 ? 1 : MEASURE_ROWS, kv_heads = rows == 1 ? 8 : 2,
                   d = variant / 3 % 2 ? 128 : 64;
    const uint32_t heads = kv_heads * sizes[variant % 3];
    cache_row(m, &(struct cache){heads, kv_heads, d, MEASURE_ENTRIES, type, false, !m->beside},
              m->settings.once ? kvc_min_u32(rows, 256) : rows);
}

const struct kvc_measure_operation kvc_measure_int8_attention[] = {{"attention", int8, 24}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_decode_attention[] = {
    {"attention", decode, 21}, {"groups", decode_groups, 36}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_prefill_attention[] = {
    {"attention", prefill, 9}, {"groups", groups, 24}, {NULL, NULL, 0}};
