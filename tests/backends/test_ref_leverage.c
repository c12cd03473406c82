/* test_ref_leverage.c - the reference operations of compactor's and cap's scores, against double precision. */
#include "tests/backends/ref_fixture.h"

enum { ROWS = 14, FIRST = 2, LAST = 1, GROUP = 2, N = ROWS - FIRST - LAST };

static struct kvc_lists filled(uint32_t columns, struct kvc_span *k, struct kvc_span *v, struct kvc_arena **arena) {
    struct kvc_lists lists = make_lists(KVC_F32, columns, true, arena);
    *k = values((size_t)ROWS * HEADS * D);
    *v = values((size_t)ROWS * HEADS * D);
    append(&lists, ROWS, 0, *k, *v);
    return lists;
}

static double at(struct kvc_span x, uint32_t row, uint32_t heads, uint32_t h, uint32_t c) {
    return (double)floats(x)[((size_t)row * heads + h) * D + c];
}

static float *state_of(const struct kvc_lists *lists, uint32_t column, uint32_t h, uint32_t index) {
    return (float *)lists->state->data + ((size_t)lists->columns * h + column) * SLOTS + kvc_list_slot(lists, h, index);
}

/* ---- chunk_mass ---- */

/* The attention that an entry gets from the chunk of n queries that begins at `from`. */
static double mass_of(struct kvc_span q, struct kvc_span k, uint32_t h, uint32_t from, uint32_t n, uint32_t entry) {
    double mass = 0;
    for (uint32_t i = from; i < from + n; i++)
        for (uint32_t g = 0; g < GROUP; g++) {
            double all = 0, mine = 0;
            for (uint32_t j = from; j < from + n; j++) {
                double s = 0;
                for (uint32_t c = 0; c < D; c++)
                    s += at(q, i, HEADS * GROUP, h * GROUP + g, c) * at(k, j, HEADS, h, c);
                all += exp(s);
                mine = j == entry ? exp(s) : mine;
            }
            mass += mine / all / GROUP;
        }
    return mass;
}

/* The values before the first query stay those of the column; the others are in chunks of 4, the last one shorter. */
static void chunks(void **state) {
    enum { SEEN = 4, CHUNK = 4 };
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4), place = buffer(ROWS * sizeof(int32_t));
    const struct kvc_lists lists = filled(2, &k, &v, &arena);
    const struct kvc_span all = values((size_t)ROWS * HEADS * GROUP * D);
    const struct kvc_span q = {all.buffer, (size_t)SEEN * HEADS * GROUP * D * sizeof(float)};
    (void)state;
    for (uint32_t i = 0; i < ROWS; i++)
        ((int32_t *)kvc_span_data(place))[i] = (int32_t)(SEEN + i);
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < SEEN; r++)
            *state_of(&lists, 1, h, r) = 0.5f;
    OPS->chunk_mass(device, &(struct kvc_chunk_mass){.lists = &lists,
                                                     .queries = ROWS - SEEN,
                                                     .heads = HEADS * GROUP,
                                                     .first = FIRST,
                                                     .last = LAST,
                                                     .chunk = CHUNK,
                                                     .column = 1,
                                                     .q = q,
                                                     .positions = place,
                                                     .scores = scores,
                                                     .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t from = r < SEEN ? 0 : r - (r - SEEN) % CHUNK;
            const uint32_t n = from + CHUNK < ROWS - LAST ? CHUNK : ROWS - LAST - from;
            const double mass = r < SEEN ? 0.5 : mass_of(all, k, h, from, n, r);
            double square = 0;
            for (uint32_t c = 0; c < D; c++)
                square += at(v, r, HEADS, h, c) * at(v, r, HEADS, h, c);
            const bool scored = r >= FIRST && r < ROWS - LAST;
            assert_near((double)floats(scores)[h * SLOTS + r], scored ? mass * sqrt(square) : 0, 1e-4);
            assert_true(*state_of(&lists, 0, h, r) == 0.0f);
        }
    OPS->arena_free(device, arena);
}

/* ---- leverage_scores ---- */

/* x . A^-1 x by elimination; A is [D, D] and symmetric. */
static double solved(double A[D][D], const double x[D]) {
    double m[D][D + 1], sum = 0;
    for (uint32_t b = 0; b < D; b++) {
        memcpy(m[b], A[b], sizeof A[b]);
        m[b][D] = x[b];
    }
    for (uint32_t c = 0; c < D; c++)
        for (uint32_t b = 0; b < D; b++) {
            const double factor = m[b][c] / m[c][c];
            for (uint32_t i = c; i <= D && b != c; i++)
                m[b][i] -= factor * m[c][i];
        }
    for (uint32_t c = 0; c < D; c++)
        sum += x[c] * m[c][D] / m[c][c];
    return sum;
}

