/* test_ref_entries.c - the reference operations that score entries by their keys and values, against double precision
 * and results computed by hand; and pooling by chunks. */
#include "tests/backends/ref_fixture.h"

/* Lists whose keys have values of both signs; each head has 9 entries. */
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

/* A key without a direction (all zeros) scores 0 and does not change the scores of others. */
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

/* Numbers by layer, head and position from keyformer's generator, whose distribution test_keyformer compares with the
 * paper's. */
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

/* Chunks of 4 of 7 entries, of which the last has no length; and without chunks. */
static void shares(void **state) {
    enum { ROWS = 7, CHUNK = 4 };
    struct kvc_arena *arena;
    struct kvc_span x[2], scores = buffer(HEADS * SLOTS * 4);
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    (void)state;
    x[0] = values((size_t)ROWS * HEADS * D), x[1] = values((size_t)ROWS * HEADS * D);
    memset(floats(x[0]) + (size_t)(ROWS - 1) * HEADS * D, 0, HEADS * D * sizeof(float));
    append(&lists, ROWS, 0, x[0], x[1]);
    for (uint32_t kind = KVC_SHARE_KEYS; kind <= KVC_SHARE_PRODUCT; kind++)
        for (uint32_t chunk = 0; chunk <= CHUNK; chunk += CHUNK) {
            OPS->norm_shares(device, &(struct kvc_norm_shares){.lists = &lists,
                                                               .kind = (enum kvc_share_kind)kind,
                                                               .chunk = chunk,
                                                               .scores = scores,
                                                               .stride = SLOTS});
            for (uint32_t h = 0; h < HEADS; h++) {
                double square[2][ROWS] = {{0}}, sum[2][2] = {{0}};
                for (uint32_t i = 0; i < 2 * ROWS * D; i++) {
                    const uint32_t side = i / D / ROWS, r = i / D % ROWS;
                    square[side][r] += pow((double)row_of(x[side], r, h)[i % D], 2);
                    sum[side][r / CHUNK] += pow((double)row_of(x[side], r, h)[i % D], 2);
                }
                for (uint32_t r = 0; r < ROWS; r++) {
                    const double key = square[0][r] / (chunk ? sum[0][r / CHUNK] : 1);
                    const double value = square[1][r] / (chunk ? sum[1][r / CHUNK] : 1);
                    const double right[] = {key, value, (key + value) / 2, key * value};
                    assert_near((double)floats(scores)[h * SLOTS + r], right[kind], 1e-5 * (1 + right[kind]));
                }
            }
        }
    OPS->arena_free(device, arena);
}

/* A chunk without lengths has no shares. */
static void no_shares(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    const struct kvc_span zero = buffer((size_t)3 * HEADS * D * 4), scores = values(HEADS * SLOTS);
    (void)state;
    memset(floats(zero), 0, (size_t)3 * HEADS * D * 4);
    append(&lists, 3, 0, zero, zero);
    OPS->norm_shares(device,
                     &(struct kvc_norm_shares){
                         .lists = &lists, .kind = KVC_SHARE_MEAN, .chunk = 2, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < 3; r++)
            assert_true(floats(scores)[h * SLOTS + r] == 0.0f);
    OPS->arena_free(device, arena);
}

/* Partitions of 2 entries after the first entry; with 8 entries: three partitions and one entry left over. */
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

/* Two equal keys, one different key, one without a direction: of similar keys only the last one counts in full. */
static void redundancy(void **state) {
    enum { ROWS = 7 };
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4);
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    (void)state;
    k = values((size_t)ROWS * HEADS * D), v = values((size_t)ROWS * HEADS * D);
    for (uint32_t h = 0; h < HEADS; h++) {
        memcpy(floats(k) + (5 * HEADS + h) * D, row_of(k, 2, h), D * sizeof(float)); /* entry 5 repeats entry 2 */
        memset(floats(k) + (3 * HEADS + h) * D, 0, D * sizeof(float));
        for (uint32_t r = 0; r < ROWS; r++)
            floats(scores)[h * SLOTS + r] = (float)r;
    }
    append(&lists, ROWS, 0, k, v);
    OPS->mix_redundancy(
        device,
        &(struct kvc_mix_redundancy){
            .lists = &lists, .threshold = 0.9f, .share = 0.25f, .divisor = 2.0f, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++) {
        double cosine[ROWS][ROWS] = {{0}}, mean[ROWS] = {0}, all = 0;
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t last = 0;
            for (uint32_t j = 0; j < ROWS; j++) {
                double dot = 0, a = 0, b = 0;
                for (uint32_t c = 0; c < D; c++) {
                    dot += (double)row_of(k, i, h)[c] * (double)row_of(k, j, h)[c];
                    a += (double)row_of(k, i, h)[c] * (double)row_of(k, i, h)[c];
                    b += (double)row_of(k, j, h)[c] * (double)row_of(k, j, h)[c];
                }
                cosine[i][j] = i != j && a * b > 0 ? dot / sqrt(a * b) : 0;
                last = cosine[i][j] > 0.9 ? j : last;
            }
            for (uint32_t j = 0; j < ROWS; j++)
                mean[j] += j == last ? 0 : cosine[i][j] / ROWS;
        }
        for (uint32_t j = 0; j < ROWS; j++)
            all += exp(mean[j]);
        for (uint32_t j = 0; j < ROWS; j++)
            assert_near((double)floats(scores)[h * SLOTS + j], 0.25 * j / 2 - 0.75 * exp(mean[j]) / all, 1e-4);
    }
    OPS->arena_free(device, arena);
}

