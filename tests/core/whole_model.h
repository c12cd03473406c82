/* whole_model.h - the model for tests of whole sessions: three layers, more query heads than key-value heads. */
#ifndef KVC_TESTS_CORE_WHOLE_MODEL_H
#define KVC_TESTS_CORE_WHOLE_MODEL_H

#include "kvcull.h"
#include "tests/check.h"

#include <unistd.h>

/* Makes a random model in a file of its own and sets path to it. Under valgrind, which needs 40 ns for every fused
 * multiply-add, sets path to a model of the source tree that has a fifth of the weights. */
static inline enum kvc_status whole_model(enum kvc_type type, const char *test, char *path, size_t capacity,
                                          struct kvc_error *error) {
    const char *folder = getenv("TMPDIR"), *source = getenv("top_srcdir");
    if (kvc_test_thinned()) {
        snprintf(path, capacity, "%s/tests/data/golden/qwen3/model.gguf", source ? source : ".");
        return KVC_OK;
    }
    snprintf(path, capacity, "%s/kvcull-%s-%ld.gguf", folder ? folder : "/tmp", test, (long)getpid());
    return kvc_make_model("tiny", type, 3, path, error);
}

static inline void whole_model_remove(const char *path) {
    if (!kvc_test_thinned())
        remove(path);
}

#endif
