/* fingerprint.h - what tells a model from another. */
#ifndef KVC_MODELS_FINGERPRINT_H
#define KVC_MODELS_FINGERPRINT_H

#include "models/model.h"

/* Of an opened model: XXH64 of all metadata of a GGUF file, of the numbers that a folder's configuration became, of
 * names, types and shapes of all tensors, and of 4096 bytes at the beginning, in the middle and at the end of each (of
 * numbers of eight bits, of their first half; scales beside them are left out). A model of other weights has another;
 * one that somebody changed in between on purpose has not. */
uint64_t kvc_model_fingerprint(struct kvc_model *model);

#endif
