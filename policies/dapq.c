/* dapq.c - scores entries by the attention of pseudo tokens at the positions of the answer
 * (docs/reference/methods/dapq.md). */
#include "policies/policies.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/canon.h"

#define PSEUDO_MOST 4096
#define FILE_MOST (1u << 20) /* largest size of the file, in bytes */

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    {"pseudo", KVC_OPTION_INT, "8", 1, PSEUDO_MOST, NULL, "m: number of pseudo tokens run after the prompt"},
    {"content", KVC_OPTION_CHOICE, "tail", 0, 0, "ends|tail|middle|random|file|draft",
     "source of the pseudo tokens: a part of the prompt; file: a file; draft: the first m tokens of an answer that is "
     "generated with the cache of content=tail"},
    {"head", KVC_OPTION_INT, "4", 0, PSEUDO_MOST, NULL,
     "content=ends: how many of the prompt's first tokens are among them"},
    {"file", KVC_OPTION_TEXT, "", 0, 0, NULL, "content=file: token ids, separated by white space or commas"},
    {"skip", KVC_OPTION_INT, "0", 0, 1 << 20, NULL,
     "content=ends: tokens, such as those of a chat template, that are passed over before the first ones are taken"},
    {"offset", KVC_OPTION_INT, "0", -(1 << 20), 1 << 20, NULL,
     "distance of the first pseudo position from the prompt's end; negative: before it"},
    KVC_KERNEL_OPTION("7"),
    KVC_POOLING_OPTION("max"),
    {"seed", KVC_OPTION_INT, "0", 0, 9007199254740992.0, NULL, "content=random: seed of the draws"},
    KVC_PER_HEAD_OPTION(KVC_PER_HEAD_LISTS),
    KVC_OPTIONS_END};

static bool has_content(const struct kvc_values *values, const char *content) {
    return !strcmp(kvc_value_text(values, "content"), content);
}

static enum kvc_status dapq_check(const struct kvc_values *values, struct kvc_error *error) {
    const int64_t head = kvc_value_int(values, "head"), pseudo = kvc_value_int(values, "pseudo");
    if (has_content(values, "ends") && head > pseudo)
        return kvc_fail(error, KVC_USAGE, "policy dapq: head=%lld: must be 0 to pseudo=%lld", (long long)head,
                        (long long)pseudo);
    if (has_content(values, "file") != (kvc_value_text(values, "file")[0] != 0))
        return kvc_fail(error, KVC_USAGE, "policy dapq: content=file and file=NAME go together");
    return kvc_check_kernel(values, error);
}

/* ---- tokens from a file ---- */

struct token_file {
    uint32_t count;
    int32_t tokens[]; /* [pseudo] */
};

static size_t file_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)geometry;
    return has_content(values, "file")
               ? sizeof(struct token_file) + (size_t)kvc_value_int(values, "pseudo") * sizeof(int32_t)
               : 0;
}

/* Parses at most `most` token ids. */
static enum kvc_status read_tokens(const char *text, const char *path, uint32_t most, struct token_file *file,
                                   struct kvc_error *error) {
    static const char separators[] = " \t\r\n,";
    while (file->count < most) {
        text += strspn(text, separators);
        const size_t length = strcspn(text, separators);
        char *end;
        const long id = strtol(text, &end, 10);
        if (length == 0)
            break;
        if (end != text + length || id < 0 || id > INT32_MAX || length > 10)
            return kvc_fail(error, KVC_INPUT, "policy dapq: file=%.200s: '%.*s' is not a token id", path,
                            (int)kvc_min_u64(length, 15), text);
        file->tokens[file->count++] = (int32_t)id;
        text += length;
    }
    if (file->count == 0)
        return kvc_fail(error, KVC_INPUT, "policy dapq: file=%.200s: has no token ids", path);
    return KVC_OK;
}

static enum kvc_status open_file(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                 struct kvc_error *error) {
    const char *path = kvc_value_text(values, "file");
    char *text = NULL;
    (void)geometry;
    if (!state)
        return KVC_OK;
    enum kvc_status status = kvc_read_option_file("dapq", "file", path, FILE_MOST, &text, error);
    if (status == KVC_OK)
        status = read_tokens(text, path, (uint32_t)kvc_value_int(values, "pseudo"), state, error);
    free(text);
    return status;
}

/* ---- pseudo rows ---- */

static uint64_t budget_of(const struct kvc_values *values, uint64_t held) { return kvc_budget(values, held, 0); }

/* Copies `count` tokens of the prompt, from token `first` on, to tokens[at] and the following ones, unless `tokens` is
 * NULL. Returns the index after the last copied token. */
static uint32_t take_part(const struct kvc_turn *turn, uint64_t first, uint64_t count, uint32_t at, int32_t *tokens) {
    KVC_ASSERT(first + count <= turn->count);
    for (uint64_t i = 0; tokens && i < count; i++)
        tokens[at + i] = turn->tokens[first + i];
    return at + (uint32_t)count;
}

static uint32_t dapq_draft(const struct kvc_values *values) {
    return has_content(values, "draft") ? (uint32_t)kvc_value_int(values, "pseudo") : 0;
}

