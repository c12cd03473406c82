/* linear.c - measures the speed of linear layers beside the machine's limits: compares many rows with OpenBLAS's sgemm
 * with its fastest core type, and one row with the machine's read bandwidth. All measurements of a table row alternate
 * in rounds. Each number is the best of its rounds. In the comparison with sgemm, each number is the median, and the
 * table adds the median and the quartiles of the ratios; each round is a pair of consecutive measurements. Tables fit
 * 100 columns.
 *
 *   bench/linear [--threads N] [--rounds N] [--rows N] [--quick] [--cpu-time] [gemm] [types] [few] [decode]
 *
 * --cpu-time measures processor time of this process instead of wall time (one thread only), for machines with other
 * load. Without the name of a table, the program prints all tables. OPENBLAS_CORETYPE in the environment selects a core
 * type; the default is the fastest core type. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "core/base/types.h"
#include "models/convert/quantize.h"

#if defined(KVC_OPENBLAS)
#include <cblas.h>
char *openblas_get_corename(void);
void openblas_set_num_threads(int);
#endif

extern const struct kvc_backend_class kvc_backend_cpu;

struct bench {
    struct kvc_device *device;
    struct kvc_threads *threads;
    unsigned count, rounds;
    uint32_t rows;
    bool quick;
    clockid_t clock;
};

static double now(const struct bench *b) {
    struct timespec t;
    clock_gettime(b->clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void linear_fail(const char *text) {
    fprintf(stderr, "bench/linear: %s\n", text);
    exit(KVC_RESOURCE);
}

/* Allocates memory in huge pages if the machine has them, like mapped weights (models/files/map.c). */
static void *memory(size_t bytes) {
    const size_t page = (size_t)2 << 20;
    void *p = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (!p)
        linear_fail("no memory; --quick needs less");
#if defined(MADV_HUGEPAGE)
    (void)madvise(p, (bytes + page - 1) / page * page, MADV_HUGEPAGE);
#endif
    return p;
}

static void linear_fill(float *x, size_t n) {
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

/* Makes weights [N, K] of a type. Rows repeat after the first few, which changes no timing. */
static unsigned char *make_weights(enum kvc_type type, size_t N, size_t K) {
    enum { DIFFERENT = 16 };
    size_t row = kvc_type_row_bytes(type, K);
    unsigned char *w = memory(N * row);
    float *values = memory(K * sizeof(float));
    linear_fill(values, K);
    for (size_t n = 0; n < N; n++) {
        if (n >= DIFFERENT) {
            memcpy(w + n * row, w + n % DIFFERENT * row, row);
            continue;
        }
        values[n] = 0.5f;
        if (!kvc_quantize_row(type, values, K, w + n * row))
            linear_fail("a row of weights cannot be quantized");
    }
    free(values);
    return w;
}

/* One linear layer, for repeated runs. */
struct layer {
    size_t N, K, rows;
    unsigned char *w;
    struct kvc_weight *weight;
    struct kvc_span x, y;
};

static struct layer layer_open(struct bench *b, enum kvc_type type, size_t N, size_t K, size_t rows) {
    struct layer l = {.N = N, .K = K, .rows = rows, .w = make_weights(type, N, K)};
    struct kvc_error error;
    const struct kvc_ops *ops = b->device->ops;
    if (ops->buffer_create(b->device, KVC_MEMORY_SCRATCH, rows * K * sizeof(float), &l.x.buffer, &error) != KVC_OK ||
        ops->buffer_create(b->device, KVC_MEMORY_SCRATCH, rows * N * sizeof(float), &l.y.buffer, &error) != KVC_OK ||
        ops->weight_create(b->device, type, N, K, l.w, &l.weight, &error) != KVC_OK)
        linear_fail(error.text);
    linear_fill(kvc_span_data(l.x), rows * K);
    memset(kvc_span_data(l.y), 0, rows * N * sizeof(float));
    return l;
}
static double layer_run(struct bench *b, const struct layer *l) {
    struct kvc_error error;
    double start = now(b);
    b->device->ops->linear(
        b->device,
        &(struct kvc_linear){
            .y = l->y, .x = l->x, .w = l->weight, .bias = (struct kvc_span){NULL, 0}, .rows = (uint32_t)l->rows});
    if (b->device->ops->sync(b->device, &error) != KVC_OK)
        linear_fail(error.text);
    return now(b) - start;
}
static void layer_close(struct bench *b, struct layer *l) {
    b->device->ops->weight_free(b->device, l->weight);
    b->device->ops->buffer_free(b->device, l->x.buffer);
    b->device->ops->buffer_free(b->device, l->y.buffer);
    free(l->w);
}

static double linear_best(double a, double b) { return a < b ? a : b; }

/* ---- OpenBLAS ------------------------------------------------------------------------------------------------ */

#if defined(KVC_OPENBLAS)
#define TIMEOUT "OPENBLAS_THREAD_TIMEOUT"

static double sgemm_run(struct bench *b, const struct layer *l) {
    double start = now(b);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)l->rows, (int)l->N, (int)l->K, 1.0f, kvc_span_data(l->x),
                (int)l->K, (const float *)(const void *)l->w, (int)l->K, 0.0f, kvc_span_data(l->y), (int)l->N);
    return now(b) - start;
}

