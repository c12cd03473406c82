/* random.c - keeps randomly drawn entries, as a baseline for comparisons (docs/reference/methods/random.md). */
#include "policies/policies.h"

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head"),
    KVC_NEWEST_OPTION,
    {"seed", KVC_OPTION_INT, "-1", -1, 9007199254740992.0, NULL, "seed of the draws; -1: the session's"},
    KVC_OPTIONS_END};

static enum kvc_status random_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const int64_t seed = kvc_value_int(values, "seed");
    return kvc_entries_evict(stage, values, KVC_ENTRY_DRAW, seed < 0 ? kvc_stage_info(stage)->seed : (uint64_t)seed,
                             error);
}

const struct kvc_policy_class kvc_policy_random = {
    .name = "random",
    .summary = "keeps randomly drawn entries, the baseline of every comparison",
    .paper = "-",
    .idea = "Each entry draws a random number when it is appended, and the entries with the highest numbers are kept. "
            "A method that examines keys, values or attention must do better than this method to be worth its cost. "
            "Every token has the same chance of being held, however long the answer is.",
    .formula = "score_j = the upper 24 bits of the first word of Philox4x32-10 with counter (layer, list, position of "
               "j, 1) and key `seed`; kept = top B; with recent=R the last R tokens, and the top of the others",
    .memory = "B entries (B + 1 within a decode step)",
    .traffic = "B + 1 entries per generated token",
    .differences = "None. kvpress draws with torch's generator, so the same seed keeps other entries.",
    .second_turn = "An entry's number does not change. The B highest of old and new entries are kept.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_newest,
    .forecast = &kvc_newest_forecast,
    .prompt = random_evict,
    .decode = random_evict};
