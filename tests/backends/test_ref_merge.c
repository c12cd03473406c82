/* test_ref_merge.c - the reference operations that merge values, against double precision and results computed by
 * hand. */
#include "tests/backends/ref_fixture.h"

enum { ROWS = 9, KEPT = 3 };
static const uint32_t kept_indices[KEPT] = {1, 4, 6};

struct setting {
    struct kvc_lists lists;
    struct kvc_arena *arena;
    struct kvc_read_list kept;
    struct kvc_span k, v, targets, weights;
};

static struct setting set_up(void) {
    struct setting s = {.k = values((size_t)ROWS * HEADS * D), .v = values((size_t)ROWS * HEADS * D)};
    s.lists = make_lists(KVC_F32, 0, true, &s.arena);
    append(&s.lists, ROWS, 0, s.k, s.v);
    s.kept = indices(kept_indices, KEPT, kept_indices, KEPT);
    s.targets = buffer(HEADS * SLOTS * 4);
    s.weights = buffer(HEADS * SLOTS * 4);
    return s;
}

static bool is_kept(uint32_t r) {
    for (uint32_t i = 0; i < KEPT; i++)
        if (kept_indices[i] == r)
            return true;
    return false;
}

static double dot(struct kvc_span x, uint32_t a, uint32_t b, uint32_t h) {
    double sum = 0;
    for (uint32_t c = 0; c < D; c++)
        sum += (double)floats(x)[((size_t)a * HEADS + h) * D + c] * (double)floats(x)[((size_t)b * HEADS + h) * D + c];
    return sum;
}

static uint32_t target(const struct setting *s, uint32_t h, uint32_t r) {
    return ((const uint32_t *)kvc_span_data(s->targets))[h * SLOTS + r];
}

static void check_similar(const struct setting *s, uint32_t h, uint32_t r, double threshold) {
    double most = -2;
    uint32_t best = 0;
    for (uint32_t i = 0; i < KEPT; i++) {
        const uint32_t j = kept_indices[i];
        const double c = dot(s->k, r, j, h) / sqrt(dot(s->k, r, r, h) * dot(s->k, j, j, h));
        best = c > most ? i : best;
        most = c > most ? c : most;
    }
    const uint32_t j = kept_indices[best];
    const double mine = sqrt(dot(s->v, r, r, h)), theirs = sqrt(dot(s->v, j, j, h));
    const bool merges = !is_kept(r) && most >= threshold && most > 0;
    assert_int_equal(target(s, h, r), merges ? best : UINT32_MAX);
    assert_near((double)floats(s->weights)[h * SLOTS + r], merges ? most * mine / (mine + theirs) : 0, 1e-5);
}

static void similar(void **state) {
    static const float thresholds[] = {0, 0.3f, 1};
    const struct setting s = set_up();
    (void)state;
    for (size_t t = 0; t < sizeof thresholds / sizeof *thresholds; t++) {
        OPS->merge_similar(device, &(struct kvc_merge_similar){.lists = &s.lists,
                                                               .kept = &s.kept,
                                                               .threshold = thresholds[t],
                                                               .targets = s.targets,
                                                               .weights = s.weights,
                                                               .stride = SLOTS});
        for (uint32_t h = 0; h < HEADS; h++)
            for (uint32_t r = 0; r < ROWS; r++)
                check_similar(&s, h, r, (double)thresholds[t]);
    }
    OPS->arena_free(device, s.arena);
}

