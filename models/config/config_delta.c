/* config_delta.c - the sizes of gated delta nets, and the layers that are delta nets. libc only. */
#include <inttypes.h>
#include <stdlib.h>

#include "models/config/config.h"

enum { KEY_HEADS = 16, HEADS = 32, SIZE = 128, TAPS = 4 }; /* defaults of transformers */

/* Fills in sizes that config.json may omit; in GGUF files they are required. */
static enum kvc_status complete_sizes(struct kvc_config *config, bool gguf, const char *where,
                                      struct kvc_error *error) {
    uint64_t *sizes[] = {&config->delta.key_heads, &config->delta.heads, &config->delta.key_size, &config->delta.taps};
    static const uint64_t usual[] = {KEY_HEADS, HEADS, SIZE, TAPS};
    static const char *const keys[] = {"ssm.group_count", "ssm.time_step_rank", "ssm.state_size", "ssm.conv_kernel"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (*sizes[i] == 0 && gguf) {
            return kvc_fail(error, KVC_INPUT, "%s: %s.%s is missing", where, config->family->gguf, keys[i]);
        }
        *sizes[i] = *sizes[i] ? *sizes[i] : usual[i];
    }
    if (!gguf) {
        config->delta.value_size = config->delta.value_size ? config->delta.value_size : (uint64_t)SIZE;
        config->delta.inner = config->delta.value_size * config->delta.heads;
        return KVC_OK;
    }
    if (config->delta.inner == 0 || config->delta.inner % config->delta.heads != 0) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: %s.ssm.inner_size is %" PRIu64 ", it must be a multiple of ssm.time_step_rank, %" PRIu64,
                        where, config->family->gguf, config->delta.inner, config->delta.heads);
    }
    config->delta.value_size = config->delta.inner / config->delta.heads;
    return KVC_OK;
}

enum kvc_status kvc_config_delta(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error) {
    const enum kvc_status status = complete_sizes(config, gguf, where, error);
    if (status) {
        return status;
    }
    if (config->delta.heads % config->delta.key_heads != 0) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ", it must be a multiple of %s, which is %" PRIu64,
                        where, gguf ? "ssm.time_step_rank" : "linear_num_value_heads", config->delta.heads,
                        gguf ? "ssm.group_count" : "linear_num_key_heads", config->delta.key_heads);
    }
    if (config->delta.every == 0) {
        config->delta.every = config->family->attention_every;
    }
    config->recurrent = malloc((size_t)config->layers);
    if (!config->recurrent) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", where, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->recurrent[i] = (i + 1) % config->delta.every != 0;
    }
    return gguf ? kvc_config_delta_check(config, where, error) : KVC_OK;
}

enum kvc_status kvc_config_delta_check(const struct kvc_config *config, const char *where, struct kvc_error *error) {
    if (config->recurrent && config->recurrent[config->layers - 1]) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: the last of %" PRIu64 " layers is a gated delta net: such a model is not supported, the "
                        "last layer must have attention",
                        where, config->layers);
    }
    return KVC_OK;
}

enum kvc_status kvc_config_convertible(const struct kvc_config *config, const char *where, struct kvc_error *error) {
    if (!kvc_config_knows(config, KVC_DELTA)) {
        return KVC_OK;
    }
    return kvc_fail(error, KVC_INPUT, "%s: %s models cannot be converted: their gated delta nets cannot be written",
                    where, config->family->gguf);
}
