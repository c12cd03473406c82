/* estimate.c - the bytes a policy will need, from its classes' bounds alone: "will it fit", before loading. */
#include "core/cache.h"
#include "core/policy.h"

/* Entries of a head of one layer `steps` decode steps after the prompt left `kept`. */
static uint64_t entries_after(const struct kvc_policy *policy, uint32_t layer, uint64_t prompt, uint64_t kept,
                              uint64_t steps) {
    const struct kvc_method *then = kvc_policy_holder(policy, KVC_STAGE_DECODE);
    if (then && steps && kvc_method_acts(then, layer) && then->policy->bound) {
        const uint64_t bound = then->policy->bound(&then->values, prompt, steps);
        return kept + steps < bound ? kept + steps : bound;
    }
    return kept + steps;
}

/* Rows that a method adds behind the prompt and stores for a while. */
static uint64_t pseudo_rows(const struct kvc_policy *policy, uint64_t prompt) {
    const struct kvc_method *method = kvc_policy_holder(policy, KVC_STAGE_PROMPT);
    const struct kvc_turn turn = {NULL, prompt, prompt, 0, NULL};
    uint32_t offset;
    return method && method->policy->pseudo ? method->policy->pseudo(&method->values, &turn, &offset, NULL) : 0;
}

/* Slots of the blocks that so many entries take. */
static uint64_t slots(uint64_t entries) { return (entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE; }

static uint64_t state_bytes(uint64_t slot_count, uint32_t columns, bool ordered) {
    return slot_count * ((ordered ? 8ull : 0) + 4ull * columns);
}

/* Most entries of a head while chunks pass: a chunk, and what was kept before it. */
static uint64_t chunk_rows(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *geometry,
                           const struct kvc_entry_format *format, uint64_t prompt, uint64_t chunk) {
    const struct kvc_method_place at = kvc_policy_place(policy, KVC_STAGE_CHUNK, layer, geometry, format);
    uint64_t kept = prompt;
    if (at.method && at.method->policy->between)
        kept = at.method->policy->between(&at.method->values, &at.place, prompt);
    else if (at.method && at.method->policy->bound)
        kept = at.method->policy->bound(&at.method->values, prompt, 0);
    return prompt < chunk || prompt - chunk < kept ? prompt : chunk + kept;
}

/* Sums below must fit 64 bits, whatever geometry and lengths a caller has in mind. */
static enum kvc_status check(const struct kvc_geometry *g, uint32_t hidden, enum kvc_type cache_type, uint64_t prompt,
                             uint64_t generated, struct kvc_error *error) {
    if (cache_type != KVC_F32 && cache_type != KVC_F16 && cache_type != KVC_Q8_0)
        return kvc_fail(error, KVC_USAGE, "estimate: a cache of %s: must be f32, f16 or q8_0",
                        kvc_type_name(cache_type));
    if (prompt > INT32_MAX || generated > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "estimate: %llu + %llu tokens: must be at most %d each",
                        (unsigned long long)prompt, (unsigned long long)generated, INT32_MAX);
    const double entry = 2 * 4.0 * g->head_size + 8 + 4.0 * KVC_COLUMNS_MOST; /* bytes, of any type */
    const double heads = (double)g->layers * g->kv_heads, tokens = (double)(prompt + generated + 2 * KVC_TILE);
    if (heads * tokens * entry * 4 > 0x1p63 || (double)prompt * hidden * 4 > 0x1p63)
        return kvc_fail(error, KVC_USAGE,
                        "estimate: %llu tokens of %u layers with %u KV heads of size %u: more bytes than 2^63",
                        (unsigned long long)(prompt + generated), g->layers, g->kv_heads, g->head_size);
    return KVC_OK;
}

enum kvc_status kvc_estimate(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                             uint32_t hidden, enum kvc_type cache_type, uint64_t prompt, uint64_t generated,
                             struct kvc_estimate *estimate, struct kvc_error *error) {
    struct kvc_policy *policy;
    enum kvc_status status = check(geometry, hidden, cache_type, prompt, generated, error);
    if (status == KVC_OK)
        status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    status = kvc_policy_check_model(policy, geometry, error);
    if (status != KVC_OK) {
        kvc_policy_free(policy);
        return status;
    }
    const struct kvc_entry_format format = {cache_type, geometry->head_size,
                                            kvc_entry_row_bytes(cache_type, geometry->head_size)};
    uint64_t held = 0, largest_state = 0; /* held: by the layers the prefill has left behind */
    struct kvc_chunking chunking;
    const bool chunked = kvc_policy_chunking(policy, &chunking) && chunking.chunk < prompt;
    const uint64_t rows = chunked ? chunking.chunk + (uint64_t)chunking.probe : prompt;
    *estimate = (struct kvc_estimate){.hidden_bytes = rows * hidden * sizeof(float)};
    for (uint32_t l = 0; l < geometry->layers; l++) {
        const uint64_t heads = kvc_policy_heads(policy, l, geometry);
        const uint32_t columns = kvc_policy_columns(policy, l), surplus = kvc_policy_surplus(policy, l);
        const uint64_t kept = (uint64_t)(kvc_policy_kept(policy, l, geometry, &format, prompt) + 0.999);
        const uint64_t entries = entries_after(policy, l, prompt, kept, generated);
        const bool evicts = kept < prompt, ordered = entries < prompt + generated;
        const uint64_t after = evicts && kept + surplus < prompt ? kept + surplus : prompt; /* room after the prompt */
        const uint64_t most = entries > after ? entries : after;
        const uint64_t rows_in = chunked ? chunk_rows(policy, l, geometry, &format, prompt, chunking.chunk)
                                         : prompt + pseudo_rows(policy, prompt);
        const uint64_t full =
            kvc_cache_head_bytes(&format, rows_in) * heads + state_bytes(slots(rows_in), columns, evicts) * heads;
        const uint64_t after_state = state_bytes(slots(after), columns, evicts) * heads;
        const uint64_t state = state_bytes(slots(most), columns, ordered) * heads;
        /* while a layer shrinks or grows, its old and new lists exist side by side */
        const uint64_t peak = held + full + (evicts ? after_state : 0);
        if (peak > estimate->peak_bytes)
            estimate->peak_bytes = peak;
        /* chunk by chunk all layers are full until the last one has passed */
        held += chunked ? full : kvc_cache_head_bytes(&format, after) * heads + after_state;
        estimate->cache_bytes += kvc_cache_head_bytes(&format, most) * heads;
        estimate->state_bytes += state;
        if (state > largest_state)
            largest_state = state;
        if (entries > estimate->entries)
            estimate->entries = entries;
    }
    const uint64_t peak = estimate->cache_bytes + estimate->state_bytes + (generated ? largest_state : 0);
    if (peak > estimate->peak_bytes)
        estimate->peak_bytes = peak;
    kvc_policy_free(policy);
    return KVC_OK;
}
