/* select.c - measures the decode attention of select methods and of `full` over a long cache, in the same run.
 *
 *     bench/select [threads [entries [shape]]]
 *
 * The program measures one layer: a step scores the entries, chooses some, and attends to them. For each method and
 * compression c (the budget is entries / c), it prints how many times fewer bytes the method reads than full, how many
 * times faster its attention is, the ratio of these two numbers, the times of the steps, and the time that only reading
 * the chosen entries takes. Between steps, the program reads other memory, like a model's weights, so that the
 * processor's caches contain no entries. Times are medians over rounds, and each round measures everything. With one
 * thread, times are processor time of this process. */
#include <stdio.h>

#include "backends/cpu/cpu.h"
#include "bench/roofline.h"
#include "core/base/backends.h"
#include "core/base/fused.h"
#include "policies/select_sizes.h"

#define ROUNDS 21
#define COMPRESSIONS 5
#define FLUSH_BYTES ((size_t)192 << 20)

static void select_must(enum kvc_status status, const struct kvc_error *error) {
    if (status != KVC_OK) {
        fprintf(stderr, "%s\n", error->text);
        exit((int)status);
    }
}

struct shape {
    uint32_t heads, kv_heads, d;
    enum kvc_type type;
};

struct bench {
    struct kvc_device *device;
    unsigned char *flush;
    struct shape shape;
    uint32_t entries;
    uint64_t seed, bytes, sum; /* bytes: number of bytes that the step has read so far */
    struct kvc_span q, out, positions, causal_offset, scores, probabilities, alpha, sums;
    struct kvc_read_list reads;
};

static struct kvc_span select_make(struct bench *b, size_t bytes) {
    struct kvc_span span = {NULL, 0};
    struct kvc_error error;
    select_must(b->device->ops->buffer_create(b->device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &error), &error);
    return span;
}

static void select_fill(struct bench *b, struct kvc_span span, size_t n) {
    float *x = span.buffer->data;
    for (size_t i = 0; i < n; i++) {
        b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((int64_t)b->seed >> 40) / (float)(1 << 22);
    }
}

static struct kvc_lists make_lists(struct bench *b) {
    const struct kvc_ops *ops = b->device->ops;
    const uint32_t d = b->shape.d, heads = b->shape.kv_heads, rows = 64;
    const uint32_t each = (b->entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE, slots = each * heads;
    struct kvc_lists lists = {.kv_heads = heads};
    struct kvc_error error;
    lists.format = (struct kvc_entry_format){b->shape.type, d,
                                             b->shape.type == KVC_F32   ? 4 * d
                                             : b->shape.type == KVC_F16 ? 2 * d
                                                                        : d + 2 * ((d + 31) / 32)};
    lists.host_base = calloc(heads + 1, sizeof *lists.host_base);
    for (uint32_t h = 0; lists.host_base && h < heads; h++)
        lists.host_base[h + 1] = lists.host_base[h] + each;
    lists.base = select_make(b, (heads + 1) * 4).buffer;
    memcpy(lists.base->data, lists.host_base, (heads + 1) * 4);
    lists.count = select_make(b, heads * 4).buffer;
    lists.blocks = select_make(b, kvc_first_block(slots, heads) * 4).buffer;
    select_must(ops->arena_create(b->device, &lists.format, &lists.arena, &error), &error);
    for (uint32_t h = 0; h < heads; h++)
        select_must(ops->arena_take(b->device, lists.arena, each / KVC_TILE,
                                    (uint32_t *)lists.blocks->data + kvc_first_block(lists.host_base[h], h), &error),
                    &error);
    struct kvc_span x = select_make(b, (size_t)rows * heads * d * 4), positions = select_make(b, rows * 4);
    for (uint32_t at = 0; at < b->entries; at += rows) {
        const uint32_t some = b->entries - at < rows ? b->entries - at : rows;
        const struct kvc_segment segment = {&lists, NULL, 0, some, some, NULL};
        select_fill(b, x, (size_t)rows * heads * d);
        for (uint32_t i = 0; i < some; i++)
            ((int32_t *)positions.buffer->data)[i] = (int32_t)(at + i);
        ops->append(b->device, &(struct kvc_append){
                                   .segments = &segment, .segment_count = 1, .k = x, .v = x, .positions = positions});
    }
    select_must(ops->sync(b->device, &error), &error);
    ops->buffer_free(b->device, x.buffer);
    ops->buffer_free(b->device, positions.buffer);
    return lists;
}

static void select_attend(struct bench *b, struct kvc_lists *lists, const struct kvc_read_list *reads) {
    const struct kvc_segment segment = {lists, reads, 0, 1, 1, &b->bytes};
    const struct kvc_attention attention = {.segments = &segment,
                                            .segment_count = 1,
                                            .heads = b->shape.heads,
                                            .kv_heads = b->shape.kv_heads,
                                            .head_size = b->shape.d,
                                            .q = b->q,
                                            .out = b->out,
                                            .positions = b->positions,
                                            .causal_offset = b->causal_offset};
    b->device->ops->attention(b->device, &attention);
}

/* Reads every cache line of the chosen entries once, without arithmetic. If reads is NULL, reads all entries. */
struct touch_job {
    const struct kvc_lists *lists;
    const struct kvc_read_list *reads;
    uint64_t sum[64]; /* the sums are stored, so that the compiler cannot remove the reads */
};

#define TOUCH_AHEAD 32u

static void touch_task(void *argument, size_t h, unsigned thread) {
    struct touch_job *job = argument;
    const struct kvc_lists *lists = job->lists;
    const struct kvc_buffer *counts = job->reads ? job->reads->count : lists->count;
    const uint32_t count = ((const uint32_t *)counts->data)[h];
    const uint32_t *index = job->reads ? (const uint32_t *)job->reads->index->data + h * job->reads->stride : NULL;
    const size_t row = lists->format.row_bytes;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count + TOUCH_AHEAD; i++) {
        for (unsigned value = 0; value < 2; value++) {
            const uint32_t next = i < count ? i : count - 1, at = i < TOUCH_AHEAD ? 0 : i - TOUCH_AHEAD;
            const unsigned char *far = kvc_list_key(lists, (uint32_t)h, index ? index[next] : next);
            const unsigned char *near = kvc_list_key(lists, (uint32_t)h, index ? index[at] : at);
            for (size_t b = value * KVC_TILE * row; b < (value * KVC_TILE + 1) * row; b += 64) {
                __builtin_prefetch(far + b, 0, 2);
                sum += near[b];
            }
        }
    }
    job->sum[thread % 64] += sum;
}

