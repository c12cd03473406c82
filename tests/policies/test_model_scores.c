/* test_model_scores.c - scores that need more of a model than its attention. Expected attention and leverage are
 * compared with sums in double precision over queries and keys with their rotation undone, and the output projection of
 * values with the projection itself. The models have adjacent rotary pairs, a partial rotation, or query norms. */
#include "core/base/canon.h"
#include "core/stage/stage.h"
#include "kvcull/check.h"
#include "tests/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40, SINKS = 3, FUTURE = 37, MOST_D = 128, MOST_HEADS = 16 };

static struct kvc_error error;

/* For each query head of the layer: sums of the queries before their rotation, and of their products. */
static double first[MOST_HEADS][MOST_D], second[MOST_HEADS][MOST_D][MOST_D];
static unsigned counted, compared;

static const struct kvc_rope *rope_of(const struct kvc_stage *stage) {
    const struct kvc_network *network = stage->session->runner->network;
    return &network->rope[network->layer[stage->layer].rope];
}

static double angle(const struct kvc_rope *rope, double position, uint32_t c) {
    return (double)(float)(position * (double)rope->frequency[c]);
}

static enum kvc_status attended(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, heads = stage->info.heads, half = rope->rotary / 2;
    float *q = malloc((size_t)stage->queries * heads * d * sizeof *q);
    int32_t *position = malloc(stage->queries * sizeof *position);
    (void)values;
    assert_true(q && position && d <= MOST_D && heads <= MOST_HEADS);
    kvc_stage_device(stage)->ops->download(kvc_stage_device(stage), q, stage->q,
                                           (size_t)stage->queries * heads * d * sizeof *q);
    kvc_stage_device(stage)->ops->download(kvc_stage_device(stage), position, stage->positions,
                                           stage->queries * sizeof *position);
    for (uint32_t i = 0; i < stage->queries; i++) {
        if (position[i] == 0)
            memset(first, 0, sizeof first), memset(second, 0, sizeof second), counted = 0;
        if (position[i] < SINKS)
            continue;
        counted++;
        for (uint32_t h = 0; h < heads; h++) {
            double x[MOST_D];
            for (uint32_t c = 0; c < d; c++)
                x[c] = (double)q[((size_t)i * heads + h) * d + c];
            for (uint32_t c = 0; c < half; c++) {
                const double a = x[c], b = x[c + half], t = angle(rope, position[i], c);
                x[c] = a * cos(t) + b * sin(t);
                x[c + half] = b * cos(t) - a * sin(t);
            }
            for (uint32_t b = 0; b < d; b++) {
                first[h][b] += x[b];
                for (uint32_t c = 0; c < d; c++)
                    second[h][b][c] += x[b] * x[c];
            }
        }
    }
    free(q);
    free(position);
    return kvc_stage_query_moments(stage, SINKS, e);
}

/* (k . R mu) scale + k . (R C R^T) k scale^2 / 2. */
static double expected_score(const struct kvc_stage *stage, uint32_t h, const float *key, double scale) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, half = rope->rotary / 2;
    double y[MOST_D], a = 0, b = 0;
    for (uint32_t c = 0; c < d; c++)
        y[c] = (double)key[c];
    for (uint32_t c = 0; c < half; c++) {
        double cosine = 0, sine = 0;
        for (uint32_t i = 0; i < FUTURE; i++) {
            cosine += cos(angle(rope, (double)(stage->info.now + i), c)) / FUTURE;
            sine += sin(angle(rope, (double)(stage->info.now + i), c)) / FUTURE;
        }
        y[c] = (double)key[c] * cosine + (double)key[c + half] * sine;
        y[c + half] = (double)key[c + half] * cosine - (double)key[c] * sine;
    }
    for (uint32_t i = 0; i < d; i++) {
        a += y[i] * first[h][i] / counted;
        for (uint32_t c = 0; c < d; c++)
            b += y[i] * y[c] * (second[h][i][c] / counted - first[h][i] / counted * (first[h][c] / counted));
    }
    return scale * a + scale * scale * b / 2;
}

/* Sets u [d] to R mu: query head h's mean, rotated by the mean rotation of future positions. */
static void mean_direction(const struct kvc_stage *stage, uint32_t h, double *u) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t half = rope->rotary / 2;
    for (uint32_t c = 0; c < stage->info.head_size; c++)
        u[c] = first[h][c] / counted;
    for (uint32_t c = 0; c < half; c++) {
        const double a = u[c], b = u[c + half];
        u[c] = u[c + half] = 0;
        for (uint32_t i = 0; i < FUTURE; i++) {
            const double t = angle(rope, (double)(stage->info.now + i), c);
            u[c] += (a * cos(t) - b * sin(t)) / FUTURE;
            u[c + half] += (b * cos(t) + a * sin(t)) / FUTURE;
        }
    }
}

