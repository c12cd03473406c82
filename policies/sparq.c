/* sparq.c - reads the entries with the highest approximate scores, computed from the query's largest channels, and
 * replaces the values of the others by a mean (docs/reference/methods/sparq.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <string.h>

static const struct kvc_option options[] = {
    {"budget", KVC_OPTION_BUDGET, "", 1, KVC_BUDGET_MOST, NULL,
     "memory traffic of a step per KV head, in entries: sets topk = budget / 2 and dims = d budget / n unless they are "
     "given; without a budget, give both"},
    {"dims", KVC_OPTION_INT, "", 1, 1 << 20, NULL, "channels of the keys that estimate the scores"},
    {"topk", KVC_OPTION_INT, "", 1, KVC_BUDGET_MOST, NULL, "entries read"},
    {"local", KVC_OPTION_INT, "0", 0, KVC_BUDGET_MOST, NULL, "newest entries that are always read"},
    {"mean_value", KVC_OPTION_CHOICE, "on", 0, 0, "on|off",
     "the mean of all values replaces the entries that are not read, with their estimated probability"},
    {"keys", KVC_OPTION_CHOICE, "twice", 0, 0, "twice|once",
     "store the keys a second time, by channel, so that a few channels can be read alone; once saves that memory, but "
     "reading a few channels then touches nearly all of the keys"},
    KVC_OPTIONS_END};

static enum kvc_status sparq_check(const struct kvc_values *values, struct kvc_error *error) {
    static const char *const names[] = {"dims", "topk"};
    const bool budget = kvc_value_given(values, "budget");
    enum kvc_status status = KVC_OK;
    for (int i = 0; i < 2 && status == KVC_OK; i++)
        if (!budget && !kvc_value_given(values, names[i]))
            status =
                kvc_fail(error, KVC_USAGE,
                         "policy sparq: %s= is missing: give budget=, or dims= and topk=, each at least 1", names[i]);
    if (status != KVC_OK || kvc_value_is_share(values, "budget"))
        return status;
    const int64_t topk =
        kvc_value_given(values, "topk") ? kvc_value_int(values, "topk") : (kvc_value_int(values, "budget") + 1) / 2;
    const int64_t local = kvc_value_int(values, "local");
    if (budget && topk > kvc_value_int(values, "budget"))
        return kvc_fail(error, KVC_USAGE, "policy sparq: topk=%lld: must be 1 to budget=%lld", (long long)topk,
                        (long long)kvc_value_int(values, "budget"));
    if (local > topk)
        return kvc_fail(error, KVC_USAGE, "policy sparq: local=%lld: must be 0 to topk, which is %lld",
                        (long long)local, (long long)topk);
    return KVC_OK;
}

static struct kvc_select sizes_for(const struct kvc_values *values, const struct kvc_stage_info *info) {
    const uint64_t n = info->entries, topk = (uint64_t)kvc_value_int(values, "topk");
    const uint64_t budget = kvc_value_given(values, "budget") ? kvc_reads(values, info->held).budget : topk;
    uint64_t dims = (uint64_t)kvc_value_int(values, "dims");
    if (dims == 0) {
        dims = n ? (2 * info->head_size * budget + n) / (2 * n) : 1;
        dims = kvc_min_u64(kvc_max_u64(dims, 1), info->head_size);
    }
    struct kvc_select select = {.kind = KVC_SELECT_CHANNELS,
                                .page = strcmp(kvc_value_text(values, "keys"), "twice") ? 0 : 1,
                                .dims = (uint32_t)dims,
                                .budget = budget,
                                .top = topk ? topk : kvc_half(budget),
                                .local = (uint64_t)kvc_value_int(values, "local"),
                                .mean_value = !strcmp(kvc_value_text(values, "mean_value"), "on")};
    select.local = kvc_min_u64(select.local, select.top);
    return select;
}

const struct kvc_policy_class kvc_policy_sparq = {
    .name = "sparq",
    .summary = "reads the entries that score highest in the query's strongest channels",
    .paper = "SparQ Attention, arXiv:2312.04985",
    .idea = "A few channels of the query carry most of its length. The scores of all keys in these channels alone "
            "estimate which entries matter; these entries are read in full. The mean of all values replaces the "
            "entries that are not read, with their estimated probability. Nothing is evicted.",
    .formula = "i1 = top dims channels by the group's sum of |q|; s1 = q[i1] . k[i1] / sqrt(d sum|q[i1]| / sum|q|); "
               "read = top topk by the group's sum of softmax(s1); output = alpha y + (1 - alpha) mean(V), alpha being "
               "the estimated probability of the entries read and of the head's attention sink",
    .memory = "n entries after n tokens, and with keys=twice n more keys (float32 for Q8_0); d floats per KV head",
    .traffic = "n times dims values, and topk entries, per generated token (with keys=once the memory traffic is "
               "closer to n keys)",
    .differences = "Each KV head has one choice of channels and entries, from its group's sums of probabilities; the "
                   "authors' code sums scores. The newest entries are always read only if `local` is given.",
    .second_turn = "The new prompt attends to the whole history. A budget given as a share is computed again from its "
                   "length.",
    .channels = true,
    .stages = KVC_STAGE_SELECT,
    .options = options,
    .check = sparq_check,
    .check_model = kvc_check_dims,
    .sizes = sizes_for};
