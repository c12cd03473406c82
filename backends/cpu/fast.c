/* fast.c - --math=fast: linear layers of many rows go to OpenBLAS. Same model, other rounding; few rows, where nothing
 * is gained, stay exact. Only built where OpenBLAS was found. */
#include <cblas.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"

void openblas_set_num_threads(int count); /* cblas.h has it only where it is OpenBLAS's own */

#define FAST_ROWS 16u     /* from so many rows on */
#define FAST_OUTPUTS 512u /* widened at a time */

struct widening {
    const struct kvc_weight *w;
    uint64_t first;
    float *to;
};

static void widen_one(void *argument, size_t task, unsigned thread) {
    const struct widening *s = argument;
    uint64_t K = s->w->inputs;
    (void)thread;
    kvc_ref_widen(s->w->type, s->w->data + (size_t)(s->first + task) * s->w->row_bytes, 0, K, s->to + task * K);
}

static void fast_linear(struct kvc_device *device, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                        struct kvc_span bias, uint32_t rows) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    size_t K = (size_t)w->inputs, N = (size_t)w->outputs;
    bool fits = K <= INT32_MAX && N <= INT32_MAX && rows <= INT32_MAX; /* OpenBLAS counts in int */
    if (rows < FAST_ROWS || !fits) {
        cpu->exact_linear(device, y, x, w, bias, rows);
        return;
    }
    float *out = kvc_span_data(y);
    struct widening s = {w, 0, kvc_cpu_scratch(cpu, 0, FAST_OUTPUTS * K * sizeof(float))};
    if (!s.to)
        return;
    for (; s.first < N; s.first += FAST_OUTPUTS) {
        size_t outputs = N - s.first < FAST_OUTPUTS ? N - (size_t)s.first : FAST_OUTPUTS;
        kvc_threads_run(cpu->threads, outputs, widen_one, &s);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)outputs, (int)K, 1.0f, kvc_span_data(x),
                    (int)K, s.to, (int)K, 0.0f, out + s.first, (int)N);
    }
    for (size_t i = 0; bias.buffer && i < rows; i++)
        for (size_t n = 0; n < N; n++)
            out[i * N + n] += ((const float *)kvc_span_data(bias))[n];
}

void kvc_cpu_fill_fast(struct kvc_cpu *cpu) {
    openblas_set_num_threads((int)kvc_threads_count(cpu->threads));
    cpu->exact_linear = cpu->table.linear;
    cpu->table.linear = fast_linear;
}
