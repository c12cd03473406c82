/* delta.h - the arithmetic of gated delta nets, layers whose memory is a matrix instead of entries. It extends canon.h:
 * C, OpenCL C and CUDA C include it, so it has only functions of values.
 *
 * A layer has H value heads of d_v channels and H_k query and key heads of d_k channels; H_k divides H. For each layer,
 * a session stores the recurrent state: for each value head a matrix S [d_v, d_k], and the last taps - 1 inputs of each
 * convolved channel. Both are 0 before the first row.
 *
 * Convolution of a channel at row i: s = fma(x[i - taps + 1 + t], w[t], s) over t = 0 .. taps - 1, ascending, from 0.
 * The result is kvc_silu(s).
 *
 * Recurrence of a value head, row by row, ascending: e = kvc_delta_decay(rate, a, bias), b = kvc_sigmoid(beta). q and k
 * are the row's query and key of the head's key head. For each row S[c] of the matrix (value channel c):
 *   S[c, j] = e * S[c, j]
 *   u = (v[c] - dot32(S[c], k)) * b
 *   S[c, j] = fma(k[j], u, S[c, j])
 *   out[c] = dot32(S[c], q).
 *
 * The rows of S are independent, so they may be computed in parallel. The rows of a session are computed in order and
 * never added to each other, so results do not depend on chunks of a prompt, threads or batches. */
#ifndef KVC_CORE_BASE_DELTA_H
#define KVC_CORE_BASE_DELTA_H

#if !defined(__OPENCL_VERSION__) /* OpenCL sources are concatenated, not included */
#include "core/base/canon.h"
#endif

#define KVC_DELTA_KEY_MOST 1024 /* limit of d_k */
#define KVC_DELTA_TAPS_MOST 16  /* limit of taps; the minimum is 2 */

/* ln(1 + exp(x)), or x itself above 20. The factor e / ((1 + e) - 1) corrects the rounding of 1 + e. */
KVC_INLINE float kvc_softplus(float x) {
    float e, u;
    if (x > 20.0f)
        return x;
    e = kvc_exp(x);
    u = 1.0f + e;
    return u == 1.0f ? e : kvc_log(u) * kvc_div(e, u - 1.0f);
}

/* Returns the factor of S in one step. `rate` must not be positive. */
KVC_INLINE float kvc_delta_decay(float rate, float a, float bias) { return kvc_exp(rate * kvc_softplus(a + bias)); }

#endif
