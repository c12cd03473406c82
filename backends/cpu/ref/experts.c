/* experts.c - mixtures of experts: route, expert_linear, expert_sum. */
#include "backends/cpu/ref/pairs.h"
#include "core/base/assert.h"
#include "backends/cpu/ref/ref.h"

/* Computes the routing weights of one row's chosen experts. p [E] is scratch. */
static void share_row(const float *x, uint32_t experts, const uint32_t *chosen, uint32_t used, bool normalised,
                      float *p, float *share) {
    float lane[KVC_LANES] = {0}, most = x[0], sum = 0.0f;
    for (uint32_t e = 1; e < experts; e++)
        most = kvc_max(x[e], most);
    for (uint32_t e = 0; e < experts; e++) {
        p[e] = kvc_exp(x[e] - most);
        lane[e % KVC_LANES] = lane[e % KVC_LANES] + p[e];
    }
    KVC_TREE32(lane);
    for (uint32_t i = 0; i < used; i++)
        sum = sum + p[chosen[i]];
    for (uint32_t i = 0; i < used; i++)
        share[i] = kvc_is_nan(lane[0]) ? lane[0] : kvc_div(p[chosen[i]], normalised ? sum : lane[0]);
}

void KVC_REF(route)(struct kvc_device *device, const struct kvc_route *args) {
    KVC_ASSERT(args->used >= 1 && args->used <= args->experts && args->experts <= KVC_EXPERTS_MOST &&
               args->used <= KVC_EXPERTS_USED_MOST);
    const float *x = kvc_span_data(args->logits);
    float p[KVC_EXPERTS_MOST], *share = kvc_span_data(args->share);
    uint32_t *chosen = kvc_span_data(args->expert);
    (void)device;
    for (uint32_t i = 0; i < args->rows; i++, x += args->experts, chosen += args->used, share += args->used) {
        kvc_choose_experts(x, args->experts, args->used, chosen);
        share_row(x, args->experts, chosen, args->used, args->normalised, p, share);
    }
    kvc_number_pairs(args);
}

void KVC_REF(expert_linear)(struct kvc_device *device, const struct kvc_expert_linear *args) {
    KVC_ASSERT(((const uint32_t *)kvc_span_data(args->first))[args->experts] == args->pairs);
    const uint32_t *first = kvc_span_data(args->first);
    const size_t N = args->w->outputs, K = args->w->inputs;
    for (uint32_t e = 0; e < args->experts; e++) {
        const struct kvc_weight w = KVC_EXPERT_WEIGHT(args->w, e);
        struct kvc_linear linear = {args->y, args->x, &w, args->bias, first[e + 1] - first[e]};
        linear.y.offset += first[e] * N * sizeof(float);
        linear.x.offset += first[e] * K * sizeof(float);
        linear.bias.offset += e * N * sizeof(float);
        if (linear.rows)
            KVC_REF(linear)(device, &linear);
    }
}

void KVC_REF(expert_sum)(struct kvc_device *device, const struct kvc_expert_sum *args) {
    KVC_ASSERT(kvc_span_holds(args->out, (uint64_t)args->rows * args->width));
    const uint32_t *pair = kvc_span_data(args->pair);
    const float *share = kvc_span_data(args->share), *y = kvc_span_data(args->y);
    const float *shared = args->shared.buffer ? kvc_span_data(args->shared) : NULL;
    const float *shared_logit = shared ? kvc_span_data(args->shared_logit) : NULL;
    float *out = kvc_span_data(args->out);
    (void)device;
    for (size_t i = 0; i < args->rows; i++)
        for (size_t n = 0; n < args->width; n++) {
            float sum = 0.0f;
            for (size_t j = i * args->used; j < (i + 1) * args->used; j++)
                sum = kvc_fma(share[j], y[(size_t)pair[j] * args->width + n], sum);
            if (shared)
                sum = kvc_fma(kvc_sigmoid(shared_logit[i]), shared[i * args->width + n], sum);
            out[i * args->width + n] = sum;
        }
}
