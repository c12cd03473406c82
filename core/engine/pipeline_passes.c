/* pipeline_passes.c - runs rows through the layers of a pipeline: the rows of a decode step in groups, and the rows of
 * a prompt in passes that may overlap. */
#include "core/base/integers.h"
#include "core/engine/pass.h"
#include "core/engine/pipeline.h"

static struct kvc_ranks *ranks_of(const struct kvc_runner *runner) { return runner->network->part.pipeline; }

/* Runs received rows through the layers of this rank. */
static void run_own_layers(struct kvc_passing *rows) {
    const struct kvc_network *network = rows->runner->network;
    struct kvc_link *link = ranks_of(rows->runner)->stages.link;
    for (uint32_t l = 0; l < network->layers && rows->status == KVC_OK; l++) {
        if (!kvc_network_has(network, l))
            continue;
        rows->status = rows->layer(rows, l);
        link->class->advance(link);
    }
}

/* ---- the rows of a decode step ---- */

/* Returns the number of groups into which a step's rows are divided. A rank reads its weights once for each group.
 * Assume that this takes as long as the arithmetic of R rows. In units of the arithmetic of one row, a stage then takes
 * R + n for a group of n rows, and g groups of a step of B rows pass N stages in (N + g - 1) (R + B / g). This time is
 * smallest if g is about the square root of (N - 1) B / R. A CPU core computes about ten operations in the time in
 * which it reads a weight; a device with its own memory, more than a hundred. */
static uint32_t count_groups(const struct kvc_runner *runner, uint32_t rows) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    const uint64_t stages = ranks->stages.link->count, weights = runner->device->capacity ? 256 : 16;
    uint64_t least = UINT64_MAX;
    uint32_t best = 1;
    for (uint32_t groups = 1; groups <= rows; groups++) {
        const uint64_t time = (stages + groups - 1) * (weights + (rows + groups - 1) / groups);
        if (time >= least)
            continue;
        least = time;
        best = groups;
    }
    return best;
}

/* Returns group g of a step: consecutive rows that travel together. */
static struct kvc_passing group_of(const struct kvc_passing *rows, uint32_t groups, uint32_t g) {
    const uint32_t from = (uint32_t)((uint64_t)rows->rows * g / groups);
    const uint32_t to = (uint32_t)((uint64_t)rows->rows * (g + 1) / groups);
    struct kvc_passing group = *rows;
    group.row += from;
    group.rows = to - from;
    if (rows->count) {
        group.sessions += from;
        group.count = to - from;
    }
    return group;
}

/* Marks a session as failed if it has failed on another rank. */
static void fail_received(const struct kvc_passing *rows) {
    for (size_t i = 0; i < rows->count; i++)
        if (rows->sessions[i]->failure.status != KVC_OK)
            rows->sessions[i]->failed = true;
}

enum kvc_status kvc_pipeline_step(struct kvc_passing *rows) {
    const uint32_t groups = count_groups(rows->runner, rows->rows);
    for (uint32_t g = 0; g < groups; g++) {
        struct kvc_passing group = group_of(rows, groups, g);
        kvc_pipeline_receive(&group);
        fail_received(&group);
        run_own_layers(&group);
        kvc_pipeline_send(&group);
        rows->status = group.status;
    }
    for (uint32_t g = 0; g < groups; g++) {
        struct kvc_passing group = group_of(rows, groups, g);
        (void)kvc_pipeline_receive_status(&group);
        fail_received(&group);
        rows->status = group.status;
    }
    return rows->status;
}

/* ---- the passes of a prompt ---- */

/* Returns how many passes of the session's prompt a rank may run ahead of the last status that it received. With 0, the
 * next pass waits for the status of the current one. Passes can overlap if the policy does not need a layer's complete
 * rows before the next layer begins, and if no rank's layers depend on another rank's layers. Policies that choose
 * entries within a prompt must do so in the chunk stage. With N ranks and stages of equal duration, the first rank is
 * about to begin pass p + N when the last rank ends pass p. One more pass compensates for unequal durations. */
