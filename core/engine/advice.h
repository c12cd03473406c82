/* advice.h - what a device with too little memory is missing, and what would fit it. */
#ifndef KVC_CORE_ENGINE_ADVICE_H
#define KVC_CORE_ENGINE_ADVICE_H

#include "core/engine/session.h"

/* After a failure of status: where the device had no memory, error's advice becomes what this session's method needs
 * for `tokens` tokens, and what would fit: fewer of them, or a budget. Returns status. */
enum kvc_status kvc_advise(const struct kvc_session *session, uint64_t tokens, enum kvc_status status,
                           struct kvc_error *error);
/* The same where weights of so many bytes and values did not fit. */
enum kvc_status kvc_advise_weights(struct kvc_device *device, uint64_t bytes, uint64_t values, enum kvc_status status,
                                   struct kvc_error *error);

#endif