static void load_keys(const struct kvc_stage *stage, uint32_t list, uint32_t n, float *keys, float *values) {
    struct kvc_device *device = kvc_stage_device(stage);
    struct kvc_growable k = {.kind = KVC_MEMORY_SCRATCH}, v = {.kind = KVC_MEMORY_SCRATCH};
    const size_t bytes = (size_t)n * stage->info.head_size * sizeof(float);
    FINE(kvc_growable_reserve(device, &k, bytes, &error));
    FINE(kvc_growable_reserve(device, &v, bytes, &error));
    device->ops->entries(device, &(struct kvc_entries){.lists = &kvc_stage_lists(stage)->lists,
                                                       .head = list,
                                                       .keys = kvc_growable_at(&k, 0),
                                                       .values = kvc_growable_at(&v, 0)});
    device->ops->download(device, keys, kvc_growable_at(&k, 0), bytes);
    device->ops->download(device, values, kvc_growable_at(&v, 0), bytes);
    kvc_growable_free(device, &k);
    kvc_growable_free(device, &v);
}

/* Gives the stage the moments of its own queries as if they came from a file. */
static void give_moments(struct kvc_stage *stage) {
    static float mean[MOST_HEADS * MOST_D], covariance[MOST_HEADS * MOST_D * (MOST_D + 1) / 2];
    const uint32_t d = stage->info.head_size;
    float *next = covariance;
    for (uint32_t h = 0; h < stage->info.heads; h++)
        for (uint32_t b = 0; b < d; b++) {
            mean[h * d + b] = (float)(first[h][b] / counted);
            for (uint32_t c = 0; c <= b; c++)
                *next++ = (float)(second[h][b][c] / counted - first[h][b] / counted * (first[h][c] / counted));
        }
    FINE(kvc_stage_give_moments(stage, mean, covariance, rope_of(stage)->rotary, &error));
    REFUSED(kvc_stage_give_moments(stage, mean, covariance, rope_of(stage)->rotary - 2, &error), KVC_INPUT,
            "rotated channels; the model has");
}

static void compare_expected(struct kvc_stage *stage, const float *keys, const float *values, uint32_t list) {
    const struct kvc_scoring scoring = kvc_runner_scoring(stage->session->runner);
    const uint32_t d = stage->info.head_size, group = stage->info.heads / stage->info.kv_heads;
    const double scale = (double)kvc_score_scale(scoring.scale, d);
    const struct kvc_expectation what = {
        .first = SINKS, .future = FUTURE, .covariance = true, .values = true, .epsilon = 0.01f};
    struct kvc_scores *scores;
    float got[ROWS];
    double p[ROWS] = {0};
    size_t n;
    FINE(kvc_stage_scores(stage, &scores, &error));
    FINE(kvc_stage_expected_scores(stage, &what, scores, &error));
    FINE(kvc_stage_read_scores(stage, scores, list, got, ROWS, &n, &error));
    assert_int_equal(n, ROWS);
    for (uint32_t g = list * group; g < (list + 1) * group; g++) {
        double s[ROWS], most = -INFINITY, all = 0;
        for (uint32_t r = SINKS; r < ROWS; r++) {
            s[r] = expected_score(stage, g, keys + (size_t)r * d, scale);
            most = fmax(most, s[r]);
        }
        for (uint32_t r = SINKS; r < ROWS; r++)
            all += exp(s[r] - most);
        for (uint32_t r = SINKS; r < ROWS; r++)
            p[r] += exp(s[r] - most) / all / group;
    }
    for (uint32_t r = SINKS; r < ROWS; r++) {
        double square = 0;
        for (uint32_t c = 0; c < d; c++)
            square += (double)values[(size_t)r * d + c] * (double)values[(size_t)r * d + c];
        const double right = (p[r] + (double)0.01f) * sqrt(square);
        if (fabs((double)got[r] - right) > 1e-3 * right + 1e-9)
            fail_msg("layer %u, list %u, index %u: %g in place of %g", stage->layer, list, r, (double)got[r], right);
    }
    stage->score_count = 0;
}

