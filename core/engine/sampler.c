/* sampler.c - picks the next token: penalty, bias, top-k, temperature, softmax, top-p, min-p, one draw. The same logits
 * and seed give the same token on every machine. */
#include "core/base/integers.h"
#include "core/base/float.h"
#include "core/base/canon.h"
#include "core/engine/engine.h"
#include "core/engine/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SORTED_MOST 256u /* above it, all tokens are sorted at once */

struct candidate {
    float value; /* logit, then probability relative to the best candidate's */
    int32_t token;
};

struct kvc_sampler {
    struct kvc_sampler_options options;
    uint32_t vocab;
    uint32_t draws;
    int32_t *recent; /* ring of repeat_last tokens */
    uint64_t accepted;
    struct candidate *candidates; /* [vocab] */
    bool *penalised;              /* [vocab], false between calls */
    float *bias;                  /* [vocab], or NULL: none is set */
};

void kvc_sampler_defaults(struct kvc_sampler_options *options) {
    *options = (struct kvc_sampler_options){
        .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1, .repeat_last = 64};
}

enum kvc_status kvc_sampler_open(const struct kvc_sampler_options *options, uint32_t vocab,
                                 struct kvc_sampler **sampler, struct kvc_error *error) {
    const struct kvc_sampler_options *o = options;
    *sampler = NULL;
    if (!(o->temperature >= 0 && o->temperature <= 100))
        return kvc_fail(error, KVC_USAGE, "temperature %g: must be from 0 to 100", (double)o->temperature);
    if (o->top_k < 0)
        return kvc_fail(error, KVC_USAGE, "top-k %d: must be 0 (off) or more", o->top_k);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return kvc_fail(error, KVC_USAGE, "top-p %g: must be above 0 and at most 1 (off)", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return kvc_fail(error, KVC_USAGE, "min-p %g: must be from 0 (off) to 1", (double)o->min_p);
    if (!(o->repeat_penalty > 0 && o->repeat_penalty <= 100))
        return kvc_fail(error, KVC_USAGE, "repeat-penalty %g: must be above 0 and at most 100 (1: off)",
                        (double)o->repeat_penalty);
    if (vocab == 0 || o->repeat_last > (1u << 24))
        return kvc_fail(error, KVC_USAGE, "sampler: %u tokens, looking back on %u: must be at least 1, at most %u",
                        vocab, o->repeat_last, 1u << 24);
    struct kvc_sampler *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "sampler: no memory");
    made->options = *o;
    made->vocab = vocab;
    made->recent = calloc(o->repeat_last ? o->repeat_last : 1, sizeof *made->recent);
    made->candidates = malloc(vocab * sizeof *made->candidates);
    made->penalised = calloc(vocab, sizeof *made->penalised);
    if (!made->recent || !made->candidates || !made->penalised) {
        kvc_sampler_close(made);
        return kvc_fail(error, KVC_RESOURCE, "sampler: no memory for %u candidates", vocab);
    }
    *sampler = made;
    return KVC_OK;
}

void kvc_sampler_close(struct kvc_sampler *sampler) {
    if (!sampler)
        return;
    free(sampler->recent);
    free(sampler->candidates);
    free(sampler->penalised);
    free(sampler->bias);
    free(sampler);
}

void kvc_sampler_accept(struct kvc_sampler *sampler, int32_t token) {
    const uint32_t last = sampler->options.repeat_last;
    if (last > 0)
        sampler->recent[sampler->accepted % last] = token;
    sampler->accepted++;
}

enum kvc_status kvc_sampler_bias(struct kvc_sampler *sampler, const struct kvc_bias *biases, size_t count,
                                 struct kvc_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (biases[i].token < 0 || (uint32_t)biases[i].token >= sampler->vocab)
            return kvc_fail(error, KVC_USAGE, "bias: token %d; the model has tokens 0 to %u", biases[i].token,
                            sampler->vocab - 1);
        if (!(biases[i].bias < INFINITY))
            return kvc_fail(error, KVC_USAGE, "bias of token %d: must be a number, or -infinity", biases[i].token);
    }
    if (count > 0 && !sampler->bias)
        sampler->bias = malloc(sampler->vocab * sizeof *sampler->bias);
    if (count > 0 && !sampler->bias)
        return kvc_fail(error, KVC_RESOURCE, "bias: no memory for %u tokens", sampler->vocab);
    if (sampler->bias)
        memset(sampler->bias, 0, sampler->vocab * sizeof *sampler->bias);
    for (size_t i = 0; i < count; i++)
        sampler->bias[biases[i].token] = biases[i].bias;
    return KVC_OK;
}

/* logit of a token, after the penalty where it is recent, and with its bias */
static float changed(const struct kvc_sampler *sampler, const float *logits, uint32_t token) {
    const float penalty = sampler->options.repeat_penalty;
    float logit = logits[token];
    if (sampler->penalised[token])
        logit = logit > 0 ? logit / penalty : logit * penalty;
    return sampler->bias ? logit + sampler->bias[token] : logit;
}