static double touch(struct bench *b, const struct kvc_lists *lists, const struct kvc_read_list *reads) {
    struct touch_job job = {.lists = lists, .reads = reads};
    const double start = seconds_now();
    kvc_threads_run(((const struct kvc_cpu *)b->device)->threads, lists->kv_heads, touch_task, &job);
    b->sum += job.sum[0];
    return seconds_now() - start;
}

/* Reads other memory with the device's own threads. As in a decode step, the threads are then awake when attention
 * begins. */
static void flush(const struct bench *b) {
    struct roofline_job job = {.data = b->flush, .bytes = FLUSH_BYTES / 8};
    kvc_threads_run(((const struct kvc_cpu *)b->device)->threads, 8, read_task, &job);
}

/* A method with one compression. */
struct method {
    const char *name;
    enum kvc_score_kind kind;
    uint32_t c, page, dims;
    uint64_t top;
    bool mean;
    struct kvc_pages *pages;
    double times[ROUNDS][3], ratio[ROUNDS];
    uint64_t bytes;
};

/* Runs the operations for scores, for reads and for attention. Methods with sums of values also add the mean value. */
static void select_step(struct bench *b, struct kvc_lists *lists, const struct method *m, double times[2]) {
    const struct kvc_ops *ops = b->device->ops;
    const bool by_page = m->kind >= KVC_SCORE_PAGE_CHANNELS;
    const struct kvc_select_scores scores = {.lists = lists,
                                             .pages = m->pages,
                                             .kind = m->kind,
                                             .dims = m->dims,
                                             .heads = b->shape.heads,
                                             .head_size = b->shape.d,
                                             .q = b->q,
                                             .positions = b->positions,
                                             .scores = b->scores,
                                             .probabilities = m->mean ? b->probabilities : (struct kvc_span){NULL, 0},
                                             .stride = b->reads.stride,
                                             .bytes_read = &b->bytes};
    const struct kvc_select_reads reads = {.lists = lists,
                                           .pages = by_page ? m->pages : NULL,
                                           .whole = m->kind == KVC_SCORE_PAGE_BOUND,
                                           .heads = b->shape.heads,
                                           .top = m->top,
                                           .scores = b->scores,
                                           .probabilities = scores.probabilities,
                                           .alpha = m->mean ? b->alpha : (struct kvc_span){NULL, 0},
                                           .stride = b->reads.stride,
                                           .reads = &b->reads};
    const double start = seconds_now();
    kvc_run_select(b->device, &(struct kvc_select_scores_reads){.scores = &scores, .reads = &reads});
    const double chosen = seconds_now();
    select_attend(b, lists, &b->reads);
    if (m->mean)
        ops->mix_mean(b->device, &(struct kvc_mix_mean){.lists = lists,
                                                        .view = NULL,
                                                        .reads = &b->reads,
                                                        .heads = b->shape.heads,
                                                        .head_size = b->shape.d,
                                                        .out = b->out,
                                                        .alpha = b->alpha,
                                                        .sums = b->sums});
    times[0] = chosen - start;
    times[1] = seconds_now() - chosen;
}

