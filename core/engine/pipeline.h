/* pipeline.h - pipeline parallelism: each rank computes some consecutive layers. All ranks make the same calls. In each
 * call a rank receives the rows from the rank that has the layers below, runs them through its own layers and sends
 * them on. The last rank broadcasts the resulting status. Without a pipeline, these functions do nothing.
 *
 * Sending does not wait, so several passes, or several groups of a step's rows, may be in flight at once. A rank
 * continues with the next pass or group. It receives the statuses of the earlier ones later, each once and in order. */
#ifndef KVC_CORE_ENGINE_PIPELINE_H
#define KVC_CORE_ENGINE_PIPELINE_H

#include "core/engine/session.h"

/* Some rows of a batch in flight between ranks, with their failures. */
struct kvc_passing {
    struct kvc_runner *runner;
    struct kvc_batch *batch;
    uint32_t row, rows;                  /* 0 rows: an empty message */
    struct kvc_session *const *sessions; /* [count]; their failures travel with the rows */
    size_t count;
    enum kvc_status status; /* one status for all rows */
    struct kvc_error *error;
    const struct kvc_row_source *source; /* NULL, or the prompt's row source: a rank below may have pruned rows */
};

/* Receives rows before a rank's first layer. Adopts the failures of the ranks below, except where this rank has failed
 * itself. */
void kvc_pipeline_receive(struct kvc_passing *passing);
/* Sends rows after a rank's last layer. Lack of memory ends all ranks. */
void kvc_pipeline_send(struct kvc_passing *passing);
/* Receives the last rank's status and the sessions' failures, adopts the failures and returns the status. The last rank
 * receives nothing. */
enum kvc_status kvc_pipeline_receive_status(struct kvc_passing *passing);
/* Lets pending sends make progress. Called between layers. */
void kvc_pipeline_advance(struct kvc_runner *runner);
/* Returns how many passes of the session's prompt a rank may run ahead of the last status that it received. With 0, the
 * next pass waits for the status of the current one. */
uint32_t kvc_pipeline_lead(const struct kvc_session *session);
/* Returns the number of groups into which the `rows` of a decode step are divided. The groups flow through the pipeline
 * one after another. */
uint32_t kvc_pipeline_groups(const struct kvc_runner *runner, uint32_t rows);
/* Broadcasts data of the rank that has the last layer to all ranks. */
void kvc_pipeline_broadcast(struct kvc_runner *runner, void *data, size_t bytes);
/* Called on all ranks after a pass. Each rank keeps in its layers the entries that stages of other ranks' layers
 * chose. */
enum kvc_status kvc_pipeline_keep(struct kvc_session *session, struct kvc_error *error);
/* Returns true if the prompt stage's method divides entries among layers of several ranks. Its state then travels with
 * the rows. */
bool kvc_pipeline_shares(const struct kvc_session *session);
/* Returns KVC_USAGE for a policy that cannot run in a pipeline. */
enum kvc_status kvc_pipeline_check(const struct kvc_session *session, struct kvc_error *error);

#endif
