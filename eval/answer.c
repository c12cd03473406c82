/* answer.c - one policy's answer to one sample: greedy, until the end of the turn or the task's length. */
#include "eval/answer.h"
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

static uint64_t microseconds(double seconds) { return seconds > 0 ? (uint64_t)(1e6 * seconds) : 0; }

/* [most] tokens and how many of them were made; the end of the turn is none. */
static enum kvc_status generate(struct kvc_model *model, struct kvc_session *session, uint32_t most, float *logits,
                                int32_t *made, size_t *count, struct kvc_error *error) {
    const uint32_t vocab = kvc_model_info(model)->vocab;
    enum kvc_status status = KVC_OK;
    *count = 0;
    while (status == KVC_OK && *count < most) {
        const int32_t token = eval_likeliest(logits, vocab);
        if (kvc_token_ends_turn(model, token))
            break;
        made[(*count)++] = token;
        if (*count < most)
            status = kvc_decode(&session, &token, 1, logits, NULL, error);
    }
    return status;
}

enum kvc_status eval_ask(struct kvc_model *model, const struct kvc_session_options *options,
                         const struct eval_prompt *prompt, bool seen, uint32_t most, float *logits,
                         struct eval_answer *answer, struct kvc_error *error) {
    const size_t first = seen ? prompt->count : prompt->context;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    int32_t *made = malloc((most + 1) * sizeof *made);
    size_t count = 0, bytes;
    const double start = cli_seconds();
    double ready = start;

    *answer = (struct eval_answer){0};
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    enum kvc_status status = kvc_session_open(model, options, &session, error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, prompt->tokens, first, NULL, logits, error);
    if (status == KVC_OK && first < prompt->count)
        status = kvc_session_prompt(session, prompt->tokens + first, prompt->count - first, NULL, logits, error);
    if (status == KVC_OK) {
        ready = cli_seconds();
        kvc_session_stats(session, &stats);
        answer->entries = stats.entries_most;
        answer->held_bytes = stats.cache_bytes + stats.state_bytes;
        answer->prompt_us = microseconds(ready - start);
        status = generate(model, session, most, logits, made, &count, error);
    }
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        answer->tokens = count;
        answer->peak_bytes = stats.peak_bytes;
        answer->read_bytes = stats.read_bytes;
        answer->steps = stats.decode_steps;
        answer->answer_us = microseconds(cli_seconds() - ready);
        if (count == 0)
            answer->text = strdup("");
        else
            status = kvc_detokenize(model, made, count, false, &answer->text, &bytes, error);
        if (status == KVC_OK && !answer->text)
            status = kvc_fail(error, KVC_RESOURCE, "no memory left");
    }
    kvc_session_close(session);
    free(made);
    return status;
}
