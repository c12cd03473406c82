/* hash.c - hashes of logits (XXH64 over little-endian float32, NaN as 0x7fc00000) and of bytes. */
#include "core/base/bytes_hash.h"
#include "core/base/integers.h"
#include "kvcull.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct kvc_hash {
    XXH64_state_t state;
};

struct kvc_hash *kvc_hash_open(void) {
    struct kvc_hash *hash = malloc(sizeof *hash);
    if (hash)
        XXH64_reset(&hash->state, 0);
    return hash;
}

void kvc_hash_add(struct kvc_hash *hash, const float *values, size_t count) {
    unsigned char bytes[4 * 256];
    while (count > 0) {
        const size_t part = kvc_min_u64(count, 256);
        for (size_t i = 0; i < part; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, sizeof bits);
            if ((bits & 0x7fffffffu) > 0x7f800000u)
                bits = 0x7fc00000u;
            for (unsigned b = 0; b < 4; b++)
                bytes[4 * i + b] = (unsigned char)(bits >> (8 * b));
        }
        XXH64_update(&hash->state, bytes, 4 * part);
        values += part;
        count -= part;
    }
}

uint64_t kvc_hash_value(const struct kvc_hash *hash) { return XXH64_digest(&hash->state); }

void kvc_hash_close(struct kvc_hash *hash) { free(hash); }

uint64_t kvc_bytes_hash(uint64_t seed, const void *bytes, size_t count) { return XXH64(bytes, count, seed); }
