/* select.h - what a decode step reads: what select methods keep beside the entries, and the choice. */
#ifndef KVC_CORE_ENGINE_SELECT_H
#define KVC_CORE_ENGINE_SELECT_H

#include "core/engine/growable.h"

struct kvc_session;

/* What select methods keep of a layer beside its entries, counted as state. */
struct kvc_select_layer {
    struct kvc_pages pages;
    struct kvc_read_list view; /* index NULL: none */
    uint32_t *view_count;      /* [lists], the host's copy */
    bool view_stale;           /* an eviction has made the view shorter than view_count says */
    struct kvc_buffer *sums;   /* float32 [lists, d]: values of all places added up */
    size_t page_bytes;
    size_t index_bytes;
    bool pages_right; /* false: to be made anew */
    bool sums_right;
    uint32_t fresh; /* entries that came since */
};

/* Of a session. */
struct kvc_select_state {
    struct kvc_select_layer *layer;    /* [layers] */
    struct kvc_growable read_index;    /* uint32 [lists, stride] */
    struct kvc_growable read_count;    /* uint32 [lists] */
    struct kvc_growable rest;          /* [H]: what attention sinks have of each query head's probabilities */
    struct kvc_growable scores;        /* float32 [lists, stride] */
    struct kvc_growable probabilities; /* float32 [H, stride] */
    struct kvc_growable alpha;         /* float32 [H]: the share of what is not read */
    struct kvc_read_list chosen;       /* by the row under way, in read_index and read_count */
    bool mixing;                       /* the row under way gets the mean value of what it does not read */
};

void kvc_select_close(struct kvc_session *session);
/* After an eviction that kept the indices `kept` of the layer's lists: renumbers the view's indices; pages and sums are
 * to be made anew. `to` is as for kvc_cache_evicted: within a step the view's counts on the host are stale, too. */
void kvc_select_evicted(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *kept,
                        struct kvc_span to);
bool kvc_select_is_stale(const struct kvc_session *session);
void kvc_select_take_counts(struct kvc_session *session, const uint32_t *counts); /* the words after the lists' */
void kvc_select_drop_view(struct kvc_session *session, uint32_t layer);
/* Capacity for one more entry in the layer's view; and, after it was appended to the lists: it joins the view. */
enum kvc_status kvc_select_reserve(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
void kvc_select_appended(struct kvc_session *session, uint32_t layer);
/* Before a step that will choose so: the buffers for it. *stride: that of its read lists; unchanged where it will read
 * everything. */
enum kvc_status kvc_select_prepare(struct kvc_session *session, uint32_t layer, const struct kvc_select *select,
                                   uint32_t *stride, struct kvc_error *error);
/* What is kept of a layer beside its entries, for a session that is to get the same. Pages and sums are made anew from
 * the entries by the next step that needs them. */
struct kvc_select_shape {
    uint32_t view_stride; /* 0: no view */
    uint32_t page, pages; /* entries of one, and how many there is memory for; 0: none */
    bool low, sums;
};
struct kvc_select_shape kvc_select_shape_of(const struct kvc_session *session, uint32_t layer);
/* view_counts [lists]: indices of each list in the view; the caller writes these. */
enum kvc_status kvc_select_lay_out(struct kvc_session *session, uint32_t layer, const struct kvc_select_shape *shape,
                                   const uint32_t *view_counts, struct kvc_error *error);
/* Mixes the mean value of what was not read into the row's attention output [H, d], where its method wants that. */
void kvc_select_mix(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                    struct kvc_span attended);

#endif
