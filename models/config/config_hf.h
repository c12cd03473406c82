/* config_hf.h - shared by the readers of a Hugging Face config.json. */
#ifndef KVC_MODELS_CONFIG_CONFIG_HF_H
#define KVC_MODELS_CONFIG_CONFIG_HF_H

#include "models/config/config.h"
#include "models/files/json.h"

struct kvc_hf_source {
    const char *path;
    /* `top` is the file's object. `root` is the language model's object, which is in text_config if the model also
     * reads images. `rope` is rope_scaling or rope_parameters, or NULL if neither is an object. */
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

/* Refuses keys that change the computation in an unsupported way. The values 0, false, null and empty are accepted. */
enum kvc_status kvc_hf_refuse(const struct kvc_hf_source *in, const struct kvc_family *family);
/* Checks that the activation is the family's. */
enum kvc_status kvc_hf_check_activation(const struct kvc_hf_source *in, const struct kvc_family *family);

#endif
