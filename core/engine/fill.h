/* fill.h - a prompt whose entries are made up instead of computed by a network. */
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
/* Random queries, keys and values of a part. Only rows that the policy's prompt stage looks at, and those beside them
 * in their part, attend. */
void kvc_fill_project(struct kvc_fill *fill, struct kvc_session *session, const struct kvc_row_span *part,
                      struct kvc_projected *projected);

#endif
