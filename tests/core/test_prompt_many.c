/* test_prompt_many.c - one prompt for many sessions: each session's logits, entries, statistics and later turns are
 * bit-identical to a run of its own, however rows are shared; a failure of one leaves the others unchanged. */
#include "models/model.h"
#include "tests/core/same_sessions.h"
#include "tests/method_spec.h"

enum { MOST = 80, STEPS = 3, MORE = 30 };

/* ---- policies: every method with its class's trial options, then some joined ones and some with other kinds of lists
 * ---- */

static const char *const others[] = {"streaming:budget=40,positions=cache",
                                     "snapkv:budget=40,per=head",
                                     "h2o:budget=40,per=head",
                                     "snapkv:budget=50+morphkv:budget=45,window=8",
                                     "dapq:budget=40+quest:budget=24,page=8",
                                     "dapq:budget=40,content=draft,pseudo=4",
                                     "h2o:budget=40,stages=prompt+tova:budget=30",
                                     "take:budget=40,chunk=48,warmup_layers=1+quest:budget=24,page=8"};
enum { OTHERS = sizeof others / sizeof *others };

struct specs {
    char text[MOST][200];
    bool shares[MOST]; /* the rows of the first prompt */
    size_t count, sharing;
};

/* Adds the policy text[count] if the model allows it. */
static void add_spec(struct kvc_model *m, struct specs *specs) {
    const char *text = specs->text[specs->count];
    struct kvc_session_options options;
    struct kvc_session *session;
    unsigned stages;
    kvc_session_defaults(&options);
    options.policy = text;
    if (kvc_session_open(m, &options, &session, &error) != KVC_OK)
        return;
    kvc_session_close(session);
    FINE(kvc_policy_stages(m->engine, text, &stages, &error));
    specs->shares[specs->count] = !(stages & (KVC_STAGE_CHUNK | KVC_STAGE_PROPAGATE));
    specs->sharing += specs->shares[specs->count++];
}

static void make_specs(struct kvc_model *m, struct specs *specs) {
    const struct kvc_policy_class *policy;
    specs->count = specs->sharing = 0;
    for (size_t i = 0; (policy = kvc_policy(m->engine, i)) != NULL; i++) {
        assert_true(specs->count + OTHERS < MOST);
        kvc_test_method_spec(policy, 40, specs->text[specs->count], sizeof specs->text[0]);
        add_spec(m, specs);
    }
    for (size_t i = 0; i < OTHERS; i++) {
        snprintf(specs->text[specs->count], sizeof specs->text[0], "%s", others[i]);
        add_spec(m, specs);
    }
}

/* ---- everything at once ---- */

struct runs {
    const struct specs *specs;
    struct kvc_session *many[MOST], *alone[MOST];
    float *logits[2]; /* [specs, vocab], computed together and alone */
    uint32_t words;   /* floats of one row of logits */
};

/* Computes a turn of all sessions, together and one by one. */
static void take_turn(struct runs *runs, const int32_t *turn, size_t rows, const char *when) {
    enum kvc_status statuses[MOST];
    const size_t count = runs->specs->count;
    for (size_t i = 0; i < count; i++)
        FINE(kvc_session_prompt(runs->alone[i], turn, rows, NULL, runs->logits[1] + i * runs->words, &error));
    FINE(kvc_session_prompt_many(runs->many, count, turn, rows, runs->logits[0], statuses, &error));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(statuses[i], KVC_OK);
        same_logits(runs->logits[0] + i * runs->words, runs->logits[1] + i * runs->words, runs->words,
                    runs->specs->text[i], when);
        same(runs->many[i], runs->alone[i], runs->specs->text[i], when);
    }
}

static void take_step(struct runs *runs, int32_t first) {
    int32_t next[MOST];
    for (size_t i = 0; i < runs->specs->count; i++) {
        next[i] = (first + 7 * (int32_t)i) % (int32_t)runs->words;
        FINE(kvc_decode(&runs->alone[i], &next[i], 1, runs->logits[1] + i * runs->words, NULL, &error));
    }
    FINE(kvc_decode(runs->many, next, runs->specs->count, runs->logits[0], NULL, &error));
    for (size_t i = 0; i < runs->specs->count; i++) {
        same_logits(runs->logits[0] + i * runs->words, runs->logits[1] + i * runs->words, runs->words,
                    runs->specs->text[i], "a step");
    }
}

