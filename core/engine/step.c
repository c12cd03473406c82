/* step.c - runs a decode step through one layer: projections, append, selection, attention, eviction, feed-forward. */
#include "core/engine/step.h"

#include "core/stage/stage_call.h"

/* Returns row i of a scratch buffer whose rows have `width` floats. */
static struct kvc_span row_of(const struct kvc_growable *growable, uint32_t i, size_t width) {
    return kvc_growable_at(growable, i * width * sizeof(float));
}

/* Projects the rows to queries, keys and values. If a method has positions=cache, the queries and keys are rotated by
 * their indices instead of their positions. */
static void project(const struct kvc_step *step, uint32_t layer) {
    kvc_runner_project_queries_keys(step->runner, &step->runner->step, layer, step->first, step->count);
    for (uint32_t i = 0; i < step->count; i++)
        kvc_cache_positions_rotate(step->session[i], layer, i, 1);
    kvc_runner_project_values(step->runner, layer, step->count);
}

/* Appends each row's key and value to its session's lists. If a select method keeps a view (a subset of the entries),
 * the new entry also joins the view. */
static void step_append(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    for (uint32_t i = 0; i < step->count; i++)
        runner->segments[i] = (struct kvc_segment){.lists = &step->session[i]->cache.layer[layer].lists,
                                                   .row = i,
                                                   .rows = 1,
                                                   .stored = step->stored,
                                                   .bytes_read = &step->session[i]->sums.read_bytes};
    kvc_runner_append(runner, runner->segments, step->count, kvc_growable_at(&runner->k, 0),
                      kvc_growable_at(&runner->v, 0),
                      kvc_growable_at(&runner->step.positions, step->first * sizeof(int32_t)));
    for (uint32_t i = 0; i < step->count; i++) {
        kvc_cache_appended(&step->session[i]->cache, layer, step->stored);
        kvc_cache_positions_keep(step->session[i], layer, i, step->stored);
        if (step->stored)
            kvc_select_appended(step->session[i], layer);
    }
}

/* Returns the entries that the session's query reads, or NULL if it reads all of them. */
static const struct kvc_read_list *select_reads(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    session->select.mixing = false;
    if (session->failed || !kvc_policy_owner(session->policy, KVC_STAGE_SELECT))
        return NULL;
    struct kvc_stage stage = kvc_stage_make(session, layer);
    kvc_stage_set_rows(&stage, &step->runner->step, i, step->first + i, 1);
    stage.maximum = stage.sum = (struct kvc_span){NULL, 0}; /* not known before attention */
    session->failed = kvc_stage_call_select(&stage, &session->failure) != KVC_OK;
    session->select.mixing = !session->failed && stage.mean_value;
    return session->failed ? NULL : stage.chosen;
}

static void select_entries(const struct kvc_step *step, uint32_t layer) {
    for (uint32_t i = 0; i < step->count; i++)
        step->runner->segments[i].reads = select_reads(step, i, layer);
}

/* Computes attention over the selected entries. Some methods then blend in the mean of the unselected entries' value
 * vectors. */
static void step_attend(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    const size_t width = (size_t)runner->geometry.heads * runner->geometry.head_size;
    kvc_runner_attend(runner, &runner->step, layer, step->first, runner->segments, step->count);
    for (uint32_t i = 0; i < step->count; i++)
        if (!step->session[i]->failed)
            kvc_select_mix(step->session[i], layer, runner->segments[i].reads, row_of(&runner->attended, i, width));
}

/* Sends the attention output and the list of read entries to the session's observers. */
static enum kvc_status report(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    const struct kvc_geometry *g = &step->runner->geometry;
    kvc_record_output(session, layer, row_of(&step->runner->attended, i, (size_t)g->heads * g->head_size));
    return kvc_record_reads(session, layer, step->runner->segments[i].reads, &session->failure);
}

/* Calls the decode stage of a session. Its method may read the query's scores and evict entries. */
static enum kvc_status run_decode_stage(const struct kvc_step *step, uint32_t i, uint32_t layer) {
    struct kvc_session *session = step->session[i];
    struct kvc_stage stage = kvc_stage_make(session, layer);
    kvc_stage_set_rows(&stage, &step->runner->step, i, step->first + i, 1);
    stage.reads = step->runner->segments[i].reads;
    return kvc_stage_call_decode(&stage, &session->failure);
}

static void step_evict(const struct kvc_step *step, uint32_t layer) {
    for (uint32_t i = 0; i < step->count; i++) {
        struct kvc_session *session = step->session[i];
        if (session->failed)
            continue;
        session->failed = report(step, i, layer) != KVC_OK || run_decode_stage(step, i, layer) != KVC_OK;
    }
}

/* Adds the output projection of the attention output to hidden, then the output of the feed-forward network. */
static void feed_forward(const struct kvc_step *step, uint32_t layer) {
    kvc_runner_project_output(step->runner, &step->runner->step, layer, step->first, step->count);
    kvc_runner_feed_forward(step->runner, &step->runner->step, layer, step->first, step->count);
}

/* Runs the rows through the delta nets below an attention layer. */
static void pass_delta(const struct kvc_step *step, uint32_t layer) {
    struct kvc_runner *runner = step->runner;
    const struct kvc_layer *above = &runner->network->layer[layer];
    for (uint32_t d = above->delta_from; d < above->delta_from + above->delta_count; d++) {
        for (uint32_t i = 0; i < step->count; i++)
            runner->recurrences[i] = (struct kvc_recurrence){
                .state = kvc_session_recurrent(step->session[i], d), .row = i, .rows = 1, .kept = step->stored > 0};
        kvc_runner_delta(runner, &runner->step, d, step->first, step->count, runner->recurrences, step->count);
    }
}

void kvc_step_layer(const struct kvc_step *step, uint32_t layer) {
    const bool replay = !step->runner->network; /* a replay supplies q, k and v and uses only the attention output */
    if (!replay) {
        pass_delta(step, layer);
        project(step, layer);
    }
    step_append(step, layer);
    select_entries(step, layer);
    step_attend(step, layer);
    step_evict(step, layer);
    if (!replay)
        feed_forward(step, layer);
}
