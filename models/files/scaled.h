/* scaled.h - tensors of Hugging Face folders that are stored as 8-bit or 4-bit numbers with scales in a second tensor:
 * FP8 (F8_E4M3 with X_scale_inv) and MXFP4 (X_blocks with X_scales).
 *
 * Such a pair becomes one tensor of type FP8 or MXFP4, or F32 if the length of FP8 rows is not a multiple of 128. Its
 * data is made on demand. The same holds for the parts of a tensor that interleaves two matrices by output
 * (split_experts.c). */
#ifndef KVC_MODELS_FILES_SCALED_H
#define KVC_MODELS_FILES_SCALED_H

#include "models/files/safetensors_file.h"

enum {
    KVC_MXFP4_BYTES = 16, /* bytes of a block's 32 numbers */
    KVC_FP8_BLOCK = 128   /* rows and columns that share a scale; also elements in a block of type FP8 */
};

struct kvc_scaled {
    const unsigned char *raw, *scales; /* in the file, perhaps unaligned */
    enum kvc_type scale_type;          /* type of FP8 scales */
    uint64_t block_rows, block_cols, grid_cols;
    uint32_t parts, part; /* outputs in this tensor: `part`, `part + parts`, ... (MXFP4 and transposed tensors) */
    bool transposed;      /* plain numbers without scales, stored as [inputs, outputs] */
    void *made;
};

/* Returns scale i of F32, F16 or BF16 scales. */
float kvc_scale_at(const unsigned char *scales, enum kvc_type type, uint64_t i);

/* Finds the pairs in an indexed file and replaces each pair by one tensor. */
enum kvc_status kvc_scaled_pair(struct kvc_safetensors *file, const char *path, struct kvc_error *error);
void kvc_scaled_free(struct kvc_scaled *scaled); /* NULL is allowed */
/* Rebuilds the index of names. */
enum kvc_status kvc_safetensors_name(struct kvc_safetensors *file, const char *path, struct kvc_error *error);

/* Makes the data of a scaled tensor. Does nothing for other tensors or if the data already exists. */
enum kvc_status kvc_tensor_make(const struct kvc_file_tensor *tensor, const char *path, struct kvc_error *error);
const void *kvc_tensor_data(const struct kvc_file_tensor *tensor); /* any tensor's data; call kvc_tensor_make first */
void kvc_tensor_drop(const struct kvc_file_tensor *tensor);        /* frees data that was made */

#endif
