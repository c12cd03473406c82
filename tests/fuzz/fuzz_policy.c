/* fuzz_policy.c - input: eight bytes of geometry and lengths, then a policy string. Tests the estimates. */
#include "tests/fuzz/memory_file.h"

/* A number from 1 to `most`; small ones are more frequent. */
static uint32_t of_byte(uint8_t byte, uint32_t most) {
    const uint32_t value = byte < 192 ? byte / 8u + 1 : (byte - 191u) * (most / 64u + 1);
    return value < most ? value : most;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct kvc_engine *engine;
    struct kvc_error error = {0};
    if (bytes < 8 || memchr(data + 8, 0, bytes - 8))
        return 0;
    if (!engine) {
        const struct kvc_engine_options options = {.backend = "ref", .threads = 1};
        check(kvc_engine_open(&options, &engine, &error) == KVC_OK);
    }
    const uint32_t kv_heads = of_byte(data[1], 64);
    const struct kvc_geometry geometry = {of_byte(data[0], 200), kv_heads * of_byte(data[2], 16), kv_heads,
                                          of_byte(data[3], 256)};
    const enum kvc_type type = (enum kvc_type[]){KVC_F16, KVC_F32, KVC_Q8_0}[data[4] % 3];
    const uint64_t prompt = of_byte(data[5], INT32_MAX), generated = of_byte(data[6], INT32_MAX) - 1;
    struct kvc_estimate estimate;
    struct kvc_formula formula;
    char *spec = strndup((const char *)data + 8, bytes - 8);
    check(spec != NULL);
    const enum kvc_status valid = kvc_policy_check(engine, spec, &error);
    check(valid == KVC_OK || (error.text[0] && !strchr(error.text, '\n') && error.status == valid));
    const enum kvc_status estimated =
        kvc_estimate(engine, spec, &geometry, 64, kvc_entry_types(type), prompt, generated, &estimate, &error);
    check(estimated == KVC_OK || (error.text[0] && !strchr(error.text, '\n') && error.status == estimated));
    if (estimated == KVC_OK) {
        check(valid == KVC_OK && estimate.peak_bytes >= estimate.cache_bytes &&
              estimate.peak_bytes >= estimate.prompt_peak_bytes && estimate.entries <= prompt + generated);
        check(kvc_formula(engine, spec, &geometry, kvc_entry_types(type), prompt, 1, &formula, &error) == KVC_OK);
        check(formula.entries >= 0 && formula.read_bytes >= formula.select_bytes);
    }
    free(spec);
    return 0;
}