/* A projection whose outputs are sums and differences of channels. */
static void projected_norms(void **state) {
    enum { ROWS = 5, GROUP = 2, OUTPUTS = 3 };
    struct kvc_arena *arena;
    struct kvc_span k, v;
    const struct kvc_lists lists = filled(ROWS, &k, &v, &arena);
    const struct kvc_span w = values((size_t)OUTPUTS * HEADS * GROUP * D);
    const struct kvc_span norms = values((size_t)HEADS * GROUP * SLOTS);
    (void)state;
    for (uint32_t part = 0; part < 2; part++) { /* the first output, then the others */
        const struct kvc_span from = {w.buffer, part * (size_t)HEADS * GROUP * D * sizeof(float)};
        OPS->output_norms(device, &(struct kvc_output_norms){.lists = &lists,
                                                             .w = from,
                                                             .heads = HEADS * GROUP,
                                                             .outputs = part ? OUTPUTS - 1 : 1,
                                                             .first = part == 0,
                                                             .norms = norms,
                                                             .stride = SLOTS});
    }
    for (uint32_t g = 0; g < HEADS * GROUP; g++)
        for (uint32_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (uint32_t n = 0; n < OUTPUTS; n++) {
                double dot = 0;
                for (uint32_t c = 0; c < D; c++)
                    dot += (double)row_of(v, r, g / GROUP)[c] * (double)floats(w)[(n * HEADS * GROUP + g) * D + c];
                sum += fabs(dot);
            }
            assert_near((double)floats(norms)[g * SLOTS + r], sum, 1e-4);
        }
    OPS->arena_free(device, arena);
}

static void weighed(void **state) {
    static const float x[] = {1, -2, 3, 0}, factors[] = {2, 4, 1, 8}, right[] = {3, -6, INFINITY, 4};
    const uint32_t one[HEADS] = {1, 1}, indices[HEADS * 4] = {2, 0, 0, 0, 2, 0, 0, 0};
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4), factor = buffer(HEADS * SLOTS * 4);
    const struct kvc_lists lists = filled(4, &k, &v, &arena);
    struct kvc_read_list kept = {holding(one, sizeof one).buffer, holding(indices, sizeof indices).buffer, 4};
    (void)state;
    for (uint32_t h = 0; h < HEADS; h++) {
        memcpy(floats(scores) + (size_t)h * SLOTS, x, sizeof x);
        memcpy(floats(factor) + (size_t)h * SLOTS, factors, sizeof factors);
    }
    OPS->weigh_scores(
        device,
        &(struct kvc_weigh_scores){
            .lists = &lists, .kept = &kept, .epsilon = 0.5f, .factor = factor, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        assert_memory_equal(floats(scores) + (size_t)h * SLOTS, right, sizeof right);
    OPS->arena_free(device, arena);
}

/* By hand: keys along one axis, so that a head's score is a linear function of the key. */
static void series(void **state) {
    enum { ROWS = 4, GROUP = 2, PAIRS = 2 };
    static const float along[ROWS] = {-3, 1, 2, 4}; /* mean 1, standard deviation sqrt(6.5) */
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    const struct kvc_span k = buffer(ROWS * HEADS * D * 4), scores = buffer(HEADS * SLOTS * 4);
    const struct kvc_span mean = buffer(HEADS * GROUP * D * 4), spread = buffer(HEADS * GROUP * PAIRS * 4);
    (void)state;
    for (uint32_t i = 0; i < ROWS * HEADS; i++)
        floats(k)[i * D + 3] = along[i / HEADS]; /* of the pair (1, 3) */
    for (uint32_t h = 0; h < HEADS; h++) {
        floats(mean)[GROUP * h * D + 3] = 5;                 /* the first head prefers large keys, */
        floats(spread)[(GROUP * h + 1) * PAIRS + 1] = 0.25f; /* the second long ones */
    }
    append(&lists, ROWS, 0, k, k);
    struct kvc_series_scores args = {.lists = &lists,
                                     .heads = HEADS * GROUP,
                                     .pairs = PAIRS,
                                     .mean = mean,
                                     .spread = spread,
                                     .scores = scores,
                                     .stride = SLOTS};
    for (int average = 0; average < 2; average++) {
        args.average = average;
        OPS->series_scores(device, &args);
        for (uint32_t h = 0; h < HEADS; h++)
            for (uint32_t r = 0; r < ROWS; r++) {
                const double first = ((double)along[r] - 1) / sqrt(6.5);
                const double second = (fabs((double)along[r]) - 2.5) / sqrt(1.25);
                assert_near((double)floats(scores)[h * SLOTS + r], average ? (first + second) / 2 : fmax(first, second),
                            1e-6);
            }
    }
    OPS->arena_free(device, arena);
}

/* All keys are equal: no score exceeds another, and none is NaN. */
static void series_of_equals(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    const struct kvc_span k = buffer(3 * HEADS * D * 4), scores = buffer(HEADS * SLOTS * 4);
    const struct kvc_span mean = values((size_t)HEADS * D);
    (void)state;
    for (uint32_t i = 0; i < 3 * HEADS * D; i++)
        floats(k)[i] = 0.5f;
    append(&lists, 3, 0, k, k);
    OPS->series_scores(
        device, &(struct kvc_series_scores){
                    .lists = &lists, .heads = HEADS, .mean = mean, .spread = mean, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < 3; r++)
            assert_true(floats(scores)[h * SLOTS + r] == floats(scores)[h * SLOTS]);
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(norms_and_directions),
                                       TEST(no_direction),
                                       TEST(draws),
                                       TEST(shares),
                                       TEST(no_shares),
                                       TEST(lags),
                                       TEST(chunks),
                                       TEST(redundancy),
                                       TEST(projected_norms),
                                       TEST(weighed),
                                       TEST(series),
                                       TEST(series_of_equals)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
