/* tensor_file.h - safetensors files whose tensors are of several plain types; of float32 alone: kvcull.h. */
#ifndef KVC_MODELS_FILES_TENSOR_FILE_H
#define KVC_MODELS_FILES_TENSOR_FILE_H

#include "kvcull.h"

/* As kvc_tensor_writer_open. types [count]: F32, F16 or BF16; NULL: all F32. Wider ones come first in the file, so that
 * each lies where its type can be read. */
enum kvc_status kvc_typed_writer_open(const char *path, const struct kvc_tensor *tensors, const enum kvc_type *types,
                                      size_t count, struct kvc_tensor_writer **writer, struct kvc_error *error);
/* The next bytes of tensor i. */
enum kvc_status kvc_tensor_write_bytes(struct kvc_tensor_writer *writer, size_t i, const void *data, size_t bytes,
                                       struct kvc_error *error);

#endif
