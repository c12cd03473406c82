/* cpu_paths.h - the one list of the CPU's paths, each faster than those before it where a CPU runs several.
 *
 * KVC_CPU_PATHS(row) is row(NAME, name, build) for each: `build` says which builds have it: PLAIN all; X86_SIMD, NEON
 * and NEON_DOTPROD those for which configure defines KVC_<build>. kvc_cpu_fill_<name> puts its operations into a
 * table. */
#ifndef KVC_CORE_BASE_CPU_PATHS_H
#define KVC_CORE_BASE_CPU_PATHS_H

/* clang-format off */
#define KVC_CPU_PATHS(row) \
    row(REF,         ref,         PLAIN) \
    row(NEON,        neon,        NEON) \
    row(NEONDOTPROD, neondotprod, NEON_DOTPROD) \
    row(NEONI8MM,    neoni8mm,    NEON_DOTPROD) \
    row(AVX2,        avx2,        X86_SIMD) \
    row(AVX2VNNI,    avx2vnni,    X86_SIMD) \
    row(AVX512,      avx512,      X86_SIMD) \
    row(AVX512VNNI,  avx512vnni,  X86_SIMD)
/* clang-format on */

#endif
