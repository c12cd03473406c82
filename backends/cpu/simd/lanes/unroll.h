/* unroll.h - macros that unroll loops and force inlining. An array of vectors stays in registers only if every loop
 * over it is unrolled, also at -O2. */
#ifndef KVC_SIMD_LANES_UNROLL_H
#define KVC_SIMD_LANES_UNROLL_H

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
/* gcc would warn about loops that it cannot unroll */
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

#endif
