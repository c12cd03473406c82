/* async.h - asynchronous copies from global to shared memory, and kvc_team_sum, which adds the lanes of a team with few
 * shuffles. Below compute capability 8.0, the copies are ordinary ones. */

/* copies 16, 8 or 4 bytes; both addresses must be aligned to `bytes` */
KVC_DEVICE void kvc_async(void *shared, const void *global, kvc_u32 bytes) {
#if defined(KVC_CUDA_EMULATED)
    kvc_emulated_copy(shared, global, bytes);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(global) : "memory");
    else if (bytes == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(global) : "memory");
#else
    for (kvc_u32 i = 0; i < bytes / 4; i++)
        ((kvc_u32 *)shared)[i] = ((const kvc_u32 *)global)[i];
#endif
}
/* kvc_async_commit makes a group of the copies since the last commit. kvc_async_wait waits until at most `left` groups
 * are in flight. */
KVC_DEVICE void kvc_async_commit() {
#if defined(KVC_CUDA_EMULATED)
    kvc_emulated_commit();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int left> KVC_DEVICE void kvc_async_wait() {
#if defined(KVC_CUDA_EMULATED)
    kvc_emulated_wait(left);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

/* Returns the sum of a team's 32 lanes to each of its four work-items. The result is bit-identical to kvc_lanes_sum,
 * but needs 9 shuffles instead of 16. At each level, the two work-items of a pair add half of the lanes each. The order
 * of operands does not matter: a + b and b + a are bit-identical. */
KVC_DEVICE float kvc_team_sum(const struct kvc_lanes &p) {
    kvc_u32 worker = KVC_LOCAL_ID() % 4;
    bool high = worker & 2, odd = worker & 1;
    float four[4], two[2], one;
#pragma unroll
    /* adds lanes i and i + 16. Work-items 0 and 1 compute the sums of their first four lanes, 2 and 3 the others */
    for (int i = 0; i < 4; i++) {
        float mine = high ? p.lane[i + 4] : p.lane[i], theirs = high ? p.lane[i] : p.lane[i + 4];
        four[i] = mine + __shfl_xor_sync(0xffffffffu, theirs, 2, 4);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) { /* adds lanes i and i + 8, in pairs of neighbouring work-items */
        float mine = odd ? four[i + 2] : four[i], theirs = odd ? four[i] : four[i + 2];
        two[i] = mine + __shfl_xor_sync(0xffffffffu, theirs, 1, 4);
    }
    /* Now work-items 0 to 3 have, in this order, lanes 0 and 1, 2 and 3, 4 and 5, 6 and 7. */
    one = (high ? two[1] : two[0]) + __shfl_xor_sync(0xffffffffu, high ? two[0] : two[1], 2, 4);
    /* Now work-items 0 to 3 have, in this order, lanes 0, 2, 1 and 3. */
    one = one + __shfl_xor_sync(0xffffffffu, one, 1, 4);
    return one + __shfl_xor_sync(0xffffffffu, one, 2, 4);
}

KVC_DEVICE float4 kvc_float4(const float *at) { return *(const float4 *)at; }