/* Of two equal keys, the one with the lower index is the target. A key of length 0 is similar to none. */
static void equal_and_empty(void **state) {
    struct setting s = set_up();
    const struct kvc_span keys = buffer(ROWS * HEADS * D * 4);
    (void)state;
    for (uint32_t i = 0; i < ROWS * HEADS * D; i++)
        floats(keys)[i] = i / (HEADS * D) == 8 ? 0 : 1;
    OPS->arena_free(device, s.arena);
    s.lists = make_lists(KVC_F32, 0, true, &s.arena);
    append(&s.lists, ROWS, 0, keys, s.v);
    OPS->merge_similar(
        device, &(struct kvc_merge_similar){
                    .lists = &s.lists, .kept = &s.kept, .targets = s.targets, .weights = s.weights, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < ROWS; r++)
            assert_int_equal(target(&s, h, r), is_kept(r) || r == 8 ? UINT32_MAX : 0);
    OPS->arena_free(device, s.arena);
}

/* The share of seeds with which an entry is merged is its probability: 0.5 for index 0 (1 of a mean of 2), 1 for index
 * 2 (5 of a mean of 2.5) and 0 for index 5 (attention 0). Indices 7 and 8 are followed by no kept entry. */
static void following(void **state) {
    enum { SEEDS = 2000 };
    static const float sums[ROWS] = {1, 2, 5, 9, 2, 0, 3, 4, 4};
    const struct setting s = set_up();
    uint32_t merged[ROWS] = {0};
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        memcpy(floats(s.weights), sums, sizeof sums);
        memcpy(floats(s.weights) + SLOTS, sums, sizeof sums);
        OPS->merge_following(device, &(struct kvc_merge_following){.lists = &s.lists,
                                                                   .kept = &s.kept,
                                                                   .layer = 3,
                                                                   .span = 2,
                                                                   .seed = seed,
                                                                   .targets = s.targets,
                                                                   .weights = s.weights,
                                                                   .stride = SLOTS});
        for (uint32_t r = 0; r < ROWS; r++) {
            const bool merges = target(&s, 0, r) != UINT32_MAX;
            merged[r] += merges;
            if (merges)
                assert_int_equal(target(&s, 0, r), r < 1 ? 0 : r < 4 ? 1 : 2);
            if (!is_kept(r))
                assert_true(floats(s.weights)[r] == (merges ? (r < 4 ? 0.5f : 1.0f) : 0.0f));
        }
    }
    for (uint32_t r = 0; r < ROWS; r++)
        if (r == 2 || r == 3)
            assert_int_equal(merged[r], SEEDS);
        else if (r > 0)
            assert_int_equal(merged[r], 0);
    assert_near(merged[0], SEEDS / 2.0, 0.07);
    OPS->arena_free(device, s.arena);
}

static const float *value_of(const struct setting *s, struct kvc_span to, uint32_t h, uint32_t r) {
    const struct kvc_span none = {NULL, 0};
    OPS->entries(device, &(struct kvc_entries){.lists = &s->lists, .head = h, .keys = none, .values = to});
    return floats(to) + (size_t)r * D;
}

/* Indices 0 and 5 are merged into places 1 and 2, and index 2 into place 2. */
static void merged(void **state) {
    (void)state;
    for (int normalised = 0; normalised < 2; normalised++) {
        const struct setting s = set_up();
        const struct kvc_span now = buffer(ROWS * D * 4);
        uint32_t *const to = kvc_span_data(s.targets);
        for (uint32_t h = 0; h < HEADS; h++)
            for (uint32_t r = 0; r < ROWS; r++) {
                to[h * SLOTS + r] = r == 0 || r == 5 ? 1 : r == 2 ? 2 : UINT32_MAX;
                floats(s.weights)[h * SLOTS + r] = 0.25f * (float)(r + 1);
            }
        OPS->merge_values(device, &(struct kvc_merge_values){.lists = &s.lists,
                                                             .kept = &s.kept,
                                                             .targets = s.targets,
                                                             .weights = s.weights,
                                                             .stride = SLOTS,
                                                             .span = 2,
                                                             .normalised = normalised});
        for (uint32_t h = 0; h < HEADS; h++)
            for (uint32_t r = 0; r < ROWS; r++)
                for (uint32_t c = 0; c < D; c++) {
#define OLD(row) ((double)floats(s.v)[((size_t)(row)*HEADS + h) * D + c])
                    double right = OLD(r), all = 0;
                    if (r == 4)
                        right += 0.25 * OLD(0) + 1.5 * OLD(5), all = 1.75;
                    if (r == 6)
                        right += 0.25 * OLD(0) + 0.75 * OLD(2) + 1.5 * OLD(5), all = 2.5;
                    assert_near((double)value_of(&s, now, h, r)[c], normalised ? right / (1 + all) : right, 1e-5);
                }
        OPS->arena_free(device, s.arena);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(similar), TEST(equal_and_empty), TEST(following), TEST(merged)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
