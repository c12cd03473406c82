/* kvzap.c - keeps the entries whose scores, which a small network predicts from hidden states, are highest
 * (docs/reference/methods/kvzap.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    {"file", KVC_OPTION_TEXT, NULL, 0, 0, "drawn",
     "networks of the model: a safetensors file, or the folder with its model.safetensors; drawn: random networks "
     "instead of a file, to try the method on any model"},
    KVC_NEWEST_OPTION,
    KVC_OPTIONS_END};

static const char *kvzap_predictor(const struct kvc_values *values) { return kvc_value_text(values, "file"); }

static uint32_t kvzap_columns(const struct kvc_values *values) {
    (void)values;
    return 1;
}

static enum kvc_status kvzap_observe(struct kvc_stage *stage, const struct kvc_values *values,
                                     struct kvc_error *error) {
    (void)values;
    return kvc_stage_predict(stage, 0, error);
}

static enum kvc_status kvzap_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores;
    if (info->entries <= kvc_budget(values, info->held, (uint64_t)kvc_value_int(values, "recent")))
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, 0, 1, scores, error);
    return status == KVC_OK ? kvc_keep_newest(stage, values, scores, error) : status;
}

const struct kvc_policy_class kvc_policy_kvzap = {
    .name = "kvzap",
    .summary = "keeps the entries whose scores a small network predicts to be highest",
    .paper = "KVzap, arXiv:2601.07891",
    .idea =
        "kvzip scores an entry by the attention that it gets while the model repeats the text, which costs a second "
        "prefill. A network that was trained to predict these scores needs only the hidden state of the entry's "
        "token. It is small beside the layer, and it works in decode steps, too.",
    .formula = "score_j: the output of the layer's network for the KV head and the hidden state x_j that enters the "
               "attention, after the input norm: W x_j + b, or W gelu(V x_j + a) + b (`file`); kept = top B; with "
               "recent=R the last R tokens, and the top of the others",
    .memory = "B entries (B + 1 within a decode step), each with its score in float32; the networks, as large as the "
              "file",
    .traffic = "B + 1 entries per generated token, and the layer's network",
    .differences =
        "The paper keeps the entries of the newest 128 tokens, and of the others those with a score above a threshold, "
        "which is dms:scorer=kvzap; a budget is kvpress's press by itself. The networks are those that the authors "
        "publish for some models, such as nvidia/KVzap-mlp-Qwen3-8B, or others with the same names of tensors. "
        "kvcull does not train them. The method was compared with kvpress on random networks, not on these. A replay "
        "has no hidden states and is refused.",
    .second_turn = "The B entries of highest score among old and new entries are kept; scores do not change.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .predictor = kvzap_predictor,
    .columns = kvzap_columns,
    .forecast = &kvc_newest_forecast,
    .attended = kvzap_observe,
    .observe_step = kvzap_observe,
    .prompt = kvzap_evict,
    .decode = kvzap_evict};
