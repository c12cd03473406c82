/* linear.h - linear layers: the kernels a SIMD path brings, and the driver that shares a call out over threads.
 *
 * y[i, n] = sum over 32 lanes of x[i, k] * w[n, k] (+ bias[n]); only that order is law (core/base/ops.h). Three shapes:
 * one row (gemv): the lanes of a few outputs lie side by side in registers, and every weight is read once;
 * few rows: the same with several rows, weights widened once for all of them;
 * many rows (gemm): the lanes come one after another. Rows and outputs are packed lane by lane, an outer-product kernel
 * sums one lane of a tile of rows x outputs, and the partial sums are added in the order of the tree over the lanes. */
#ifndef KVC_SIMD_LINEAR_LINEAR_H
#define KVC_SIMD_LINEAR_LINEAR_H

#include "backends/cpu/simd/simd.h"

struct kvc_linear_call {
    float *y;               /* [rows, N] */
    const float *x;         /* [rows, K] */
    const float *bias;      /* [N] or NULL */
    const unsigned char *w; /* N rows of row_bytes */
    enum kvc_type type;
    size_t row_bytes, rows, K, N;
};

struct kvc_linear_kernels {
    size_t few;          /* up to this many rows are summed with lanes side by side */
    size_t tile_rows;    /* a tile of the packed shape */
    size_t tile_outputs; /* a panel of packed weights */

    /* Outputs first .. last - 1 of one row, or of at most `few` rows. Before one row's, its x may be written to scratch
     * in another order, which stays until all are done. */
    size_t (*gemv_scratch)(const struct kvc_linear_call *call); /* floats */
    void (*gemv_start)(struct kvc_linear_call *call, float *scratch);
    void (*gemv)(const struct kvc_linear_call *call, size_t first, size_t last);
    size_t (*small_batch_rows_scratch)(const struct kvc_linear_call *call); /* floats */
    void (*few_rows)(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch);

    /* Packs rows tile * tile_rows ... to where they belong in `packed`. */
    size_t (*packed_floats)(const struct kvc_linear_call *call);
    void (*pack_rows)(const struct kvc_linear_call *call, size_t tile, float *packed);
    /* One panel of outputs times the tiles first .. last - 1 of packed rows. */
    size_t (*panel_scratch)(const struct kvc_linear_call *call); /* floats */
    void (*panel)(const struct kvc_linear_call *call, size_t number, size_t first, size_t last, const float *packed,
                  float *scratch);
};

void kvc_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels, const struct kvc_linear *args);
void kvc_expert_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels,
                           const struct kvc_expert_linear *args);

#endif
