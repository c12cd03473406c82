/* int8.c - divides linear layers with activations of 8 or 15 bits among threads. Each instruction set has its own
 * kernels. */
#include <string.h>

#include "backends/cpu/ref/pairs.h"
#include "backends/cpu/simd/int8/int8.h"
#include "core/base/integers.h"

struct job {
    struct kvc_cpu *cpu;
    const struct kvc_int8_kernels *kernels;
    const struct kvc_quantize_rows *quantize;
    const struct kvc_quantize_rows_int16 *wide_quantize;
    struct kvc_int8_call call;
    size_t parts;        /* number of tasks. When quantizing, a task is a part of the rows; for few rows, a part of the
                          * outputs; for many rows, a part of the row tiles of one panel */
    size_t tiles;        /* number of row tiles */
    size_t panels, runs; /* panels: panels of outputs; runs: runs of consecutive panels, each computed by one task */
    size_t prepared_bytes, panel_bytes;
};

/* ---- quantize_rows ---- */

#define QUANTIZE_VALUES 16384 /* smallest number of values per task */

static void quantize_task(void *argument, size_t task, unsigned thread) {
    const struct job *job = argument;
    const size_t rows = job->quantize->rows;
    (void)thread;
    job->kernels->quantize(job->quantize, rows * task / job->parts, rows * (task + 1) / job->parts);
}

static void wide_quantize_task(void *argument, size_t task, unsigned thread) {
    const struct job *job = argument;
    const size_t rows = job->wide_quantize->rows;
    (void)thread;
    job->kernels->wide_quantize(job->wide_quantize, rows * task / job->parts, rows * (task + 1) / job->parts);
}

/* Returns the number of tasks that quantize rows. */
static size_t quantize_parts(const struct kvc_cpu *cpu, size_t rows, size_t values) {
    return kvc_min_u64(kvc_min_u64(rows, 4 * kvc_threads_count(cpu->threads)),
                       (values + QUANTIZE_VALUES - 1) / QUANTIZE_VALUES);
}

void kvc_int16_quantize(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                        const struct kvc_quantize_rows_int16 *args) {
    struct job job = {.cpu = cpu, .kernels = kernels, .wide_quantize = args};
    if (args->rows == 0 || args->K == 0)
        return;
    job.parts = quantize_parts(cpu, args->rows, (size_t)args->rows * args->K);
    kvc_threads_run(cpu->threads, job.parts, wide_quantize_task, &job);
}

void kvc_int8_quantize(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                       const struct kvc_quantize_rows *args) {
    struct job job = {.cpu = cpu, .kernels = kernels, .quantize = args};
    const size_t values = (size_t)args->rows * args->K;
    if (values == 0)
        return;
    job.parts = quantize_parts(cpu, args->rows, values);
    kvc_threads_run(cpu->threads, job.parts, quantize_task, &job);
}

/* ---- few rows ---- */

_Static_assert(KVC_INT16_BLOCK == 256, "a group is a block of int16");
static size_t groups_of(const struct kvc_int8_call *call) { return (call->K + 255) / 256; }

static void fill_group(struct kvc_int8_group *to, const struct kvc_int8_call *call, size_t row, size_t group) {
    const size_t k = group * 256, blocks = kvc_min_u64(call->K - k, 256) / 32;
    const kvc_i32 *sum = call->sum + (row * call->K + k) / 16;
    KVC_ASSERT(group < groups_of(call) && blocks > 0);
    memset(to, 0, sizeof *to);
    memcpy(to->quant, call->quant + row * call->K + k, blocks * 32);
    memcpy(to->scale, call->scale + (row * call->K + k) / 32, blocks * sizeof *to->scale);
    for (size_t b = 0; b < blocks; b++) {
        to->half[0][b] = sum[2 * b];
        to->half[1][b] = sum[2 * b + 1];
        to->sum[b] = sum[2 * b] + sum[2 * b + 1];
        to->half_scaled[0][b] = to->scale[b] * (float)to->half[0][b];
        to->half_scaled[1][b] = to->scale[b] * (float)to->half[1][b];
        to->scaled[b] = to->scale[b] * (float)to->sum[b];
    }
}