static uint32_t dapq_pseudo(const struct kvc_values *values, const struct kvc_turn *turn, int32_t *offset,
                            int32_t *tokens) {
    const uint32_t m = (uint32_t)kvc_value_int(values, "pseudo");
    const uint64_t n = turn->count;
    *offset = (int32_t)kvc_value_int(values, "offset");
    if (turn->held <= budget_of(values, turn->held))
        return 0;
    if (has_content(values, "file")) {
        const struct token_file *file = turn->state;
        for (uint32_t i = 0; tokens && i < file->count; i++)
            tokens[i] = file->tokens[i];
        return file->count;
    }
    if (has_content(values, "draft") && (turn->draft || !turn->tokens)) {
        for (uint32_t i = 0; tokens && turn->draft && i < m; i++)
            tokens[i] = turn->draft[i];
        return m;
    }
    if (has_content(values, "random")) {
        const uint64_t seed = (uint64_t)kvc_value_int(values, "seed");
        for (uint32_t i = 0; tokens && i < m; i++)
            tokens[i] = turn->tokens[(uint64_t)kvc_philox4x32(i, 0, 0, 0, seed).word[0] * n >> 32];
        return m;
    }
    if (has_content(values, "ends")) {
        const uint64_t head = (uint64_t)kvc_value_int(values, "head"), tail = kvc_min_u64(m - head, n);
        const uint64_t some = kvc_min_u64(head, n),
                       skip = kvc_min_u64((uint64_t)kvc_value_int(values, "skip"), n - some);
        return take_part(turn, n - tail, tail, take_part(turn, skip, some, 0, tokens), tokens);
    }
    const uint64_t some = kvc_min_u64(m, n);
    return take_part(turn, has_content(values, "middle") ? (n - some) / 2 : n - some, some, 0, tokens);
}

static uint64_t dapq_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    return budget_of(values, prompt) + steps;
}

static enum kvc_status dapq_prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const uint64_t budget = budget_of(values, info->held);
    if (info->entries <= budget)
        return KVC_OK;
    struct kvc_scores *scores;
    enum kvc_status status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_pseudo_mass(stage, scores, error);
    if (status == KVC_OK)
        status =
            kvc_stage_pool(stage, scores, 0, (uint32_t)kvc_value_int(values, "kernel"), kvc_pooling_of(values), error);
    if (status != KVC_OK)
        return status;
    const struct kvc_keep keep = {.top = budget, .limit = budget, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, error);
}

const struct kvc_policy_class kvc_policy_dapq = {
    .name = "dapq",
    .summary = "keeps entries that pseudo tokens at the answer's positions attend to",
    .paper = "DapQ: Where Matters More Than What, decoding-aligned compression via position-aware pseudo queries",
    .idea =
        "The queries that matter are those of the answer, which does not exist yet. What a query attends to "
        "depends strongly on its position. So a few pseudo tokens, copies of some of the prompt's tokens, are run "
        "at the positions that the answer will take. The prompt entries that they attend to are kept. The pseudo "
        "entries are removed at once, and the answer begins as if they had never existed. With content=draft, "
        "the method first drafts the beginning of an answer with the cache of content=tail, and the drafted tokens are "
        "the pseudo tokens.",
    .formula =
        "score_j = sum over pseudo queries i and the group's heads of a_ij, pooled; kept = top B of the prompt; "
        "content=ends: the prompt's `head` tokens after its first `skip` ones and its last m - `head`; "
        "content=random: pseudo token i is token floor(n x / 2^32) of the turn's n tokens, x being the first word of "
        "Philox4x32-10 with counter (i, 0, 0, 0) and key `seed`; content=draft: m tokens decoded greedily from the "
        "cache of content=tail",
    .memory =
        "B entries after the prompt, one more per generated token; during prefill m more in one layer; with "
        "content=draft, also the cache of a second session, which drafts and is closed before the prompt is computed",
    .traffic = "B + generated entries per generated token; content=draft computes the prompt twice",
    .differences =
        "Each KV head has one selection, from its group's sum. With per=head, each query head has one, as in the "
        "paper. The paper's pseudo tokens are the first 4 and the last 28 of the prompt (content=ends,pseudo=32). In a "
        "chat template the first tokens are control tokens. On three models a hidden number is predicted no better "
        "with these pseudo tokens than with snapkv, and the first 4 tokens of the user's text (skip= their place) are "
        "no better. The last 8 tokens alone are better than the last 32, and better than snapkv. The default is "
        "therefore content=tail,pseudo=8. With a negative offset the pseudo tokens have positions within the prompt, "
        "at least 0, as if they were inserted there; they still attend to every entry of the prompt, also to those "
        "after them, so that every entry has a score. content=draft does not work in parallel runs. A replay supplies "
        "the rows of the pseudo tokens (docs/measured/dapq.md). Pseudo rows of one layer are removed before the next "
        "layer is computed. Scores are pooled as in snapkv; the paper's formula has no pooling (kernel=1), but its "
        "baselines pool. Of 40 questions about texts of 2,000 tokens, the bundled model answers a share of 0.47 with "
        "kernel=1 and of 0.88 with kernel=7 at a budget of 64 (content=ends); with snapkv the share is 0.80 "
        "(docs/measured/needle.md).",
    .second_turn = "Pseudo tokens are copies of the turn's tokens, and run after its prompt. They choose among old and "
                   "new entries. No pseudo tokens are run if N is at most B.",
    .stages = KVC_STAGE_PROMPT,
    .options = options,
    .trial = "kernel=5",
    .check = dapq_check,
    .state_bytes = file_bytes,
    .open = open_file,
    .per_head = kvc_per_head,
    .forecast = &(const struct kvc_forecast){.bound = dapq_bound},
    .pseudo = dapq_pseudo,
    .draft = dapq_draft,
    .prompt = dapq_prompt};
