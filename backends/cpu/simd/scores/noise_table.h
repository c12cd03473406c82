/* noise_table.h - template: a table of keyformer's noise for the entries of a decode step. The noise depends only on
 * the seed, the layer, the query head and the key's position, and most entries were already there in the previous step.
 * So the table keeps the noise of each slot, together with the position for which it was computed. Changes of the lists
 * therefore cannot make it wrong. */
#ifndef KVC_SIMD_SCORES_NOISE_TABLE_H
#define KVC_SIMD_SCORES_NOISE_TABLE_H

#include "backends/cpu/simd/attention/entries.h"

#define NOISE_RECORDS 512u
#define NOISE_BYTES ((size_t)64 << 20) /* limit for the table; noise that does not fit is computed each time */

struct noise_record {
    const struct kvc_lists *lists;
    uint64_t seed;
    uint32_t layer, heads, kv_heads, slots; /* slots: number of slots of all heads together */
    size_t at;                              /* offset in `values` of [slots, 1 + G]: 1 + the position, then the noise */
};

struct noise_table {
    size_t used, capacity;    /* in floats */
    uint32_t records, missed; /* missed: number of lists for which the table was full */
    struct noise_record record[NOISE_RECORDS];
    float values[];
};

static struct noise_table *grow_noise(struct kvc_cpu *cpu, size_t floats) {
    const size_t bytes = sizeof(struct noise_table) + floats * sizeof(float);
    kvc_host_free(cpu->noise, cpu->noise_bytes);
    kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, -(int64_t)cpu->noise_bytes);
    cpu->noise_bytes = 0;
    cpu->noise = kvc_host_alloc(bytes);
    if (!cpu->noise)
        return NULL; /* not an error, because the table only saves time */
    cpu->noise_bytes = bytes;
    kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, (int64_t)bytes);
    ((struct noise_table *)cpu->noise)->capacity = floats;
    return cpu->noise;
}

/* Returns the memory for the lists' noise, or NULL. */
static float *noise_of(struct kvc_cpu *cpu, const struct kvc_lists *lists, uint32_t heads,
                       const struct kvc_noise *noise) {
    const uint32_t slots = lists->host_base[lists->kv_heads];
    const size_t floats = (size_t)slots * (1 + heads / lists->kv_heads);
    struct noise_table *table = cpu->noise;
    for (uint32_t i = 0; table && i < table->records; i++) {
        const struct noise_record *r = &table->record[i];
        if (r->lists == lists && r->seed == noise->seed && r->layer == noise->layer && r->heads == heads &&
            r->kv_heads == lists->kv_heads && r->slots == slots)
            return table->values + r->at;
    }
    if (!table || table->records == NOISE_RECORDS || floats > table->capacity - table->used) {
        const size_t had = table ? table->capacity : 0;
        const bool grows =
            had + floats <= NOISE_BYTES / 2 / sizeof(float) && (!table || table->records < NOISE_RECORDS);
        if (!grows && (!table || floats > table->capacity || table->missed++ < 4 * NOISE_RECORDS))
            return NULL;
        if (grows)
            table = grow_noise(cpu, 2 * had + 2 * floats);
        if (!table)
            return NULL;
        /* Discards all noise, because some of the lists may no longer exist. It is computed again when needed. */
        memset(table->values, 0, table->used * sizeof(float));
        table->used = table->records = table->missed = 0;
    }
    table->record[table->records++] =
        (struct noise_record){lists, noise->seed, noise->layer, heads, lists->kv_heads, slots, table->used};
    table->used += floats;
    return table->values + table->used - floats;
}

#endif
