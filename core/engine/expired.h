/* expired.h - evicts entries that a sliding window hides from all later rows, and frees their blocks. */
#ifndef KVC_CORE_ENGINE_EXPIRED_H
#define KVC_CORE_ENGINE_EXPIRED_H

#include "core/base/integers.h"
#include "core/engine/session.h"

struct kvc_stage;

/* Returns an upper bound on the number of entries, in a list of `held` entries, that later rows can still see. */
static inline uint64_t kvc_expired_left(const struct kvc_session *session, uint32_t layer, uint64_t held) {
    const uint32_t window = kvc_runner_window(session->runner, layer);
    return window ? kvc_min_u64(held, window - 1) : held;
}

/* Evicts expired entries. If no method has evicted from the layer, whole tiles are removed from the front of its lists,
 * so that every other entry keeps its place in a tile and results stay bit-identical. Otherwise, the function evicts
 * every entry that no row from position `next` on can see. Decode steps do this only at every KVC_TILE-th position,
 * because it forces pages to be rebuilt. */
enum kvc_status kvc_expired_evict(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error);
/* Evicts expired entries after a pass of a prompt, and frees their blocks. */
enum kvc_status kvc_expired_free(struct kvc_session *session, uint32_t layer, uint64_t next, struct kvc_error *error);
/* Evicts expired entries before a method chooses what to keep. */
enum kvc_status kvc_expired_clear(struct kvc_stage *stage, struct kvc_error *error);

#endif
