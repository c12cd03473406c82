/* sampler.c - picks the next token: penalties, bias, top-k, temperature, softmax, top-p, min-p, one draw. If a filter
 * refuses the token, the sampler draws another. The same logits and seed give the same token on every machine. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/float.h"
#include "core/base/canon.h"
#include "core/engine/engine.h"
#include "core/engine/sampler.h"
#include "kvcull/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SORTED_MOST 256u   /* if more tokens are wanted, all are sorted at once */
#define TAIL 17.5f         /* exp(-TAIL) is below 2^-25 */
#define REFUSALS 8u        /* after this many refusals of single tokens the filter strikes out many at once */
#define REFUSALS_MOST 512u /* after this many refusals the filter checks all tokens that are left */

union slot {
    uint32_t token;
    float weight;
};

struct kvc_sampler {
    struct kvc_sampler_options options;
    uint32_t vocab;
    uint32_t draws;
    int32_t *recent; /* ring buffer of repeat_last tokens */
    uint64_t accepted;
    uint32_t *order;  /* [vocab] candidates, best first */
    union slot *room; /* [vocab]: scratch for sorting, then weights relative to the best candidate's */
    float *changed;   /* [vocab]: logits after penalties and bias; NULL: there are none */
    float *bias;      /* [vocab]; NULL: none is set */
    uint32_t *drawn;  /* [vocab]: how often each token was drawn; NULL: frequency and presence were never set */
    float frequency, presence;
    struct kvc_token_filter filter; /* no filter if `allows` is NULL */
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
    made->order = malloc(vocab * sizeof *made->order);
    made->room = malloc(vocab * sizeof *made->room);
    if (o->repeat_penalty != 1)
        made->changed = malloc(vocab * sizeof *made->changed);
    if (!made->recent || !made->order || !made->room || (o->repeat_penalty != 1 && !made->changed)) {
        kvc_sampler_close(made);
        return kvc_fail(error, KVC_RESOURCE, "sampler: no memory for %u candidates", vocab);
    }
    *sampler = made;
    return KVC_OK;
}

void kvc_sampler_close(struct kvc_sampler *sampler) {
    if (!sampler)
        return;
    if (sampler->filter.allows)
        sampler->filter.close(sampler->filter.user);
    free(sampler->recent);
    free(sampler->order);
    free(sampler->room);
    free(sampler->changed);
    free(sampler->bias);
    free(sampler->drawn);
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
        sampler->bias = calloc(sampler->vocab, sizeof *sampler->bias);
    if (count > 0 && !sampler->changed)
        sampler->changed = malloc(sampler->vocab * sizeof *sampler->changed);
    if (count > 0 && (!sampler->bias || !sampler->changed))
        return kvc_fail(error, KVC_RESOURCE, "bias: no memory for %u tokens", sampler->vocab);
    if (sampler->bias)
        memset(sampler->bias, 0, sampler->vocab * sizeof *sampler->bias);
    for (size_t i = 0; i < count; i++)
        sampler->bias[biases[i].token] = biases[i].bias;
    return KVC_OK;
}

enum kvc_status kvc_sampler_penalties(struct kvc_sampler *sampler, float frequency, float presence,
                                      struct kvc_error *error) {
    if (!(frequency >= -2 && frequency <= 2))
        return kvc_fail(error, KVC_USAGE, "frequency-penalty %g: must be from -2 to 2 (0: off)", (double)frequency);
    if (!(presence >= -2 && presence <= 2))
        return kvc_fail(error, KVC_USAGE, "presence-penalty %g: must be from -2 to 2 (0: off)", (double)presence);
    const bool off = frequency == 0 && presence == 0;
    if (!off && !sampler->drawn)
        sampler->drawn = malloc(sampler->vocab * sizeof *sampler->drawn);
    if (!off && !sampler->changed)
        sampler->changed = malloc(sampler->vocab * sizeof *sampler->changed);
    if (!off && (!sampler->drawn || !sampler->changed))
        return kvc_fail(error, KVC_RESOURCE, "penalties: no memory for %u tokens", sampler->vocab);
    if (sampler->drawn)
        memset(sampler->drawn, 0, sampler->vocab * sizeof *sampler->drawn);
    sampler->frequency = frequency;
    sampler->presence = presence;
    return KVC_OK;
}