/* Weighted values: each query head has weights of its own, and a group's scores are averaged. */
static void value_leverage(void **state) {
    const float ridge = 1.0f;
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4);
    const struct kvc_lists lists = filled(0, &k, &v, &arena);
    const struct kvc_span weights = values((size_t)HEADS * GROUP * SLOTS);
    (void)state;
    OPS->leverage_scores(device, &(struct kvc_leverage_scores){.lists = &lists,
                                                               .first = FIRST,
                                                               .last = LAST,
                                                               .heads = HEADS * GROUP,
                                                               .weights = weights,
                                                               .ridge = ridge,
                                                               .scores = scores,
                                                               .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++) {
        double right[ROWS] = {0};
        for (uint32_t g = h * GROUP; g < (h + 1) * GROUP; g++) {
            double x[N][D], A[D][D];
            for (uint32_t j = 0; j < N; j++)
                for (uint32_t c = 0; c < D; c++)
                    x[j][c] = at(v, FIRST + j, HEADS, h, c) * (double)floats(weights)[g * SLOTS + FIRST + j];
            for (uint32_t b = 0; b < D; b++)
                for (uint32_t c = 0; c < D; c++) {
                    A[b][c] = b == c ? (double)ridge : 0;
                    for (uint32_t j = 0; j < N; j++)
                        A[b][c] += x[j][b] * x[j][c];
                }
            for (uint32_t j = 0; j < N; j++)
                right[FIRST + j] += solved(A, x[j]) / GROUP;
        }
        for (uint32_t r = 0; r < ROWS; r++)
            assert_near((double)floats(scores)[h * SLOTS + r], right[r], 1e-4);
    }
    OPS->arena_free(device, arena);
}

/* ---- mean_weights ---- */

/* Query head 1 has a mean of 0, which has no direction, so all its weights are 1. */
static void weights_by_mean(void **state) {
    enum { HALF = D / 4, QUERIES = 3 };
    const float scale = 2.5f;
    struct kvc_arena *arena;
    struct kvc_span k, v, weights = buffer(HEADS * GROUP * SLOTS * 4);
    const struct kvc_lists lists = filled(0, &k, &v, &arena);
    const struct kvc_span sums = values((size_t)HEADS * GROUP * (D + 1) * D);
    const struct kvc_span cosine = values(HALF), sine = values(HALF);
    (void)state;
    memset(floats(sums) + (D + 1) * D, 0, D * sizeof(float));
    OPS->mean_weights(device, &(struct kvc_mean_weights){.lists = &lists,
                                                         .heads = HEADS * GROUP,
                                                         .queries = QUERIES,
                                                         .first = FIRST,
                                                         .sums = sums,
                                                         .cosine = cosine,
                                                         .sine = sine,
                                                         .rotary = 2 * HALF,
                                                         .scale = scale,
                                                         .weights = weights,
                                                         .stride = SLOTS});
    for (uint32_t g = 0; g < HEADS * GROUP; g++) {
        const float *mean = floats(sums) + (size_t)g * (D + 1) * D;
        double u[D], likeness[ROWS] = {0}, most = -1;
        for (uint32_t c = 0; c < D; c++) {
            const double cos_of = (double)floats(cosine)[c % HALF], sin_of = (double)floats(sine)[c % HALF];
            u[c] = c >= 2 * HALF ? (double)mean[c]
                   : c < HALF    ? (double)mean[c] * cos_of - (double)mean[c + HALF] * sin_of
                                 : (double)mean[c] * cos_of + (double)mean[c - HALF] * sin_of;
        }
        for (uint32_t r = FIRST; r < ROWS; r++) {
            double dot = 0, a = 0, b = 0;
            for (uint32_t c = 0; c < D; c++) {
                const double key = at(k, r, HEADS, g / GROUP, c);
                dot += u[c] * key;
                a += u[c] * u[c];
                b += key * key;
            }
            likeness[r] = g == 1 ? 0 : dot / sqrt(a * b);
            most = fmax(most, likeness[r]);
        }
        for (uint32_t r = 0; r < ROWS; r++)
            assert_near((double)floats(weights)[g * SLOTS + r],
                        r < FIRST ? 0 : exp((double)scale * (likeness[r] - most)), 1e-4);
    }
    OPS->arena_free(device, arena);
}

