/* tensor.c - converts rows of a tensor to another element type, with several threads. Rows are independent, so the
 * result does not depend on the number of threads. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "models/convert/convert.h"
#include "core/base/assert.h"
#include "models/convert/quantize.h"
#include "models/files/scaled.h"
#include "models/files/tensor_file.h"

enum { CHUNK = 1 << 24 }; /* approximate bytes of converted rows per write */

enum kvc_status kvc_converter_open(const char *from, struct kvc_converter *converter, struct kvc_error *error) {
    *converter = (struct kvc_converter){.from = from};
    enum kvc_status status = kvc_threads_open(0, &converter->threads, error);
    if (!status) {
        converter->writer = kvc_gguf_writer_new();
        if (!converter->writer) {
            status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", from);
            kvc_converter_close(converter);
        }
    }
    return status;
}

void kvc_converter_close(struct kvc_converter *converter) {
    kvc_gguf_writer_abandon(converter->writer);
    kvc_tensor_writer_abandon(converter->tensors);
    kvc_threads_close(converter->threads);
    free(converter->rows);
    free(converter->floats);
    *converter = (struct kvc_converter){0};
}

struct task { /* one chunk of rows */
    const struct kvc_file_tensor *tensor;
    uint64_t cols, first;
    size_t from_bytes, to_bytes; /* bytes of one row */
    enum kvc_type to;
    uint64_t head_rows, rotary; /* head_rows 0: keep the order of rows */
    bool back;                  /* reorder from interleaved to half-split */
    unsigned char *rows;
    float *floats;
    atomic_bool failed;
};

/* Returns the source of a target row. To interleave, rows 2i and 2i+1 come from rows i and i + rotary/2 of the head;
 * `back` does the reverse. */
static uint64_t source_row(const struct task *task, uint64_t row) {
    if (task->head_rows == 0) {
        return row;
    }
    uint64_t in_head = row % task->head_rows;
    if (in_head >= task->rotary) {
        return row;
    }
    const uint64_t half = task->rotary / 2;
    KVC_ASSERT(task->rotary % 2 == 0 && task->rotary <= task->head_rows);
    const uint64_t from =
        task->back ? in_head % half * 2 + in_head / half : in_head / 2 + in_head % 2 * half; /* within the head */
    return row - in_head + from;
}

static void convert_row(void *argument, size_t i, unsigned thread) {
    struct task *task = argument;
    const unsigned char *from =
        (const unsigned char *)kvc_tensor_data(task->tensor) + source_row(task, task->first + i) * task->from_bytes;
    unsigned char *to = task->rows + i * task->to_bytes;
    if (task->tensor->type == task->to) {
        memcpy(to, from, task->to_bytes);
        return;
    }
    float *values = task->floats + thread * (size_t)task->cols;
    kvc_dequantize_row(task->tensor->type, from, task->cols, values);
    if (!kvc_quantize_row(task->to, values, task->cols, to)) {
        atomic_store(&task->failed, true);
    }
}

static enum kvc_status make_capacity(struct kvc_converter *converter, size_t rows_bytes, uint64_t cols,
                                     struct kvc_error *error) {
    const size_t floats = (size_t)cols * kvc_threads_count(converter->threads);
    if (rows_bytes > converter->rows_capacity) {
        free(converter->rows);
        converter->rows = malloc(rows_bytes);
        converter->rows_capacity = converter->rows ? rows_bytes : 0;
    }
    if (floats > converter->floats_capacity) {
        free(converter->floats);
        converter->floats = floats <= SIZE_MAX / sizeof(float) ? malloc(floats * sizeof(float)) : NULL;
        converter->floats_capacity = converter->floats ? floats : 0;
    }
    return converter->rows && converter->floats
               ? KVC_OK
               : kvc_fail(error, KVC_RESOURCE, "%s: no memory for rows of %" PRIu64 " values", converter->from, cols);
}

enum kvc_status kvc_convert_tensor(struct kvc_converter *converter, const struct kvc_file_tensor *tensor,
                                   enum kvc_type to, uint64_t interleaved, uint64_t rotary, size_t index,
                                   struct kvc_error *error) {
    uint64_t rows = tensor->rows, cols = tensor->cols;
    if (interleaved && tensor->dimensions == 1) {
        rows = tensor->cols;
        cols = 1;
    }
    struct task task = {.tensor = tensor,
                        .cols = cols,
                        .from_bytes = kvc_type_row_bytes(tensor->type, cols),
                        .to_bytes = kvc_type_row_bytes(to, cols),
                        .to = to,
                        .head_rows = interleaved ? rows / interleaved : 0,
                        .rotary = rotary,
                        .back = converter->tensors != NULL};
    KVC_ASSERT(task.to_bytes > 0 && task.from_bytes > 0);
    const uint64_t at_once = task.to_bytes < CHUNK ? CHUNK / task.to_bytes : 1;
    enum kvc_status status =
        make_capacity(converter, (size_t)(at_once < rows ? at_once : rows) * task.to_bytes, cols, error);
    if (!status) {
        status = kvc_tensor_make(tensor, converter->from, error);
    }
    task.rows = converter->rows;
    task.floats = converter->floats;
    for (; !status && task.first < rows; task.first += at_once) {
        const uint64_t count = rows - task.first < at_once ? rows - task.first : at_once;
        kvc_threads_run(converter->threads, (size_t)count, convert_row, &task);
        if (atomic_load(&task.failed)) {
            return kvc_fail(error, KVC_INPUT,
                            "%s: tensor %s holds a value that is not finite or too large for %s; "
                            "bf16 and f32 have the widest range",
                            converter->from, tensor->name, kvc_type_name(to));
        }
        const size_t bytes = (size_t)count * task.to_bytes;
        KVC_ASSERT(bytes <= converter->rows_capacity);
        status = converter->tensors ? kvc_tensor_write_bytes(converter->tensors, index, converter->rows, bytes, error)
                                    : kvc_gguf_write(converter->writer, index, converter->rows, bytes, error);
    }
    kvc_tensor_drop(tensor);
    return status;
}
