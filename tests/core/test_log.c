/* test_log.c - the log of an engine: levels and subjects are chosen as written, lines say what was chosen, and nothing
 * is computed for a line that is not wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "kvcull/saved.h"
#include "tests/check.h"

static struct kvc_error error;

struct lines { /* what a callback has received */
    char text[20000];
    size_t bytes, count;
    size_t of_level[KVC_LOG_DEBUG + 1], of_subject[KVC_LOG_SUBJECTS];
};

static void collect(void *user, enum kvc_log_level level, enum kvc_log_subject subject, const char *line) {
    struct lines *lines = user;
    assert_null(strchr(line, '\n'));
    lines->bytes += (size_t)snprintf(lines->text + lines->bytes, sizeof lines->text - lines->bytes, "%s\n", line);
    assert_true(lines->bytes < sizeof lines->text);
    lines->count++;
    lines->of_level[level]++;
    lines->of_subject[subject]++;
}

static void says(const struct lines *lines, const char *part) {
    if (!strstr(lines->text, part))
        fail_msg("the log does not say \"%s\":\n%s", part, lines->text);
}

/* Opens the bundled model and a session that evicts, and computes a prompt and some steps. */
static void run(struct kvc_engine *engine) {
    const char *source = getenv("top_srcdir");
    const struct kvc_session_options options = {.policy = "snapkv:budget=64+morphkv:budget=64",
                                                .cache_type = kvc_entry_types(KVC_F16)};
    struct kvc_model *model;
    struct kvc_session *session, *copy;
    enum kvc_status status;
    int32_t tokens[300];
    char path[512];
    snprintf(path, sizeof path, "%s/data/demo", source ? source : ".");
    for (size_t i = 0; i < 300; i++)
        tokens[i] = (int32_t)(5 + i % 7);
    FINE(kvc_model_open(engine, path, &model, &error));
    float *logits = malloc(kvc_model_info(model)->vocab * sizeof *logits);
    assert_non_null(logits);
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, 300, NULL, logits, &error));
    for (int step = 0; step < 3; step++)
        FINE(kvc_decode(&session, tokens, 1, logits, &status, &error));
    FINE(kvc_session_fork(session, &copy, &error));
    kvc_session_close(copy);
    FINE(kvc_session_save(session, "test_log.session", NULL, &error));
    FINE(kvc_session_load(model, NULL, "test_log.session", NULL, &copy, &error));
    (void)remove("test_log.session");
    kvc_session_close(copy);
    kvc_session_close(session);
    struct kvc_session *pair[2];
    FINE(kvc_session_open(model, &options, &pair[0], &error));
    FINE(kvc_session_open(model, &options, &pair[1], &error));
    FINE(kvc_session_prompt_many(pair, 2, tokens, 70, NULL, NULL, &error));
    kvc_session_close(pair[0]);
    kvc_session_close(pair[1]);
    free(logits);
    kvc_model_close(model);
}

static struct lines *logged(const char *choice) {
    struct lines *lines = calloc(1, sizeof *lines);
    struct kvc_engine *engine;
    assert_non_null(lines);
    unsetenv("KVCULL_LOG");
    FINE(kvc_engine_open(NULL, &engine, &error));
    FINE(kvc_log_set(engine, choice, collect, lines, &error));
    run(engine);
    kvc_engine_close(engine);
    return lines;
}

static void a_level_includes_those_before_it(void **state) {
    (void)state;
    struct lines *info = logged("info"), *debug = logged("debug"), *warn = logged("warn"), *off = logged("off"),
                 *none = logged(NULL);
    says(info, "cpu (");
    says(info, "operations of ");
    says(info, "data/demo: huggingface, ");
    says(info, "linear layers in float");
    says(info, "snapkv holds the stage prompt\n");
    says(info, "morphkv holds the stage decode\n");
    says(info, "f16 entries of ");
    says(info, "prompt of 300 tokens after 0 with ");
    says(info, "session forked: 303 tokens");
    says(info, "session saved to test_log.session: 303 tokens");
    says(info, "session loaded from test_log.session: 303 tokens");
    says(info, "prompt of 70 tokens: its rows are computed once for 2 of 2 sessions");
    assert_int_equal(info->of_level[KVC_LOG_DEBUG], 0);
    assert_int_equal(info->of_level[KVC_LOG_INFO], info->count);
    says(debug, "layer 0: evicted at token 300; the longest list had 300 entries, and has 64\n");
    says(debug, "pass over rows 0 to 299 of a prompt of 300");
    says(debug, "slots become 160");
    says(debug, "backend ref is usable");
    assert_int_equal(debug->of_level[KVC_LOG_INFO], info->count);
    assert_true(debug->of_level[KVC_LOG_DEBUG] > 0);
    assert_int_equal(warn->count + off->count + none->count, 0);
    free(info), free(debug), free(warn), free(off), free(none);
}

