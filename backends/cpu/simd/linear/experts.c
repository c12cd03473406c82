/* experts.c - divides the linear layers of experts among threads. Experts with few rows run at the same time, and the
 * outputs of each are divided into a few parts. Experts with many rows run one after another, each divided like any
 * linear layer. */
#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/simd/linear/linear.h"
#include "core/base/integers.h"

struct experts {
    struct kvc_cpu *cpu;
    const struct kvc_linear_kernels *kernels;
    struct kvc_linear_call *call; /* [count]: the experts with few rows */
    size_t count, parts;          /* parts: number of parts into which each call's outputs are divided */
    size_t ordered, scratch;      /* ordered: floats of one call's reordered x; scratch: floats of scratch memory per
                                   * thread */
    float *own;                   /* thread 0's scratch memory */
};

static struct kvc_linear_call call_of(const struct kvc_expert_linear *args, uint32_t e) {
    const struct kvc_weight *w = args->w;
    const uint32_t *first = kvc_span_data(args->first);
    const size_t N = w->outputs, K = w->inputs;
    return (struct kvc_linear_call){.y = (float *)kvc_span_data(args->y) + first[e] * N,
                                    .x = (const float *)kvc_span_data(args->x) + first[e] * K,
                                    .bias = args->bias.buffer ? (const float *)kvc_span_data(args->bias) + e * N : NULL,
                                    .w = w->expert[e],
                                    .type = w->type,
                                    .row_bytes = w->row_bytes,
                                    .rows = first[e + 1] - first[e],
                                    .K = K,
                                    .N = N};
}

static bool is_small(const struct kvc_linear_kernels *kernels, size_t rows) {
    return rows == 1 || (rows > 1 && rows <= kernels->few);
}

static void part_task(void *argument, size_t task, unsigned thread) {
    struct experts *s = argument;
    const struct kvc_linear_call *call = &s->call[task / s->parts];
    const size_t part = task % s->parts, first = call->N * part / s->parts, last = call->N * (part + 1) / s->parts;
    if (first == last)
        return;
    if (call->rows == 1) {
        s->kernels->gemv(call, first, last);
        return;
    }
    float *scratch = thread == 0 ? s->own : kvc_cpu_scratch(s->cpu, thread, s->scratch * sizeof(float));
    if (scratch)
        s->kernels->few_rows(call, first, last, scratch);
}

/* Runs all experts with few rows. Thread 0's scratch memory holds the calls, then each call's x in another order if the
 * type needs that, then the thread's own scratch memory. */
static void run_small(struct experts *s, const struct kvc_expert_linear *args) {
    const uint32_t *rows = kvc_span_data(args->first);
    const size_t threads = kvc_threads_count(s->cpu->threads);
    size_t count = 0;
    for (uint32_t e = 0; e < args->experts; e++) {
        const struct kvc_linear_call call = call_of(args, e);
        if (!is_small(s->kernels, rows[e + 1] - rows[e]))
            continue;
        const size_t scratch = call.rows == 1 ? 0 : s->kernels->small_batch_rows_scratch(&call);
        s->scratch = kvc_max_u64(scratch, s->scratch);
        s->ordered = s->kernels->gemv_scratch(&call);
        count++;
    }
    if (count == 0)
        return;
    const size_t calls = kvc_round_up(count * sizeof *s->call, 64), ordered = kvc_round_up(s->ordered, 16);
    unsigned char *own = kvc_cpu_scratch(s->cpu, 0, calls + (count * ordered + s->scratch) * sizeof(float));
    if (!own)
        return;
    s->call = (struct kvc_linear_call *)(void *)own;
    s->own = (float *)(void *)(own + calls) + count * ordered;
    for (uint32_t e = 0; e < args->experts; e++) {
        if (!is_small(s->kernels, rows[e + 1] - rows[e]))
            continue;
        s->call[s->count] = call_of(args, e);
        if (s->call[s->count].rows == 1)
            s->kernels->gemv_start(&s->call[s->count], (float *)(void *)(own + calls) + s->count * ordered);
        s->count++;
    }
    KVC_ASSERT(s->count == count);
    const size_t outputs = kvc_divide_up(s->call->N, 64), wanted = threads == 1 ? 1 : kvc_divide_up(4 * threads, count);
    s->parts = kvc_min_u64(wanted, outputs);
    kvc_threads_run(s->cpu->threads, count * s->parts, part_task, s);
}

void kvc_expert_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels,
                           const struct kvc_expert_linear *args) {
    struct experts s = {.cpu = cpu, .kernels = kernels};
    const uint32_t *first = kvc_span_data(args->first);
    if (args->w->outputs == 0)
        return;
    KVC_ASSERT(first[0] == 0 && first[args->experts] == args->pairs);
    run_small(&s, args);
    for (uint32_t e = 0; e < args->experts; e++) {
        const uint32_t rows = first[e + 1] - first[e];
        if (rows == 0 || is_small(kernels, rows))
            continue;
        const struct kvc_weight w = KVC_EXPERT_WEIGHT(args->w, e);
        struct kvc_linear linear = {args->y, args->x, &w, args->bias, rows};
        linear.y.offset += first[e] * (size_t)w.outputs * sizeof(float);
        linear.x.offset += first[e] * (size_t)w.inputs * sizeof(float);
        linear.bias.offset += e * (size_t)w.outputs * sizeof(float);
        kvc_linear_run(cpu, kernels, &linear);
    }
}
