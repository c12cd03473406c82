/* converse.c - asks several questions about one text, as turns of a conversation or as separate requests. Measures the
 * memory while long answers grow. Generation is greedy, as in answer.c. */
#include "eval/eval.h"
#include "eval/singly.h"
#include "kvcull/saved.h"

#include <stdlib.h>
#include <string.h>

struct dialogue {
    struct kvc_model *model;
    struct kvc_session *session;
    const struct eval_task *task;
    uint32_t most; /* maximum number of tokens of an answer */
    float *logits;
    int32_t *made;              /* [most] */
    int32_t pending;            /* the previous answer's last token, if the session has not computed it; -1: none */
    uint64_t read_bytes, steps; /* values at the start of this turn */
    struct kvc_session *text;   /* for EVAL_REQUESTS: a session that has read only the text, to be forked for later
                                 * requests; NULL: no session has read the text yet */
    struct eval_computed *computed;
};

static uint64_t microseconds(double seconds) { return seconds > 0 ? (uint64_t)(1e6 * seconds) : 0; }

static uint64_t held(const struct kvc_session *session) {
    struct kvc_session_stats stats;
    kvc_session_stats(session, &stats);
    return stats.cache_bytes + stats.state_bytes;
}

/* Records the memory after `count` tokens of the answer. The points are evenly spaced; the last one is the answer's
 * end. */
static void watch(const struct dialogue *d, size_t count, bool last, struct eval_reply *answer) {
    const uint64_t bytes = d->task->memory ? held(d->session) : 0;
    const uint64_t next = (uint64_t)answer->points * d->most / (EVAL_POINTS - 1);
    if (!d->task->memory)
        return;
    answer->answer_peak_bytes = cli_max(answer->answer_peak_bytes, bytes);
    if (answer->points == EVAL_POINTS || (!last && count < next) ||
        (answer->points > 0 && answer->memory[answer->points - 1][0] == count))
        return;
    answer->memory[answer->points][0] = count;
    answer->memory[answer->points++][1] = bytes;
}

static enum kvc_status generate(struct dialogue *d, struct eval_reply *answer, struct kvc_error *error) {
    const uint32_t vocab = kvc_model_info(d->model)->vocab;
    enum kvc_status status = KVC_OK;
    size_t count = 0, bytes;
    watch(d, 0, false, answer);
    while (status == KVC_OK && count < d->most) {
        const int32_t token = eval_likeliest(d->logits, vocab);
        if (kvc_token_ends_turn(d->model, token))
            break;
        d->made[count++] = d->pending = token;
        if (count == d->most)
            break;
        status = kvc_decode(&d->session, &token, 1, d->logits, NULL, error);
        d->pending = -1;
        if (status == KVC_OK)
            watch(d, count, false, answer);
    }
    if (status == KVC_OK)
        watch(d, count, true, answer);
    answer->tokens = count;
    if (status == KVC_OK && count > 0)
        status = kvc_detokenize(d->model, d->made, count, false, &answer->text, &bytes, error);
    else if (status == KVC_OK && !(answer->text = strdup("")))
        status = kvc_fail(error, KVC_RESOURCE, "no memory left");
    return status;
}

/* Reads these tokens as a prompt, preceded by the pending token. */
static enum kvc_status converse_give(struct dialogue *d, const int32_t *tokens, size_t count, struct kvc_error *error) {
    int32_t *all = malloc((count + 1) * sizeof *all);
    size_t before = 0;
    if (!all)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    if (d->pending >= 0)
        all[before++] = d->pending;
    memcpy(all + before, tokens, count * sizeof *all);
    d->pending = -1;
    const enum kvc_status status = kvc_session_prompt(d->session, all, before + count, NULL, d->logits, error);
    d->computed->prompt_tokens += before + count;
    d->computed->computed_tokens += before + count;
    free(all);
    return status;
}

/* Asks one question and generates the answer. `start` is the time at which the prompt's computation began. */
static enum kvc_status converse_ask(struct dialogue *d, double start, const int32_t *tokens, size_t count,
                                    struct eval_reply *answer, struct kvc_error *error) {
    struct kvc_session_stats stats;
    enum kvc_status status = count ? converse_give(d, tokens, count, error) : KVC_OK;
    if (status != KVC_OK)
        return status;
    const double ready = cli_seconds();
    kvc_session_stats(d->session, &stats);
    answer->entries = stats.entries_most;
    answer->held_bytes = stats.cache_bytes + stats.state_bytes;
    answer->prompt_us = microseconds(ready - start);
    status = generate(d, answer, error);
    if (status != KVC_OK)
        return status;
    kvc_session_stats(d->session, &stats);
    answer->peak_bytes = stats.peak_bytes;
    answer->read_bytes = stats.read_bytes - d->read_bytes;
    answer->steps = stats.decode_steps - d->steps;
    answer->answer_us = microseconds(cli_seconds() - ready);
    d->read_bytes = stats.read_bytes;
    d->steps = stats.decode_steps;
    return KVC_OK;
}

