/* cuda.c - NVIDIA devices: lists them, opens one, and implements the driver that backends/offload needs. */
#include "backends/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/backends.h"
#include "core/base/float.h"

static struct kvc_cuda *cuda_of(struct kvc_offload *offload) { return (struct kvc_cuda *)offload; }

/* ---- the list of devices ---- */

/* Returns the number of devices. If it is 0, *why is the reason. */
static int count_devices(const char **why) {
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess && count > 0)
        return count;
    (void)cudaGetLastError();
    if (result == cudaErrorInsufficientDriver) {
        int driver = 0;
        (void)cudaDriverGetVersion(&driver);
        *why = driver == 0 ? "the driver is missing" : "the driver is older than this build's CUDA";
    } else if (result == cudaSuccess || result == cudaErrorNoDevice) {
        *why = "the driver sees none";
    } else {
        *why = cudaGetErrorString(result);
    }
    return 0;
}

/* Writes a description such as "NVIDIA H200, 139.8 GiB, compute 9.0". */
static cudaError_t cuda_describe(int index, char *text, size_t capacity, uint64_t *bytes, unsigned char unique[16]) {
    struct cudaDeviceProp properties;
    cudaError_t result = cudaGetDeviceProperties(&properties, index);
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        snprintf(text, capacity, "does not answer: %s", cudaGetErrorString(result));
        return result;
    }
    *bytes = properties.totalGlobalMem;
    if (unique)
        memcpy(unique, &properties.uuid, 16);
    snprintf(text, capacity, "%.64s, %.1f GiB, compute %d.%d", properties.name,
             (double)properties.totalGlobalMem / 1073741824.0, properties.major, properties.minor);
    return cudaSuccess;
}

static bool cuda_device(size_t i, char *text, size_t capacity) {
    const char *why = "";
    uint64_t bytes;
    int length;
    if (i >= (size_t)count_devices(&why))
        return false;
    length = snprintf(text, capacity, "%zu: ", i);
    if (length > 0 && (size_t)length < capacity)
        (void)cuda_describe((int)i, text + length, capacity - (size_t)length, &bytes, NULL);
    return true;
}

static bool cuda_usable(char *detail, size_t capacity) {
    const char *why = "";
    if (count_devices(&why) > 0)
        return cuda_device(0, detail, capacity);
    snprintf(detail, capacity, "no CUDA device: %s", why);
    return false;
}

/* ---- the driver ---- */

bool kvc_cuda_good(struct kvc_cuda *cuda, cudaError_t result, const char *what) {
    if (result == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    kvc_offload_failed(&cuda->offload, KVC_RESOURCE, "%s: %s", what, cudaGetErrorString(result));
    cuda->offload.lost = true; /* a context that has failed does not recover */
    return false;
}

/* Waits until the copy is complete: the caller may change `from` afterwards, and the runtime does not promise to copy
 * pageable memory before it returns. */
static void driver_write(struct kvc_offload *offload, void *to, size_t offset, const void *from, size_t bytes) {
    struct kvc_cuda *cuda = cuda_of(offload);
    kvc_cuda_send(cuda);
    if (!offload->lost &&
        kvc_cuda_good(cuda,
                      cudaMemcpyAsync((unsigned char *)to + offset, from, bytes, cudaMemcpyHostToDevice, cuda->stream),
                      "upload"))
        (void)kvc_cuda_good(cuda, cudaStreamSynchronize(cuda->stream), "the device failed");
}

static enum kvc_status driver_allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes,
                                       const void *host, void **handle, bool *borrowed, struct kvc_error *error) {
    struct kvc_cuda *cuda = cuda_of(offload);
    *borrowed = false;
    (void)cudaSetDevice(cuda->index);
    *handle = kvc_cuda_take(cuda, kind, bytes);
    if (!*handle) {
        size_t left = 0, all = 0;
        if (cudaMemGetInfo(&left, &all) != cudaSuccess)
            (void)cudaGetLastError();
        return kvc_fail(error, KVC_RESOURCE,
                        "%s: no memory for %s: %.3f GiB more are needed, %.3f of %.1f GiB are free; a smaller context, "
                        "chunk or budget needs less",
                        offload->device.name, kvc_offload_kind(kind), (double)bytes / 1073741824.0,
                        (double)left / 1073741824.0, (double)all / 1073741824.0);
    }
    if (host)
        driver_write(offload, *handle, 0, host, bytes);
    return KVC_OK;
}

static void driver_release(struct kvc_offload *offload, void *handle) {
    (void)cudaSetDevice(cuda_of(offload)->index);
    kvc_cuda_free_piece(cuda_of(offload), handle);
}

