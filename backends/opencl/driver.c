/* driver.c - memory, copies and launches on an in-order OpenCL queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "core/base/assert.h"

static struct kvc_opencl *opencl_of(struct kvc_offload *offload) { return (struct kvc_opencl *)offload; }

const char *kvc_opencl_error(cl_int code) {
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
        return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
        return "the device is out of memory or was lost";
    case CL_OUT_OF_HOST_MEMORY:
        return "no memory";
    case CL_INVALID_COMMAND_QUEUE:
        return "the device was lost";
    default:
        return "an OpenCL call failed";
    }
}

/* Reports a failure of the queue. The commands that follow it are lost, so nothing more is queued. */
static void driver_check(struct kvc_offload *offload, cl_int code, const char *what) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (code == CL_SUCCESS || offload->lost)
        return;
    kvc_offload_failed(offload, KVC_RESOURCE, "%s: %s (OpenCL error %d)", what, kvc_opencl_error(code), (int)code);
    offload->lost = true;
    /* waits, because running commands may still read a mapped model, which is unmapped next */
    opencl->cl.clFinish(opencl->queue);
}

static enum kvc_status allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes, const void *host,
                                void **handle, bool *borrowed, struct kvc_error *error) {
    struct kvc_opencl *opencl = opencl_of(offload);
    const uint64_t held = offload->device.memory.now_total;
    cl_int code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    cl_mem memory = NULL;
    *borrowed = host && opencl->in_place;
    *handle = NULL;
    if (*borrowed) /* the buffer is read-only, because kernels never write weights */
        memory = opencl->cl.clCreateBuffer(opencl->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes,
                                           (void *)(uintptr_t)host, &code);
    else if (bytes <= offload->memory_bytes && held <= offload->memory_bytes - bytes)
        memory = opencl->cl.clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS)
        return kvc_fail(error, KVC_RESOURCE,
                        "%s: no memory for %zu bytes of %s beside the %llu held (the device has %llu); a smaller "
                        "context, a method's budget or kv-type q8_0 needs less",
                        offload->device.name, bytes, kvc_offload_kind(kind), (unsigned long long)held,
                        (unsigned long long)offload->memory_bytes);
    *handle = memory;
    if (host && !*borrowed)
        driver_check(offload,
                     opencl->cl.clEnqueueWriteBuffer(opencl->queue, memory, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
                     "upload");
    return KVC_OK;
}

static void driver_release(struct kvc_offload *offload, void *handle) {
    struct kvc_opencl *opencl = opencl_of(offload);
    /* forgets all arguments, because a new buffer may get this handle */
    memset(opencl->known, 0, sizeof opencl->known);
    opencl->cl.clReleaseMemObject(handle);
}

static void write_buffer(struct kvc_offload *offload, void *to, size_t offset, const void *from, size_t bytes) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (!offload->lost)
        driver_check(offload,
                     opencl->cl.clEnqueueWriteBuffer(opencl->queue, to, CL_TRUE, offset, bytes, from, 0, NULL, NULL),
                     "upload");
}

static void read_buffer(struct kvc_offload *offload, void *to, void *from, size_t offset, size_t bytes) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (!offload->lost)
        driver_check(offload,
                     opencl->cl.clEnqueueReadBuffer(opencl->queue, from, CL_TRUE, offset, bytes, to, 0, NULL, NULL),
                     "download");
    if (offload->lost)
        memset(to, 0, bytes);
}

static void driver_copy(struct kvc_offload *offload, void *to, size_t to_offset, void *from, size_t from_offset,
                        size_t bytes) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (!offload->lost)
        driver_check(
            offload,
            opencl->cl.clEnqueueCopyBuffer(opencl->queue, from, to, from_offset, to_offset, bytes, 0, NULL, NULL),
            "copy");
}

struct clearing { /* arguments of a native kernel */
    char *memory;
    size_t offset, bytes;
};
static void CL_CALLBACK clear(void *arguments) {
    const struct clearing *c = arguments;
    memset(c->memory + c->offset, 0, c->bytes);
}

/* If device memory is host memory, clears it with memset. A native kernel calls memset, so the call is queued like
 * other commands. */
static bool zero_natively(struct kvc_opencl *opencl, void *handle, size_t offset, size_t bytes) {
    struct clearing c = {NULL, offset, bytes};
    const void *where = &c.memory;
    cl_mem memory = handle;
    return opencl->native && opencl->cl.clEnqueueNativeKernel(opencl->queue, clear, &c, sizeof c, 1, &memory, &where, 0,
                                                              NULL, NULL) == CL_SUCCESS;
}

/* If device memory is host memory, a kernel clears areas that are larger than the caches, because it uses all cores and
 * non-temporal stores. */
