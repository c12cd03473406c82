/* answer.c - answers one sample with several policies. Sessions that can share the prompt compute it once. Greedy steps
 * run in one batch. A session leaves the batch at the end of its turn or at the length limit. */
#include "eval/answer.h"
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

enum kvc_status eval_group_open(struct eval_group *group, struct kvc_model *model,
                                const struct kvc_session_options *options, size_t count, float *logits,
                                struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    *group = (struct eval_group){.model = model,
                                 .sessions = calloc(count, sizeof *group->sessions),
                                 .answers = calloc(count, sizeof *group->answers),
                                 .logits = logits};
    if (!group->sessions || !group->answers)
        return no_memory(error);
    for (; group->count < count && status == KVC_OK; group->count++)
        status = kvc_session_open(model, &options[group->count], &group->sessions[group->count], error);
    return status;
}

void eval_group_close(struct eval_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        kvc_session_close(group->sessions[i]);
        free(group->answers[i].text);
    }
    free(group->sessions);
    free(group->answers);
    *group = (struct eval_group){.count = 0};
}

/* Divides a turn's time among the sessions. If rows were computed for several sessions at once, each session gets an
 * equal part of their time. */
static void share_out(struct eval_group *group, double seconds) {
    struct kvc_session_stats stats;
    double parts = 0;
    for (size_t i = 0; i < group->count; i++) {
        kvc_session_stats(group->sessions[i], &stats);
        parts += 1.0 / stats.prompt_sessions;
    }
    for (size_t i = 0; i < group->count; i++) {
        kvc_session_stats(group->sessions[i], &stats);
        group->answers[i].prompt_seconds += seconds / parts / stats.prompt_sessions;
    }
}

enum kvc_status eval_group_read(struct eval_group *group, const int32_t *tokens, size_t count,
                                struct kvc_error *error) {
    const double start = cli_seconds();
    const enum kvc_status status =
        group->count == 1
            ? kvc_session_prompt(group->sessions[0], tokens, count, NULL, group->logits, error)
            : kvc_session_prompt_many(group->sessions, group->count, tokens, count, group->logits, NULL, error);
    if (status != KVC_OK)
        return status;
    group->prompt_tokens += (uint64_t)count * group->count;
    share_out(group, cli_seconds() - start);
    return KVC_OK;
}

uint64_t eval_group_computed(const struct eval_group *group) {
    const uint32_t layers = kvc_model_info(group->model)->layers;
    uint64_t spared = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct kvc_session_stats stats;
        kvc_session_stats(group->sessions[i], &stats);
        spared += stats.spared_rows / layers;
    }
    return group->prompt_tokens - spared;
}

/* The sessions that have not ended, in the group's order. */
struct batch {
    struct kvc_session **sessions; /* [count] */
    size_t *place;                 /* [count]: index in the group */
    int32_t *tokens;               /* [count] */
    size_t count;
};

static bool batch_open(struct batch *batch, const struct eval_group *group) {
    *batch = (struct batch){.sessions = malloc(group->count * sizeof *batch->sessions),
                            .place = malloc(group->count * sizeof *batch->place),
                            .tokens = malloc(group->count * sizeof *batch->tokens),
                            .count = group->count};
    for (size_t i = 0; batch->place && i < group->count; i++)
        batch->place[i] = i;
    return batch->sessions && batch->place && batch->tokens;
}

static void batch_close(struct batch *batch) {
    free(batch->sessions);
    free(batch->place);
    free(batch->tokens);
}

/* Takes each session's most likely token from its row of logits, unless the token ends the turn, and stores it in made
 * [group, most]. Afterwards the batch has only the sessions that continue. */
static void take_tokens(struct eval_group *group, struct batch *batch, uint32_t most, int32_t *made) {
    const size_t vocab = kvc_model_info(group->model)->vocab;
    size_t left = 0;
    for (size_t k = 0; k < batch->count; k++) {
        const size_t i = batch->place[k];
        struct eval_answer *answer = &group->answers[i];
        const int32_t token = eval_likeliest(group->logits + k * vocab, (uint32_t)vocab);
        if (kvc_token_ends_turn(group->model, token))
            continue;
        made[i * most + answer->tokens++] = token;
        if (answer->tokens == most)
            continue;
        batch->place[left] = i;
        batch->sessions[left] = group->sessions[i];
        batch->tokens[left++] = token;
    }
    batch->count = left;
}

/* Stores the session's figures, and its answer as text. */
static enum kvc_status conclude(struct eval_group *group, size_t i, const int32_t *made, struct kvc_error *error) {
    struct eval_answer *answer = &group->answers[i];
    struct kvc_session_stats stats;
    enum kvc_status status = KVC_OK;
    size_t bytes;
    kvc_session_stats(group->sessions[i], &stats);
    answer->peak_bytes = stats.peak_bytes;
    answer->read_bytes = stats.read_bytes;
    answer->steps = stats.decode_steps;
    free(answer->text);
    answer->text = NULL;
    if (answer->tokens == 0)
        answer->text = strdup("");
    else
        status = kvc_detokenize(group->model, made, (size_t)answer->tokens, false, &answer->text, &bytes, error);
    return status == KVC_OK && !answer->text ? no_memory(error) : status;
}

enum kvc_status eval_group_answer(struct eval_group *group, uint32_t most, struct kvc_error *error) {
    struct batch batch;
    int32_t *made = malloc((group->count * most + 1) * sizeof *made);
    const bool opened = batch_open(&batch, group);
    enum kvc_status status = opened && made ? KVC_OK : no_memory(error);
    for (size_t i = 0; i < group->count; i++)
        group->answers[i].tokens = 0;
    while (status == KVC_OK && most > 0) {
        const double start = cli_seconds();
        take_tokens(group, &batch, most, made);
        if (batch.count == 0)
            break;
        status = kvc_decode(batch.sessions, batch.tokens, batch.count, group->logits, NULL, error);
        const double each = (cli_seconds() - start) / (double)batch.count;
        for (size_t k = 0; k < batch.count; k++)
            group->answers[batch.place[k]].answer_seconds += each;
    }
    for (size_t i = 0; i < group->count && status == KVC_OK; i++)
        status = conclude(group, i, made + i * most, error);
    batch_close(&batch);
    free(made);
    return status;
}

enum kvc_status eval_ask(struct eval_group *group, const struct eval_prompt *prompt, bool seen, uint32_t most,
                         struct kvc_error *error) {
    const size_t first = seen ? prompt->count : prompt->context;
    enum kvc_status status = eval_group_read(group, prompt->tokens, first, error);
    if (status == KVC_OK && first < prompt->count)
        status = eval_group_read(group, prompt->tokens + first, prompt->count - first, error);
    for (size_t i = 0; i < group->count && status == KVC_OK; i++) {
        struct kvc_session_stats stats;
        kvc_session_stats(group->sessions[i], &stats);
        group->answers[i].entries = stats.entries_most;
        group->answers[i].held_bytes = stats.cache_bytes + stats.state_bytes;
    }
    return status == KVC_OK ? eval_group_answer(group, most, error) : status;
}
