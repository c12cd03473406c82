/* queue.c - records launches and sends them when the host next waits. They are sent as a CUDA graph if the same
 * sequence of kernels was recorded before, as in decode steps; otherwise one by one. Arguments that differ from the
 * last run, such as a position, are set in the graph. Everything else that changes between steps is in device memory.
 * Sending a known sequence allocates nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "core/base/assert.h"

#define KVC_GRAPH_LEAST 8u /* number of calls; shorter sequences are launched one by one */
#define KVC_ZERO 0u
#define KVC_COPY 1u

bool kvc_cuda_queue_open(struct kvc_cuda *cuda) {
    struct kvc_cuda_queue *queue = &cuda->queue;
    const char *variable = getenv("KVCULL_CUDA_GRAPHS");
    queue->capacity = KVC_CALLS * 48;
    queue->calls = malloc(KVC_CALLS * sizeof *queue->calls);
    queue->values = malloc(queue->capacity * sizeof *queue->values);
    queue->graphs_off = variable && strcmp(variable, "0") == 0;
    return queue->calls && queue->values;
}

static void free_graph(struct kvc_cuda_graph *graph) {
    if (graph->ready)
        (void)cudaGraphExecDestroy(graph->ready);
    if (graph->graph)
        (void)cudaGraphDestroy(graph->graph);
    free(graph->calls);
    free(graph->values);
    free(graph->nodes);
    memset(graph, 0, sizeof *graph);
}

void kvc_cuda_queue_close(struct kvc_cuda *cuda) {
    for (unsigned i = 0; i < KVC_CUDA_GRAPHS; i++)
        free_graph(&cuda->queue.graph[i]);
    free(cuda->queue.calls);
    free(cuda->queue.values);
}

/* ---- recording ---- */

static struct kvc_cuda_call *next_call(struct kvc_cuda *cuda, uint32_t count) {
    struct kvc_cuda_queue *queue = &cuda->queue;
    struct kvc_cuda_call *call;
    if (queue->call_count == KVC_CALLS || queue->capacity - queue->value_count < count)
        kvc_cuda_send(cuda);
    KVC_ASSERT(queue->call_count < KVC_CALLS && queue->capacity - queue->value_count >= count);
    call = &queue->calls[queue->call_count++];
    memset(call, 0, sizeof *call);
    call->first = queue->value_count;
    call->count = count;
    queue->value_count += count;
    return call;
}

void kvc_cuda_queue_launch(struct kvc_cuda *cuda, const void *kernel, const struct kvc_launch *launch) {
    struct kvc_cuda_call *call = next_call(cuda, launch->count);
    uint64_t *values = cuda->queue.values + call->first;
    call->kernel = kernel;
    memcpy(call->groups, launch->groups, sizeof call->groups);
    call->items = launch->items;
    for (unsigned i = 0; i < launch->count; i++) {
        KVC_ASSERT(launch->argument[i].bytes <= sizeof values[i]);
        values[i] = 0;
        memcpy(&values[i], &launch->argument[i].value, launch->argument[i].bytes);
    }
}

void kvc_cuda_queue_copy(struct kvc_cuda *cuda, void *to, const void *from, size_t bytes) {
    struct kvc_cuda_call *call = next_call(cuda, 3);
    uint64_t *values = cuda->queue.values + call->first;
    call->items = KVC_COPY;
    values[0] = (uintptr_t)to;
    values[1] = (uintptr_t)from;
    values[2] = bytes;
}

void kvc_cuda_queue_zero(struct kvc_cuda *cuda, void *to, size_t bytes) {
    struct kvc_cuda_call *call = next_call(cuda, 2);
    uint64_t *values = cuda->queue.values + call->first;
    call->items = KVC_ZERO;
    values[0] = (uintptr_t)to;
    values[1] = bytes;
}

/* ---- sending ---- */

/* Makes pointers to the arguments, as the runtime needs them. The runtime knows the width of each argument and reads
 * the low bytes of each value. */
static void point(uint64_t *values, uint32_t count, void **pointers) {
    KVC_ASSERT(count <= KVC_ARGUMENTS);
    for (uint32_t i = 0; i < count; i++)
        pointers[i] = &values[i];
    pointers[count] = NULL; /* tests/cuda, which emulates the runtime, counts the pointers up to this NULL */
}

static void *address(uint64_t value) { return (void *)(uintptr_t)value; }

