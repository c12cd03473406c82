/* fingerprint.h - a hash that identifies a model. */
#ifndef KVC_MODELS_FINGERPRINT_H
#define KVC_MODELS_FINGERPRINT_H

#include "models/model.h"

/* Returns the fingerprint of an open model, an XXH64 hash. It covers the network's numbers, all metadata of a GGUF
 * file, the name, type and shape of each tensor, and 4096 bytes at the beginning, middle and end of each tensor. For
 * FP8 weights, these samples come from the first half of the bytes. Scales in a second tensor are left out. Models with
 * different weights have different fingerprints, unless they differ only in bytes between the samples. */
uint64_t kvc_model_fingerprint(struct kvc_model *model);

/* The items that the fingerprint consists of: the network's numbers, each key of a GGUF file, each tensor.
 * kvc_fingerprint_item returns the hash of one item. kvc_fingerprint_item_name writes its name, and returns the tensor
 * or NULL. */
size_t kvc_fingerprint_items(const struct kvc_model *model);
uint64_t kvc_fingerprint_item(const struct kvc_model *model, size_t i);
const struct kvc_file_tensor *kvc_fingerprint_item_name(const struct kvc_model *model, size_t i, char *text,
                                                        size_t size);

#endif
