/* quest.c - reads the pages of entries whose scores have the highest upper bounds (docs/reference/methods/quest.md). */
#include "policies/policies.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION(
        "memory traffic of a step per KV head, in entries: half for the bounds, half for the entries read"),
    {"page", KVC_OPTION_TEXT, "16", 0, 0, NULL,
     "entries of a page; auto: the prompt's length / budget, so that bounds cost half of the budget"},
    {"p", KVC_OPTION_REAL, "", 0.001, 1, NULL,
     "read only as many of these pages as have this share of all estimated weights; default: all of them"},
    KVC_PER_HEAD_OPTION("one choice of pages per KV head, or one per query head, which multiplies the cache by G"),
    KVC_OPTIONS_END};

#define PAGE_MOST (1 << 20)

/* Returns the page size, 0 for "auto", or -1 for an invalid value. */
static int64_t page_of(const struct kvc_values *values) {
    const char *text = kvc_value_text(values, "page");
    const size_t digits = strspn(text, "0123456789");
    if (!strcmp(text, "auto"))
        return 0;
    const long page = digits > 0 && digits <= 8 && !text[digits] ? strtol(text, NULL, 10) : -1;
    return page >= 1 && page <= PAGE_MOST ? page : -1;
}

static enum kvc_status quest_check(const struct kvc_values *values, struct kvc_error *error) {
    if (page_of(values) >= 0)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy quest: page=%.60s: must be auto, or a whole number from 1 to %d",
                    kvc_value_text(values, "page"), PAGE_MOST);
}

static struct kvc_select sizes_for(const struct kvc_values *values, const struct kvc_stage_info *info) {
    const struct kvc_reads reads = kvc_reads(values, info->held);
    const uint64_t budget = reads.budget;
    uint64_t page = (uint64_t)page_of(values);
    if (page == 0)
        page = (2 * reads.seen + budget) / (2 * budget);
    page = kvc_min_u64(kvc_max_u64(page, 1), PAGE_MOST);
    return (struct kvc_select){.kind = KVC_SELECT_PAGE_BOUND,
                               .page = (uint32_t)page,
                               .budget = budget,
                               .share = kvc_value_real(values, "p"),
                               .top = kvc_max_u64(budget / (2 * page), 1)};
}

const struct kvc_policy_class kvc_policy_quest = {
    .name = "quest",
    .summary = "reads the pages whose keys may score highest",
    .paper = "Quest, arXiv:2406.10774",
    .idea = "Neighbouring entries form pages. For every page, the smallest and the largest value of each channel of "
            "its keys are stored. They give an upper bound of the score that any key of the page can have with the "
            "query. So the method finds the pages that are worth reading without reading their keys. Nothing is "
            "evicted.",
    .formula = "bound of a page = sum over the channels of max(q max, q min), summed over the group's heads; read = "
               "the top floor(B / (2 page)) pages, at least one; with p: of these, from the highest on, the fewest "
               "that have the share p of the sum over all pages of W times the page's entries, W = exp((bound - the "
               "largest bound) / (G sqrt(d))), in 2^-24ths rounded down; with per=head G is 1",
    .memory = "n entries after n tokens, and ceil(n / page) pairs of d values of the cache's type (float32 for Q8_0); "
              "with per=head G times that",
    .traffic = "at most ceil(n / page) times 2 d values (d if a group's heads agree on every sign), and the entries of "
               "the top pages (with p maybe fewer), per generated token",
    .differences = "Each KV head has one choice, from the sum of its group's bounds; per=head chooses per query head, "
                   "as the authors' code does. The budget counts the bounds as well. The method also acts on the first "
                   "two layers (skip_layers=2 leaves them full, as the authors' code does). The share p, after "
                   "Twilight (arXiv:2502.02770), is not in the paper.",
    .second_turn =
        "The new prompt attends to the whole history. A budget given as a share, and page=auto, are computed again "
        "from its length.",
    .channels = true,
    .stages = KVC_STAGE_SELECT,
    .options = options,
    .check = quest_check,
    .per_head = kvc_per_head,
    .sizes = sizes_for};
