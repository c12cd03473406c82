/* network_info.h - what a network says of itself once its tensors are loaded. */
#ifndef KVC_MODELS_NETWORK_INFO_H
#define KVC_MODELS_NETWORK_INFO_H

#include "models/config/config.h"

/* The tensors that a network is made of. */
struct kvc_loaded {
    const struct kvc_file_tensor **used; /* [used_count], each once */
    size_t used_count;
    uint64_t expert_parameters, expert_bytes; /* of all experts of all layers */
};

/* Fills info but for path and name, which the caller has; it is freed by kvc_model_info_free. False: no memory, and
 * there is nothing to free. */
bool kvc_network_info(const struct kvc_loaded *loaded, const struct kvc_config *config, bool gguf,
                      const struct kvc_network *network, struct kvc_model_info *info);

#endif
