/* hsa.c - hybrid sparse attention: reads the pages of entries with the highest upper bounds for scores. It computes
 * these bounds from the query's largest channels (docs/reference/methods/hsa.md). */
#include "policies/policies.h"

#include <math.h>
#include <stdint.h>

static const struct kvc_option options[] = {
    {"budget", KVC_OPTION_BUDGET, "", 1, KVC_BUDGET_MOST, NULL,
     "memory traffic of a step per KV head, in entries: half for the estimate, half for the entries read; or give "
     "ratio, or page, dims and topk"},
    {"ratio", KVC_OPTION_REAL, "", 1, 1 << 20, NULL,
     "compression of the entries held after the prompt, instead of budget"},
    {"page", KVC_OPTION_INT, "", 1, 1 << 20, NULL, "entries of a page; needs dims and topk"},
    {"dims", KVC_OPTION_INT, "", 1, 1 << 20, NULL, "channels of the pages that estimate the scores"},
    {"topk", KVC_OPTION_INT, "", 1, KVC_BUDGET_MOST, NULL, "entries read"},
    {"p", KVC_OPTION_REAL, "", 0.001, 1, NULL,
     "read only as many of these entries as have this share of all estimated weights; default: all of them"},
    KVC_OPTIONS_END};

static enum kvc_status hsa_check(const struct kvc_values *values, struct kvc_error *error) {
    static const char *const names[] = {"page", "dims", "topk"};
    const bool budget = kvc_value_given(values, "budget"), ratio = kvc_value_given(values, "ratio");
    int direct = 0;
    for (int i = 0; i < 3; i++)
        direct += kvc_value_given(values, names[i]);
    if (budget + ratio + (direct > 0) != 1)
        return kvc_fail(error, KVC_USAGE, "policy hsa: %s: give one of budget=, ratio=, or page=, dims= and topk=",
                        budget + ratio + direct ? "budget, ratio and sizes exclude each other" : "budget= is missing");
    for (int i = 0; i < 3 && direct > 0; i++)
        if (!kvc_value_given(values, names[i]))
            return kvc_fail(error, KVC_USAGE, "policy hsa: %s= is missing: page=, dims= and topk= go together",
                            names[i]);
    return KVC_OK;
}

static struct kvc_select sizes_for(const struct kvc_values *values, const struct kvc_stage_info *info) {
    struct kvc_select select = {.kind = KVC_SELECT_PAGE_CHANNELS, .share = kvc_value_real(values, "p")};
    struct kvc_hsa_sizes sizes;
    if (kvc_value_given(values, "budget")) {
        const struct kvc_reads reads = kvc_reads(values, info->held);
        sizes = kvc_hsa_sizes(reads.c2, info->head_size);
        select.top = kvc_half(reads.budget);
        select.budget = reads.budget;
    } else if (kvc_value_given(values, "ratio")) {
        const double c2 = kvc_value_real(values, "ratio");
        sizes = kvc_hsa_sizes(c2, info->head_size);
        select.top = (uint64_t)floor((double)info->after / (2.0 * c2) + 0.5);
        select.top = kvc_max_u64(select.top, 1);
        select.budget = select.top;
    } else {
        sizes.page = (uint32_t)kvc_value_int(values, "page");
        sizes.dims = (uint32_t)kvc_value_int(values, "dims");
        select.top = select.budget = (uint64_t)kvc_value_int(values, "topk");
    }
    select.page = sizes.page;
    select.dims = sizes.dims;
    return select;
}

const struct kvc_policy_class kvc_policy_hsa = {
    .name = "hsa",
    .summary = "reads entries of the pages that may score highest in the query's strongest channels",
    .paper = "Hybrid sparse attention of RocketKV, arXiv:2502.14051",
    .idea = "quest reads all channels of its pages, and sparq reads a few channels of all keys. This method reads a "
            "few channels of its pages, which estimates better for the same traffic. For every page of neighbouring "
            "entries, the smallest and the largest key value of each channel are stored. In each of its strongest "
            "channels, a query uses the value that makes the product larger: the largest if the query is positive "
            "there, otherwise the smallest. Nothing is evicted.",
    .formula = "page = ceil(sqrt(c2)) if at most c2, else 1; dims = round(d page / c2); i1 = top dims channels by the "
               "group's sum of |q|; s1 = q[i1] . (max or min)[i1] / sqrt(d sum|q[i1]| / sum|q|); read = top topk "
               "entries by the group's sum of softmax(s1), where an entry has its page's score; budget t: c2 = N / t, "
               "topk = round(t / 2); ratio: c2, topk = round(n / (2 c2)), n being the entries held after the prompt; "
               "with p: of these, from the highest on, the fewest that have the share p of the sum of the group's "
               "softmax(s1) over all entries, in 2^-24ths rounded down",
    .memory = "n entries after n tokens, and ceil(n / page) pairs of d values of the cache's type (float32 for Q8_0)",
    .traffic = "ceil(n / page) times dims values, and topk entries (with p maybe fewer), per generated token",
    .differences =
        "A group's sum of q that is 0 counts as positive (Algorithm 1); in the authors' code it counts as negative.",
    .second_turn = "The new prompt attends to the whole history. The page, dims and topk that follow from budget or "
                   "ratio are computed again from it.",
    .channels = true,
    .stages = KVC_STAGE_SELECT,
    .options = options,
    .check = hsa_check,
    .check_model = kvc_check_dims,
    .sizes = sizes_for};
