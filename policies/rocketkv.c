/* rocketkv.c - uses `snapkv` after the prompt and `hsa` in decode steps, with one budget for both. rocketkv-mt is the
 * variant for several turns (docs/reference/methods/rocketkv.md). */
#include "policies/policies.h"

#include "core/base/assert.h"
#include "core/base/budget_split.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION(
        "memory traffic of a step per KV head, in entries: half for the estimate, half for the entries read"),
    KVC_WINDOW_OPTION("32", 1 << 20),
    KVC_KERNEL_OPTION("63"),
    KVC_POOLING_OPTION("max"),
    {"split", KVC_OPTION_TEXT, "auto", 0, 0, NULL,
     "the prompt stage's share r of the compression, as an exponent from 0 to 1; auto: follows from the compression"},
    KVC_OPTIONS_END};

/* Returns the split (0 to 1), -1 for "auto", or -2 for an invalid value. */
static double split_of(const struct kvc_values *values) {
    const char *text = kvc_value_text(values, "split");
    double split;
    if (!strcmp(text, "auto"))
        return -1;
    return kvc_decimal(text, strlen(text), &split) && split >= 0 && split <= 1 ? split : -2;
}

static enum kvc_status rocketkv_check(const struct kvc_values *values, struct kvc_error *error) {
    const enum kvc_status status = kvc_check_kernel(values, error);
    uint64_t total;
    if (status == KVC_OK && kvc_value_split(values, "budget", 1, &total))
        return kvc_fail(error, KVC_USAGE, "policy: budget=%.60s: must be a number or a share; the method splits it",
                        kvc_value_text(values, "budget"));
    if (status != KVC_OK || split_of(values) > -2)
        return status;
    return kvc_fail(error, KVC_USAGE, "policy: split=%.60s: must be auto, or a number from 0 to 1",
                    kvc_value_text(values, "split"));
}

static struct kvc_budget_split sizes_of(const struct kvc_values *values, uint64_t held, uint32_t window) {
    return kvc_budget_split(held, kvc_budget(values, held, 0), window + 1ull, split_of(values));
}

static uint64_t rocketkv_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return sizes_of(values, prompt, kvc_window_queries(values)).kept + steps;
}

/* Stage 1: keeps the window and the older entries with the highest scores. Evicts the other entries or, if `view` is
 * true, hides them from stage 2. */
static enum kvc_status filter(struct kvc_stage *stage, const struct kvc_values *values, bool view,
                              struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint32_t window = kvc_window_rows(values, info);
    const uint64_t kept = sizes_of(values, info->held, window).kept;
    if (info->entries <= kept)
        return KVC_OK;
    struct kvc_scores *scores;
    const enum kvc_status status = kvc_window_scores(stage, values, window, &scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = kvc_window_rule(kept, window, scores);
    return view ? kvc_stage_view(stage, &keep, error) : kvc_stage_keep(stage, &keep, error);
}

/* Returns the number of entries that stage 2 sees after the prompt. */
static uint64_t rocketkv_seen(const struct kvc_values *values, uint64_t prompt) {
    return kvc_min_u64(sizes_of(values, prompt, kvc_window_queries(values)).kept, prompt);
}

static enum kvc_status rocketkv_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    return filter(stage, values, false, error);
}

static enum kvc_status prompt_view(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    return filter(stage, values, true, error);
}

static struct kvc_select sizes_for(const struct kvc_values *values, const struct kvc_stage_info *info) {
    const struct kvc_budget_split sizes = sizes_of(values, info->held, kvc_window_queries(values));
    const struct kvc_hsa_sizes hsa = kvc_hsa_sizes(sizes.c2, info->head_size);
    KVC_ASSERT(hsa.dims >= 1 && hsa.dims <= info->head_size && hsa.page >= 1);
    const uint64_t t = kvc_budget(values, info->held, 0);
    const struct kvc_select select = {
        .kind = KVC_SELECT_PAGE_CHANNELS, .page = hsa.page, .dims = hsa.dims, .budget = t, .top = kvc_half(t)};
    return select;
}

#define FORMULA                                                                                                        \
    "c = S / t (at least 1), r = min(0.2 + 0.06 log2 c, 0.8); stage 1 keeps max(w + 1, floor(S / c^r)) entries by "    \
    "snapkv's score; stage 2 is hsa with c2 = c^(1-r) and topk = t / 2"

const struct kvc_policy_class kvc_policy_rocketkv = {
    .name = "rocketkv",
    .summary = "snapkv in the prompt, then hsa in decode; the compression is divided between them",
    .paper = "RocketKV, arXiv:2502.14051",
    .idea = "A method that evicts many entries loses some that later queries need. A method that chooses what to read "
            "misses some entries if its estimate uses little data. Each works well at a modest compression, so a large "
            "compression is divided between the two. The prompt is thinned coarsely, with a wide pooling, and decode "
            "chooses among the remaining entries. The higher the compression, the larger the share of the first stage.",
    .formula = FORMULA,
    .memory = "S / c^r entries after the prompt, one more per generated token, and a pair of d values per page of them",
    .traffic = "about t entries per generated token: half of it values of pages, half entries",
    .differences = "c2 comes from the exact ratio; the authors' code uses the rounded-down size of stage 1 and sets "
                   "aside space for the answer. Other methods can take the place of snapkv and hsa (sections 3.2 and "
                   "3.4 of the paper): join them with a split budget (rule 7 of docs/reference/methods.md), as in "
                   "adakv:budget=split:512,kernel=63+quest:budget=split:512,page=auto. With snapkv and hsa the result "
                   "is this method, except after a turn of fewer than w tokens.",
    .second_turn = "S is the number of entries held, including the new prompt. c, r and the sizes of both stages are "
                   "computed again, and the first stage thins old and new entries together.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_SELECT,
    .options = options,
    .check = rocketkv_check,
    .queries = kvc_window_queries,
    .forecast = &(const struct kvc_forecast){.bound = rocketkv_bound},
    .prompt = rocketkv_prompt,
    .sizes = sizes_for};

const struct kvc_policy_class kvc_policy_rocketkv_mt = {
    .name = "rocketkv-mt",
    .summary = "rocketkv that evicts nothing, for several turns",
    .paper = "RocketKV-MT, arXiv:2502.14051",
    .idea = "The next question may need entries that this turn's question does not. So the first stage evicts nothing. "
            "Instead it limits the entries from which decode may choose in this turn; entries that the turn generates "
            "are added. The next prompt attends to the whole history and filters it again.",
    .formula = FORMULA
    "; both stages leave every entry in the cache, and each turn's prompt attends to all of it; entries that a "
    "joined decode method evicts leave the filtered list, too",
    .memory = "n entries after n tokens, an index per filtered entry, and a pair of d values per page of the filtered "
              "entries",
    .traffic = "about t entries per generated token: half of it values of pages, half entries",
    .differences = "As rocketkv.",
    .second_turn = "S is the whole history. The previous turn's filter is dropped, the new prompt attends to every "
                   "entry, and its last queries filter all of them again.",
    .channels = true,
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_SELECT,
    .options = options,
    .check = rocketkv_check,
    .queries = kvc_window_queries,
    .forecast = &(const struct kvc_forecast){.seen = rocketkv_seen},
    .prompt = prompt_view,
    .sizes = sizes_for};
