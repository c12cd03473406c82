/* test_sampler.c - sampling: order of equal logits, limits, penalties, and frequencies of drawn tokens. */
#include "kvcull.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct kvc_sampler *open_sampler(struct kvc_sampler_options options, uint32_t vocab) {
    struct kvc_error error;
    struct kvc_sampler *sampler;
    if (kvc_sampler_open(&options, vocab, &sampler, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return sampler;
}

static struct kvc_sampler_options plain(float temperature) {
    return (struct kvc_sampler_options){
        .temperature = temperature, .top_p = 1, .repeat_penalty = 1, .repeat_last = 64, .seed = 42};
}

static void test_greedy(void **state) {
    (void)state;
    const float logits[] = {-3, 2, 2, -INFINITY, 1}, zeros[] = {-0.0f, 0.0f, -1, -2, -3},
                odd[] = {NAN, -5, NAN, -4, -5};
    struct kvc_sampler *sampler = open_sampler(plain(0), 5);
    assert_int_equal(kvc_sample(sampler, logits), 1); /* the lowest id where equal */
    assert_int_equal(kvc_sample(sampler, zeros), 0);  /* -0 equals +0 */
    assert_int_equal(kvc_sample(sampler, odd), 3);    /* NaN never wins */
    kvc_sampler_close(sampler);
}

static void test_penalty(void **state) {
    (void)state;
    const float logits[] = {1.0f, 1.5f, -1.0f};
    struct kvc_sampler_options options = plain(0);
    options.repeat_penalty = 2;
    options.repeat_last = 2;
    struct kvc_sampler *sampler = open_sampler(options, 3);
    assert_int_equal(kvc_sample(sampler, logits), 1);
    assert_int_equal(kvc_sample(sampler, logits), 0); /* 1.5 / 2 < 1 */
    assert_int_equal(kvc_sample(sampler, logits), 1); /* both are among the last two tokens: 0.75 > 0.5 */
    kvc_sampler_accept(sampler, 0);
    kvc_sampler_accept(sampler, 0);
    assert_int_equal(kvc_sample(sampler, logits), 1); /* token 1 is no longer among the last two */
    kvc_sampler_accept(sampler, 99);                  /* an unknown token is harmless */
    kvc_sampler_close(sampler);
    const float below[] = {-1.0f, -1.5f, -9.0f}; /* lower negative logits are less likely, too */
    sampler = open_sampler(options, 3);
    assert_int_equal(kvc_sample(sampler, below), 0);
    assert_int_equal(kvc_sample(sampler, below), 1); /* -1 * 2 < -1.5 */
    kvc_sampler_close(sampler);
}

/* The frequencies of tokens over many draws; tokens that must not occur have the frequency 0. */
static void draw_many(struct kvc_sampler_options options, const float *logits, uint32_t vocab, double *shares) {
    enum { DRAWS = 20000 };
    struct kvc_sampler *sampler = open_sampler(options, vocab);
    for (uint32_t t = 0; t < vocab; t++)
        shares[t] = 0;
    for (int i = 0; i < DRAWS; i++)
        shares[kvc_sample(sampler, logits)] += 1.0 / DRAWS;
    kvc_sampler_close(sampler);
}

static void test_shares(void **state) {
    (void)state;
    const float logits[] = {0, logf(2), logf(4), logf(1), -INFINITY}; /* weights 1 2 4 1 0 */
    double shares[5];
    draw_many(plain(1), logits, 5, shares);
    const double expected[] = {0.125, 0.25, 0.5, 0.125, 0};
    for (int t = 0; t < 5; t++)
        assert_true(fabs(shares[t] - expected[t]) < 0.015);
    draw_many(plain(0.5f), logits, 5, shares); /* weights 1 4 16 1 */
    assert_true(fabs(shares[2] - 16.0 / 22) < 0.015);
    struct kvc_sampler_options options = plain(1);
    options.top_k = 2;
    draw_many(options, logits, 5, shares);
    assert_true(shares[0] == 0 && shares[3] == 0 && fabs(shares[2] - 2.0 / 3) < 0.015);
    options = plain(1);
    options.top_p = 0.7f; /* 0.5 is not enough, 0.75 is */
    draw_many(options, logits, 5, shares);
    assert_true(shares[0] == 0 && shares[3] == 0 && shares[1] > 0.3);
    options = plain(1);
    options.min_p = 0.3f;
    draw_many(options, logits, 5, shares);
    assert_true(shares[0] == 0 && shares[3] == 0 && shares[1] > 0.3);
    options.top_k = 1;
    draw_many(options, logits, 5, shares);
    assert_true(shares[2] > 0.999);
}

/* top_k computed by a partial selection and by sorting gives the same tokens; the seed determines them. */
static void test_selection(void **state) {
    (void)state;
    enum { VOCAB = 5000, DRAWS = 50 };
    float *logits = malloc(VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (uint32_t t = 0; t < VOCAB; t++)
        logits[t] = (float)((t * 2654435761u >> 16) % 97) / 8; /* many are equal */
    struct kvc_sampler_options few = plain(1), many = plain(1);
    few.top_k = 200, few.min_p = 0;
    many.top_k = 0, many.min_p = 0;
    struct kvc_sampler *a = open_sampler(few, VOCAB), *b = open_sampler(few, VOCAB), *c = open_sampler(many, VOCAB);
    few.seed = 43;
    struct kvc_sampler *d = open_sampler(few, VOCAB);
    int others = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t token = kvc_sample(a, logits);
        assert_int_equal(kvc_sample(b, logits), token);
        others += kvc_sample(d, logits) != token;
        uint32_t better = 0; /* the number of tokens ranked before it by rule 4 */
        for (uint32_t t = 0; t < VOCAB; t++)
            better += logits[t] > logits[token] || (logits[t] == logits[token] && t < (uint32_t)token);
        assert_true(better < 200);
        assert_in_range(kvc_sample(c, logits), 0, VOCAB - 1);
    }
    assert_true(others > DRAWS / 2);
    kvc_sampler_close(a);
    kvc_sampler_close(b);
    kvc_sampler_close(c);
    kvc_sampler_close(d);
    free(logits);
}

static void test_ranges(void **state) {
    (void)state;
    struct kvc_error error;
    struct kvc_sampler *sampler;
    struct kvc_sampler_options bad[] = {plain(-1), plain(NAN), plain(1), plain(1), plain(1), plain(1)};
    bad[2].top_k = -1;
    bad[3].top_p = 0;
    bad[4].min_p = 1.5f;
    bad[5].repeat_penalty = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvc_sampler_open(&bad[i], 10, &sampler, &error), KVC_USAGE);
    assert_int_equal(
        kvc_sampler_open(&(struct kvc_sampler_options){.top_p = 1, .repeat_penalty = 1}, 0, &sampler, &error),
        KVC_USAGE);
}

