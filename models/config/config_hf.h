/* config_hf.h - what the readers of a Hugging Face config.json share. */
#ifndef KVC_MODELS_CONFIG_CONFIG_HF_H
#define KVC_MODELS_CONFIG_CONFIG_HF_H

#include "models/config/config.h"
#include "models/files/json.h"

struct kvc_hf_source {
    const char *path;
    /* top: of the file; root: of the language model, which lies in text_config where the model reads images too; rope:
     * rope_scaling or rope_parameters, NULL where neither is an object */
    const json_t *top, *root, *rope;
    struct kvc_error *error;
};

static inline const json_t *kvc_hf_get(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static inline enum kvc_status kvc_hf_unsupported(const struct kvc_hf_source *in, const char *key, const char *what) {
    return kvc_fail(in->error, KVC_INPUT, "%s: %s%s%s: a model that uses this is not supported", in->path, key,
                    what ? " is " : "", what ? what : "");
}

/* Keys that change the computation in a way this engine does not have. 0, false, null and empty say nothing. */
enum kvc_status kvc_hf_refuse(const struct kvc_hf_source *in, const struct kvc_family *family);
/* The activation must be the family's. */
enum kvc_status kvc_hf_check_activation(const struct kvc_hf_source *in, const struct kvc_family *family);

#endif
