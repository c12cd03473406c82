/* portable.h - macros and functions for kernels, which are written in the common part of OpenCL C 1.2 and CUDA C.
 *
 * Kernels take only pointers and scalars. A span of a buffer is passed as a pointer and an offset in elements
 * (KVC_SPAN), because the host cannot compute with OpenCL's opaque buffers. KVC_OPEN adds the two. KVC_WORKERS
 * work-items together hold the 32 lanes of a dot product. KVC_WORKERS is a constant: 1 for CPUs (a work-item has two
 * vectors of 16 lanes) or 4 for GPUs (a work-item has 8 lanes). In both cases, the functions of this file give results
 * that are bit-identical to those of core/base/canon.h. */
#ifndef KVC_BACKENDS_KERNELS_PORTABLE_H
#define KVC_BACKENDS_KERNELS_PORTABLE_H

#if defined(__CUDACC__)
#include "core/base/canon.h"
#include "backends/kernels/shared.h"
#define KVC_WORKERS 4
#define KVC_GLOBAL            /* pointers to device memory */
#define KVC_LOCAL             /* pointers to memory that a group shares */
#define KVC_SHARED __shared__ /* variables that a group shares; allowed only at the start of a kernel */
#define KVC_DEVICE static __device__ __forceinline__
/* Not inlined, so that a rare path costs its callers no registers. Not static, because nvcc puts a hash of the folder
 * into static names. */
#define KVC_APART __device__ __attribute__((noinline))
#define KVC_BARRIER() __syncthreads() /* a barrier for the group's local and global memory */
#define KVC_LOCAL_ID() ((kvc_u32)threadIdx.x)
#define KVC_GROUP_ID(i) ((kvc_u32)((i) == 0 ? blockIdx.x : (i) == 1 ? blockIdx.y : blockIdx.z))
#define KVC_GLOBAL_ID() ((kvc_u64)blockIdx.x * blockDim.x + threadIdx.x)
#define KVC_ADD_LOCAL(at, n) atomicAdd((unsigned *)(at), (unsigned)(n))
#define KVC_ADD_GLOBAL(at, n) atomicAdd((unsigned *)(at), (unsigned)(n))
#define KVC_CLZ(x) ((kvc_u32)__clz((int)(x)))
#else
#if !defined(KVC_WORKERS) || (KVC_WORKERS != 1 && KVC_WORKERS != 4)
#error "KVC_WORKERS: 1 for CPUs, 4 for GPUs"
#endif
/* core/base/canon.h and shared.h must precede this file; OpenCL sources are joined, not included. */
#define KVC_GLOBAL __global
#define KVC_LOCAL __local
#define KVC_SHARED __local
#define KVC_DEVICE static inline
#define KVC_APART static inline
#ifndef KVC_BARRIER /* tests/oclgrind/run.sh removes the barriers, to test that it finds races */
#define KVC_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#endif
#define KVC_LOCAL_ID() ((kvc_u32)get_local_id(0))
#define KVC_GROUP_ID(i) ((kvc_u32)get_group_id(i))
#define KVC_GLOBAL_ID() ((kvc_u64)get_global_id(0))
#if KVC_WORKERS == 1
#define KVC_ADD_LOCAL(at, n) (*(at) += (n))
#else
#define KVC_ADD_LOCAL(at, n) atomic_add((volatile __local uint *)(at), (uint)(n))
#endif
#define KVC_ADD_GLOBAL(at, n) atomic_add((volatile __global uint *)(at), (uint)(n))
#define KVC_CLZ(x) clz((uint)(x))
#endif
typedef KVC_GLOBAL const kvc_u8 *kvc_bytes;

#define KVC_TILE 256u
#define KVC_BLOCK 32u
#define KVC_EXTRA_SLOT 0x80000000u
#define KVC_LANES_EACH (32 / KVC_WORKERS)

