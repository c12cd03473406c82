/* scaled.h - tensors of Hugging Face folders that come as numbers of 8 or 4 bits and, in a second tensor, scales: FP8
 * (F8_E4M3 with X_scale_inv) and MXFP4 (X_blocks with X_scales).
 *
 * Such a pair is one tensor, of type FP8, MXFP4 or, where rows of FP8 are no multiple of 128, F32. Its data is made
 * when it is wanted. So are the parts of a tensor that holds two matrices, output by output (split_experts.c). */
#ifndef KVC_MODELS_FILES_SCALED_H
#define KVC_MODELS_FILES_SCALED_H

#include "models/files/safetensors_file.h"

enum {
    KVC_MXFP4_BYTES = 16, /* of the 32 numbers of a block */
    KVC_FP8_BLOCK = 128   /* rows and columns that share a scale; elements of a block of type FP8 */
};

struct kvc_scaled {
    const unsigned char *raw, *scales; /* where they lie in the file, aligned or not */
    enum kvc_type scale_type;          /* of FP8 */
    uint64_t block_rows, block_cols, grid_cols;
    uint32_t parts, part; /* of MXFP4 and of what is turned: outputs part, part + parts and so on */
    bool turned;          /* plain numbers, inputs by outputs in the file; there are no scales */
    void *made;
};

/* Scale i of F32, F16 or BF16 scales. */
float kvc_scale_at(const unsigned char *scales, enum kvc_type type, uint64_t i);

/* Finds the pairs of a file with an index and puts the one tensor in the place of the two. */
enum kvc_status kvc_scaled_pair(struct kvc_safetensors *file, const char *path, struct kvc_error *error);
void kvc_scaled_free(struct kvc_scaled *scaled); /* NULL: nothing */
/* The index over the names, anew. */
enum kvc_status kvc_safetensors_name(struct kvc_safetensors *file, const char *path, struct kvc_error *error);

/* Makes the data of a tensor that is scaled; of others, and the second time, it does nothing. */
enum kvc_status kvc_tensor_make(const struct kvc_file_tensor *tensor, const char *path, struct kvc_error *error);
const void *kvc_tensor_data(const struct kvc_file_tensor *tensor); /* of any tensor; made before */
void kvc_tensor_drop(const struct kvc_file_tensor *tensor);        /* what was made, if anything */

#endif
