/* cuda.h - what the files of the CUDA backend share. The operations are those of backends/offload; here are the driver
 * below them, the queue of launches, and shapes of CUDA's own. Plain C: kernels are launched by the address of their
 * host stub, so only kernels.cu needs nvcc. */
#ifndef KVC_BACKENDS_CUDA_CUDA_H
#define KVC_BACKENDS_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "backends/cuda/kernels.h"
#include "backends/offload/offload.h"
#include "core/base/exposed.h"

struct kvc_cuda;

/* ---- queue.c: calls are recorded and sent together at the next wait, as a graph where they come again ---- */

#define KVC_CALLS 4096u    /* recorded at most; then they are sent */
#define KVC_CUDA_GRAPHS 8u /* kept */

struct kvc_cuda_call {
    const void *kernel; /* NULL: zero (items 0; values: to, bytes) or copy (items 1; values: to, from, bytes) */
    uint32_t groups[3], items;
    uint32_t first, count; /* in values */
};

struct kvc_cuda_graph { /* a sequence of calls that came twice */
    uint64_t key, used;
    uint32_t call_count, value_count;
    struct kvc_cuda_call *calls;
    uint64_t *values; /* as they were last */
    cudaGraphNode_t *nodes;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
};

struct kvc_cuda_queue {
    struct kvc_cuda_call *calls;
    uint64_t *values;
    uint32_t call_count, value_count, capacity; /* capacity: of values */
    bool graphs_off;
    uint64_t seen[16]; /* keys of sequences sent without a graph */
    uint32_t seen_next;
    uint64_t clock;
    struct kvc_cuda_graph graph[KVC_CUDA_GRAPHS];
};

bool kvc_cuda_queue_open(struct kvc_cuda *cuda);
void kvc_cuda_queue_close(struct kvc_cuda *cuda);
void kvc_cuda_queue_launch(struct kvc_cuda *cuda, const void *kernel, const struct kvc_launch *launch);
void kvc_cuda_queue_copy(struct kvc_cuda *cuda, void *to, const void *from, size_t bytes);
void kvc_cuda_queue_zero(struct kvc_cuda *cuda, void *to, size_t bytes);
void kvc_cuda_send(struct kvc_cuda *cuda); /* what is recorded, to the device; does not wait */

/* ---- arenas.c ---- */

/* Device memory of the kind's arena, contents undefined; NULL where there is none. What is given back is used after
 * everything queued. */
void *kvc_cuda_take(struct kvc_cuda *cuda, enum kvc_memory_kind kind, size_t bytes);
void kvc_cuda_free_piece(struct kvc_cuda *cuda, void *memory);
void kvc_cuda_arenas_close(struct kvc_cuda *cuda); /* gives all of them back */

/* ---- the device ---- */

struct kvc_cuda {
    struct kvc_offload offload; /* first */
    int index;
    cudaStream_t stream;
    struct kvc_cuda_queue queue;
    struct kvc_cuda_allocation *arena[KVC_MEMORY_KINDS]; /* arenas.c's own */
    struct kvc_cuda_fast *fast;                          /* --math=fast: fast.c's own */
    struct kvc_exposed exposed;
};

/* False, and a failure for the next sync, where the runtime says that something went wrong. */
bool kvc_cuda_good(struct kvc_cuda *cuda, cudaError_t result, const char *what);

/* CUDA's own shapes: linear.c, attention.c. */
void kvc_cuda_linear(struct kvc_device *device, const struct kvc_linear *args);
void kvc_cuda_linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_cuda_attention(struct kvc_device *device, const struct kvc_attention *attention);
/* A launch of an own kernel. */
struct kvc_launch kvc_cuda_own(enum kvc_cuda_kernel kernel);
static inline unsigned char *kvc_cuda_data(struct kvc_span span) {
    return span.buffer ? (unsigned char *)span.buffer->handle + span.offset : NULL;
}
enum kvc_status kvc_cuda_fast_open(struct kvc_cuda *cuda, struct kvc_error *error); /* --math=fast */
void kvc_cuda_fast_close(struct kvc_cuda *cuda);

#endif