static void launch(struct kvc_cuda *cuda, const struct kvc_cuda_call *call, uint64_t *values) {
    void *pointers[KVC_ARGUMENTS + 1];
    cudaError_t result;
    if (call->kernel) {
        dim3 grid = {call->groups[0], call->groups[1], call->groups[2]}, block = {call->items, 1, 1};
        point(values, call->count, pointers);
        result = cudaLaunchKernel(call->kernel, grid, block, pointers, 0, cuda->stream);
    } else if (call->items == KVC_COPY) {
        result = cudaMemcpyAsync(address(values[0]), address(values[1]), (size_t)values[2], cudaMemcpyDeviceToDevice,
                                 cuda->stream);
    } else {
        result = cudaMemsetAsync(address(values[0]), 0, (size_t)values[1], cuda->stream);
    }
    (void)kvc_cuda_good(cuda, result, "launch");
}

static struct cudaKernelNodeParams kernel_node(const struct kvc_cuda_call *call, uint64_t *values, void **pointers) {
    struct cudaKernelNodeParams node;
    memset(&node, 0, sizeof node);
    point(values, call->count, pointers);
    memcpy(&node.func, &call->kernel, sizeof node.func);
    node.gridDim.x = call->groups[0], node.gridDim.y = call->groups[1], node.gridDim.z = call->groups[2];
    node.blockDim.x = call->items, node.blockDim.y = node.blockDim.z = 1;
    node.kernelParams = pointers;
    return node;
}

static struct cudaMemsetParams zero_node(const uint64_t *values) {
    struct cudaMemsetParams node;
    bool words = values[0] % 4 == 0 && values[1] % 4 == 0;
    memset(&node, 0, sizeof node);
    node.dst = address(values[0]);
    node.elementSize = words ? 4 : 1;
    node.width = (size_t)values[1] / node.elementSize;
    node.height = 1;
    return node;
}

/* Returns a key of the sequence, computed from the kernels and the kinds and numbers of their arguments, but not from
 * the arguments' values. */
static uint64_t sequence_key(const struct kvc_cuda_queue *queue) {
    uint64_t key = queue->call_count;
    for (uint32_t i = 0; i < queue->call_count; i++) {
        const struct kvc_cuda_call *call = &queue->calls[i];
        key = (key ^ (uintptr_t)call->kernel) * 0x9e3779b97f4a7c15u;
        key = (key ^ call->items ^ (uint64_t)call->count << 32) * 0xbf58476d1ce4e5b9u;
        key ^= key >> 29;
    }
    return key;
}

static bool same_sequence(const struct kvc_cuda_graph *graph, const struct kvc_cuda_queue *queue) {
    if (!graph->ready || graph->call_count != queue->call_count || graph->value_count != queue->value_count)
        return false;
    for (uint32_t i = 0; i < queue->call_count; i++)
        if (graph->calls[i].kernel != queue->calls[i].kernel || graph->calls[i].items != queue->calls[i].items ||
            graph->calls[i].count != queue->calls[i].count)
            return false;
    return true;
}

/* Adds one node after the last one. */
static cudaError_t add_node(struct kvc_cuda_graph *graph, uint32_t i) {
    const struct kvc_cuda_call *call = &graph->calls[i];
    uint64_t *values = graph->values + call->first;
    const cudaGraphNode_t *before = i ? &graph->nodes[i - 1] : NULL;
    void *pointers[KVC_ARGUMENTS + 1];
    if (call->kernel) {
        struct cudaKernelNodeParams node = kernel_node(call, values, pointers);
        return cudaGraphAddKernelNode(&graph->nodes[i], graph->graph, before, i > 0, &node);
    }
    if (call->items == KVC_COPY)
        return cudaGraphAddMemcpyNode1D(&graph->nodes[i], graph->graph, before, i > 0, address(values[0]),
                                        address(values[1]), (size_t)values[2], cudaMemcpyDeviceToDevice);
    struct cudaMemsetParams node = zero_node(values);
    return cudaGraphAddMemsetNode(&graph->nodes[i], graph->graph, before, i > 0, &node);
}