/* The weights of the list's first query head are exp(cos(k, R mu) - the highest one). */
static void compare_weights(struct kvc_stage *stage, const float *keys, uint32_t list) {
    const uint32_t d = stage->info.head_size, h = list * (stage->info.heads / stage->info.kv_heads);
    struct kvc_scores *weights;
    float got[ROWS];
    double direction[MOST_D], likeness[ROWS], square = 0, most = -1;
    size_t n;
    FINE(kvc_stage_head_scores(stage, &weights, &error));
    FINE(kvc_stage_mean_weights(stage, SINKS, FUTURE, 1.0f, weights, &error));
    FINE(kvc_stage_read_scores(stage, weights, h, got, ROWS, &n, &error));
    mean_direction(stage, h, direction);
    for (uint32_t c = 0; c < d; c++)
        square += direction[c] * direction[c];
    for (uint32_t r = SINKS; r < ROWS; r++) {
        double dot = 0, length = 0;
        for (uint32_t c = 0; c < d; c++) {
            dot += direction[c] * (double)keys[(size_t)r * d + c];
            length += (double)keys[(size_t)r * d + c] * (double)keys[(size_t)r * d + c];
        }
        likeness[r] = dot / sqrt(square * length);
        most = fmax(most, likeness[r]);
    }
    for (uint32_t r = SINKS; r < ROWS; r++)
        if (fabs((double)got[r] - exp(likeness[r] - most)) > 1e-4)
            fail_msg("layer %u, head %u, index %u: weight %g in place of %g", stage->layer, h, r, (double)got[r],
                     exp(likeness[r] - most));
    stage->score_count = 0;
}

/* x . A^-1 x by elimination; A [d, d] is symmetric. A and x [d] are overwritten. */
static double solved(double (*A)[MOST_D], double *x, uint32_t d) {
    double y[MOST_D], sum = 0;
    memcpy(y, x, d * sizeof *y);
    for (uint32_t c = 0; c < d; c++)
        for (uint32_t b = c + 1; b < d; b++) {
            const double factor = A[b][c] / A[c][c];
            for (uint32_t i = c; i < d; i++)
                A[b][i] -= factor * A[c][i];
            x[b] -= factor * x[c];
        }
    for (uint32_t c = d; c-- > 0;) {
        for (uint32_t i = c + 1; i < d; i++)
            x[c] -= A[c][i] * x[i];
        x[c] /= A[c][c];
        sum += x[c] * y[c];
    }
    return sum;
}

/* Leverage of keys whose rotation is undone. Leverage is always below 1; 1 minus the leverage is the smaller number
 * where entries are few, so the error is compared with it. */
static void compare_leverage(struct kvc_stage *stage, const float *keys, uint32_t list) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, half = rope->rotary / 2;
    static double x[ROWS][MOST_D], gram[MOST_D][MOST_D], A[MOST_D][MOST_D];
    struct kvc_scores *scores;
    float got[ROWS];
    size_t n;
    memset(gram, 0, sizeof gram);
    FINE(kvc_stage_scores(stage, &scores, &error));
    FINE(kvc_stage_leverage(stage, SINKS, 0, scores, &error));
    FINE(kvc_stage_read_scores(stage, scores, list, got, ROWS, &n, &error));
    for (uint32_t r = SINKS; r < ROWS; r++)
        for (uint32_t c = 0; c < d; c++) {
            const double mine = (double)keys[(size_t)r * d + c], t = angle(rope, r, c < half ? c : c - half);
            x[r][c] = c >= 2 * half ? mine
                      : c < half    ? mine * cos(t) + (double)keys[(size_t)r * d + c + half] * sin(t)
                                    : mine * cos(t) - (double)keys[(size_t)r * d + c - half] * sin(t);
        }
    for (uint32_t c = 0; c < d; c++) {
        double mean = 0;
        for (uint32_t r = SINKS; r < ROWS; r++)
            mean += x[r][c] / (ROWS - SINKS);
        for (uint32_t r = SINKS; r < ROWS; r++)
            x[r][c] -= mean;
    }
    for (uint32_t b = 0; b < d; b++)
        for (uint32_t c = 0; c < d; c++) {
            gram[b][c] = b == c ? (double)0.01f : 0;
            for (uint32_t r = SINKS; r < ROWS; r++)
                gram[b][c] += x[r][b] * x[r][c];
        }
    for (uint32_t r = SINKS; r < ROWS; r++) {
        memcpy(A, gram, sizeof A);
        const double right = solved(A, x[r], d);
        if (fabs((double)got[r] - right) > 0.02 * (1 - right) + 1e-4)
            fail_msg("layer %u, list %u, index %u: leverage %g in place of %g", stage->layer, list, r, (double)got[r],
                     right);
    }
    stage->score_count = 0;
}

