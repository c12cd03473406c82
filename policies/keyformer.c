/* keyformer.c - evicts by accumulated attention with noise and with a temperature that changes in decode steps
 * (docs/reference/methods/keyformer.md). */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <stdint.h>

static const struct kvc_option options[] = {
    KVC_BUDGET_OPTION("entries kept per KV head, recent ones included"),
    KVC_RECENT_OPTION,
    {"tau_init", KVC_OPTION_REAL, "1", 0.01, 1000, NULL, "temperature of the prompt's queries"},
    {"tau_end", KVC_OPTION_REAL, "2", 0.01, 1000, NULL, "temperature that decode steps reach"},
    {"steps", KVC_OPTION_INT, "0", 0, KVC_BUDGET_MOST, NULL,
     "decode steps until tau_end is reached; 0: the number of tokens requested, or none where that is not known, as in "
     "a replay"},
    {"seed", KVC_OPTION_INT, "-1", -1, 9007199254740992.0, NULL, "seed of the noise; -1: the session's"},
    KVC_OPTIONS_END};

/* Returns the temperature, a linear function of the number of decode steps. It is computed in double precision and
 * rounded once. */
static float tau_of(const struct kvc_values *values, const struct kvc_stage_info *info) {
    const double from = kvc_value_real(values, "tau_init"), to = kvc_value_real(values, "tau_end");
    const int64_t given = kvc_value_int(values, "steps");
    const uint64_t steps = given > 0 ? (uint64_t)given : info->expected;
    KVC_ASSERT(from > 0 && to > 0);
    if (info->step >= steps)
        return (float)to;
    return (float)(from + (to - from) * ((double)info->step / (double)steps));
}

static enum kvc_status accumulate(struct kvc_stage *stage, const struct kvc_values *values, float tau,
                                  struct kvc_error *error) {
    const int64_t seed = kvc_value_int(values, "seed");
    return kvc_stage_accumulate(stage, 0, tau, seed < 0 ? kvc_stage_info(stage)->seed : (uint64_t)seed, error);
}

static enum kvc_status keyformer_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                          struct kvc_error *error) {
    return accumulate(stage, values, (float)kvc_value_real(values, "tau_init"), error);
}

static enum kvc_status keyformer_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    return kvc_accumulated_evict(stage, values, 0, error);
}

static enum kvc_status keyformer_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    const enum kvc_status status = accumulate(stage, values, tau_of(values, kvc_stage_info(stage)), error);
    return status == KVC_OK ? kvc_accumulated_evict(stage, values, 0, error) : status;
}

const struct kvc_policy_class kvc_policy_keyformer = {
    .name = "keyformer",
    .summary = "keeps the entries with the most accumulated attention, with Gumbel noise and a rising temperature",
    .paper = "Keyformer, arXiv:2403.09054",
    .idea = "Once entries are evicted, the probabilities of the remaining entries are distorted, and sums of "
            "probabilities favour old entries. The method therefore adds Gumbel noise to the scores, one draw per key "
            "and query head, and divides them by a temperature. The temperature rises from step to step, so the "
            "softmax becomes flatter the more has been evicted. The resulting probabilities are summed over all "
            "queries so far. The entry with the lowest sum that is not recent is evicted.",
    .formula = "score_k = sum over all queries i so far and the group's heads of softmax_k((s_ik + g_k) / tau) over "
               "the entries that i attended to, without the attention sink; g = -log(-log(u)), u from Philox4x32-10 "
               "with counter (layer, query head, position of k, 0) and key `seed`; tau = tau_init in the prompt, and "
               "tau_init + (tau_end - tau_init) min(t, steps) / steps in decode step t",
    .memory = "B entries (B + 1 within a decode step), and 2 float32 per entry and KV head for the sums. The vector "
              "instruction sets of CPUs also use a table of noise, as scratch until the engine closes: 1 + G float32 "
              "per slot, at most 64 MiB.",
    .traffic = "B + 1 entries per generated token, and the sums; after the prompt its keys are read twice more, for "
               "the noisy probabilities of all its queries",
    .differences =
        "Each key gets one draw of noise; the authors' code draws again for every query. The temperature tau depends "
        "on the number of this turn's decode steps. With steps=0 and an unknown number of requested tokens, as in a "
        "replay, the first decode step already has tau_end. Scores are summed over the group. Attention in the decode "
        "steps of a joined method is not counted.",
    .second_turn = "The sums continue, as those of h2o do. The new prompt's queries use tau_init again, and t counts "
                   "this turn's steps.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .check = kvc_check_recent,
    .columns = kvc_accumulated_columns,
    .forecast = &kvc_recent_forecast,
    .attended = keyformer_attended,
    .prompt = keyformer_prompt,
    .decode = keyformer_decode};