/* Makes a session that has read the text. Later requests get forks of it, because the compression of the text must not
 * depend on the question. If there is no memory for another session, the next request reads the text again. */
static enum kvc_status read_text(struct dialogue *d, const struct kvc_session_options *options,
                                 const struct eval_prompt *prompt, bool more, struct kvc_error *error) {
    struct kvc_session *text = d->text;
    enum kvc_status status = KVC_OK;
    if (!text) {
        status = kvc_session_open(d->model, options, &d->session, error);
        if (status == KVC_OK && prompt->context > 0)
            status = converse_give(d, prompt->tokens, prompt->context, error);
        return status == KVC_OK && more && kvc_session_fork(d->session, &d->text, error) != KVC_OK &&
                       error->status != KVC_RESOURCE
                   ? error->status
                   : status;
    }
    d->computed->prompt_tokens += prompt->context;
    if (more && kvc_session_fork(text, &d->session, error) == KVC_OK)
        return KVC_OK;
    if (more && error->status != KVC_RESOURCE)
        return error->status;
    d->session = text; /* this is the last request, or there is no memory for a fork */
    d->text = NULL;
    return KVC_OK;
}

/* Asks a question in one prompt with the text. */
static enum kvc_status ask_whole(struct dialogue *d, const struct kvc_session_options *options,
                                 const struct eval_prompt *prompt, const struct eval_part *rest,
                                 struct eval_reply *answer, struct kvc_error *error) {
    const double start = cli_seconds();
    int32_t *whole = malloc((prompt->context + rest->count) * sizeof *whole);
    if (!whole)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    memcpy(whole, prompt->tokens, prompt->context * sizeof *whole);
    memcpy(whole + prompt->context, rest->tokens, rest->count * sizeof *whole);
    enum kvc_status status = kvc_session_open(d->model, options, &d->session, error);
    if (status == KVC_OK)
        status = converse_ask(d, start, whole, prompt->context + rest->count, answer, error);
    free(whole);
    return status;
}

/* Begins a conversation, or a separate request, with question `which` after the text. */
static enum kvc_status converse_begin(struct dialogue *d, const struct kvc_session_options *options,
                                      const struct eval_prompt *prompt, size_t which, bool seen,
                                      struct eval_reply *answer, struct kvc_error *error) {
    const struct eval_part rest =
        which ? prompt->later[which - 1]
              : (struct eval_part){prompt->tokens + prompt->context, prompt->count - prompt->context, prompt->hash};
    const bool more = d->task->manner == EVAL_REQUESTS && which < prompt->later_count;
    const double start = cli_seconds();
    kvc_session_close(d->session);
    d->session = NULL;
    d->pending = -1;
    d->read_bytes = d->steps = 0;
    if (seen)
        return ask_whole(d, options, prompt, &rest, answer, error);
    const enum kvc_status status = read_text(d, options, prompt, more, error);
    return status == KVC_OK ? converse_ask(d, start, rest.tokens, rest.count, answer, error) : status;
}

enum kvc_status eval_converse(struct kvc_model *model, const struct kvc_session_options *options,
                              const struct eval_task *task, const struct eval_prompt *prompt, bool seen, uint32_t most,
                              float *logits, struct eval_reply *replies, struct eval_computed *computed,
                              struct kvc_error *error) {
    struct dialogue d = {
        .model = model, .task = task, .most = most, .logits = logits, .pending = -1, .computed = computed};
    enum kvc_status status = KVC_OK;
    memset(replies, 0, (prompt->later_count + 1) * sizeof *replies);
    d.made = malloc(((size_t)most + 1) * sizeof *d.made);
    if (!d.made)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    for (size_t q = 0; q <= prompt->later_count && status == KVC_OK; q++) {
        if (q == 0 || task->manner == EVAL_REQUESTS) {
            status = converse_begin(&d, options, prompt, q, seen, &replies[q], error);
        } else {
            const struct eval_part *next = &prompt->later[q - 1];
            status = converse_ask(&d, cli_seconds(), next->tokens, next->count, &replies[q], error);
        }
    }
    kvc_session_close(d.session);
    kvc_session_close(d.text);
    free(d.made);
    return status;
}
