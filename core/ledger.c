/* ledger.c - counts on paper what cache.c counts (core/ledger.h). */
#include "core/ledger.h"

#include <stdlib.h>

enum kvc_status kvc_ledger_open(struct kvc_ledger *ledger, uint32_t layers, const struct kvc_entry_format *format,
                                struct kvc_error *error) {
    *ledger = (struct kvc_ledger){.slot_bytes = 2ull * format->row_bytes, .layers = layers};
    ledger->layer = calloc(layers, sizeof *ledger->layer);
    return ledger->layer ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "estimate: no memory for %u layers", layers);
}

void kvc_ledger_close(struct kvc_ledger *ledger) { free(ledger->layer); }

static uint64_t in_blocks(uint64_t entries) { return (entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE; }

/* Slots of all lists where data decides what each holds: of all members but one the last block holds one entry. */
static uint64_t slots_at_most(const struct kvc_ledger_layer *layer, uint64_t more) {
    const uint64_t all = layer->pool + layer->members * (more + KVC_TILE - 1);
    const uint64_t slots = all / KVC_TILE * KVC_TILE;
    return layer->by_layer ? slots * layer->heads / layer->members + 1 : slots;
}

uint64_t kvc_ledger_arrays(const struct kvc_ledger_layer *layer, uint64_t slots) {
    const uint64_t each = (layer->ordered ? 8ull : 0) + 4ull * layer->columns; /* order, position; columns */
    return 4ull * (2ull * layer->heads + 1) + slots / KVC_TILE * 4 + slots * each;
}

static void note_peak(struct kvc_ledger *ledger) {
    if (ledger->cache + ledger->state > ledger->peak)
        ledger->peak = ledger->cache + ledger->state;
}

void kvc_ledger_state(struct kvc_ledger *ledger, uint64_t more, uint64_t less) {
    ledger->state += more;
    note_peak(ledger);
    ledger->state -= less;
}

/* Old and new tables exist side by side; new blocks come before old ones go. Lists of different length get their blocks
 * one after the other: the last ones beside all of those before it. */
static void relayout(struct kvc_ledger *ledger, struct kvc_ledger_layer *layer, uint64_t slots) {
    const uint64_t arrays = kvc_ledger_arrays(layer, slots),
                   block = layer->by_layer ? layer->heads * KVC_TILE : KVC_TILE;
    const bool apart = layer->members && slots > layer->slots + block;
    const uint64_t more = apart ? kvc_ledger_arrays(layer, slots - block) - layer->arrays : 0;
    if (slots > layer->slots)
        ledger->cache += (slots - layer->slots) * ledger->slot_bytes;
    kvc_ledger_state(ledger, arrays + more, layer->arrays + more);
    if (slots < layer->slots)
        ledger->cache -= (layer->slots - slots) * ledger->slot_bytes;
    layer->slots = slots;
    layer->arrays = arrays;
}

void kvc_ledger_reserve(struct kvc_ledger *ledger, uint32_t l, uint64_t rows) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    uint64_t slots = layer->members ? slots_at_most(layer, rows) : 0;
    for (int i = 0; i < 2 && !layer->members; i++) {
        const uint64_t need = in_blocks(layer->count[i] + rows);
        layer->each[i] = need > layer->each[i] ? need : layer->each[i];
        slots += layer->lists[i] * layer->each[i];
    }
    if (slots > layer->slots)
        relayout(ledger, layer, slots);
}

void kvc_ledger_order(struct kvc_ledger *ledger, uint32_t l) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    if (layer->ordered)
        return;
    layer->ordered = true;
    kvc_ledger_state(ledger, layer->slots * 8, 0);
    layer->arrays += layer->slots * 8;
}

void kvc_ledger_shrink(struct kvc_ledger *ledger, uint32_t l, uint64_t surplus, uint64_t spare) {
    struct kvc_ledger_layer *layer = &ledger->layer[l];
    uint64_t slots = layer->members ? slots_at_most(layer, surplus) : 0, each[2];
    bool worth = layer->members && spare <= KVC_TILE && slots < layer->slots;
    for (int i = 0; i < 2 && !layer->members; i++) {
        const uint64_t need = in_blocks(layer->count[i] + surplus);
        each[i] = need < layer->each[i] ? need : layer->each[i];
        worth = worth || (layer->lists[i] && layer->each[i] - each[i] >= spare);
        slots += layer->lists[i] * each[i];
    }
    if (!layer->ordered || !worth)
        return;
    for (int i = 0; i < 2 && !layer->members; i++)
        layer->each[i] = each[i];
    relayout(ledger, layer, slots);
}