/* Checks which sessions shared computations, and how much that saved. */
static void check_shared(const struct runs *runs, size_t rows) {
    uint64_t spared = 0;
    for (size_t i = 0; i < runs->specs->count; i++) {
        struct kvc_session_stats stats;
        kvc_session_stats(runs->many[i], &stats);
        assert_int_equal(stats.prompt_sessions, runs->specs->shares[i] ? runs->specs->sharing : 1);
        spared += stats.spared_rows;
        kvc_session_stats(runs->alone[i], &stats);
        assert_int_equal(stats.prompt_sessions, 1);
        assert_int_equal(stats.spared_rows, 0);
    }
    assert_int_equal(spared, (runs->specs->sharing - 1) * rows * runs->many[0]->cache.layers);
}

static void run_all(struct kvc_model *m, enum kvc_type type, uint32_t chunk, size_t rows) {
    static struct specs specs;
    struct runs runs = {.specs = &specs, .words = kvc_model_info(m)->vocab};
    int32_t *turn = malloc((rows + MORE) * sizeof *turn);
    make_specs(m, &specs);
    for (size_t i = 0; i < 2; i++)
        runs.logits[i] = malloc(specs.count * runs.words * sizeof(float));
    assert_true(turn && runs.logits[0] && runs.logits[1] && specs.count > 25 && specs.sharing + 2 < specs.count);
    for (size_t i = 0; i < rows + MORE; i++)
        turn[i] = tokens[i] % (int32_t)runs.words;
    for (size_t i = 0; i < specs.count; i++) {
        runs.many[i] = open_with(m, specs.text[i], type, chunk);
        runs.alone[i] = open_with(m, specs.text[i], type, chunk);
    }
    take_turn(&runs, turn, rows, "the prompt");
    check_shared(&runs, rows);
    for (int32_t step = 0; step < STEPS; step++)
        take_step(&runs, 11 * step);
    take_turn(&runs, turn + rows, MORE, "a second turn");
    take_step(&runs, 5);
    for (size_t i = 0; i < specs.count; i++) {
        struct kvc_session_stats stats;
        kvc_session_stats(runs.many[i], &stats);
        assert_int_equal(stats.prompt_sessions, 1);
        kvc_session_close(runs.many[i]);
        kvc_session_close(runs.alone[i]);
    }
    for (size_t i = 0; i < 2; i++)
        free(runs.logits[i]);
    free(turn);
}

struct whole {
    const char *golden;
    struct kvc_engine_options engine;
    enum kvc_type type;
    uint32_t chunk;
    size_t rows;
};

static void run_wholes(const struct whole *wholes, size_t count) {
    const char *source = getenv("top_srcdir");
    for (size_t i = 0; i < count; i++) {
        const struct whole *whole = &wholes[i];
        struct kvc_engine_options with = whole->engine;
        struct kvc_engine *e;
        struct kvc_model *m;
        char path[512];
        if (!with.backend)
            with.backend = getenv("KVCULL_TEST_BACKEND");
        if (kvc_engine_open(&with, &e, &error) != KVC_OK) {
            assert_int_equal(error.status, KVC_RESOURCE); /* this machine lacks it */
            continue;
        }
        snprintf(path, sizeof path, "%s/tests/data/golden/%s/model.gguf", source ? source : ".", whole->golden);
        FINE(kvc_model_open(e, path, &m, &error));
        run_all(m, whole->type, whole->chunk, getenv("KVCULL_VALGRIND") && whole->rows > 60 ? 60 : whole->rows);
        kvc_model_close(m);
        kvc_engine_close(e);
    }
}

