/* cache_positions.h - keys at their places in the cache instead of their positions in the text. */
#ifndef KVC_CORE_ENGINE_CACHE_POSITIONS_H
#define KVC_CORE_ENGINE_CACHE_POSITIONS_H

#include "core/engine/growable.h"
#include "core/engine/network.h"
#include "core/stage/policy.h"

struct kvc_session;

/* Rows of cosine and sine of ranks, where a method turns keys to their places. */
struct kvc_cache_positions {
    struct kvc_growable cosine; /* float32 [ranks, rotary/2] */
    struct kvc_growable sine;   /* likewise */
    uint64_t ranks;
};

/* KVC_USAGE where the policy turns keys that it cannot: of a replay (network NULL), of layers with a sliding window. */
enum kvc_status kvc_cache_positions_check(const struct kvc_policy *policy, const struct kvc_network *network,
                                          uint32_t layers, struct kvc_error *error);
/* Before `rows` more rows pass. */
enum kvc_status kvc_cache_positions_reserve(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
/* Queries and keys of `rows` rows from `row` on, in runner->q and k, stand at the ranks that they are about to have. */
void kvc_cache_positions_rotate(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t rows);
/* The entries of `stored` rows from `row` on have been appended: their keys before rotation are kept. */
void kvc_cache_positions_keep(struct kvc_session *session, uint32_t layer, uint32_t row, uint32_t stored);
/* Ranks have changed. */
enum kvc_status kvc_cache_positions_renew(struct kvc_session *session, uint32_t layer, struct kvc_error *error);

#endif
