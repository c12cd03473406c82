/* random_row.h - rows of random weights, made in their stored type. libc only. */
#ifndef KVC_MODELS_CONVERT_RANDOM_ROW_H
#define KVC_MODELS_CONVERT_RANDOM_ROW_H

#include "core/base/types.h"

/* The same stream on every machine; a stream is chosen by two numbers. */
struct kvc_random {
    uint64_t state;
};
struct kvc_random kvc_random_start(uint64_t seed, uint64_t stream);
uint64_t kvc_random_next(struct kvc_random *random);

/* K values spread evenly over about -reach..reach, as kvc_type_row_bytes(type, K) bytes. */
void kvc_random_row(struct kvc_random *random, enum kvc_type type, float reach, uint64_t K, void *row);

#endif
