/* turns.h - a conversation of two turns, and the hash of its logits, which must not depend on how rows are batched. */
#ifndef KVC_TESTS_CORE_TURNS_H
#define KVC_TESTS_CORE_TURNS_H

#include "tests/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvcull.h"

struct turns {
    const int32_t *tokens;
    size_t prompt[2]; /* number of prompt tokens of each turn */
    size_t steps;     /* number of decode steps after each prompt */
    uint32_t vocab;
    bool every_row; /* hash the logits of every prompt row, not only of the last row */
};

static int turns_add_row(void *user, uint64_t row, const float *logits) {
    const void *const *both = user;
    (void)row;
    kvc_hash_add((struct kvc_hash *)(uintptr_t)both[0], logits, *(const uint32_t *)both[1]);
    return 0;
}

/* Opens a session. A chunk of 0 means the default. */
static inline struct kvc_session *open_chunked(struct kvc_model *model, const char *policy, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    struct kvc_error error;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    FINE(kvc_session_open(model, &options, &session, &error));
    return session;
}

/* Runs the two turns, closes the session and returns the hash of the logits. */
static uint64_t run_turns(const struct turns *turns, struct kvc_session *session) {
    struct kvc_error error;
    struct kvc_hash *hash = kvc_hash_open();
    float *logits = malloc(turns->vocab * sizeof *logits);
    const void *both[2] = {hash, &turns->vocab};
    const struct kvc_prompt_options rows = {.row = turns->every_row ? turns_add_row : NULL, .user = both};
    const int32_t *next = turns->tokens;
    assert_true(hash && logits);
    for (int turn = 0; turn < 2; turn++) {
        FINE(kvc_session_prompt(session, next, turns->prompt[turn], &rows, logits, &error));
        kvc_hash_add(hash, logits, turns->vocab);
        next += turns->prompt[turn];
        for (size_t step = 0; step < turns->steps; step++, next++) {
            FINE(kvc_decode(&session, next, 1, logits, NULL, &error));
            kvc_hash_add(hash, logits, turns->vocab);
        }
    }
    const uint64_t value = kvc_hash_value(hash);
    kvc_hash_close(hash);
    free(logits);
    kvc_session_close(session);
    return value;
}

#endif
