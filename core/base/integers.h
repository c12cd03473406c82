/* integers.h - minimum, maximum and rounded-up division of unsigned integers. */
#ifndef KVC_CORE_BASE_INTEGERS_H
#define KVC_CORE_BASE_INTEGERS_H

#include <stdint.h>

static inline uint32_t kvc_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint64_t kvc_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint32_t kvc_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint64_t kvc_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns n / divisor, rounded up. It cannot overflow. */
static inline uint64_t kvc_divide_up(uint64_t n, uint64_t divisor) { return n / divisor + (n % divisor > 0); }
/* Returns the smallest multiple of `multiple` that is at least n. */
static inline uint64_t kvc_round_up(uint64_t n, uint64_t multiple) { return kvc_divide_up(n, multiple) * multiple; }

#endif
