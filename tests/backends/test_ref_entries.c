/* test_ref_entries.c - the reference operations that score entries by what they hold, against double precision and
 * results worked by hand; and pooling by chunks. */
#include "tests/backends/ref_fixture.h"

/* Keys are values of both signs; each head has 9 entries. */
static struct kvc_lists filled(uint32_t rows, struct kvc_span *k, struct kvc_span *v, struct kvc_arena **arena) {
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, arena);
    *k = values((size_t)rows * HEADS * D);
    *v = values((size_t)rows * HEADS * D);
    append(&lists, rows, 0, *k, *v);
    return lists;
}

static const float *row_of(struct kvc_span x, uint32_t row, uint32_t h) {
    return floats(x) + ((size_t)row * HEADS + h) * D;
}

static struct kvc_span score(const struct kvc_lists *lists, enum kvc_entry_kind kind, uint64_t seed) {
    const struct kvc_span scores = buffer(HEADS * SLOTS * 4);
    OPS->entry_scores(device,
                      &(struct kvc_entry_scores){
                          .lists = lists, .kind = kind, .layer = 3, .seed = seed, .scores = scores, .stride = SLOTS});
    return scores;
}

static void norms_and_directions(void **state) {
    enum { ROWS = 9 };
    struct kvc_arena *arena;
    struct kvc_span k, v;
    const struct kvc_lists lists = filled(ROWS, &k, &v, &arena);
    (void)state;
    const struct kvc_span norm = score(&lists, KVC_ENTRY_NORM, 0), apart = score(&lists, KVC_ENTRY_APART, 0);
    for (uint32_t h = 0; h < HEADS; h++) {
        double u[D] = {0}, length[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) {
            double square = 0;
            for (uint32_t c = 0; c < D; c++)
                square += (double)row_of(k, r, h)[c] * (double)row_of(k, r, h)[c];
            length[r] = sqrt(square);
            assert_near((double)floats(norm)[h * SLOTS + r], -length[r], 1e-5);
            for (uint32_t c = 0; c < D; c++)
                u[c] += (double)row_of(k, r, h)[c] / length[r];
        }
        for (uint32_t r = 0; r < ROWS; r++) {
            double dot = 0;
            for (uint32_t c = 0; c < D; c++)
                dot += (double)row_of(k, r, h)[c] * u[c];
            assert_near((double)floats(apart)[h * SLOTS + r], -dot / length[r], 1e-4);
        }
    }
    OPS->arena_free(device, arena);
}

/* A key without a direction scores 0 and turns no other. */
static void no_direction(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    struct kvc_span k = values(3 * (size_t)HEADS * D);
    (void)state;
    memset(floats(k) + (size_t)HEADS * D, 0, HEADS * D * sizeof(float));
    append(&lists, 3, 0, k, k);
    const struct kvc_span apart = score(&lists, KVC_ENTRY_APART, 0);
    for (uint32_t h = 0; h < HEADS; h++) {
        assert_true(floats(apart)[h * SLOTS + 1] == 0.0f);
        assert_true(floats(apart)[h * SLOTS] <= 0.0f && floats(apart)[h * SLOTS] >= -2.0001f);
    }
    OPS->arena_free(device, arena);
}

/* Numbers of keyformer's generator, which test_keyformer holds against its paper's, by layer, head and position. */
static void draws(void **state) {
    struct kvc_arena *arena;
    struct kvc_span k, v;
    const struct kvc_lists lists = filled(9, &k, &v, &arena);
    (void)state;
    const struct kvc_span drawn = score(&lists, KVC_ENTRY_DRAW, 77);
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < 9; r++)
            assert_true(floats(drawn)[h * SLOTS + r] == (float)(kvc_philox4x32(3, h, r, 1, 77).word[0] >> 8));
    OPS->arena_free(device, arena);
}

/* Partitions of 2 after one entry, 8 entries: three partitions and one entry left over. */
static void lags(void **state) {
    enum { ROWS = 8, LAG = 2 };
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4);
    const struct kvc_lists lists = filled(ROWS, &k, &v, &arena);
    (void)state;
    struct kvc_lag_scores args = {.lists = &lists, .first = 1, .lag = LAG, .scores = scores, .stride = SLOTS};
    for (int across = 1; across >= 0; across--) {
        args.across = across;
        OPS->lag_scores(device, &args);
        for (uint32_t h = 0; h < HEADS; h++) {
            const float *got = floats(scores) + (size_t)h * SLOTS;
            for (uint32_t r = 0; r < ROWS; r++)
                if (r < 1 || r >= 5)
                    assert_true(got[r] == (float)LAG);
            for (uint32_t first = 1; first < 5; first += LAG) {
                double raw[LAG] = {0};
                for (int side = 0; side < 2; side++) {
                    const struct kvc_span x = side ? v : k;
                    double s[LAG], sum = 0;
                    for (uint32_t i = 0; i < LAG; i++) {
                        double t[D], mean = 0, square = 0;
                        for (uint32_t c = 0; c < D; c++) {
                            const double a = (double)row_of(x, first + 2, h)[c], b = (double)row_of(x, first + 3, h)[c];
                            t[c] = ((double)row_of(x, first + i, h)[c] - fmin(a, b)) / (fmax(a, b) - fmin(a, b));
                            mean += t[c] / D;
                        }
                        for (uint32_t c = 0; c < D; c++)
                            square += (t[c] - mean) * (t[c] - mean);
                        s[i] = sqrt(square / (D - 1));
                        sum += exp(s[i]);
                    }
                    for (uint32_t i = 0; i < LAG; i++)
                        raw[i] += exp(s[i]) / sum / 2;
                }
                for (uint32_t i = 0; i < LAG; i++)
                    if (across)
                        assert_near((double)got[first + i], raw[i], 1e-4);
                    else
                        assert_true(got[first + i] == (raw[i] > raw[1 - i] ? 1.0f : 0.0f));
            }
        }
    }
    OPS->arena_free(device, arena);
}

static void chunks(void **state) {
    static const float x[] = {1, 3, 2, 8, 7, 100, 200}, pooled[] = {2, 2, 5, 5, 7, 0, 0};
    struct kvc_arena *arena;
    struct kvc_span k, v, in = buffer(HEADS * SLOTS * 4), out = buffer(HEADS * SLOTS * 4);
    const struct kvc_lists lists = filled(7, &k, &v, &arena);
    (void)state;
    for (uint32_t h = 0; h < HEADS; h++)
        memcpy(floats(in) + (size_t)h * SLOTS, x, sizeof x);
    OPS->pool(device, &(struct kvc_pool){.lists = &lists,
                                         .rows = 1,
                                         .out = out,
                                         .in = in,
                                         .stride = SLOTS,
                                         .tail = 2,
                                         .kernel = 2,
                                         .pooling = KVC_POOL_CHUNKS});
    for (uint32_t h = 0; h < HEADS; h++)
        assert_memory_equal(floats(out) + (size_t)h * SLOTS, pooled, sizeof pooled);
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(norms_and_directions), TEST(no_direction), TEST(draws), TEST(lags),
                                       TEST(chunks)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
