/* fingerprint.h - what tells a model from another. */
#ifndef KVC_MODELS_FINGERPRINT_H
#define KVC_MODELS_FINGERPRINT_H

#include "models/model.h"

/* Of an opened model: XXH64 of all metadata of a GGUF file, of the numbers that a folder's configuration became, of
 * names, types and shapes of all tensors, and of 4096 bytes at the beginning, in the middle and at the end of each (of
 * numbers of eight bits, of their first half; scales beside them are left out). A model of other weights has another;
 * one that somebody changed in between on purpose has not. */
uint64_t kvc_model_fingerprint(struct kvc_model *model);

/* What it is made of, one after another: the network's numbers, each key of a GGUF file, each tensor. The hash of one
 * of them alone; and what it is called: returns the tensor that it is, or NULL. */
size_t kvc_fingerprint_items(const struct kvc_model *model);
uint64_t kvc_fingerprint_item(const struct kvc_model *model, size_t i);
const struct kvc_file_tensor *kvc_fingerprint_item_name(const struct kvc_model *model, size_t i, char *text,
                                                        size_t size);

#endif
