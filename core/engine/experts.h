/* experts.h - mixture-of-experts feed-forward networks: the router, the experts and their weighted sum. */
#ifndef KVC_CORE_ENGINE_EXPERTS_H
#define KVC_CORE_ENGINE_EXPERTS_H

#include "core/engine/growable.h"
#include "core/engine/network.h"

struct kvc_runner;

/* Scratch for the rows of the current layer; pairs = rows * used. */
struct kvc_experts_scratch {
    struct kvc_growable logits;       /* [rows, E]: the router's logits */
    struct kvc_growable expert;       /* uint32 [rows, used] */
    struct kvc_growable share;        /* [rows, used]: routing weights */
    struct kvc_growable pair;         /* uint32 [rows, used] */
    struct kvc_growable row;          /* uint32 [pairs] */
    struct kvc_growable first;        /* uint32 [E + 1] */
    struct kvc_growable x;            /* [pairs, hidden]: the rows sorted by expert, then the experts' outputs */
    struct kvc_growable gate;         /* [pairs, expert_feed] */
    struct kvc_growable up;           /* [pairs, expert_feed] */
    struct kvc_growable shared;       /* [rows, hidden]: output of the shared expert */
    struct kvc_growable shared_logit; /* [rows]: logit of the shared expert's weight */
};

void kvc_experts_set_kinds(struct kvc_experts_scratch *scratch);
void kvc_experts_free(struct kvc_device *device, struct kvc_experts_scratch *scratch);
enum kvc_status kvc_experts_reserve(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error);
/* Writes the experts' output for runner->normed to runner->projected [rows, hidden]. */
void kvc_experts_forward(struct kvc_runner *runner, const struct kvc_layer *layer, uint32_t rows);

#endif
