/* bytes_hash.h - XXH64 of bytes. */
#ifndef KVC_CORE_BASE_BYTES_HASH_H
#define KVC_CORE_BASE_BYTES_HASH_H

#include <stddef.h>
#include <stdint.h>

/* seed: 0, or the hash of the preceding bytes. */
uint64_t kvc_bytes_hash(uint64_t seed, const void *bytes, size_t count);

#endif
