/* test_dapq.c - dapq in a whole network: the pseudo rows behind a prompt change no bit of it and leave nothing behind.
 */
#include "kvcull.h"
#include "tests/whole_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PROMPT = 300, BUDGET = 50 };

static char model_path[512];
static struct kvc_engine *engine;
static struct kvc_model *model;
static int32_t tokens[PROMPT + 1];
static struct kvc_error error;
#define FINE(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != KVC_OK)                                                                                          \
            fail_msg("%s: %s", #call, error.text);                                                                     \
    } while (0)

/* The prompt in chunks of that many rows (0: the standard); logits [vocab] of what follows it. */
static struct kvc_session *read_prompt(const char *policy, uint32_t chunk, float *logits) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, PROMPT, NULL, logits, &error));
    return session;
}

/* Every list holds `count` entries, ascending, the last of them before position `end`. */
static void check_positions(const struct kvc_session *session, size_t count, int32_t end, const char *policy) {
    int32_t positions[PROMPT + 64];
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++)
        for (uint32_t h = 0; h < kvc_session_heads(session, l); h++) {
            size_t held = 0;
            FINE(kvc_session_positions(session, l, h, positions, PROMPT + 64, &held, &error));
            if (held != count)
                fail_msg("%s: layer %u list %u holds %zu entries, not %zu", policy, l, h, held, count);
            for (size_t i = 0; i < held; i++)
                if (positions[i] >= end || (i > 0 && positions[i] <= positions[i - 1]))
                    fail_msg("%s: layer %u list %u holds position %d", policy, l, h, (int)positions[i]);
        }
}

static void test_leaves_nothing(void **state) {
    static const char *const policies[] = {"dapq:budget=50",
                                           "dapq:budget=50,content=tail,offset=9",
                                           "dapq:budget=50,content=middle,pseudo=7",
                                           "dapq:budget=50,content=random,seed=3",
                                           "dapq:budget=50,pseudo=1,head=0",
                                           "dapq:budget=50+hsa:budget=20"};
    const size_t bytes = kvc_model_info(model)->vocab * sizeof(float);
    float *full = malloc(bytes), *logits = malloc(bytes);
    (void)state;
    assert_true(full && logits);
    kvc_session_close(read_prompt("full", 0, full));
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p += kvc_test_thinned() ? 5 : 1)
        for (uint32_t chunk = 0; chunk <= (kvc_test_thinned() ? 0 : 7); chunk += 7) {
            struct kvc_session *session = read_prompt(policies[p], chunk, logits);
            assert_memory_equal(logits, full, bytes); /* the first token is the full cache's */
            check_positions(session, BUDGET, PROMPT, policies[p]);
            FINE(kvc_decode(&session, &tokens[PROMPT], 1, NULL, NULL, &error));
            check_positions(session, BUDGET + 1, PROMPT + 1, policies[p]); /* and stands where it would without them */
            kvc_session_close(session);
        }
    free(full);
    free(logits);
}

static int set_up(void **state) {
    (void)state;
    const struct kvc_engine_options options = {NULL, 2, KVC_MATH_EXACT};
    uint64_t random = 5;
    if (whole_model(KVC_F32, "dapq", model_path, sizeof model_path, &error) != KVC_OK ||
        kvc_engine_open(&options, &engine, &error) != KVC_OK ||
        kvc_model_open(engine, model_path, &model, &error) != KVC_OK) {
        print_error("%s\n", error.text);
        return -1;
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % kvc_model_info(model)->vocab);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    whole_model_remove(model_path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_leaves_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
