/* random_row.h - makes rows of random weights in their stored type. libc only. */
#ifndef KVC_MODELS_CONVERT_RANDOM_ROW_H
#define KVC_MODELS_CONVERT_RANDOM_ROW_H

#include "core/base/types.h"

/* A random stream, chosen by two numbers and identical on every machine. */
struct kvc_random {
    uint64_t state;
};
struct kvc_random kvc_random_start(uint64_t seed, uint64_t stream);
uint64_t kvc_random_next(struct kvc_random *random);

/* Makes K values spread evenly over about -reach..reach, as kvc_type_row_bytes(type, K) bytes. */
void kvc_random_row(struct kvc_random *random, enum kvc_type type, float reach, uint64_t K, void *row);

#endif
