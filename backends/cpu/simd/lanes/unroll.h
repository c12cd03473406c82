/* unroll.h - arrays of vectors stay in registers only where every loop over them is unrolled, also at -O2. */
#ifndef KVC_SIMD_LANES_UNROLL_H
#define KVC_SIMD_LANES_UNROLL_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* gcc then warns that it cannot everywhere */
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

#endif
