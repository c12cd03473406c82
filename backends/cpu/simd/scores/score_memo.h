/* score_memo.h - template: the scores of the last attention call's single rows, for the probabilities that policies
 * want right after it: ring_write would otherwise compute each score a second time.
 *
 * A record is used only for the same lists, unchanged since (every operation that changes lists forgets theirs), and
 * for a query of the same bits. It holds the row's scores with all entries, by index. */
#ifndef KVC_SIMD_SCORES_SCORE_MEMO_H
#define KVC_SIMD_SCORES_SCORE_MEMO_H

#include "backends/cpu/simd/attention/entries.h"

#define MEMO_BYTES ((size_t)4 << 20) /* at most; longer rows are computed again */

struct score_record {
    const struct kvc_lists *lists; /* NULL: forgotten */
    uint32_t heads, head_size, stride;
    struct kvc_scoring scoring;
    size_t count, q, scores; /* where they lie in `values`: [H_kv] as uint32, [H, d], [H, stride] */
};

struct score_memo {
    size_t records;
    float *values;
    struct score_record record[];
};

INLINE uint32_t memo_stride(uint32_t count) { return (count + 2 * LANES) / LANES * LANES; } /* and one vector */

/* A memo for `records` records and so many values, all records unset; NULL where that is too much. */
static struct score_memo *memo_open(struct kvc_cpu *cpu, size_t records, size_t values) {
    const size_t front = (sizeof(struct score_memo) + records * sizeof(struct score_record) + 63) / 64 * 64;
    const size_t bytes = front + values * sizeof(float);
    struct score_memo *memo = cpu->memo;
    if (memo)
        memo->records = 0;
    if (records == 0 || bytes > MEMO_BYTES)
        return NULL;
    if (bytes > cpu->memo_bytes) {
        const size_t more = bytes + bytes / 4; /* lists grow by one entry a step */
        kvc_host_free(cpu->memo, cpu->memo_bytes);
        kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, -(int64_t)cpu->memo_bytes);
        cpu->memo_bytes = 0;
        cpu->memo = kvc_host_alloc(more);
        if (!cpu->memo)
            return NULL; /* it only saves time */
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

/* The lists have changed, or may be gone. */
static inline void memo_forget(const struct kvc_cpu *cpu, const struct kvc_lists *lists) {
    struct score_memo *memo = cpu->memo;
    for (size_t i = 0; memo && i < memo->records; i++)
        if (memo->record[i].lists == lists)
            memo->record[i].lists = NULL;
}

/* The scores [H, *stride] of the rows' one query with all entries of their lists, or NULL. */
static const float *memo_find(const struct kvc_cpu *cpu, const struct kvc_probabilities *rows, uint32_t *stride) {
    const struct score_memo *memo = cpu->memo;
    const struct kvc_lists *lists = rows->lists;
    const uint32_t heads = rows->heads, head_size = rows->head_size;
    const float *q = kvc_span_data(rows->q);
    for (size_t i = 0; memo && i < memo->records; i++) {
        const struct score_record *record = &memo->record[i];
        if (record->lists != lists || record->heads != heads || record->head_size != head_size ||
            record->scoring.scale != rows->scoring.scale || record->scoring.cap != rows->scoring.cap ||
            memcmp(memo->values + record->count, lists->count->data, lists->kv_heads * sizeof(uint32_t)) != 0 ||
            memcmp(memo->values + record->q, q, (size_t)heads * head_size * sizeof *q) != 0)
            continue;
        *stride = record->stride;
        return memo->values + record->scores;
    }
    return NULL;
}

#endif
