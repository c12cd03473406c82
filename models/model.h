/* model.h - an opened model: its network on the device, its tokenizer, the files it maps. */
#ifndef KVC_MODELS_MODEL_H
#define KVC_MODELS_MODEL_H

#include "core/engine/engine.h"
#include "core/engine/network.h"
#include "models/files/safetensors.h"
#include "models/tokenizer/tokenizer.h"

struct kvc_runner; /* core/engine/runner.h: made by the first session, freed with the model */

struct kvc_model {
    struct kvc_engine *engine;
    struct kvc_network network;
    struct kvc_model_info info;      /* path, name and weight_types are malloc'ed */
    char *architecture;              /* info's, where the model was opened for its text alone; else NULL */
    struct kvc_tokenizer *tokenizer; /* NULL where the file has none: an error only when text is asked for */
    struct kvc_gguf *gguf;           /* one of the two */
    struct kvc_safetensors *safetensors;
    struct kvc_runner *runner;
    bool told;                     /* the other ranks have it, too */
    _Atomic(uint64_t) fingerprint; /* once it was asked for, by any thread: models/fingerprint.h; 0: it was not */
};

/* The tensors of its files (models/fingerprint.c). */
size_t kvc_model_tensors(const struct kvc_model *model);
const struct kvc_file_tensor *kvc_model_tensor(const struct kvc_model *model, size_t i);

/* Frees the strings of an info that one of these two filled. */
void kvc_model_info_free(struct kvc_model_info *info);

/* Fills the network from an open GGUF file (libc only) or a Hugging Face folder (jansson). */
enum kvc_status kvc_network_from_gguf(struct kvc_engine *engine, const struct kvc_gguf *file, const char *path,
                                      struct kvc_network *network, struct kvc_model_info *info,
                                      struct kvc_error *error);
enum kvc_status kvc_network_from_folder(struct kvc_engine *engine, struct kvc_safetensors *file, const char *folder,
                                        struct kvc_network *network, struct kvc_model_info *info,
                                        struct kvc_error *error);

#endif
