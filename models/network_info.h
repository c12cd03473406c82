/* network_info.h - fills in a model's info from its loaded tensors. */
#ifndef KVC_MODELS_NETWORK_INFO_H
#define KVC_MODELS_NETWORK_INFO_H

#include "models/config/config.h"

/* The tensors that make up a network. */
struct kvc_loaded {
    const struct kvc_file_tensor **used; /* [used_count], without duplicates */
    size_t used_count;
    uint64_t expert_parameters, expert_bytes; /* totals over all experts of all layers */
};

/* Fills info except for path and name. Free it with kvc_model_info_free. Returns false if out of memory; then nothing
 * is left to free. */
bool kvc_network_info(const struct kvc_loaded *loaded, const struct kvc_config *config, bool gguf,
                      const struct kvc_network *network, struct kvc_model_info *info);

#endif
