/* shared.h - constants that kernels and host code must agree on. It contains only macros. */
#ifndef KVC_BACKENDS_KERNELS_SHARED_H
#define KVC_BACKENDS_KERNELS_SHARED_H

/* The device's status words, 32 bits each. The next sync reads and clears them. */
#define KVC_STATUS_FAILURE 0u /* one of KVC_FAILED_*, followed by two numbers */
#define KVC_STATUS_SATURATED 3u
#define KVC_STATUS_READ 8u /* from this word on, each word counts the entries that one launch or one list reads */
#define KVC_STATUS_WORDS 65536u

#define KVC_FAILED_APPEND 1u   /* no free slot; the numbers are head and slots */
#define KVC_FAILED_EVICT 2u    /* no order; the numbers are head and 0 */
#define KVC_FAILED_RELAYOUT 3u /* too few slots; the numbers are entries and slots */

#define KVC_CHUNKS 16u /* maximum number of chunks of an arena */

/* Sizes that depend on the group or on KVC_WORKERS.
 *   KVC_GROUP_OF         Work-items in a group of group kernels, unless the host sets another number (KVC_GROUP).
 *   KVC_ITEMS_OF         Work-items in a group of the other kernels.
 *   KVC_PACK_X_OF        Rows in a block of packed x.
 *   KVC_PACK_W_OF        Rows in a block of packed w.
 *   KVC_EACH_OF          Outputs that a team computes one after another in the kernel linear.
 *   KVC_SMALL_BATCH      Rows that linear computes in one pass over the weights.
 *   KVC_EXPERT_ROWS_OF   Rows that expert_linear computes in one pass over the weights. */
#define KVC_GROUP_OF(workers) ((workers) == 1 ? 1u : 128u)
#define KVC_ITEMS_OF(group) ((group) == 1 ? 64u : (group))
#define KVC_PACK_X_OF(group) ((group) == 1 ? 8u : (group) / 4)
#define KVC_LOOP_OF(workers) ((workers) == 1 ? 128u : 8u) /* number of values per work-item of fma_loop */
#define KVC_RUN_OF(workers) ((workers) == 1 ? 32u : 1u)   /* number of neighbouring values that a work-item computes */
#define KVC_COPIED_OF(workers) ((workers) == 1 ? 512u : 1u)   /* the same for work-items that only copy */
#define KVC_CLEARED_OF(workers) ((workers) == 1 ? 1024u : 1u) /* the same for work-items that only clear */
#define KVC_COLUMNS_OF(workers) ((workers) == 1 ? 8u : 1u)    /* state columns that a work-item of keep_keys writes */
#define KVC_SMALL_BATCH 4u
#define KVC_EXPERT_ROWS_OF(workers) ((workers) == 1 ? 4u : 8u)
#define KVC_INT8_ROWS 4u           /* number of rows that linear_int8 computes in one pass over the weights */
#define KVC_INT8_FEW 8u            /* largest number of rows that the kernels for few rows compute */
#define KVC_INT8_MANY 16u          /* number of rows in one pass if there are more than KVC_INT8_FEW, on CPUs */
#define KVC_SMALL_INT8_OUTPUTS 16u /* number of outputs of a block, in CUDA's kernels for few rows */
#define KVC_EACH_OF(workers) ((workers) == 1 ? 8u : 1u)
#define KVC_PACK_W_OF(workers) ((workers) == 1 ? 32u : 64u)

/* Modes of the kernel `probabilities`: */
#define KVC_MASS 0u        /* writes column sums to scores */
#define KVC_RING 1u        /* writes a row of probabilities to state column first + position % ring */
#define KVC_RING_LOGITS 2u /* writes a row of scores to that column */
#define KVC_RING_LOW 3u    /* writes how many probabilities are below 1 / n; `low` [queries, kv_heads] holds 1 / n */
#define KVC_RING_COUNTS 6u /* writes probabilities, the counts of KVC_RING_LOW, and minus the sum of these counts */
#define KVC_ACCUMULATE 4u  /* adds to the state columns first and first + 1 */
#define KVC_MAXIMA 7u      /* writes column maxima to scores */
#define KVC_MOMENTS 5u     /* scores [H, stride] = fma(gamma, variance, mean); low [H, 2, stride]: the totals */

/* The values of enum kvc_pooling (kvcull/policy.h). The host checks that they agree. */
#define KVC_POOLS_MAX 0u
#define KVC_POOLS_CHUNKS 2u

/* The values of enum kvc_entry_kind (kvcull/policy.h), and one for the lengths of keys. The host checks that they
 * agree. */
#define KVC_ENTRIES_DRAW 0u
#define KVC_ENTRIES_NORM 1u
#define KVC_ENTRIES_APART 2u
#define KVC_ENTRIES_FILTER 3u
#define KVC_ENTRIES_LENGTH 4u

/* Values of enum kvc_share_kind (kvcull/policy.h). The host checks that they agree. */
#define KVC_SHARES_MEAN 2u
#define KVC_SHARES_PRODUCT 3u

/* The values of enum kvc_score_kind (core/base/ops.h). The host checks that they agree. */
#define KVC_UNITS_EXACT 0u
#define KVC_UNITS_CHANNELS 1u
#define KVC_UNITS_PAGE_CHANNELS 2u
#define KVC_UNITS_PAGE_BOUND 3u

#endif