/* Various chunks, threads, paths, entry types, and lengths around a block. */
static void test_every_method(void **state) {
    (void)state;
    static const struct whole wholes[] = {
        {"qwen3", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 0, 257},
        {"qwen3", {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT}, KVC_F32, 7, 60},
        {"qwen3", {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT}, KVC_F16, 50, 70},
        {"qwen3", {.backend = NULL, .threads = 3, .math = KVC_MATH_EXACT}, KVC_Q8_0, 64, 256},
        {"qwen3", {.backend = "avx2", .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 0, 65},
        {"qwen3", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 0, 3},
        {"qwen3", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_Q8_0, 0, 1}};
    run_wholes(wholes, kvc_test_thinned() ? 1 : sizeof wholes / sizeof *wholes);
}

/* Recurrent layers, windows, two ropes, sinks, experts, longrope: other code paths of a layer. */
static void test_families(void **state) {
    (void)state;
    static const struct whole wholes[] = {
        {"qwen35", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 32, 90},
        {"gemma3", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 0, 290},
        {"gpt-oss", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_Q8_0, 50, 80},
        {"phi3-longrope", {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT}, KVC_F16, 0, 60},
        {"qwen3-moe-window", {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT}, KVC_F32, 16, 80}};
    run_wholes(wholes, kvc_test_thinned() ? 1 : sizeof wholes / sizeof *wholes);
}

/* ---- who shares ---- */

static uint32_t shared_by(const struct kvc_session *session) {
    struct kvc_session_stats stats;
    kvc_session_stats(session, &stats);
    return stats.prompt_sessions;
}

static void test_mixed(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        enum kvc_type type;
        uint32_t chunk, before; /* the number of its tokens */
        uint32_t together;
    } cases[] = {{"full", KVC_F16, 0, 0, 3},
                 {"full", KVC_Q8_0, 0, 0, 2},
                 {"full", KVC_F16, 0, 20, 1},
                 {"window:budget=50", KVC_F16, 0, 0, 3},
                 {"full", KVC_F16, 33, 0, 1},
                 {"snapkv:budget=50", KVC_F16, 0, 0, 3},
                 {"full", KVC_F16, 0, 20, 1},
                 {"quest:budget=50", KVC_Q8_0, 0, 0, 2},
                 {"fastkv:budget=50", KVC_F16, 0, 0, 1}};
    enum { CASES = sizeof cases / sizeof *cases };
    struct kvc_session *many[CASES], *alone;
    float *logits = malloc(CASES * vocab * sizeof *logits), *one = malloc(vocab * sizeof *one);
    assert_true(logits && one);
    for (size_t i = 0; i < CASES; i++) {
        many[i] = open_with(model, cases[i].policy, cases[i].type, cases[i].chunk);
        if (cases[i].before)
            FINE(kvc_session_prompt(many[i], tokens + 500, cases[i].before, NULL, NULL, &error));
    }
    FINE(kvc_session_prompt_many(many, CASES, tokens, 90, logits, NULL, &error));
    for (size_t i = 0; i < CASES; i++) {
        assert_int_equal(shared_by(many[i]), cases[i].together);
        alone = open_with(model, cases[i].policy, cases[i].type, cases[i].chunk);
        if (cases[i].before)
            FINE(kvc_session_prompt(alone, tokens + 500, cases[i].before, NULL, NULL, &error));
        FINE(kvc_session_prompt(alone, tokens, 90, NULL, one, &error));
        same_logits(logits + i * vocab, one, vocab, cases[i].policy, "mixed");
        same(many[i], alone, cases[i].policy, "mixed");
        kvc_session_close(alone);
        kvc_session_close(many[i]);
    }
    FINE(kvc_session_prompt_many(many, 0, tokens, 90, NULL, NULL, &error));
    free(logits);
    free(one);
}

/* The whole rows of a layer exist at most twice, however many sessions share them. */
static void test_memory(void **state) {
    (void)state;
    enum { SESSIONS = 6 };
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t tile = 2ull * KVC_TILE * 2 * info->head_size, layer = info->kv_heads * tile;
    const uint64_t tiles = kvc_test_thinned() ? 3 : 8,
                   rows = tiles * KVC_TILE - KVC_BLOCK / 2; /* after eviction the blocks of one tile remain */
    struct kvc_session *many[SESSIONS];
    struct kvc_memory memory;
    kvc_engine_reset_peaks(engine);
    for (size_t i = 0; i < SESSIONS; i++)
        many[i] = open_with(model, "snapkv:budget=256", KVC_F16, 0);
    FINE(kvc_session_prompt_many(many, SESSIONS, tokens, rows, NULL, NULL, &error));
    kvc_engine_memory(engine, &memory);
    assert_int_equal(memory.now[KVC_MEMORY_CACHE], SESSIONS * info->layers * layer);
    assert_int_equal(memory.peak[KVC_MEMORY_CACHE],
                     2 * tiles * layer + (SESSIONS * (uint64_t)info->layers - 2) * layer);
    for (size_t i = 0; i < SESSIONS; i++)
        kvc_session_close(many[i]);
    kvc_engine_memory(engine, &memory);
    assert_int_equal(memory.now[KVC_MEMORY_CACHE], 0);
}