uint32_t kvc_sampler_vocab(const struct kvc_sampler *sampler) { return sampler->vocab; }

enum kvc_status kvc_sampler_filter(struct kvc_sampler *sampler, const struct kvc_token_filter *filter,
                                   struct kvc_error *error) {
    if (filter && !sampler->changed)
        sampler->changed = malloc(sampler->vocab * sizeof *sampler->changed);
    if (filter && !sampler->changed)
        return kvc_fail(error, KVC_RESOURCE, "sampler: no memory for %u tokens", sampler->vocab);
    if (sampler->filter.allows)
        sampler->filter.close(sampler->filter.user);
    sampler->filter = filter ? *filter : (struct kvc_token_filter){0};
    return KVC_OK;
}

bool kvc_sampler_whole(const struct kvc_sampler *sampler) {
    return !sampler->filter.allows || sampler->filter.whole(sampler->filter.user);
}

/* Returns the logits [vocab] after penalties and bias. If there are none, it returns the caller's array. */
static const float *change(struct kvc_sampler *sampler, const float *logits) {
    const float penalty = sampler->options.repeat_penalty;
    const uint64_t count = penalty != 1 ? kvc_min_u64(sampler->accepted, sampler->options.repeat_last) : 0;
    KVC_ASSERT(sampler->changed || (penalty == 1 && !sampler->bias && !sampler->drawn && !sampler->filter.allows));
    float *changed = sampler->changed;
    if (!changed)
        return logits;
    memcpy(changed, logits, sampler->vocab * sizeof *changed);
    for (uint64_t i = 0; i < count; i++) {
        const int32_t token = sampler->recent[i];
        if (token >= 0 && (uint32_t)token < sampler->vocab)
            changed[token] = logits[token] > 0 ? logits[token] / penalty : logits[token] * penalty;
    }
    for (uint32_t t = 0; sampler->drawn && t < sampler->vocab; t++)
        if (sampler->drawn[t] > 0)
            changed[t] -= (float)sampler->drawn[t] * sampler->frequency + sampler->presence;
    for (uint32_t t = 0; sampler->bias && t < sampler->vocab; t++)
        changed[t] += sampler->bias[t];
    return changed;
}

/* Returns the n-th number of the seed's sequence, in (0, 1). */
static float uniform(uint64_t seed, uint32_t n) {
    const struct kvc_philox words = kvc_philox4x32(n, 0, 0, 0, seed);
    return (float)(words.word[0] >> 8) * 0x1p-24f + 0x1p-25f;
}

/* Returns the token with the highest logit. Of equal logits, the lower token wins. NaN is chosen only if all logits are
 * NaN. */
static uint32_t sampler_likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    while (best < vocab && kvc_is_nan(logits[best]))
        best++;
    if (best == vocab)
        return 0;
    float most = logits[best];
    for (uint32_t t = best + 1; t < vocab; t++)
        if (logits[t] > most) {
            most = logits[t];
            best = t;
        }
    return best;
}

/* Sorts order [count] by descending logits, with a stable radix sort: each of four passes sorts by another byte of the
 * logits' keys. */
static void sampler_sort(uint32_t *order, union slot *room, size_t count, const float *logits) {
    uint32_t places[4][256] = {{0}};
    for (size_t i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            places[byte][~kvc_score_key(logits[order[i]]) >> 8 * byte & 255]++;
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t i = 0, sum = 0; i < 256; i++) {
            const uint32_t here = places[byte][i];
            places[byte][i] = sum;
            sum += here;
            KVC_ASSERT(sum <= count && (i < 255 || sum == count));
        }
    for (int byte = 0; byte < 4; byte += 2) {
        for (size_t i = 0; i < count; i++)
            room[places[byte][~kvc_score_key(logits[order[i]]) >> 8 * byte & 255]++].token = order[i];
        for (size_t i = 0; i < count; i++)
            order[places[byte + 1][~kvc_score_key(logits[room[i].token]) >> 8 * (byte + 1) & 255]++] = room[i].token;
    }
}

