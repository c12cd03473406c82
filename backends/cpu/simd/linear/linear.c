/* linear.c - divides a linear layer among threads. Each instruction set has its own kernels. */
#include "core/base/integers.h"
#include "backends/cpu/simd/linear/linear.h"

struct share {
    struct kvc_cpu *cpu;
    const struct kvc_linear_kernels *kernels;
    struct kvc_linear_call call;
    size_t parts;   /* number of parts of the outputs, for one row or few rows */
    size_t scratch; /* number of floats per thread */
    size_t tiles;   /* number of row tiles */
    size_t whole;   /* number of panels that are one task each; each of the other panels is divided into blocks of
                     * rows */
    size_t stretch; /* number of whole panels per thread */
    size_t row_blocks;
    float *packed, *own; /* packed: all packed rows; own: thread 0's scratch memory, which follows them */
};

static float *scratch_of(struct share *s, unsigned thread) {
    return thread == 0 ? s->own : kvc_cpu_scratch(s->cpu, thread, s->scratch * sizeof(float));
}

static void side_by_side(void *argument, size_t task, unsigned thread) {
    struct share *s = argument;
    size_t N = s->call.N, first = N / s->parts * task + kvc_min_u64(task, N % s->parts);
    size_t last = first + N / s->parts + (task < N % s->parts);
    KVC_ASSERT(first <= last && last <= N);
    if (s->call.rows == 1) {
        s->kernels->gemv(&s->call, first, last);
        return;
    }
    float *scratch = scratch_of(s, thread);
    if (scratch)
        s->kernels->few_rows(&s->call, first, last, scratch);
}

static void pack(void *argument, size_t task, unsigned thread) {
    struct share *s = argument;
    (void)thread;
    s->kernels->pack_rows(&s->call, task, s->packed);
}

/* The threads compute panels that are far apart. Some CPUs also fetch the neighbour of a cache line. If threads
 * computed neighbouring panels, a CPU would fetch lines of y that another thread is writing. */
static void panel(void *argument, size_t task, unsigned thread) {
    struct share *s = argument;
    size_t threads = kvc_threads_count(s->cpu->threads), number = task % threads * s->stretch + task / threads;
    size_t part = 0, parts = 1;
    if (task >= s->whole) {
        number = s->whole + (task - s->whole) / s->row_blocks;
        part = (task - s->whole) % s->row_blocks;
        parts = s->row_blocks;
    }
    KVC_ASSERT(number * s->kernels->tile_outputs < s->call.N);
    size_t first = s->tiles * part / parts, last = s->tiles * (part + 1) / parts;
    float *scratch = scratch_of(s, thread);
    if (scratch)
        s->kernels->panel(&s->call, number, first, last, s->packed, scratch);
}

void kvc_linear_run(struct kvc_cpu *cpu, const struct kvc_linear_kernels *kernels, const struct kvc_linear *args) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
    size_t threads = kvc_threads_count(cpu->threads);
    struct share s = {.cpu = cpu, .kernels = kernels};
    if (rows == 0 || w->outputs == 0)
        return;
    s.call = (struct kvc_linear_call){.y = kvc_span_data(args->y),
                                      .x = kvc_span_data(args->x),
                                      .bias = args->bias.buffer ? kvc_span_data(args->bias) : NULL,
                                      .w = w->data,
                                      .type = w->type,
                                      .row_bytes = w->row_bytes,
                                      .rows = rows,
                                      .K = (size_t)w->inputs,
                                      .N = (size_t)w->outputs};
    KVC_ASSERT(kvc_span_holds(args->x, (uint64_t)rows * w->inputs) &&
               kvc_span_holds(args->y, (uint64_t)rows * w->outputs));
    if (rows == 1 || rows <= kernels->few) {
        /* Each thread gets contiguous outputs, divided into a few parts, so that the other threads need not wait for a
         * thread that starts late. */
        s.parts = threads == 1 ? 1 : kvc_min_u64(4 * threads, (s.call.N + 63) / 64);
        s.scratch = rows == 1 ? kernels->gemv_scratch(&s.call) : kernels->small_batch_rows_scratch(&s.call);
        if (s.scratch > 0) {
            s.own = kvc_cpu_scratch(cpu, 0, s.scratch * sizeof(float));
            if (!s.own)
                return;
        }
        if (rows == 1)
            kernels->gemv_start(&s.call, s.own);
        kvc_threads_run(cpu->threads, s.parts, side_by_side, &s);
        return;
    }
    /* With several threads, the last panels are divided into blocks of rows, so that all threads have work until the
     * end. If there are few panels, all are divided. Each block packs its panel again. */
    size_t panels = (s.call.N + kernels->tile_outputs - 1) / kernels->tile_outputs, tasks = 3 * threads;
    size_t packed = kernels->packed_floats(&s.call);
    s.tiles = (rows + kernels->tile_rows - 1) / kernels->tile_rows;
    s.whole = threads == 1 ? panels : panels < tasks ? 0 : panels - threads - panels % threads;
    s.stretch = s.whole / threads;
    KVC_ASSERT(s.whole <= panels && s.whole % threads == 0); /* each thread gets equally many whole panels */
    s.row_blocks = 1;
    while (s.row_blocks * 4 <= s.tiles && (s.whole ? s.row_blocks < 4 : panels * s.row_blocks < tasks))
        s.row_blocks *= 2;
    s.scratch = kernels->panel_scratch(&s.call);
    s.packed = kvc_cpu_scratch(cpu, 0, (packed + s.scratch) * sizeof(float));
    if (!s.packed)
        return;
    s.own = s.packed + packed;
    kvc_threads_run(cpu->threads, s.tiles, pack, &s);
    kvc_threads_run(cpu->threads, s.whole + (panels - s.whole) * s.row_blocks, panel, &s);
}