/* The likeliest token by OpenAI's formula: mu[j] - c[j] * frequency - (c[j] > 0) * presence. */
static int32_t penalized_best(const float *logits, const int *counts, int vocab, double frequency, double presence) {
    int best = 0;
    double most = -INFINITY;
    for (int j = 0; j < vocab; j++) {
        const double mu = (double)logits[j] - counts[j] * frequency - (counts[j] > 0 ? presence : 0);
        if (mu > most) {
            most = mu;
            best = j;
        }
    }
    return best;
}

static void test_frequency_and_presence(void **state) {
    (void)state;
    enum { VOCAB = 7, DRAWN = 200 };
    static const float pairs[][2] = {{0.5f, 0}, {0, 1.5f}, {0.25f, 0.75f}, {-1, 0.5f}, {0, -2}, {2, 2}};
    struct kvc_error error;
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        struct kvc_sampler *sampler = open_sampler(plain(0), VOCAB);
        int counts[VOCAB] = {0}, changes = 0;
        assert_int_equal(kvc_sampler_penalties(sampler, pairs[p][0], pairs[p][1], &error), KVC_OK);
        for (int32_t t = 0; t < VOCAB; t++)
            kvc_sampler_accept(sampler, t); /* the tokens of a prompt do not count */
        for (int i = 0; i < DRAWN; i++) {
            float logits[VOCAB];
            for (int j = 0; j < VOCAB; j++) /* multiples of an eighth, for which all sums are exact */
                logits[j] = (float)((i * 37 + j * j * 11 + i * j * 5) % 41) / 8;
            const int32_t plain_best = penalized_best(logits, counts, VOCAB, 0, 0);
            const int32_t wanted = penalized_best(logits, counts, VOCAB, (double)pairs[p][0], (double)pairs[p][1]);
            assert_int_equal(kvc_sample(sampler, logits), wanted);
            counts[wanted]++;
            changes += wanted != plain_best;
        }
        assert_true(changes > 0);
        const float even[VOCAB] = {1, 0.875f};
        assert_int_equal(kvc_sampler_penalties(sampler, 1, 1, &error), KVC_OK); /* counts start from zero again */
        assert_int_equal(kvc_sample(sampler, even), 0);
        assert_int_equal(kvc_sampler_penalties(sampler, 0, 0, &error), KVC_OK);
        assert_int_equal(kvc_sample(sampler, even), 0);
        kvc_sampler_close(sampler);
    }
}

