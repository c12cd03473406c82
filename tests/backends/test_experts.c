/* test_experts.c - the operations of experts against an oracle: routing by sorting in long double, and a linear layer
 * on one row with one expert. kvcull verify then compares every backend with ref. */
#include "tests/backends/ref_fixture.h"

#include <stdio.h>

enum { MOST_ROWS = 40 };

struct routed {
    struct kvc_span expert, share, pair, row, first;
};

static struct routed route(struct kvc_span logits, uint32_t rows, uint32_t experts, uint32_t used, bool normalised) {
    const size_t n = (size_t)rows * used * 4;
    const struct routed r = {buffer(n), buffer(n), buffer(n), buffer(n), buffer((experts + 1) * 4)};
    OPS->route(device, &(struct kvc_route){.logits = logits,
                                           .rows = rows,
                                           .experts = experts,
                                           .used = used,
                                           .normalised = normalised,
                                           .expert = r.expert,
                                           .share = r.share,
                                           .pair = r.pair,
                                           .row = r.row,
                                           .first = r.first});
    return r;
}

static const uint32_t *words(struct kvc_span span) { return kvc_span_data(span); }

/* Whether a row's expert a comes before its expert b. */
static bool stands_before(const float *x, uint32_t a, uint32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); }

static void check_row(const float *x, uint32_t experts, uint32_t used, bool normalised, const uint32_t *chosen,
                      const float *share) {
    double most = -1e30, all = 0, of_chosen = 0;
    for (uint32_t e = 0; e < experts; e++)
        most = x[e] > most ? x[e] : most;
    for (uint32_t e = 0, n = 0; e < experts; e++) {
        uint32_t above = 0;
        for (uint32_t f = 0; f < experts; f++)
            above += stands_before(x, f, e);
        all += exp(x[e] - most);
        if (above >= used)
            continue;
        assert_int_equal(chosen[n++], e);
        of_chosen += exp(x[e] - most);
    }
    for (uint32_t i = 0; i < used; i++)
        assert_near(share[i], exp(x[chosen[i]] - most) / (normalised ? of_chosen : all), 2e-6);
}

/* Pairs are sorted by expert and then by row, and `pair` and `row` agree. */
static void check_pairs(const struct routed *r, uint32_t rows, uint32_t experts, uint32_t used) {
    const uint32_t *expert = words(r->expert), *pair = words(r->pair), *row = words(r->row), *first = words(r->first);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[experts], rows * used);
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t p = first[e]; p + 1 < first[e + 1]; p++)
            assert_true(row[p] < row[p + 1]);
    for (uint32_t i = 0; i < rows * used; i++) {
        assert_true(expert[i] < experts && pair[i] < rows * used);
        assert_true(pair[i] >= first[expert[i]] && pair[i] < first[expert[i] + 1]);
        assert_int_equal(row[pair[i]], i / used);
        assert_true(i % used == 0 || expert[i] > expert[i - 1]);
    }
}

static void routing(void **state) {
    static const uint32_t counts[] = {1, 2, 5, 8, 31, 33, 64, 128, 512};
    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        const uint32_t experts = counts[draw(9)], rows = 1 + draw(MOST_ROWS);
        const uint32_t used = 1 + draw(experts < 32 ? experts : 32);
        const bool normalised = draw(2), ties = draw(3) == 0;
        const struct kvc_span logits = values((size_t)rows * experts);
        for (size_t k = 0; ties && k < (size_t)rows * experts; k++)
            floats(logits)[k] = (float)draw(3) - 1.0f;
        const struct routed r = route(logits, rows, experts, used, normalised);
        for (uint32_t n = 0; n < rows; n++)
            check_row(floats(logits) + (size_t)n * experts, experts, used, normalised, words(r.expert) + n * used,
                      floats(r.share) + n * used);
        check_pairs(&r, rows, experts, used);
        end_test(NULL);
    }
}

/* Whatever logits a router gives, the chosen experts exist, and NaNs show in the routing weights. */
static void no_numbers(void **state) {
    const float nan = kvc_nan(), infinite = kvc_infinity();
    const float rows[][4] = {{nan, nan, nan, nan},        {1, nan, 2, 3},
                             {nan, 1, -infinite, nan},    {infinite, 1, 2, 3},
                             {infinite, infinite, 0, 1},  {-infinite, -infinite, -infinite, -infinite},
                             {-infinite, 1, 2, -infinite}};
    static const uint32_t chosen[][2] = {{0, 1}, {2, 3}, {1, 2}, {0, 3}, {0, 1}, {0, 1}, {1, 2}};
    enum { ROWS = sizeof rows / sizeof *rows };
    (void)state;
    for (int normalised = 0; normalised < 2; normalised++) {
        const struct routed r = route(holding(rows, sizeof rows), ROWS, 4, 2, normalised);
        check_pairs(&r, ROWS, 4, 2);
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t j = 0; j < 2; j++) {
                assert_int_equal(words(r.expert)[2 * i + j], chosen[i][j]);
                assert_int_equal(kvc_is_nan(floats(r.share)[2 * i + j]) != 0, i + 1 < ROWS);
            }
    }
}

