/* linear.h - linear layers: the kernels that a SIMD instruction set provides, and the driver that divides a call among
 * threads.
 *
 * y[i, n] = sum over 32 lanes of x[i, k] * w[n, k] (+ bias[n]). Kernels may differ in everything except the order of
 * this sum (core/base/ops.h). There are three kinds of kernels:
 * - One row (gemv): the lanes of a few outputs lie side by side in registers, and every weight is read once.
 * - Few rows (small batch): as for one row, but weights are dequantized once for all rows.
 * - Many rows (gemm): the lanes are computed one after another. Rows and outputs are packed lane by lane. An
 *   outer-product kernel sums one lane of a tile of rows x outputs. The partial sums are added in the order of the tree
 *   over the lanes. */
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
    size_t few;          /* the largest number of rows that few_rows computes */
    size_t tile_rows;    /* number of rows of a packed tile */
    size_t tile_outputs; /* number of outputs of a packed panel */

    /* gemv computes outputs `first` .. `last` - 1 of one row; few_rows computes them for at most `few` rows. Before
     * gemv, gemv_start may write x in another order to scratch memory. That memory must not change until all outputs
     * are computed. */
    size_t (*gemv_scratch)(const struct kvc_linear_call *call); /* in floats */
    void (*gemv_start)(struct kvc_linear_call *call, float *scratch);
    void (*gemv)(const struct kvc_linear_call *call, size_t first, size_t last);
    size_t (*small_batch_rows_scratch)(const struct kvc_linear_call *call); /* in floats */
    void (*few_rows)(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch);

    /* Packs the rows of one tile, from row tile * tile_rows on, into `packed`. */
    size_t (*packed_floats)(const struct kvc_linear_call *call);
    void (*pack_rows)(const struct kvc_linear_call *call, size_t tile, float *packed);
    /* Multiplies one panel of outputs by the tiles `first` .. `last` - 1 of packed rows. */
    size_t (*panel_scratch)(const struct kvc_linear_call *call); /* in floats */
    void (*panel)(const struct kvc_linear_call *call, size_t number, size_t first, size_t last, const float *packed,
                  float *scratch);
};

void kvc_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels, const struct kvc_linear *args);
void kvc_expert_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels,
                           const struct kvc_expert_linear *args);

#endif
