/* whole_fixture.h - for test programs that run whole sessions: the model, an engine with two threads, and functions
 * that open and close both. */
#ifndef KVC_TESTS_CORE_WHOLE_FIXTURE_H
#define KVC_TESTS_CORE_WHOLE_FIXTURE_H

#include "tests/core/whole_model.h"

static char model_path[512];
static struct kvc_engine *engine;
static struct kvc_model *model;

/* Returns 0, or prints the error and returns -1. */
static int open_whole(const char *backend, enum kvc_type type, const char *test) {
    const struct kvc_engine_options options = {.backend = backend, .threads = 2, .math = KVC_MATH_EXACT};
    struct kvc_error cause;
    if (whole_model(type, test, model_path, sizeof model_path, &cause) == KVC_OK &&
        kvc_engine_open(&options, &engine, &cause) == KVC_OK &&
        kvc_model_open(engine, model_path, &model, &cause) == KVC_OK)
        return 0;
    fprintf(stderr, "%s\n", cause.text);
    return -1;
}

static int close_whole(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    whole_model_remove(model_path);
    return 0;
}

#endif
