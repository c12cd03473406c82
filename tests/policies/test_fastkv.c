/* test_fastkv.c - fastkv over a whole model: layers above tsp_layer really skip rows, and the last row's result is as
 * if the skipped rows had never existed; limits; errors. */
#include "core/engine/session.h"
#include "tests/core/whole_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPT = 330, STEPS = 6, TSP = 60, WINDOW = 8 };

static uint32_t vocab, layers;
static int32_t tokens[PROMPT + STEPS];
static bool goes[PROMPT + STEPS]; /* the entries that the policy `left` keeps above layer 0 */
static struct kvc_error error;

/* ---- a policy that removes rows above layer 0 as soon as they have attended ---- */

static enum kvc_status forget(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *failure) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct kvc_keep keep = {.first = info->entries - 1, .recent = INT64_MAX};
    (void)values;
    return info->layer == 0 || goes[info->now - 1] ? KVC_OK : kvc_stage_keep(stage, &keep, failure);
}

static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
static const struct kvc_policy_class left = {.name = "left",
                                             .summary = "rows chosen by the test",
                                             .paper = "-",
                                             .idea = "-",
                                             .formula = "-",
                                             .memory = "-",
                                             .traffic = "-",
                                             .differences = "-",
                                             .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
                                             .options = no_options,
                                             .prompt = forget,
                                             .decode = forget};

/* ---- sessions ---- */

static struct kvc_session *open_with(const char *policy, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    FINE(kvc_session_open(model, &options, &session, &error));
    return session;
}

/* The prompt's last logits and those of some steps: [1 + STEPS, vocab]. */
static float *run_prompt(struct kvc_session *session, uint32_t prompt) {
    float *logits = malloc((size_t)(1 + STEPS) * vocab * sizeof *logits);
    assert_non_null(logits);
    FINE(kvc_session_prompt(session, tokens, prompt, NULL, logits, &error));
    return logits;
}

static void run_steps(struct kvc_session *session, uint32_t from, float *logits) {
    for (uint32_t i = 0; i < STEPS; i++)
        FINE(kvc_decode(&session, tokens + from + i, 1, logits + (size_t)(1 + i) * vocab, NULL, &error));
}

static void same(const float *a, const float *b, const char *what) {
    if (memcmp(a, b, (size_t)(1 + STEPS) * vocab * sizeof *a))
        fail_msg("%s: other logits", what);
}

static uint32_t held(const struct kvc_session *session, uint32_t layer, uint32_t head, int32_t *positions) {
    size_t count = 0;
    FINE(kvc_session_positions(session, layer, head, positions, PROMPT + STEPS, &count, &error));
    return (uint32_t)count;
}

/* ---- tests ---- */

static void test_nothing_to_cut(void **state) {
    (void)state;
    static const char *const specs[] = {"fastkv:budget=400", "fastkv:budget=400,tsp=330",
                                        "fastkv:budget=400,tsp=9,tsp_layer=", "fastkv:budget=100%,tsp=330"};
    struct kvc_session *full = open_with("full", 0);
    float *expected = run_prompt(full, PROMPT);
    run_steps(full, PROMPT, expected);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i += kvc_test_thinned() ? 2 : 1) {
        char spec[100];
        snprintf(spec, sizeof spec, "%s%.0u", specs[i], i == 2 ? layers - 1 : 0);
        struct kvc_session *session = open_with(spec, 0);
        float *logits = run_prompt(session, PROMPT);
        run_steps(session, PROMPT, logits);
        same(logits, expected, spec);
        free(logits);
        kvc_session_close(session);
    }
    free(expected);
    kvc_session_close(full);
}

