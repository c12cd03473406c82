/* cache_positions.h - rotates keys to their cache positions (indices) instead of their positions in the text. */
#ifndef KVC_CORE_ENGINE_CACHE_POSITIONS_H
#define KVC_CORE_ENGINE_CACHE_POSITIONS_H

#include "core/engine/growable.h"
#include "core/engine/network.h"
#include "core/stage/policy.h"

struct kvc_session;

/* Cosine and sine rows of indices, for methods that rotate keys to their cache positions. */
struct kvc_cache_positions {
    struct kvc_growable cosine; /* float32 [ropes, indices, rotary/2] */
    struct kvc_growable sine;   /* float32 [ropes, indices, rotary/2] */
    uint64_t indices;
};

/* Returns KVC_USAGE if the policy needs cache positions where they are impossible: in a replay (network NULL), or in
 * layers with a sliding window. */
enum kvc_status kvc_cache_positions_check(const struct kvc_policy *policy, const struct kvc_network *network,
                                          uint32_t layers, struct kvc_error *error);
/* Computes the cosines and sines of all indices that may exist after `rows` more rows. */
enum kvc_status kvc_cache_positions_reserve(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
/* Rotates queries and keys of `rows` rows from `row` on, in runner->q and runner->k, to their future indices. */
void kvc_cache_positions_rotate(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t rows);
/* Saves the unrotated keys of `stored` rows from `row` on, after they have been appended. */
void kvc_cache_positions_keep(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t stored);
/* Rotates the layer's keys again after their indices have changed. */
enum kvc_status kvc_cache_positions_renew(struct kvc_session *session, uint32_t layer, struct kvc_error *error);

#endif