/* Runs in a child process: prints OpenBLAS's core type and its speed. */
static void probe(struct bench *b) {
    struct layer l = layer_open(b, KVC_F32, 2048, 2048, 512);
    double seconds = 1e9;
    openblas_set_num_threads((int)b->count);
    for (unsigned i = 0; i < 5; i++)
        seconds = linear_best(seconds, sgemm_run(b, &l));
    printf("%s %.1f\n", openblas_get_corename(), 2e-9 * 512.0 * 2048 * 2048 / seconds);
    layer_close(b, &l);
}

/* Restarts this program with the fastest core type in the environment, unless OPENBLAS_CORETYPE is already set, because
 * OpenBLAS chooses its core type when it is loaded. To find it, runs this program once for each core type. A core type
 * that this CPU cannot run ends only that child process. OpenBLAS's threads are set to sleep after 2^20 ticks without
 * work, because busy waiting would slow down the other measurements. */
static void choose_core_type(char **arguments, unsigned threads, bool cpu_time) {
    static const char *const types[] = {"",           "Haswell",    "Zen",  "SkylakeX", "Cooperlake", "Sapphirerapids",
                                        "NEOVERSEN1", "NEOVERSEV1", "ARMV8"};
    char fastest[64] = "", self[4000], number[16];
    const char *given = getenv("OPENBLAS_CORETYPE");
    double speed = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return;
    self[length] = '\0';
    setenv(TIMEOUT, "20", 1);
    snprintf(linear_number, sizeof number, "%u", threads);
    if (!given)
        printf("sgemm, GFLOP/s by OPENBLAS_CORETYPE (512 x 2048 x 2048):");
    for (size_t i = 0; !given && i < sizeof types / sizeof types[0]; i++) {
        char got[64] = "";
        double rate = 0;
        int in_out[2];
        if (pipe(in_out) != 0)
            return;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(in_out[1], 1);
            close(in_out[0]);
            if (*types[i])
                setenv("OPENBLAS_CORETYPE", types[i], 1);
            else
                unsetenv("OPENBLAS_CORETYPE");
            execl(self, self, "--threads", linear_number, "--probe", cpu_time ? "--cpu-time" : (char *)NULL,
                  (char *)NULL);
            _exit(127);
        }
        close(in_out[1]);
        FILE *answer = fdopen(in_out[0], "r");
        if (!answer || fscanf(answer, "%63s %lf", got, &rate) != 2)
            rate = 0;
        if (answer)
            fclose(answer);
        if (child > 0)
            waitpid(child, NULL, 0);
        if (rate > 0 && (i == 0 || strcasecmp(got, types[i]) == 0))
            printf(" %s%s %.1f", got, i == 0 ? " (its own choice)" : "", rate);
        if (rate > speed) {
            speed = rate;
            snprintf(fastest, sizeof fastest, "%s", got);
        }
    }
    if (!given) {
        printf("\n");
        setenv("OPENBLAS_CORETYPE", fastest, 1);
    }
    fflush(stdout);
    execv(self, arguments);
    linear_fail(strerror(errno));
}
#endif

/* ---- many rows ------------------------------------------------------------------------------------------------ */

#define SHORTEST 0.012 /* minimum seconds of a measurement */
#define PAIRS_MOST 1000

