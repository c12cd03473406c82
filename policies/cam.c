/* cam.c - adds the value of an evicted entry, with some probability, to the values of the entries that follow
 * (docs/reference/methods/cam.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {
    {"span", KVC_OPTION_INT, "32", 1, 1 << 20, NULL, "number of kept entries among which a value is divided"},
    {"prompt", KVC_OPTION_CHOICE, "keep", 0, 0, "keep|merge",
     "merge: also merge the entries that are evicted while the prompt is read or after it"},
    {"seed", KVC_OPTION_INT, "-1", -1, 9007199254740992.0, NULL, "seed of the draws; -1: the session's"},
    KVC_OPTIONS_END};

static uint32_t cam_columns(const struct kvc_values *values) {
    (void)values;
    return 2; /* two columns: the sum over the current tile of queries, and the sum over all earlier tiles */
}

static enum kvc_status cam_observe(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    (void)values;
    return kvc_stage_accumulate(stage, 0, 0.0f, 0, error);
}

static enum kvc_status cam_evicts(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const int64_t seed = kvc_value_int(values, "seed");
    struct kvc_scores *scores;
    if (info->step == 0 && !strcmp(kvc_value_text(values, "prompt"), "keep"))
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, 0, 2, scores, error);
    return status == KVC_OK ? kvc_stage_merge_following(stage, (uint32_t)kvc_value_int(values, "span"),
                                                        seed < 0 ? info->seed : (uint64_t)seed, scores, error)
                            : status;
}

const struct kvc_policy_class kvc_policy_cam = {
    .name = "cam",
    .summary =
        "adds the value of an entry that another method evicts, with some probability, to the values that follow",
    .paper = "CaM, ICML 2024 (proceedings.mlr.press/v235/zhang24n.html)",
    .idea =
        "This method joins a method that evicts in decode steps, as in h2o:budget=512+cam. An entry adds its "
        "attention times its value to the output. To keep that contribution after the entry's eviction, its value is "
        "divided among the kept entries that follow. A random draw decides whether this happens. Its probability is "
        "the ratio of the evicted entry's attention to theirs, so that on average the output gets what the evicted "
        "entry would have added. Without another method nothing is evicted, so nothing is merged.",
    .formula =
        "A_j = sum over all queries i so far and the group's heads of a_ij; for each evicted entry r, before each "
        "eviction of a decode step (prompt=merge: before every eviction): m = the smaller of `span` and the number of "
        "kept entries after r; p = A_r / (mean of A over the m kept entries that follow r); u = the upper 24 bits, as "
        "a "
        "fraction, of the first word of Philox4x32-10 with counter (layer, list, position of r, 2) and key `seed`; "
        "r is merged if m > 0 and u < p: then v_r / m is added to each of these m values",
    .memory = "no entry beyond the other method's, and 2 float32 per entry and KV head for the sums",
    .traffic = "that of the other method, and the sums; an eviction also reads and writes `span` values",
    .differences =
        "The rule is that of kvpress's CAMPress, which extends the authors' code from one evicted entry in each step "
        "to several. If several entries are evicted at once, each may be merged here; kvpress merges only the best of "
        "them, as many as there were steps. A prompt's entries are not merged by default, as in kvpress. The sums here "
        "count every query from the text's first on, as in the authors' code for streams (commit fc80e64); kvpress "
        "counts those of decode steps only. In kvpress all heads of a layer keep the same entries; here the other "
        "method decides. As in both, values are added without normalization. The probabilities are the group's, "
        "because a group shares its values.",
    .second_turn = "The sums continue, as those of h2o do.",
    .options = options,
    .columns = cam_columns,
    .attended = cam_observe,
    .observe_step = cam_observe,
    .evicts = cam_evicts};
