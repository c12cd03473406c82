/* int8.c - measures linear layers with 8-bit activations, beside float linear layers and a plain read of the weights.
 * Each ratio is the median over pairs of consecutive measurements, so that other load affects both. The time includes
 * quantizing the rows.
 *
 *   bench/int8 [THREADS [ROWS [ROUNDS [MIB]]]]    with one thread, times are processor time of this process */
#include <stdio.h>

#include "backends/cpu/cpu.h"
#include "bench/roofline.h"
#include "core/base/backends.h"
#include "core/base/integers.h"

extern const struct kvc_backend_class kvc_backend_cpu;

enum { INPUTS = 4096, ROUNDS_MOST = 101 };

struct layer {
    struct kvc_device *device;
    const struct kvc_ops *ops;
    struct kvc_threads *threads;
    struct kvc_weight *w;
    unsigned char *bytes;
    size_t size, N, rows;
    struct kvc_span x, y;
    struct kvc_int8_rows quantized;
};

static void int8_must(enum kvc_status status, const struct kvc_error *error) {
    if (status == KVC_OK)
        return;
    fprintf(stderr, "bench/int8: %s\n", error->text);
    exit((int)status);
}

static struct kvc_span buffer(const struct layer *l, size_t bytes) {
    struct kvc_span span = {NULL, 0};
    struct kvc_error error;
    int8_must(l->ops->buffer_create(l->device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &error), &error);
    return span;
}

/* Makes weights of random bits but with moderate scales. */
static void layer_open(struct layer *l, enum kvc_type type, size_t N, size_t rows) {
    const struct kvc_type_block of = kvc_type_block(type);
    struct kvc_error error;
    uint32_t state = 1;
    l->N = N;
    l->rows = rows;
    l->size = N * kvc_type_row_bytes(type, INPUTS);
    l->bytes = aligned_alloc(256, (l->size + 255) / 256 * 256);
    if (!l->bytes)
        int8_must(kvc_fail(&error, KVC_RESOURCE, "no memory for %zu bytes", l->size), &error);
    for (size_t i = 0; i < l->size; i++) {
        state = state * 1664525u + 1013904223u;
        l->bytes[i] = (unsigned char)(state >> 24);
    }
    for (size_t i = 0; i < l->size; i += of.bytes)
        for (uint32_t s = 0; s < of.scales; s++)
            l->bytes[i + of.scale + (s + 1) * of.wide - 1] = of.wide == 1 ? 120 : 0x2c;
    int8_must(l->ops->weight_create(l->device, type, N, INPUTS, l->bytes, &l->w, &error), &error);
    l->x = buffer(l, rows * INPUTS * 4);
    l->y = buffer(l, rows * N * 4);
    l->quantized = (struct kvc_int8_rows){buffer(l, rows * INPUTS), buffer(l, rows * INPUTS / 32 * 4),
                                          buffer(l, rows * INPUTS / 16 * 4)};
    for (size_t i = 0; i < rows * INPUTS; i++)
        ((float *)kvc_span_data(l->x))[i] = (float)(i * 7919u % 1000u) / 500.0f - 1.0f;
}

static void layer_close(struct layer *l) {
    const struct kvc_span spans[] = {l->x, l->y, l->quantized.quant, l->quantized.scale, l->quantized.sum};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        l->ops->buffer_free(l->device, spans[i].buffer);
    l->ops->weight_free(l->device, l->w);
    free(l->bytes);
}

static double int8_seconds(struct layer *l) {
    const double start = seconds_now();
    l->ops->quantize_rows(
        l->device, &(struct kvc_quantize_rows){.y = l->quantized, .x = l->x, .rows = (uint32_t)l->rows, .K = INPUTS});
    l->ops->linear_int8(l->device,
                        &(struct kvc_linear_int8){.y = l->y, .x = l->quantized, .w = l->w, .rows = (uint32_t)l->rows});
    return seconds_now() - start;
}

