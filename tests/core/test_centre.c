/* test_centre.c - the centre that is subtracted from keys of rotated types: stored keys are those of a session with
 * float32 entries, rotated, minus the mean of the first ones, after prompts, steps, forks and saving. The centre keeps
 * the first key exactly. Methods that read whole keys get whole keys. */
#include <math.h>

#include "core/base/types.h"
#include "core/engine/centre.h"
#include "tests/core/same_sessions.h"

enum { ROWS = 90, STEPS = 45, MORE = 20, SIZE_MOST = 256 };

static struct kvc_session *open_pair(const char *policy, enum kvc_type key, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = (struct kvc_entry_types){key, KVC_F32};
    options.chunk = chunk;
    FINE(kvc_session_open(model, &options, &session, &error));
    return session;
}

/* Reads the factors of head h of layer 0 by which keys are multiplied. Those of queries are their inverses. */
static void factors_of(struct kvc_session *session, uint32_t h, float *factor) {
    const uint32_t d = kvc_model_info(model)->head_size, heads = kvc_model_info(model)->kv_heads;
    struct kvc_device *device = session->runner->device;
    float inverse[SIZE_MOST];
    for (uint32_t i = 0; i < d; i++)
        factor[i] = 1.0f;
    for (uint32_t part = 1; part < 3 && session->centres; part++)
        device->ops->download(device, part == 1 ? factor : inverse,
                              (struct kvc_span){session->centres, (part * heads + h) * d * sizeof(float)},
                              d * sizeof(float));
    for (uint32_t i = 0; i < d && session->centres; i++)
        assert_true(factor[i] > 0.0f && fabs((double)factor[i] * (double)inverse[i] - 1.0) < 1e-6);
}

/* Multiplies a key by its factors and transforms it by the definition: signs of a Hadamard matrix, in each part of the
 * head. */
static void rotate(double *y, const float *k, const float *factor, uint32_t d) {
    const uint32_t width = d & (~d + 1);
    for (uint32_t i = 0; i < d; i++) {
        y[i] = 0.0;
        for (uint32_t j = 0; j < width; j++)
            y[i] += (double)k[i / width * width + j] * (double)factor[i / width * width + j] *
                    (__builtin_popcount(i % width & j) % 2 ? -1.0 : 1.0);
        y[i] /= sqrt((double)width);
    }
}

/* Returns the quotient of a group's largest value and the largest error. Q4H may store the largest value, 140 scales,
 * as 113. */
static double half_of(enum kvc_type type) { return type == KVC_Q4H ? 140.0 / (140 - 113) : 32.0; }

static double largest_of(const double *y, const double *mean, uint32_t from, uint32_t end) {
    double largest = 0.0;
    for (uint32_t i = from; i < end; i++)
        largest = fmax(largest, fabs(y[i] - mean[i]));
    return largest;
}

/* Checks the centre of head h of layer 0, and writes it over the mean [d]. k and s are the first key, whole and as
 * stored. Their difference is the centre, and the centre differs from the mean by the rounding of a key. */
static void check_centre(struct kvc_session *stored, uint32_t h, const float *k, const float *s, double *mean,
                         const char *what) {
    const uint32_t d = kvc_model_info(model)->head_size;
    const double half = half_of(kvc_session_cache_type(stored).key);
    float centre[SIZE_MOST], factor[SIZE_MOST];
    double y[SIZE_MOST];
    factors_of(stored, h, factor);
    stored->runner->device->ops->download(stored->runner->device, centre,
                                          (struct kvc_span){stored->centres, h * d * sizeof(float)}, d * sizeof(float));
    rotate(y, k, factor, d);
    for (uint32_t i = 0; i < d; i++) {
        const uint32_t from = i / 32 * 32, end = from + 32 < d ? from + 32 : d;
        if (!(fabs(s[i] + (double)centre[i] - y[i]) <= 1e-5 * fabs(y[i]) + 1e-5))
            fail_msg("%s: head %u, channel %u: the first key is %g, but %g + %g is stored", what, h, i, y[i],
                     (double)s[i], (double)centre[i]);
        if (i == from) {
            const double most = largest_of(y, mean, from, end) / half * 1.01 + 1e-6;
            for (uint32_t j = from; j < end; j++) {
                assert_true(fabs((double)centre[j] - mean[j]) <= most);
                mean[j] = centre[j];
            }
        }
    }
}

/* Compares the stored keys of layer 0, which do not depend on how entries are rounded, with the expected ones. `first`
 * is the number of keys in the mean; 0: no mean. */
