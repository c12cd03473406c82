/* ledger.h - the bytes that cache.c would count, without a cache: lists grow, are thinned and shrink in a dry run. */
#ifndef KVC_CORE_FORECAST_LEDGER_H
#define KVC_CORE_FORECAST_LEDGER_H

#include "core/base/ops.h"

struct kvc_ledger_layer {
    uint32_t heads; /* lists of entries */
    uint32_t columns;
    uint64_t lists[2];  /* two kinds of lists: how many there are, */
    uint64_t count[2];  /* what each of them holds, */
    uint64_t each[2];   /* and its slots, where members is 0 */
    uint64_t step_most; /* as in struct kvc_cache_layer */
    /* where data decides how `pool` entries fall to `members`, the lists of this layer, or (by_layer) layers of which
     * each list holds as much: slots are then the most that they may need; members 0: it does not */
    uint64_t members;
    uint64_t pool;
    bool by_layer;
    uint64_t slots;  /* of all lists */
    uint64_t arrays; /* bytes of their tables */
    bool ordered;    /* with order and positions */
    bool elsewhere;  /* another rank of a pipeline has it: nothing is counted */
    bool touched;    /* evicted from since it was last looked at */
    bool thinned;    /* as in struct kvc_evictions */
};

struct kvc_ledger {
    uint64_t slot_bytes; /* a key and a value */
    uint32_t layers;
    struct kvc_ledger_layer *layer; /* [layers] */
    uint64_t cache;                 /* bytes */
    uint64_t state;                 /* bytes */
    uint64_t peak;                  /* the most of both together */
};

enum kvc_status kvc_ledger_open(struct kvc_ledger *ledger, uint32_t layers, const struct kvc_entry_format *format,
                                struct kvc_error *error);
void kvc_ledger_close(struct kvc_ledger *ledger);

/* As kvc_cache_reserve, kvc_cache_make_order and kvc_cache_shrink (many: blocks). */
void kvc_ledger_reserve(struct kvc_ledger *ledger, uint32_t layer, uint64_t rows);
void kvc_ledger_order(struct kvc_ledger *ledger, uint32_t layer);
void kvc_ledger_shrink(struct kvc_ledger *ledger, uint32_t layer, uint64_t surplus, uint64_t many);
/* `more` bytes of a layer's state come, then `less` go. */
void kvc_ledger_state(struct kvc_ledger *ledger, const struct kvc_ledger_layer *layer, uint64_t more, uint64_t less);
/* Bytes of a layer's tables for so many slots. */
uint64_t kvc_ledger_arrays(const struct kvc_ledger_layer *layer, uint64_t slots);

#endif
