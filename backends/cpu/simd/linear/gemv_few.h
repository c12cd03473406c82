/* gemv_few.h - linear layers of few rows: as with one row, lanes side by side, the weights widened once for all rows.
 * Part of template.h. */

/* Weights of FEW_OUTPUTS outputs widened at a time: they stay in the first level. Fewer with very few rows, so that
 * prefetching never pauses for long. */
#define STRETCH 1024
#define STRETCH_SHORT GROUP

static size_t few_rows_scratch(const struct kvc_linear_call *call) {
    /* widened weights; lanes of every sum [rows, FEW_OUTPUTS, 32]; the last, filled up 32 values of every row */
    return FEW_OUTPUTS * STRETCH + call->rows * FEW_OUTPUTS * KVC_LANES + call->rows * KVC_LANES;
}

/* lanes [rows, FEW_OUTPUTS, 32] += x [rows of x_stride] times w [FEW_OUTPUTS of w_stride], `groups` times 32 deep. One
 * vector of lanes at a time, so that many sums fit in registers. */
INLINE void few_block(const int rows, float *lanes, const float *x, size_t x_stride, const float *w, size_t w_stride,
                      size_t groups) {
    for (size_t lane = 0; lane < KVC_LANES; lane += LANES) {
        vf acc[FEW_ROWS][FEW_OUTPUTS];
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
        for (int j = 0; j < FEW_OUTPUTS; j++)
            acc[i][j] = vf_load(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + lane);
        for (size_t g = 0; g < groups; g++) {
            const float *xg = x + g * KVC_LANES + lane, *wg = w + g * KVC_LANES + lane;
            vf xv[FEW_ROWS];
            UNROLL
            for (int i = 0; i < rows; i++)
                xv[i] = vf_load(xg + (size_t)i * x_stride);
            UNROLL
            for (int j = 0; j < FEW_OUTPUTS; j++) {
                vf wv = vf_load(wg + (size_t)j * w_stride);
                UNROLL
                for (int i = 0; i < rows; i++)
                    acc[i][j] = vf_fma(xv[i], wv, acc[i][j]);
            }
        }
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
        for (int j = 0; j < FEW_OUTPUTS; j++)
            vf_store(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + lane, acc[i][j]);
    }
}

static void few_all(size_t rows, float *lanes, const float *x, size_t x_stride, const float *w, size_t w_stride,
                    size_t groups) {
    if (groups == 0)
        return;
    for (; rows >= FEW_ROWS; rows -= FEW_ROWS) {
        few_block(FEW_ROWS, lanes, x, x_stride, w, w_stride, groups);
        lanes += FEW_ROWS * FEW_OUTPUTS * KVC_LANES;
        x += FEW_ROWS * x_stride;
    }
    switch (rows) { /* FEW_ROWS is at most 4 */
    case 3:
        few_block(3, lanes, x, x_stride, w, w_stride, groups);
        break;
    case 2:
        few_block(2, lanes, x, x_stride, w, w_stride, groups);
        break;
    case 1:
        few_block(1, lanes, x, x_stride, w, w_stride, groups);
        break;
    default:
        break;
    }
}

static void few_rows(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch) {
    size_t rows = call->rows, K = call->K, tail = K % KVC_LANES;
    float *widened = scratch, *lanes = widened + FEW_OUTPUTS * STRETCH;
    float *x_tail = lanes + rows * FEW_OUTPUTS * KVC_LANES;
    size_t stretch = rows <= 4 ? STRETCH_SHORT : STRETCH;
    for (size_t i = 0; tail && i < rows; i++) {
        for (size_t l = 0; l < KVC_LANES; l++)
            x_tail[i * KVC_LANES + l] = l < tail ? call->x[i * K + K - tail + l] : FILL_X;
    }
    for (size_t n = first; n < last; n += FEW_OUTPUTS) {
        memset(lanes, 0, rows * FEW_OUTPUTS * KVC_LANES * sizeof(float));
        for (size_t k = 0; k < K; k += stretch) {
            size_t depth = kvc_min_u64(stretch, K - k), whole = depth / KVC_LANES;
            for (size_t j = 0; j < FEW_OUTPUTS; j++) {
                size_t output = kvc_min_u64(n + j, last - 1), next = kvc_min_u64(n + FEW_OUTPUTS + j, call->N - 1);
                widen_stretch(call, widened + j * STRETCH, output, k, depth,
                              k + stretch < K ? stretch_at(call, output, k + stretch) : stretch_at(call, next, 0));
            }
            few_all(rows, lanes, call->x + k, K, widened, STRETCH, whole);
            if (depth % KVC_LANES)
                few_all(rows, lanes, x_tail, KVC_LANES, widened + whole * KVC_LANES, STRETCH, 1);
        }
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < FEW_OUTPUTS && n + j < last; j++) {
                vf side_by_side[LANE_VECTORS];
                for (size_t v = 0; v < LANE_VECTORS; v++)
                    side_by_side[v] = vf_load(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES + v * LANES);
                float sum = sum_lanes(side_by_side);
                call->y[i * call->N + n + j] = call->bias ? sum + call->bias[n + j] : sum;
            }
        }
    }
}
