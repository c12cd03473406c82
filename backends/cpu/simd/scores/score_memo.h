/* score_memo.h - template: stores the last attention call's scores of each segment that has one row, for policies that
 * need the row's probabilities right after the call. Without the memo, ring_write would compute each score a second
 * time.
 *
 * A record is valid only for a bit-identical query and the same, unchanged lists. Every operation that changes lists
 * invalidates their record. A record has the row's scores for all entries, by index. */
#ifndef KVC_SIMD_SCORES_SCORE_MEMO_H
#define KVC_SIMD_SCORES_SCORE_MEMO_H

#include "backends/cpu/simd/attention/entries.h"

#define MEMO_BYTES ((size_t)4 << 20) /* limit for the size of the memo; scores of longer rows are computed again */

struct score_record {
    const struct kvc_lists *lists; /* NULL: the record is not valid */
    uint32_t heads, head_size, stride;
    struct kvc_scoring scoring;
    size_t count, q, scores; /* offsets in `values` of [H_kv] as uint32, of [H, d], and of [H, stride] */
};

struct score_memo {
    size_t records;
    float *values;
    struct score_record record[];
};

/* leaves room for one more vector */
INLINE uint32_t memo_stride(uint32_t count) { return (count + 2 * LANES) / LANES * LANES; }

/* Returns a memo for `records` records and `values` floats, with all records invalid. Returns NULL if that exceeds the
 * limit. */
static struct score_memo *memo_open(struct kvc_cpu *cpu, size_t records, size_t values) {
    const size_t front = (sizeof(struct score_memo) + records * sizeof(struct score_record) + 63) / 64 * 64;
    const size_t bytes = front + values * sizeof(float);
    struct score_memo *memo = cpu->memo;
    if (memo)
        memo->records = 0;
    if (records == 0 || bytes > MEMO_BYTES)
        return NULL;
    if (bytes > cpu->memo_bytes) {
        const size_t more = bytes + bytes / 4; /* room to grow, because lists grow by one entry per step */
        kvc_host_free(cpu->memo, cpu->memo_bytes);
        kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, -(int64_t)cpu->memo_bytes);
        cpu->memo_bytes = 0;
        cpu->memo = kvc_host_alloc(more);
        if (!cpu->memo)
            return NULL; /* not an error, because the memo only saves time */
        cpu->memo_bytes = more;
        kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, (int64_t)more);
    }
    memo = cpu->memo;
    memo->values = (float *)(void *)((unsigned char *)cpu->memo + front);
    memo->records = records;
    for (size_t i = 0; i < records; i++)
        memo->record[i].lists = NULL;
    return memo;
}

/* Invalidates a record. Must be called if the lists change or are freed. */
static inline void memo_forget(const struct kvc_cpu *cpu, const struct kvc_lists *lists) {
    struct score_memo *memo = cpu->memo;
    for (size_t i = 0; memo && i < memo->records; i++)
        if (memo->record[i].lists == lists)
            memo->record[i].lists = NULL;
}

/* Returns the scores [H, *stride] of the only query for all entries of its lists, or NULL if the memo does not have
 * them. */
static const float *memo_find(const struct kvc_cpu *cpu, const struct kvc_probabilities *rows, uint32_t *stride) {
    const struct score_memo *memo = cpu->memo;
    const struct kvc_lists *lists = rows->lists;
    const uint32_t heads = rows->heads, head_size = rows->head_size;
    const float *q = kvc_span_data(rows->q);
    for (size_t i = 0; memo && i < memo->records; i++) {
        const struct score_record *record = &memo->record[i];
        if (record->lists != lists || record->heads != heads || record->head_size != head_size ||
            record->scoring.scale != rows->scoring.scale || record->scoring.cap != rows->scoring.cap ||
            record->scoring.integers != rows->scoring.integers ||
            memcmp(memo->values + record->count, lists->count->data, lists->kv_heads * sizeof(uint32_t)) != 0 ||
            memcmp(memo->values + record->q, q, (size_t)heads * head_size * sizeof *q) != 0)
            continue;
        *stride = record->stride;
        return memo->values + record->scores;
    }
    return NULL;
}

#endif
