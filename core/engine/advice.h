/* advice.h - advice in out-of-memory errors: how much memory is missing, and what would fit. */
#ifndef KVC_CORE_ENGINE_ADVICE_H
#define KVC_CORE_ENGINE_ADVICE_H

#include "core/engine/session.h"

/* Called after a failure. If the device ran out of memory, the error's advice then says how many bytes this session's
 * method needs for `tokens` tokens, and what would fit: fewer tokens or a smaller budget. Returns status. */
enum kvc_status kvc_advise(const struct kvc_session *session, uint64_t tokens, enum kvc_status status,
                           struct kvc_error *error);
/* Writes the same advice after weights of `bytes` bytes and `values` values did not fit. */
enum kvc_status kvc_advise_weights(struct kvc_device *device, uint64_t bytes, uint64_t values, enum kvc_status status,
                                   struct kvc_error *error);

#endif
