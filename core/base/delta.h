/* delta.h - the arithmetic of gated delta nets, layers whose memory is a matrix instead of entries. Part of canon.h:
 * read by C, OpenCL C and CUDA C alike, functions of values alone.
 *
 * A layer has H value heads of d_v channels and H_k query and key heads of d_k channels, H_k dividing H. A session
 * keeps for each layer its recurrent state: for each value head a matrix S [d_v, d_k], and the last taps - 1 inputs of
 * each channel that is convolved. Both are 0 before the first row.
 *
 * Convolution, of a channel at row i: s = fma(x[i - taps + 1 + t], w[t], s) over t = 0 .. taps - 1 ascending, from 0;
 * the result is kvc_silu(s).
 *
 * Recurrence, row by row, ascending, of a value head: e = kvc_delta_decay(rate, a, bias), b = kvc_sigmoid(beta). Of
 * each row S[c] of the matrix (value channel c), with the row's query q and key k of the head's key head:
 *   S[c, j] = e * S[c, j]
 *   u = (v[c] - dot32(S[c], k)) * b
 *   S[c, j] = fma(k[j], u, S[c, j])
 *   out[c] = dot32(S[c], q)
 *
 * The rows of S do not meet, so they may be computed anywhere; rows of a session never are out of order, and none is
 * put into a sum with another: chunks of a prompt, threads and batches change no bit. */
#ifndef KVC_CORE_BASE_DELTA_H
#define KVC_CORE_BASE_DELTA_H

#if !defined(__OPENCL_VERSION__) /* OpenCL sources are joined, not included */
#include "core/base/canon.h"
#endif

#define KVC_DELTA_KEY_MOST 1024 /* d_k */
#define KVC_DELTA_TAPS_MOST 16  /* and at least 2 */

/* ln(1 + exp(x)); x itself above 20. What rounding takes from 1 + e is made good by e / ((1 + e) - 1). */
KVC_INLINE float kvc_softplus(float x) {
    float e, u;
    if (x > 20.0f)
        return x;
    e = kvc_exp(x);
    u = 1.0f + e;
    return u == 1.0f ? e : kvc_log(u) * kvc_div(e, u - 1.0f);
}

/* What S is multiplied by; rate is not above 0. */
KVC_INLINE float kvc_delta_decay(float rate, float a, float bias) { return kvc_exp(rate * kvc_softplus(a + bias)); }

#endif
