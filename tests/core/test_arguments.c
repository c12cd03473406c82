/* test_arguments.c - invalid arguments: geometries, values outside enums, sizes out of range, backend names. Each is
 * refused in one line that gives the valid values. */
#include "kvcull/check.h"
#include "kvcull/policy.h"
#include "kvcull/saved.h"
#include "tests/core/whole_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct kvc_error error;

/* Every function checks a geometry that it gets, and also rejects values that an enum does not have. */
static void test_arguments(void **state) {
    (void)state;
    const struct kvc_geometry bad[] = {{0, 2, 1, 8}, {2, 3, 2, 8}, {2, 2, 0, 8}, {2, 2, 1, 70000}}, good = {2, 2, 1, 8};
    const enum kvc_type none = (enum kvc_type)99;
    const struct kvc_engine_options odd = {.math = (enum kvc_math)99};
    struct kvc_session_options session_options;
    struct kvc_session *session;
    struct kvc_replay *replay;
    struct kvc_estimate estimate;
    struct kvc_formula formula;
    struct kvc_engine *second;
    int32_t *ids;
    size_t count;
    kvc_session_defaults(&session_options);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(kvc_replay_open(engine, &bad[i], &session_options, &replay, &error), KVC_USAGE, "must be from 1");
        REFUSED(kvc_estimate(engine, "full", &bad[i], 8, kvc_entry_types(KVC_F16), 9, 9, &estimate, &error), KVC_USAGE,
                "must be from 1");
        REFUSED(kvc_formula(engine, "full", &bad[i], kvc_entry_types(KVC_F16), 9, 9, &formula, &error), KVC_USAGE,
                "must be from 1");
    }
    REFUSED(kvc_estimate(engine, "full", &good, 8, kvc_entry_types(none), 9, 9, &estimate, &error), KVC_USAGE,
            "cannot have this type");
    REFUSED(kvc_formula(engine, "full", &good, kvc_entry_types(none), 9, 9, &formula, &error), KVC_USAGE,
            "cannot have this type");
    REFUSED(kvc_engine_open(&odd, &second, &error), KVC_USAGE, "math=99");
    REFUSED(kvc_engine_open(&(struct kvc_engine_options){.threads = 1025}, &second, &error), KVC_USAGE, "threads=1025");
    REFUSED(kvc_convert("none", "out.gguf", none, &error), KVC_USAGE, "type 99");
    REFUSED(kvc_make_model("tiny", none, 1, "out.gguf", &error), KVC_USAGE, "type 99");
    REFUSED(kvc_tokenize(model, "a", 1, 99, &ids, &count, &error), KVC_USAGE, "flags 0x63");
    session_options.cache_type = kvc_entry_types(none);
    REFUSED(kvc_session_open(model, &session_options, &session, &error), KVC_USAGE, "cannot have this type");
    REFUSED(kvc_replay_open(engine, &good, &session_options, &replay, &error), KVC_USAGE, "cannot have this type");
}

static void test_estimates(void **state) {
    (void)state;
    const struct kvc_geometry usual = {32, 32, 8, 128}, huge = {65536, 65536, 1, 65536},
                              bad[] = {{0, 1, 1, 1}, {1, 3, 2, 8}, {1, 4, 0, 8}, {1, 4, 4, 0}, {1, 65537, 1, 8}};
    struct kvc_formula formula;
    struct kvc_estimate estimate;
    FINE(kvc_estimate(engine, "full", &usual, 4096, kvc_entry_types(KVC_F16), 0, 0, &estimate, &error));
    assert_int_equal(estimate.cache_bytes, 0);
    FINE(kvc_estimate(engine, "morphkv:budget=10%", &usual, 4096, kvc_entry_types(KVC_Q8_0), 0, 1, &estimate, &error));
    assert_int_equal(estimate.entries, 1);
    FINE(kvc_estimate(engine, "window:budget=100%", &usual, 4096, kvc_entry_types(KVC_F32), INT32_MAX, INT32_MAX,
                      &estimate, &error));
    assert_int_equal(estimate.entries, (uint64_t)INT32_MAX + 1);
    REFUSED(kvc_estimate_part(engine, "full", &usual, NULL, 1, usual.layers, 1, kvc_entry_types(KVC_F16), 1, 1,
                              &estimate, &error),
            KVC_USAGE, "layers from 1 on: there are");
    REFUSED(kvc_estimate(engine, "full", &usual, 1, kvc_entry_types(KVC_F16), UINT64_MAX, 1, &estimate, &error),
            KVC_USAGE, "tokens");
    REFUSED(kvc_estimate(engine, "full", &usual, 1, kvc_entry_types(KVC_F16), 1, 1ull << 31, &estimate, &error),
            KVC_USAGE, "tokens");
    REFUSED(kvc_estimate(engine, "full", &usual, 1, kvc_entry_types(KVC_Q5_0), 1, 1, &estimate, &error), KVC_USAGE,
            "q4_0");
    REFUSED(kvc_estimate(engine, "full", &huge, 1, kvc_entry_types(KVC_F16), INT32_MAX, 1, &estimate, &error),
            KVC_USAGE, "2^63");
    REFUSED(kvc_estimate(engine, "h2o:budget=9,per=head", &huge, 1, kvc_entry_types(KVC_F16), INT32_MAX, 1, &estimate,
                         &error),
            KVC_USAGE, "2^63");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED(kvc_estimate(engine, "full", &bad[i], 1, kvc_entry_types(KVC_F16), 1, 1, &estimate, &error), KVC_USAGE,
                "dividing");
        REFUSED(kvc_formula(engine, "full", &bad[i], kvc_entry_types(KVC_F16), 1, 1, &formula, &error), KVC_USAGE,
                "dividing");
    }
    REFUSED(kvc_formula(engine, "full", &usual, kvc_entry_types(KVC_F16), 1, UINT64_MAX, &formula, &error), KVC_USAGE,
            "tokens");
    REFUSED(kvc_formula(engine, "take:budget=9,warmup_layers=2+snapkv:budget=40,per=head,layers=0", &usual,
                        kvc_entry_types(KVC_F16), 1, 1, &formula, &error),
            KVC_USAGE, "per=head: must hold in both of layers 0 and 1, or in neither");
    REFUSED(kvc_estimate(engine, "nosuch", &usual, 1, kvc_entry_types(KVC_F16), 1, 1, &estimate, &error), KVC_USAGE,
            "nosuch");
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void test_backends(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum kvc_status status;
    } names[] = {{"", KVC_USAGE},     {"o", KVC_USAGE},      {":0", KVC_USAGE},
                 {"cpux", KVC_USAGE}, {"cpu:-1", KVC_USAGE}, {"cpu:", KVC_USAGE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvc_engine *other;
        const struct kvc_engine_options engine_options = {
            .backend = names[i].name, .threads = 1, .math = KVC_MATH_EXACT};
        assert_int_equal(kvc_engine_open(&engine_options, &other, &error), names[i].status);
    }
}