static void check_keys(struct kvc_session *whole, struct kvc_session *stored, uint32_t first, const char *what) {
    const uint32_t d = kvc_model_info(model)->head_size, heads = kvc_model_info(model)->kv_heads;
    const enum kvc_type type = kvc_session_cache_type(stored).key;
    const double half = half_of(type);
    double mean[SIZE_MOST], y[SIZE_MOST], least = INFINITY;
    float factor[SIZE_MOST];
    assert_true(d <= SIZE_MOST);
    for (uint32_t h = 0; h < heads; h++) {
        size_t bytes[2];
        float *k = entries_of(whole, 0, h, &bytes[0]), *s = entries_of(stored, 0, h, &bytes[1]);
        const size_t rows = bytes[0] / (2 * d + 1) / sizeof(float);
        assert_int_equal(bytes[0], bytes[1]);
        memset(mean, 0, sizeof mean);
        factors_of(stored, h, factor);
        for (size_t r = 0; r < first; r++) {
            rotate(y, k + r * d, factor, d);
            for (uint32_t i = 0; i < d; i++)
                mean[i] += y[i] / first;
        }
        if (first)
            check_centre(stored, h, k, s, mean, what);
        for (size_t r = 0; r < rows; r++) {
            rotate(y, k + r * d, factor, d);
            for (uint32_t g = 0; g < d; g += 32) {
                const uint32_t end = g + 32 < d ? g + 32 : d;
                const double largest = largest_of(y, mean, g, end);
                for (uint32_t i = g; i < end; i++)
                    if (!(fabs((double)s[r * d + i] - (y[i] - mean[i])) <= largest / half * 1.01 + 1e-6))
                        fail_msg("%s: head %u, key %zu, channel %u: %g is stored for %g - %g", what, h, r, i,
                                 (double)s[r * d + i], y[i], mean[i]);
                for (uint32_t i = g; first && i < end && r == 0; i++)
                    least = fmin(least, largest / half / (fabs(mean[i]) + 1e-9));
            }
        }
        free(k);
        free(s);
    }
    assert_true(!first || first > ROWS || type == KVC_Q4H ||
                least < 0.5); /* six bits suffice to see a missing subtraction */
}

static void go(struct kvc_session *session, size_t from, size_t rows, size_t steps) {
    if (rows)
        FINE(kvc_session_prompt(session, tokens + from, rows, NULL, NULL, &error));
    for (size_t i = 0; i < steps; i++)
        FINE(kvc_decode(&session, &tokens[from + rows + i], 1, NULL, NULL, &error));
}

/* A prompt in chunks, steps over several blocks, a second prompt, a fork, a saved session. */
static void test_keys(void **state) {
    (void)state;
    static const enum kvc_type types[] = {KVC_Q4H, KVC_Q6H};
    static const size_t prompts[] = {ROWS, KVC_MEAN_ROWS, 300, 5, 1};
    for (size_t t = 0; t < 2; t++)
        for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++) {
            struct kvc_session *whole = open_pair("full", KVC_F32, 0), *fork, *loaded;
            struct kvc_session *stored = open_pair("full", types[t], p % 2 ? 7 : 0);
            const uint32_t first = (uint32_t)prompts[p] < KVC_MEAN_ROWS ? (uint32_t)prompts[p] : KVC_MEAN_ROWS;
            char path[600];
            go(whole, 0, prompts[p], STEPS);
            go(stored, 0, prompts[p], STEPS);
            check_keys(whole, stored, first, "prompt and steps");
            FINE(kvc_session_fork(stored, &fork, &error));
            snprintf(path, sizeof path, "%s.centre", model_path);
            FINE(kvc_session_save(stored, path, NULL, &error));
            FINE(kvc_session_load(model, NULL, path, NULL, &loaded, &error));
            remove(path);
            struct kvc_session *const all[] = {whole, stored, fork, loaded};
            for (size_t i = 0; i < 4; i++)
                go(all[i], prompts[p] + STEPS, MORE, STEPS);
            check_keys(whole, stored, first, "second turn");
            check_keys(whole, fork, first, "fork");
            check_keys(whole, loaded, first, "loaded");
            same(stored, fork, "full", "fork");
            same(stored, loaded, "full", "loaded");
            for (size_t i = 0; i < 4; i++)
                kvc_session_close(all[i]);
        }
}

/* An eviction and its relayout leave the mean as it is. */
static void test_evictions(void **state) {
    (void)state;
    struct kvc_session *session = open_pair("morphkv:budget=40", KVC_Q4H, 0), *copy;
    float before[SIZE_MOST * 8], after[SIZE_MOST * 8];
    struct kvc_device *device = session->runner->device;
    go(session, 0, ROWS, 0);
    assert_non_null(session->centres);
    const size_t bytes = kvc_model_info(model)->kv_heads * kvc_model_info(model)->head_size * sizeof(float);
    assert_true(bytes <= sizeof before);
    device->ops->download(device, before, (struct kvc_span){session->centres, 0}, bytes);
    go(session, ROWS, 0, STEPS);
    FINE(kvc_session_fork(session, &copy, &error));
    for (size_t i = 0; i < 2; i++) {
        device->ops->download(device, after, (struct kvc_span){i ? copy->centres : session->centres, 0}, bytes);
        assert_memory_equal(before, after, bytes);
        assert_int_equal(session->cache.layer[0].mean_rows, ROWS);
    }
    kvc_session_close(session);
    kvc_session_close(copy);
}

