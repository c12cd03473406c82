/* fast.c - --math=fast: cuBLAS computes the linear layers of batches with many rows. The model is the same, but the
 * rounding differs. Batches with few rows gain nothing from cuBLAS and stay exact. cuBLAS is loaded only for
 * --math=fast. */
#include <stdlib.h>
#include <string.h>

#include "core/base/integers.h"
#include "core/base/library.h"
#include "backends/cuda/cuda.h"

#define FAST_ROWS 16u                            /* the smallest batch that cuBLAS computes */
#define FAST_WIDENED_BYTES ((uint64_t)256 << 20) /* limit for the weights that are dequantized at a time */

typedef int set_stream_fn(void *, cudaStream_t);
typedef int sgemm_fn(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,
                     const float *, float *, int);

struct kvc_cuda_fast {
    void *library, *handle;
    int (*destroy)(void *);
    sgemm_fn *sgemm;
};

/* Computes y [rows, N] = x [rows, K] times the transposed weights [N, K]. Dequantizes the weights of some outputs at a
 * time into the workspace. */
static void fast_linear(struct kvc_device *device, const struct kvc_linear *args) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
    struct kvc_cuda *cuda = (struct kvc_cuda *)device;
    struct kvc_offload *offload = &cuda->offload;
    uint64_t K = w->inputs, N = w->outputs, at_once = FAST_WIDENED_BYTES / (K * 4);
    const float one = 1.0f, zero = 0.0f;
    struct kvc_buffer *workspace;
    at_once = at_once < 1 ? 1 : at_once > N ? N : at_once;
    if (rows < FAST_ROWS || K > INT32_MAX || N > INT32_MAX || rows > INT32_MAX) { /* cuBLAS takes sizes as int */
        kvc_cuda_linear(device, args);
        return;
    }
    workspace = kvc_offload_workspace(offload, at_once * K * 4);
    if (!workspace)
        return;
    for (uint32_t i = 0; i < w->pieces; i++) {
        uint64_t before = i * w->piece_rows, count = kvc_min_u64(N - before, w->piece_rows);
        for (uint64_t from = 0; from < count; from += at_once) {
            uint64_t here = kvc_min_u64(count - from, at_once);
            struct kvc_launch dequantize = kvc_launch_of(KVC_KERNEL_dequantize);
            KVC_PUSH(&dequantize, ((struct kvc_span){workspace, 0}), w->piece[i], w->row_bytes, w->type, K, from, here);
            kvc_launch_items(offload, &dequantize, here * K, 1, 1);
            kvc_cuda_send(cuda);
            if (!offload->lost &&
                cuda->fast->sgemm(cuda->fast->handle, 1, 0, (int)here, (int)rows, (int)K, &one,
                                  (const float *)workspace->handle, (int)K,
                                  (const float *)(void *)kvc_cuda_data(args->x), (int)K, &zero,
                                  (float *)(void *)kvc_cuda_data(args->y) + before + from, (int)N) != 0)
                kvc_offload_failed(offload, KVC_RESOURCE, "cuBLAS failed");
        }
    }
    if (args->bias.buffer) {
        struct kvc_launch add = kvc_launch_of(KVC_KERNEL_add_bias);
        KVC_PUSH(&add, args->y, args->bias, N, rows * N);
        kvc_launch_items(offload, &add, rows * N, 1, 1);
    }
}

enum kvc_status kvc_cuda_fast_open(struct kvc_cuda *cuda, struct kvc_error *error) {
    struct kvc_cuda_fast *fast = calloc(1, sizeof *fast);
    int (*create)(void **) = NULL;
    int (*set_math)(void *, int) = NULL;
    set_stream_fn *set_stream = NULL;
    char why[200] = "it lacks a function";
    if (!fast)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for cuBLAS", cuda->offload.device.name);
    cuda->fast = fast;
    fast->library = kvc_library_open(KVC_LIBRARY_CUBLAS, why, sizeof why);
    if (!fast->library || !kvc_library_find(fast->library, "cublasCreate_v2", &create) ||
        !kvc_library_find(fast->library, "cublasDestroy_v2", &fast->destroy) ||
        !kvc_library_find(fast->library, "cublasSetStream_v2", &set_stream) ||
        !kvc_library_find(fast->library, "cublasSetMathMode", &set_math) ||
        !kvc_library_find(fast->library, "cublasSgemm_v2", &fast->sgemm))
        return kvc_fail(error, KVC_RESOURCE, "math=fast needs cuBLAS (%s); use exact, the default", why);
    if (create(&fast->handle) != 0 || set_stream(fast->handle, cuda->stream) != 0 ||
        set_math(fast->handle, 3 /* compute in TF32, on tensor cores */) != 0)
        return kvc_fail(error, KVC_RESOURCE, "%s: cuBLAS does not start", cuda->offload.device.name);
    cuda->offload.table.linear = fast_linear;
    return KVC_OK;
}

void kvc_cuda_fast_close(struct kvc_cuda *cuda) {
    if (!cuda->fast)
        return;
    if (cuda->fast->handle && cuda->fast->destroy)
        (void)cuda->fast->destroy(cuda->fast->handle);
    free(cuda->fast);
    cuda->fast = NULL;
}