static int select_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *values) {
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, select_compare);
    return sorted[ROUNDS / 2];
}

static void make_pages(struct bench *b, struct kvc_lists *lists, struct kvc_pages *pages, uint32_t page, bool low) {
    const enum kvc_type type = b->shape.type == KVC_F16 ? KVC_F16 : KVC_F32;
    const uint32_t stride = (b->entries / page + 64) / 64 * 64 + 64;
    const size_t bytes = (size_t)b->shape.kv_heads * stride * b->shape.d * (type == KVC_F16 ? 2 : 4);
    *pages =
        (struct kvc_pages){page, stride, type, low ? select_make(b, bytes).buffer : NULL, select_make(b, bytes).buffer};
    b->device->ops->pages_update(
        b->device, &(struct kvc_pages_update){.lists = lists, .view = NULL, .pages = pages, .rows = UINT32_MAX});
}

static void print_method(const struct bench *b, const struct method *m, double full, double all, double full_bytes) {
    double parts[3][ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < 3; j++)
            parts[j][i] = m->times[i][j];
    const double fewer = full_bytes / (double)m->bytes, faster = median(m->ratio);
    printf("| %-5s | %2u | %2u | %3u | %-10s | %3u | %4u | %4u | %5llu | %6.2f | %6.2f | %5.2f | %6.0f | %6.0f | "
           "%6.0f | %6.0f | %6.0f |\n",
           kvc_type_name(b->shape.type), b->shape.heads, b->shape.kv_heads, b->shape.d, m->name, m->c, m->page, m->dims,
           (unsigned long long)m->top, fewer, faster, faster / fewer, full * 1e6, all * 1e6, median(parts[0]) * 1e6,
           median(parts[1]) * 1e6, median(parts[2]) * 1e6);
}

/* Allocates the buffers for one query over n entries. */
static void open_shape(struct bench *b, const struct kvc_lists *lists) {
    const uint32_t H = b->shape.heads, kv_heads = b->shape.kv_heads, d = b->shape.d, n = b->entries, stride = n + 64;
    b->q = select_make(b, H * d * 4);
    select_fill(b, b->q, H * d);
    b->out = select_make(b, H * d * 4);
    b->positions = select_make(b, 4);
    *(int32_t *)b->positions.buffer->data = (int32_t)n - 1;
    b->causal_offset = select_make(b, 4);
    b->scores = select_make(b, (size_t)kv_heads * stride * 4);
    b->probabilities = select_make(b, (size_t)H * stride * 4);
    b->alpha = select_make(b, H * 4);
    b->sums = select_make(b, (size_t)kv_heads * d * 4);
    b->reads = (struct kvc_read_list){select_make(b, kv_heads * 4).buffer,
                                      select_make(b, (size_t)kv_heads * stride * 4).buffer, stride};
    b->device->ops->value_sums(
        b->device, &(struct kvc_value_sums){.lists = lists, .view = NULL, .sums = b->sums, .rows = UINT32_MAX});
}

static void close_shape(struct bench *b, struct kvc_lists *lists) {
    struct kvc_buffer *buffers[] = {
        b->q.buffer,      b->out.buffer,           b->positions.buffer, b->causal_offset.buffer,
        b->scores.buffer, b->probabilities.buffer, b->alpha.buffer,     b->sums.buffer,
        b->reads.count,   b->reads.index,          lists->base,         lists->count,
        lists->blocks};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        b->device->ops->buffer_free(b->device, buffers[i]);
    b->device->ops->arena_free(b->device, lists->arena);
    free(lists->host_base);
}

/* Makes the methods with every compression. pages [2 + COMPRESSIONS] receives the pages of sparq, the pages of quest,
 * and then the pages of hsa for each compression. */
