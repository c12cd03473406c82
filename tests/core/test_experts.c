/* test_experts.c - sessions over a model with many experts: results do not depend on how rows are batched, with any
 * method. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/check.h"
#include "tests/core/turns.h"
#include "tests/method_spec.h"

enum { PROMPT = 150, MORE = 30, STEPS = 6, BUDGET = 40 };

static char path[512];
static struct kvc_engine *engine; /* an engine with two threads */
static struct kvc_model *model;
static uint32_t vocab;
static int32_t tokens[1000];
static struct kvc_error error;

static int open_experts(void **state) {
    const char *folder = getenv("TMPDIR"), *source = getenv("top_srcdir");
    const struct kvc_engine_options options = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    (void)state;
    if (kvc_test_thinned()) {
        snprintf(path, sizeof path, "%s/tests/data/golden/qwen3-moe/model.gguf", source ? source : ".");
    } else {
        snprintf(path, sizeof path, "%s/kvcull-experts-%ld.gguf", folder ? folder : "/tmp", (long)getpid());
        FINE(kvc_make_model("tiny-experts", KVC_F16, 3, path, &error));
    }
    FINE(kvc_engine_open(&options, &engine, &error));
    FINE(kvc_model_open(engine, path, &model, &error));
    vocab = kvc_model_info(model)->vocab;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)(i * i * 7919u % 104729u % vocab);
    return 0;
}

static int close_experts(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    if (!kvc_test_thinned())
        remove(path);
    return 0;
}

/* The hash of the logits of a prompt, steps, a second turn and steps. */
static uint64_t run(struct kvc_model *m, const char *spec, uint32_t chunk) {
    const struct turns turns = {tokens, {kvc_test_thinned() ? BUDGET + 20 : PROMPT, MORE}, STEPS, vocab, false};
    return run_turns(&turns, open_chunked(m, spec, chunk));
}

/* Every method; the i-th uses one of the chunk sizes and one of the engines. */
static void every_method(void **state) {
    static const struct kvc_engine_options others[] = {{.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "cpu", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "cpu", .threads = 3, .math = KVC_MATH_EXACT},
                                                       {.backend = "avx2", .threads = 2, .math = KVC_MATH_EXACT}};
    enum { OTHERS = sizeof others / sizeof *others };
    static const uint32_t chunks[] = {1, 7, 64};
    struct kvc_engine *other[OTHERS];
    struct kvc_model *same[OTHERS];
    size_t opened = 0, methods = 0;
    (void)state;
    for (size_t i = 0; i < OTHERS - (size_t)kvc_test_thinned(); i++) {
        if (kvc_engine_open(&others[i], &other[opened], &error) != KVC_OK)
            continue;
        FINE(kvc_model_open(other[opened], path, &same[opened], &error));
        opened++;
    }
    const struct kvc_policy_class *policy;
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i++) {
        char spec[200];
        kvc_test_method_spec(policy, BUDGET, spec, sizeof spec);
        const uint64_t expected = run(model, spec, 0);
        methods++;
        if (run(model, spec, chunks[i % 3]) != expected)
            fail_msg("%s: chunks of %u change a bit", spec, chunks[i % 3]);
        for (size_t o = kvc_test_thinned() ? i % opened : 0; o < opened; o += kvc_test_thinned() ? opened : 1)
            if (run(same[o], spec, 0) != expected)
                fail_msg("%s: %s differs", spec, kvc_engine_backend(other[o]));
    }
    assert_true(methods > 20);
    for (size_t i = 0; i < opened; i++) {
        kvc_model_close(same[i]);
        kvc_engine_close(other[i]);
    }
}

/* Sessions in one batch, whose rows share experts, and each session alone. */
static void batches(void **state) {
    enum { SESSIONS = 9 };
    struct kvc_session *batch[SESSIONS], *alone;
    float *together = malloc(SESSIONS * vocab * sizeof *together), *one = malloc(vocab * sizeof *one);
    float *kept = malloc((size_t)STEPS * SESSIONS * vocab * sizeof *kept);
    int32_t next[SESSIONS];
    (void)state;
    assert_true(together && one && kept);
    for (size_t i = 0; i < SESSIONS; i++) {
        batch[i] = open_chunked(model, i % 2 ? "full" : "morphkv:budget=40", 0);
        FINE(kvc_session_prompt(batch[i], tokens, 45 + 3 * i, NULL, NULL, &error));
    }
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < SESSIONS; i++)
            next[i] = tokens[500 + 31 * i + step];
        FINE(kvc_decode(batch, next, SESSIONS, together, NULL, &error));
        memcpy(kept + step * SESSIONS * vocab, together, SESSIONS * vocab * sizeof *kept);
    }
    for (size_t i = 0; i < SESSIONS; i++) {
        alone = open_chunked(model, i % 2 ? "full" : "morphkv:budget=40", 0);
        FINE(kvc_session_prompt(alone, tokens, 45 + 3 * i, NULL, NULL, &error));
        for (size_t step = 0; step < STEPS; step++) {
            FINE(kvc_decode(&alone, &tokens[500 + 31 * i + step], 1, one, NULL, &error));
            assert_memory_equal(one, kept + (step * SESSIONS + i) * vocab, vocab * sizeof *one);
        }
        kvc_session_close(alone);
        kvc_session_close(batch[i]);
    }
    free(together);
    free(one);
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method), cmocka_unit_test(batches)};
    return cmocka_run_group_tests(tests, open_experts, close_experts);
}
