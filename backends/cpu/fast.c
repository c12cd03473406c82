/* fast.c - --math=fast: OpenBLAS computes the linear layers of batches with many rows. The model is the same, but the
 * rounding differs. Batches with few rows gain nothing from OpenBLAS and stay exact. OpenBLAS is loaded only for
 * --math=fast, so exact runs pay neither for its memory nor for its threads. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"
#include "core/base/library.h"

#if defined(KVC_OPENBLAS)

#define FAST_ROWS 16u     /* the smallest batch that OpenBLAS computes */
#define FAST_OUTPUTS 512u /* number of outputs that are dequantized at a time */

struct widening {
    const struct kvc_weight *w;
    uint64_t first;
    float *to;
};

static void dequantize_one(void *argument, size_t task, unsigned thread) {
    const struct widening *s = argument;
    uint64_t K = s->w->inputs;
    (void)thread;
    kvc_ref_dequantize(s->w->type, s->w->data + (size_t)(s->first + task) * s->w->row_bytes, 0, K, s->to + task * K);
}

static void linear(struct kvc_device *device, const struct kvc_linear *args) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    const struct kvc_weight *w = args->w;
    const size_t K = (size_t)w->inputs, N = (size_t)w->outputs, rows = args->rows;
    bool fits = K <= INT32_MAX && N <= INT32_MAX && rows <= INT32_MAX; /* OpenBLAS takes sizes as int */
    if (rows < FAST_ROWS || !fits) {
        cpu->exact_linear(device, args);
        return;
    }
    float *out = kvc_span_data(args->y);
    struct widening s = {w, 0, kvc_cpu_scratch(cpu, 0, FAST_OUTPUTS * K * sizeof(float))};
    if (!s.to)
        return;
    for (; s.first < N; s.first += FAST_OUTPUTS) {
        size_t outputs = N - s.first < FAST_OUTPUTS ? N - (size_t)s.first : FAST_OUTPUTS;
        kvc_threads_run(cpu->threads, outputs, dequantize_one, &s);
        cpu->sgemm(101, 111, 112, (int)rows, (int)outputs, (int)K, 1.0f, kvc_span_data(args->x), (int)K, s.to, (int)K,
                   0.0f, out + s.first, (int)N); /* 101: row-major, 111: x not transposed, 112: weights transposed */
    }
    for (size_t i = 0; args->bias.buffer && i < rows; i++)
        for (size_t n = 0; n < N; n++)
            out[i * N + n] += ((const float *)kvc_span_data(args->bias))[n];
}

enum kvc_status kvc_cpu_fill_fast(struct kvc_cpu *cpu, struct kvc_error *error) {
    char why[200] = "it lacks a function";
    void (*set_threads)(int);
    void *library = kvc_library_open(KVC_LIBRARY_OPENBLAS, why, sizeof why);
    if (!library || !kvc_library_find(library, "cblas_sgemm", &cpu->sgemm) ||
        !kvc_library_find(library, "openblas_set_num_threads", &set_threads))
        return kvc_fail(error, KVC_RESOURCE, "math=fast needs OpenBLAS (%s); use exact, the default", why);
    set_threads((int)kvc_threads_count(cpu->threads));
    cpu->exact_linear = cpu->table.linear;
    cpu->table.linear = linear;
    return KVC_OK;
}

#else

enum kvc_status kvc_cpu_fill_fast(struct kvc_cpu *cpu, struct kvc_error *error) {
    (void)cpu;
    return kvc_fail(error, KVC_RESOURCE,
                    "math=fast needs OpenBLAS, which is not in this build; use exact, the default");
}

#endif
