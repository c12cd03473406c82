/* pass.h - rows of a prompt through one layer. */
#ifndef KVC_CORE_ENGINE_PASS_H
#define KVC_CORE_ENGINE_PASS_H

#include "core/engine/session.h"

/* All rows of the pass under way, which are those of each of the sessions, go through one layer; then come the stages
 * of their policies. */
enum kvc_status kvc_pass_layer(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t layer, struct kvc_error *error);
/* Of a pipeline, after the pass: what the stages of other ranks' layers mean for this rank's. */
enum kvc_status kvc_pass_settle(struct kvc_session *session, const struct kvc_row_source *source,
                                struct kvc_error *error);

#endif
