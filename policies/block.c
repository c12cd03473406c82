/* block.c - reads the prompt in chunks and evicts after each chunk by scores that need no query
 * (docs/reference/methods/block.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    {"chunk", KVC_OPTION_INT, "128", 1, 1 << 24, NULL, "tokens of the prompt between evictions"},
    {"scorer", KVC_OPTION_CHOICE, "keydiff", 0, 0, "keydiff|knorm|random", "method whose scores are used"},
    KVC_OPTIONS_END};

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) { return kvc_budget(values, held, 0); }

static void block_chunking(const struct kvc_values *values, struct kvc_chunking *chunking) {
    chunking->chunk = (uint32_t)kvc_value_int(values, "chunk");
}

static uint64_t block_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

static enum kvc_status block_chunk(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    struct kvc_scores *scores;
    if (info->entries <= budget)
        return KVC_OK;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_scorer_scores(stage, values, 0, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.top = budget, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_block = {
    .name = "block",
    .summary = "reads the prompt in chunks and evicts after each by scores that need no query",
    .paper = "KeyDiff, arXiv:2504.15364",
    .idea = "A score that needs no query can be computed before the prompt has been read to its end. So the prompt is "
            "read in chunks, the blocks of the paper. After each chunk, every layer evicts until it holds the budget. "
            "An evicted entry does not come back, and later chunks do not attend to it.",
    .formula = "after each chunk of `chunk` tokens: score_j of every entry held, as keydiff, knorm or random "
               "(`scorer`) compute it from the entries held then; kept = top B",
    .memory = "at most B + chunk entries in every layer at any time of prefill; B entries after the prompt, one more "
              "per generated token",
    .traffic = "B + generated entries per generated token",
    .differences =
        "kvpress's BlockPress computes the whole prompt with full attention and evicts afterwards, block by block, so "
        "it saves no memory in prefill. Its first block has B tokens: the same entries are kept of the same tensors if "
        "B is a multiple of `chunk`. In a model this holds for the first layer; the keys of the others depend on what "
        "was evicted, as in the paper, which evicts before it reads the next block. BlockPress also accepts scores "
        "that need queries; here, take uses such scores.",
    .second_turn = "The turn is read in chunks. Old and new entries are scored after each.",
    .whole_keys = true,
    .stages = KVC_STAGE_CHUNK,
    .options = options,
    .trial = "chunk=16",
    .forecast = &(const struct kvc_forecast){.bound = block_bound},
    .chunking = block_chunking,
    .chunk = block_chunk};