static void driver_read(struct kvc_offload *offload, void *to, void *from, size_t offset, size_t bytes) {
    struct kvc_cuda *cuda = cuda_of(offload);
    kvc_cuda_send(cuda);
    if (offload->lost ||
        !kvc_cuda_good(cuda,
                       cudaMemcpyAsync(to, (unsigned char *)from + offset, bytes, cudaMemcpyDeviceToHost, cuda->stream),
                       "download") ||
        !kvc_cuda_good(cuda, cudaStreamSynchronize(cuda->stream), "the device failed"))
        memset(to, 0, bytes);
}

static void driver_copy(struct kvc_offload *offload, void *to, size_t to_offset, void *from, size_t from_offset,
                        size_t bytes) {
    kvc_cuda_queue_copy(cuda_of(offload), (unsigned char *)to + to_offset, (unsigned char *)from + from_offset, bytes);
}

static void driver_zero(struct kvc_offload *offload, void *handle, size_t offset, size_t bytes) {
    kvc_cuda_queue_zero(cuda_of(offload), (unsigned char *)handle + offset, bytes);
}

static const void *stub(unsigned kernel) {
    static void (*const stubs[])(void) = {
#define KVC_KERNEL_NAMED(name) kvc_k_##name,
#include "backends/offload/kernels.def"
#define KVC_KERNEL_ADDRESS(name) kvc_k_##name,
        KVC_CUDA_OWN_KERNELS(KVC_KERNEL_ADDRESS)
#undef KVC_KERNEL_ADDRESS
    };
    const void *address;
    /* ISO C has no cast from a function pointer to an object pointer */
    memcpy(&address, &stubs[kernel], sizeof address);
    return address;
}

static void driver_launch(struct kvc_offload *offload, const struct kvc_launch *launch) {
    kvc_cuda_queue_launch(cuda_of(offload), stub((unsigned)launch->kernel), launch);
}

struct kvc_launch kvc_cuda_own(enum kvc_cuda_kernel kernel) {
    return kvc_launch_of((enum kvc_kernel)(unsigned)kernel);
}

static void driver_finish(struct kvc_offload *offload) {
    kvc_cuda_send(cuda_of(offload));
    if (!offload->lost)
        (void)kvc_cuda_good(cuda_of(offload), cudaStreamSynchronize(cuda_of(offload)->stream), "the device failed");
}

static void driver_close(struct kvc_offload *offload) {
    struct kvc_cuda *cuda = cuda_of(offload);
    if (cuda->stream) {
        driver_finish(offload);
        kvc_cuda_fast_close(cuda);
        kvc_cuda_arenas_close(cuda);
        kvc_cuda_queue_close(cuda);
        (void)cudaStreamDestroy(cuda->stream);
    }
    (void)cudaGetLastError();
    free(cuda);
}

static const struct kvc_offload_driver driver = {.allocate = driver_allocate,
                                                 .release = driver_release,
                                                 .write = driver_write,
                                                 .read = driver_read,
                                                 .copy = driver_copy,
                                                 .zero = driver_zero,
                                                 .launch = driver_launch,
                                                 .finish = driver_finish,
                                                 .close = driver_close};

/* ---- access for other libraries ---- */

static bool cuda_inside(struct kvc_cuda *cuda, struct kvc_span span, size_t bytes) {
    if (span.offset <= span.buffer->bytes && bytes <= span.buffer->bytes - span.offset)
        return !cuda->offload.lost;
    kvc_offload_failed(&cuda->offload, KVC_RESOURCE, "%zu bytes at offset %zu do not fit a buffer of %zu bytes", bytes,
                       span.offset, span.buffer->bytes);
    return false;
}

static void *exposed_address(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    struct kvc_cuda *cuda = (struct kvc_cuda *)device;
    kvc_cuda_send(cuda);
    return cuda_inside(cuda, span, bytes) ? kvc_cuda_data(span) : NULL;
}

static bool exposed_wait(struct kvc_device *device) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    driver_finish(offload);
    return !offload->lost;
}

