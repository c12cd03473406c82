/* network.h - loads a network's tensors onto a device from any kind of file. libc only. */
#ifndef KVC_MODELS_NETWORK_H
#define KVC_MODELS_NETWORK_H

#include "models/config/config.h"

/* The tensors of one or several open files. */
struct kvc_tensors {
    const void *file;
    size_t count;
    const struct kvc_file_tensor *(*at)(const void *file, size_t i);
    const struct kvc_file_tensor *(*find)(const void *file, const char *name); /* NULL: none */
};

/* Loads every tensor that config requires. A missing tensor, an unused one and one with a different shape are errors.
 * Matrices remain in the file's mapping; norms and biases are converted to float32. If `gguf` is true, uses the names
 * and rotary order of GGUF. On failure nothing is left to free. */
enum kvc_status kvc_network_load(struct kvc_engine *engine, const struct kvc_config *config, bool gguf,
                                 const struct kvc_tensors *tensors, const char *where, struct kvc_network *network,
                                 struct kvc_model_info *info, struct kvc_error *error);

/* Copies text that need not be NUL-terminated and replaces control bytes by '?'. Returns NULL if out of memory. */
char *kvc_copy_text(const char *text, size_t bytes);

#endif
