/* pipeline.h - ranks that have a run of layers each. All make the same calls; in each a rank gets the rows from the one
 * that has the layers below, takes them through its own layers and passes them on; the last tells all what became of
 * them. Where there is no pipeline, nothing of this happens.
 *
 * Passing on does not wait, so that several passes, or groups of a step's rows, may be on their way at once: a rank
 * goes on with the next, and hears later what became of those before, of each once and in their order. */
#ifndef KVC_CORE_ENGINE_PIPELINE_H
#define KVC_CORE_ENGINE_PIPELINE_H

#include "core/engine/session.h"

/* Rows on their way: some of a batch, with what went wrong on the way. */
struct kvc_passing {
    struct kvc_runner *runner;
    struct kvc_batch *batch;
    uint32_t row, rows;                  /* 0 rows: there is nothing in them */
    struct kvc_session *const *sessions; /* [count], whose failures go with them */
    size_t count;
    enum kvc_status status; /* of all of them */
    struct kvc_error *error;
    const struct kvc_row_source *source; /* of a prompt, of which a rank below may have kept some rows only; or NULL */
};

/* Before a rank's first layer. Where the status, or a session, is still good it becomes that of the ranks below. */
void kvc_pipeline_receive(struct kvc_passing *passing);
/* After its last one. Lack of memory ends all ranks. */
void kvc_pipeline_send(struct kvc_passing *passing);
/* What the last rank found the status, which is returned, and the sessions' failures to be: what is bad there is so
 * here. The last rank itself hears nothing. */
enum kvc_status kvc_pipeline_receive_status(struct kvc_passing *passing);
/* Between layers: what was passed on goes on. */
void kvc_pipeline_advance(struct kvc_runner *runner);
/* How many passes of the session's prompt a rank may be ahead of what it has heard; 0: the next one waits for what
 * became of this. */
uint32_t kvc_pipeline_lead(const struct kvc_session *session);
/* Into how many groups the `rows` of a decode step are divided, which flow one after another. */
uint32_t kvc_pipeline_groups(const struct kvc_runner *runner, uint32_t rows);
/* What the rank with the last layer has becomes what all have. */
void kvc_pipeline_broadcast(struct kvc_runner *runner, void *data, size_t bytes);
/* After a pass, on all ranks: each keeps in its layers what stages of other ranks' layers chose for them. */
enum kvc_status kvc_pipeline_keep(struct kvc_session *session, struct kvc_error *error);
/* Whether the prompt stage's holder shares out entries among layers of several ranks: its state goes with the rows. */
bool kvc_pipeline_shares(const struct kvc_session *session);
/* KVC_USAGE for a policy that a pipeline cannot run. */
enum kvc_status kvc_pipeline_check(const struct kvc_session *session, struct kvc_error *error);

#endif