static void mark_recent(struct kvc_sampler *sampler, bool mark) {
    const uint64_t last = sampler->options.repeat_last;
    const uint64_t count = kvc_min_u64(sampler->accepted, last);
    for (uint64_t i = 0; i < count; i++) {
        const int32_t token = sampler->recent[i];
        if (token >= 0 && (uint32_t)token < sampler->vocab)
            sampler->penalised[token] = mark;
    }
}

/* Higher value first, then the lower token; NaN last. */
static int compare(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    const kvc_u32 kx = kvc_score_key(x->value), ky = kvc_score_key(y->value);
    if (kx != ky)
        return kx > ky ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* A number in (0, 1), the n-th of the seed's sequence. */
static float uniform(uint64_t seed, uint32_t n) {
    const struct kvc_philox words = kvc_philox4x32(n, 0, 0, 0, seed);
    return (float)(words.word[0] >> 8) * 0x1p-24f + 0x1p-25f;
}

/* Fills candidates with the best `most` tokens, best first. A few are kept in order as the tokens come, which costs
 * little because hardly any is inserted; many are sorted. */
static size_t collect(struct kvc_sampler *sampler, const float *logits) {
    const uint32_t vocab = sampler->vocab, top_k = (uint32_t)sampler->options.top_k;
    const size_t most = top_k > 0 && top_k < vocab ? top_k : vocab;
    struct candidate *candidates = sampler->candidates;
    size_t count = 0;
    for (uint32_t t = 0; t < vocab; t++) {
        const struct candidate next = {changed(sampler, logits, t), (int32_t)t};
        if (most > SORTED_MOST) {
            candidates[count++] = next;
            continue;
        }
        if (count == most && compare(&next, &candidates[most - 1]) > 0)
            continue;
        size_t at = count < most ? count++ : most - 1;
        for (; at > 0 && compare(&next, &candidates[at - 1]) < 0; at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = next;
    }
    if (most > SORTED_MOST)
        qsort(candidates, count, sizeof *candidates, compare);
    return most;
}

static int32_t draw(struct kvc_sampler *sampler, const float *logits) {
    const struct kvc_sampler_options *o = &sampler->options;
    const size_t count = collect(sampler, logits);
    struct candidate *candidates = sampler->candidates;
    const float best = candidates[0].value;
    float total = 0;
    for (size_t i = 0; i < count; i++) {
        candidates[i].value = kvc_exp((candidates[i].value - best) / o->temperature);
        if (!(candidates[i].value >= 0))
            candidates[i].value = 0; /* NaN */
        total += candidates[i].value;
    }
    size_t kept = 0;
    float sum = 0;
    while (kept < count && (kept == 0 || (sum < o->top_p * total && candidates[kept].value >= o->min_p)))
        sum += candidates[kept++].value;
    float left = uniform(o->seed, sampler->draws++) * sum;
    for (size_t i = 0; i < kept; i++) {
        left -= candidates[i].value;
        if (left < 0)
            return candidates[i].token;
    }
    return candidates[0].token;
}

static int32_t likeliest(const struct kvc_sampler *sampler, const float *logits) {
    kvc_u32 best = 0;
    int32_t token = 0;
    for (uint32_t t = 0; t < sampler->vocab; t++) {
        const kvc_u32 key = kvc_score_key(changed(sampler, logits, t));
        if (key > best) {
            best = key;
            token = (int32_t)t;
        }
    }
    return token;
}

int32_t kvc_sample(struct kvc_sampler *sampler, const float *logits) {
    const bool penalise = sampler->options.repeat_penalty != 1;
    const uint64_t environment = kvc_float_open();
    if (penalise)
        mark_recent(sampler, true);
    const int32_t token = sampler->options.temperature > 0 ? draw(sampler, logits) : likeliest(sampler, logits);
    if (penalise)
        mark_recent(sampler, false);
    kvc_float_close(environment);
    kvc_sampler_accept(sampler, token);
    return token;
}

void kvc_sampler_pass(struct kvc_archive *archive, struct kvc_sampler *sampler) {
    const uint64_t last = sampler ? sampler->options.repeat_last : 0;
    uint32_t draws = sampler ? sampler->draws : 0;
    uint64_t count = sampler ? kvc_min_u64(sampler->accepted, last) : 0;
    const uint64_t first = sampler ? sampler->accepted - count : 0;
    kvc_archive_u32(archive, &draws);
    kvc_archive_limited(archive, &count, 1u << 24, "recent tokens");
    if (sampler && archive->reads && kvc_archive_fine(archive)) {
        sampler->draws = draws;
        sampler->accepted = 0;
    }
    for (uint64_t i = 0; i < count && kvc_archive_fine(archive); i++) {
        uint32_t token = archive->reads ? 0 : (uint32_t)sampler->recent[(first + i) % last];
        kvc_archive_u32(archive, &token);
        if (sampler && archive->reads)
            kvc_sampler_accept(sampler, (int32_t)token);
    }
}
