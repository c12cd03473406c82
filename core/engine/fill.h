/* fill.h - fills a prompt's entries with random values instead of computing them with a network. */
#ifndef KVC_CORE_ENGINE_FILL_H
#define KVC_CORE_ENGINE_FILL_H

#include "core/engine/session.h"

struct kvc_fill {
    struct kvc_growable values; /* random values in -2 .. 2 */
    uint64_t random;
};

/* Reserves random values for parts of the prompt, each of up to `rows` rows. */
enum kvc_status kvc_fill_open(struct kvc_fill *fill, struct kvc_session *session, uint32_t rows,
                              struct kvc_error *error);
void kvc_fill_close(struct kvc_fill *fill, struct kvc_session *session);
/* Makes random queries, keys and values for a part. Attention is computed only for parts with rows that the policy's
 * prompt stage reads. */
void kvc_fill_project(struct kvc_fill *fill, struct kvc_session *session, const struct kvc_row_span *part,
                      struct kvc_projected *projected);

#endif
