/* test_saved.c - a session that was saved and loaded, or forked, goes on as the one that never stopped: logits,
 * entries and statistics, with every method, on every backend and from one to another; and files that are not what they
 * should be are refused in one line, with what is wrong. */
#include "models/model.h"
#include "tests/core/same_sessions.h"
#include "tests/method_spec.h"

#include <sys/stat.h>

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
    enum kvc_type type;
    size_t rows, every; /* of a prompt; of the methods that one of so many is tried of */
};

struct place { /* an engine and a model on it */
    struct kvc_engine *engine;
    struct kvc_model *model;
};

/* false: this machine lacks the backend. */
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
    uint32_t words; /* of the vocabulary */
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

/* Some steps, a second turn, some steps: both sessions alike; `one` is the one that never stopped. */
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

static char *bytes_of(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &about), 0);
    char *all = malloc((size_t)about.st_size + 1);
    assert_non_null(all);
    *bytes = fread(all, 1, (size_t)about.st_size, file);
    assert_int_equal(*bytes, about.st_size);
    fclose(file);
    return all;
}

/* Two files are the same bytes. */
static void same_files(const char *spec) {
    size_t bytes[2];
    char *one = bytes_of(file_path, &bytes[0]), *other = bytes_of(other_path, &bytes[1]);
    if (bytes[0] != bytes[1] || memcmp(one, other, bytes[0]) != 0)
        fail_msg("%s: what was loaded is saved otherwise", spec);
    free(one);
    free(other);
}

static struct kvc_session *opened(const struct place *place, const char *spec, enum kvc_type type, size_t i) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = type;
    options.chunk = i % 2 ? 32 : 0;
    options.seed = 5;
    options.expected = 30;
    return kvc_session_open(place->model, &options, &session, &error) == KVC_OK ? session : NULL;
}

/* One that never stops, one that is saved and forked, what comes of both. */
static void try_spec(const struct way *way, const struct place *from, const struct place *to, const char *spec,
                     size_t i, const struct talk *talk) {
    struct kvc_session *session[4]; /* never stopped, saved, forked, loaded */
    session[0] = opened(from, spec, way->type, i);
    if (!session[0]) /* it does not suit the model */
        return;
    session[1] = opened(from, spec, way->type, i);
    begin(session[0], talk);
    begin(session[1], talk);
    FINE(kvc_session_fork(session[1], &session[2], &error));
    FINE(kvc_session_save(session[1], file_path, NULL, &error));
    FINE(kvc_session_load(to->model, NULL, file_path, NULL, &session[3], &error));
    assert_string_equal(kvc_session_policy(session[3]), spec);
    assert_int_equal(kvc_session_cache_type(session[3]), way->type);
    FINE(kvc_session_save(session[3], other_path, NULL, &error));
    same_files(spec);
    FINE(kvc_session_save(session[2], other_path, NULL, &error));
    same_files(spec);
    go_on(session[0], session[3], talk, spec, "loaded");
    struct kvc_session *again = opened(from, spec, way->type, i);
    begin(again, talk);
    go_on(again, session[2], talk, spec, "forked");
    kvc_session_close(again);
    again = opened(from, spec, way->type, i);
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
    static const struct way ways[] = {{"qwen3", {NULL, 2, KVC_MATH_EXACT}, {"ref", 1, KVC_MATH_EXACT}, KVC_F16, 70, 1},
                                      {"qwen3", {"ref", 1, KVC_MATH_EXACT}, {NULL, 2, KVC_MATH_EXACT}, KVC_Q8_0, 60, 1},
                                      {"qwen3", {NULL, 2, KVC_MATH_EXACT}, {NULL, 1, KVC_MATH_EXACT}, KVC_F32, 257, 3}};
    run_ways(ways, sizeof ways / sizeof *ways);
}

/* Recurrent layers, windows, longrope, sinks. */
static void test_families(void **state) {
    (void)state;
    static const struct way ways[] = {
        {"qwen35", {NULL, 2, KVC_MATH_EXACT}, {"ref", 1, KVC_MATH_EXACT}, KVC_F16, 60, 2},
        {"gemma3", {NULL, 2, KVC_MATH_EXACT}, {NULL, 2, KVC_MATH_EXACT}, KVC_F16, 290, 3},
        {"phi3-longrope", {NULL, 2, KVC_MATH_EXACT}, {NULL, 2, KVC_MATH_EXACT}, KVC_F16, 60, 5},
        {"gpt-oss", {NULL, 2, KVC_MATH_EXACT}, {NULL, 2, KVC_MATH_EXACT}, KVC_Q8_0, 60, 5}};
    run_ways(ways, sizeof ways / sizeof *ways);
}

