/* prune_rows.h - token pruning: only some rows of a prompt are computed in the layers above. What a propagate stage
 * calls, kvc_stage_prune_tokens, is declared in
 * include/kvcull/policy.h. */
#ifndef KVC_CORE_ENGINE_PRUNE_ROWS_H
#define KVC_CORE_ENGINE_PRUNE_ROWS_H

#include "core/engine/session.h"

/* Keeps the rows that a propagate stage chose, and those that methods added, for the layers above; where no stage
 * chose, nothing changes. */
enum kvc_status kvc_prune_rows(struct kvc_session *session, const struct kvc_row_source *source,
                               struct kvc_error *error);

#endif
