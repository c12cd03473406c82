/* convert_checks.h - test support for conversion: a shared engine, and a check that two models are bit-identical. */
#ifndef KVC_TESTS_MODELS_CONVERT_CHECKS_H
#define KVC_TESTS_MODELS_CONVERT_CHECKS_H

#include "tests/models/file_maker.h"

enum { TOKENS = 40 }; /* 6 under valgrind */

static struct kvc_engine *engine;

static inline int open_engine(void **state) {
    (void)state;
    struct kvc_engine_options options = {.threads = 2};
    struct kvc_error error;
    return kvc_engine_open(&options, &engine, &error) ? -1 : 0;
}

static inline int close_engine(void **state) {
    kvc_engine_close(engine);
    return remove_own_folder(state);
}

static inline void must(enum kvc_status status, const struct kvc_error *error, const char *what) {
    if (status)
        fail_msg("%s: status %d: %s", what, (int)status, error->text);
}

static inline void remove_tree(const char *path) {
    char command[800];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* Returns the last row of logits after some tokens. The caller frees the row. */
static inline float *logits_of(const char *path, uint32_t *vocab, uint64_t *parameters) {
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_session_options options;
    struct kvc_error error = {0};
    int32_t tokens[TOKENS];
    must(kvc_model_open(engine, path, &model, &error), &error, path);
    *vocab = kvc_model_info(model)->vocab;
    *parameters = kvc_model_info(model)->parameters;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)((uint32_t)(7 * i + 3) % *vocab);
    float *logits = malloc(*vocab * sizeof *logits);
    assert_non_null(logits);
    kvc_session_defaults(&options);
    options.cache_type = kvc_entry_types(KVC_F32);
    must(kvc_session_open(model, &options, &session, &error), &error, path);
    must(kvc_session_prompt(session, tokens, kvc_test_thinned() ? 6 : TOKENS, NULL, logits, &error), &error, path);
    kvc_session_close(session);
    kvc_model_close(model);
    return logits;
}

static inline void same_bits(const char *a, const char *b) {
    uint32_t vocab, other;
    uint64_t parameters, others;
    float *x = logits_of(a, &vocab, &parameters), *y = logits_of(b, &other, &others);
    if (vocab != other || parameters != others || memcmp(x, y, vocab * sizeof *x) != 0)
        fail_msg("%s and %s: other logits", a, b);
    free(x);
    free(y);
}

#endif
