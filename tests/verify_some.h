/* verify_some.h - checks operations as kvc_verify_operations does, with options as arguments. */
#ifndef KVC_TESTS_VERIFY_SOME_H
#define KVC_TESTS_VERIFY_SOME_H

#include "core/check/verify.h"

static inline enum kvc_status kvc_test_verify(const char *backend, int threads, unsigned effort, const char *only,
                                              kvc_verify_fn *row, void *user, struct kvc_error *error) {
    const struct kvc_verify_options options = {.backend = backend, .threads = threads, .effort = effort, .only = only};
    return kvc_verify_operations(&options, row, user, error);
}

#endif