/* A choice made in the last layer affects no row, not even in a later turn. */
static void test_last_layer(void **state) {
    (void)state;
    char spec[60];
    float *logits[2] = {malloc(vocab * sizeof(float)), malloc(vocab * sizeof(float))};
    assert_true(logits[0] && logits[1]);
    snprintf(spec, sizeof spec, "fastkv:budget=400,tsp=60,tsp_layer=%u", layers - 1);
    for (int i = 0; i < 2; i++) {
        struct kvc_session *session = open_with(i ? spec : "full", 0);
        FINE(kvc_session_prompt(session, tokens, 90, NULL, NULL, &error));
        FINE(kvc_session_prompt(session, tokens + 90, 75, NULL, logits[i],
                                &error)); /* fewer than the number of candidates */
        kvc_session_close(session);
    }
    assert_memory_equal(logits[0], logits[1], vocab * sizeof(float));
    free(logits[0]);
    free(logits[1]);
}

/* The window's rows and TSP - WINDOW others reach the upper layers; read one by one without the rest, they give the
 * same results. */
static void test_cut(void **state) {
    (void)state;
    const uint32_t prompt = kvc_test_thinned() ? 90 : PROMPT;
    static const uint32_t chunks[] = {0, 1, 7, 100};
    float *first = NULL;
    for (size_t c = 0; c < 4; c++) {
        struct kvc_session *session = open_with("fastkv:budget=400,tsp=60,tsp_layer=0", chunks[c]);
        int32_t positions[PROMPT + STEPS], others[PROMPT + STEPS];
        float *logits = run_prompt(session, prompt);
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t h = 0; h < kvc_session_heads(session, l); h++)
                assert_int_equal(held(session, l, h, others), l == 0 ? prompt : TSP);
        assert_int_equal(held(session, 1, 0, positions), TSP);
        for (uint32_t l = 1; l < layers; l++)
            for (uint32_t h = 0; h < kvc_session_heads(session, l); h++) {
                held(session, l, h, others);
                assert_memory_equal(positions, others, TSP * sizeof *others);
            }
        for (uint32_t i = 0; i < WINDOW; i++)
            assert_int_equal(positions[TSP - 1 - i], prompt - 1 - i);
        memset(goes, 0, sizeof goes);
        for (uint32_t i = 0; i < TSP; i++)
            goes[positions[i]] = true;
        for (uint32_t i = prompt; i < prompt + STEPS; i++)
            goes[i] = true;
        run_steps(session, prompt, logits);
        kvc_session_close(session);
        if (first)
            same(logits, first, "another chunk");
        if (first)
            free(logits);
        else
            first = logits;
    }
    struct kvc_session *session = open_with("left", 0);
    float *logits = run_prompt(session, 1);
    for (uint32_t i = 1; i < prompt; i++)
        FINE(kvc_decode(&session, tokens + i, 1, logits, NULL, &error));
    run_steps(session, prompt, logits);
    same(logits, first, "without the rows that are pruned");
    free(logits);
    free(first);
    kvc_session_close(session);
}

static int never(void *user, uint64_t row, const float *logits) {
    (void)user, (void)row, (void)logits;
    return 0;
}

static void test_limits(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t below, above; /* the number of entries up to tsp_layer, and above it */
    } cases[] = {{"fastkv:budget=40,tsp=60,tsp_layer=0", 40, 40},
                 {"fastkv:budget=80,tsp=9,tsp_layer=0", 80, 9},
                 {"fastkv:budget=10%,tsp=60,tsp_layer=0", 33, 33},
                 {"fastkv:budget=1%,tsp=60,tsp_layer=0", 9, 9},
                 {"fastkv:budget=9,tsp=329,tsp_layer=0,kernel=1,pooling=max", 9, 9},
                 {"fastkv:budget=40,window=39,tsp=40,tsp_layer=0", 40, 40}};
    int32_t positions[PROMPT + STEPS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += kvc_test_thinned() ? 2 : 1) {
        struct kvc_session *session = open_with(cases[i].spec, 64);
        float *logits = run_prompt(session, PROMPT);
        for (uint32_t l = 0; l < layers; l++)
            if (held(session, l, 0, positions) != (l ? cases[i].above : cases[i].below))
                fail_msg("%s: layer %u holds %u entries", cases[i].spec, l, held(session, l, 0, positions));
        free(logits);
        kvc_session_close(session);
    }
    struct kvc_session *session = open_with("fastkv:budget=40,tsp=60,tsp_layer=0", 0);
    const struct kvc_prompt_options rows = {.row = never};
    assert_int_equal(kvc_session_prompt(session, tokens, PROMPT, &rows, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "60 of 330"));
    kvc_session_close(session);
}

