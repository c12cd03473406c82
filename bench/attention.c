/* attention.c - measures the speed of attention and of policy operations, beside the machine's limits in the same run.
 *
 *     bench/attention [threads [decode|prefill|policies|all [avx2|avx512|...]]]
 *
 * `decode` prints the bytes of KV cache read per second beside the measured read bandwidth, for a KV cache larger than
 * the processor's caches. `prefill` prints flops per second beside the flops of a loop of fused multiply-adds.
 * `policies` measures window_mass of snapkv, and one step of streaming and of morphkv. With one thread, times are
 * processor time of this process, so that other load disturbs less; with more threads they are wall time. The third
 * argument names the instruction set, like KVCULL_CPU; with avx2 the loop of multiply-adds uses 256-bit vectors. */
#include <stdio.h>

#include "backends/cpu/cpu.h"
#include "bench/roofline.h"
#include "core/base/backends.h"

#define SETS_MOST 64

static void attention_must(enum kvc_status status, const struct kvc_error *error) {
    if (status != KVC_OK) {
        fprintf(stderr, "%s\n", error->text);
        exit((int)status);
    }
}

struct bench {
    struct kvc_device *device;
    struct kvc_threads *threads;
    double bandwidth, flops;
    uint64_t seed;
};

static struct kvc_span attention_make(struct bench *b, size_t bytes) {
    struct kvc_span span = {NULL, 0};
    struct kvc_error error;
    attention_must(b->device->ops->buffer_create(b->device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &error), &error);
    return span;
}

static struct kvc_span make_random(struct bench *b, size_t n) {
    struct kvc_span span = attention_make(b, n * sizeof(float));
    float *x = span.buffer->data;
    for (size_t i = 0; i < n; i++) {
        b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((int64_t)b->seed >> 40) / (float)(1 << 22);
    }
    return span;
}

static void attention_release(struct bench *b, struct kvc_span span) {
    b->device->ops->buffer_free(b->device, span.buffer);
}

struct shape {
    uint32_t heads, kv_heads, d, entries, capacity, columns;
    enum kvc_type type;
    bool permuted;
};

/* Makes the lists of one layer, with `entries` entries per head. */
static struct kvc_lists make_lists(struct bench *b, const struct shape *shape) {
    const struct kvc_ops *ops = b->device->ops;
    const uint32_t each = (shape->capacity + KVC_TILE - 1) / KVC_TILE * KVC_TILE, d = shape->d,
                   slots = each * shape->kv_heads;
    struct kvc_lists lists = {.kv_heads = shape->kv_heads, .columns = shape->columns};
    struct kvc_error error;
    lists.format = (struct kvc_entry_format){shape->type, d,
                                             shape->type == KVC_F32   ? 4 * d
                                             : shape->type == KVC_F16 ? 2 * d
                                                                      : d + 2 * ((d + 31) / 32)};
    lists.host_base = calloc(shape->kv_heads + 1, sizeof *lists.host_base);
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        lists.host_base[h + 1] = lists.host_base[h] + each;
    lists.base = attention_make(b, (shape->kv_heads + 1) * 4).buffer;
    memcpy(lists.base->data, lists.host_base, (shape->kv_heads + 1) * 4);
    lists.count = attention_make(b, shape->kv_heads * 4).buffer;
    lists.blocks = attention_make(b, kvc_first_block(slots, shape->kv_heads) * 4).buffer;
    if (shape->columns)
        lists.state = attention_make(b, (size_t)shape->columns * slots * 4).buffer;
    attention_must(ops->arena_create(b->device, &lists.format, &lists.arena, &error), &error);
    for (uint32_t h = 0; h < shape->kv_heads; h++)
        attention_must(ops->arena_take(b->device, lists.arena, each / KVC_TILE,
                                       (uint32_t *)lists.blocks->data + kvc_first_block(lists.host_base[h], h), &error),
                       &error);
    if (shape->permuted) {
        lists.order = attention_make(b, slots * 4).buffer;
        lists.position = attention_make(b, slots * 4).buffer;
        for (uint32_t h = 0; h < shape->kv_heads; h++) {
            uint32_t *order = (uint32_t *)lists.order->data + lists.host_base[h];
            for (uint32_t i = 0; i < each; i++)
                order[i] = i;
            for (uint32_t i = shape->entries; i > 1; i--) { /* the slots in use, in random order */
                b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
                const uint32_t j = (uint32_t)(b->seed >> 33) % i, held = order[i - 1];
                order[i - 1] = order[j];
                order[j] = held;
            }
        }
    }
    const uint32_t rows = 64;
    struct kvc_span x = make_random(b, (size_t)rows * shape->kv_heads * d), positions = attention_make(b, rows * 4);
    for (uint32_t at = 0; at < shape->entries;) {
        const uint32_t some = shape->entries - at < rows ? shape->entries - at : rows;
        const struct kvc_segment segment = {&lists, NULL, 0, some, some, NULL};
        for (uint32_t i = 0; i < some; i++)
            ((int32_t *)positions.buffer->data)[i] = (int32_t)(at + i);
        ops->append(b->device, &(struct kvc_append){
                                   .segments = &segment, .segment_count = 1, .k = x, .v = x, .positions = positions});
        at += some;
    }
    attention_release(b, x);
    attention_release(b, positions);
    attention_must(ops->sync(b->device, &error), &error);
    return lists;
}

