/* record.h - what a session tells of its decode steps: what each layer's attention gave, and what was read. */
#ifndef KVC_CORE_ENGINE_RECORD_H
#define KVC_CORE_ENGINE_RECORD_H

#include "core/base/ops.h"

struct kvc_session;

/* What the last decode step read, on the host: of one head. */
struct kvc_recorded {
    int32_t *positions; /* [count] */
    size_t count;
    size_t capacity;
};

/* Of a session. */
struct kvc_record {
    kvc_output_fn *output; /* NULL, or told what each layer's attention gives in a decode step */
    void *output_user;
    float *output_row;             /* [H, d] */
    bool reads;                    /* what is read is recorded, */
    struct kvc_recorded *recorded; /* [layers, H]: of a layer's lists, at most H */
};

void kvc_record_close(struct kvc_session *session);
/* Tells whoever watches what attention gave: a row [H, d]. */
void kvc_record_output(struct kvc_session *session, uint32_t layer, struct kvc_span attended);
/* Remembers what the step read of the layer: the reads, or all it holds (NULL). */
enum kvc_status kvc_record_reads(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                                 struct kvc_error *error);

#endif