static int linear_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Returns a quantile of n sorted values; part 0.5 is the median. */
static double quantile(const double *x, size_t n, double part) {
    double at = part * (double)(n - 1), low = (double)(size_t)at;
    size_t i = (size_t)at;
    return i + 1 < n ? x[i] + (at - low) * (x[i + 1] - x[i]) : x[n - 1];
}

/* Returns the seconds of one run, as the mean of as many runs as fill SHORTEST. A run with fewer rows goes first: it
 * wakes the threads and loads this library's data into the caches. */
static double measured(struct bench *b, const struct layer *l, double (*run)(struct bench *, const struct layer *)) {
    struct layer first = *l;
    double seconds = 0;
    unsigned runs = 0;
    first.rows = l->rows < 64 ? l->rows : 64;
    run(b, &first);
    for (; seconds < SHORTEST; runs++)
        seconds += run(b, l);
    return seconds / runs;
}

static void table_gemm(struct bench *b) {
    static const size_t sizes[] = {1024, 2048, 4096, 8192};
    size_t count = b->quick ? 3 : 4;
#if defined(KVC_OPENBLAS)
    double lowest = 1e9;
    openblas_set_num_threads((int)b->count);
    printf("\nF32, %" PRIu32 " rows, %u thread(s), packing included; sgemm: OPENBLAS_CORETYPE=%s\n", b->rows, b->count,
           openblas_get_corename());
    printf("%6s %6s %14s %14s %8s %18s %7s\n", "K", "N", "GFLOP/s", "sgemm", "ratio", "quartiles", "pairs");
#else
    printf("\nF32, %" PRIu32 " rows, %u thread(s), packing included (no OpenBLAS in this build)\n", b->rows, b->count);
    printf("%6s %6s %14s\n", "K", "N", "GFLOP/s");
#endif
    for (size_t k = 0; k < count; k++)
        for (size_t n = 0; n < count; n++) {
            struct layer l = layer_open(b, KVC_F32, sizes[n], sizes[k], b->rows);
            double flops = 2e-9 * (double)b->rows * (double)sizes[n] * (double)sizes[k], ours[PAIRS_MOST];
            size_t pairs = b->rounds * (sizes[n] * sizes[k] <= 8u << 20 ? 4 : sizes[n] * sizes[k] < 64u << 20 ? 2 : 1);
            pairs = pairs < PAIRS_MOST ? pairs : PAIRS_MOST;
#if defined(KVC_OPENBLAS)
            double theirs[PAIRS_MOST], ratio[PAIRS_MOST];
            for (size_t i = 0; i < pairs; i++) {
                ours[i] = measured(b, &l, layer_run);
                theirs[i] = measured(b, &l, sgemm_run);
                ratio[i] = theirs[i] / ours[i];
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* lets OpenBLAS's threads fall asleep */
            }
            qsort(theirs, pairs, sizeof *theirs, linear_ascending);
            qsort(ratio, pairs, sizeof *ratio, linear_ascending);
#else
            for (size_t i = 0; i < pairs; i++)
                ours[i] = measured(b, &l, layer_run);
#endif
            qsort(ours, pairs, sizeof *ours, linear_ascending);
            printf("%6zu %6zu %14.1f", sizes[k], sizes[n], flops / quantile(ours, pairs, 0.5));
#if defined(KVC_OPENBLAS)
            printf(" %14.1f %8.3f %9.3f to %5.3f %7zu", flops / quantile(theirs, pairs, 0.5),
                   quantile(ratio, pairs, 0.5), quantile(ratio, pairs, 0.25), quantile(ratio, pairs, 0.75), pairs);
            lowest = linear_best(lowest, quantile(ratio, pairs, 0.5));
#endif
            printf("\n");
            fflush(stdout);
            layer_close(b, &l);
        }
#if defined(KVC_OPENBLAS)
    printf("lowest ratio: %.3f (goal: 1.0)\n", lowest);
#endif
}

