/* prompt_many.c - runs one prompt in several sessions: finds the sessions that can share its rows, and reports each
 * result. */
#include "core/base/assert.h"
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/engine/advice.h"
#include "core/engine/coordinator.h"
#include "core/engine/draft.h"
#include "core/engine/look.h"
#include "core/engine/prompt.h"

#include <stdlib.h>
#include <string.h>

#define SESSIONS_MOST 65536u

/* The current call. */
struct many {
    struct kvc_session *const *sessions; /* [count]: the caller's sessions */
    size_t count;
    const int32_t *tokens; /* [rows] */
    uint32_t rows;
    float *logits;             /* [count, vocab] or NULL */
    enum kvc_status *statuses; /* [count] or NULL */
    bool *over;                /* [count]: the session's result is known */
    /* the sessions whose rows are computed together */
    struct kvc_session **member; /* [count] */
    size_t *place;               /* [count]: index in the caller's array */
    /* the first failure in the caller's order */
    struct kvc_error *error;
    size_t failed; /* index of the failed session, or count if none has failed */
};

/* Records the result of session i. `cause` is the error if it failed. */
static void note(struct many *many, size_t i, enum kvc_status status, const struct kvc_error *cause) {
    KVC_ASSERT(i < many->count && !many->over[i]);
    many->over[i] = true;
    if (many->statuses)
        many->statuses[i] = status;
    if (status == KVC_OK || i >= many->failed)
        return;
    many->failed = i;
    (void)kvc_fail(many->error, status, "prompt: session %zu: %s", i, cause->text);
}

/* Returns true if a session can share its rows: it is empty, and its policy computes all rows of a prompt in full. */
static bool may_share(const struct kvc_session *session) {
    return session->tokens == 0 && !session->failed && kvc_policy_prefills_in_full(session->policy);
}

/* Returns true if both sessions compute the same rows, in the same parts, from the same entries. */
static bool alike(const struct kvc_session *a, const struct kvc_session *b, uint32_t rows) {
    return kvc_entry_types_equal(kvc_session_cache_type(a), kvc_session_cache_type(b)) && a->chunk == b->chunk &&
           !a->centres == !b->centres && kvc_prompt_long_rope(a, rows) == kvc_prompt_long_rope(b, rows);
}

/* Collects the sessions from i on that can share the rows of session i. Returns their number, at least 1. */
static size_t prompt_many_gather(const struct many *many, size_t i) {
    size_t n = 0;
    for (size_t j = i; j < many->count; j++) {
        struct kvc_session *first = many->sessions[i], *other = many->sessions[j];
        if (many->over[j] || (j > i && !(may_share(first) && may_share(other) && alike(first, other, many->rows))))
            continue;
        many->place[n] = j;
        many->member[n++] = other;
    }
    return n;
}

/* Begins the prompt of n members and drops members that fail. Returns how many are left. */
static size_t prompt_many_start(struct many *many, size_t n) {
    size_t left = 0;
    for (size_t k = 0; k < n; k++) {
        struct kvc_error cause = {KVC_OK, ""};
        enum kvc_status status = kvc_prompt_start(many->member[k], many->tokens, many->rows, &cause);
        status = kvc_advise(many->member[k], many->rows, status, &cause);
        if (status != KVC_OK) {
            note(many, many->place[k], status, &cause);
            continue;
        }
        many->place[left] = many->place[k];
        many->member[left++] = many->member[k];
    }
    return left;
}

