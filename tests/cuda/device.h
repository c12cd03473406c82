/* device.h - test support: nvcc's extensions for g++. A block's threads are fibers that run one at a time, in the order
 * that kvc_fake_cuda.order selects. A barrier opens when every running thread of the block (or warp) has reached it. */
#ifndef KVC_TESTS_CUDA_DEVICE_H
#define KVC_TESTS_CUDA_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __CUDACC__ 1
#define KVC_CUDA_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __shared__ static __attribute__((section("kvc_shared")))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct kvc_index3 {
    unsigned x, y, z;
};
extern kvc_index3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __syncwarp(unsigned mask = 0xffffffffu);
uint32_t kvc_shuffle(uint32_t value, unsigned from); /* `from` is a lane of the warp */

/* The asynchronous copies of this thread, which happen when the thread waits for them, or at once. */
void kvc_emulated_copy(void *to, const void *from, uint32_t bytes);
void kvc_emulated_commit();
void kvc_emulated_wait(unsigned left);

static inline unsigned kvc_lane() { return threadIdx.x % 32; }

template <class T> static inline T kvc_shuffle_of(T value, unsigned from) {
    static_assert(sizeof(T) == 4, "shuffles move 32 bits");
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = kvc_shuffle(bits, from);
    memcpy(&value, &bits, 4);
    return value;
}
template <class T> static inline T __shfl_sync(unsigned, T value, int from, int width = 32) {
    unsigned lane = kvc_lane(), first = lane / (unsigned)width * (unsigned)width;
    return kvc_shuffle_of(value, first + (unsigned)from % (unsigned)width);
}
template <class T> static inline T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32) {
    unsigned lane = kvc_lane();
    return kvc_shuffle_of(value, lane % (unsigned)width + by < (unsigned)width ? lane + by : lane);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
    unsigned lane = kvc_lane(), other = lane ^ (unsigned)mask;
    return kvc_shuffle_of(value, other / (unsigned)width == lane / (unsigned)width ? other : lane);
}
static inline unsigned __ballot_sync(unsigned, int flag) {
    unsigned all = 0;
    for (unsigned i = 0; i < 32; i++)
        all |= (kvc_shuffle(flag ? 1u : 0u, i) & 1u) << i;
    return all;
}

/* Adds to c the products of the instruction mma for signed bytes, with the shape m16n8 and k = 16 (halves: 1) or 32
 * (2). Fragments have the layout of the PTX ISA: lane 4 g + t holds in a[2 h] columns 16 h + 4 t .. + 3 of row g, in
 * a[2 h + 1] the same columns of row g + 8, in b[h] rows 16 h + 4 t .. + 3 of column g, and in c rows g, g, g + 8, g +
 * 8 of columns 2 t, 2 t + 1, 2 t, 2 t + 1. */
static inline int32_t kvc_emulated_bytes(uint32_t a, uint32_t b) {
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    return sum;
}
static inline void kvc_emulated_mma(int32_t *c, const uint32_t *a, const uint32_t *b, unsigned halves) {
    const unsigned g = kvc_lane() / 4, t = kvc_lane() % 4;
    for (unsigned h = 0; h < halves; h++)
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t low = kvc_shuffle(a[2 * h], 4 * g + i), high = kvc_shuffle(a[2 * h + 1], 4 * g + i);
            const uint32_t even = kvc_shuffle(b[h], 4 * (2 * t) + i), odd = kvc_shuffle(b[h], 4 * (2 * t + 1) + i);
            c[0] += kvc_emulated_bytes(low, even);
            c[1] += kvc_emulated_bytes(low, odd);
            c[2] += kvc_emulated_bytes(high, even);
            c[3] += kvc_emulated_bytes(high, odd);
        }
}
/* Every other block has tensor cores. */
#define KVC_EMULATED_TENSOR() (blockIdx.x % 2 == 0)

static inline unsigned atomicAdd(unsigned *at, unsigned n) { return __atomic_fetch_add(at, n, __ATOMIC_RELAXED); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T> static inline T __ldg(const T *at) { return *at; }

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

#endif