static void leverage(void **state) {
    enum { HALF = D / 4 };
    const float ridge = 0.125f;
    struct kvc_arena *arena;
    struct kvc_span k, v, scores = buffer(HEADS * SLOTS * 4);
    const struct kvc_lists lists = filled(0, &k, &v, &arena);
    const struct kvc_span cosine = values(ROWS * HALF), sine = values(ROWS * HALF);
    (void)state;
    OPS->leverage_scores(device, &(struct kvc_leverage_scores){.lists = &lists,
                                                               .first = FIRST,
                                                               .last = LAST,
                                                               .cosine = cosine,
                                                               .sine = sine,
                                                               .rotary = 2 * HALF,
                                                               .ridge = ridge,
                                                               .scores = scores,
                                                               .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++) {
        double x[N][D], A[D][D] = {{0}};
        for (uint32_t j = 0; j < N; j++)
            for (uint32_t c = 0; c < D; c++) {
                const uint32_t row = FIRST + j, pair = c % HALF;
                const double mine = at(k, row, HEADS, h, c);
                const double cos_of = (double)floats(cosine)[row * HALF + pair];
                const double sin_of = (double)floats(sine)[row * HALF + pair];
                x[j][c] = c >= 2 * HALF ? mine
                          : c < HALF    ? mine * cos_of + at(k, row, HEADS, h, c + HALF) * sin_of
                                        : mine * cos_of - at(k, row, HEADS, h, c - HALF) * sin_of;
            }
        for (uint32_t c = 0; c < D; c++) {
            double mean = 0;
            for (uint32_t j = 0; j < N; j++)
                mean += x[j][c] / N;
            for (uint32_t j = 0; j < N; j++)
                x[j][c] -= mean;
        }
        for (uint32_t b = 0; b < D; b++)
            for (uint32_t c = 0; c < D; c++) {
                A[b][c] = b == c ? (double)ridge : 0;
                for (uint32_t j = 0; j < N; j++)
                    A[b][c] += x[j][b] * x[j][c];
            }
        for (uint32_t r = 0; r < ROWS; r++)
            assert_near((double)floats(scores)[h * SLOTS + r],
                        r >= FIRST && r < ROWS - LAST ? solved(A, x[r - FIRST]) : 0, 1e-4);
    }
    OPS->arena_free(device, arena);
}

/* Keys that are all equal have no leverage, and the ridge keeps the factor finite. */
static void no_spread(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    struct kvc_span k = buffer((size_t)ROWS * HEADS * D * 4), scores = buffer(HEADS * SLOTS * 4);
    (void)state;
    for (size_t i = 0; i < (size_t)ROWS * HEADS * D; i++)
        floats(k)[i] = 0.5f;
    append(&lists, ROWS, 0, k, k);
    OPS->leverage_scores(
        device, &(struct kvc_leverage_scores){.lists = &lists, .ridge = 0.01f, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < ROWS; r++)
            assert_true(floats(scores)[h * SLOTS + r] == 0.0f);
    OPS->arena_free(device, arena);
}

/* ---- standard_mix ---- */

static void standard(void **state) {
    const float share = 0.25f;
    struct kvc_arena *arena;
    struct kvc_span k, v;
    const struct kvc_lists lists = filled(0, &k, &v, &arena);
    const struct kvc_span leverage = values(HEADS * SLOTS), scores = values(HEADS * SLOTS);
    double before[2][HEADS][ROWS], mean[2] = {0}, spread[2] = {0};
    (void)state;
    floats(scores)[SLOTS + 5] = 0.0f; /* counts as the mean */
    for (int side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < HEADS * ROWS; i++)
            before[side][i / ROWS][i % ROWS] = (double)floats(side ? scores : leverage)[i / ROWS * SLOTS + i % ROWS];
        for (uint32_t i = 0; i < HEADS * N; i++)
            mean[side] += before[side][i / N][FIRST + i % N] / (HEADS * N);
        for (uint32_t i = 0; i < HEADS * N; i++)
            spread[side] += pow(before[side][i / N][FIRST + i % N] - mean[side], 2) / (HEADS * N - 1);
    }
    OPS->standard_mix(device, &(struct kvc_standard_mix){.lists = &lists,
                                                         .first = FIRST,
                                                         .last = LAST,
                                                         .share = share,
                                                         .leverage = leverage,
                                                         .scores = scores,
                                                         .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < ROWS; r++) {
            const double a = before[1][h][r] == 0 ? 0 : (before[1][h][r] - mean[1]) / sqrt(spread[1]);
            const double right = (double)share * (before[0][h][r] - mean[0]) / sqrt(spread[0]) + a;
            assert_near((double)floats(scores)[h * SLOTS + r], r >= FIRST && r < ROWS - LAST ? right : 0, 1e-4);
        }
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(chunks),          TEST(leverage),  TEST(value_leverage),
                                       TEST(weights_by_mean), TEST(no_spread), TEST(standard)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
