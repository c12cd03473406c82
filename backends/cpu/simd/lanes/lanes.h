/* lanes.h - the vectors of the templates, and the tree that adds the 32 lanes of a sum.
 *
 * A .c file includes one file of lanes/ before any template, so that its vectors do not depend on compiler options:
 * with -march=native, the #if below would choose AVX-512 for avx2.c too. If a tool such as an editor reads a template
 * alone, it gets the widest vectors that the options allow. */
#ifndef KVC_SIMD_LANES_LANES_H
#define KVC_SIMD_LANES_LANES_H

#include "core/base/canon.h"
#include "backends/cpu/simd/lanes/unroll.h"

#if !defined(LANES)
#if defined(__AVX512F__)
#include "backends/cpu/simd/lanes/avx512.h"
#elif defined(__AVX2__)
#include "backends/cpu/simd/lanes/avx2.h"
#elif defined(__aarch64__)
#include "backends/cpu/simd/lanes/neon.h"
#else
#error "no vectors: compile with -mavx2 -mfma -mf16c, with the options of lanes/avx512.h, or for AArch64"
#endif
#endif

/* Returns `name` followed by the name of the instruction set. */
#define LANES_NAME(name) LANES_NAME_OF(name, LANES_PATH)
#define LANES_NAME_OF(name, path) LANES_NAME_JOINED(name, path)
#define LANES_NAME_JOINED(name, path) name##path

#define LANE_VECTORS (KVC_LANES / LANES) /* number of vectors that hold the 32 lanes of a sum */

/* Computes the first steps of the tree over 32 lanes, lane[i] += lane[i + w], until one vector is left. Returns it. */
INLINE vf fold_lanes(const vf lane[LANE_VECTORS]) {
#if LANES == 16
    return vf_add(lane[0], lane[1]);
#elif LANES == 8
    return vf_add(vf_add(lane[0], lane[2]), vf_add(lane[1], lane[3]));
#else
    return vf_add(vf_add(vf_add(lane[0], lane[4]), vf_add(lane[2], lane[6])),
                  vf_add(vf_add(lane[1], lane[5]), vf_add(lane[3], lane[7])));
#endif
}

/* Computes the whole tree over 32 lanes. */
INLINE float sum_lanes(const vf lane[LANE_VECTORS]) { return vf_tree(fold_lanes(lane)); }

#endif