static uint32_t lead_of(const struct kvc_session *session) {
    const struct kvc_ranks *ranks = ranks_of(session->runner);
    const struct kvc_policy *policy = session->policy;
    const bool chunks = kvc_policy_owner(policy, KVC_STAGE_CHUNK);
    if (kvc_policy_owner(policy, KVC_STAGE_PROMPT) || kvc_policy_owner(policy, KVC_STAGE_PROPAGATE) ||
        (!chunks && kvc_policy_queries(policy) > 0))
        return 0;
    for (uint32_t r = 0; r < ranks->stages.link->count; r++)
        if (kvc_pipeline_decides(session, r))
            return 0;
    return ranks->stages.link->count;
}

uint32_t kvc_pipeline_begin_passes(struct kvc_passing *rows, bool overlap) {
    rows->whole_passes = true;
    rows->lead = overlap ? UINT32_MAX : 0;
    for (size_t i = 0; i < rows->count; i++)
        rows->lead = kvc_min_u32(rows->lead, lead_of(rows->sessions[i]));
    /* an overlapping pass has as many rows as a layer computes at once, so rows are computed as without a pipeline
     */
    return rows->lead ? rows->sessions[0]->chunk : UINT32_MAX;
}

/* Receives the statuses of all passes sent, except the last `lead` passes. Returns true if one has failed and all ranks
 * know it by now. The last rank learns of a failure first, and continues as long as the others do. */
static bool receive_statuses(struct kvc_passing *rows, uint32_t lead) {
    bool failed = false;
    if (kvc_network_ends(rows->runner->network))
        return rows->status != KVC_OK && rows->late++ >= lead;
    for (; rows->unreceived > lead; rows->unreceived--)
        failed = kvc_pipeline_receive_status(rows) != KVC_OK || failed;
    return failed;
}

/* Applies the choices that the policies' stages made in layers of other ranks. A failure ends all ranks, because the
 * others would wait for this one. */
static void settle(const struct kvc_passing *rows) {
    struct kvc_error error;
    for (size_t i = 0; i < rows->count; i++)
        if (kvc_session_lives(rows->sessions[i]) &&
            kvc_pipeline_settle(rows->sessions[i], rows->source, &error) != KVC_OK)
            kvc_pipeline_end(ranks_of(rows->runner), error.text);
}

/* Runs a pass. After a failed pass, the function computes no layer, but still receives the messages of ranks below and
 * sends the failure on. */
enum kvc_status kvc_pipeline_pass(struct kvc_passing *rows) {
    kvc_pipeline_receive(rows);
    run_own_layers(rows);
    rows->rows = rows->rows ? rows->batch->rows : 0; /* a layer may have pruned rows */
    kvc_pipeline_send(rows);
    rows->unreceived++;
    if (receive_statuses(rows, rows->lead))
        return rows->status;
    if (rows->lead)
        return KVC_OK;
    settle(rows);
    return kvc_prompts_live(rows->sessions, rows->count, rows->error);
}

enum kvc_status kvc_pipeline_end_passes(struct kvc_passing *rows, enum kvc_status status) {
    (void)receive_statuses(rows, 0);
    return rows->status != KVC_OK ? rows->status : status;
}

void kvc_pipeline_share_logits(struct kvc_runner *runner, float *logits, size_t bytes) {
    struct kvc_ranks *ranks = ranks_of(runner);
    struct kvc_link *link = ranks->stages.link;
    struct kvc_error error = {KVC_OK, ""};
    if (kvc_network_ends(runner->network) && runner->device->ops->sync(runner->device, &error) != KVC_OK)
        kvc_pipeline_end(ranks, error.text);
    link->class->broadcast(link, logits, bytes, link->count - 1);
}