struct heard { /* the calls of a prompt's progress function */
    uint64_t done, total, most;
};

static int hear(void *user, uint64_t done, uint64_t total) {
    struct heard *heard = user;
    assert_true(done > heard->done && done <= total && total <= heard->most);
    *heard = (struct heard){done, total, total};
    return 0;
}

/* Progress ends at its total, also where rows were left out, and the total is the computed work. */
static void test_progress(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t above; /* the number of rows above layer 0 */
    } cases[] = {{"full", PROMPT}, {"fastkv:budget=40,tsp=60,tsp_layer=0", 60}, {"take:budget=40,chunk=100", PROMPT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct heard heard = {0, 0, (uint64_t)PROMPT * layers};
        const struct kvc_prompt_options hooks = {.progress = hear, .user = &heard};
        struct kvc_session *session = open_with(cases[i].spec, 64);
        FINE(kvc_session_prompt(session, tokens, PROMPT, &hooks, NULL, &error));
        assert_int_equal(heard.done, heard.total);
        assert_int_equal(heard.done, PROMPT + (layers - 1) * cases[i].above);
        kvc_session_close(session);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *spec, *says;
    } cases[] = {{"fastkv:budget=40,tsp=8", "tsp=8: must be above window=8"},
                 {"fastkv:budget=8", "budget=8: must be above window=8"},
                 {"fastkv:budget=40,kernel=2", "kernel=2: must be odd"},
                 {"fastkv:budget=40,tsp_layer=99", "tsp_layer=99: must be 0 to"},
                 {"fastkv:budget=40,tsp_layer=0,skip_layers=1", "tsp_layer=0: must be a layer that"},
                 {"window:budget=40,skip_layers=3", "skip_layers=3: must be 0 to 2"},
                 {"window:budget=40,layers=0-3", "layers=0-3: must lie in 0-2"},
                 {"window:budget=40,layers=0,skip_layers=1", "leave no layer to act on"},
                 {"cake:budget=32", "budget=32: must be above window=32"},
                 {"cake:budget=40,kernel=4", "kernel=4: must be odd"},
                 {"cake:budget=40,tau1=0", "tau1=0: must be"},
                 {"h2o:budget=4,recent=4", "recent=4: must be"},
                 {"h2o:budget=0", "budget=0: must be"},
                 {"keyformer:budget=4,tau_end=-1", "tau_end=-1: must be"},
                 {"keyformer:budget=4,steps=-1", "steps=-1: must be"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvc_session_options options;
        struct kvc_session *session = NULL;
        kvc_session_defaults(&options);
        options.policy = cases[i].spec;
        assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_USAGE);
        if (!strstr(error.text, cases[i].says))
            fail_msg("%s: '%s' does not say '%s'", cases[i].spec, error.text, cases[i].says);
    }
}

static int open_all(void **state) {
    (void)state;
    uint64_t random = 5;
    if (open_whole(getenv("KVCULL_TEST_BACKEND"), KVC_F32, "fastkv") != 0)
        return -1;
    FINE(kvc_engine_register(engine, &left, &error));
    vocab = kvc_model_info(model)->vocab;
    layers = kvc_model_info(model)->layers;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % vocab);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_cut), cmocka_unit_test(test_last_layer), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_progress),   cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, open_all, close_whole);
}
