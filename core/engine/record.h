/* record.h - lets observers see a session's decode steps: each layer's attention output, and the entries that were
 * read. */
#ifndef KVC_CORE_ENGINE_RECORD_H
#define KVC_CORE_ENGINE_RECORD_H

#include "core/base/ops.h"

struct kvc_session;

/* The positions that the last decode step read in one head, on the host. */
struct kvc_recorded {
    int32_t *positions; /* [count] */
    size_t count;
    size_t capacity;
};

/* A session's observers. */
struct kvc_record {
    kvc_output_fn *output; /* NULL, or called with each layer's attention output in a decode step */
    void *output_user;
    float *output_row;             /* [H, d] */
    bool reads;                    /* true: the entries read are recorded */
    struct kvc_recorded *recorded; /* [layers, H]; a layer has at most H lists */
};

void kvc_record_close(struct kvc_session *session);
/* Passes the attention output, a row [H, d], to the observer. */
void kvc_record_output(struct kvc_session *session, uint32_t layer, struct kvc_span attended);
/* Records which entries of the layer the step read. If reads is NULL, the step read all of them. */
enum kvc_status kvc_record_reads(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                                 struct kvc_error *error);

#endif
