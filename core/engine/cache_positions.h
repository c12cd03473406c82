/* cache_positions.h - keys at their cache positions instead of their positions in the text. */
#ifndef KVC_CORE_ENGINE_CACHE_POSITIONS_H
#define KVC_CORE_ENGINE_CACHE_POSITIONS_H

#include "core/engine/growable.h"
#include "core/engine/network.h"
#include "core/stage/policy.h"

struct kvc_session;

/* Rows of cosine and sine of indices, where a method rotates keys to their cache positions. */
struct kvc_cache_positions {
    struct kvc_growable cosine; /* float32 [ropes, indices, rotary/2] */
    struct kvc_growable sine;   /* likewise */
    uint64_t indices;
};

/* KVC_USAGE where the policy wants keys at cache positions that cannot be: those of a replay (network NULL), of layers
 * with a sliding window. */
enum kvc_status kvc_cache_positions_check(const struct kvc_policy *policy, const struct kvc_network *network,
                                          uint32_t layers, struct kvc_error *error);
/* Cosine and sine of the indices that `rows` more rows may reach. */
enum kvc_status kvc_cache_positions_reserve(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
/* Rotates queries and keys of `rows` rows from `row` on, in runner->q and k, to the indices that they will have. */
void kvc_cache_positions_rotate(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t rows);
/* After `stored` rows from `row` on have been appended: keeps their keys before rotation. */
void kvc_cache_positions_keep(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t stored);
/* After indices have changed: rotates the layer's keys anew. */
enum kvc_status kvc_cache_positions_renew(struct kvc_session *session, uint32_t layer, struct kvc_error *error);

#endif
