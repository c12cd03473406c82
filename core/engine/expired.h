/* expired.h - what a sliding window hides from every row that may come goes, and is given back. */
#ifndef KVC_CORE_ENGINE_EXPIRED_H
#define KVC_CORE_ENGINE_EXPIRED_H

#include "core/base/integers.h"
#include "core/engine/session.h"

struct kvc_stage;

/* Entries of a list of `held`, at most, that rows after the newest can see. */
static inline uint64_t kvc_expired_left(const struct kvc_session *session, uint32_t layer, uint64_t held) {
    const uint32_t window = kvc_runner_window(session->runner, layer);
    return window ? kvc_min_u64(held, window - 1) : held;
}

/* Of lists that no method has thinned entries go in whole tiles from the front, so that every other entry keeps its
 * place in its tile and every bit stays. Of others each goes that no row from position `next` on can see; before steps
 * this is done at every KVC_TILE-th position only, since pages have to be made anew after it. */
enum kvc_status kvc_expired_evict(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error);
/* The same after a prompt's pass, and their blocks. */
enum kvc_status kvc_expired_free(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error);
/* Before a method chooses what stays: what the layer's sliding window hides from every row to come goes. */
enum kvc_status kvc_expired_clear(struct kvc_stage *stage, struct kvc_error *error);

#endif
