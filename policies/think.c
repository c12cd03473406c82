/* think.c - sets those channels of a prompt's keys to 0 that contribute least to its last queries' scores
 * (docs/reference/methods/think.md). */
#include "policies/policies.h"

#include <math.h>

static const struct kvc_option options[] = {
    {"ratio", KVC_OPTION_REAL, "0.4", 0, 1, NULL, "share of a head's channels that become 0"},
    {"channels", KVC_OPTION_INT, "", 1, 1 << 16, NULL, "number of channels that become 0, instead of a ratio"},
    {"window", KVC_OPTION_INT, "32", 1, 1 << 20, NULL, "queries at the prompt's end that score the channels"},
    {"recent", KVC_OPTION_INT, "32", 0, KVC_BUDGET_MOST, NULL,
     "tokens at the prompt's end whose keys stay whole; 0: none, as in kvpress"},
    KVC_OPTIONS_END};

static uint32_t window(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "window"); }

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    (void)acts;
    const int64_t channels = kvc_value_int(values, "channels");
    if (channels <= (int64_t)geometry->head_size)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: channels=%lld: must be 1 to %u, the model's head size",
                    (long long)channels, geometry->head_size);
}

static enum kvc_status think_prompt_end(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const double share = kvc_value_real(values, "ratio") * kvc_stage_info(stage)->head_size;
    const uint32_t channels = kvc_value_given(values, "channels") ? (uint32_t)kvc_value_int(values, "channels")
                                                                  : (uint32_t)floor(share + 0.5);
    return kvc_stage_prune_channels(stage, window(values), (uint32_t)kvc_value_int(values, "recent"), channels, error);
}

const struct kvc_policy_class kvc_policy_think = {
    .name = "think",
    .summary = "sets channels of the prompt's keys to 0, those that its last queries need least",
    .paper = "ThinK, arXiv:2407.21018",
    .idea =
        "A few channels of the keys make up most of every score, so after the prompt each KV head sets the others to "
        "0. Rows of keys have one length here, so this frees no byte and saves no traffic: the method exists to "
        "measure what a thinner key cache would cost in quality. The paper's layout stores only the remaining "
        "channels. It would save N b bytes for each pruned key, with N lost channels of b bytes each: 20 % of the "
        "pruned entries' bytes with ratio=0.4 and f16. Channels are lost, not entries, so the method joins any other,"
        " as in snapkv:budget=512+think. It then acts on the entries that the other's prompt stage keeps.",
    .formula =
        "s_c = (sum of q_ic^2 over the last `window` prompt queries i and the group's heads) * (sum of k_jc^2 over the "
        "held entries j of the turn's tokens); the N channels c with the lowest s_c are lost, N = d * ratio (rule 10) "
        "or `channels`; k_jc = 0 for these c and every j that is not among the turn's last `recent` tokens",
    .memory = "no entry and no state; the lost channels keep their place",
    .traffic = "that of the other method; once per prompt, another read of its keys",
    .differences =
        "The paper and its code score and prune for each query head, with copies of the keys; here and in kvpress a "
        "group shares its channels. The paper keeps floor((1 - ratio) d) channels; its code and kvpress prune "
        "floor(ratio d), one less than here for some d (`channels` sets the number). kvpress prunes the last tokens, "
        "too (recent=0). Keys of the answer are never pruned, as in all of them. The paper's pruning of values is not"
        " provided. Of 40 questions about texts of 2,000 tokens, the bundled model answers a share of 0.90 with full,"
        " of 0.88 with ratio=0.4 and of 0.82 with ratio=0.6 (docs/measured/needle.md).",
    .second_turn =
        "The keys of the new prompt lose the channels that its own queries need least. Keys of earlier turns do not "
        "change: pruned ones stay pruned, and those of answers and of earlier `recent` tokens stay whole.",
    .options = options,
    .channels = true,
    .zeroes = true,
    .check_model = check_model,
    .queries = window,
    .prompt_end = think_prompt_end};