static void free_lists(struct bench *b, struct kvc_lists *lists) {
    const struct kvc_ops *ops = b->device->ops;
    ops->arena_free(b->device, lists->arena);
    ops->buffer_free(b->device, lists->base);
    ops->buffer_free(b->device, lists->count);
    ops->buffer_free(b->device, lists->blocks);
    ops->buffer_free(b->device, lists->order);
    ops->buffer_free(b->device, lists->position);
    ops->buffer_free(b->device, lists->state);
    free(lists->host_base);
}

/* The buffers of one attention call, for the rows of one segment. */
struct call {
    struct kvc_span q, out, maximum, sum, positions, causal_offset;
};

static struct call make_call(struct bench *b, const struct shape *shape, uint32_t rows, bool causal) {
    struct call call = {make_random(b, (size_t)rows * shape->heads * shape->d),
                        attention_make(b, (size_t)rows * shape->heads * shape->d * 4),
                        attention_make(b, (size_t)rows * shape->heads * 4),
                        attention_make(b, (size_t)rows * shape->heads * 4),
                        attention_make(b, rows * 4),
                        attention_make(b, rows * 4)};
    for (uint32_t i = 0; i < rows; i++) {
        ((int32_t *)call.positions.buffer->data)[i] = (int32_t)(shape->entries - rows + i);
        ((uint32_t *)call.causal_offset.buffer->data)[i] = causal ? rows - 1 - i : 0;
    }
    return call;
}

static void free_call(struct bench *b, struct call *call) {
    attention_release(b, call->q);
    attention_release(b, call->out);
    attention_release(b, call->maximum);
    attention_release(b, call->sum);
    attention_release(b, call->positions);
    attention_release(b, call->causal_offset);
}

static void attention_attend(struct bench *b, const struct shape *shape, const struct call *call,
                             struct kvc_lists *lists, uint32_t rows) {
    const struct kvc_segment segment = {lists, NULL, 0, rows, rows, NULL};
    const struct kvc_attention attention = {.segments = &segment,
                                            .segment_count = 1,
                                            .heads = shape->heads,
                                            .kv_heads = shape->kv_heads,
                                            .head_size = shape->d,
                                            .q = call->q,
                                            .out = call->out,
                                            .maximum = call->maximum,
                                            .sum = call->sum,
                                            .positions = call->positions,
                                            .causal_offset = call->causal_offset};
    b->device->ops->attention(b->device, &attention);
}

static const char *type_label(enum kvc_type type) { return type == KVC_F32 ? "f32" : type == KVC_F16 ? "f16" : "q8_0"; }

static void bench_decode(struct bench *b, const struct shape *shape) {
    struct kvc_lists lists[SETS_MOST];
    struct call call = make_call(b, shape, 1, false);
    const double bytes = 2.0 * shape->kv_heads * shape->entries *
                         (shape->type == KVC_F32   ? 4.0 * shape->d
                          : shape->type == KVC_F16 ? 2.0 * shape->d
                                                   : 1.0625 * shape->d);
    unsigned sets = (unsigned)(200e6 / bytes) + 1;
    double best = 1e9;
    sets = sets < SETS_MOST ? sets : SETS_MOST;
    for (unsigned i = 0; i < sets; i++)
        lists[i] = make_lists(b, shape);
    for (int round = 0; round < 8; round++) {
        const double start = seconds_now();
        for (unsigned i = 0; i < sets; i++)
            attention_attend(b, shape, &call, &lists[i], 1);
        const double took = (seconds_now() - start) / sets;
        best = took < best ? took : best;
    }
    printf("| %-5s | %2u | %2u | %3u | %6u | %-8s | %8.1f | %6.2f | %5.2f |\n", type_label(shape->type), shape->heads,
           shape->kv_heads, shape->d, shape->entries, shape->permuted ? "permuted" : "in place", best * 1e6,
           bytes / best * 1e-9, bytes / best / b->bandwidth);
    for (unsigned i = 0; i < sets; i++)
        free_lists(b, &lists[i]);
    free_call(b, &call);
}

