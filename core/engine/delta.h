/* delta.h - gated delta nets: layers with a recurrent state in place of entries, and the gate of attention that comes
 * with them. */
#ifndef KVC_CORE_ENGINE_DELTA_H
#define KVC_CORE_ENGINE_DELTA_H

#include "core/engine/growable.h"
#include "core/engine/network.h"

struct kvc_runner;

/* float32, of the rows that pass a layer; H value heads of d_v channels, H_k query and key heads of d_k */
struct kvc_delta_scratch {
    struct kvc_growable raw;            /* [rows, the widest of q, k and v]: before it is convolved */
    struct kvc_growable q;              /* [rows, H_k, d_k] */
    struct kvc_growable k;              /* [rows, H_k, d_k] */
    struct kvc_growable v;              /* [rows, H, d_v] */
    struct kvc_growable gate;           /* [rows, H, d_v] */
    struct kvc_growable decay;          /* [rows, H] */
    struct kvc_growable beta;           /* [rows, H] */
    struct kvc_growable out;            /* [rows, H, d_v] */
    struct kvc_growable q_and_gate;     /* [rows, heads of attention, 2, d] */
    struct kvc_growable attention_gate; /* [rows, heads of attention, d] */
    struct kvc_growable part; /* uint32 [2, index_rows * heads]: where queries lie in q_and_gate, then gates */
    uint32_t index_rows;
};

void kvc_delta_set_kinds(struct kvc_delta_scratch *scratch);
void kvc_delta_free(struct kvc_device *device, struct kvc_delta_scratch *scratch);
/* Scratch for so many rows at once. */
enum kvc_status kvc_delta_reserve(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error);
/* runner->projected = the delta net of runner->normed [rows, hidden]; rows of the segments are those of both. */
void kvc_delta_mix(struct kvc_runner *runner, const struct kvc_layer *layer, const struct kvc_recurrence *segments,
                   size_t count, uint32_t rows);
/* runner->q_raw and attention_gate from q_and_gate, in which they lie head by head. */
void kvc_delta_part_queries(struct kvc_runner *runner, uint32_t rows);

#endif
