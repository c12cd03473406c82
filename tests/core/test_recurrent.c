/* test_recurrent.c - sessions over a model with gated delta nets in every other layer: results do not depend on
 * batching, with any method; rows that methods add to a prompt do not change the recurrent state; and the memory of
 * that state is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvcull/policy.h"
#include "tests/check.h"
#include "tests/core/turns.h"
#include "tests/method_spec.h"

enum { PROMPT = 90, MORE = 20, STEPS = 5, BUDGET = 40 };

static char path[512];
static struct kvc_engine *engine; /* an engine with two threads */
static struct kvc_model *model;
static uint32_t vocab;
static int32_t tokens[600];
static struct kvc_error error;

static int open_model(void **state) {
    const struct kvc_engine_options options = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    const char *source = getenv("top_srcdir");
    (void)state;
    snprintf(path, sizeof path, "%s/tests/data/golden/qwen35/model.gguf", source ? source : ".");
    FINE(kvc_engine_open(&options, &engine, &error));
    FINE(kvc_model_open(engine, path, &model, &error));
    vocab = kvc_model_info(model)->vocab;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)(i * i * 7919u % 104729u % vocab);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}

static uint64_t run(struct kvc_model *m, const char *spec, uint32_t chunk) {
    const struct turns turns = {tokens, {PROMPT, MORE}, STEPS, vocab, false};
    return run_turns(&turns, open_chunked(m, spec, chunk));
}

/* A prompt at once equals a prompt token by token, and that equals a decode step for each token. */
static void one_by_one(void **state) {
    float *whole = malloc(vocab * sizeof *whole), *steps = malloc(vocab * sizeof *steps);
    struct kvc_session *a = open_chunked(model, "full", 0), *b = open_chunked(model, "full", 1);
    struct kvc_session *c = open_chunked(model, "full", 0);
    (void)state;
    assert_true(whole && steps);
    FINE(kvc_session_prompt(a, tokens, PROMPT, NULL, whole, &error));
    FINE(kvc_session_prompt(b, tokens, PROMPT, NULL, steps, &error));
    assert_memory_equal(whole, steps, vocab * sizeof *whole);
    FINE(kvc_session_prompt(c, tokens, 1, NULL, steps, &error));
    for (size_t i = 1; i < PROMPT; i++)
        FINE(kvc_decode(&c, &tokens[i], 1, steps, NULL, &error));
    assert_memory_equal(whole, steps, vocab * sizeof *whole);
    kvc_session_close(a);
    kvc_session_close(b);
    kvc_session_close(c);
    free(whole);
    free(steps);
}

/* Every method; the i-th uses one of the chunk sizes and one of the engines. */
static void every_method(void **state) {
    static const struct kvc_engine_options others[] = {{.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "cpu", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "cpu", .threads = 3, .math = KVC_MATH_EXACT}};
    enum { OTHERS = sizeof others / sizeof *others };
    static const uint32_t chunks[] = {1, 7, 64};
    struct kvc_engine *other[OTHERS];
    struct kvc_model *same[OTHERS];
    (void)state;
    for (size_t i = 0; i < OTHERS; i++) {
        FINE(kvc_engine_open(&others[i], &other[i], &error));
        FINE(kvc_model_open(other[i], path, &same[i], &error));
    }
    const struct kvc_policy_class *policy;
    size_t methods = 0;
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char spec[200];
        kvc_test_method_spec(policy, BUDGET, spec, sizeof spec);
        const uint64_t expected = run(model, spec, 0);
        methods++;
        if (run(model, spec, chunks[i % 3]) != expected)
            fail_msg("%s: chunks of %u change a bit", spec, chunks[i % 3]);
        if (run(same[i % OTHERS], spec, 0) != expected)
            fail_msg("%s: %s differs", spec, kvc_engine_backend(other[i % OTHERS]));
    }
    assert_true(methods > 20);
    for (size_t i = 0; i < OTHERS; i++) {
        kvc_model_close(same[i]);
        kvc_engine_close(other[i]);
    }
}

/* Two methods that evict nothing and add rows: one adds five tokens after the prompt, the other repeats the last three
 * tokens after every chunk. */
