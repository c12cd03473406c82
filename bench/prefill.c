/* prefill.c - measures the time of each operation in a prefill, and the share of attention.
 *
 *     bench/prefill [threads [shape [type [float|int8 [tokens]]]]]
 *
 * The program computes a prompt of random tokens once, with a model of random weights (`kvcull info shapes` lists the
 * shapes), and times each call of an operation. It prints the rate of attention beside the rate of a loop of fused
 * multiply-adds. With one thread, times are processor time of this process, so that other load disturbs less; with more
 * threads they are wall time. KVCULL_CPU names the instruction set. */
#include <stdio.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "bench/roofline.h"
#include "core/base/ops.h"
#include "core/engine/engine.h"

enum operation {
#define KVC_OPERATION(name, parameters, ...) OPERATION_##name,
#include "core/base/ops.def"
    OPERATIONS
};

static const char *const operation_names[] = {
#define KVC_OPERATION(name, parameters, ...) #name,
#include "core/base/ops.def"
};

struct timed_table {
    struct kvc_ops ops; /* must be the first member, because the device's ops points here */
    const struct kvc_ops *real;
    double seconds[OPERATIONS];
};

/* During an operation the device uses its own table, so that nested operations are counted once. */
#define KVC_OPERATION(name, parameters, ...)                                                                           \
    static void timed_##name(struct kvc_device *device, const struct parameters *args) {                               \
        struct timed_table *table = (struct timed_table *)(uintptr_t)device->ops;                                      \
        const double start = seconds_now();                                                                            \
        device->ops = table->real;                                                                                     \
        device->ops->name(device, args);                                                                               \
        device->ops = &table->ops;                                                                                     \
        table->seconds[OPERATION_##name] += seconds_now() - start;                                                     \
    }
#include "core/base/ops.def"

static void time_operations(struct kvc_device *device, struct timed_table *table) {
    *table = (struct timed_table){.ops = *device->ops, .real = device->ops};
#define KVC_OPERATION(name, parameters, ...)                                                                           \
    if (table->ops.name)                                                                                               \
        table->ops.name = timed_##name;
#include "core/base/ops.def"
    device->ops = &table->ops;
}

static void prefill_must(enum kvc_status status, const struct kvc_error *error) {
    if (status != KVC_OK) {
        fprintf(stderr, "%s\n", error->text);
        exit((int)status);
    }
}

static void prefill_refuse(const char *what, const char *given) {
    fprintf(stderr, "%s: %s\n", given, what);
    exit(KVC_USAGE);
}

static enum kvc_type type_of(const char *name) {
    for (int type = 0; type < KVC_TYPES; type++)
        if (strcmp(kvc_type_name((enum kvc_type)type), name) == 0)
            return (enum kvc_type)type;
    prefill_refuse("is not a weight type; try f16, q8_0 or q4_0", name);
    return KVC_F32;
}

/* Makes a model of the shape. Its temporary file is deleted as soon as it is open. */
static struct kvc_model *make_shape(struct kvc_engine *engine, const char *shape, enum kvc_type type) {
    const char *folder = getenv("TMPDIR");
    char path[1024];
    struct kvc_model *model;
    struct kvc_error error;
    const int length = snprintf(path, sizeof path, "%s/kvcull-prefill-XXXXXX", folder ? folder : "/tmp");
    const int file = length > 0 && (size_t)length < sizeof path ? mkstemp(path) : -1;
    if (file < 0)
        prefill_refuse("cannot create a file in this folder", folder ? folder : "/tmp");
    close(file);
    enum kvc_status status = kvc_make_model(shape, type, 1, path, &error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, path, &model, &error);
    unlink(path);
    prefill_must(status, &error);
    return model;
}

static int32_t *random_tokens(size_t count, uint32_t vocab) {
    int32_t *tokens = malloc(count * sizeof *tokens);
    uint64_t seed = 1;
    if (!tokens) {
        fprintf(stderr, "no memory for %zu tokens\n", count);
        exit(KVC_RESOURCE);
    }
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((seed >> 33) % vocab);
    }
    return tokens;
}

/* Computes the prompt and returns the time in seconds. */
static double prefill(struct kvc_model *model, const int32_t *tokens, size_t count) {
    struct kvc_session_options options;
    struct kvc_session *session;
    struct kvc_error error;
    kvc_session_defaults(&options);
    prefill_must(kvc_session_open(model, &options, &session, &error), &error);
    const double start = seconds_now();
    prefill_must(kvc_session_prompt(session, tokens, count, NULL, NULL, &error), &error);
    const double took = seconds_now() - start;
    kvc_session_close(session);
    return took;
}

static void print_table(const struct timed_table *table, double took) {
    double rest = took;
    printf("| operation | seconds | share |\n|---|---|---|\n");
    for (size_t i = 0; i < OPERATIONS; i++) {
        rest -= table->seconds[i];
        if (table->seconds[i] > 0.001 * took)
            printf("| %s | %.2f | %.1f %% |\n", operation_names[i], table->seconds[i],
                   100.0 * table->seconds[i] / took);
    }
    printf("| all else, host included | %.2f | %.1f %% |\n", rest, 100.0 * rest / took);
}

int main(int argc, char **argv) {
    const char *shape = argc > 2 ? argv[2] : "100m", *math = argc > 4 ? argv[4] : "float";
    const enum kvc_type type = type_of(argc > 3 ? argv[3] : "q8_0");
    const long count = argc > 5 ? atol(argv[5]) : 4096;
    struct kvc_engine_options options = {.backend = "cpu", .threads = argc > 1 ? atoi(argv[1]) : 1};
    struct kvc_engine *engine;
    struct kvc_error error;
    struct timed_table table;
    if (strcmp(math, "int8") == 0)
        options.math = KVC_MATH_INT8;
    else if (strcmp(math, "float") != 0)
        prefill_refuse("must be float or int8", math);
    if (count < 1 || count > 1 << 20)
        prefill_refuse("tokens must be 1 to 1048576", argv[5]);
    if (options.threads == 1)
        bench_clock = CLOCK_PROCESS_CPUTIME_ID;
    prefill_must(kvc_engine_open(&options, &engine, &error), &error);
    struct kvc_model *model = make_shape(engine, shape, type);
    const struct kvc_model_info *info = kvc_model_info(model);
    int32_t *tokens = random_tokens((size_t)count, info->vocab);
    prefill(model, tokens, 16); /* warm-up: reads the weights and allocates scratch memory */
    struct kvc_device *device = engine->device;
    const double limit = measured_flops(((struct kvc_cpu *)device)->threads);
    time_operations(device, &table);
    const double took = prefill(model, tokens, (size_t)count);
    device->ops = table.real;
    const double n = (double)count, attention = table.seconds[OPERATION_attention];
    const double flops = 4.0 * info->layers * info->heads * info->head_size * n * (n + 1) / 2;
    printf("%s, %s, --math %s, %ld tokens, %s: %.2f s\n\n", shape, kvc_type_name(type), math, count, device->name,
           took);
    print_table(&table, took);
    printf("\nattention: %.1f %% of the prefill; %.1f GFLOP/s of %.1f, %.2f\n", 100.0 * attention / took,
           flops / attention * 1e-9, limit * 1e-9, flops / attention / limit);
    free(tokens);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}