static void bench_prefill(struct bench *b, const struct shape *shape, uint32_t rows) {
    struct kvc_lists lists = make_lists(b, shape);
    struct call call = make_call(b, shape, rows, true);
    const double flops = 4.0 * shape->d * shape->heads * rows * (shape->entries - 0.5 * (rows - 1));
    double best = 1e9;
    for (int round = 0; round < 8; round++) {
        const double start = seconds_now();
        attention_attend(b, shape, &call, &lists, rows);
        const double took = seconds_now() - start;
        best = took < best ? took : best;
    }
    printf("| %-5s | %2u | %2u | %3u | %4u | %6u | %8.2f | %7.1f | %5.2f |\n", type_label(shape->type), shape->heads,
           shape->kv_heads, shape->d, rows, shape->entries, best * 1e3, flops / best * 1e-9, flops / best / b->flops);
    free_lists(b, &lists);
    free_call(b, &call);
}

static struct kvc_probabilities rows_of(const struct shape *shape, const struct call *call,
                                        const struct kvc_lists *lists, uint32_t queries) {
    return (struct kvc_probabilities){.lists = lists,
                                      .queries = queries,
                                      .heads = shape->heads,
                                      .kv_heads = shape->kv_heads,
                                      .head_size = shape->d,
                                      .q = call->q,
                                      .maximum = call->maximum,
                                      .sum = call->sum,
                                      .positions = call->positions,
                                      .causal_offset = call->causal_offset};
}

/* Measures window_mass of 32 queries beside the attention of the last 256 rows of the prompt. */
static void bench_window_mass(struct bench *b, const struct shape *shape) {
    struct kvc_lists lists = make_lists(b, shape);
    struct call all = make_call(b, shape, 256, true), call = make_call(b, shape, 32, true);
    struct kvc_span scores = attention_make(b, (size_t)shape->kv_heads * shape->capacity * 4);
    double mass = 1e9, attention = 1e9;
    attention_attend(b, shape, &call, &lists, 32);
    for (int round = 0; round < 6; round++) {
        const struct kvc_probabilities rows = rows_of(shape, &call, &lists, 32);
        double start = seconds_now();
        b->device->ops->window_mass(
            b->device, &(struct kvc_window_mass){
                           .probabilities = &rows, .scores = scores, .stride = shape->capacity, .by_head = false});
        mass = seconds_now() - start < mass ? seconds_now() - start : mass;
        start = seconds_now();
        attention_attend(b, shape, &all, &lists, 256);
        attention = seconds_now() - start < attention ? seconds_now() - start : attention;
    }
    printf(
        "window_mass, 32 queries over %u entries, H %u, H_kv %u, d %u: %.2f ms; attention of 256 rows there: %.2f ms\n",
        shape->entries, shape->heads, shape->kv_heads, shape->d, mass * 1e3, attention * 1e3);
    attention_release(b, scores);
    free_lists(b, &lists);
    free_call(b, &call);
    free_call(b, &all);
}

/* Measures one decode step of streaming and of morphkv over the layers of a model. Weights are read in between, as
 * linear layers do. */
