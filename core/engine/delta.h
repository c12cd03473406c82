/* delta.h - gated delta nets (layers with a recurrent state instead of entries) and the output gate that attention has
 * in such models. */
#ifndef KVC_CORE_ENGINE_DELTA_H
#define KVC_CORE_ENGINE_DELTA_H

#include "core/engine/growable.h"
#include "core/engine/network.h"

struct kvc_runner;

/* float32 scratch for the rows of the current layer; H value heads of d_v channels, H_k query and key heads of d_k */
struct kvc_delta_scratch {
    struct kvc_growable raw;            /* [rows, largest width of q, k and v]: input of the convolution */
    struct kvc_growable q;              /* [rows, H_k, d_k] */
    struct kvc_growable k;              /* [rows, H_k, d_k] */
    struct kvc_growable v;              /* [rows, H, d_v] */
    struct kvc_growable gate;           /* [rows, H, d_v] */
    struct kvc_growable decay;          /* [rows, H] */
    struct kvc_growable beta;           /* [rows, H] */
    struct kvc_growable out;            /* [rows, H, d_v] */
    struct kvc_growable q_and_gate;     /* [rows, heads of attention, 2, d] */
    struct kvc_growable attention_gate; /* [rows, heads of attention, d] */
    /* uint32 [2, index_rows * heads]: indices of the queries, then of the gates, in q_and_gate */
    struct kvc_growable part;
    uint32_t index_rows;
};

void kvc_delta_set_kinds(struct kvc_delta_scratch *scratch);
void kvc_delta_free(struct kvc_device *device, struct kvc_delta_scratch *scratch);
/* Reserves scratch for `rows` rows. */
enum kvc_status kvc_delta_reserve(struct kvc_runner *runner, uint32_t rows, struct kvc_error *error);
/* Writes the output of the delta net for runner->normed [rows, hidden] to runner->projected. The segments' row numbers
 * apply to both buffers. */
void kvc_delta_mix(struct kvc_runner *runner, const struct kvc_layer *layer, const struct kvc_recurrence *segments,
                   size_t count, uint32_t rows);
/* Splits q_and_gate, in which each head's queries are followed by its gates, into runner->q_raw and attention_gate. */
void kvc_delta_part_queries(struct kvc_runner *runner, uint32_t rows);

#endif
