/* windows.c - measures policies on windows of the user's text: perplexity and fidelity. */
#include "eval/windows.h"
#include "core/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokenizes the whole text on first use. */
static enum kvc_status tokenize(struct eval_run *run, struct kvc_error *error) {
    if (run->text_tokens)
        return KVC_OK;
    return kvc_tokenize(run->model, run->data.text, run->data.text_bytes, KVC_TOKENIZE_BOS, &run->text_tokens,
                        &run->text_count, error);
}

enum kvc_status eval_window_fits(struct eval_run *run, const struct eval_request *request, struct kvc_error *error) {
    const enum kvc_status status = tokenize(run, error);
    if (status != KVC_OK || run->text_count / request->length >= (uint64_t)run->samples)
        return status;
    return kvc_fail(
        error, KVC_USAGE,
        "--samples %lld: --text %s has %zu tokens, only %llu windows of --length %llu; give fewer samples or a longer "
        "text",
        (long long)run->samples, run->files[EVAL_TEXT], run->text_count,
        (unsigned long long)(run->text_count / request->length), (unsigned long long)request->length);
}

enum kvc_status eval_window_open(struct eval_run *run, const struct eval_request *request, struct eval_window *window,
                                 struct kvc_error *error) {
    const enum kvc_status status = eval_window_fits(run, request, error);
    *window = (struct eval_window){.run = run};
    if (status != KVC_OK)
        return status;
    window->count = (size_t)request->length;
    window->tokens = run->text_tokens + request->index * window->count;
    window->prompt = window->count / 2;
    KVC_ASSERT((request->index + 1) * window->count <= run->text_count);
    return KVC_OK;
}

void eval_window_close(struct eval_window *window) {
    if (window->free_state)
        window->free_state(window->state);
    window->state = NULL;
    window->free_state = NULL;
}

enum kvc_status eval_measure_perplexity(struct eval_window *window, struct kvc_error *error) {
    struct kvc_model *model = window->run->model;
    const uint32_t vocab = kvc_model_info(model)->vocab;
    float *logits = window->run->logits;
    struct eval_reply *reply = &window->reply;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    const double start = cli_seconds();
    double loss = 0;
    window->options.expected = window->count - window->prompt;
    enum kvc_status status = kvc_session_open(model, &window->options, &session, error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, window->tokens, window->prompt, NULL, logits, error);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        reply->entries = stats.entries_most;
        reply->held_bytes = stats.cache_bytes + stats.state_bytes;
        reply->prompt_us = (uint64_t)(1e6 * (cli_seconds() - start));
    }
    for (size_t i = window->prompt; i < window->count && status == KVC_OK; i++) {
        loss += cli_loss(logits, vocab, window->tokens[i]);
        if (i + 1 < window->count) /* the last token is only scored, not processed */
            status = kvc_decode(&session, &window->tokens[i], 1, logits, NULL, error);
    }
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        reply->tokens = window->count - window->prompt;
        reply->peak_bytes = stats.peak_bytes;
        reply->read_bytes = stats.read_bytes;
        reply->steps = stats.decode_steps;
        window->score = loss / (double)reply->tokens;
        if (!isfinite(window->score)) /* true if a logit was near the limits of float32 */
            status = kvc_fail(error, KVC_INPUT, "the model gives a token of the text probability 0");
    }
    kvc_session_close(session);
    return status;
}

/* ---- fidelity ---- */

enum { FIDELITY_STEPS = 64 };

static void free_fidelity(void *state) { fidelity_close(state); }

/* Runs the full cache once, for all policies of a window. */
static enum kvc_status open_fidelity(struct eval_window *window, struct kvc_error *error) {
    struct eval_run *run = window->run;
    struct fidelity *fidelity = &run->fidelity;
    if (window->state)
        return KVC_OK;
    if (!fidelity->engine) {
        fidelity_class(&run->fidelity_class, fidelity);
        const enum kvc_status status = kvc_engine_register(run->engine, &run->fidelity_class, error);
        if (status != KVC_OK)
            return status;
    }
    fidelity->engine = run->engine;
    fidelity->model = run->model;
    fidelity->tokens = window->tokens;
    fidelity->steps = cli_min(FIDELITY_STEPS, window->count / 2);
    fidelity->count = window->count - fidelity->steps;
    KVC_ASSERT(fidelity->count > 0);
    fidelity->options = &window->options;
    window->state = fidelity;
    window->free_state = free_fidelity;
    return fidelity_open(fidelity, error);
}

enum kvc_status eval_measure_fidelity(struct eval_window *window, struct kvc_error *error) {
    const char *spec = window->options.policy;
    struct fidelity_score score = {.recall = NULL};
    struct eval_reply *reply = &window->reply;
    const double start = cli_seconds();
    window->options.expected = FIDELITY_STEPS;
    enum kvc_status status = open_fidelity(window, error);
    if (status == KVC_OK)
        status = fidelity_run(&window->run->fidelity, spec, &score, error);
    if (status == KVC_OK) {
        const struct fidelity *fidelity = &window->run->fidelity;
        const struct {
            const char *name;
            double value;
        } values[] = {{"worst head", score.recall_worst},
                      {"output", score.error_mean},
                      {"KL", score.divergence},
                      {"top-1", (double)score.same / (double)(fidelity->steps + 1)}};
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            window->values[i].name = values[i].name;
            window->values[i].value = values[i].value;
            if (!isfinite(values[i].value))
                status = kvc_fail(error, KVC_INPUT, "the value \"%s\" is not finite", values[i].name);
        }
        window->value_count = sizeof values / sizeof *values;
        window->score = fmin(1, score.recall_mean); /* because of rounding, a mean of fractions can exceed 1 */
        reply->tokens = fidelity->steps;
        reply->entries = score.entries;
        reply->held_bytes = score.held_bytes;
        reply->peak_bytes = cli_max(score.peak_bytes, score.end_bytes);
        reply->read_bytes = score.read_bytes * fidelity->steps;
        reply->steps = fidelity->steps;
        reply->answer_us = (uint64_t)(1e6 * (cli_seconds() - start));
    }
    fidelity_score_free(&score);
    return status;
}