static void bench_ring(struct bench *b, const struct shape *shape, unsigned layers, unsigned char *weights,
                       size_t weight_bytes) {
    const struct kvc_ops *ops = b->device->ops;
    struct kvc_lists lists[SETS_MOST];
    struct call call = make_call(b, shape, 1, false);
    const uint32_t stride = shape->capacity, ring = 32;
    struct kvc_span scores = attention_make(b, (size_t)shape->kv_heads * stride * 4),
                    k = make_random(b, shape->kv_heads * shape->d);
    struct kvc_read_list kept = {attention_make(b, shape->kv_heads * 4).buffer,
                                 attention_make(b, (size_t)shape->kv_heads * stride * 4).buffer, stride};
    struct roofline_job job = {.data = weights};
    const size_t tasks = 8;
    double spent[6] = {0}, least[6];
    uint32_t now = shape->entries + 100;
    for (unsigned l = 0; l < layers; l++)
        lists[l] = make_lists(b, shape);
    for (int i = 0; i < 6; i++)
        least[i] = 1e9;
    job.bytes = weight_bytes / layers / tasks / 256 * 256;
    for (int step = 0; step < 40; step++, now++) {
        memset(spent, 0, sizeof spent);
        *(int32_t *)call.positions.buffer->data = (int32_t)now;
        for (unsigned l = 0; l < layers; l++) {
            const struct kvc_segment segment = {&lists[l], NULL, 0, 1, 1, NULL};
            const struct kvc_probabilities rows = rows_of(shape, &call, &lists[l], 1);
            const struct kvc_keep rule = {.top = shape->entries - ring, .recent = (int64_t)now + 1 - ring};
            double t[7];
            job.data = weights + l * (weight_bytes / layers);
            kvc_threads_run(b->threads, tasks, read_task, &job);
            t[0] = seconds_now();
            ops->append(b->device,
                        &(struct kvc_append){
                            .segments = &segment, .segment_count = 1, .k = k, .v = k, .positions = call.positions});
            t[1] = seconds_now();
            attention_attend(b, shape, &call, &lists[l], 1);
            t[2] = seconds_now();
            ops->ring_write(b->device,
                            &(struct kvc_ring_write){
                                .probabilities = &rows, .first = 0, .ring = ring, .kind = KVC_ROW_PROBABILITIES});
            t[3] = seconds_now();
            ops->ring_fuse(b->device, &(struct kvc_ring_fuse){.lists = &lists[l],
                                                              .first = 0,
                                                              .ring = ring,
                                                              .filled = ring,
                                                              .now = (int64_t)now + 1,
                                                              .kind = KVC_ROW_PROBABILITIES,
                                                              .fusion = KVC_FUSE_SUM,
                                                              .recent = rule.recent,
                                                              .scores = scores,
                                                              .stride = stride});
            t[4] = seconds_now();
            ops->keep(b->device, &(struct kvc_keep_rules){.lists = &lists[l],
                                                          .rules = &rule,
                                                          .rule_count = 1,
                                                          .scores = scores,
                                                          .ties = (struct kvc_span){NULL, 0},
                                                          .stride = stride,
                                                          .kept = &kept});
            t[5] = seconds_now();
            ops->evict(b->device, &(struct kvc_evict){.lists = &lists[l], .kept = &kept});
            t[6] = seconds_now();
            for (int i = 0; i < 6; i++)
                spent[i] += t[i + 1] - t[i];
        }
        for (int i = 0; i < 6 && step > 2; i++)
            least[i] = spent[i] < least[i] ? spent[i] : least[i];
    }
    const double extra = least[2] + least[3] + least[4] + least[5];
    const double base = (double)weight_bytes / b->bandwidth + least[0] + least[1];
    printf("morphkv, %u layers, H %u, H_kv %u, d %u, %u entries, ring of %u; microseconds per step:\n", layers,
           shape->heads, shape->kv_heads, shape->d, shape->entries, ring);
    printf("  append %.0f, attention %.0f, ring_write %.0f, ring_fuse %.0f, keep %.0f, evict %.0f\n", least[0] * 1e6,
           least[1] * 1e6, least[2] * 1e6, least[3] * 1e6, least[4] * 1e6, least[5] * 1e6);
    printf("  %.0f on top of append, attention and %.0f MB of weights at the measured bandwidth, %.0f: %.1f %%\n",
           extra * 1e6, (double)weight_bytes * 1e-6, base * 1e6, 100.0 * extra / base);
    for (unsigned l = 0; l < layers; l++)
        free_lists(b, &lists[l]);
    attention_release(b, scores);
    attention_release(b, k);
    ops->buffer_free(b->device, kept.count);
    ops->buffer_free(b->device, kept.index);
    free_call(b, &call);
}