/* KVC_KERNEL has one work-item per element and KVC_ITEMS work-items in a group. In a KVC_GROUP_KERNEL, a group of
 * KVC_GROUP work-items works together, as KVC_TEAMS teams of KVC_WORKERS work-items. A comment "Grid: (a, b, c)" gives
 * the size of each dimension of the grid; the first dimension counts groups in group kernels and work-items in other
 * kernels. A barrier must be reached by all work-items of a group or by none. A group kernel must therefore not return
 * early unless the whole group does. */
#if !defined(KVC_GROUP)
#define KVC_GROUP KVC_GROUP_OF(KVC_WORKERS)
#endif
#define KVC_ITEMS KVC_ITEMS_OF(KVC_GROUP)
#define KVC_TEAMS (KVC_GROUP / KVC_WORKERS)
#define KVC_RUN KVC_RUN_OF(KVC_WORKERS)
/* Loops i over this work-item's run of values, out of n values. */
#define KVC_EACH_OF_RUN(i, n)                                                                                          \
    for (kvc_u64 i = KVC_GLOBAL_ID() * KVC_RUN, i##_end = (n) < i + KVC_RUN ? (n) : i + KVC_RUN; i < i##_end; i++)
#if defined(__CUDACC__)
#define KVC_KERNEL(name) extern "C" __global__ void __launch_bounds__(KVC_ITEMS) kvc_k_##name
#define KVC_GROUP_KERNEL(name) extern "C" __global__ void __launch_bounds__(KVC_GROUP) kvc_k_##name
#else
#define KVC_KERNEL(name) __kernel __attribute__((reqd_work_group_size(KVC_ITEMS, 1, 1))) void kvc_k_##name
#define KVC_GROUP_KERNEL(name) __kernel __attribute__((reqd_work_group_size(KVC_GROUP, 1, 1))) void kvc_k_##name
#endif

#define KVC_SPAN(type, name) KVC_GLOBAL type *name##_buffer, kvc_u64 name##_offset
#define KVC_OPEN(type, name) KVC_GLOBAL type *name = name##_buffer + name##_offset

/* ---- sums ---- */

/* Returns sum + x, for sums that a loop accumulates. The addition is a fused multiply-add by `one`. KVC_ONE computes
 * this 1 from a kernel argument (below 2^31), so that compilers do not know its value. Some compilers split a loop of
 * additions into partial sums, although the language forbids it; they do not split a loop of fused multiply-adds. */
#define KVC_ONE(number) kvc_from_bits(0x3f800000u | (kvc_u32)(number) >> 31)
KVC_DEVICE float kvc_plus(float sum, float x, float one) { return kvc_fma(x, one, sum); }
#if KVC_WORKERS == 1
KVC_DEVICE float16 kvc_plus16(float16 sum, float16 x, float one) { return fma(x, (float16)(one), sum); }
#endif

/* ---- the 32 lanes of a dot product ---- */

#if KVC_WORKERS == 1 /* OpenCL only */

/* Parts of vectors. With KVC_BY_ELEMENT, these macros use no shuffles. That option is for Oclgrind, whose check for
 * uninitialized reads is wrong for shuffles that name element 11 of a vector or join two vectors
 * (tests/oclgrind/run.sh). */
#ifndef KVC_BY_ELEMENT
#define KVC_LOW8(v) (v).lo
#define KVC_HIGH8(v) (v).hi
#define KVC_EVEN16(a, b) (float16)((a).even, (b).even)
#define KVC_ODD16(a, b) (float16)((a).odd, (b).odd)
#else
#define KVC_LOW8(v) (float8)(v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7)
#define KVC_HIGH8(v) (float8)(v.s8, v.s9, v.sa, v.sb, v.sc, v.sd, v.se, v.sf)
#define KVC_EVENS8(v) v.s0, v.s2, v.s4, v.s6, v.s8, v.sa, v.sc, v.se
#define KVC_ODDS8(v) v.s1, v.s3, v.s5, v.s7, v.s9, v.sb, v.sd, v.sf
#define KVC_EVEN16(a, b) (float16)(KVC_EVENS8(a), KVC_EVENS8(b))
#define KVC_ODD16(a, b) (float16)(KVC_ODDS8(a), KVC_ODDS8(b))
#endif

struct kvc_lanes {
    float16 low, high;
};
KVC_DEVICE struct kvc_lanes kvc_lanes_zero(void) {
    struct kvc_lanes p;
    p.low = (float16)(0.0f);
    p.high = (float16)(0.0f);
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_all(float x) {
    struct kvc_lanes p;
    p.low = p.high = (float16)(x);
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_fma(struct kvc_lanes a, struct kvc_lanes b, struct kvc_lanes sum) {
    sum.low = fma(a.low, b.low, sum.low);
    sum.high = fma(a.high, b.high, sum.high);
    return sum;
}
/* Changes only the lanes below `count`. */
KVC_DEVICE struct kvc_lanes kvc_lanes_fma_tail(struct kvc_lanes a, struct kvc_lanes b, struct kvc_lanes sum,
                                               kvc_u32 count) {
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    sum.low = select(sum.low, fma(a.low, b.low, sum.low), lane < (int16)((int)count));
    sum.high = select(sum.high, fma(a.high, b.high, sum.high), lane < (int16)((int)count - 16));
    return sum;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_floats(KVC_GLOBAL const float *x, kvc_u32 worker) {
    struct kvc_lanes p;
    p.low = vload16(0, x);
    p.high = vload16(1, x);
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_floats_tail(KVC_GLOBAL const float *x, kvc_u32 worker, kvc_u32 count) {
    union {
        struct kvc_lanes p;
        float lane[32];
    } u;
    u.p = kvc_lanes_zero();
    for (kvc_u32 i = 0; i < count; i++)
        u.lane[i] = x[i];
    return u.p;
}
KVC_DEVICE float kvc_lanes_tree(struct kvc_lanes p) {
    float16 a = p.low + p.high;
    float8 b = KVC_LOW8(a) + KVC_HIGH8(a);
    float4 c = b.lo + b.hi;
    float2 d = c.lo + c.hi;
    return d.lo + d.hi;
}
#define KVC_SUM_FLOATS 1 /* number of floats that a group shares for kvc_lanes_sum */
KVC_DEVICE float kvc_lanes_sum(struct kvc_lanes p, KVC_LOCAL float *shared_sum) { return kvc_lanes_tree(p); }

#else

struct kvc_lanes { /* Work-item w of a team has lanes 8w .. 8w + 7. */
    float lane[KVC_LANES_EACH];
};
KVC_DEVICE struct kvc_lanes kvc_lanes_zero(void) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = 0.0f;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_all(float x) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = x;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_fma(struct kvc_lanes a, struct kvc_lanes b, struct kvc_lanes sum) {
    for (int i = 0; i < KVC_LANES_EACH; i++)
        sum.lane[i] = kvc_fma(a.lane[i], b.lane[i], sum.lane[i]);
    return sum;
}
/* Changes only the lanes below `count`. `left` is the number of lanes left for this work-item; it may be negative. */
KVC_DEVICE struct kvc_lanes kvc_lanes_fma_tail(struct kvc_lanes a, struct kvc_lanes b, struct kvc_lanes sum,
                                               kvc_u32 count) {
    kvc_i32 left = (kvc_i32)count - (kvc_i32)(KVC_LOCAL_ID() % KVC_WORKERS * KVC_LANES_EACH);
    for (int i = 0; i < KVC_LANES_EACH; i++)
        sum.lane[i] = i < left ? kvc_fma(a.lane[i], b.lane[i], sum.lane[i]) : sum.lane[i];
    return sum;
}
/* If an address is aligned, memory is read in vectors of 16 bytes. */
#if defined(__CUDACC__)
#define KVC_ALIGNED(at, bytes) (((unsigned long long)(at) & ((bytes)-1)) == 0)
#else
#define KVC_ALIGNED(at, bytes) (((size_t)(at) & ((bytes)-1)) == 0)
#endif
KVC_DEVICE float4 kvc_load_floats(KVC_GLOBAL const float *x) {
    float4 v;
    if (KVC_ALIGNED(x, 16))
        return *(KVC_GLOBAL const float4 *)x;
    v.x = x[0];
    v.y = x[1];
    v.z = x[2];
    v.w = x[3];
    return v;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_floats(KVC_GLOBAL const float *x, kvc_u32 worker) {
    float4 a = kvc_load_floats(x + worker * KVC_LANES_EACH), b = kvc_load_floats(x + worker * KVC_LANES_EACH + 4);
    struct kvc_lanes p;
    p.lane[0] = a.x;
    p.lane[1] = a.y;
    p.lane[2] = a.z;
    p.lane[3] = a.w;
    p.lane[4] = b.x;
    p.lane[5] = b.y;
    p.lane[6] = b.z;
    p.lane[7] = b.w;
    return p;
}
KVC_DEVICE struct kvc_lanes kvc_lanes_floats_tail(KVC_GLOBAL const float *x, kvc_u32 worker, kvc_u32 count) {
    struct kvc_lanes p;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        p.lane[i] = worker * KVC_LANES_EACH + i < count ? x[worker * KVC_LANES_EACH + i] : 0.0f;
    return p;
}
/* Each work-item of a team gets the sum of the team's 32 lanes. All work-items of the group must call this function
 * together. */
#if defined(__CUDACC__)
#define KVC_SUM_FLOATS 1
KVC_DEVICE float kvc_lanes_sum(struct kvc_lanes p, KVC_LOCAL float *shared_sum) {
    (void)shared_sum;
    for (int w = 2; w > 0; w /= 2) /* lanes i + 16, then lanes i + 8 */
        for (int i = 0; i < KVC_LANES_EACH; i++)
            p.lane[i] = p.lane[i] + __shfl_down_sync(0xffffffffu, p.lane[i], w, KVC_WORKERS);
    for (int w = 4; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            p.lane[i] = p.lane[i] + p.lane[i + w];
    return __shfl_sync(0xffffffffu, p.lane[0], 0, KVC_WORKERS);
}
#else
#define KVC_SUM_FLOATS (KVC_GROUP * KVC_LANES_EACH)
KVC_DEVICE float kvc_lanes_sum(struct kvc_lanes p, KVC_LOCAL float *shared_sum) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS;
    KVC_LOCAL float *team = shared_sum + KVC_LOCAL_ID() / KVC_WORKERS * 32;
    float sum;
    for (int i = 0; i < KVC_LANES_EACH; i++)
        team[worker * KVC_LANES_EACH + i] = p.lane[i];
    KVC_BARRIER();
    if (worker < 2) /* add lanes i + 16 to lanes i */
        for (int i = 0; i < KVC_LANES_EACH; i++)
            team[worker * KVC_LANES_EACH + i] =
                team[worker * KVC_LANES_EACH + i] + team[(worker + 2) * KVC_LANES_EACH + i];
    KVC_BARRIER();
    if (worker == 0)
        for (int w = 8; w > 0; w /= 2)
            for (int i = 0; i < w; i++)
                team[i] = team[i] + team[i + w];
    KVC_BARRIER();
    sum = team[0];
    KVC_BARRIER();
    return sum;
}
#endif
#endif

/* Returns dot32(a, b) over K values, which a team computes. All work-items of the group must call this function. */
KVC_DEVICE float kvc_dot_floats(KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u64 K,
                                KVC_LOCAL float *shared_sum) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS;
    struct kvc_lanes sum = kvc_lanes_zero();
    kvc_u64 k = 0;
    for (; k + 32 <= K; k += 32)
        sum = kvc_lanes_fma(kvc_lanes_floats(a + k, worker), kvc_lanes_floats(b + k, worker), sum);
    if (k < K)
        sum = kvc_lanes_fma_tail(kvc_lanes_floats_tail(a + k, worker, (kvc_u32)(K - k)),
                                 kvc_lanes_floats_tail(b + k, worker, (kvc_u32)(K - k)), sum, (kvc_u32)(K - k));
    return kvc_lanes_sum(sum, shared_sum);
}

/* Returns dot32(a, b) to all work-items of a group, which compute it together: on GPUs, each of 32 work-items has one
 * lane. `lane` has KVC_DOT_FLOATS floats. The group must not write them before its next barrier. */
#if KVC_GROUP < 32
#define KVC_DOT_FLOATS KVC_SUM_FLOATS
KVC_DEVICE float kvc_dot_group(KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u64 K, KVC_LOCAL float *lane) {
    return kvc_dot_floats(a, b, K, lane);
}
#else
#define KVC_DOT_FLOATS 32
KVC_DEVICE float kvc_dot_group(KVC_GLOBAL const float *a, KVC_GLOBAL const float *b, kvc_u64 K, KVC_LOCAL float *lane) {
    float of[16];
    if (KVC_LOCAL_ID() < 32) {
        float sum = 0.0f;
        kvc_u64 k = KVC_LOCAL_ID();
        for (; k + 7 * 32 < K; k += 8 * 32) { /* keeps eight loads in flight */
            float x[8], y[8];
            for (int i = 0; i < 8; i++)
                x[i] = a[k + i * 32], y[i] = b[k + i * 32];
            for (int i = 0; i < 8; i++)
                sum = kvc_fma(x[i], y[i], sum);
        }
        for (; k < K; k += 32)
            sum = kvc_fma(a[k], b[k], sum);
        lane[KVC_LOCAL_ID()] = sum;
    }
    KVC_BARRIER();
    for (int i = 0; i < 16; i++)
        of[i] = lane[i] + lane[i + 16];
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            of[i] = of[i] + of[i + w];
    return of[0];
}
#endif

/* Returns the sum of K values of a, like dot32 with a vector of ones. `one` comes from KVC_ONE in the caller. */
KVC_DEVICE float kvc_sum_floats(KVC_GLOBAL const float *a, float one, kvc_u64 K, KVC_LOCAL float *shared_sum) {
    kvc_u32 worker = KVC_LOCAL_ID() % KVC_WORKERS;
    struct kvc_lanes sum = kvc_lanes_zero(), ones = kvc_lanes_all(one);
    kvc_u64 k = 0;
    for (; k + 32 <= K; k += 32)
        sum = kvc_lanes_fma(kvc_lanes_floats(a + k, worker), ones, sum);
    if (k < K)
        sum = kvc_lanes_fma_tail(kvc_lanes_floats_tail(a + k, worker, (kvc_u32)(K - k)), ones, sum, (kvc_u32)(K - k));
    return kvc_lanes_sum(sum, shared_sum);
}

/* ---- a prefix sum over the group's work-items, each of which has 0 or 1 ---- */

/* Returns how many work-items before this one have the flag set. *all receives how many have it set in the whole group.
 * shared_sum has KVC_GROUP words. */
KVC_DEVICE kvc_u32 kvc_group_before(kvc_u32 flag, kvc_u32 *all, KVC_LOCAL kvc_u32 *shared_sum) {
#if KVC_GROUP == 1
    *all = flag;
    return 0;
#else
    kvc_u32 i = KVC_LOCAL_ID(), sum;
    shared_sum[i] = flag;
    KVC_BARRIER();
    for (kvc_u32 w = 1; w < KVC_GROUP; w *= 2) {
        kvc_u32 other = i >= w ? shared_sum[i - w] : 0;
        KVC_BARRIER();
        shared_sum[i] += other;
        KVC_BARRIER();
    }
    sum = shared_sum[i];
    *all = shared_sum[KVC_GROUP - 1];
    KVC_BARRIER();
    return sum - flag;
#endif
}

#endif
