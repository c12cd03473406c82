/* tensor_file.h - safetensors files with tensors of several plain types. For float32 alone, see kvcull.h. */
#ifndef KVC_MODELS_FILES_TENSOR_FILE_H
#define KVC_MODELS_FILES_TENSOR_FILE_H

#include "kvcull.h"

/* Like kvc_tensor_writer_open. types [count]: F32, F16 or BF16; NULL: all F32. Tensors of wider types come first in the
 * file, so that each is aligned for its type. */
enum kvc_status kvc_typed_writer_open(const char *path, const struct kvc_tensor *tensors, const enum kvc_type *types,
                                      size_t count, struct kvc_tensor_writer **writer, struct kvc_error *error);
/* Writes the next bytes of tensor i. */
enum kvc_status kvc_tensor_write_bytes(struct kvc_tensor_writer *writer, size_t i, const void *data, size_t bytes,
                                       struct kvc_error *error);

#endif