/* A value that is clipped when stored counts for each session as often as the session stores it. */
static void test_saturated(void **state) {
    (void)state;
    static const char *const policies_here[] = {"full", "snapkv:budget=40,per=head", "h2o:budget=40", "dapq:budget=40",
                                                "streaming:budget=40"};
    enum { HERE = sizeof policies_here / sizeof *policies_here };
    const char *source = getenv("top_srcdir");
    struct kvc_session *many[HERE], *alone;
    struct kvc_model *m;
    float large[64];
    char path[512];
    uint64_t clipped = 0;
    snprintf(path, sizeof path, "%s/tests/data/golden/qwen3/model.gguf", source ? source : ".");
    FINE(kvc_model_open(engine, path, &m, &error));
    const uint32_t d = kvc_model_info(m)->head_size;
    assert_true(d <= 64);
    for (uint32_t i = 0; i < d; i++)
        large[i] = i % 3 ? 30000.0f : 1.0f;
    engine->device->ops->upload(engine->device, m->network.layer[1].k_norm, large, d * sizeof *large);
    for (size_t i = 0; i < HERE; i++)
        many[i] = open_with(m, policies_here[i], KVC_F16, 20);
    int32_t turn[60];
    for (size_t i = 0; i < 60; i++)
        turn[i] = tokens[i] % (int32_t)kvc_model_info(m)->vocab;
    FINE(kvc_session_prompt_many(many, HERE, turn, 60, NULL, NULL, &error));
    for (size_t i = 0; i < HERE; i++) {
        struct kvc_session_stats stats;
        alone = open_with(m, policies_here[i], KVC_F16, 20);
        FINE(kvc_session_prompt(alone, turn, 60, NULL, NULL, &error));
        same(many[i], alone, policies_here[i], "clipped values");
        kvc_session_stats(alone, &stats);
        clipped += stats.saturated;
        kvc_session_close(alone);
        kvc_session_close(many[i]);
    }
    assert_true(clipped > 0);
    kvc_model_close(m);
}

/* ---- failures ---- */

/* Session `wrong` of four fails with the given status and text; the others give the same results as alone. */
static void one_fails(struct kvc_model *m, struct kvc_session *const *many, const char *const *specs_here, size_t wrong,
                      enum kvc_status status, const char *text) {
    enum kvc_status statuses[4];
    float *logits = malloc(4 * vocab * sizeof *logits), *one = malloc(vocab * sizeof *one);
    assert_true(logits && one);
    REFUSED(kvc_session_prompt_many(many, 4, tokens, 70, logits, statuses, &error), status, text);
    for (size_t i = 0; i < 4; i++) {
        struct kvc_session *alone;
        assert_int_equal(statuses[i], i == wrong ? status : KVC_OK);
        if (i == wrong)
            continue;
        alone = open_with(m, specs_here[i], KVC_F16, 16);
        FINE(kvc_session_prompt(alone, tokens, 70, NULL, one, &error));
        same_logits(logits + i * vocab, one, vocab, specs_here[i], "another failed");
        same(many[i], alone, specs_here[i], "another failed");
        kvc_session_close(alone);
    }
    free(logits);
    free(one);
}

static void test_limit(void **state) {
    (void)state;
    static const char *const specs_here[] = {"full", "h2o:budget=40", "snapkv:budget=40", "window:budget=40"};
    for (size_t wrong = 0; wrong < 4; wrong++) {
        struct kvc_session *many[4];
        for (size_t i = 0; i < 4; i++) {
            struct kvc_session_options options;
            kvc_session_defaults(&options);
            options.policy = specs_here[i];
            options.chunk = 16;
            options.memory_limit = i == wrong ? 30000 * (i % 2) + 1000 : 0;
            FINE(kvc_session_open(model, &options, &many[i], &error));
        }
        char text[20];
        snprintf(text, sizeof text, "session %d: ", (int)wrong);
        one_fails(model, many, specs_here, wrong, KVC_RESOURCE, text);
        REFUSED(kvc_session_prompt(many[wrong], tokens, 5, NULL, NULL, &error), KVC_USAGE, "close it");
        for (size_t i = 0; i < 4; i++)
            kvc_session_close(many[i]);
    }
}

