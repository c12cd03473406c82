/* scaled.c - computes the data of tensors that are stored as FP8 or MXFP4 numbers with separate scales. libc only. */
#include "models/files/scaled.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/base/weight_blocks.h"

/* ---- values ---- */

float kvc_scale_at(const unsigned char *scales, enum kvc_type type, uint64_t i) {
    float scale;
    if (type != KVC_F32) {
        const kvc_u16 half = KVC_LOAD_U16(scales + 2 * i);
        return type == KVC_F16 ? kvc_f16_to_f32(half) : kvc_bf16_to_f32(half);
    }
    memcpy(&scale, scales + 4 * i, sizeof scale);
    return scale;
}

/* Converts a row of FP8 to float32: number times scale of its block, one float32 product. */
static void dequantize_fp8_row(const struct kvc_scaled *scaled, uint64_t row, uint64_t cols, float *to) {
    const unsigned char *from = scaled->raw + row * cols;
    const uint64_t first = row / scaled->block_rows * scaled->grid_cols;
    for (uint64_t k = 0; k < cols; k++) {
        to[k] =
            kvc_e4m3_to_f32(from[k]) * kvc_scale_at(scaled->scales, scaled->scale_type, first + k / scaled->block_cols);
    }
}

/* Packs a row of FP8 into blocks of 128 with their scales. The values are the same; they are computed when the weights
 * are used. */
static void lay_fp8_row(const struct kvc_scaled *scaled, uint64_t row, uint64_t cols, struct kvc_block_fp8 *to) {
    const unsigned char *from = scaled->raw + row * cols;
    const uint64_t first = row / scaled->block_rows * scaled->grid_cols;
    for (uint64_t k = 0; k < cols; k += sizeof to->q, to++) {
        const float scale = kvc_scale_at(scaled->scales, scaled->scale_type, first + k / scaled->block_cols);
        const kvc_u32 bits = kvc_bits(scale);
        for (unsigned i = 0; i < sizeof to->scale; i++)
            to->scale[i] = (kvc_u8)(bits >> (8 * i) & 255);
        memcpy(to->q, from + k, sizeof to->q);
    }
}

/* Reorders a block for GGUF. In GGUF, byte i holds elements i and i + 16. In the file, byte i holds elements 2i and 2i
 * + 1, low half first. */
static void lay_block(const unsigned char *from, unsigned char power, unsigned char *to) {
    to[0] = power;
    for (int i = 0; i < KVC_MXFP4_BYTES; i++) {
        const unsigned shift = (unsigned)i % 2 * 4;
        const unsigned low = (unsigned)from[i / 2] >> shift & 15u, high = (unsigned)from[8 + i / 2] >> shift & 15u;
        to[1 + i] = (unsigned char)(low | high << 4);
    }
}

enum { TILE = 64 }; /* rows and columns that are transposed together, so that cache lines are used fully */

/* Transposes [E, K, parts N] to [E, N, K], taking outputs `part`, `part + parts` and so on. */
static void transpose_stack(const struct kvc_file_tensor *tensor, unsigned char *to) {
    const struct kvc_scaled *scaled = tensor->scaled;
    const size_t element = kvc_type_row_bytes(tensor->type, 1), parts = scaled->parts;
    const size_t E = (size_t)tensor->shape[0], N = (size_t)tensor->shape[1];
    const size_t K = tensor->dimensions == 3 ? (size_t)tensor->shape[2] : 1;
    for (size_t e = 0; e < E; e++)
        for (size_t n0 = 0; n0 < N; n0 += TILE)
            for (size_t k0 = 0; k0 < K; k0 += TILE)
                for (size_t n = n0; n < N && n < n0 + TILE; n++)
                    for (size_t k = k0; k < K && k < k0 + TILE; k++)
                        memcpy(to + ((e * N + n) * K + k) * element,
                               scaled->raw + ((e * K + k) * parts * N + parts * n + scaled->part) * element, element);
}

enum kvc_status kvc_tensor_make(const struct kvc_file_tensor *tensor, const char *path, struct kvc_error *error) {
    struct kvc_scaled *scaled = tensor->scaled;
    if (!scaled || scaled->made) {
        return KVC_OK;
    }
    unsigned char *to = scaled->made = malloc((size_t)tensor->bytes);
    if (!to) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for the %" PRIu64 " bytes of tensor %s as %s", path,
                        tensor->bytes, tensor->name, kvc_type_name(tensor->type));
    }
    if (scaled->transposed) {
        transpose_stack(tensor, to);
    } else if (tensor->type == KVC_MXFP4) {
        const uint64_t bytes = sizeof(struct kvc_block_mxfp4), blocks = tensor->cols / 32;
        for (uint64_t i = 0; i < tensor->bytes / bytes; i++) {
            const uint64_t from = (i / blocks * scaled->parts + scaled->part) * blocks + i % blocks;
            lay_block(scaled->raw + from * KVC_MXFP4_BYTES, scaled->scales[from], to + i * bytes);
        }
    } else if (tensor->type == KVC_FP8) {
        for (uint64_t row = 0; row < tensor->rows; row++) {
            lay_fp8_row(scaled, row, tensor->cols,
                        (struct kvc_block_fp8 *)scaled->made + row * (tensor->cols / KVC_FP8_BLOCK));
        }
    } else {
        for (uint64_t row = 0; row < tensor->rows; row++) {
            dequantize_fp8_row(scaled, row, tensor->cols, (float *)scaled->made + row * tensor->cols);
        }
    }
    return KVC_OK;
}

const void *kvc_tensor_data(const struct kvc_file_tensor *tensor) {
    return tensor->scaled ? tensor->scaled->made : tensor->data;
}

void kvc_tensor_drop(const struct kvc_file_tensor *tensor) {
    if (tensor->scaled) {
        free(tensor->scaled->made);
        tensor->scaled->made = NULL;
    }
}

void kvc_scaled_free(struct kvc_scaled *scaled) {
    if (scaled) {
        free(scaled->made);
        free(scaled);
    }
}
