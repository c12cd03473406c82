/* fuzz_config.c - input: a config.json. Tests the model's description, its rotary frequencies and the GGUF metadata
 * made from it. */
#include <math.h>

#include "models/config/plan.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_config config;
    struct kvc_rope rope;
    struct kvc_error error = {0};
    enum kvc_status status = kvc_config_from_json(memory_file(data, bytes), &config, &error);
    if (status) {
        check_refusal(status, NULL, &error);
        return 0;
    }
    check(config.layers > 0 && config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads == 0);
    if (kvc_rope_build(&config, false, &rope, &error) == KVC_OK) {
        for (uint32_t i = 0; i < rope.rotary / 2; i++) {
            check(isfinite(rope.frequency[i]) && rope.frequency[i] >= 0);
            check(!rope.long_frequency || (isfinite(rope.long_frequency[i]) && rope.long_frequency[i] >= 0));
        }
        check(isfinite(rope.attention_factor) && rope.attention_factor > 0);
        free(rope.frequency);
        free(rope.long_frequency);
    }
    struct kvc_plan plan;
    if (config.layers < 100 && kvc_plan_build(&config, KVC_Q8_0, &plan, &error) == KVC_OK) {
        struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
        check(writer != NULL);
        kvc_plan_metadata(&config, &plan, KVC_Q8_0, "name", writer, &error);
        for (size_t i = 0; i < plan.count; i++) {
            const struct kvc_planned_tensor *tensor = &plan.tensors[i];
            kvc_gguf_add_tensor(writer, tensor->name, tensor->type, tensor->dimensions, tensor->shape);
        }
        kvc_gguf_writer_abandon(writer);
        kvc_plan_free(&plan);
    }
    kvc_config_free(&config);
    return 0;
}
