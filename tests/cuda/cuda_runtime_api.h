/* cuda_runtime_api.h - test support: the part of the CUDA runtime's interface that backends/cuda uses, implemented by
 * emulation.cc. So the backend and its kernels are compiled and tested without a toolkit and without a device. */
#ifndef KVC_TESTS_CUDA_CUDA_RUNTIME_API_H
#define KVC_TESTS_CUDA_CUDA_RUNTIME_API_H

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorIllegalAddress = 700
} cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1 };

typedef struct dim3 {
    unsigned x, y, z;
} dim3;

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    struct {
        char bytes[16];
    } uuid;
};

typedef struct kvc_fake_stream *cudaStream_t;
typedef struct kvc_fake_graph *cudaGraph_t;
typedef struct kvc_fake_graph *cudaGraphExec_t;
typedef struct kvc_fake_node *cudaGraphNode_t;

struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
};
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream);

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                   size_t count, const struct cudaKernelNodeParams *params);
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                     size_t count, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                   size_t count, const struct cudaMemsetParams *params);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready);
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *params);
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t ready, cudaGraphNode_t node, void *to, const void *from,
                                               size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *params);

/* Settings and counters for tests. A device's uuid is its index. */
enum kvc_fake_order { /* the order of the threads between two barriers, and of the blocks */
                      KVC_FAKE_FORWARD,
                      KVC_FAKE_BACKWARD,
                      KVC_FAKE_SHUFFLED, /* a new random order each time; asynchronous copies happen early or late */
                      KVC_FAKE_IN_TURN   /* each launch uses the next of these orders */
};
struct kvc_fake_cuda {
    int devices;         /* -1: no driver */
    size_t memory, used; /* bytes of the device's memory; bytes in use */
    size_t allocations;  /* allocations that are not freed yet, including streams and graphs */
    size_t allocated;    /* number of cudaMalloc calls so far */
    size_t launches;     /* kernel launches, including those in graphs */
    size_t graph_launches, graphs_made, nodes_changed;
    size_t alone;                  /* kernels launched individually */
    size_t to_device, from_device; /* number of copies */
    size_t fail_after;             /* number of launches until the device is lost; 0: never */
    cudaError_t lost;
    enum kvc_fake_order order;
};
extern struct kvc_fake_cuda kvc_fake_cuda;
const void *kvc_fake_allocation(const void *at); /* returns the allocation that contains an address, or NULL */
const char *kvc_fake_never_launched(size_t i);   /* returns the i-th of the kernels that were never launched, or NULL */

#if defined(__cplusplus)
}
#endif
#endif
