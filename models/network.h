/* network.h - loads a network's tensors onto a device, whatever file they lie in. libc only. */
#ifndef KVC_MODELS_NETWORK_H
#define KVC_MODELS_NETWORK_H

#include "models/config/config.h"

/* The tensors of an opened file, or of several. */
struct kvc_tensors {
    const void *file;
    size_t count;
    const struct kvc_file_tensor *(*at)(const void *file, size_t i);
    const struct kvc_file_tensor *(*find)(const void *file, const char *name); /* NULL: none */
};

/* Loads every tensor that config asks for; one that is missing, has another shape or is not asked for is an error.
 * Matrices stay in the file's mapping, norms and biases are widened to float32. gguf: names and rotary order of GGUF.
 * On failure nothing is left to free. */
enum kvc_status kvc_network_load(struct kvc_engine *engine, const struct kvc_config *config, bool gguf,
                                 const struct kvc_tensors *tensors, const char *where, struct kvc_network *network,
                                 struct kvc_model_info *info, struct kvc_error *error);

/* Copies text that need not end in a NUL; control bytes become '?'. NULL: no memory. */
char *kvc_copy_text(const char *text, size_t bytes);

#endif
