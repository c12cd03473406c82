/* emulation.cc - test support: runs the CUDA backend's kernels, and the runtime functions that it calls, on the CPU. It
 * is slow. It shows that results are bit-identical in any order of threads, blocks and copies, that all threads reach
 * the barriers, and that the host passes every kernel the right number of arguments. */
#include "tests/cuda/device.h"
#include "tests/cuda/cuda_runtime_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/kernels.h"
#include "backends/cuda/kernels.cu"

#include "tests/cuda/threads.h"

/* ---- kernels by address ---- */

template <unsigned... I> struct indices {};
template <unsigned N, unsigned... I> struct count_to : count_to<N - 1, N - 1, I...> {};
template <unsigned... I> struct count_to<0, I...> { typedef indices<I...> type; };
template <class... A, unsigned... I> static void call(void (*kernel)(A...), void **arguments, indices<I...>) {
    kernel(*(A *)arguments[I]...);
}
template <class... A> struct caller {
    static void run(const void *kernel, void **arguments) {
        call((void (*)(A...))kernel, arguments, typename count_to<sizeof...(A)>::type());
    }
};

struct known {
    const void *address;
    const char *name;
    unsigned arguments;
    void (*run)(const void *, void **);
};
template <class... A> static known know(void (*kernel)(A...), const char *name) {
    return {(const void *)kernel, name, (unsigned)sizeof...(A), &caller<A...>::run};
}

#define KVC_KNOW(name) know(kvc_k_##name, #name),
static size_t launched[KVC_CUDA_KERNELS];
static const known kernels[] = {
#define KVC_KERNEL_NAMED(name) KVC_KNOW(name)
#include "backends/offload/kernels.def"
    KVC_CUDA_OWN_KERNELS(KVC_KNOW)};

/* ---- the runtime ---- */

struct kvc_fake_cuda kvc_fake_cuda = {1,           (size_t)1 << 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                      cudaSuccess, KVC_FAKE_IN_TURN};

static bool lost() { return kvc_fake_cuda.lost != cudaSuccess; }

