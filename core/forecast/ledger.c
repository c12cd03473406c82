/* ledger.c - counts bytes as cache.c would (core/forecast/ledger.h). */
#include "core/forecast/ledger.h"
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/cache.h"

#include <stdlib.h>

enum kvc_status kvc_ledger_open(struct kvc_ledger *ledger, uint32_t layers, const struct kvc_entry_format *format,
                                struct kvc_error *error) {
    *ledger = (struct kvc_ledger){.slot_bytes = kvc_entry_bytes(format), .layers = layers};
    ledger->layer = calloc(layers, sizeof *ledger->layer);
    return ledger->layer ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "estimate: no memory for %u layers", layers);
}

void kvc_ledger_close(struct kvc_ledger *ledger) { free(ledger->layer); }

/* Returns an upper bound of the slots of all lists if the model's activations decide their lengths: in the worst case,
 * the last block of every member except one holds a single entry. */
static uint64_t slots_at_most(const struct kvc_ledger_layer *layer, uint64_t more) {
    const uint64_t all = layer->pool + layer->members * (more + KVC_BLOCK - 1);
    KVC_ASSERT(layer->members > 0);
    const uint64_t slots = all / KVC_BLOCK * KVC_BLOCK;
    return layer->by_layer ? slots * layer->heads / layer->members + 1 : slots;
}

uint64_t kvc_ledger_arrays(const struct kvc_ledger_layer *layer, uint64_t slots) {
    const uint64_t each = (layer->ordered ? 8ull : 0) + 4ull * layer->columns; /* order and position, then columns */
    return 4ull * (2ull * layer->heads + 1) + 4ull * (slots / KVC_BLOCK + layer->heads) + slots * each;
}

static void note_peak(struct kvc_ledger *ledger) {
    if (ledger->cache + ledger->state > ledger->peak)
        ledger->peak = ledger->cache + ledger->state;
}

void kvc_ledger_state(struct kvc_ledger *ledger, const struct kvc_ledger_layer *layer, uint64_t more, uint64_t less) {
    if (layer->elsewhere)
        return;
    ledger->state += more;
    note_peak(ledger);
    KVC_ASSERT(ledger->state >= less);
    ledger->state -= less;
}

/* Counts a relayout. Old and new tables exist at the same time, and `added` new slots are allocated before `freed` old
 * ones are freed. Lists of different lengths get their blocks one after another, so the last list's blocks exist next
 * to all earlier ones. */
static void relayout(struct kvc_ledger *ledger, struct kvc_ledger_layer *layer, uint64_t slots, uint64_t added,
                     uint64_t freed) {
    const uint64_t arrays = kvc_ledger_arrays(layer, slots),
                   block = layer->by_layer ? layer->heads * KVC_BLOCK : KVC_BLOCK;
    const bool apart = layer->members && slots > layer->slots + block;
    const uint64_t more = apart ? kvc_ledger_arrays(layer, slots - block) - layer->arrays : 0;
    ledger->cache += layer->elsewhere ? 0 : added * ledger->slot_bytes;
    kvc_ledger_state(ledger, layer, arrays + more, layer->arrays + more);
    KVC_ASSERT(layer->elsewhere || ledger->cache >= freed * ledger->slot_bytes);
    ledger->cache -= layer->elsewhere ? 0 : freed * ledger->slot_bytes;
    layer->slots = slots;
    layer->arrays = arrays;
}

/* Counts a relayout of lists whose lengths depend on the model's activations. */
static void relayout_pool(struct kvc_ledger *ledger, struct kvc_ledger_layer *layer, uint64_t slots) {
    const uint64_t had = layer->slots;
    relayout(ledger, layer, slots, slots > had ? slots - had : 0, slots < had ? had - slots : 0);
}

static uint64_t in_blocks(uint64_t slots) { return slots - slots % KVC_BLOCK; }

/* Gives each list of a kind each[kind] slots. */
static void relayout_each(struct kvc_ledger *ledger, struct kvc_ledger_layer *layer, const uint64_t each[2]) {
    uint64_t slots = 0, added = 0, freed = 0;
    for (int i = 0; i < 2; i++) {
        const uint64_t then = each[i], had = layer->each[i], kept = in_blocks(kvc_min_u64(then, had));
        KVC_ASSERT(kept <= had && kept <= then);
        slots += layer->lists[i] * then;
        if (then != had) { /* an extra slot counts as one entry */
            added += layer->lists[i] * (in_blocks(then) - kept + (then % KVC_BLOCK > 0));
            freed += layer->lists[i] * (in_blocks(had) - kept + (had % KVC_BLOCK > 0));
        }
        layer->each[i] = each[i];
    }
    relayout(ledger, layer, slots, added, freed);
}

void kvc_ledger_reserve(struct kvc_ledger *ledger, uint32_t l, uint64_t rows) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    uint64_t each[2];
    bool enough = true;
    if (layer->members) {
        if (slots_at_most(layer, rows) > layer->slots)
            relayout_pool(ledger, layer, slots_at_most(layer, rows));
        return;
    }
    for (int i = 0; i < 2; i++) {
        const uint64_t need = kvc_cache_slots(layer->count[i] + rows, layer->step_most);
        each[i] = kvc_max_u64(need, layer->each[i]);
        enough = enough && (each[i] == layer->each[i] || !layer->lists[i]);
    }
    if (!enough)
        relayout_each(ledger, layer, each);
}

void kvc_ledger_order(struct kvc_ledger *ledger, uint32_t l) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    if (layer->ordered)
        return;
    layer->ordered = true;
    kvc_ledger_state(ledger, layer, layer->slots * 8, 0);
    layer->arrays += layer->slots * 8;
}

void kvc_ledger_shrink(struct kvc_ledger *ledger, uint32_t l, uint64_t surplus, bool in_step) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    uint64_t each[2];
    bool worth = false;
    if (layer->members) {
        const uint64_t most = slots_at_most(layer, surplus);
        if (!in_step && most < layer->slots) {
            relayout_pool(ledger, layer, most);
        } else if (!in_step) { /* activations decide whether it shrinks; old and new tables then exist together */
            const uint64_t fewer = layer->slots - kvc_min_u64(layer->slots, KVC_BLOCK);
            const uint64_t tables = kvc_ledger_arrays(layer, fewer);
            kvc_ledger_state(ledger, layer, tables, tables);
        }
        return;
    }
    for (int i = 0; i < 2; i++) {
        const uint64_t entries = kvc_max_u64(layer->count[i] + surplus, in_step ? layer->step_most : 0);
        each[i] = kvc_min_u64(kvc_cache_slots(entries, layer->step_most), layer->each[i]);
        worth = worth || (layer->lists[i] && layer->each[i] / KVC_BLOCK > each[i] / KVC_BLOCK);
    }
    if (worth)
        relayout_each(ledger, layer, each);
}