static size_t make_methods(struct bench *b, struct kvc_lists *lists, struct method *methods, struct kvc_pages *pages) {
    static const uint32_t compressions[COMPRESSIONS] = {2, 4, 8, 16, 32};
    const uint32_t d = b->shape.d;
    struct method *m = methods;
    make_pages(b, lists, &pages[0], 1, false);
    make_pages(b, lists, &pages[1], 16, true);
    for (size_t i = 0; i < COMPRESSIONS; i++) {
        const uint32_t c = compressions[i], t = b->entries / c;
        const struct kvc_hsa_sizes sizes = kvc_hsa_sizes(c, d);
        make_pages(b, lists, &pages[2 + i], sizes.page, true);
        *m++ = (struct method){.name = "topk", .kind = KVC_SCORE_EXACT, .c = c, .dims = d, .top = t};
        *m++ = (struct method){.name = "quest",
                               .kind = KVC_SCORE_PAGE_BOUND,
                               .c = c,
                               .page = 16,
                               .dims = d,
                               .top = t / 32,
                               .pages = &pages[1]};
        *m++ = (struct method){.name = "sparq",
                               .kind = KVC_SCORE_CHANNELS,
                               .c = c,
                               .page = 1,
                               .dims = d / c,
                               .top = t / 2,
                               .mean = true,
                               .pages = &pages[0]};
        *m++ = (struct method){.name = "hsa",
                               .kind = KVC_SCORE_PAGE_CHANNELS,
                               .c = c,
                               .page = sizes.page,
                               .dims = sizes.dims,
                               .top = t / 2,
                               .pages = &pages[2 + i]};
    }
    return (size_t)(m - methods);
}

static void bench_shape(struct bench *b, const struct shape *shape) {
    struct method methods[4 * COMPRESSIONS];
    struct kvc_pages pages[2 + COMPRESSIONS];
    double full[ROUNDS], all[ROUNDS], full_bytes = 0;
    b->shape = *shape;
    struct kvc_lists lists = make_lists(b);
    open_shape(b, &lists);
    const size_t count = make_methods(b, &lists, methods, pages);
    for (int round = -1; round < ROUNDS; round++) { /* the first round is not counted */
        flush(b);
        b->bytes = 0;
        const double start = seconds_now();
        select_attend(b, &lists, NULL);
        const double took = seconds_now() - start;
        full_bytes = (double)b->bytes;
        full[round < 0 ? 0 : round] = took;
        flush(b);
        all[round < 0 ? 0 : round] = touch(b, &lists, NULL);
        for (size_t i = 0; i < count; i++) {
            double times[3];
            flush(b);
            b->bytes = 0;
            select_step(b, &lists, &methods[i], times);
            methods[i].bytes = b->bytes;
            flush(b);
            times[2] = touch(b, &lists, &b->reads);
            if (round < 0)
                continue;
            memcpy(methods[i].times[round], times, sizeof times);
            methods[i].ratio[round] = took / (times[0] + times[1]);
        }
    }
    for (size_t i = 0; i < count; i++)
        print_method(b, &methods[i], median(full), median(all), full_bytes);
    fflush(stdout);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        b->device->ops->buffer_free(b->device, pages[i].low);
        b->device->ops->buffer_free(b->device, pages[i].high);
    }
    close_shape(b, &lists);
}

int main(int argc, char **argv) {
    struct bench b = {.seed = 1, .entries = argc > 2 ? (uint32_t)atoi(argv[2]) : 32768};
    struct kvc_error error;
    const int threads = argc > 1 ? atoi(argv[1]) : 0;
    static const struct shape shapes[] = {
        {32, 8, 128, KVC_F16}, {12, 4, 64, KVC_F16}, {8, 8, 128, KVC_F16}, {32, 8, 128, KVC_Q8_0}};
    if (threads == 1)
        bench_clock = CLOCK_PROCESS_CPUTIME_ID;
    if (b.entries < 1024) {
        fprintf(stderr, "entries: at least 1024\n");
        return KVC_USAGE;
    }
    if (posix_memalign((void **)&b.flush, 4096, FLUSH_BYTES)) {
        fprintf(stderr, "no memory for %zu bytes\n", FLUSH_BYTES);
        return KVC_RESOURCE;
    }
    memset(b.flush, 1, FLUSH_BYTES);
    select_must(kvc_backend_cpu.open(NULL, 0, threads, KVC_MATH_EXACT, &b.device, &error), &error);
    printf("%s, %u entries\n\n", b.device->name, b.entries);
    printf(
        "| cache |  H | Hk |   d | method     |   c | page | dims |   top |  fewer | faster | ratio |   full |    all "
        "| choose | attend |   read |\n"
        "|-------|----|----|-----|------------|-----|------|------|-------|--------|--------|-------|--------|--------"
        "|--------|--------|--------|\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (argc <= 3 || (size_t)atoi(argv[3]) == i)
            bench_shape(&b, &shapes[i]);
    printf(
        "\nfewer: bytes that full reads / bytes that the method reads; faster: full's time / the method's; ratio: "
        "faster / fewer;\nfull, choose, attend: microseconds; all, read: only reading all entries, and those chosen\n");
    b.device->ops->close(b.device);
    free(b.flush);
    return 0;
}
