/* fill.h - a prompt whose entries are made up, in place of a network's. */
#ifndef KVC_CORE_ENGINE_FILL_H
#define KVC_CORE_ENGINE_FILL_H

#include "core/engine/session.h"

struct kvc_fill {
    struct kvc_growable values; /* random, from -2 to 2 */
    uint64_t random;
};

/* Values for parts of so many rows. */
enum kvc_status kvc_fill_open(struct kvc_fill *fill, struct kvc_session *session, uint32_t rows,
                              struct kvc_error *error);
void kvc_fill_close(struct kvc_fill *fill, struct kvc_session *session);
/* What kvc_runner_layer does to the cache, with rows of random keys and values. Only rows that the policy's prompt
 * stage looks at, and those beside them in their part, attend. */
void kvc_fill_rows(struct kvc_fill *fill, uint32_t layer, uint32_t row, const struct kvc_part *part);

#endif