/* Fills order with the best `most` tokens, best first. Leaves out tokens whose weight is too small to change the sum of
 * weights. The best token has weight 1, so the sum is at least 1. exp(-TAIL) is less than half a unit in the last place
 * of any float >= 1, so adding a smaller weight does not change the sum. If `most` is small, tokens are inserted into a
 * sorted list, which is cheap because few qualify. Otherwise they are sorted. */
static size_t sampler_collect(struct kvc_sampler *sampler, const float *logits, size_t most) {
    const uint32_t best = sampler_likeliest(logits, sampler->vocab);
    const float highest = logits[best], least = -TAIL * sampler->options.temperature;
    KVC_ASSERT(best < sampler->vocab && most > 0);
    uint32_t *order = sampler->order;
    size_t count = 0;
    for (uint32_t t = 0; t < sampler->vocab; t++) {
        if (!(logits[t] - highest >= least) && t != best)
            continue;
        if (most > SORTED_MOST) {
            order[count++] = t;
            continue;
        }
        if (count == most && !(logits[t] > logits[order[most - 1]]))
            continue;
        size_t at = count < most ? count++ : most - 1;
        for (; at > 0 && logits[t] > logits[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = t;
    }
    if (most > SORTED_MOST)
        sampler_sort(order, sampler->room, count, logits);
    return kvc_min_u64(count, most);
}

static uint32_t sampler_draw(struct kvc_sampler *sampler, const float *logits) {
    const struct kvc_sampler_options *o = &sampler->options;
    const uint32_t *order = sampler->order;
    const size_t most = o->top_k > 0 ? (size_t)o->top_k : SIZE_MAX, count = sampler_collect(sampler, logits, most);
    const float best = logits[order[0]];
    union slot *room = sampler->room;
    float total = 0;
    for (size_t i = 0; i < count; i++) {
        const float weight = kvc_exp((logits[order[i]] - best) / o->temperature);
        room[i].weight = weight >= 0 ? weight : 0; /* 0 for NaN */
        total += room[i].weight;
    }
    size_t kept = 0;
    float sum = 0;
    while (kept < count && (kept == 0 || (sum < o->top_p * total && room[kept].weight >= o->min_p)))
        sum += room[kept++].weight;
    float left = uniform(o->seed, sampler->draws++) * sum;
    KVC_ASSERT(kept > 0 && kept <= count && count <= sampler->vocab);
    for (size_t i = 0; i < kept; i++) {
        left -= room[i].weight;
        if (left < 0)
            return order[i];
    }
    return order[0];
}

static uint32_t pick(struct kvc_sampler *sampler, const float *logits) {
    return sampler->options.temperature > 0 ? sampler_draw(sampler, logits) : sampler_likeliest(logits, sampler->vocab);
}

/* Picks tokens until the filter allows one, and masks those that it refuses. Returns false if it allows none. */
static bool pick_allowed(struct kvc_sampler *sampler, uint32_t *token) {
    const struct kvc_token_filter *filter = &sampler->filter;
    for (uint32_t refused = 0; refused < sampler->vocab; refused++) {
        *token = pick(sampler, sampler->changed);
        if (!(sampler->changed[*token] > -INFINITY)) /* no token is left, or logits are NaN */
            return false;
        if (filter->allows(filter->user, (int32_t)*token))
            return true;
        sampler->changed[*token] = -INFINITY;
        if (refused + 1 == REFUSALS || refused + 1 == REFUSALS_MOST)
            filter->strike(filter->user, sampler->changed, refused + 1 == REFUSALS_MOST);
    }
    return false;
}

int32_t kvc_sample(struct kvc_sampler *sampler, const float *logits) {
    const uint64_t environment = kvc_float_open();
    const struct kvc_token_filter *filter = &sampler->filter;
    const float *changed = change(sampler, logits);
    uint32_t token = 0;
    bool found = true;
    if (filter->allows)
        found = pick_allowed(sampler, &token);
    else
        token = pick(sampler, changed);
    kvc_float_close(environment);
    if (!found)
        return -1;
    KVC_ASSERT(token < sampler->vocab);
    kvc_sampler_accept(sampler, (int32_t)token);
    if (sampler->drawn)
        sampler->drawn[token]++;
    if (filter->allows)
        filter->accept(filter->user, (int32_t)token);
    return (int32_t)token;
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