static void test_refused(void **state) {
    (void)state;
    struct kvc_session *many[3] = {open_with(model, "full", KVC_F16, 0), open_with(model, "full", KVC_F16, 0), NULL};
    enum kvc_status statuses[3];
    int32_t turn[] = {1, 2, (int32_t)vocab};
    many[2] = many[0];
    REFUSED(kvc_session_prompt_many(many, 2, turn, 3, NULL, statuses, &error), KVC_USAGE, "session 0: token 2 is");
    assert_int_equal(statuses[1], KVC_USAGE);
    REFUSED(kvc_session_prompt_many(many, 2, turn, 0, NULL, statuses, &error), KVC_USAGE, "0 tokens");
    REFUSED(kvc_session_prompt_many(many, 2, turn, (size_t)INT32_MAX + 1, NULL, statuses, &error), KVC_USAGE,
            "at most");
    assert_int_equal(statuses[0], KVC_USAGE);
    REFUSED(kvc_session_prompt_many(many, 70000, turn, 2, NULL, NULL, &error), KVC_USAGE, "at most 65536");
    /* The sessions are unchanged. The progress of a session that is given twice is reported once. */
    REFUSED(kvc_session_prompt_many(many, 3, turn, 2, NULL, statuses, &error), KVC_USAGE,
            "session 2: it is given twice");
    assert_int_equal(statuses[0], KVC_OK);
    assert_int_equal(statuses[1], KVC_OK);
    assert_int_equal(statuses[2], KVC_USAGE);
    assert_int_equal(shared_by(many[0]), 2);
    struct kvc_model *same_model;
    FINE(kvc_model_open(engine, model_path, &same_model, &error));
    struct kvc_session *foreign = open_with(same_model, "full", KVC_F16, 0);
    many[2] = foreign;
    REFUSED(kvc_session_prompt_many(many, 3, turn, 2, NULL, statuses, &error), KVC_USAGE,
            "session 2: it belongs to another model");
    assert_int_equal(statuses[1], KVC_OK);
    FINE(kvc_session_prompt(foreign, turn, 2, NULL, NULL, &error));
    kvc_session_close(foreign);
    kvc_model_close(same_model);
    kvc_session_close(many[0]);
    kvc_session_close(many[1]);
}

/* A method that fails in layer 1: 0, while it observes; 1, in the prompt stage; 2, because it leaves out rows. */
static const struct kvc_option wrong_options[] = {{"do", KVC_OPTION_INT, "0", 0, 2, NULL, "which"},
                                                  {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

static enum kvc_status fail_looking_on(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    if (kvc_stage_info(stage)->layer != 1 || kvc_value_int(values, "do") != 0)
        return KVC_OK;
    return kvc_fail(e, KVC_INPUT, "it would not look");
}

static enum kvc_status fail_in_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const uint32_t last = (uint32_t)kvc_stage_info(stage)->turn - 1;
    if (kvc_stage_info(stage)->layer != 1 || kvc_value_int(values, "do") == 0)
        return KVC_OK;
    return kvc_value_int(values, "do") == 1 ? kvc_fail(e, KVC_INPUT, "it would not choose")
                                            : kvc_stage_prune_tokens(stage, &last, 1, e);
}

static const struct kvc_policy_class wrong_class = {.name = "wrong",
                                                    .summary = "fails",
                                                    .stages = KVC_STAGE_PROMPT,
                                                    .options = wrong_options,
                                                    .attended = fail_looking_on,
                                                    .prompt = fail_in_prompt};

static void test_methods_that_fail(void **state) {
    (void)state;
    static const char *const says[] = {"session 0: policy wrong, layer 1: it would not look",
                                       "session 1: policy wrong, layer 1: it would not choose",
                                       "session 2: policy wrong, layer 1: policy: prune to 1 rows: no method"};
    const struct kvc_engine_options with = {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT};
    struct kvc_engine *e;
    struct kvc_model *m;
    FINE(kvc_engine_open(&with, &e, &error));
    FINE(kvc_engine_register(e, &wrong_class, &error));
    FINE(kvc_model_open(e, model_path, &m, &error));
    for (size_t wrong = 0; wrong < 3; wrong++) {
        const char *specs_here[] = {"full", "h2o:budget=40", "snapkv:budget=40", "window:budget=40"};
        char spec[20];
        struct kvc_session *many[4];
        snprintf(spec, sizeof spec, "wrong:do=%d", (int)wrong);
        specs_here[wrong] = spec;
        for (size_t i = 0; i < 4; i++)
            many[i] = open_with(m, specs_here[i], KVC_F16, 16);
        one_fails(m, many, specs_here, wrong, wrong == 2 ? KVC_USAGE : KVC_INPUT, says[wrong]);
        kvc_session_close(many[wrong]);
        many[wrong] = open_with(m, spec, KVC_F16, 16);
        REFUSED(kvc_session_prompt(many[wrong], tokens, 70, NULL, NULL, &error), wrong == 2 ? KVC_USAGE : KVC_INPUT,
                strstr(says[wrong], "policy"));
        for (size_t i = 0; i < 4; i++)
            kvc_session_close(many[i]);
    }
    kvc_model_close(m);
    kvc_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method), cmocka_unit_test(test_families),
                                       cmocka_unit_test(test_mixed),        cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_saturated),    cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_refused),      cmocka_unit_test(test_methods_that_fail)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