/* The rows of each head's value are projected separately. */
static void compare_norms(struct kvc_stage *stage, const float *values, uint32_t list) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const uint32_t d = stage->info.head_size, heads = stage->info.heads, group = heads / stage->info.kv_heads;
    const uint32_t hidden = runner->network->hidden;
    struct kvc_growable x = {.kind = KVC_MEMORY_SCRATCH}, y = {.kind = KVC_MEMORY_SCRATCH};
    float *in = calloc((size_t)ROWS * heads * d, sizeof *in), *out = malloc((size_t)ROWS * hidden * sizeof *out);
    struct kvc_scores *norms;
    float got[ROWS];
    size_t n;
    assert_true(in && out);
    FINE(kvc_stage_head_scores(stage, &norms, &error));
    FINE(kvc_stage_output_norms(stage, norms, &error));
    FINE(kvc_growable_reserve(device, &x, (size_t)ROWS * heads * d * sizeof *in, &error));
    FINE(kvc_growable_reserve(device, &y, (size_t)ROWS * hidden * sizeof *out, &error));
    for (uint32_t g = list * group; g < (list + 1) * group; g++) {
        memset(in, 0, (size_t)ROWS * heads * d * sizeof *in);
        for (uint32_t r = 0; r < ROWS; r++)
            memcpy(in + ((size_t)r * heads + g) * d, values + (size_t)r * d, d * sizeof *in);
        device->ops->upload(device, kvc_growable_at(&x, 0), in, (size_t)ROWS * heads * d * sizeof *in);
        device->ops->linear(device, &(struct kvc_linear){.y = kvc_growable_at(&y, 0),
                                                         .x = kvc_growable_at(&x, 0),
                                                         .w = runner->network->layer[stage->layer].output,
                                                         .rows = ROWS});
        device->ops->download(device, out, kvc_growable_at(&y, 0), (size_t)ROWS * hidden * sizeof *out);
        FINE(kvc_stage_read_scores(stage, norms, g, got, ROWS, &n, &error));
        for (uint32_t r = 0; r < ROWS; r++) {
            double sum = 0;
            for (uint32_t i = 0; i < hidden; i++)
                sum += fabs((double)out[(size_t)r * hidden + i]);
            if (fabs((double)got[r] - sum) > 1e-4 * sum)
                fail_msg("layer %u, head %u, index %u: %g in place of %g", stage->layer, g, r, (double)got[r], sum);
        }
    }
    kvc_growable_free(device, &x);
    kvc_growable_free(device, &y);
    free(in);
    free(out);
    stage->score_count = 0;
}

static enum kvc_status prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const uint32_t d = stage->info.head_size;
    float *keys = malloc(2 * (size_t)ROWS * d * sizeof *keys);
    (void)values, (void)e;
    assert_non_null(keys);
    assert_int_equal(counted, ROWS - SINKS);
    for (uint32_t list = 0; list < stage->info.kv_heads; list++) {
        load_keys(stage, list, ROWS, keys, keys + (size_t)ROWS * d);
        compare_expected(stage, keys, keys + (size_t)ROWS * d, list);
        compare_weights(stage, keys, list);
        compare_leverage(stage, keys, list);
        compare_norms(stage, keys + (size_t)ROWS * d, list);
    }
    give_moments(stage);
    for (uint32_t list = 0; list < stage->info.kv_heads; list++) {
        load_keys(stage, list, ROWS, keys, keys + (size_t)ROWS * d);
        compare_expected(stage, keys, keys + (size_t)ROWS * d, list);
    }
    compared++;
    free(keys);
    return KVC_OK;
}

static const struct kvc_option options[] = {{.name = NULL}};
static const struct kvc_policy_class looks = {.name = "looks",
                                              .summary = "compares",
                                              .stages = KVC_STAGE_PROMPT,
                                              .options = options,
                                              .attended = attended,
                                              .prompt = prompt};

static void models(void **state) {
    static const char *const folders[] = {
        "data/demo",
        "tests/data/golden/cohere",
        "tests/data/golden/qwen3",
        "tests/data/golden/glm4",
        "tests/data/golden/phi2",
        "tests/data/golden/smollm3" /* layers with and without rotation have a rope each */};
    const struct kvc_engine_options engine_options = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    struct kvc_engine *engine;
    const char *source = getenv("top_srcdir");
    (void)state;
    FINE(kvc_engine_open(&engine_options, &engine, &error));
    FINE(kvc_engine_register(engine, &looks, &error));
    for (size_t i = 0; i < (kvc_test_thinned() ? 1 : sizeof folders / sizeof *folders); i++) {
        struct kvc_session_options with;
        struct kvc_session *session;
        struct kvc_model *model;
        int32_t tokens[ROWS];
        char path[512];
        snprintf(path, sizeof path, "%s/%s", source ? source : ".", folders[i]);
        FINE(kvc_model_open(engine, path, &model, &error));
        for (uint32_t t = 0; t < ROWS; t++)
            tokens[t] = (int32_t)(t * 7919 % kvc_model_info(model)->vocab);
        kvc_session_defaults(&with);
        with.policy = "looks";
        with.cache_type = kvc_entry_types(i % 2 ? KVC_F16 : KVC_F32);
        with.chunk = i % 2 ? 7 : 0;
        compared = 0;
        FINE(kvc_session_open(model, &with, &session, &error));
        FINE(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error));
        assert_int_equal(compared, kvc_model_info(model)->layers);
        kvc_session_close(session);
        kvc_model_close(model);
    }
    kvc_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