static void exposed_copy_rows(struct kvc_device *device, struct kvc_span to, size_t to_stride, struct kvc_span from,
                              size_t from_stride, size_t bytes, uint32_t rows) {
    struct kvc_cuda *cuda = (struct kvc_cuda *)device;
    if (!cuda_inside(cuda, to, (rows - 1) * to_stride + bytes) ||
        !cuda_inside(cuda, from, (rows - 1) * from_stride + bytes))
        return;
    if (rows == 1) { /* this copy is queued with the calls that follow, so that all may form one graph */
        kvc_cuda_queue_copy(cuda, kvc_cuda_data(to), kvc_cuda_data(from), bytes);
        return;
    }
    kvc_cuda_send(cuda);
    if (!cuda->offload.lost)
        (void)kvc_cuda_good(cuda,
                            cudaMemcpy2DAsync(kvc_cuda_data(to), to_stride, kvc_cuda_data(from), from_stride, bytes,
                                              rows, cudaMemcpyDeviceToDevice, cuda->stream),
                            "copy of rows");
}

/* ---- opening ---- */

static enum kvc_status open_parts(struct kvc_cuda *cuda, enum kvc_math math, struct kvc_error *error) {
    struct kvc_offload *offload = &cuda->offload;
    char text[160];
    cudaError_t result = cudaSetDevice(cuda->index);
    enum kvc_status status;
    if (result == cudaSuccess)
        result = cuda_describe(cuda->index, text, sizeof text, &offload->memory_bytes, cuda->exposed.unique);
    if (result == cudaSuccess)
        result = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        cuda->stream = NULL;
        return kvc_fail(error, KVC_RESOURCE, "cuda:%d: the device does not open: %s", cuda->index,
                        cudaGetErrorString(result));
    }
    snprintf(offload->device.name, sizeof offload->device.name, "cuda:%d (%.60s%s)", cuda->index, text,
             math == KVC_MATH_FAST ? ", fast: not exact" : "");
    if (!kvc_cuda_queue_open(cuda))
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for a queue", offload->device.name);
    offload->driver = &driver;
    offload->workers = 4;
    offload->group = KVC_GROUP_OF(offload->workers);
    offload->most_bytes = offload->memory_bytes / 4; /* largest amount by which a cache grows at a time */
    offload->table.name = "cuda";
    status = kvc_offload_open(offload, error);
    if (status == KVC_OK)
        status = kvc_offload_check(offload, NULL, error);
    if (status != KVC_OK)
        return status;
    offload->table.linear = kvc_cuda_linear;
    offload->table.linear_int8 = kvc_cuda_linear_int8;
    offload->table.linear_int16 = kvc_cuda_linear_int16;
    offload->table.attention = kvc_cuda_attention;
    cuda->exposed.stream = cuda->stream;
    cuda->exposed.address = exposed_address;
    cuda->exposed.wait = exposed_wait;
    cuda->exposed.copy_rows = exposed_copy_rows;
    offload->device.exposed = &cuda->exposed;
    return math == KVC_MATH_FAST ? kvc_cuda_fast_open(cuda, error) : KVC_OK;
}

static enum kvc_status cuda_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                 struct kvc_device **device, struct kvc_error *error) {
    const char *why = "";
    int count = count_devices(&why);
    struct kvc_cuda *cuda;
    enum kvc_status status;
    uint64_t environment;
    (void)threads;
    *device = NULL;
    if (count == 0)
        return kvc_fail(error, KVC_RESOURCE, "no CUDA device: %s; --backend cpu runs anywhere", why);
    /* finds the first device whose description contains `path` */
    for (index = path ? 0 : index; path && index < (unsigned)count; index++) {
        char text[160];
        uint64_t bytes;
        if (cuda_describe((int)index, text, sizeof text, &bytes, NULL) == cudaSuccess && strcasestr(text, path))
            break;
    }
    if (path && index == (unsigned)count)
        return kvc_fail(error, KVC_RESOURCE, "cuda:%s: no device of that name; 'kvcull info backends' lists them",
                        path);
    if (index >= (unsigned)count)
        return kvc_fail(error, KVC_RESOURCE, "cuda:%u: there is no such device; the last is cuda:%d", index, count - 1);
    cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return kvc_fail(error, KVC_RESOURCE, "cuda: no memory for a device");
    cuda->index = (int)index;
    cuda->offload.driver = &driver;
    environment = kvc_float_open();
    status = open_parts(cuda, math, error);
    kvc_float_close(environment);
    if (status != KVC_OK) {
        kvc_offload_close(&cuda->offload.device);
        return status;
    }
    *device = &cuda->offload.device;
    return KVC_OK;
}

static void cuda_missing(char *text, size_t capacity) { snprintf(text, capacity, "none"); }

const struct kvc_backend_class kvc_backend_cuda = {.name = "cuda",
                                                   .usable = cuda_usable,
                                                   .open = cuda_open,
                                                   .missing = cuda_missing,
                                                   .device = cuda_device,
                                                   .in_turn = true};
