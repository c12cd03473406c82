/* cuda.h - definitions that the files of the CUDA backend share: the driver that backends/offload calls, the queue of
 * launches, and CUDA's own kernels. A kernel is launched by the address of its host stub, so all of this is plain C,
 * and only kernels.cu needs nvcc. */
#ifndef KVC_BACKENDS_CUDA_CUDA_H
#define KVC_BACKENDS_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "backends/cuda/kernels.h"
#include "backends/offload/offload.h"
#include "core/base/exposed.h"

struct kvc_cuda;

/* ---- queue.c: calls are recorded and sent together at the next wait, as a graph if the sequence repeats ---- */

#define KVC_CALLS 4096u    /* when this many calls are recorded, they are sent */
#define KVC_CUDA_GRAPHS 8u /* maximum number of graphs */

struct kvc_cuda_call {
    const void *kernel; /* NULL: clear memory (`items` is 0; arguments: to, bytes) or copy it (`items` is 1; arguments:
                         * to, from, bytes) */
    uint32_t groups[3], items;
    uint32_t first, count; /* first argument in `values`, and number of arguments */
};

struct kvc_cuda_graph { /* a sequence of calls that was recorded twice */
    uint64_t key, used;
    uint32_t call_count, value_count;
    struct kvc_cuda_call *calls;
    uint64_t *values; /* arguments of the last run */
    cudaGraphNode_t *nodes;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
};

struct kvc_cuda_queue {
    struct kvc_cuda_call *calls;
    uint64_t *values;
    uint32_t call_count, value_count, capacity; /* capacity: size of `values` */
    bool graphs_off;
    uint64_t seen[16]; /* keys of sequences that were sent without a graph */
    uint32_t seen_next;
    uint64_t clock;
    struct kvc_cuda_graph graph[KVC_CUDA_GRAPHS];
};

bool kvc_cuda_queue_open(struct kvc_cuda *cuda);
void kvc_cuda_queue_close(struct kvc_cuda *cuda);
void kvc_cuda_queue_launch(struct kvc_cuda *cuda, const void *kernel, const struct kvc_launch *launch);
void kvc_cuda_queue_copy(struct kvc_cuda *cuda, void *to, const void *from, size_t bytes);
void kvc_cuda_queue_zero(struct kvc_cuda *cuda, void *to, size_t bytes);
void kvc_cuda_send(struct kvc_cuda *cuda); /* sends the recorded calls to the device; does not wait */

/* ---- arenas.c ---- */

/* Returns device memory with undefined contents from the arena of this kind, or NULL if memory runs out. Freed memory
 * may be reused, but only by work that is queued later. */
void *kvc_cuda_take(struct kvc_cuda *cuda, enum kvc_memory_kind kind, size_t bytes);
void kvc_cuda_free_piece(struct kvc_cuda *cuda, void *memory);
void kvc_cuda_arenas_close(struct kvc_cuda *cuda); /* frees all arenas */

/* ---- the device ---- */

struct kvc_cuda {
    struct kvc_offload offload; /* must be the first member */
    int index;
    cudaStream_t stream;
    struct kvc_cuda_queue queue;
    struct kvc_cuda_allocation *arena[KVC_MEMORY_KINDS]; /* private to arenas.c */
    struct kvc_cuda_fast *fast;                          /* --math=fast: private to fast.c */
    struct kvc_exposed exposed;
};

/* Returns true if `result` is success. Otherwise returns false and records a failure for the next sync. */
bool kvc_cuda_good(struct kvc_cuda *cuda, cudaError_t result, const char *what);

/* Operations with CUDA's own kernels: linear.c, attention.c. */
void kvc_cuda_linear(struct kvc_device *device, const struct kvc_linear *args);
void kvc_cuda_linear_int8(struct kvc_device *device, const struct kvc_linear_int8 *args);
void kvc_cuda_linear_int16(struct kvc_device *device, const struct kvc_linear_int16 *args);
void kvc_cuda_attention(struct kvc_device *device, const struct kvc_attention *attention);
/* Begins a launch of one of CUDA's own kernels. */
struct kvc_launch kvc_cuda_own(enum kvc_cuda_kernel kernel);
static inline unsigned char *kvc_cuda_data(struct kvc_span span) {
    return span.buffer ? (unsigned char *)span.buffer->handle + span.offset : NULL;
}
enum kvc_status kvc_cuda_fast_open(struct kvc_cuda *cuda, struct kvc_error *error); /* prepares --math=fast */
void kvc_cuda_fast_close(struct kvc_cuda *cuda);

#endif
