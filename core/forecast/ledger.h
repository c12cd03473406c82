/* ledger.h - counts the bytes of a cache in a dry run: lists grow, lose entries (are thinned) and shrink, but are never
 * allocated. */
#ifndef KVC_CORE_FORECAST_LEDGER_H
#define KVC_CORE_FORECAST_LEDGER_H

#include "core/base/ops.h"

struct kvc_ledger_layer {
    uint32_t heads; /* number of lists */
    uint32_t columns;
    uint64_t lists[2];  /* number of lists of each kind */
    uint64_t count[2];  /* entries per list of each kind */
    uint64_t each[2];   /* slots per list of each kind; unused if members > 0 */
    uint64_t step_most; /* as in struct kvc_cache_layer */
    /* Used if the model's activations decide how `pool` entries are divided among `members`: the lists of this layer
     * or, with by_layer, either layers whose lists are equally long, or the lists of several layers. `slots` is then
     * this layer's part of an upper bound. These members are unused if `members` is 0. */
    uint64_t members;
    uint64_t pool;
    bool by_layer;
    uint64_t slots;  /* slots of all lists together */
    uint64_t arrays; /* bytes of their tables */
    bool ordered;    /* the lists have order and positions */
    bool elsewhere;  /* another rank of a pipeline has the layer, so the layer counts no bytes */
    bool touched;    /* entries were evicted since the last shrink */
    bool thinned;    /* as in struct kvc_evictions */
};

struct kvc_ledger {
    uint64_t slot_bytes; /* bytes of a key and a value */
    uint32_t layers;
    struct kvc_ledger_layer *layer; /* [layers] */
    uint64_t cache;                 /* bytes */
    uint64_t state;                 /* bytes */
    uint64_t peak;                  /* largest sum of both */
};

enum kvc_status kvc_ledger_open(struct kvc_ledger *ledger, uint32_t layers, const struct kvc_entry_format *format,
                                struct kvc_error *error);
void kvc_ledger_close(struct kvc_ledger *ledger);

/* Count the bytes that kvc_cache_reserve, kvc_cache_make_order and kvc_cache_shrink allocate and free. */
void kvc_ledger_reserve(struct kvc_ledger *ledger, uint32_t layer, uint64_t rows);
void kvc_ledger_order(struct kvc_ledger *ledger, uint32_t layer);
void kvc_ledger_shrink(struct kvc_ledger *ledger, uint32_t layer, uint64_t surplus, bool in_step);
/* Allocates `more` bytes of a layer's state, then frees `less` bytes. */
void kvc_ledger_state(struct kvc_ledger *ledger, const struct kvc_ledger_layer *layer, uint64_t more, uint64_t less);
/* Bytes of a layer's tables for `slots` slots. */
uint64_t kvc_ledger_arrays(const struct kvc_ledger_layer *layer, uint64_t slots);

#endif
