/* unroll.h - arrays of vectors stay in registers only where every loop over them is unrolled, also at -O2. */
#ifndef KVC_SIMD_LANES_UNROLL_H
#define KVC_SIMD_LANES_UNROLL_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
/* gcc warns where it cannot */
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

#endif
