/* pipeline.h - pipeline parallelism: each rank computes some consecutive layers. All ranks make the same calls. In each
 * call a rank receives the rows from the rank that has the layers below, runs them through its own layers and sends
 * them on. The last rank broadcasts the resulting status.
 *
 * Sending does not wait, so several passes, or several groups of a step's rows, may be in flight at once. A rank
 * continues with the next pass or group. It receives the statuses of earlier passes or groups later, each once and in
 * order. */
#ifndef KVC_CORE_ENGINE_PIPELINE_H
#define KVC_CORE_ENGINE_PIPELINE_H

#include "core/engine/coordinator.h"
#include "core/ranks/ranks.h"

/* ---- messages (pipeline.c) ---- */

/* Receives rows before a rank's first layer. Adopts the failures of the ranks below, except where this rank has failed
 * itself. */
void kvc_pipeline_receive(struct kvc_passing *passing);
/* Sends rows after a rank's last layer. Lack of memory ends all ranks. */
void kvc_pipeline_send(struct kvc_passing *passing);
/* Receives the last rank's status and the sessions' failures, adopts the failures and returns the status. The last rank
 * receives nothing. */
enum kvc_status kvc_pipeline_receive_status(struct kvc_passing *passing);
static inline void kvc_pipeline_end(const struct kvc_ranks *ranks, const char *text) {
    ranks->link->class->end(ranks->link, text);
}

/* ---- members of kvc_pipeline (pipeline_passes.c) ---- */

enum kvc_status kvc_pipeline_step(struct kvc_passing *rows);
uint32_t kvc_pipeline_begin_passes(struct kvc_passing *rows, bool overlap);
enum kvc_status kvc_pipeline_pass(struct kvc_passing *rows);
enum kvc_status kvc_pipeline_end_passes(struct kvc_passing *rows, enum kvc_status status);
void kvc_pipeline_share_logits(struct kvc_runner *runner, float *logits, size_t bytes);

/* ---- choices for layers of other ranks (pipeline_keep.c) ---- */

/* Returns true if a layer of rank `rank` chooses the entries of another rank's layer. */
bool kvc_pipeline_decides(const struct kvc_session *session, uint32_t rank);
/* Called on all ranks after a pass. Applies the choices that stages of other ranks' layers made for this rank's
 * layers. */
enum kvc_status kvc_pipeline_settle(struct kvc_session *session, const struct kvc_row_source *source,
                                    struct kvc_error *error);
/* Returns true if the prompt stage's method divides entries among layers of several ranks. The method's state then
 * travels with the rows. */
bool kvc_pipeline_shares(const struct kvc_session *session);
/* Returns KVC_USAGE for a policy that cannot run in a pipeline. */
enum kvc_status kvc_pipeline_check(const struct kvc_session *session, struct kvc_error *error);

#endif
