/* test_ref_channels.c - the reference operation that sets channels of keys to 0, against double precision: which
 * channels of which entries become 0, and that nothing else changes. */
#include "tests/backends/ref_fixture.h"

enum { ROWS = 300, QUERIES = 5, GROUP = 3, FIRST = 20 };

static const float *key_of(const struct kvc_lists *lists, struct kvc_span to, uint32_t h, uint32_t r) {
    const struct kvc_span none = {NULL, 0};
    OPS->entries(device, &(struct kvc_entries){.lists = lists, .head = h, .keys = to, .values = none});
    return floats(to) + (size_t)r * D;
}

/* Returns the product of the two sums of squares of a channel. `keys` are the stored keys of the head. */
static double score_of(const float *keys, const float *q, uint32_t h, uint32_t c, uint32_t oldest) {
    double a = 0, b = 0;
    for (uint32_t i = 0; i < QUERIES; i++)
        for (uint32_t g = 0; g < GROUP; g++)
            a += pow((double)q[((size_t)i * HEADS * GROUP + h * GROUP + g) * D + c], 2);
    for (uint32_t r = oldest - FIRST; r < ROWS; r++)
        b += pow((double)keys[(size_t)r * D + c], 2);
    return a * b;
}

static bool is_pruned(const float *keys, const float *q, uint32_t h, uint32_t c, uint32_t oldest, uint32_t channels) {
    uint32_t above = 0;
    for (uint32_t other = 0; other < D; other++)
        above += score_of(keys, q, h, other, oldest) > score_of(keys, q, h, c, oldest);
    return above >= D - channels;
}

static void try(enum kvc_type type, uint32_t channels, uint32_t oldest, uint32_t end) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(type, 0, true, &arena);
    const struct kvc_span q = values((size_t)QUERIES * HEADS * GROUP * D), now = buffer(ROWS * D * 4);
    const struct kvc_span k = values((size_t)ROWS * HEADS * D);
    float before[HEADS][ROWS * D];
    for (size_t i = 0; i < (size_t)ROWS * HEADS * D; i++)
        floats(k)[i] *= 1.0f + (float)(i * 5 % D);
    append(&lists, ROWS, FIRST, k, k);
    for (uint32_t h = 0; h < HEADS; h++)
        memcpy(before[h], key_of(&lists, now, h, 0), sizeof before[h]);
    OPS->prune_channels(device, &(struct kvc_prune_channels){.lists = &lists,
                                                             .q = q,
                                                             .queries = QUERIES,
                                                             .heads = HEADS * GROUP,
                                                             .channels = channels,
                                                             .oldest = (int32_t)oldest,
                                                             .end = (int32_t)end});
    for (uint32_t h = 0; h < HEADS; h++) {
        const float *after = key_of(&lists, now, h, 0);
        for (uint32_t c = 0; c < D; c++) {
            const bool pruned = is_pruned(before[h], floats(q), h, c, oldest, channels);
            for (uint32_t r = 0; r < ROWS; r++) {
                const bool zero = pruned && r + FIRST >= oldest && r + FIRST < end;
                const float expected = zero ? 0.0f : before[h][r * D + c];
                if (!(after[r * D + c] == expected))
                    fail_msg("%s, head %u, row %u, channel %u: %g is not %g", kvc_type_name(type), h, r, c,
                             (double)after[r * D + c], (double)expected);
            }
        }
    }
    OPS->arena_free(device, arena);
}

static void types(void **state) {
    static const enum kvc_type all[] = {KVC_F32, KVC_F16, KVC_BF16, KVC_Q8_0, KVC_Q4_0};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        try(all[i], 3, FIRST, FIRST + ROWS - 32);
        try(all[i], 5, FIRST + 260, FIRST + 290);
        try(all[i], D, FIRST, FIRST + ROWS);
        try(all[i], 0, FIRST, FIRST + ROWS);
    }
}

/* Of equal scores the lower channels stay, and NaN never stays before a number. */
static void ties(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, false, &arena);
    const struct kvc_span q = values((size_t)HEADS * D), k = values((size_t)HEADS * D), now = buffer(D * 4);
    (void)state;
    for (uint32_t c = 0; c < HEADS * D; c++)
        floats(q)[c] = floats(k)[c] = c % D == 1 ? NAN : 1.0f;
    append(&lists, 1, 0, k, k);
    OPS->prune_channels(device, &(struct kvc_prune_channels){
                                    .lists = &lists, .q = q, .queries = 1, .heads = HEADS, .channels = 4, .end = 1});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t c = 0; c < D; c++)
            assert_true(key_of(&lists, now, h, 0)[c] == (c == 0 || (c >= 2 && c < 5) ? 1.0f : 0.0f));
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(types), TEST(ties)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