static void test_penalties_with_bias(void **state) {
    (void)state;
    const float logits[] = {1, 2, 3}, bad[][2] = {{2.5f, 0}, {0, -2.5f}, {NAN, 0}, {0, NAN}};
    const struct kvc_bias bias = {0, 1.25f};
    struct kvc_error error;
    struct kvc_sampler *sampler = open_sampler(plain(0), 3);
    assert_int_equal(kvc_sampler_penalties(sampler, 0, 1.5f, &error), KVC_OK);
    assert_int_equal(kvc_sampler_bias(sampler, &bias, 1, &error), KVC_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvc_sampler_penalties(sampler, bad[i][0], bad[i][1], &error), KVC_USAGE);
    assert_int_equal(kvc_sample(sampler, logits), 2); /* 2.25, 2, 3 */
    assert_int_equal(kvc_sample(sampler, logits), 0); /* 2.25, 2, 1.5 */
    assert_int_equal(kvc_sample(sampler, logits), 1); /* 0.75, 2, 1.5 */
    kvc_sampler_close(sampler);
}

static void test_bias(void **state) {
    (void)state;
    const float logits[] = {1, 2, 3, 4};
    const struct kvc_bias biases[] = {{3, 5}, {3, -2}, {1, 1.5f}}, never[] = {{2, -INFINITY}, {3, -INFINITY}};
    const struct kvc_bias bad[] = {{4, 1}, {-1, 1}, {0, NAN}, {0, INFINITY}};
    double shares[4];
    struct kvc_error error;
    struct kvc_sampler *sampler = open_sampler(plain(0), 4);
    assert_int_equal(kvc_sampler_bias(sampler, biases, 3, &error), KVC_OK);
    assert_int_equal(kvc_sample(sampler, logits), 1); /* 3.5 > 3 > 4 - 2: the last bias of a token applies */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvc_sampler_bias(sampler, &bad[i], 1, &error), KVC_USAGE);
    assert_int_equal(kvc_sample(sampler, logits), 1); /* unchanged */
    assert_int_equal(kvc_sampler_bias(sampler, NULL, 0, &error), KVC_OK);
    assert_int_equal(kvc_sample(sampler, logits), 3);
    kvc_sampler_close(sampler);
    sampler = open_sampler(plain(1), 4);
    assert_int_equal(kvc_sampler_bias(sampler, never, 2, &error), KVC_OK);
    memset(shares, 0, sizeof shares);
    for (int i = 0; i < 1000; i++)
        shares[kvc_sample(sampler, logits)]++;
    assert_true(shares[0] > 100 && shares[1] > 500 && shares[2] == 0 && shares[3] == 0);
    kvc_sampler_close(sampler);
}

struct candidate {
    float value;
    int32_t token;
};

/* Higher value first, then the lower token; NaN last. */
static int compare(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    const uint32_t kx = kvc_score_key(x->value), ky = kvc_score_key(y->value);
    return kx != ky ? (kx > ky ? -1 : 1) : x->token < y->token ? -1 : 1;
}

/* Draws exactly as defined: all tokens sorted, all weights summed. */
static int32_t draw_plainly(const struct kvc_sampler_options *o, const float *logits, uint32_t vocab, uint32_t n) {
    struct candidate *all = malloc(vocab * sizeof *all);
    const size_t count = o->top_k > 0 && (uint32_t)o->top_k < vocab ? (size_t)o->top_k : vocab;
    float total = 0, sum = 0;
    size_t kept = 0;
    for (uint32_t t = 0; t < vocab; t++)
        all[t] = (struct candidate){logits[t], (int32_t)t};
    qsort(all, vocab, sizeof *all, compare);
    const float best = all[0].value;
    for (size_t i = 0; i < count; i++) {
        const float weight = kvc_exp((all[i].value - best) / o->temperature);
        all[i].value = weight >= 0 ? weight : 0;
        total += all[i].value;
    }
    while (kept < count && (kept == 0 || (sum < o->top_p * total && all[kept].value >= o->min_p)))
        sum += all[kept++].value;
    const struct kvc_philox words = kvc_philox4x32(n, 0, 0, 0, o->seed);
    float left = ((float)(words.word[0] >> 8) * 0x1p-24f + 0x1p-25f) * sum;
    int32_t token = all[0].token;
    for (size_t i = 0; i < kept; i++)
        if ((left -= all[i].value) < 0) {
            token = all[i].token;
            break;
        }
    free(all);
    return token;
}