static void subjects_choose_lines(void **state) {
    (void)state;
    struct lines *all = logged("debug"), *two = logged("debug,cache,device");
    for (size_t i = 0; i < KVC_LOG_SUBJECTS; i++)
        assert_int_equal(two->of_subject[i], i == KVC_LOG_CACHE || i == KVC_LOG_DEVICE ? all->of_subject[i] : 0);
    assert_true(two->of_subject[KVC_LOG_CACHE] > 0 && two->of_subject[KVC_LOG_DEVICE] > 0);
    assert_true(all->of_subject[KVC_LOG_MEMORY] > 0 && all->of_subject[KVC_LOG_POLICY] > 0);
    free(all), free(two);
}

static void wrong_choices_change_nothing(void **state) {
    (void)state;
    struct lines *lines = calloc(1, sizeof *lines);
    struct kvc_engine *engine, *other;
    assert_non_null(lines);
    setenv("KVCULL_LOG", "off", 1);
    FINE(kvc_engine_open(NULL, &engine, &error));
    FINE(kvc_log_set(engine, "info,device", collect, lines, &error));
    assert_int_equal(lines->count, 1);
    REFUSED(kvc_log_set(engine, "loud", NULL, NULL, &error), KVC_USAGE,
            "log=loud: 'loud' is not a level; the levels are error, warn, info, debug and off");
    REFUSED(kvc_log_set(engine, "info,devise", NULL, NULL, &error), KVC_USAGE, "; did you mean device?");
    REFUSED(kvc_log_set(engine, "info,", NULL, NULL, &error), KVC_USAGE,
            "'' is not a subject; the subjects are device, model, memory, cache, policy, ranks, server");
    REFUSED(kvc_log_set(engine, "", NULL, NULL, &error), KVC_USAGE, "'' is not a level");
    assert_true(kvc_log_on(engine, KVC_LOG_INFO, KVC_LOG_DEVICE));
    assert_false(kvc_log_on(engine, KVC_LOG_DEBUG, KVC_LOG_DEVICE));
    assert_false(kvc_log_on(engine, KVC_LOG_INFO, KVC_LOG_SERVER));
    setenv("KVCULL_LOG", "info,devise", 1);
    REFUSED(kvc_engine_open(NULL, &other, &error), KVC_USAGE, "KVCULL_LOG=info,devise: 'devise' is not a subject");
    assert_null(other);
    unsetenv("KVCULL_LOG");
    kvc_engine_close(engine);
    free(lines);
}

static void a_program_writes_lines_of_its_own(void **state) {
    (void)state;
    struct lines *lines = calloc(1, sizeof *lines);
    struct kvc_engine *engine;
    assert_non_null(lines);
    FINE(kvc_engine_open(NULL, &engine, &error));
    FINE(kvc_log_set(engine, "warn,server", collect, lines, &error));
    kvc_log_line(engine, KVC_LOG_WARN, KVC_LOG_SERVER, "request %d\nwaits", 7);
    kvc_log_line(engine, KVC_LOG_INFO, KVC_LOG_SERVER, "admitted");
    kvc_log_line(engine, KVC_LOG_ERROR, KVC_LOG_CACHE, "lost");
    assert_string_equal(lines->text, "request 7?waits\n");
    kvc_engine_close(engine);
    free(lines);
}

static int computed;

static unsigned counted(void) { return (unsigned)++computed; }

static void unwanted_lines_compute_nothing(void **state) {
    (void)state;
    struct lines *lines = calloc(1, sizeof *lines);
    struct kvc_log log = {.write = collect, .user = lines};
    assert_non_null(lines);
    KVC_LOG((const struct kvc_log *)NULL, KVC_LOG_ERROR, KVC_LOG_CACHE, "%u", counted());
    KVC_LOG(&log, KVC_LOG_ERROR, KVC_LOG_CACHE, "%u", counted());
    assert_int_equal(computed, 0);
    FINE(kvc_log_read("log", "error,cache", &log, &error));
    KVC_LOG(&log, KVC_LOG_WARN, KVC_LOG_CACHE, "%u", counted());
    KVC_LOG(&log, KVC_LOG_ERROR, KVC_LOG_MODEL, "%u", counted());
    assert_int_equal(computed, 0);
    KVC_LOG(&log, KVC_LOG_ERROR, KVC_LOG_CACHE, "%u", counted());
    assert_int_equal(computed, 1);
    assert_string_equal(lines->text, "1\n");
    free(lines);
}

static void every_subject_has_a_name(void **state) {
    (void)state;
    const char *name, *summary;
    size_t count = 0;
    for (; kvc_log_subject(count, &name, &summary); count++) {
        struct kvc_log log;
        char choice[40];
        assert_true(*name && *summary);
        snprintf(choice, sizeof choice, "debug,%s", name);
        FINE(kvc_log_read("log", choice, &log, &error));
        for (size_t i = 0; i < KVC_LOG_SUBJECTS; i++)
            assert_int_equal(log.level[i], i == count ? KVC_LOG_DEBUG : KVC_LOG_OFF);
    }
    assert_int_equal(count, KVC_LOG_SUBJECTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_includes_those_before_it), cmocka_unit_test(subjects_choose_lines),
        cmocka_unit_test(wrong_choices_change_nothing),     cmocka_unit_test(a_program_writes_lines_of_its_own),
        cmocka_unit_test(unwanted_lines_compute_nothing),   cmocka_unit_test(every_subject_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