/* Sizes of a model that a policy's values do not fit. */
static void test_model_limits(void **state) {
    (void)state;
    static const struct {
        const char *spec, *says;
    } cases[] = {{"sparq:dims=9,topk=4", "dims=9: must be 1 to 8, the model's head size"},
                 {"hsa:page=4,dims=9,topk=4", "dims=9: must be 1 to 8, the model's head size"},
                 {"take:budget=9,warmup_layers=3", "warmup_layers=3: must be 0 to 2"},
                 {"take:budget=9,warmup_layers=2,layers=0", "warmup_layers=2: layer 1 chooses for those below it"}};
    const struct kvc_geometry geometry = {2, 2, 1, 8};
    struct kvc_estimate estimate;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        REFUSED(kvc_estimate(engine, cases[i].spec, &geometry, 16, kvc_entry_types(KVC_F16), 9, 9, &estimate, &error),
                KVC_USAGE, cases[i].says);
}

/* Files that an option names: empty, of something else, with a line of another kind, absent. */
static void test_option_files(void **state) {
    (void)state;
    static const struct {
        const char *option, *text, *says;
    } cases[] = {{"dapq:budget=40,content=file,file", "", "has no token ids"},
                 {"dapq:budget=40,content=file,file", "1, 2 x3", "'x3' is not a token id"},
                 {"dapq:budget=40,content=file,file", "-1", "'-1' is not a token id"},
                 {"duo:file", "", "holds no scores"},
                 {"duo:file", "1 x\n", "line 1: 'x"},
                 {"duo:file", "1 2\n3\n", "line 2 has 1 numbers"},
                 {"duo:file", NULL, "No such file"},
                 {"duo:file", "/", "must be a regular file"}};
    const char *folder = getenv("TMPDIR");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvc_session_options options;
        struct kvc_session *session;
        char path[300], spec[400];
        snprintf(path, sizeof path, "%s/kvcull-option-%ld", folder ? folder : "/tmp", (long)getpid());
        if (cases[i].text && cases[i].text[0] == '/')
            snprintf(path, sizeof path, "/");
        else if (cases[i].text)
            write_text(path, cases[i].text);
        snprintf(spec, sizeof spec, "%s=%s", cases[i].option, path);
        kvc_session_defaults(&options);
        options.policy = spec;
        REFUSED(kvc_session_open(model, &options, &session, &error), KVC_INPUT, cases[i].says);
        (void)remove(path);
    }
}

/* A session cannot be copied or saved while its own prompt or step runs. */
static int copy_within(void *user, uint64_t done, uint64_t total) {
    struct kvc_session *copy;
    (void)done, (void)total;
    REFUSED(kvc_session_fork(user, &copy, &error), KVC_USAGE, "the session is within a prompt");
    REFUSED(kvc_session_save(user, "none/none", NULL, &error), KVC_USAGE, "the session is within a prompt");
    return 0;
}

static void copy_in_step(void *user, uint32_t layer, const float *output) {
    struct kvc_session *copy;
    (void)layer, (void)output;
    REFUSED(kvc_session_fork(user, &copy, &error), KVC_USAGE, "the session is within a step");
}

