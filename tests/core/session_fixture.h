/* session_fixture.h - test support for whole sessions: a small random model, tokens, and policies of every stage. */
#ifndef KVC_TESTS_CORE_SESSION_FIXTURE_H
#define KVC_TESTS_CORE_SESSION_FIXTURE_H

#include "tests/core/whole_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t vocab;
static int32_t tokens[4096];

static const char *const policies[] = {"full",
                                       "window:budget=50",
                                       "streaming:budget=50",
                                       "snapkv:budget=50",
                                       "snapkv:budget=20%,kernel=5,pooling=avg",
                                       "morphkv:budget=50",
                                       "morphkv:budget=50,every=4,fusion=max",
                                       "morphkv:budget=50,scores=logits,skip_layers=1",
                                       "snapkv:budget=50+morphkv:budget=45",
                                       "streaming:budget=50,positions=cache"};
enum { POLICIES = sizeof policies / sizeof *policies };
static inline size_t after(size_t p) {
    return p + (kvc_test_thinned() ? 4 : 1);
} /* returns the index of the next case to run */

static struct kvc_error error;

static inline struct kvc_session *open_with(struct kvc_model *m, const char *policy, enum kvc_type type,
                                            uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = kvc_entry_types(type);
    options.chunk = chunk;
    FINE(kvc_session_open(m, &options, &session, &error));
    return session;
}

static int set_up(void **state) {
    (void)state;
    uint64_t random = 1;
    if (open_whole(NULL, KVC_F32, "session") != 0)
        return -1;
    vocab = kvc_model_info(model)->vocab;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % vocab);
    }
    return 0;
}

#endif
