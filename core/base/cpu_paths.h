/* cpu_paths.h - the list of the CPU's instruction sets in ascending order of speed.
 *
 * KVC_CPU_PATHS(row) expands to row(NAME, name, build) for each. `build` names the builds that include the instruction
 * set. PLAIN: all builds. X86_SIMD, X86_AMX, NEON and NEON_DOTPROD: the builds for which configure defines KVC_<build>.
 * kvc_cpu_fill_<name> writes the instruction set's operations to a table. */
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
    row(AVX512VNNI,  avx512vnni,  X86_SIMD) \
    row(AMX,         amx,         X86_AMX)
/* clang-format on */

#endif
