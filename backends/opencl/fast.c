/* fast.c - --math=fast: CLBlast computes the linear layers of batches with many rows. Weights are dequantized for some
 * outputs at a time. The model is the same, but the rounding differs. Batches with few rows stay exact. CLBlast is
 * loaded only for --math=fast. This file declares what it uses of CLBlast, so that a build does not need CLBlast's
 * headers. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/library.h"
#include "backends/opencl/opencl.h"

#include <string.h>

#define FAST_ROWS 16u                   /* the smallest batch that CLBlast computes */
#define FAST_BYTES ((uint64_t)64 << 20) /* limit for the weights that are dequantized at a time */

/* CLBlast's values of these constants. */
enum status { SUCCESS = 0 };
enum layout { ROW_MAJOR = 101 };
enum transpose { TRANSPOSE_NO = 111, TRANSPOSE_YES = 112 };

typedef enum status sgemm_fn(enum layout, enum transpose, enum transpose, size_t, size_t, size_t, float, cl_mem, size_t,
                             size_t, cl_mem, size_t, size_t, float, cl_mem, size_t, size_t, cl_command_queue *,
                             cl_event *);

/* Computes outputs from .. from + count - 1 of one piece of the weight. */
static void some_outputs(struct kvc_opencl *opencl, const struct kvc_linear *args, uint32_t piece, uint64_t from,
                         uint64_t count, struct kvc_buffer *workspace) {
    const struct kvc_weight *w = args->w;
    struct kvc_launch dequantize = kvc_launch_of(KVC_KERNEL_dequantize);
    const size_t K = (size_t)w->inputs, N = (size_t)w->outputs;
    enum status code;
    sgemm_fn *sgemm;
    memcpy(&sgemm, &opencl->sgemm, sizeof sgemm); /* ISO C has no cast from an object pointer to a function pointer */
    KVC_ASSERT(piece < w->pieces && from + count <= w->piece_rows);
    KVC_PUSH(&dequantize, ((struct kvc_span){workspace, 0}), w->piece[piece], w->row_bytes, w->type, w->inputs, from,
             count);
    kvc_launch_items(&opencl->offload, &dequantize, count * kvc_offload_runs(&opencl->offload, K), 1, 1);
    if (opencl->offload.lost)
        return;
    code = sgemm(ROW_MAJOR, TRANSPOSE_NO, TRANSPOSE_YES, args->rows, (size_t)count, K, 1.0f, args->x.buffer->handle,
                 args->x.offset / 4, K, workspace->handle, 0, K, 0.0f, args->y.buffer->handle,
                 args->y.offset / 4 + (size_t)(piece * w->piece_rows + from), N, &opencl->queue, NULL);
    if (code != SUCCESS)
        kvc_offload_failed(&opencl->offload, KVC_RESOURCE, "CLBlast failed (error %d); --math exact does not need it",
                           (int)code);
}

static void fast_linear(struct kvc_device *device, const struct kvc_linear *args) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
    struct kvc_opencl *opencl = (struct kvc_opencl *)device;
    uint64_t at_once = FAST_BYTES / 4 / w->inputs;
    struct kvc_buffer *workspace;
    at_once = at_once < 1 ? 1 : at_once > w->outputs ? w->outputs : at_once;
    if (rows < FAST_ROWS) {
        kvc_offload_linear(device, args);
        return;
    }
    workspace = kvc_offload_workspace(&opencl->offload, at_once * w->inputs * 4);
    for (uint32_t piece = 0; workspace && piece < w->pieces; piece++) {
        uint64_t first = piece * w->piece_rows;
        uint64_t count = kvc_min_u64(w->outputs - first, w->piece_rows);
        for (uint64_t from = 0; from < count; from += at_once)
            some_outputs(opencl, args, piece, from, kvc_min_u64(count - from, at_once), workspace);
    }
    if (args->bias.buffer) {
        struct kvc_launch add = kvc_launch_of(KVC_KERNEL_add_bias);
        KVC_PUSH(&add, args->y, args->bias, w->outputs, rows * w->outputs);
        kvc_launch_items(&opencl->offload, &add, rows * w->outputs, 1, 1);
    }
}

enum kvc_status kvc_opencl_fill_fast(struct kvc_opencl *opencl, struct kvc_error *error) {
    char why[200] = "it has no CLBlastSgemm";
    void *library = kvc_library_open(KVC_LIBRARY_CLBLAST, why, sizeof why);
    if (!library || !kvc_library_find(library, "CLBlastSgemm", &opencl->sgemm))
        return kvc_fail(error, KVC_RESOURCE, "math=fast needs CLBlast (%s); use exact, the default", why);
    opencl->offload.table.linear = fast_linear;
    return KVC_OK;
}
