/* pass.h - runs rows of a prompt through one layer. */
#ifndef KVC_CORE_ENGINE_PASS_H
#define KVC_CORE_ENGINE_PASS_H

#include "core/engine/session.h"

/* Runs the rows of the current pass through one layer for all sessions, then the stages of their policies. All sessions
 * have the same rows. */
enum kvc_status kvc_pass_layer(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t layer, struct kvc_error *error);
/* Runs the pending prompt stages, in order, up to `layer`. `passed` is the last layer that the rows have passed. If a
 * higher layer chooses the entries of a lower layer, the lower layer's stage waits until the rows have passed the
 * higher layer. */
enum kvc_status kvc_pass_end_layers(struct kvc_session *session, const struct kvc_row_source *source, uint32_t layer,
                                    uint32_t passed, struct kvc_error *error);

#endif
