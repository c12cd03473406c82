/* rkv.c - every n decode steps, keeps the entries that the last queries attended to and whose keys are not similar to
 * other keys (docs/reference/methods/rkv.md). */
#include "policies/policies.h"

#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, window included"),
    {"window", KVC_OPTION_INT, "8", 1, 4096, NULL,
     "newest tokens; their queries vote, and their entries are always kept"},
    KVC_EVERY_OPTION("128"),
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    {"lambda", KVC_OPTION_REAL, "0.07", 0, 1, NULL,
     "weight of the importance; the redundancy has the weight 1 - "
     "lambda"},
    {"threshold", KVC_OPTION_REAL, "0.5", -1, 1, NULL, "keys with a cosine above it repeat each other"},
    {"scores", KVC_OPTION_CHOICE, "weights", 0, 0, "weights|logits",
     "computes the importance from attention probabilities, or from a softmax over the entries older than the window"},
    KVC_OPTIONS_END};

static enum kvc_row_kind rkv_kind(const struct kvc_values *values) {
    return strcmp(kvc_value_text(values, "scores"), "logits") ? KVC_ROW_PROBABILITIES : KVC_ROW_LOGITS;
}

/* Writes the rows of the prompt's last queries. The scores use them until `window` decode steps have
 * overwritten them. */
static enum kvc_status rkv_observe(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return kvc_every_observe(stage, values, rkv_kind(values), error);
}

static enum kvc_status rkv_decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t group = info->heads / info->kv_heads;
    const uint32_t rows = kvc_ring_filled(info, kvc_window_queries(values));
    struct kvc_scores *scores;
    enum kvc_status status = kvc_every_scores(stage, values, rkv_kind(values), &scores, error);
    if (status != KVC_OK || !scores)
        return status;
    status = kvc_stage_mix_redundancy(stage, (float)kvc_value_real(values, "threshold"),
                                      (float)kvc_value_real(values, "lambda"),
                                      (float)(rkv_kind(values) == KVC_ROW_LOGITS ? rows : rows * group), scores, error);
    return status == KVC_OK ? kvc_every_keep(stage, values, scores, error) : status;
}

const struct kvc_policy_class kvc_policy_rkv = {
    .name = "rkv",
    .summary = "at intervals in decode, keeps entries that recent queries attended to and whose keys are not repeated",
    .paper = "R-KV, arXiv:2505.24133",
    .idea = "A long chain of thought repeats itself, and its repetitions attend to each other, so attention alone "
            "would keep them all. Every `every` decode steps, an entry's score is the attention that the last queries "
            "gave it, minus the similarity of its key to others. Of several similar entries, few are kept. For each "
            "entry, the similarity to the newest entry that resembles it does not count, so the newest repetition is "
            "kept.",
    .formula =
        "in the n-th, 2n-th, ... decode step (n = every): I_j = pool(mean over the last w queries i and the group's "
        "heads of a_ij), over all but the last w entries; with scores=logits a softmax over these entries of the "
        "group's summed s_ij replaces a_ij; c_ij = cosine of k_i and k_j, 0 for i = j; z_i = the highest j with c_ij > "
        "threshold, or 0 if there is none; m_j = mean over i of c_ij, where c_ij counts 0 if j = z_i; score_j = lambda "
        "I_j - (1 - lambda) softmax over all entries of m; kept = top B - w, and the last w",
    .memory = "B entries after an eviction, up to every - 1 more before the next, and w float32 per entry and KV head "
              "for the rows of the last queries",
    .traffic =
        "B + (every + 1) / 2 entries per generated token on average; each eviction compares all keys with all keys",
    .differences =
        "Another method must choose among the prompt's entries; the authors' code also evicts once after the prompt. A "
        "group's probabilities are averaged; that code takes the largest logit of the group before the softmax (for G "
        "= 1, scores=logits is its formula). The stored rows hold the probabilities of the time of the query; that "
        "code computes them again at the eviction, over the entries held then. A key of length 0 is similar to no "
        "other; that code adds 1e-8 to lengths.",
    .second_turn = "The turn's prompt evicts nothing, and its last queries vote as those of the first turn do. Steps "
                   "count from its end.",
    .whole_keys = true,
    .stages = KVC_STAGE_DECODE,
    .options = options,
    .trial = "window=8,every=4",
    .check = kvc_check_window,
    .queries = kvc_window_queries,
    .columns = kvc_window_queries,
    .surplus = kvc_every,
    .compares_keys = true,
    .forecast = &kvc_every_forecast,
    .observe_prompt = rkv_observe,
    .decode = rkv_decode};