static void fill_wide_group(struct kvc_int16_group *to, const struct kvc_int8_call *call, size_t row, size_t group) {
    const size_t k = group * KVC_INT16_BLOCK, here = kvc_min_u64(call->K - k, KVC_INT16_BLOCK);
    KVC_ASSERT(group < groups_of(call) && here > 0);
    memset(to, 0, sizeof *to);
    memcpy(to->quant, call->wide_quant + row * call->K + k, here * sizeof *to->quant);
    to->scale = call->scale[row * groups_of(call) + group];
}

/* Fills the groups of all rows. Returns false if memory runs out. */
static bool make_groups(struct job *job) {
    struct kvc_int8_call *call = &job->call;
    const size_t groups = groups_of(call);
    if (call->wide_quant)
        call->wide_group = kvc_cpu_scratch(job->cpu, 0, call->rows * groups * sizeof *call->wide_group);
    else
        call->group = kvc_cpu_scratch(job->cpu, 0, call->rows * groups * sizeof *call->group);
    if (!call->wide_group && !call->group)
        return false;
    for (size_t i = 0; i < call->rows; i++)
        for (size_t g = 0; g < groups; g++)
            if (call->wide_quant)
                fill_wide_group(call->wide_group + i * groups + g, call, i, g);
            else
                fill_group(call->group + i * groups + g, call, i, g);
    return true;
}

static void small_batch_task(void *argument, size_t task, unsigned thread) {
    const struct job *job = argument;
    const size_t N = job->call.N;
    (void)thread;
    job->kernels->few_rows(&job->call, N * task / job->parts, N * (task + 1) / job->parts);
}

static void run_small_batch(struct job *job) {
    const size_t threads = kvc_threads_count(job->cpu->threads);
    if (!make_groups(job))
        return;
    job->parts = threads == 1 ? 1 : kvc_min_u64(4 * threads, (job->call.N + 63) / 64);
    kvc_threads_run(job->cpu->threads, job->parts, small_batch_task, job);
}

/* ---- many rows ---- */

static void prepare_task(void *argument, size_t task, unsigned thread) {
    const struct job *job = argument;
    (void)thread;
    job->kernels->prepare(&job->call, job->tiles * task / job->parts, job->tiles * (task + 1) / job->parts);
}

/* Computes a run of panels or, if job->parts > 1, a part of the rows of one panel. In a run, each panel can prefetch
 * the weights of the next. */
static void panel_task(void *argument, size_t task, unsigned thread) {
    const struct job *job = argument;
    const size_t shared = thread == 0 ? job->prepared_bytes : 0;
    const size_t part = task % job->parts, rows = job->call.tile_rows, run = task / job->parts;
    const size_t first = job->tiles * part / job->parts * rows, last = job->tiles * (part + 1) / job->parts * rows;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, shared + job->panel_bytes);
    for (size_t i = job->panels * run / job->runs; scratch && first < last && i < job->panels * (run + 1) / job->runs;
         i++)
        job->kernels->panel(&job->call, i, first, kvc_min_u64(last, job->call.rows), scratch + shared);
}

/* The prepared rows lie before the first thread's panel in scratch memory. With several threads and few panels, the
 * rows of each panel are divided too, so that all threads have work until the end. */
