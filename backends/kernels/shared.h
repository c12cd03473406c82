/* shared.h - numbers that kernels and their host side agree on. Macros only. */
#ifndef KVC_BACKENDS_KERNELS_SHARED_H
#define KVC_BACKENDS_KERNELS_SHARED_H

/* The device's status words: 32 bits each, read and cleared by the next sync. */
#define KVC_STATUS_FAILURE 0u /* one of KVC_FAILED_*, followed by two numbers */
#define KVC_STATUS_SATURATED 3u
#define KVC_STATUS_READ 8u /* from here on: entries read, one word for each list or launch that is counted */
#define KVC_STATUS_WORDS 65536u

#define KVC_FAILED_APPEND 1u   /* no free slot: head, slots */
#define KVC_FAILED_EVICT 2u    /* no order: head, 0 */
#define KVC_FAILED_RELAYOUT 3u /* too few slots: entries, slots */

#define KVC_CHUNKS 16u /* of an arena */

/* Work-items in a group of group kernels, unless the host says otherwise (KVC_GROUP); by that: in a group of the other
 * kernels, rows in a block of packed x. By KVC_WORKERS: rows in a block of packed w; outputs that a team of linear
 * makes one after another; rows of one pass of expert_linear over the weights (KVC_EXPERT_ROWS). KVC_SMALL_BATCH: rows
 * of one pass of linear over them. */
#define KVC_GROUP_OF(workers) ((workers) == 1 ? 1u : 128u)
#define KVC_ITEMS_OF(group) ((group) == 1 ? 64u : (group))
#define KVC_PACK_X_OF(group) ((group) == 1 ? 8u : (group) / 4)
#define KVC_LOOP_OF(workers) ((workers) == 1 ? 128u : 8u)     /* values of a work-item of fma_loop */
#define KVC_RUN_OF(workers) ((workers) == 1 ? 32u : 1u)       /* neighbouring values that a work-item makes */
#define KVC_COPIED_OF(workers) ((workers) == 1 ? 512u : 1u)   /* the same where they are only copied */
#define KVC_CLEARED_OF(workers) ((workers) == 1 ? 1024u : 1u) /* and where they are cleared */
#define KVC_COLUMNS_OF(workers) ((workers) == 1 ? 8u : 1u)    /* state columns of a work-item of keep_keys */
#define KVC_SMALL_BATCH 4u
#define KVC_EXPERT_ROWS_OF(workers) ((workers) == 1 ? 4u : 8u)
#define KVC_INT8_ROWS 4u  /* rows of one pass of linear_int8 over the weights */
#define KVC_INT8_FEW 8u   /* up to so many rows that way */
#define KVC_INT8_MANY 16u /* more rows on CPUs: so many in a pass */
#define KVC_EACH_OF(workers) ((workers) == 1 ? 8u : 1u)
#define KVC_PACK_W_OF(workers) ((workers) == 1 ? 32u : 64u)

/* What probabilities makes of the rows. */
#define KVC_MASS 0u        /* column sums into scores */
#define KVC_RING 1u        /* a row into state column first + position % ring: of probabilities, */
#define KVC_RING_LOGITS 2u /* of scores, */
#define KVC_RING_LOW 3u    /* of how many probabilities are below 1 / n, which `low` holds [queries, kv_heads], */
#define KVC_RING_COUNTS 6u /* or of probabilities, then of such counts, and minus the sum of these */
#define KVC_ACCUMULATE 4u  /* onto state columns first and first + 1 */
#define KVC_MAXIMA 7u      /* column maxima into scores */
#define KVC_MOMENTS 5u /* scores [H, stride] = fma(gamma, variance, mean); low [H, 2, stride]: the indices' totals */

/* enum kvc_pooling (kvcull/policy.h); the host checks that they agree. */
#define KVC_POOLS_MAX 0u
#define KVC_POOLS_CHUNKS 2u

/* enum kvc_entry_kind (kvcull/policy.h), and the lengths of keys; the host checks that they agree. */
#define KVC_ENTRIES_DRAW 0u
#define KVC_ENTRIES_NORM 1u
#define KVC_ENTRIES_APART 2u
#define KVC_ENTRIES_LENGTH 3u

/* enum kvc_score_kind (core/base/ops.h); the host checks that they agree. */
#define KVC_UNITS_EXACT 0u
#define KVC_UNITS_CHANNELS 1u
#define KVC_UNITS_PAGE_CHANNELS 2u
#define KVC_UNITS_PAGE_BOUND 3u

#endif
