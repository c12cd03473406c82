/* test_saved.c - a saved and loaded session, or a fork, continues exactly like the original: logits, entries and
 * statistics, with every method, on every backend and from one backend to another. */
#include "models/model.h"
#include "tests/core/same_sessions.h"
#include "tests/method_spec.h"

enum { BUDGET = 40, STEPS = 3, MORE = 20 };

static char file_path[300], other_path[310];

/* ---- every method ---- */

static const char *const others[] = {"streaming:budget=40,positions=cache",
                                     "snapkv:budget=40,per=head",
                                     "h2o:budget=40,per=head",
                                     "h2o:budget=256",
                                     "window:budget=256",
                                     "snapkv:budget=50+morphkv:budget=45,window=8",
                                     "morphkv:budget=40,every=4",
                                     "dapq:budget=40+quest:budget=24,page=8",
                                     "take:budget=40,chunk=48,warmup_layers=1+quest:budget=24,page=8",
                                     "sparq:budget=24,dims=4",
                                     "lacache:budget=40,span=2,sinks=4,positions=cache"};
enum { OTHERS = sizeof others / sizeof *others };

struct way {
    const char *golden;
    struct kvc_engine_options from, to;
    struct kvc_entry_types types;
    size_t rows, every; /* `rows` of a prompt; one in `every` methods is tried */
};

struct place { /* an engine and a model on it */
    struct kvc_engine *engine;
    struct kvc_model *model;
};

/* false: this machine lacks the backend */
static bool place_open(const struct kvc_engine_options *options, const char *golden, struct place *place) {
    const char *source = getenv("top_srcdir");
    char path[512];
    if (kvc_engine_open(options, &place->engine, &error) != KVC_OK) {
        assert_int_equal(error.status, KVC_RESOURCE);
        return false;
    }
    snprintf(path, sizeof path, "%s/tests/data/golden/%s/model.gguf", source ? source : ".", golden);
    FINE(kvc_model_open(place->engine, path, &place->model, &error));
    return true;
}

static void place_close(struct place *place) {
    kvc_model_close(place->model);
    kvc_engine_close(place->engine);
}

struct talk {
    int32_t tokens[400];
    size_t rows;
    uint32_t words; /* floats of one row of logits */
    float *logits[2];
};

static void take_steps(struct kvc_session *session, const struct talk *talk, int32_t first, float *logits) {
    for (int32_t i = 0; i < STEPS; i++) {
        const int32_t token = (first + 7 * i) % (int32_t)talk->words;
        FINE(kvc_decode(&session, &token, 1, logits, NULL, &error));
    }
}

static void begin(struct kvc_session *session, const struct talk *talk) {
    FINE(kvc_session_prompt(session, talk->tokens, talk->rows, NULL, talk->logits[0], &error));
    take_steps(session, talk, 11, talk->logits[0]);
}

/* Some steps, a second turn and more steps must be the same in both sessions; `one` was never interrupted. */
static void go_on(struct kvc_session *one, struct kvc_session *other, const struct talk *talk, const char *spec,
                  const char *how) {
    struct kvc_session *both[] = {one, other};
    same(one, other, spec, how);
    for (size_t i = 0; i < 2; i++)
        take_steps(both[i], talk, 5, talk->logits[i]);
    same_logits(talk->logits[0], talk->logits[1], talk->words, spec, how);
    same(one, other, spec, how);
    for (size_t i = 0; i < 2; i++) {
        FINE(kvc_session_prompt(both[i], talk->tokens + talk->rows, MORE, NULL, talk->logits[i], &error));
        take_steps(both[i], talk, 3, talk->logits[i]);
    }
    same_logits(talk->logits[0], talk->logits[1], talk->words, spec, how);
    same(one, other, spec, how);
}

/* Two files must have the same bytes. */
static void same_files(const char *spec) {
    size_t bytes[2];
    char *one = bytes_of(file_path, &bytes[0]), *other = bytes_of(other_path, &bytes[1]);
    if (bytes[0] != bytes[1] || memcmp(one, other, bytes[0]) != 0)
        fail_msg("%s: what was loaded is saved otherwise", spec);
    free(one);
    free(other);
}

static struct kvc_session *opened(const struct place *place, const char *spec, struct kvc_entry_types types, size_t i) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = types;
    options.chunk = i % 2 ? 32 : 0;
    options.seed = 5;
    options.expected = 30;
    return kvc_session_open(place->model, &options, &session, &error) == KVC_OK ? session : NULL;
}