static void run_gemm(struct job *job) {
    const size_t threads = kvc_threads_count(job->cpu->threads), wanted = threads == 1 ? 1 : 4 * threads;
    job->panels = (job->call.N + job->kernels->tile_outputs - 1) / job->kernels->tile_outputs;
    job->tiles = (job->call.rows + job->kernels->tile_rows - 1) / job->kernels->tile_rows;
    job->call.tile_rows = job->kernels->tile_rows;
    /* makes tiles of nearly equal height: eight rows become four and four instead of six and two */
    if (job->kernels->prepare)
        job->call.tile_rows = (job->call.rows + job->tiles - 1) / job->tiles;
    job->call.tile_rows =
        (job->call.tile_rows + job->kernels->row_step - 1) / job->kernels->row_step * job->kernels->row_step;
    KVC_ASSERT(job->call.tile_rows <= job->kernels->tile_rows && job->call.tile_rows * job->tiles >= job->call.rows);
    job->panel_bytes = job->kernels->panel_bytes(&job->call);
    if (job->kernels->prepare) {
        job->prepared_bytes = (job->tiles * job->kernels->prepared_words(&job->call) * 4 + 63) / 64 * 64;
        job->call.prepared = kvc_cpu_scratch(job->cpu, 0, job->prepared_bytes + job->panel_bytes);
        if (!job->call.prepared)
            return;
        job->parts = kvc_min_u64(wanted, job->tiles);
        kvc_threads_run(job->cpu->threads, job->parts, prepare_task, job);
    }
    job->runs = kvc_min_u64(2 * wanted, job->panels);
    job->parts = kvc_min_u64((wanted + job->panels - 1) / job->panels, job->tiles);
    kvc_threads_run(job->cpu->threads, job->runs * job->parts, panel_task, job);
}

/* Returns a call whose activations the caller must set. */
static struct kvc_int8_call call_of(struct kvc_span y, const struct kvc_weight *w, struct kvc_span bias,
                                    uint32_t rows) {
    KVC_ASSERT(kvc_span_holds(y, (uint64_t)rows * w->outputs));
    return (struct kvc_int8_call){.y = kvc_span_data(y),
                                  .bias = bias.buffer ? kvc_span_data(bias) : NULL,
                                  .w = w->data,
                                  .type = w->type,
                                  .row_bytes = w->row_bytes,
                                  .rows = rows,
                                  .K = (size_t)w->inputs,
                                  .N = (size_t)w->outputs};
}

static void run_call(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_int8_call *call) {
    struct job job = {.cpu = cpu, .kernels = kernels, .call = *call};
    if (call->rows == 0 || call->N == 0)
        return;
    if (call->rows <= kernels->few)
        run_small_batch(&job);
    else
        run_gemm(&job);
}

void kvc_int8_run(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_linear_int8 *args) {
    struct kvc_int8_call call = call_of(args->y, args->w, args->bias, args->rows);
    KVC_ASSERT(call.K % KVC_INT8_BLOCK == 0);
    call.quant = kvc_span_data(args->x.quant);
    call.scale = kvc_span_data(args->x.scale);
    call.sum = kvc_span_data(args->x.sum);
    run_call(cpu, kernels, &call);
}

/* Runs the experts one after another. */
void kvc_int8_run_experts(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                          const struct kvc_expert_linear_int8 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int8 linear = kvc_int8_expert(args, e, &w);
        kvc_int8_run(cpu, kernels, &linear);
    }
}

void kvc_int16_run(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels, const struct kvc_linear_int16 *args) {
    struct kvc_int8_call call = call_of(args->y, args->w, args->bias, args->rows);
    KVC_ASSERT(call.K % KVC_INT16_STEP == 0);
    call.wide_quant = kvc_span_data(args->x.quant);
    call.scale = kvc_span_data(args->x.scale);
    if (args->w->packed.quant) {
        call.type = KVC_PACKED;
        call.w = (const unsigned char *)(const void *)args->w->packed.quant;
        call.w_scale = args->w->packed.scale;
        call.row_bytes = 2 * call.K;
    }
    run_call(cpu, kernels, &call);
}

void kvc_int16_run_experts(struct kvc_cpu *cpu, const struct kvc_int8_kernels *kernels,
                           const struct kvc_expert_linear_int16 *args) {
    for (uint32_t e = 0; e < args->experts; e++) {
        struct kvc_weight w;
        const struct kvc_linear_int16 linear = kvc_int16_expert(args, e, &w);
        kvc_int16_run(cpu, kernels, &linear);
    }
}