static void table_types(struct bench *b) {
    printf("\nEvery type, K = N = 4096, %" PRIu32 " rows, %u thread(s)\n%8s %14s\n", b->rows, b->count, "type",
           "GFLOP/s");
    for (int type = 0; type < KVC_ALL_TYPES; type++) {
        struct layer l = layer_open(b, (enum kvc_type)type, 4096, 4096, b->rows);
        double ours = 1e9;
        for (unsigned i = 0; i < b->rounds; i++)
            ours = linear_best(ours, layer_run(b, &l));
        printf("%8s %14.1f\n", kvc_type_name((enum kvc_type)type), 2e-9 * (double)b->rows * 4096 * 4096 / ours);
        fflush(stdout);
        layer_close(b, &l);
    }
}

static void table_few(struct bench *b) {
    static const uint32_t rows[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0, KVC_Q4_K};
    printf("\nGFLOP/s by rows, K = N = 4096, %u thread(s)\n%6s", b->count, "rows");
    for (size_t t = 0; t < 4; t++)
        printf(" %10s", kvc_type_name(types[t]));
    printf("\n");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        printf("%6" PRIu32, rows[r]);
        for (size_t t = 0; t < 4; t++) {
            struct layer l = layer_open(b, types[t], 4096, 4096, rows[r]);
            double ours = 1e9;
            for (unsigned i = 0; i < 2 * b->rounds; i++)
                ours = linear_best(ours, layer_run(b, &l));
            printf(" %10.1f", 2e-9 * rows[r] * 4096.0 * 4096 / ours);
            fflush(stdout);
            layer_close(b, &l);
        }
        printf("\n");
    }
}

/* ---- the machine's read bandwidth ---------------------------------------------------------------------------- */

typedef uint64_t line __attribute__((vector_size(64)));

struct reading {
    const unsigned char *from;
    size_t bytes, parts;
    line seen[1024];
};

/* Selects the widest loads of the CPU, because some kernels read faster than narrow loads. */
#if defined(KVC_X86_SIMD)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* Read each part as one stream of addresses, or as four streams. Which variant is faster depends on the machine. */
WIDEST static void read_one_stream(void *argument, size_t task, unsigned thread) {
    struct reading *r = argument;
    size_t lines = r->bytes / r->parts / 4096 * 64;
    const line *p = (const line *)(const void *)r->from + task * lines;
    line a = {0}, b = {0}, c = {0}, d = {0};
    (void)thread;
    for (size_t i = 0; i < lines; i += 4) {
        a ^= p[i];
        b ^= p[i + 1];
        c ^= p[i + 2];
        d ^= p[i + 3];
    }
    r->seen[task] = a ^ b ^ c ^ d;
}
WIDEST static void read_four_streams(void *argument, size_t task, unsigned thread) {
    struct reading *r = argument;
    size_t lines = r->bytes / r->parts / 4096 * 64, quarter = lines / 4;
    const line *p = (const line *)(const void *)r->from + task * lines;
    line a = {0}, b = {0}, c = {0}, d = {0};
    (void)thread;
    for (size_t i = 0; i < quarter; i++) {
        a ^= p[i];
        b ^= p[i + quarter];
        c ^= p[i + 2 * quarter];
        d ^= p[i + 3 * quarter];
    }
    r->seen[task] = a ^ b ^ c ^ d;
}

static double read_run(struct bench *b, struct reading *r, kvc_task_fn *pattern) {
    double start = now(b);
    kvc_threads_run(b->threads, r->parts, pattern, r);
    return now(b) - start;
}

/* Returns the bytes of weights per second for one row, with weights in L2. The arithmetic of a thread sets this limit.
 */
static double cached_rate(struct bench *b, enum kvc_type type, size_t K) {
    size_t row = kvc_type_row_bytes(type, K), N = ((size_t)256 << 10) / row;
    struct layer l = layer_open(b, type, N, K, 1);
    double ours = 1e9;
    for (unsigned i = 0; i < 200 * b->rounds; i++)
        ours = linear_best(ours, layer_run(b, &l));
    layer_close(b, &l);
    return (double)(N * row) / ours;
}