extern "C" {

const char *kvc_fake_never_launched(size_t i) {
    for (size_t k = 0; k < KVC_CUDA_KERNELS; k++)
        if (launched[k] == 0 && i-- == 0)
            return kernels[k].name;
    return NULL;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = kvc_fake_cuda.devices < 0 ? 0 : kvc_fake_cuda.devices;
    return kvc_fake_cuda.devices < 0    ? cudaErrorInsufficientDriver
           : kvc_fake_cuda.devices == 0 ? cudaErrorNoDevice
                                        : cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->totalGlobalMem = kvc_fake_cuda.memory;
    properties->uuid.bytes[0] = (char)device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorIllegalAddress     ? "an illegal memory access was encountered"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "emulated failure";
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    *all = kvc_fake_cuda.memory;
    *left = kvc_fake_cuda.memory - kvc_fake_cuda.used;
    return cudaSuccess;
}

enum { HEADER = 256 };
struct header {
    struct header *next;
    size_t bytes;
};
static struct header *allocations;

const void *kvc_fake_allocation(const void *at) {
    for (const struct header *h = allocations; h; h = h->next) {
        const unsigned char *first = (const unsigned char *)h + HEADER;
        if ((const unsigned char *)at >= first && (const unsigned char *)at < first + h->bytes)
            return h;
    }
    return NULL;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    unsigned char *made;
    struct header *header;
    if (bytes > kvc_fake_cuda.memory - kvc_fake_cuda.used)
        return cudaErrorMemoryAllocation;
    made = (unsigned char *)aligned_alloc(HEADER, HEADER + (bytes + HEADER - 1) / HEADER * HEADER);
    if (!made)
        return cudaErrorMemoryAllocation;
    memset(made, 0xa5, HEADER + bytes); /* memory that was not written is not zero */
    header = (struct header *)made;
    *header = {allocations, bytes};
    allocations = header;
    kvc_fake_cuda.used += bytes;
    kvc_fake_cuda.allocations++;
    kvc_fake_cuda.allocated++;
    *memory = made + HEADER;
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
    struct header *header = (struct header *)((unsigned char *)memory - HEADER), **link = &allocations;
    if (!memory)
        return cudaSuccess;
    while (*link && *link != header)
        link = &(*link)->next;
    if (!*link) {
        fprintf(stderr, "emulation: what is freed was never allocated\n");
        abort();
    }
    *link = header->next;
    kvc_fake_cuda.used -= header->bytes;
    kvc_fake_cuda.allocations--;
    free(header);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t) {
    if (!lost())
        memmove(to, from, bytes);
    kvc_fake_cuda.to_device += kind == cudaMemcpyHostToDevice;
    kvc_fake_cuda.from_device += kind == cudaMemcpyDeviceToHost;
    return kvc_fake_cuda.lost;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, enum cudaMemcpyKind, cudaStream_t) {
    if (bytes > to_stride || bytes > from_stride)
        return cudaErrorInvalidValue;
    for (size_t row = 0; row < rows && !lost(); row++)
        memcpy((char *)to + row * to_stride, (const char *)from + row * from_stride, bytes);
    return kvc_fake_cuda.lost;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    if (!lost())
        memset(to, value, bytes);
    return kvc_fake_cuda.lost;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = (cudaStream_t)malloc(1);
    kvc_fake_cuda.allocations++;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    kvc_fake_cuda.allocations--;
    free(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return kvc_fake_cuda.lost; }

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t, cudaStream_t) {
    unsigned given = 0;
    if (lost())
        return kvc_fake_cuda.lost;
    if (kvc_fake_cuda.fail_after && --kvc_fake_cuda.fail_after == 0)
        return kvc_fake_cuda.lost = cudaErrorIllegalAddress;
    while (arguments[given])
        given++;
    for (const known &k : kernels) {
        if (k.address != kernel)
            continue;
        if (k.arguments != given) {
            fprintf(stderr, "emulation: %s takes %u arguments, not %u\n", k.name, k.arguments, given);
            abort();
        }
        job = k.run;
        job_kernel = kernel;
        job_arguments = arguments;
        blockDim = {block.x, 1, 1};
        gridDim = {grid.x, grid.y, grid.z};
        run_blocks((uint64_t)grid.x * grid.y * grid.z, block.x);
        kvc_fake_cuda.launches++;
        kvc_fake_cuda.alone++;
        launched[&k - kernels]++;
        return cudaSuccess;
    }
    fprintf(stderr, "emulation: an unknown kernel is launched\n");
    abort();
}

/* ---- graphs: a chain of nodes, which the instantiated graph shares ---- */

struct kvc_fake_node {
    int kind; /* 0: kernel, 1: copy, 2: zero */
    const void *kernel;
    dim3 grid, block;
    uint64_t values[KVC_ARGUMENTS];
    unsigned count;
    struct kvc_fake_node *next;
};
struct kvc_fake_graph {
    struct kvc_fake_node *first, **end;
};

static void set_kernel(struct kvc_fake_node *node, const struct cudaKernelNodeParams *params) {
    node->kind = 0;
    node->kernel = params->func;
    node->grid = params->gridDim;
    node->block = params->blockDim;
    for (node->count = 0; params->kernelParams[node->count]; node->count++) {
        if (node->count == KVC_ARGUMENTS)
            abort();
        memcpy(&node->values[node->count], params->kernelParams[node->count], 8);
    }
}
static void set_moved(struct kvc_fake_node *node, int kind, void *to, const void *from, size_t bytes) {
    node->kind = kind;
    node->values[0] = (uintptr_t)to;
    node->values[1] = (uintptr_t)from;
    node->values[2] = bytes;
}
static struct kvc_fake_node *add(cudaGraph_t graph) {
    struct kvc_fake_node *node = (struct kvc_fake_node *)calloc(1, sizeof *node);
    if (!node)
        abort();
    *graph->end = node;
    graph->end = &node->next;
    return node;
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned) {
    *graph = (cudaGraph_t)calloc(1, sizeof **graph);
    (*graph)->end = &(*graph)->first;
    kvc_fake_cuda.allocations++;
    kvc_fake_cuda.graphs_made++;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    while (graph->first) {
        struct kvc_fake_node *node = graph->first;
        graph->first = node->next;
        free(node);
    }
    free(graph);
    kvc_fake_cuda.allocations--;
    return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                   const struct cudaKernelNodeParams *params) {
    set_kernel(*node = add(graph), params);
    return cudaSuccess;
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                     void *to, const void *from, size_t bytes, enum cudaMemcpyKind) {
    set_moved(*node = add(graph), 1, to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                   const struct cudaMemsetParams *params) {
    set_moved(*node = add(graph), 2, params->dst, NULL, params->width * params->elementSize);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long) {
    *ready = graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
    cudaError_t result = kvc_fake_cuda.lost;
    for (struct kvc_fake_node *node = ready->first; node && result == cudaSuccess; node = node->next) {
        void *pointers[KVC_ARGUMENTS + 1];
        for (unsigned i = 0; i < node->count; i++)
            pointers[i] = &node->values[i];
        pointers[node->count] = NULL;
        if (node->kind == 0) {
            result = cudaLaunchKernel(node->kernel, node->grid, node->block, pointers, 0, stream);
            kvc_fake_cuda.alone -= result == cudaSuccess;
        } else if (node->kind == 1)
            memmove((void *)node->values[0], (void *)node->values[1], node->values[2]);
        else
            memset((void *)node->values[0], 0, node->values[2]);
    }
    kvc_fake_cuda.graph_launches++;
    return result;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *params) {
    set_kernel(node, params);
    kvc_fake_cuda.nodes_changed++;
    return cudaSuccess;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t, cudaGraphNode_t node, void *to, const void *from,
                                               size_t bytes, enum cudaMemcpyKind) {
    set_moved(node, 1, to, from, bytes);
    kvc_fake_cuda.nodes_changed++;
    return cudaSuccess;
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *params) {
    set_moved(node, 2, params->dst, NULL, params->width * params->elementSize);
    kvc_fake_cuda.nodes_changed++;
    return cudaSuccess;
}
}