static void decode_table(struct bench *b) {
    printf("| cache |  H | Hk |   d | entries | lists   | us a row |   GB/s | ratio |\n"
           "|-------|----|----|-----|--------|----------|----------|--------|-------|\n");
    static const struct shape decode[] = {
        {32, 8, 128, 8192, 8192, 0, KVC_F16, false}, {32, 8, 128, 8192, 8192, 0, KVC_F16, true},
        {32, 8, 64, 8192, 8192, 0, KVC_F16, false},  {12, 12, 64, 8192, 8192, 0, KVC_F16, false},
        {12, 12, 64, 1024, 1024, 0, KVC_F16, true},  {12, 4, 64, 1024, 1024, 0, KVC_F16, false},
        {12, 4, 64, 1024, 1024, 0, KVC_F16, true},   {28, 4, 128, 8192, 8192, 0, KVC_F16, false},
        {32, 32, 80, 4096, 4096, 0, KVC_F16, false}, {32, 8, 128, 8192, 8192, 0, KVC_Q8_0, false},
        {32, 8, 128, 8192, 8192, 0, KVC_F32, false}, {8, 1, 256, 32768, 32768, 0, KVC_F16, false},
    };
    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++)
        bench_decode(b, &decode[i]);
    printf("\n");
}

static void prefill_table(struct bench *b) {
    b->flops = measured_flops(b->threads);
    printf("| cache |  H | Hk |   d | rows | entries | ms       | GFLOP/s | ratio |\n"
           "|-------|----|----|-----|------|--------|----------|---------|-------|\n");
    static const struct shape prefill[] = {
        {32, 8, 64, 4096, 4096, 0, KVC_F16, false},   {32, 8, 128, 4096, 4096, 0, KVC_F16, false},
        {12, 12, 64, 4096, 4096, 0, KVC_F16, false},  {8, 8, 80, 4096, 4096, 0, KVC_F16, false},
        {32, 8, 128, 4096, 4096, 0, KVC_Q8_0, false}, {8, 2, 128, 256, 256, 0, KVC_F16, false},
    };
    for (size_t i = 0; i < sizeof prefill / sizeof *prefill; i++)
        bench_prefill(b, &prefill[i], 256);
    static const uint32_t groups[] = {1, 2, 3, 4, 7, 8}, lengths[] = {4096, 16384};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (uint32_t d = 64; d <= 128; d += 64)
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
                const struct shape shape = {2 * groups[g], 2, d, lengths[i], lengths[i], 0, KVC_F16, false};
                bench_prefill(b, &shape, 256);
            }
    printf("\n");
}

static void policies_part(struct bench *b, unsigned char *data) {
    const struct shape snap = {12, 4, 64, 4096, 4096, 0, KVC_F16, false};
    bench_window_mass(b, &snap);
    const struct shape grouped = {12, 4, 64, 1024, 1280, 32, KVC_F16, true};
    bench_ring(b, &grouped, 12, data, (size_t)200 << 20);
    const struct shape plain = {12, 12, 64, 1024, 1280, 32, KVC_F16, true};
    bench_ring(b, &plain, 12, data, (size_t)200 << 20);
}

int main(int argc, char **argv) {
    struct bench b = {.seed = 1};
    struct kvc_error error;
    const size_t bytes = (size_t)256 << 20;
    unsigned char *data = NULL;
    const int threads = argc > 1 ? atoi(argv[1]) : 0;
    const char *part = argc > 2 && strcmp(argv[2], "all") != 0 ? argv[2] : NULL;
    if (argc > 3 && setenv("KVCULL_CPU", argv[3], 1) != 0)
        return KVC_RESOURCE;
    if (threads == 1)
        bench_clock = CLOCK_PROCESS_CPUTIME_ID;
    if (posix_memalign((void **)&data, 4096, bytes)) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        return KVC_RESOURCE;
    }
    memset(data, 1, bytes);
    attention_must(kvc_backend_cpu.open(NULL, 0, threads, KVC_MATH_EXACT, &b.device, &error), &error);
    b.threads = ((struct kvc_cpu *)b.device)->threads;
    b.bandwidth = measured_bandwidth(b.threads, data, bytes);
    b.flops = measured_flops(b.threads);
    printf("%s; read bandwidth %.1f GB/s, fused multiply-adds %.0f GFLOP/s\n\n", b.device->name, b.bandwidth * 1e-9,
           b.flops * 1e-9);
    if (!part || strcmp(part, "decode") == 0)
        decode_table(&b);
    if (!part || strcmp(part, "prefill") == 0)
        prefill_table(&b);
    if (!part || strcmp(part, "policies") == 0)
        policies_part(&b, data);
    attention_must(b.device->ops->sync(b.device, &error), &error);
    b.device->ops->close(b.device);
    free(data);
    return 0;
}
