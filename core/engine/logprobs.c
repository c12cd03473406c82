/* logprobs.c - computes log probabilities from logits, bit-identical on every machine. */
#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/float.h"
#include "core/base/trig.h"
#include "core/engine/engine.h"

#include <math.h>

/* Inserts a token into the sorted list `best`, which has `count` tokens and room for `most`. Returns the new count. */
static size_t insert(struct kvc_logprob *best, size_t count, size_t most, float logit, int32_t token) {
    const kvc_u32 key = kvc_score_key(logit);
    if (count == most && (most == 0 || key <= kvc_score_key(best[most - 1].logprob)))
        return count;
    size_t at = count < most ? count : most - 1;
    KVC_ASSERT(count <= most);
    for (; at > 0 && key > kvc_score_key(best[at - 1].logprob); at--)
        best[at] = best[at - 1];
    best[at] = (struct kvc_logprob){token, logit};
    return count < most ? count + 1 : count;
}

float kvc_logprobs(const float *logits, uint32_t vocab, int32_t token, struct kvc_logprob *best, size_t count) {
    const uint64_t environment = kvc_float_open();
    float highest = -INFINITY;
    for (uint32_t t = 0; t < vocab; t++)
        if (logits[t] > highest)
            highest = logits[t];
    double sum = 0;
    size_t found = 0;
    for (uint32_t t = 0; t < vocab; t++) {
        sum += (double)kvc_exp(logits[t] - highest);
        found = insert(best, found, count, logits[t], (int32_t)t);
    }
    const double total = (double)highest + kvc_double_log(sum);
    for (size_t i = 0; i < found; i++)
        best[i].logprob = (float)((double)best[i].logprob - total);
    for (size_t i = found; i < count; i++)
        best[i] = (struct kvc_logprob){-1, -INFINITY};
    const float logprob = token >= 0 && (uint32_t)token < vocab ? (float)((double)logits[token] - total) : -INFINITY;
    kvc_float_close(environment);
    return logprob;
}
