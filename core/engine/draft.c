/* draft.c - runs a session's prompt. If a method's pseudo tokens are a draft of the answer, a copy of the session
 * generates the draft first. */
#include "core/engine/draft.h"

#include "core/base/float.h"
#include "core/engine/advice.h"
#include "core/engine/coordinator.h"
#include "core/engine/look.h"
#include "core/engine/prompt.h"
#include "kvcull/saved.h"

#include <stdlib.h>

/* Returns the method that holds the prompt stage and wants a draft of *count tokens after a prompt of `rows` rows, or
 * NULL. */
static const struct kvc_method *drafting_method(const struct kvc_session *session, size_t rows, uint32_t *count) {
    const struct kvc_method *method = kvc_policy_owner(session->policy, KVC_STAGE_PROMPT);
    int32_t offset;
    uint64_t held = 0;
    if (!method || !method->policy->draft || !method->policy->pseudo)
        return NULL;
    *count = method->policy->draft(&method->values);
    for (uint32_t l = 0; l < session->cache.layers; l++)
        held = kvc_max_u64(held, kvc_cache_most(&session->cache, l));
    const struct kvc_turn turn = {.count = rows,
                                  .held = held + rows,
                                  .seed = session->seed,
                                  .state = session->use[method - session->policy->method].state};
    return *count && method->policy->pseudo(&method->values, &turn, &offset, NULL) ? method : NULL;
}

/* Returns the token with the highest logit. Of equal logits, the lowest id wins. */
static int32_t best_token(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t t = 1; t < vocab; t++)
        best = logits[t] > logits[best] ? t : best;
    return (int32_t)best;
}

/* Answers the prompt greedily with `copy`. */
static enum kvc_status answer(struct kvc_session *copy, const int32_t *tokens, size_t rows,
                              const struct kvc_prompt_options *options, float *logits, int32_t *draft, uint32_t count,
                              struct kvc_error *error) {
    const struct kvc_prompt_options quiet = {.progress = options ? options->progress : NULL,
                                             .user = options ? options->user : NULL};
    const uint32_t vocab = copy->runner->network->vocab;
    enum kvc_status status = kvc_session_prompt(copy, tokens, rows, &quiet, logits, error);
    for (uint32_t i = 0; i < count && status == KVC_OK; i++) {
        draft[i] = best_token(logits, vocab);
        if (i + 1 < count)
            status = kvc_decode(&copy, &draft[i], 1, logits, NULL, error);
    }
    return status;
}

enum kvc_status kvc_draft(struct kvc_session *session, const int32_t *tokens, size_t rows,
                          const struct kvc_prompt_options *options, struct kvc_error *error) {
    const struct kvc_runner *runner = session->runner;
    struct kvc_session *copy;
    uint32_t count;
    free(session->prompt.draft);
    session->prompt.draft = NULL;
    if (session->drafting || (options && options->synthetic) || !drafting_method(session, rows, &count))
        return KVC_OK;
    if (runner->coordinator->several)
        return kvc_fail(error, KVC_USAGE, "policy %s: a draft of the answer needs a single process",
                        session->policy->spec);
    float *logits = malloc(runner->network->vocab * sizeof *logits);
    int32_t *draft = malloc(count * sizeof *draft);
    enum kvc_status status = logits && draft
                                 ? kvc_session_fork(session, &copy, error)
                                 : kvc_fail(error, KVC_RESOURCE, "session: no memory for a draft of %u tokens", count);
    if (status == KVC_OK) {
        copy->drafting = true;
        status = answer(copy, tokens, rows, options, logits, draft, count, error);
        kvc_session_close(copy);
    }
    free(logits);
    if (status == KVC_OK)
        session->prompt.draft = draft;
    else
        free(draft);
    return status;
}

enum kvc_status kvc_session_prompt(struct kvc_session *session, const int32_t *tokens, size_t count,
                                   const struct kvc_prompt_options *options, float *logits, struct kvc_error *error) {
    const struct kvc_runner *runner = session->runner;
    struct kvc_shared_options shared;
    if (count > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "prompt: %zu tokens; at most %d fit", count, INT32_MAX);
    options = runner->coordinator->begin_prompt(session, tokens, count, options, logits != NULL, &shared);
    const uint64_t environment = kvc_float_open();
    kvc_look_open(session->engine);
    enum kvc_status status = kvc_draft(session, tokens, count, options, error);
    if (status == KVC_OK)
        status = kvc_prompt_start(session, tokens, (uint32_t)count, error);
    if (status == KVC_OK)
        status = kvc_prompt_run(&session, 1, tokens, (uint32_t)count, options, logits, error);
    status = kvc_advise(session, session->tokens + count, status, error);
    kvc_float_close(environment);
    return runner->coordinator->end(runner, status, error);
}
