/* prune_rows.h - token pruning: the layers above compute only some rows of a prompt. A propagate stage calls
 * kvc_stage_prune_tokens, which include/kvcull/policy.h declares. */
#ifndef KVC_CORE_ENGINE_PRUNE_ROWS_H
#define KVC_CORE_ENGINE_PRUNE_ROWS_H

#include "core/engine/session.h"

/* Reduces the rows for the layers above to those that a propagate stage chose and those that methods added. Does
 * nothing if no stage chose rows. */
enum kvc_status kvc_prune_rows(struct kvc_session *session, const struct kvc_row_source *source,
                               struct kvc_error *error);

#endif