static double float_seconds(struct layer *l) {
    const double start = seconds_now();
    l->ops->linear(l->device, &(struct kvc_linear){.y = l->y, .x = l->x, .w = l->w, .rows = (uint32_t)l->rows});
    return seconds_now() - start;
}

static double read_seconds(struct layer *l) {
    const size_t tasks = 4 * (size_t)kvc_threads_count(l->threads);
    struct roofline_job job = {.data = l->bytes, .bytes = l->size / tasks / 256 * 256};
    const double start = seconds_now();
    kvc_threads_run(l->threads, tasks, read_task, &job);
    return seconds_now() - start;
}

static int int8_ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts n numbers and returns their quantile. */
static double quantile(double *number, size_t n, double share) {
    qsort(number, n, sizeof *number, int8_ascending);
    return number[(size_t)(share * (double)(n - 1) + 0.5)];
}

static void print_row(struct layer *l, enum kvc_type type, size_t rounds) {
    double took[ROUNDS_MOST], by_float[ROUNDS_MOST], by_read[ROUNDS_MOST];
    int8_seconds(l);
    for (size_t i = 0; i < rounds; i++) {
        took[i] = int8_seconds(l);
        by_float[i] = float_seconds(l) / took[i];
        by_read[i] = read_seconds(l) / took[i];
    }
    const double median = quantile(took, rounds, 0.5);
    printf("| %-6s | %8.1f | %7.1f | %5.2f (%.2f to %.2f) | %5.2f (%.2f to %.2f) |\n", kvc_type_name(type),
           2e-9 * (double)l->rows * INPUTS * (double)l->N / median, 1e-9 * (double)l->size / median,
           quantile(by_float, rounds, 0.5), quantile(by_float, rounds, 0.25), quantile(by_float, rounds, 0.75),
           quantile(by_read, rounds, 0.5), quantile(by_read, rounds, 0.25), quantile(by_read, rounds, 0.75));
    fflush(stdout);
}

static size_t int8_number(int count, char **arguments, int i, size_t otherwise, size_t most) {
    char *end;
    const unsigned long n = i < count ? strtoul(arguments[i], &end, 10) : otherwise;
    if (i < count && (*end || n < 1 || n > most)) {
        fprintf(stderr, "bench/int8: '%s' should be a number from 1 to %zu\n", arguments[i], most);
        exit(KVC_USAGE);
    }
    return n;
}

int main(int count, char **arguments) {
    const size_t threads = int8_number(count, arguments, 1, 1, 256),
                 rows = int8_number(count, arguments, 2, 512, 65536);
    const size_t rounds = int8_number(count, arguments, 3, 9, ROUNDS_MOST),
                 mib = int8_number(count, arguments, 4, 64, 4096);
    struct layer l = {.device = NULL};
    struct kvc_error error;
    int8_must(kvc_backend_cpu.open(NULL, 0, (int)threads, KVC_MATH_FLOAT, &l.device, &error), &error);
    int8_must(kvc_threads_open((int)threads, &l.threads, &error), &error);
    l.ops = l.device->ops;
    if (threads == 1)
        bench_clock = CLOCK_PROCESS_CPUTIME_ID;
    printf("%s, %zu inputs, medians of %zu pairs (quartiles)\n", l.device->name, (size_t)INPUTS, rounds);
    for (int many = 0; many < 2; many++) {
        printf("\n%s\n\n| type   |    GOP/s |    GB/s | times float's speed   | of a read's speed     "
               "|\n|---|---|---|---|---|\n",
               many ? "Rows of a prompt" : "One row");
        for (int type = KVC_Q8_0; type < KVC_TYPES; type++) {
            const size_t bytes = kvc_type_row_bytes((enum kvc_type)type, INPUTS);
            layer_open(&l, (enum kvc_type)type, many ? kvc_min_u64(INPUTS, mib << 18 >> 8) : (mib << 20) / bytes,
                       many ? rows : 1);
            print_row(&l, (enum kvc_type)type, rounds);
            layer_close(&l);
        }
    }
    kvc_threads_close(l.threads);
    l.device->ops->close(l.device);
    return KVC_OK;
}