/* The y of a pair is bit-identical to what `linear` computes from its row and its expert's matrix. Expert matrices may
 * lie anywhere. */
static void linear_of_each(void **state) {
    enum { EXPERTS = 5, N = 7, K = 45 };
    static const uint32_t first[EXPERTS + 1] = {0, 1, 1, 4, 24, 24};
    static float matrix[EXPERTS][N * K + 3];
    const void *host[EXPERTS];
    struct kvc_weight *all, *one;
    (void)state;
    for (size_t e = 0; e < EXPERTS; e++) {
        for (size_t k = 0; k < N * K; k++)
            matrix[EXPERTS - 1 - e][k] = value();
        host[e] = matrix[EXPERTS - 1 - e];
    }
    host[1] = host[4] = NULL; /* no row uses these */
    const uint32_t pairs = first[EXPERTS];
    const struct kvc_span x = values(pairs * K), y = buffer(pairs * N * 4), bias = values(EXPERTS * N);
    const struct kvc_span alone = buffer(N * 4);
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        assert_int_equal(OPS->experts_create(device, KVC_F32, EXPERTS, N, K, host, &all, NULL), KVC_OK);
        OPS->expert_linear(device, &(struct kvc_expert_linear){.y = y,
                                                               .x = x,
                                                               .w = all,
                                                               .bias = with_bias ? bias : (struct kvc_span){NULL, 0},
                                                               .first = holding(first, sizeof first),
                                                               .experts = EXPERTS,
                                                               .pairs = pairs});
        OPS->weight_free(device, all);
        for (uint32_t e = 0; e < EXPERTS; e++)
            for (uint32_t p = first[e]; p < first[e + 1]; p++) {
                struct kvc_linear linear = {alone, x, NULL, with_bias ? bias : (struct kvc_span){NULL, 0}, 1};
                assert_int_equal(OPS->weight_create(device, KVC_F32, N, K, host[e], &one, NULL), KVC_OK);
                linear.w = one;
                linear.x.offset += p * K * sizeof(float);
                linear.bias.offset += e * N * sizeof(float);
                OPS->linear(device, &linear);
                OPS->weight_free(device, one);
                assert_memory_equal(floats(alone), floats(y) + p * N, N * sizeof(float));
            }
    }
}

static void sum_in_order(void **state) {
    enum { ROWS = 3, USED = 4, WIDTH = 21 };
    static const uint32_t pair[ROWS * USED] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
    const struct kvc_span y = values(ROWS * USED * WIDTH), share = values(ROWS * USED), out = buffer(ROWS * WIDTH * 4);
    const struct kvc_span shared = values(ROWS * WIDTH), shared_logit = values(ROWS), one = buffer(ROWS * WIDTH * 4);
    (void)state;
    OPS->expert_sum(device, &(struct kvc_expert_sum){.out = out,
                                                     .y = y,
                                                     .share = share,
                                                     .pair = holding(pair, sizeof pair),
                                                     .rows = ROWS,
                                                     .used = USED,
                                                     .width = WIDTH});
    for (size_t i = 0; i < ROWS; i++)
        for (size_t n = 0; n < WIDTH; n++) {
            float sum = 0;
            for (size_t j = 0; j < USED; j++)
                sum = fmaf(floats(share)[i * USED + j], floats(y)[pair[i * USED + j] * WIDTH + n], sum);
            assert_true(sum == floats(out)[i * WIDTH + n]);
        }
    OPS->expert_sum(device, &(struct kvc_expert_sum){.out = one,
                                                     .y = y,
                                                     .share = share,
                                                     .pair = holding(pair, sizeof pair),
                                                     .shared = shared,
                                                     .shared_logit = shared_logit,
                                                     .rows = ROWS,
                                                     .used = USED,
                                                     .width = WIDTH});
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        assert_near(floats(one)[i],
                    floats(out)[i] + floats(shared)[i] / (1 + exp(-(double)floats(shared_logit)[i / WIDTH])), 1e-6);
}

/* A matrix whose size does not suit its type, and one too large for any memory. */
static void refused_experts(void **state) {
    const void *host[2] = {NULL, NULL};
    struct kvc_weight *weight;
    struct kvc_error error;
    (void)state;
    assert_int_equal(OPS->experts_create(device, KVC_Q4_K, 2, 3, 255, host, &weight, &error), KVC_INPUT);
    assert_null(weight);
    assert_int_equal(OPS->experts_create(device, KVC_F32, 2, UINT64_MAX, 32, host, &weight, &error), KVC_INPUT);
    assert_null(weight);
}

static int open_cpu(void **state) {
    (void)state;
    return kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, NULL) == KVC_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(routing, end_test), cmocka_unit_test_teardown(no_numbers, end_test),
        cmocka_unit_test_teardown(linear_of_each, end_test), cmocka_unit_test_teardown(sum_in_order, end_test),
        cmocka_unit_test_teardown(refused_experts, end_test)};
    const int failed = cmocka_run_group_tests_name("ref", tests, open_ref, close_ref);
    return cmocka_run_group_tests_name("cpu", tests, open_cpu, close_ref) || failed;
}