/* A session that is never interrupted, one that is saved and forked, and the sessions that result from both. */
static void try_spec(const struct way *way, const struct place *from, const struct place *to, const char *spec,
                     size_t i, const struct talk *talk) {
    struct kvc_session *session[4]; /* uninterrupted, saved, forked, loaded */
    session[0] = opened(from, spec, way->types, i);
    if (!session[0]) /* the method does not suit the model */
        return;
    session[1] = opened(from, spec, way->types, i);
    begin(session[0], talk);
    begin(session[1], talk);
    FINE(kvc_session_fork(session[1], &session[2], &error));
    FINE(kvc_session_save(session[1], file_path, NULL, &error));
    FINE(kvc_session_load(to->model, NULL, file_path, NULL, &session[3], &error));
    assert_string_equal(kvc_session_policy(session[3]), spec);
    assert_true(kvc_entry_types_equal(kvc_session_cache_type(session[3]), way->types));
    FINE(kvc_session_save(session[3], other_path, NULL, &error));
    same_files(spec);
    FINE(kvc_session_save(session[2], other_path, NULL, &error));
    same_files(spec);
    go_on(session[0], session[3], talk, spec, "loaded");
    struct kvc_session *again = opened(from, spec, way->types, i);
    begin(again, talk);
    go_on(again, session[2], talk, spec, "forked");
    kvc_session_close(again);
    again = opened(from, spec, way->types, i);
    begin(again, talk);
    go_on(again, session[1], talk, spec, "saved and forked");
    kvc_session_close(again);
    for (size_t s = 0; s < 4; s++)
        kvc_session_close(session[s]);
}

static void run_way(const struct way *way) {
    static struct talk talk;
    const struct kvc_policy_class *policy;
    struct place from, to;
    char spec[200];
    size_t i = 0;
    if (!place_open(&way->from, way->golden, &from))
        return;
    if (!place_open(&way->to, way->golden, &to)) {
        place_close(&from);
        return;
    }
    talk.rows = getenv("KVCULL_VALGRIND") && way->rows > 60 ? 60 : way->rows;
    talk.words = kvc_model_info(from.model)->vocab;
    for (size_t t = 0; t < talk.rows + MORE; t++)
        talk.tokens[t] = tokens[t] % (int32_t)talk.words;
    for (size_t s = 0; s < 2; s++)
        talk.logits[s] = malloc(talk.words * sizeof(float));
    assert_true(talk.logits[0] && talk.logits[1] && talk.rows + MORE <= 400);
    for (; (policy = kvc_policy(from.engine, i)) != NULL; i++) {
        kvc_test_method_spec(policy, BUDGET, spec, sizeof spec);
        if (i % way->every == way->rows % way->every)
            try_spec(way, &from, &to, spec, i, &talk);
    }
    for (size_t o = 0; o < OTHERS; o++)
        if (o % way->every == 0)
            try_spec(way, &from, &to, others[o], o, &talk);
    assert_true(i > 25);
    for (size_t s = 0; s < 2; s++)
        free(talk.logits[s]);
    place_close(&from);
    place_close(&to);
}

static void run_ways(const struct way *ways, size_t count) {
    for (size_t i = 0; i < (kvc_test_thinned() ? 1 : count); i++)
        run_way(&ways[i]);
}

static void test_every_method(void **state) {
    (void)state;
    static const struct way ways[] = {{"qwen3",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                       {KVC_F16, KVC_F16},
                                       70,
                                       1},
                                      {"qwen3",
                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_Q8_0, KVC_Q8_0},
                                       60,
                                       1},
                                      {"qwen3",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT},
                                       {KVC_F32, KVC_F32},
                                       257,
                                       3},
                                      {"qwen3",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                       {KVC_Q8_0, KVC_Q4H},
                                       70,
                                       1},
                                      {"qwen3",
                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_Q5H, KVC_Q4_1},
                                       60,
                                       1}};
    run_ways(ways, sizeof ways / sizeof *ways);
}

/* Recurrent layers, windows, longrope, sinks. */
static void test_families(void **state) {
    (void)state;
    static const struct way ways[] = {{"qwen35",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                       {KVC_F16, KVC_F16},
                                       60,
                                       2},
                                      {"gemma3",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_F16, KVC_F16},
                                       290,
                                       3},
                                      {"phi3-longrope",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_F16, KVC_F16},
                                       60,
                                       5},
                                      {"gpt-oss",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_Q8_0, KVC_Q8_0},
                                       60,
                                       5}};
    run_ways(ways, sizeof ways / sizeof *ways);
}

static void test_devices(void **state) {
    (void)state;
    static const struct way ways[] = {{"qwen3",
                                       {.backend = "opencl", .threads = 0, .math = KVC_MATH_EXACT},
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {KVC_F16, KVC_F16},
                                       60,
                                       4},
                                      {"qwen3",
                                       {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT},
                                       {.backend = "opencl", .threads = 0, .math = KVC_MATH_EXACT},
                                       {KVC_Q8_0, KVC_Q8_0},
                                       61,
                                       4}};
    if (kvc_test_thinned())
        SKIP_THINNED();
    run_ways(ways, sizeof ways / sizeof *ways);
}

static int set_up_all(void **state) {
    const char *folder = getenv("TMPDIR");
    snprintf(file_path, sizeof file_path, "%s/kvcull-saved-%ld", folder ? folder : "/tmp", (long)getpid());
    snprintf(other_path, sizeof other_path, "%s.other", file_path);
    return set_up(state);
}

static int tear_down_all(void **state) {
    remove(file_path);
    remove(other_path);
    return close_whole(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method), cmocka_unit_test(test_families),
                                       cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