/* Runs the prompt of the first n members. */
static void prompt_many_run(struct many *many, size_t n) {
    const struct kvc_runner *runner = many->member[0]->runner;
    const size_t vocab = runner->network->vocab, first = many->place[0];
    float *logits = many->logits ? many->logits + first * vocab : NULL;
    struct kvc_error shared = {KVC_OK, ""};
    KVC_LOG(&many->member[0]->engine->log, KVC_LOG_INFO, KVC_LOG_POLICY,
            "prompt of %u tokens: its rows are computed once for %zu of %zu sessions", (unsigned)many->rows, n,
            many->count);
    const enum kvc_status all = kvc_prompt_run(many->member, n, many->tokens, many->rows, NULL, logits, &shared);
    /* the first session that succeeds counts its rows as computed, the others count them as spared */
    bool computed = false;
    for (size_t k = 0; k < n; k++) {
        struct kvc_session *session = many->member[k];
        const size_t place = many->place[k];
        KVC_ASSERT(place >= first);
        const bool lives = kvc_session_lives(session);
        struct kvc_error cause = lives ? shared : session->failure;
        const enum kvc_status status = lives ? all : session->failure.status;
        note(many, place, kvc_advise(session, many->rows, status, &cause), &cause);
        if (status != KVC_OK)
            continue;
        session->sums.together = (uint32_t)n;
        session->sums.spared += computed ? (uint64_t)many->rows * session->cache.layers : 0;
        computed = true;
        if (logits && place != first)
            memcpy(many->logits + place * vocab, logits, vocab * sizeof *logits);
    }
}

/* Fails the sessions that cannot take part at all. */
static void prompt_many_check(struct many *many) {
    for (size_t i = 0; i < many->count; i++) {
        struct kvc_error cause;
        if (many->sessions[i]->busy)
            note(many, i, kvc_fail(&cause, KVC_USAGE, "it is given twice"), &cause);
        else if (many->sessions[i]->runner != many->sessions[0]->runner)
            note(many, i, kvc_fail(&cause, KVC_USAGE, "it belongs to another model"), &cause);
        many->sessions[i]->busy = true;
    }
    for (size_t i = 0; i < many->count; i++)
        many->sessions[i]->busy = false;
}

static enum kvc_status fail_all(struct many *many, enum kvc_status status) {
    for (size_t i = 0; many->statuses && i < many->count; i++)
        many->statuses[i] = status;
    return status;
}

enum kvc_status kvc_session_prompt_many(struct kvc_session *const *sessions, size_t session_count,
                                        const int32_t *tokens, size_t count, float *logits, enum kvc_status *statuses,
                                        struct kvc_error *error) {
    struct kvc_error unwanted;
    struct many many = {.sessions = sessions,
                        .count = session_count,
                        .tokens = tokens,
                        .rows = (uint32_t)count,
                        .logits = logits,
                        .statuses = statuses,
                        .error = error ? error : &unwanted,
                        .failed = session_count};
    if (session_count == 0)
        return KVC_OK;
    if (session_count > SESSIONS_MOST)
        return fail_all(&many, kvc_fail(error, KVC_USAGE, "prompt: %zu sessions; at most %u at once", session_count,
                                        SESSIONS_MOST));
    if (count > INT32_MAX)
        return fail_all(&many, kvc_fail(error, KVC_USAGE, "prompt: %zu tokens; at most %d fit", count, INT32_MAX));
    const struct kvc_runner *runner = sessions[0]->runner;
    KVC_ASSERT(runner->network); /* callers get the session of a replay as const, so they cannot pass it here */
    runner->coordinator->begin_prompt_many(sessions, session_count, tokens, count, logits != NULL);
    many.over = calloc(session_count, sizeof *many.over);
    many.member = malloc(session_count * sizeof *many.member);
    many.place = malloc(session_count * sizeof *many.place);
    enum kvc_status status = KVC_OK;
    if (!many.over || !many.member || !many.place) {
        status = fail_all(&many, kvc_fail(error, KVC_RESOURCE, "prompt: no memory for %zu sessions", session_count));
    } else {
        const uint64_t environment = kvc_float_open();
        kvc_look_open(runner->engine);
        prompt_many_check(&many);
        for (size_t i = 0; i < session_count; i++) {
            struct kvc_error cause = {KVC_OK, ""};
            const enum kvc_status drafted = many.over[i] ? KVC_OK : kvc_draft(sessions[i], tokens, count, NULL, &cause);
            if (drafted != KVC_OK)
                note(&many, i, drafted, &cause);
        }
        for (size_t i = 0; i < session_count; i++) {
            const size_t n = many.over[i] ? 0 : prompt_many_start(&many, prompt_many_gather(&many, i));
            if (n)
                prompt_many_run(&many, n);
        }
        kvc_float_close(environment);
        status = many.failed < session_count ? many.error->status : KVC_OK;
    }
    free(many.over);
    free(many.member);
    free(many.place);
    return runner->coordinator->end(runner, status, many.error);
}