/* Methods that read whole keys, and types that are not rotated. */
static void test_whole_keys(void **state) {
    (void)state;
    static const char *const specs[] = {"knorm:budget=400", "keydiff:budget=400", "rkv:budget=400",
                                        "streaming:budget=400,positions=cache", "full"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct kvc_session *whole = open_pair("full", KVC_F32, 0);
        struct kvc_session *stored = open_pair(specs[i], i == 4 ? KVC_Q8_0 : KVC_Q4H, 0);
        assert_null(stored->centres);
        go(whole, 0, ROWS, 3);
        go(stored, 0, ROWS, 3);
        if (i < 4)
            check_keys(whole, stored, 0, specs[i]);
        kvc_session_close(whole);
        kvc_session_close(stored);
    }
}

/* In a layer with a sliding window, the first key leaves the window, and the centre is the mean. */
static void test_sliding_windows(void **state) {
    (void)state;
    enum { FIRST = 6 }; /* tokens, fewer than the window */
    struct kvc_model *const whole_model = model;
    const char *source = getenv("top_srcdir");
    char path[600];
    snprintf(path, sizeof path, "%s/tests/data/golden/mistral-window/model.gguf", source ? source : ".");
    FINE(kvc_model_open(engine, path, &model, &error));
    struct kvc_session *whole = open_pair("full", KVC_F32, 0), *stored = open_pair("full", KVC_Q4H, 0);
    const uint32_t d = kvc_model_info(model)->head_size;
    float centre[SIZE_MOST], factor[SIZE_MOST];
    double y[SIZE_MOST];
    int32_t ids[FIRST];
    for (uint32_t i = 0; i < FIRST; i++)
        ids[i] = (int32_t)i + 3;
    FINE(kvc_session_prompt(whole, ids, FIRST, NULL, NULL, &error));
    FINE(kvc_session_prompt(stored, ids, FIRST, NULL, NULL, &error));
    for (uint32_t h = 0; h < kvc_model_info(model)->kv_heads; h++) {
        size_t bytes;
        double mean[SIZE_MOST] = {0};
        float *k = entries_of(whole, 0, h, &bytes);
        factors_of(stored, h, factor);
        for (size_t r = 0; r < FIRST; r++) {
            rotate(y, k + r * d, factor, d);
            for (uint32_t i = 0; i < d; i++)
                mean[i] += y[i] / FIRST;
        }
        free(k);
        stored->runner->device->ops->download(stored->runner->device, centre,
                                              (struct kvc_span){stored->centres, h * d * sizeof(float)},
                                              d * sizeof(float));
        for (uint32_t i = 0; i < d; i++)
            assert_true(fabs((double)centre[i] - mean[i]) <= 1e-5);
    }
    kvc_session_close(whole);
    kvc_session_close(stored);
    kvc_model_close(model);
    model = whole_model;
}

/* A method's own code that reads whole keys without saying so is refused. */
static enum kvc_status evict_by_norm(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *cause) {
    struct kvc_scores *scores;
    (void)values;
    const enum kvc_status status = kvc_stage_scores(stage, &scores, cause);
    return status == KVC_OK ? kvc_stage_entry_scores(stage, KVC_ENTRY_NORM, 0, scores, cause) : status;
}

static void test_refused(void **state) {
    (void)state;
    static const struct kvc_policy_class method = {
        .name = "bynorm", .summary = "scores by norms", .stages = KVC_STAGE_PROMPT, .prompt = evict_by_norm};
    FINE(kvc_engine_register(engine, &method, &error));
    struct kvc_session *session = open_pair("bynorm", KVC_Q4H, 0);
    REFUSED(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error), KVC_USAGE, "must have whole_keys = true");
    kvc_session_close(session);
    session = open_pair("bynorm", KVC_Q8_0, 0);
    go(session, 0, ROWS, 0);
    kvc_session_close(session);
}

/* One prompt for several sessions, with means and without. */
static void test_many(void **state) {
    (void)state;
    static const char *const specs[] = {"knorm:budget=40", "full", "h2o:budget=40", "snapkv:budget=40", "full"};
    enum { MANY = sizeof specs / sizeof *specs };
    struct kvc_session *together[MANY];
    for (size_t i = 0; i < MANY; i++)
        together[i] = open_pair(specs[i], i == 4 ? KVC_F32 : KVC_Q4H, 0);
    FINE(kvc_session_prompt_many(together, MANY, tokens, ROWS, NULL, NULL, &error));
    for (size_t i = 0; i < MANY; i++) {
        struct kvc_session *alone = open_pair(specs[i], i == 4 ? KVC_F32 : KVC_Q4H, 0);
        go(alone, 0, ROWS, 0);
        same(alone, together[i], specs[i], "together");
        go(alone, ROWS, 0, 9);
        go(together[i], ROWS, 0, 9);
        same(alone, together[i], specs[i], "together, then steps");
        kvc_session_close(alone);
        kvc_session_close(together[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys),       cmocka_unit_test(test_evictions),
                                       cmocka_unit_test(test_whole_keys), cmocka_unit_test(test_sliding_windows),
                                       cmocka_unit_test(test_refused),    cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