static void test_devices(void **state) {
    (void)state;
    static const struct way ways[] = {
        {"qwen3", {"opencl", 0, KVC_MATH_EXACT}, {NULL, 2, KVC_MATH_EXACT}, KVC_F16, 60, 4},
        {"qwen3", {NULL, 2, KVC_MATH_EXACT}, {"opencl", 0, KVC_MATH_EXACT}, KVC_Q8_0, 61, 4}};
    if (kvc_test_thinned())
        skip();
    run_ways(ways, sizeof ways / sizeof *ways);
}

/* ---- what is beside a session ---- */

static void test_beside(void **state) {
    (void)state;
    struct kvc_sampler_options options;
    struct kvc_session *session = open_with(model, "streaming:budget=20", KVC_F16, 0), *loaded;
    struct kvc_saved saved = {.tokens = tokens, .token_count = 30}, read = {.tokens = NULL};
    struct kvc_sampler *sampler, *again;
    float *logits = malloc(vocab * sizeof *logits);
    char note[] = "a note\0with a zero";
    assert_non_null(logits);
    kvc_sampler_defaults(&options);
    options.repeat_penalty = 1.3f;
    FINE(kvc_sampler_open(&options, vocab, &sampler, &error));
    FINE(kvc_sampler_open(&options, vocab, &again, &error));
    FINE(kvc_session_prompt(session, tokens, 30, NULL, logits, &error));
    for (size_t i = 0; i < 5; i++)
        kvc_sample(sampler, logits);
    saved.note = note;
    saved.note_bytes = sizeof note;
    saved.logits = logits;
    saved.logit_count = vocab;
    saved.sampler = sampler;
    read.sampler = again;
    FINE(kvc_session_save(session, file_path, &saved, &error));
    FINE(kvc_session_load(model, NULL, file_path, &read, &loaded, &error));
    assert_int_equal(read.token_count, 30);
    assert_memory_equal(read.tokens, tokens, 30 * sizeof *tokens);
    assert_int_equal(read.note_bytes, sizeof note);
    assert_memory_equal(read.note, note, sizeof note);
    assert_int_equal(read.logit_count, vocab);
    assert_memory_equal(read.logits, logits, vocab * sizeof *logits);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(kvc_sample(sampler, logits), kvc_sample(again, logits));
    kvc_saved_free(&read);
    kvc_session_close(loaded);
    FINE(kvc_session_load(model, NULL, file_path, NULL, &loaded, &error)); /* who does not want it need not have it */
    kvc_session_close(loaded);
    kvc_session_close(session);
    session = open_with(model, "h2o:budget=20", KVC_F16, 0); /* nothing has come yet */
    FINE(kvc_session_save(session, file_path, NULL, &error));
    FINE(kvc_session_load(model, NULL, file_path, NULL, &loaded, &error));
    FINE(kvc_session_prompt(loaded, tokens, 30, NULL, NULL, &error));
    FINE(kvc_session_prompt(session, tokens, 30, NULL, NULL, &error));
    same(session, loaded, "h2o", "saved before its first token");
    kvc_session_close(loaded);
    kvc_session_close(session);
    kvc_sampler_close(sampler);
    kvc_sampler_close(again);
    free(logits);
}

/* ---- refusals ---- */

static void refused(const char *text, enum kvc_status status) {
    struct kvc_session *session;
    enum kvc_status got = kvc_session_load(model, NULL, file_path, NULL, &session, &error);
    if (got != status || session || !strstr(error.text, text) || strchr(error.text, '\n') ||
        !strstr(error.text, file_path))
        fail_msg("status %d, \"%s\": must be %d, \"%s\"", got, error.text, status, text);
}

