/* model.h - an open model: its network on the device, its tokenizer, its mapped files. */
#ifndef KVC_MODELS_MODEL_H
#define KVC_MODELS_MODEL_H

#include "core/engine/engine.h"
#include "core/engine/linear.h"
#include "core/engine/network.h"
#include "models/files/safetensors.h"
#include "models/tokenizer/tokenizer.h"

struct kvc_runner; /* core/engine/runner.h: created by the first session, freed with the model */

struct kvc_model {
    struct kvc_engine *engine;
    struct kvc_network network;
    struct kvc_model_info info;      /* path, name and weight_types are allocated */
    char *architecture;              /* owned by info if the model was opened for its text only; else NULL */
    struct kvc_tokenizer *tokenizer; /* NULL: the file has none, which is an error only when text is needed */
    struct kvc_gguf *gguf;           /* one of gguf and safetensors is NULL */
    struct kvc_safetensors *safetensors;
    struct kvc_runner *runner;
    struct kvc_packed_bytes packed; /* with KVC_MATH_INT16: memory of this process's weights */
    bool let_go;                    /* kvc_map_let_go was called for the files */
    bool told;                      /* the other ranks have opened the model, too */
    _Atomic(uint64_t) fingerprint;  /* 0: not computed yet; any thread may compute it (models/fingerprint.h) */
};

/* The tensors of the model's files (models/fingerprint.c). */
size_t kvc_model_tensors(const struct kvc_model *model);
const struct kvc_file_tensor *kvc_model_tensor(const struct kvc_model *model, size_t i);

/* Frees the strings of an info that one of the two functions below filled. */
void kvc_model_info_free(struct kvc_model_info *info);

/* Fill the network from an open GGUF file (libc only) or a Hugging Face folder (jansson). */
enum kvc_status kvc_network_from_gguf(struct kvc_engine *engine, const struct kvc_gguf *file, const char *path,
                                      struct kvc_network *network, struct kvc_model_info *info,
                                      struct kvc_error *error);
enum kvc_status kvc_network_from_folder(struct kvc_engine *engine, struct kvc_safetensors *file, const char *folder,
                                        struct kvc_network *network, struct kvc_model_info *info,
                                        struct kvc_error *error);

#endif