static void table_decode(struct bench *b) {
    size_t bytes = (size_t)(b->quick ? 64 : 192) << 20, K = 4096;
    printf("\nOne row, K = 4096, matrices of %zu MiB, %u thread(s); "
           "read: the machine's bandwidth over the same bytes\n",
           bytes >> 20, b->count);
    printf("%8s %12s %12s %8s %8s", "type", "GB/s", "read GB/s", "ratio", "goal");
    if (b->count == 1)
        printf(" %18s", "from cache, GB/s");
    printf("\n");
    for (int type = 0; type < KVC_ALL_TYPES; type++) {
        size_t row = kvc_type_row_bytes((enum kvc_type)type, K), N = bytes / row;
        struct layer l = layer_open(b, (enum kvc_type)type, N, K, 1);
        struct reading r = {.from = l.w, .bytes = N * row, .parts = b->count == 1 ? 1 : 4 * b->count};
        double ours = 1e9, reads = 1e9;
        const char *goal = type == KVC_F32 || type == KVC_F16 || type == KVC_Q8_0 ? "0.9"
                           : type == KVC_Q4_0 || type == KVC_Q4_K                 ? "0.6"
                                                                                  : "";
        for (unsigned i = 0; i < 2 * b->rounds; i++) {
            ours = linear_best(ours, layer_run(b, &l));
            reads =
                linear_best(reads, linear_best(read_run(b, &r, read_one_stream), read_run(b, &r, read_four_streams)));
        }
        printf("%8s %12.1f %12.1f %8.2f %8s", kvc_type_name((enum kvc_type)type), 1e-9 * (double)(N * row) / ours,
               1e-9 * (double)r.bytes / reads, reads / ours, goal);
        if (b->count == 1)
            printf(" %18.1f", 1e-9 * cached_rate(b, (enum kvc_type)type, K));
        printf("\n");
        fflush(stdout);
        layer_close(b, &l);
    }
}

static unsigned linear_number(const char *text, unsigned most) {
    char *end;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || n < 1 || n > most) {
        fprintf(stderr, "bench/linear: '%s' should be a number from 1 to %u\n", text ? text : "", most);
        exit(KVC_USAGE);
    }
    return (unsigned)n;
}

int main(int count, char **arguments) {
    struct bench b = {.rounds = 5, .count = 1, .rows = 512, .clock = CLOCK_MONOTONIC};
    struct kvc_error error;
    bool gemm = false, types = false, few = false, decode = false, probing = false;
    for (int i = 1; i < count; i++) {
        const char *a = arguments[i];
        if (strcmp(a, "--threads") == 0)
            b.count = linear_number(arguments[++i], 256);
        else if (strcmp(a, "--rounds") == 0)
            b.rounds = linear_number(arguments[++i], 1000);
        else if (strcmp(a, "--rows") == 0)
            b.rows = linear_number(arguments[++i], 1u << 20);
        else if (strcmp(a, "--quick") == 0)
            b.quick = true;
        else if (strcmp(a, "--cpu-time") == 0)
            b.clock = CLOCK_PROCESS_CPUTIME_ID;
        else if (strcmp(a, "--probe") == 0)
            probing = true;
        else if (strcmp(a, "gemm") == 0)
            gemm = true;
        else if (strcmp(a, "types") == 0)
            types = true;
        else if (strcmp(a, "few") == 0)
            few = true;
        else if (strcmp(a, "decode") == 0)
            decode = true;
        else {
            fprintf(stderr, "bench/linear: unknown argument '%s'\n", a);
            return KVC_USAGE;
        }
    }
    if (b.clock != CLOCK_MONOTONIC && b.count > 1) {
        fprintf(stderr, "bench/linear: --cpu-time is for one thread\n");
        return KVC_USAGE;
    }
    if (!gemm && !types && !few && !decode)
        gemm = types = few = decode = true;
    if (kvc_backend_cpu.open(NULL, 0, (int)b.count, KVC_MATH_EXACT, &b.device, &error) != KVC_OK ||
        kvc_threads_open((int)b.count, &b.threads, &error) != KVC_OK)
        linear_fail(error.text);
    if (probing) {
#if defined(KVC_OPENBLAS)
        probe(&b);
#endif
        gemm = types = few = decode = false;
    } else {
#if defined(KVC_OPENBLAS)
        if (gemm && !getenv(TIMEOUT))
            choose_core_type(arguments, b.count, b.clock != CLOCK_MONOTONIC);
#endif
        printf("%s\n", b.device->name);
    }
    if (gemm)
        table_gemm(&b);
    if (types)
        table_types(&b);
    if (few)
        table_few(&b);
    if (decode)
        table_decode(&b);
    kvc_threads_close(b.threads);
    b.device->ops->close(b.device);
    return KVC_OK;
}