/* Logits of one kind; kinds differ in range, in the finest difference, and in how many are equal or unusual. */
static void make_logits(float *logits, uint32_t vocab, uint32_t kind, uint32_t n) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, -NAN};
    static const float spread[] = {0.01f, 3, 40, 1e30f};
    for (uint32_t t = 0; t < vocab; t++) {
        const struct kvc_philox words = kvc_philox4x32(t, n, 0, 0, 7);
        float x = (float)(words.word[0] >> 8) * 0x1p-24f - 0.5f;
        if (kind & 4)
            x = truncf(x * 20) / 20;
        logits[t] = x * spread[kind & 3];
        if (kind & 8 && words.word[1] % 5 == 0)
            logits[t] = odd[words.word[2] % (kind & 16 ? 1 : 6)];
        if (kind == 31)
            logits[t] = words.word[1] % 2 ? NAN : -INFINITY;
    }
}

/* Leaving out unlikely tokens and the way of sorting do not change any token. */
static void test_as_defined(void **state) {
    (void)state;
    static const float temperatures[] = {1e-30f, 0.1f, 1, 100}, p[] = {1, 0.9f, 0.05f}, min[] = {0, 1e-9f, 0.2f};
    static const int32_t k[] = {0, 1, 40, 300};
    float logits[700];
    for (uint32_t n = 0; n < 32 * 4 * 3 * 3 * 4; n++) {
        const uint32_t vocab = n % 3 ? 700 : 1 + n % 50;
        struct kvc_sampler_options options = plain(temperatures[n / 32 % 4]);
        options.top_p = p[n / 128 % 3];
        options.min_p = min[n / 384 % 3];
        options.top_k = k[n / 1152];
        options.seed = n;
        make_logits(logits, vocab, n % 32, n);
        struct kvc_sampler *sampler = open_sampler(options, vocab);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(kvc_sample(sampler, logits), draw_plainly(&options, logits, vocab, i));
        kvc_sampler_close(sampler);
    }
}

/* A very large number of unlikely tokens has a noticeable probability in total. */
static void test_tail(void **state) {
    (void)state;
    enum { VOCAB = 100000 };
    float *logits = malloc(VOCAB * sizeof *logits);
    struct kvc_sampler_options options = plain(1);
    struct kvc_sampler *sampler = open_sampler(options, VOCAB);
    uint32_t far = 0;
    assert_non_null(logits);
    for (uint32_t t = 0; t < VOCAB; t++)
        logits[t] = t == 77777 ? 0 : t % 100 == 0 ? -12 : -13.5f - (float)(t % 97) / 25;
    for (uint32_t i = 0; i < 40; i++) {
        const int32_t token = kvc_sample(sampler, logits);
        assert_int_equal(token, draw_plainly(&options, logits, VOCAB, i));
        far += token != 77777;
    }
    assert_true(far > 0);
    kvc_sampler_close(sampler);
    free(logits);
}

/* Against a plain softmax in double. */
static void test_logprobs(void **state) {
    (void)state;
    enum { VOCAB = 1000 };
    float logits[VOCAB];
    double sum = 0;
    struct kvc_logprob best[8];
    for (int t = 0; t < VOCAB; t++) {
        logits[t] = (float)((t * 7919) % VOCAB) / 100.0f;
        sum += exp((double)logits[t]);
    }
    const float third = kvc_logprobs(logits, VOCAB, 3, best, 8);
    assert_true(fabs((double)third - ((double)logits[3] - log(sum))) < 1e-5);
    for (int i = 0; i < 8; i++) {
        assert_true(logits[best[i].token] == (float)(VOCAB - 1 - i) / 100.0f);
        assert_true(fabs((double)best[i].logprob - ((double)logits[best[i].token] - log(sum))) < 1e-5);
    }
    assert_true(kvc_logprobs(logits, VOCAB, 3, NULL, 0) == third);
    const float few[] = {2, 5, 5, -INFINITY}; /* Equal probabilities are sorted by id; at most as many as there are. */
    (void)kvc_logprobs(few, 4, 0, best, 8);
    assert_int_equal(best[0].token, 1);
    assert_int_equal(best[1].token, 2);
    assert_int_equal(best[2].token, 0);
    assert_int_equal(best[3].token, 3);
    assert_int_equal(best[4].token, -1);
    assert_true(isinf(kvc_logprobs(few, 4, 9, NULL, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy),
                                       cmocka_unit_test(test_penalty),
                                       cmocka_unit_test(test_bias),
                                       cmocka_unit_test(test_logprobs),
                                       cmocka_unit_test(test_shares),
                                       cmocka_unit_test(test_selection),
                                       cmocka_unit_test(test_frequency_and_presence),
                                       cmocka_unit_test(test_penalties_with_bias),
                                       cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_as_defined),
                                       cmocka_unit_test(test_tail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
