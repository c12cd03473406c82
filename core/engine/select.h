/* select.h - chooses the entries that a decode step reads, and maintains the data that select methods keep in addition
 * to the entries. */
#ifndef KVC_CORE_ENGINE_SELECT_H
#define KVC_CORE_ENGINE_SELECT_H

#include "core/engine/growable.h"

struct kvc_session;

/* The data that select methods keep for a layer; they count as state. */
struct kvc_select_layer {
    struct kvc_pages pages;
    struct kvc_read_list view; /* index NULL: no view */
    uint32_t *view_count;      /* [lists]: host copy of view.count */
    bool view_stale;           /* an eviction has made the view shorter than view_count says */
    struct kvc_buffer *sums;   /* float32 [lists, d]: sum of the values of all entries that a head may choose from */
    size_t page_bytes;
    size_t index_bytes;
    bool pages_right; /* false: must be rebuilt */
    bool sums_right;
    uint32_t fresh; /* number of entries appended since the last update */
};

/* A session's selection state. */
struct kvc_select_state {
    struct kvc_select_layer *layer;    /* [layers] */
    struct kvc_growable read_index;    /* uint32 [lists, stride] */
    struct kvc_growable read_count;    /* uint32 [lists] */
    struct kvc_growable rest;          /* [H]: attention probability of each query head's sink */
    struct kvc_growable scores;        /* float32 [lists, stride] */
    struct kvc_growable probabilities; /* float32 [H, stride] */
    struct kvc_growable alpha;         /* float32 [H]: the attention probability of the read entries */
    struct kvc_read_list chosen;       /* the current row's choice, in read_index and read_count */
    bool mixing;                       /* the mean value of the unread entries is mixed into the current row */
};

void kvc_select_close(struct kvc_session *session);
/* Updates the layer after an eviction that kept the indices `kept`: renumbers the view's indices and marks pages and
 * sums for rebuilding. `to` is as for kvc_cache_evicted. Within a step the host's view counts become stale, too. */
void kvc_select_evicted(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *kept,
                        struct kvc_span to);
/* Marks pages for rebuilding after keys of the layer have changed. */
void kvc_select_keys_changed(struct kvc_session *session, uint32_t layer);
bool kvc_select_is_stale(const struct kvc_session *session);
/* Updates the host's view counts from `counts`, the words of runner->counts that follow the counts of the lists. */
void kvc_select_take_counts(struct kvc_session *session, const uint32_t *counts);
void kvc_select_drop_view(struct kvc_session *session, uint32_t layer);
/* kvc_select_reserve reserves room for one more entry in the layer's view. kvc_select_appended adds the entry to the
 * view after it was appended to the lists. */
enum kvc_status kvc_select_reserve(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
void kvc_select_appended(struct kvc_session *session, uint32_t layer);
/* Reserves the buffers for a step that will select as `select` describes. *stride receives the stride of its read
 * lists. It is unchanged if the step will read everything. */
enum kvc_status kvc_select_prepare(struct kvc_session *session, uint32_t layer, const struct kvc_select *select,
                                   uint32_t *stride, struct kvc_error *error);
/* The sizes of a layer's selection data, to create the same data in another session. The next step that needs pages and
 * sums rebuilds them from the entries. */
struct kvc_select_shape {
    uint32_t view_stride; /* 0: no view */
    uint32_t page, pages; /* entries per page, and number of pages allocated; 0: none */
    bool low, sums;
};
struct kvc_select_shape kvc_select_shape_of(const struct kvc_session *session, uint32_t layer);
/* Creates the data of `shape`. view_counts [lists] is the number of indices in each list's view; the caller writes the
 * indices. */
enum kvc_status kvc_select_lay_out(struct kvc_session *session, uint32_t layer, const struct kvc_select_shape *shape,
                                   const uint32_t *view_counts, struct kvc_error *error);
/* Mixes the mean value of the unread entries into the row's attention output [H, d], if the method wants it. */
void kvc_select_mix(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                    struct kvc_span attended);

#endif