static uint32_t adds_counted;
static uint32_t five_tokens(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset,
                            int32_t *more) {
    (void)values;
    (void)turn;
    *offset = 0;
    for (int32_t i = 0; more && i < 5; i++, adds_counted++)
        more[i] = 7 * i + 3;
    return 5;
}
static void chunks_with_probes(const struct kvc_values *values, struct kvc_chunking *chunking) {
    (void)values;
    chunking->chunk = 32;
    chunking->probe = 3;
}
static enum kvc_status keep_all(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)stage;
    (void)values;
    (void)e;
    return KVC_OK;
}
static const struct kvc_option no_options[] = {{0}};
static const struct kvc_policy_class pseudo_adder = {.name = "pseudo_adder",
                                                     .summary = "adds pseudo rows, keeps everything",
                                                     .stages = KVC_STAGE_PROMPT,
                                                     .options = no_options,
                                                     .prompt = keep_all,
                                                     .pseudo = five_tokens};
static const struct kvc_policy_class probe_adder = {.name = "probe_adder",
                                                    .summary = "adds probes to chunks, keeps everything",
                                                    .stages = KVC_STAGE_CHUNK,
                                                    .options = no_options,
                                                    .chunk = keep_all,
                                                    .chunking = chunks_with_probes};

/* Added rows see the state and leave it unchanged: every logit equals that of `full`. */
static void added_rows(void **state) {
    const uint64_t expected = run(model, "full", 0);
    (void)state;
    FINE(kvc_engine_register(engine, &pseudo_adder, &error));
    FINE(kvc_engine_register(engine, &probe_adder, &error));
    assert_int_equal(run(model, "pseudo_adder", 0), expected);
    assert_int_equal(adds_counted, 10); /* two turns */
    assert_int_equal(run(model, "probe_adder", 0), expected);
    assert_int_equal(run(model, "probe_adder", 9), expected);
}

/* Sessions in one batch, and each alone. */
static void batches(void **state) {
    enum { SESSIONS = 5 };
    struct kvc_session *batch[SESSIONS], *alone;
    float *kept = malloc((size_t)STEPS * SESSIONS * vocab * sizeof *kept), *one = malloc(vocab * sizeof *one);
    int32_t next[SESSIONS];
    (void)state;
    assert_true(kept && one);
    for (size_t i = 0; i < SESSIONS; i++) {
        batch[i] = open_chunked(model, i % 2 ? "full" : "morphkv:budget=40", 0);
        FINE(kvc_session_prompt(batch[i], tokens, 45 + 3 * i, NULL, NULL, &error));
    }
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < SESSIONS; i++)
            next[i] = tokens[300 + 31 * i + step];
        FINE(kvc_decode(batch, next, SESSIONS, kept + step * SESSIONS * vocab, NULL, &error));
    }
    for (size_t i = 0; i < SESSIONS; i++) {
        alone = open_chunked(model, i % 2 ? "full" : "morphkv:budget=40", 0);
        FINE(kvc_session_prompt(alone, tokens, 45 + 3 * i, NULL, NULL, &error));
        for (size_t step = 0; step < STEPS; step++) {
            FINE(kvc_decode(&alone, &tokens[300 + 31 * i + step], 1, one, NULL, &error));
            assert_memory_equal(one, kept + (step * SESSIONS + i) * vocab, vocab * sizeof *one);
        }
        kvc_session_close(alone);
        kvc_session_close(batch[i]);
    }
    free(kept);
    free(one);
}

/* The state counts in the statistics from the beginning, in the memory limit, and in estimates. */
static void counted(void **state) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    const uint64_t keys = 2 * 10, values = 6 * 8;
    struct kvc_session_stats stats;
    struct kvc_estimate estimate;
    struct kvc_session *session = open_chunked(model, "full", 0);
    struct kvc_session_options options;
    (void)state;
    assert_int_equal(info->layers, 3);
    assert_int_equal(info->recurrent_layers, 3);
    assert_true(info->recurrent_bytes >= 3 * 4 * (3 * (2 * keys + values) + values * 10));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.state_bytes, info->recurrent_bytes);
    FINE(kvc_session_prompt(session, tokens, PROMPT, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    FINE(kvc_estimate(engine, "full", &geometry, info->hidden, kvc_entry_types(KVC_F16), PROMPT, 0, &estimate, &error));
    kvc_estimate_recurrent(&estimate, info->recurrent_bytes);
    assert_int_equal(stats.state_bytes, estimate.state_bytes);
    assert_int_equal(stats.peak_bytes, estimate.peak_bytes);
    kvc_session_close(session);
    kvc_session_defaults(&options);
    options.memory_limit = info->recurrent_bytes - 1;
    assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_RESOURCE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_by_one), cmocka_unit_test(every_method),
                                       cmocka_unit_test(batches), cmocka_unit_test(counted),
                                       cmocka_unit_test(added_rows)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