static bool zero_by_kernel(struct kvc_opencl *opencl, void *handle, size_t offset, size_t bytes) {
    const uint64_t n = bytes / 4, each = KVC_CLEARED_OF(opencl->offload.workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_clear);
    if (!opencl->native || bytes < ((size_t)16 << 20) || offset % sizeof(cl_float16) || bytes % 4)
        return false;
    KVC_PUSH(&launch, handle, offset / 4, n);
    kvc_launch_items(&opencl->offload, &launch, (n + each - 1) / each, 1, 1);
    return true;
}

static void zero(struct kvc_offload *offload, void *handle, size_t offset, size_t bytes) {
    struct kvc_opencl *opencl = opencl_of(offload);
    const cl_uint16 word = {{0}}; /* drivers write the pattern as often as needed, so a wide pattern is faster */
    const size_t width = offset % sizeof word == 0 && bytes >= sizeof word ? sizeof word : 4;
    size_t whole = offset % 4 ? 0 : bytes / width * width;
    if (!offload->lost &&
        (zero_by_kernel(opencl, handle, offset, bytes) || zero_natively(opencl, handle, offset, bytes)))
        return;
    if (whole && !offload->lost)
        driver_check(offload,
                     opencl->cl.clEnqueueFillBuffer(opencl->queue, handle, &word, width, offset, whole, 0, NULL, NULL),
                     "zero");
    if (whole < bytes && !offload->lost)
        driver_check(offload,
                     opencl->cl.clEnqueueFillBuffer(opencl->queue, handle, &word, 1, offset + whole, bytes - whole, 0,
                                                    NULL, NULL),
                     "zero");
}

/* Sets an argument if it differs from the kernel's last launch. */
static cl_int set_argument(struct kvc_opencl *opencl, const struct kvc_launch *l, unsigned i) {
    union kvc_opencl_argument *last = &opencl->last[l->kernel][i];
    const void *value = &l->argument[i].value;
    KVC_ASSERT(l->argument[i].bytes <= sizeof *last);
    const bool none = l->argument[i].is_handle && !l->argument[i].value.handle;
    if (i < opencl->known[l->kernel] && memcmp(last, value, l->argument[i].bytes) == 0)
        return CL_SUCCESS;
    memcpy(last, value, l->argument[i].bytes);
    return opencl->cl.clSetKernelArg(opencl->kernel[l->kernel], i, l->argument[i].bytes, none ? NULL : value);
}

static void launch(struct kvc_offload *offload, const struct kvc_launch *l) {
    struct kvc_opencl *opencl = opencl_of(offload);
    cl_kernel kernel = opencl->kernel[l->kernel];
    const size_t local[3] = {l->items, 1, 1};
    const size_t global[3] = {(size_t)l->groups[0] * l->items, l->groups[1], l->groups[2]};
    KVC_ASSERT(l->kernel < KVC_KERNELS && l->items > 0);
    cl_int code = CL_SUCCESS;
    for (unsigned i = 0; i < l->count && code == CL_SUCCESS; i++)
        code = set_argument(opencl, l, i);
    opencl->known[l->kernel] = code == CL_SUCCESS ? l->count : 0;
    if (code == CL_SUCCESS)
        code = opencl->cl.clEnqueueNDRangeKernel(opencl->queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (opencl->lose_after && --opencl->lose_after == 0)
        code = CL_OUT_OF_RESOURCES;
    driver_check(offload, code, "launch");
}

static void driver_finish(struct kvc_offload *offload) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (!offload->lost)
        driver_check(offload, opencl->cl.clFinish(opencl->queue), "waiting for the device");
}

void kvc_opencl_release_kernels(struct kvc_opencl *opencl) {
    for (int i = 0; i < KVC_KERNELS; i++)
        if (opencl->kernel[i])
            opencl->cl.clReleaseKernel(opencl->kernel[i]);
    if (opencl->program)
        opencl->cl.clReleaseProgram(opencl->program);
    memset(opencl->kernel, 0, sizeof opencl->kernel);
    memset(opencl->known, 0, sizeof opencl->known);
    opencl->program = NULL;
}

static void close_device(struct kvc_offload *offload) {
    struct kvc_opencl *opencl = opencl_of(offload);
    if (opencl->queue)
        opencl->cl.clFinish(opencl->queue);
    kvc_opencl_release_kernels(opencl);
    if (opencl->queue)
        opencl->cl.clReleaseCommandQueue(opencl->queue);
    if (opencl->context)
        opencl->cl.clReleaseContext(opencl->context);
    free(opencl);
}

const struct kvc_offload_driver kvc_opencl_driver = {.allocate = allocate,
                                                     .release = driver_release,
                                                     .write = write_buffer,
                                                     .read = read_buffer,
                                                     .copy = driver_copy,
                                                     .zero = zero,
                                                     .launch = launch,
                                                     .finish = driver_finish,
                                                     .close = close_device};