static void write_bytes(const char *bytes, size_t count) {
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Every byte counts: those at the beginning one by one, of the others some. */
static void test_damaged(void **state) {
    (void)state;
    struct kvc_session *session = open_with(model, "h2o:budget=8+quest:budget=4,page=2", KVC_Q8_0, 0);
    size_t count;
    FINE(kvc_session_prompt(session, tokens, 12, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    kvc_session_close(session);
    char *bytes = bytes_of(file_path, &count), *more = malloc(count + 1);
    assert_non_null(more);
    const size_t stride = kvc_test_thinned() ? count / 20 : count / 300;
    for (size_t i = 0; i < count; i += i < 100 && !kvc_test_thinned() ? 1 : stride) {
        bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
        write_bytes(bytes, count);
        refused("", KVC_INPUT);
        bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
    }
    for (size_t i = 0; i < count; i += i < 100 && !kvc_test_thinned() ? 1 : 2 * stride) {
        write_bytes(bytes, i);
        refused(i < 16 ? "not a saved session" : "ends too early", KVC_INPUT);
    }
    memcpy(more, bytes, count);
    more[count] = 0;
    write_bytes(more, count + 1);
    refused("1 bytes follow its end", KVC_INPUT);
    more[8] = 2;
    write_bytes(more, count);
    refused("version 2.0; this program reads version 1", KVC_INPUT);
    remove(file_path);
    refused("No such file", KVC_INPUT);
    free(bytes);
    free(more);
}

static void try_options(struct kvc_model *m, const char *policy, enum kvc_type type, enum kvc_status status,
                        const char *text) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = type;
    REFUSED(kvc_session_load(m, &options, file_path, NULL, &session, &error), status, text);
    assert_null(session);
    assert_null(strchr(error.text, '\n'));
}

static void test_another(void **state) {
    (void)state;
    const char *source = getenv("top_srcdir");
    struct kvc_session_options options;
    struct kvc_session *session = open_with(model, "snapkv:budget=20,window=8", KVC_F16, 0), *loaded;
    struct kvc_model *other;
    char path[512];
    FINE(kvc_session_prompt(session, tokens, 60, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    try_options(model, "snapkv:budget=21,window=8", KVC_F16, KVC_INPUT, "policy: it was saved with snapkv:budget=20,");
    try_options(model, "snapkv:nonsense=1", KVC_F16, KVC_USAGE, "nonsense");
    try_options(model, NULL, KVC_Q8_0, KVC_INPUT, "kv-type: it was saved with f16, and here is q8_0");
    kvc_session_defaults(&options); /* said otherwise, the same */
    options.policy = "snapkv:kernel=7,budget=20,window=8";
    options.cache_type = KVC_ALL_TYPES;
    options.chunk = 9;
    FINE(kvc_session_load(model, &options, file_path, NULL, &loaded, &error));
    same(session, loaded, "snapkv", "said otherwise");
    kvc_session_close(loaded);
    options.memory_limit = 100;
    REFUSED(kvc_session_load(model, &options, file_path, NULL, &loaded, &error), KVC_RESOURCE, "limit");
    kvc_session_close(session);
    snprintf(path, sizeof path, "%s/tests/data/golden/%s/model.gguf", source ? source : ".",
             kvc_test_thinned() ? "llama3" : "qwen3");
    FINE(kvc_model_open(engine, path, &other, &error));
    try_options(other, NULL, KVC_ALL_TYPES, KVC_INPUT, "model: it was saved with ");
    kvc_model_close(other);
}

/* One weight differs, and the arithmetic. */
static void test_weights(void **state) {
    (void)state;
    struct place places[3];
    static const struct kvc_engine_options with[] = {
        {NULL, 1, KVC_MATH_INT8}, {NULL, 1, KVC_MATH_FLOAT}, {NULL, 1, KVC_MATH_INT8}};
    char path[3][320];
    struct kvc_session *session, *loaded;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s.%d.gguf", file_path, (int)i);
        FINE(kvc_make_model("small", KVC_Q8_0, i == 2 ? 9 : 3, path[i], &error));
        FINE(kvc_engine_open(&with[i], &places[i].engine, &error));
        FINE(kvc_model_open(places[i].engine, path[i], &places[i].model, &error));
        remove(path[i]);
    }
    session = open_with(places[0].model, "full", KVC_F16, 0);
    FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    kvc_session_close(session);
    REFUSED(kvc_session_load(places[1].model, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
            "arithmetic: it was saved with int8 ");
    REFUSED(kvc_session_load(places[2].model, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
            "model: it was saved with ");
    FINE(kvc_session_load(places[0].model, NULL, file_path, NULL, &loaded, &error));
    kvc_session_close(loaded);
    for (size_t i = 0; i < 3; i++)
        place_close(&places[i]);
}

/* Methods of a program: state that changes and may not come from a file; state that may, within bounds. */
static size_t counter_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return geometry->layers * sizeof(uint64_t);
}

static enum kvc_status count_steps(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values, (void)e;
    ((uint64_t *)kvc_stage_state(stage))[kvc_stage_info(stage)->layer]++;
    return KVC_OK;
}

static bool few(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *counts) {
    (void)values, (void)geometry;
    return ((const uint64_t *)counts)[0] < 4;
}

static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
static const struct kvc_policy_class forgets = {.name = "forgets",
                                                .summary = "counts",
                                                .stages = KVC_STAGE_DECODE,
                                                .options = no_options,
                                                .state_bytes = counter_bytes,
                                                .decode = count_steps};
static const struct kvc_policy_class counts = {.name = "counts",
                                               .summary = "counts",
                                               .stages = KVC_STAGE_DECODE,
                                               .options = no_options,
                                               .state_bytes = counter_bytes,
                                               .state_fits = few,
                                               .decode = count_steps};

static void test_own_state(void **state) {
    (void)state;
    const struct kvc_engine_options with = {NULL, 1, KVC_MATH_EXACT};
    static const char *const names[] = {"forgets", "counts"};
    struct kvc_session *session, *loaded;
    struct kvc_engine *e;
    struct kvc_model *m;
    FINE(kvc_engine_open(&with, &e, &error));
    FINE(kvc_engine_register(e, &forgets, &error));
    FINE(kvc_engine_register(e, &counts, &error));
    FINE(kvc_model_open(e, model_path, &m, &error));
    for (size_t i = 0; i < 2; i++) {
        session = open_with(m, names[i], KVC_F16, 0);
        FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
        for (uint64_t step = 1; step < 6; step++) {
            FINE(kvc_decode(&session, tokens, 1, NULL, NULL, &error));
            FINE(kvc_session_fork(session, &loaded, &error));
            assert_int_equal(*(uint64_t *)loaded->use[0].state, step);
            kvc_session_close(loaded);
            FINE(kvc_session_save(session, file_path, NULL, &error));
            if (i == 1 && step < 4) {
                FINE(kvc_session_load(m, NULL, file_path, NULL, &loaded, &error));
                assert_int_equal(*(uint64_t *)loaded->use[0].state, step);
                kvc_session_close(loaded);
            } else {
                REFUSED(kvc_session_load(m, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
                        i ? "policy counts: its state cannot be"
                          : "policy forgets: its state is not what it opens with");
            }
        }
        kvc_session_close(session);
    }
    kvc_model_close(m);
    kvc_engine_close(e);
}

/* What cannot be saved or forked, and where files cannot be. */
static int within(void *user, uint64_t done, uint64_t total) {
    struct kvc_session *session = *(struct kvc_session **)user, *copy;
    (void)done, (void)total;
    REFUSED(kvc_session_save(session, file_path, NULL, &error), KVC_USAGE, "failed");
    REFUSED(kvc_session_fork(session, &copy, &error), KVC_USAGE, "fork: ");
    return 1;
}

static void test_refused(void **state) {
    (void)state;
    struct kvc_session *session = open_with(model, "full", KVC_F16, 0), *copy;
    const struct kvc_prompt_options options = {.progress = within, .user = &session};
    remove(file_path);
    FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
    REFUSED(kvc_session_save(session, "/no/such/folder/file", NULL, &error), KVC_RESOURCE, "/no/such/folder/file");
    REFUSED(kvc_session_prompt(session, tokens, 5, &options, NULL, &error), KVC_USAGE, "stopped");
    REFUSED(kvc_session_fork(session, &copy, &error), KVC_USAGE, "failed");
    assert_null(copy);
    REFUSED(kvc_session_save(session, file_path, NULL, &error), KVC_USAGE, "failed");
    assert_int_not_equal(access(file_path, F_OK), 0);
    kvc_session_close(session);
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
    return tear_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method), cmocka_unit_test(test_families),  cmocka_unit_test(test_devices),
        cmocka_unit_test(test_beside),       cmocka_unit_test(test_damaged),   cmocka_unit_test(test_another),
        cmocka_unit_test(test_weights),      cmocka_unit_test(test_own_state), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
