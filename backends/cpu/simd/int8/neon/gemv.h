/* gemv.h - template: int8 products for few rows, with weights in the file's layout. Eight blocks of an output are
 * computed at a time: their sums form two vectors of integers, whose elements go to the eight lanes. */
#ifndef KVC_SIMD_INT8_NEON_GEMV_H
#define KVC_SIMD_INT8_NEON_GEMV_H

#include "backends/cpu/simd/int8/int8.h"
#include "backends/cpu/simd/int8/neon/products.h"
#include "backends/cpu/simd/int8/neon/unpack.h"

/* Reduces four sums for each of four blocks to one sum per block. */
INLINE int32x4_t reduce(const int32x4_t *part) {
    return vpaddq_s32(vpaddq_s32(part[0], part[1]), vpaddq_s32(part[2], part[3]));
}

/* Corrects four sums of products whose codes exceed the weights' quants by `offset`: subtracts `offset` times the four
 * sums of the activations, `quants`. */
INLINE int32x4_t without(int32x4_t sum, const kvc_i32 *quants, int offset) {
    return offset ? vmlsq_n_s32(sum, vld1q_s32(quants), offset) : sum;
}

/* Multiplies one group of an output's weights by one row's activations. */
INLINE void add_group(const enum kvc_type type, const struct unpacked *u, const struct kvc_int8_group *x,
                      float32x4_t *lane) {
    const int offset = code_offset(type), width = piece_width(type);
    UNROLL
    for (int h = 0; h < 2; h++) {
        const float32x4_t scale = vld1q_f32(x->scale + 4 * h);
        int32x4_t first[4], second[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            const int b = 4 * h + i;
            const int8x16_t q0 = vld1q_s8(x->quant + 32 * b), q1 = vld1q_s8(x->quant + 32 * b + 16);
            first[i] = dot16(vdupq_n_s32(0), u->quant[2 * b], q0);
            second[i] = dot16(width == 32 ? first[i] : vdupq_n_s32(0), u->quant[2 * b + 1], q1);
        }
        if (width == 32) {
            const int32x4_t sum = without(reduce(second), x->sum + 4 * h, offset);
            lane[h] = vf_fma(vf_mul(u->scale[0][h], scale), vf_from_int(sum), lane[h]);
            if (has_minimum(type))
                lane[h] = vf_fnma(u->minimum[0][h], vld1q_f32(x->scaled + 4 * h), lane[h]);
            continue;
        }
        UNROLL
        for (int s = 0; s < 2; s++) {
            const int32x4_t sum = without(reduce(s ? second : first), x->half[s] + 4 * h, offset);
            lane[h] = vf_fma(vf_mul(u->scale[s][h], scale), vf_from_int(sum), lane[h]);
            if (has_minimum(type))
                lane[h] = vf_fnma(u->minimum[s][h], vld1q_f32(x->half_scaled[s] + 4 * h), lane[h]);
        }
    }
}

/* Computes R rows from `row` on. R is a constant. */
INLINE void small_batch(const enum kvc_type type, const struct kvc_int8_call *call, size_t row, size_t first,
                        size_t last, const int R) {
    const size_t whole = call->K / 256, groups = (call->K + 255) / 256, step = (size_t)group_bytes(type);
    const size_t rest = call->K % 256 / 32;
    const unsigned char *w = call->w + first * call->row_bytes;
    for (size_t n = first; n < last; n++, w += call->row_bytes) {
        const struct kvc_int8_group *x = call->group + row * groups;
        const unsigned char *g = w;
        struct unpacked u;
        float32x4_t lane[4][2];
        UNROLL
        for (int r = 0; r < R; r++)
            lane[r][0] = lane[r][1] = vf_zero();
        for (size_t i = 0; i < whole; i++, g += step, x++) {
            unpack(type, &u, g, 8);
            UNROLL
            for (int r = 0; r < R; r++)
                add_group(type, &u, x + (size_t)r * groups, lane[r]);
        }
        if (rest) {
            unpack(type, &u, g, (int)rest);
            UNROLL
            for (int r = 0; r < R; r++) {
                const float32x4_t a0 = lane[r][0], a1 = lane[r][1];
                add_group(type, &u, x + (size_t)r * groups, lane[r]);
                lane[r][0] = vf_select(vm_first(rest), lane[r][0], a0);
                lane[r][1] = vf_select(vm_first(rest > 4 ? rest - 4 : 0), lane[r][1], a1);
            }
        }
        UNROLL
        for (int r = 0; r < R; r++) {
            const float sum = vf_tree(vf_add(lane[r][0], lane[r][1]));
            call->y[(row + (size_t)r) * call->N + n] = call->bias ? sum + call->bias[n] : sum;
        }
    }
}

#endif