/* Makes a graph of the recorded calls, in place of the least recently used graph. Returns NULL on failure. */
static struct kvc_cuda_graph *make_graph(struct kvc_cuda *cuda, uint64_t key) {
    struct kvc_cuda_queue *queue = &cuda->queue;
    struct kvc_cuda_graph *graph = &queue->graph[0];
    cudaError_t result;
    for (unsigned i = 1; i < KVC_CUDA_GRAPHS; i++)
        if (queue->graph[i].used < graph->used)
            graph = &queue->graph[i];
    if (graph->ready)
        (void)cudaStreamSynchronize(cuda->stream);
    free_graph(graph);
    KVC_ASSERT(queue->call_count > 0 && queue->value_count <= queue->capacity);
    graph->key = key;
    graph->call_count = queue->call_count;
    graph->value_count = queue->value_count;
    graph->calls = malloc(queue->call_count * sizeof *graph->calls);
    graph->values = malloc((queue->value_count + (size_t)1) * sizeof *graph->values);
    graph->nodes = malloc(queue->call_count * sizeof *graph->nodes);
    result =
        graph->calls && graph->values && graph->nodes ? cudaGraphCreate(&graph->graph, 0) : cudaErrorMemoryAllocation;
    if (result == cudaSuccess) {
        memcpy(graph->calls, queue->calls, queue->call_count * sizeof *graph->calls);
        memcpy(graph->values, queue->values, queue->value_count * sizeof *graph->values);
    }
    for (uint32_t i = 0; i < queue->call_count && result == cudaSuccess; i++)
        result = add_node(graph, i);
    if (result == cudaSuccess)
        result = cudaGraphInstantiateWithFlags(&graph->ready, graph->graph, 0);
    if (result == cudaSuccess)
        return graph;
    (void)cudaGetLastError(); /* this is no error, because calls can be launched without a graph */
    free_graph(graph);
    return NULL;
}

/* Sets the arguments that differ from the graph's last run. Returns false if the runtime rejects them. */
static bool update_graph(struct kvc_cuda_graph *graph, const struct kvc_cuda_queue *queue) {
    for (uint32_t i = 0; i < queue->call_count; i++) {
        const struct kvc_cuda_call *call = &queue->calls[i];
        struct kvc_cuda_call *was = &graph->calls[i];
        uint64_t *values = graph->values + was->first;
        KVC_ASSERT(was->first == call->first && was->count == call->count);
        void *pointers[KVC_ARGUMENTS + 1];
        cudaError_t result;
        if (memcmp(values, queue->values + call->first, call->count * sizeof *values) == 0 &&
            memcmp(was->groups, call->groups, sizeof call->groups) == 0)
            continue;
        memcpy(values, queue->values + call->first, call->count * sizeof *values);
        *was = *call;
        if (call->kernel) {
            struct cudaKernelNodeParams node = kernel_node(call, values, pointers);
            result = cudaGraphExecKernelNodeSetParams(graph->ready, graph->nodes[i], &node);
        } else if (call->items == KVC_COPY) {
            result =
                cudaGraphExecMemcpyNodeSetParams1D(graph->ready, graph->nodes[i], address(values[0]),
                                                   address(values[1]), (size_t)values[2], cudaMemcpyDeviceToDevice);
        } else {
            struct cudaMemsetParams node = zero_node(values);
            result = cudaGraphExecMemsetNodeSetParams(graph->ready, graph->nodes[i], &node);
        }
        if (result != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
    }
    return true;
}

/* Returns the graph for the recorded calls, with its arguments set. Returns NULL if the calls must be launched one by
 * one. */
static struct kvc_cuda_graph *find_graph(struct kvc_cuda *cuda) {
    struct kvc_cuda_queue *queue = &cuda->queue;
    uint64_t key;
    if (queue->graphs_off || queue->call_count < KVC_GRAPH_LEAST)
        return NULL;
    key = sequence_key(queue);
    for (unsigned i = 0; i < KVC_CUDA_GRAPHS; i++)
        if (queue->graph[i].key == key && same_sequence(&queue->graph[i], queue)) {
            if (update_graph(&queue->graph[i], queue))
                return &queue->graph[i];
            (void)cudaStreamSynchronize(cuda->stream);
            free_graph(&queue->graph[i]);
            return NULL;
        }
    for (unsigned i = 0; i < sizeof queue->seen / sizeof queue->seen[0]; i++)
        if (queue->seen[i] == key)
            return make_graph(cuda, key);
    queue->seen[queue->seen_next++ % (sizeof queue->seen / sizeof queue->seen[0])] = key;
    return NULL;
}

void kvc_cuda_send(struct kvc_cuda *cuda) {
    struct kvc_cuda_queue *queue = &cuda->queue;
    struct kvc_cuda_graph *graph;
    (void)cudaSetDevice(cuda->index); /* another thread or device may have changed the current device */
    if (queue->call_count == 0)
        return;
    graph = find_graph(cuda);
    if (graph) {
        graph->used = ++queue->clock;
        (void)kvc_cuda_good(cuda, cudaGraphLaunch(graph->ready, cuda->stream), "launch of a graph");
    } else {
        for (uint32_t i = 0; i < queue->call_count; i++)
            launch(cuda, &queue->calls[i], queue->values + queue->calls[i].first);
    }
    queue->call_count = queue->value_count = 0;
}
