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

/* Reads a key that is true or false. A missing key leaves *flag as it is. */
static inline enum kvc_status kvc_hf_read_flag(const struct kvc_hf_source *in, const char *key, bool *flag) {
    const json_t *value = kvc_hf_get(in->root, key);
    if (value && !json_is_boolean(value)) {
        return kvc_fail(in->error, KVC_INPUT, "%s: %s is not true or false", in->path, key);
    }
    *flag = value ? json_is_true(value) : *flag;
    return KVC_OK;
}

/* Refuses keys that change the computation in an unsupported way. The values 0, false, null and empty are accepted. */
enum kvc_status kvc_hf_refuse(const struct kvc_hf_source *in, const struct kvc_family *family);
/* Checks that the activation is the family's. */
enum kvc_status kvc_hf_check_activation(const struct kvc_hf_source *in, const struct kvc_family *family);
/* Finds which layers have a window or a recurrent state, which do not rotate, and which have no experts. */
enum kvc_status kvc_hf_read_layers(const struct kvc_hf_source *in, struct kvc_config *config);

#endif
