/* gemv_few.h - linear layers of few rows: as with one row, lanes side by side, the weights widened once for all rows.
 * Part of template.h. */

/* Weights of FEW_OUTPUTS outputs widened at a time, which stay in the first level; so far apart that those of one place
 * fall into different cache sets. */
#define STRETCH 1024
#define STRETCH_APART (STRETCH + LANES)

/* Rows are shared out evenly over blocks of at most FEW_ROWS. */
static size_t few_blocks(size_t rows) { return kvc_divide_up(rows, FEW_ROWS); }
static size_t few_block_row(size_t rows, size_t block) { return rows * block / few_blocks(rows); }

static size_t few_rows_scratch(const struct kvc_linear_call *call) {
    /* widened weights; lanes of every sum [rows, FEW_OUTPUTS, 32]; x in the order of few_pack */
    return FEW_OUTPUTS * STRETCH_APART + call->rows * (FEW_OUTPUTS * KVC_LANES + kvc_round_up(call->K, KVC_LANES));
}

/* x as it is read: [block][vector of lanes][k / 32][row of the block][LANES], filled up to whole groups of 32. */
static void few_pack(const struct kvc_linear_call *call, float *to) {
    const size_t groups = kvc_divide_up(call->K, KVC_LANES);
    float last[KVC_LANES];
    for (size_t block = 0; block < few_blocks(call->rows); block++) {
        const size_t first = few_block_row(call->rows, block), rows = few_block_row(call->rows, block + 1) - first;
        for (size_t row = 0; row < rows; row++) {
            const float *x = call->x + (first + row) * call->K;
            for (size_t g = 0; g < groups; g++) {
                const float *group = x + g * KVC_LANES;
                if (call->K - g * KVC_LANES < KVC_LANES) {
                    for (size_t l = 0; l < KVC_LANES; l++)
                        last[l] = g * KVC_LANES + l < call->K ? group[l] : FILL_X;
                    group = last;
                }
                UNROLL
                for (int v = 0; v < LANE_VECTORS; v++)
                    vf_store(to + (((size_t)v * groups + g) * rows + row) * LANES, vf_load(group + v * LANES));
            }
        }
        to += rows * groups * KVC_LANES;
    }
}

/* Bytes that are prefetched meanwhile: `step` further with each group. */
struct few_ahead {
    const unsigned char *a, *b;
    size_t step;
};

/* One vector of lanes, so that many sums fit in registers: lanes [rows, FEW_OUTPUTS, 32] += x [groups, rows, LANES]
 * times w [FEW_OUTPUTS, groups, 32]. */
INLINE void few_block(const int rows, float *lanes, const float *x, const float *w, size_t groups,
                      struct few_ahead ahead) {
    vf acc[FEW_ROWS][FEW_OUTPUTS];
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int j = 0; j < FEW_OUTPUTS; j++)
        acc[i][j] = vf_load(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES);
    for (size_t g = 0; g < groups; g++) {
        vf wv[FEW_OUTPUTS];
        __builtin_prefetch(ahead.a, 0, 2); /* not into the first level: it holds what is used now */
        __builtin_prefetch(ahead.b, 0, 2);
        ahead.a += ahead.step;
        ahead.b += ahead.step;
        UNROLL
        for (int j = 0; j < FEW_OUTPUTS; j++)
            wv[j] = vf_load(w + g * KVC_LANES + j * STRETCH_APART);
        UNROLL
        for (int i = 0; i < rows; i++) {
            vf xv = vf_load(x + (g * (size_t)rows + (size_t)i) * LANES);
            UNROLL
            for (int j = 0; j < FEW_OUTPUTS; j++)
                acc[i][j] = vf_fma(xv, wv[j], acc[i][j]);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int j = 0; j < FEW_OUTPUTS; j++)
        vf_store(lanes + (i * FEW_OUTPUTS + j) * KVC_LANES, acc[i][j]);
}

#define FEW_FUNCTION(rows)                                                                                             \
    static void few_block_##rows(float *lanes, const float *x, const float *w, size_t groups, struct few_ahead ahead) { \
        few_block(rows, lanes, x, w, groups, ahead);                                                                   \
    }
#define FEW_ENTRY(rows) [rows] = few_block_##rows,
FEW_EVERY(FEW_FUNCTION)
static void (*const few_block_by_rows[FEW_ROWS + 1])(float *, const float *, const float *, size_t,
                                                     struct few_ahead) = {FEW_EVERY(FEW_ENTRY)};

/* Groups k0 / 32 ... of all rows times `groups` of the widened weights. What is widened next, of the same or of the
 * next outputs, is prefetched, evenly: two outputs' with each vector of lanes until all have been. */
static void few_stretch(const struct kvc_linear_call *call, float *lanes, const float *x, const float *w, size_t k0,
                        size_t groups, const unsigned char *const *ahead) {
    const size_t all = kvc_divide_up(call->K, KVC_LANES);
    size_t fetched = 0;
    for (size_t block = 0; block < few_blocks(call->rows); block++) {
        const size_t first = few_block_row(call->rows, block), rows = few_block_row(call->rows, block + 1) - first;
        for (size_t v = 0; v < LANE_VECTORS; v++, fetched += 2) {
            struct few_ahead next = {call->w, call->w, 0};
            if (fetched < FEW_OUTPUTS)
                next = (struct few_ahead){ahead[fetched], ahead[kvc_min_u64(fetched + 1, FEW_OUTPUTS - 1)],
                                          widen_by_type[call->type].bytes / (GROUP / KVC_LANES)};
            few_block_by_rows[rows](lanes + first * FEW_OUTPUTS * KVC_LANES + v * LANES,
                                    x + (first * KVC_LANES + v * rows * LANES) * all + k0 / KVC_LANES * rows * LANES,
                                    w + v * LANES, groups, next);
        }
    }
}

static void few_rows(const struct kvc_linear_call *call, size_t first, size_t last, float *scratch) {
    const size_t rows = call->rows, K = call->K;
    float *lanes = scratch + FEW_OUTPUTS * STRETCH_APART, *x = lanes + rows * FEW_OUTPUTS * KVC_LANES;
    few_pack(call, x);
    for (size_t n = first; n < last; n += FEW_OUTPUTS) {
        memset(lanes, 0, rows * FEW_OUTPUTS * KVC_LANES * sizeof(float));
        for (size_t k = 0; k < K; k += STRETCH) {
            const size_t depth = kvc_min_u64(STRETCH, K - k);
            const unsigned char *ahead[FEW_OUTPUTS];
            for (size_t j = 0; j < FEW_OUTPUTS; j++) {
                const size_t output = kvc_min_u64(n + j, last - 1), next = kvc_min_u64(n + FEW_OUTPUTS + j, last - 1);
                ahead[j] = k + STRETCH < K ? stretch_at(call, output, k + STRETCH) : stretch_at(call, next, 0);
                widen_stretch(call, scratch + j * STRETCH_APART, output, k, depth);
            }
            few_stretch(call, lanes, x, scratch, k, kvc_divide_up(depth, KVC_LANES), ahead);
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