/* A call that is refused leaves the session unchanged. */
static void test_sessions(void **state) {
    (void)state;
    enum { MANY = 70000 };
    const int32_t tokens[] = {1, 2, 3};
    enum kvc_status *statuses = calloc(MANY, sizeof *statuses);
    struct kvc_session_options options;
    struct kvc_session_stats stats;
    struct kvc_session *pair[2];
    struct kvc_model *same;
    int32_t positions[4];
    size_t count;
    assert_non_null(statuses);
    kvc_session_defaults(&options);
    FINE(kvc_model_open(engine, model_path, &same, &error));
    FINE(kvc_session_open(model, &options, &pair[0], &error));
    FINE(kvc_session_open(same, &options, &pair[1], &error));
    FINE(kvc_session_prompt(pair[0], tokens, 3, NULL, NULL, &error));
    FINE(kvc_session_prompt(pair[1], tokens, 3, NULL, NULL, &error));
    REFUSED(kvc_decode(pair, tokens, 2, NULL, statuses, &error), KVC_USAGE, "session 1 belongs to another model");
    assert_true(statuses[0] == KVC_OK && statuses[1] == KVC_USAGE);
    REFUSED(kvc_decode(pair, tokens, MANY, NULL, statuses, &error), KVC_USAGE, "70000 sessions; at most 65536");
    assert_int_equal(statuses[MANY - 1], KVC_USAGE);
    REFUSED(kvc_session_prompt(pair[0], tokens, (size_t)INT32_MAX + 1, NULL, NULL, &error), KVC_USAGE, "at most");
    REFUSED(kvc_session_reads(pair[0], 99, 0, positions, 4, &count, &error), KVC_USAGE, "layer 99, head 0");
    REFUSED(kvc_session_reads(pair[0], 0, 0, positions, 4, &count, &error), KVC_USAGE, "without record_reads");
    kvc_session_stats(pair[0], &stats);
    assert_int_equal(stats.tokens, 4);
    const struct kvc_prompt_options copies = {.progress = copy_within, .user = pair[0]};
    FINE(kvc_session_prompt(pair[0], tokens, 3, &copies, NULL, &error));
    FINE(kvc_session_watch(pair[0], copy_in_step, pair[0], &error));
    FINE(kvc_decode(pair, tokens, 1, NULL, NULL, &error));
    kvc_session_close(pair[0]);
    kvc_session_close(pair[1]);
    kvc_model_close(same);
    free(statuses);
}

/* A method's pseudo tokens must be in the vocabulary. */
static uint32_t unknown_token(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset,
                              int32_t *more) {
    (void)values, (void)turn;
    *offset = 0;
    if (more)
        more[0] = (int32_t)kvc_model_info(model)->vocab;
    return 1;
}

static enum kvc_status keep_all(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)stage, (void)values, (void)e;
    return KVC_OK;
}

static const struct kvc_policy_class strange = {.name = "strange",
                                                .summary = "adds a row of a token that the model does not have",
                                                .stages = KVC_STAGE_PROMPT,
                                                .prompt = keep_all,
                                                .pseudo = unknown_token};

static int count_row(void *user, uint64_t row, const float *logits) {
    (void)row, (void)logits;
    ++*(size_t *)user;
    return 0;
}

/* Prompts that a policy makes impossible: with pseudo tokens that do not exist, or with the logits of rows that it does
 * not compute in the upper layers. */
static void test_policies_of_prompts(void **state) {
    (void)state;
    enum { TOKENS = 120 };
    int32_t tokens[TOKENS];
    size_t rows = 0;
    const struct kvc_prompt_options each = {.row = count_row, .user = &rows};
    struct kvc_session_options options;
    struct kvc_session *session;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(i * 7919 % (int)kvc_model_info(model)->vocab);
    kvc_session_defaults(&options);
    FINE(kvc_engine_register(engine, &strange, &error));
    options.policy = "strange";
    FINE(kvc_session_open(model, &options, &session, &error));
    REFUSED(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error), KVC_USAGE, "policy strange: a pseudo token");
    kvc_session_close(session);
    options.policy = "fastkv:budget=40,tsp=48,tsp_layer=0";
    FINE(kvc_session_open(model, &options, &session, &error));
    REFUSED(kvc_session_prompt(session, tokens, TOKENS, &each, NULL, &error), KVC_USAGE,
            "the logits of every row were requested, but policy fastkv:budget=40,tsp=48,tsp_layer=0 keeps 48 of 120");
    assert_int_equal(rows, 0);
    kvc_session_close(session);
}

static int set_up(void **state) {
    (void)state;
    if (open_whole(NULL, KVC_F16, "arguments") != 0)
        return -1;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arguments),          cmocka_unit_test(test_estimates),
                                       cmocka_unit_test(test_backends),           cmocka_unit_test(test_model_limits),
                                       cmocka_unit_test(test_option_files),       cmocka_unit_test(test_sessions),
                                       cmocka_unit_test(test_policies_of_prompts)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
