/* pairs.h - rows and their experts: chooses experts from a row's logits, and numbers the pairs. Everything here is
 * integer arithmetic, shared by all instruction sets. */
#ifndef KVC_BACKENDS_CPU_REF_PAIRS_H
#define KVC_BACKENDS_CPU_REF_PAIRS_H

#include <string.h>

#include "backends/cpu/cpu.h"

/* Writes the indices of the `used` largest values of x [E] to `chosen`, ascending. */
static inline void kvc_choose_experts(const float *x, uint32_t experts, uint32_t used, uint32_t *chosen) {
    kvc_u32 key[KVC_EXPERTS_MOST];
    unsigned char taken[KVC_EXPERTS_MOST];
    uint32_t n = 0;
    memset(taken, 0, experts);
    for (uint32_t e = 0; e < experts; e++)
        key[e] = kvc_score_key(x[e]);
    for (uint32_t i = 0; i < used; i++) {
        uint32_t best = 0;
        while (taken[best])
            best++;
        for (uint32_t e = best + 1; e < experts; e++)
            if (!taken[e] && key[e] > key[best])
                best = e;
        taken[best] = 1;
    }
    for (uint32_t e = 0; n < used; e++)
        if (taken[e])
            chosen[n++] = e;
}

/* Numbers the pairs: computes the members `pair`, `row` and `first` of kvc_route from its member `expert`. */
static inline void kvc_number_pairs(const struct kvc_route *args) {
    const uint32_t *expert = kvc_span_data(args->expert), pairs = args->rows * args->used;
    uint32_t *pair = kvc_span_data(args->pair), *row = kvc_span_data(args->row), *first = kvc_span_data(args->first);
    memset(first, 0, (args->experts + 1) * sizeof *first);
    for (uint32_t i = 0; i < pairs; i++)
        first[expert[i] + 1]++;
    for (uint32_t e = 0; e < args->experts; e++)
        first[e + 1] += first[e];
    for (uint32_t i = 0; i < pairs; i++) { /* after this loop, first[e] has the old value of first[e + 1] */
        pair[i] = first[expert[i]]++;
        row[pair[i]] = i / args->used;
    }
    memmove(first + 1, first, args->experts * sizeof *first);
    first[0] = 0;
}

static inline struct kvc_int16_packed kvc_expert_packed(const struct kvc_weight *w, uint32_t e) {
    const size_t before = e * (size_t)w->outputs;
    return w->packed.quant ? (struct kvc_int16_packed){w->packed.quant + before * (size_t)w->inputs,
                                                       w->packed.scale + before * kvc_int16_blocks(w->inputs)}
                           : w->packed;
}
/* The initializer of a kvc_weight: the matrix of expert e, where w holds the matrices of all experts. */
#define KVC_EXPERT_WEIGHT(w, e)                                                                                        \
    {                                                                                                                  \
        .type = (w)->type, .outputs = (w)->outputs, .inputs = (w)->inputs, .row_bytes = (w)->row_bytes,                \
        .data = (w)->expert[e], .packed = kvc_expert_packed(w, e)                                                      \
    }

/* Returns the linear layer of expert e for its pairs. *w receives the expert's matrix. */
static inline struct kvc_linear_int8 kvc_int8_expert(const struct kvc_expert_linear_int8 *args, uint32_t e,
                                                     struct kvc_weight *w) {
    const uint32_t *first = kvc_span_data(args->first);
    *w = (struct kvc_weight)KVC_EXPERT_WEIGHT(args->w, e);
    struct kvc_linear_int8 linear = {args->y, kvc_int8_rows_from(args->x, first[e], w->inputs), w, args->bias,
                                     first[e + 1] - first[e]};
    linear.y.offset += first[e] * (size_t)w->outputs * sizeof(float);
    linear.bias.offset += e * (size_t)w->outputs * sizeof(float);
    return linear;
}

/* Does the same for int16. */
static inline struct kvc_linear_int16 kvc_int16_expert(const struct kvc_expert_linear_int16 *args, uint32_t e,
                                                       struct kvc_weight *w) {
    const uint32_t *first = kvc_span_data(args->first);
    *w = (struct kvc_weight)KVC_EXPERT_WEIGHT(args->w, e);
    struct kvc_linear_int16 linear = {args->y, kvc_int16_rows_from(args->x, first[e], w->inputs), w, args->bias,
                                      first[e + 1] - first[e]};
    linear.y.offset += first[e] * (size_t)w->outputs * sizeof(float);
    linear.bias.offset += e * (size_t)w->outputs * sizeof(float);
    return linear;
}

#endif
