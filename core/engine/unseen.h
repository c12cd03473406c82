/* unseen.h - what a sliding window hides from every row that may come is given back. */
#ifndef KVC_CORE_ENGINE_UNSEEN_H
#define KVC_CORE_ENGINE_UNSEEN_H

#include "core/engine/session.h"

/* A layer with a sliding window in which no method acts loses the entries that no later row can see: in whole tiles
 * from the front, so that every other entry keeps its place in its tile and every bit stays. To be called between
 * rows. */
enum kvc_status kvc_unseen_evict(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
/* The same, and their blocks. */
enum kvc_status kvc_unseen_give(struct kvc_session *session, uint32_t layer, struct kvc_error *error);

#endif
