/* unused.c - refuses a folder with tensors that its config.json does not mention, because conversion would lose
 * them. */
#include <stdlib.h>

#include "models/config/names.h"
#include "models/convert/convert.h"
#include "models/files/safetensors.h"

static int by_address(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t) * (const void *const *)a, y = (uintptr_t) * (const void *const *)b;
    return (x > y) - (x < y);
}

enum kvc_status kvc_convert_unused(const struct kvc_safetensors *file, const struct kvc_config *config,
                                   const struct kvc_plan *plan, const char *from, struct kvc_error *error) {
    size_t most = 0, count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        most += (size_t)kvc_plan_parts(&plan->tensors[i]);
    }
    const struct kvc_file_tensor **used = malloc((most + 1) * sizeof *used);
    if (!used) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for its list of tensors", from);
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct kvc_planned_tensor *planned = &plan->tensors[i];
        for (uint32_t p = 0; p < kvc_plan_parts(planned); p++) {
            char name[128];
            kvc_plan_part(config, planned, p, name, sizeof name);
            used[count] = kvc_safetensors_text_tensor(file, name);
            count += used[count] != NULL;
        }
    }
    qsort(used, count, sizeof *used, by_address);
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; !status && i < kvc_safetensors_count(file); i++) {
        const struct kvc_file_tensor *tensor = kvc_safetensors_at(file, i);
        if (!bsearch(&tensor, used, count, sizeof *used, by_address) &&
            !kvc_tensor_ignored(tensor->name, false, config)) {
            status = kvc_fail(error, KVC_INPUT,
                              "%s: tensor %s does not belong in a %s model with this config.json: it would be lost",
                              from, tensor->name, config->family->hf);
        }
    }
    free(used);
    return status;
}
