/* stacked.c - writes experts as gpt-oss folders store them. Gate and up are one tensor, in which their outputs
 * alternate, and matrices are [inputs, outputs]. models/files/split_experts.c reads them. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "models/convert/convert.h"
#include "models/convert/quantize.h"
#include "models/files/scaled.h"
#include "models/files/tensor_file.h"

enum { BLOCK = 64 }; /* outputs that are transposed together, so that cache lines are used fully */

struct stack {
    const struct kvc_file_tensor *const *parts; /* [count], each [experts, N, K], or [experts, N] */
    size_t count, N, K, expert;
    enum kvc_type type;
    float *rows;          /* [threads][BLOCK][K] */
    float *transposed;    /* one expert's transposed matrices, [K, N, count] */
    unsigned char *bytes; /* `transposed`, converted to `type` */
    atomic_bool failed;
};

static size_t outputs_of(const struct kvc_file_tensor *tensor) {
    return (size_t)tensor->shape[tensor->dimensions == 3 ? 1 : tensor->dimensions - 1];
}

/* Dequantizes and transposes one block of outputs, number i, of every part. */
static void transpose_block(void *argument, size_t i, unsigned thread) {
    const struct stack *in = argument;
    const size_t first = i * BLOCK, here = kvc_min_u64(BLOCK, in->N - first);
    KVC_ASSERT(first < in->N);
    float *rows = in->rows + (size_t)thread * BLOCK * in->K;
    for (size_t p = 0; p < in->count; p++) {
        const size_t row_bytes = kvc_type_row_bytes(in->parts[p]->type, in->K);
        const unsigned char *from =
            (const unsigned char *)kvc_tensor_data(in->parts[p]) + (in->expert * in->N + first) * row_bytes;
        for (size_t n = 0; n < here; n++)
            kvc_dequantize_row(in->parts[p]->type, from + n * row_bytes, in->K, rows + n * in->K);
        for (size_t k = 0; k < in->K; k++)
            for (size_t n = 0; n < here; n++)
                in->transposed[(k * in->N + first + n) * in->count + p] = rows[n * in->K + k];
    }
}

/* Converts the values of one input to the folder's type. */
static void narrow_row(void *argument, size_t k, unsigned thread) {
    struct stack *in = argument;
    const size_t length = in->N * in->count;
    (void)thread;
    if (!kvc_quantize_row(in->type, in->transposed + k * length, length,
                          in->bytes + k * kvc_type_row_bytes(in->type, length)))
        atomic_store(&in->failed, true);
}

static enum kvc_status write_experts(struct kvc_converter *converter, struct stack *in, size_t index,
                                     struct kvc_error *error) {
    const size_t experts = (size_t)in->parts[0]->shape[0];
    const size_t bytes = in->K * kvc_type_row_bytes(in->type, in->N * in->count);
    enum kvc_status status = KVC_OK;
    for (in->expert = 0; in->expert < experts && !status; in->expert++) {
        kvc_threads_run(converter->threads, (in->N + BLOCK - 1) / BLOCK, transpose_block, in);
        kvc_threads_run(converter->threads, in->K, narrow_row, in);
        status = atomic_load(&in->failed)
                     ? kvc_fail(error, KVC_INPUT,
                                "%s: tensor %s holds a value that is not finite or too large for %s; "
                                "bf16 and f32 have the widest range",
                                converter->from, in->parts[0]->name, kvc_type_name(in->type))
                     : kvc_tensor_write_bytes(converter->tensors, index, in->bytes, bytes, error);
    }
    return status;
}

enum kvc_status kvc_convert_stacked(struct kvc_converter *converter, const struct kvc_file_tensor *const *parts,
                                    size_t count, enum kvc_type type, size_t index, struct kvc_error *error) {
    struct stack in = {.parts = parts, .count = count, .type = type, .N = outputs_of(parts[0])};
    in.K = parts[0]->dimensions == 3 ? (size_t)parts[0]->shape[2] : 1;
    const size_t numbers = in.N * in.K * count;
    enum kvc_status status = KVC_OK;
    for (size_t p = 0; p < count && !status; p++) {
        status = kvc_type_row_bytes(parts[p]->type, in.K) == 0
                     ? kvc_fail(error, KVC_INPUT, "%s: tensor %s is of type %s; a bias must be f32, f16 or bf16",
                                converter->from, parts[p]->name, kvc_type_name(parts[p]->type))
                     : kvc_tensor_make(parts[p], converter->from, error);
    }
    in.rows = malloc(kvc_threads_count(converter->threads) * BLOCK * in.K * sizeof *in.rows);
    in.transposed = malloc(numbers * sizeof *in.transposed);
    in.bytes = malloc(in.K * kvc_type_row_bytes(type, in.N * count));
    if (!status && !(in.rows && in.transposed && in.bytes))
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory for an expert of %zu numbers", converter->from, numbers);
    if (!status)
        status = write_experts(converter, &in, index, error);
    free(in.rows);
    free(in.transposed);
    free(in.bytes);
    for (size_t p = 0; p < count; p++)
        kvc_tensor_drop(parts[p]);
    return status;
}
