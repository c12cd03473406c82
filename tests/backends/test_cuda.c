/* test_cuda.c - the CUDA backend on an emulated device: every operation is bit-identical to ref; graphs, memory, and
 * errors for missing parts. tests/cuda has the emulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "core/base/types.h"
#include "core/check/verify.h"
#include "tests/check.h"
#include "tests/verify_some.h"

extern const struct kvc_backend_class kvc_backend_cuda;

/* This program's backends, which replace the library's list. */
const struct kvc_backend_class *const kvc_backend_list[] = {&kvc_backend_cuda, &kvc_backend_ref, NULL};

static int print_row(void *user, const struct kvc_verify_row *row) {
    unsigned *rows = user;
    ++*rows;
    if (row->differing)
        print_error("%s: %llu values differ, %s\n", row->name, (unsigned long long)row->differing, row->first);
    return 0;
}

static struct kvc_device *open_device(void) {
    struct kvc_device *device;
    kvc_fake_cuda.lost = cudaSuccess;
    assert_int_equal(kvc_backend_cuda.open(NULL, 0, 1, KVC_MATH_EXACT, &device, NULL), KVC_OK);
    return device;
}

static struct kvc_buffer *new_buffer(struct kvc_device *device, size_t bytes) {
    struct kvc_buffer *buffer;
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &buffer, NULL), KVC_OK);
    return buffer;
}

/* ---- linear layers: every type in every shape ---- */

/* Rows of synthetic weights. Scales are below 2, and no FP8 number has the largest exponent. */
static void fill_weights(enum kvc_type type, unsigned char *data, size_t bytes) {
    const struct kvc_type_block of = kvc_type_block(type);
    /* The range of bytes that hold the signs and exponents of the scales; for plain types, the last byte. */
    const size_t first = of.scales ? of.scale + of.wide - 1 : of.bytes - 1, last = first + (of.scales > 1 ? 2 : 0);
    uint32_t random = 1;
    for (size_t i = 0; i < bytes; i++) {
        random = random * 1664525u + 1013904223u;
        data[i] = (unsigned char)(random >> 24);
        if (i % of.bytes == first || i % of.bytes == last)
            data[i] = of.wide == 1 ? 120 + data[i] % 8 : data[i] & 0xbf;
        else if (of.wide == 4 && i % of.bytes > first)
            data[i] &= 0xf7;
    }
}

/* Runs a linear layer of `rows` rows at x. With eight-bit activations it quantizes them into `quantized` first. */
static void run_linear(struct kvc_device *device, bool int8, struct kvc_span y, struct kvc_span x,
                       struct kvc_buffer *quantized, const struct kvc_weight *w, uint32_t K, uint32_t rows) {
    const size_t values = (size_t)rows * K;
    const struct kvc_int8_rows at = {
        .quant = {quantized, 0}, .scale = {quantized, values}, .sum = {quantized, 2 * values}};
    if (!int8) { /* the bias is the first row of x */
        device->ops->linear(device, &(struct kvc_linear){.y = y, .x = x, .w = w, .bias = x, .rows = rows});
        return;
    }
    device->ops->quantize_rows(device, &(struct kvc_quantize_rows){.y = at, .x = x, .rows = rows, .K = K});
    device->ops->linear_int8(device, &(struct kvc_linear_int8){.y = y, .x = at, .w = w, .bias = x, .rows = rows});
}

static void one_linear(struct kvc_device *const device[2], bool int8, enum kvc_type type, uint32_t N, uint32_t K,
                       uint32_t rows) {
    size_t bytes = kvc_type_row_bytes(type, K) * N, x_count = (size_t)rows * K, y_count = (size_t)rows * N;
    unsigned char *weights = malloc(bytes);
    float *x = malloc(x_count * sizeof *x), *y[2] = {malloc(y_count * 4), malloc(y_count * 4)};
    assert_true(weights && x && y[0] && y[1]);
    fill_weights(type, weights, bytes);
    for (size_t i = 0; i < x_count; i++)
        x[i] = (float)((int)(i * 7919 % 2003) - 1001) / 512.0f;
    for (int side = 0; side < 2; side++) {
        const struct kvc_ops *ops = device[side]->ops;
        struct kvc_span from = {new_buffer(device[side], x_count * 4), 0};
        struct kvc_span to = {new_buffer(device[side], y_count * 4), 0};
        struct kvc_buffer *quantized = new_buffer(device[side], x_count * 3);
        struct kvc_weight *w;
        assert_int_equal(ops->weight_create(device[side], type, N, K, weights, &w, NULL), KVC_OK);
        ops->upload(device[side], from, x, x_count * 4);
        run_linear(device[side], int8, to, from, quantized, w, K, rows);
        ops->download(device[side], y[side], to, y_count * 4);
        assert_int_equal(ops->sync(device[side], NULL), KVC_OK);
        ops->weight_free(device[side], w);
        ops->buffer_free(device[side], from.buffer);
        ops->buffer_free(device[side], to.buffer);
        ops->buffer_free(device[side], quantized);
    }
    for (size_t i = 0; i < y_count; i++)
        if (kvc_hash_bits(y[0][i]) != kvc_hash_bits(y[1][i]))
            fail_msg("%s%s, %u x %u, %u rows: value %zu is %08x, ref has %08x", kvc_type_name(type),
                     int8 ? " int8" : "", (unsigned)N, (unsigned)K, (unsigned)rows, i, (unsigned)kvc_bits(y[1][i]),
                     (unsigned)kvc_bits(y[0][i]));
    assert_false(kvc_is_nan(y[0][0]));
    free(weights);
    free(x);
    free(y[0]);
    free(y[1]);
}

static void linear_shapes(void **state) {
    static const uint32_t rows[] = {1, 3, 7, 70}, outputs[] = {33, 8}, floats[] = {8, 200, 392};
    static const uint32_t blocks[] = {1, 3, 18};
    struct kvc_device *device[2];
    (void)state;
    assert_int_equal(kvc_backend_ref.open(NULL, 0, 1, KVC_MATH_EXACT, &device[0], NULL), KVC_OK);
    device[1] = open_device();
    for (int type = 0; type < KVC_ALL_TYPES; type++)
        for (int i = 0; i < 3; i++)
            for (int r = 0; r < 4; r++) {
                uint32_t block = kvc_type_block((enum kvc_type)type).elements;
                uint32_t K = block == 1 ? floats[i] : block * (block == 256 && i == 2 ? 2 : blocks[i]);
                one_linear(device, false, (enum kvc_type)type, K < 33 ? 8 : outputs[r % 2], K, rows[r]);
                if (block > 1 && type < KVC_TYPES)
                    one_linear(device, true, (enum kvc_type)type, K < 33 ? 8 : outputs[r % 2], K, rows[r]);
            }
    device[0]->ops->close(device[0]);
    device[1]->ops->close(device[1]);
}

/* KVCULL_CUDA_EFFORT increases the number of cases; KVCULL_CUDA_ONLY selects one operation. */
static void operations(void **state) {
    const char *effort = getenv("KVCULL_CUDA_EFFORT"), *only = getenv("KVCULL_CUDA_ONLY");
    struct kvc_error error = {KVC_OK, ""};
    static const char *const more[] = {
        "linear",    "expert_linear",      "linear_int8", "linear_int16",
        "attention", "attention+integers", "ring_write"}; /* Each of them launches many kernels. */
    /* The shared kernels that CUDA kernels replace, those of --math=fast, and the one that clears memory on OpenCL CPU
     * devices. */
    static const char *const unused[] = {"pack_x",     "pack_w",   "product", "linear_int8_gemm", "linear_int16_gemm",
                                         "dequantize", "add_bias", "clear"};
    const char *never;
    unsigned rows = 0, missed = 0;
    enum kvc_status status =
        kvc_test_verify("cuda", 1, effort ? (unsigned)atoi(effort) : 0, only, print_row, &rows, &error);
    (void)state;
    if (status != KVC_OK)
        print_error("%s\n", error.text);
    assert_int_equal(status, KVC_OK);
    assert_true(rows > 0);
    assert_int_equal(kvc_fake_cuda.allocations, 0); /* nothing remains allocated on the device */
    if (only)
        return;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        assert_int_equal(kvc_test_verify("cuda", 1, 1, more[i], print_row, &rows, NULL), KVC_OK);
    for (size_t i = 0; (never = kvc_fake_never_launched(i)) != NULL; i++) {
        bool may = strncmp(never, "linear_", 7) == 0; /* Such kernels run only for unaligned rows. */
        for (size_t k = 0; k < sizeof unused / sizeof unused[0]; k++)
            may = may || strcmp(never, unused[k]) == 0;
        if (!may)
            print_error("the kernel %s was never launched\n", never);
        missed += !may;
    }
    assert_int_equal(missed, 0);
}

/* ---- the host side, with an emulated runtime that counts what was requested ---- */

enum { VALUES = 100, CALLS = 9 };

/* One step computes y = share * y + (1 - share) * x nine times, and copies y to z. */
static void one_step(struct kvc_device *device, struct kvc_buffer *const b[3], float share, float *result) {
    struct kvc_span y = {b[0], 0}, x = {b[1], 0}, z = {b[2], 0};
    for (int i = 0; i < CALLS; i++)
        device->ops->blend(device, &(struct kvc_blend){.y = y, .x = x, .share = share, .n = VALUES});
    device->ops->zero(device, z, VALUES * sizeof(float));
    device->ops->copy(device, z, y, VALUES * sizeof(float));
    device->ops->download(device, result, z, VALUES * sizeof(float));
}

static void graphs(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_buffer *b[3] = {new_buffer(device, 400), new_buffer(device, 400), new_buffer(device, 400)};
    float values[VALUES], result[VALUES], expected = 1.0f;
    size_t graphs, nodes, before;
    (void)state;
    for (int i = 0; i < VALUES; i++)
        values[i] = 1.0f;
    device->ops->upload(device, (struct kvc_span){b[0], 0}, values, sizeof values);
    for (int i = 0; i < VALUES; i++)
        values[i] = 3.0f;
    device->ops->upload(device, (struct kvc_span){b[1], 0}, values, sizeof values);
    before = kvc_fake_cuda.graphs_made;
    graphs = kvc_fake_cuda.graph_launches;
    for (int step = 0; step < 6; step++) {
        float share = step < 4 ? 0.5f : 0.25f;
        nodes = kvc_fake_cuda.nodes_changed;
        one_step(device, b, share, result);
        for (int i = 0; i < CALLS; i++)
            expected = kvc_fma(share, expected, (1.0f - share) * 3.0f);
        for (int i = 0; i < VALUES; i++)
            assert_true(result[i] == expected);
        if (step == 3) /* the same arguments as before */
            assert_int_equal(kvc_fake_cuda.nodes_changed - nodes, 0);
        if (step == 4) /* Each launch has a different share. */
            assert_int_equal(kvc_fake_cuda.nodes_changed - nodes, CALLS);
    }
    assert_int_equal(kvc_fake_cuda.graphs_made - before, 1);
    assert_int_equal(kvc_fake_cuda.graph_launches - graphs, 5); /* all but the first */
    for (int i = 0; i < 3; i++)
        device->ops->buffer_free(device, b[i]);
    device->ops->close(device);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

/* ---- whole decode steps ---- */

enum { PROMPT = 30, STEPS = 12, SIDES = 2 };

struct run {
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_session *session;
    float *logits;
};

static void open_run(struct run *run, const char *backend, enum kvc_math math, const char *model, const char *spec,
                     enum kvc_type entries) {
    const struct kvc_engine_options options = {.backend = backend, .threads = 1, .math = math};
    const char *source = getenv("top_srcdir");
    struct kvc_session_options session;
    struct kvc_error error = {KVC_OK, ""};
    int32_t tokens[PROMPT];
    char path[512];
    if (model[0] == '/')
        snprintf(path, sizeof path, "%s", model);
    else
        snprintf(path, sizeof path, "%s/%s", source ? source : ".", model);
    kvc_session_defaults(&session);
    session.policy = spec;
    session.cache_type = kvc_entry_types(entries);
    if (kvc_engine_open(&options, &run->engine, &error) != KVC_OK ||
        kvc_model_open(run->engine, path, &run->model, &error) != KVC_OK ||
        kvc_session_open(run->model, &session, &run->session, &error) != KVC_OK)
        fail_msg("%s, %s: %s", backend, spec, error.text);
    const size_t vocab = kvc_model_info(run->model)->vocab;
    /* If both sessions may share rows, the second one's entries are copies of the first one's. */
    struct kvc_session *both[2] = {NULL, run->session};
    session.policy = "full";
    assert_int_equal(kvc_session_open(run->model, &session, &both[0], &error), KVC_OK);
    run->logits = malloc(2 * vocab * sizeof *run->logits);
    assert_non_null(run->logits);
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)((unsigned)i * 7919u % kvc_model_info(run->model)->vocab);
    assert_int_equal(kvc_session_prompt_many(both, 2, tokens, PROMPT, run->logits, NULL, &error), KVC_OK);
    memcpy(run->logits, run->logits + vocab, vocab * sizeof *run->logits);
    kvc_session_close(both[0]);
}

static void close_run(struct run *run) {
    kvc_session_close(run->session);
    kvc_model_close(run->model);
    kvc_engine_close(run->engine);
    free(run->logits);
}

static void same_logits(const struct run run[SIDES], const char *spec, int step) {
    for (uint32_t i = 0; i < kvc_model_info(run[0].model)->vocab; i++)
        if (kvc_hash_bits(run[0].logits[i]) != kvc_hash_bits(run[1].logits[i]))
            fail_msg("%s, step %d: logit %u is %08x, ref has %08x", spec, step, (unsigned)i,
                     (unsigned)kvc_bits(run[1].logits[i]), (unsigned)kvc_bits(run[0].logits[i]));
}

/* A step is one graph: the host uploads its input, launches the graph, and waits only for the logits. By the last steps
 * every sequence of launches has already occurred, so no new graph is recorded. Steps that add a block to a list also
 * make new tables. */
static void whole_step(enum kvc_math math, const char *model, const char *spec, enum kvc_type entries) {
    struct kvc_session_stats stats[SIDES];
    struct run run[SIDES];
    int counted = 0; /* late steps that add no block */
    open_run(&run[0], "ref", math, model, spec, entries);
    open_run(&run[1], "cuda", math, model, spec, entries);
    kvc_session_stats(run[1].session, &stats[1]);
    same_logits(run, spec, 0);
    for (int step = 1; step <= STEPS; step++) {
        const struct kvc_fake_cuda before = kvc_fake_cuda;
        const int32_t token = step * 31 % (int32_t)kvc_model_info(run[0].model)->vocab;
        for (int side = 0; side < SIDES; side++)
            assert_int_equal(kvc_decode(&run[side].session, &token, 1, run[side].logits, NULL, NULL), KVC_OK);
        same_logits(run, spec, step);
        const uint64_t had = stats[1].cache_bytes;
        kvc_session_stats(run[1].session, &stats[1]);
        if (step < STEPS - 2 || stats[1].cache_bytes != had)
            continue;
        counted++;
        if (kvc_fake_cuda.graph_launches - before.graph_launches != 1 || kvc_fake_cuda.alone != before.alone ||
            kvc_fake_cuda.graphs_made != before.graphs_made || kvc_fake_cuda.allocated != before.allocated ||
            kvc_fake_cuda.to_device - before.to_device != 4 || kvc_fake_cuda.from_device - before.from_device > 3)
            fail_msg("%s, step %d: %zu graphs launched, %zu made, %zu kernels alone, %zu allocations, %zu copies to "
                     "the device, %zu back",
                     spec, step, kvc_fake_cuda.graph_launches - before.graph_launches,
                     kvc_fake_cuda.graphs_made - before.graphs_made, kvc_fake_cuda.alone - before.alone,
                     kvc_fake_cuda.allocated - before.allocated, kvc_fake_cuda.to_device - before.to_device,
                     kvc_fake_cuda.from_device - before.from_device);
    }
    assert_true(counted > 0);
    for (int side = 0; side < SIDES; side++)
        kvc_session_stats(run[side].session, &stats[side]);
    assert_int_equal(stats[0].entries, stats[1].entries);
    assert_int_equal(stats[0].read_bytes, stats[1].read_bytes);
    assert_int_equal(stats[0].select_bytes, stats[1].select_bytes);
    close_run(&run[0]);
    close_run(&run[1]);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

static void whole_steps(void **state) {
    static const char *const specs[] = {"full",
                                        "streaming:budget=24",
                                        "streaming:budget=34,positions=cache", /* It evicts in steps 5, 6, ... */
                                        "snapkv:budget=24,window=8",
                                        "adakv:budget=24,window=8",
                                        "h2o:budget=24,per=head",
                                        "morphkv:budget=24,window=2",
                                        "quest:budget=24",
                                        "sparq:budget=24",
                                        "rocketkv-mt:budget=12,window=4+morphkv:budget=24,window=4"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        whole_step(KVC_MATH_FLOAT, "data/demo", specs[i], KVC_F16);
    whole_step(KVC_MATH_FLOAT, "tests/data/golden/qwen3-moe", "full",
               KVC_F16); /* Only the device knows which experts a step reads. */
    whole_step(KVC_MATH_FLOAT, "tests/data/golden/mixtral/model.gguf", "snapkv:budget=24,window=8", KVC_F16);
}

/* The same with int8 activations: quantizing them is part of the graph, as is quantizing the queries that are
 * multiplied by Q8_0 entries. */
static void whole_steps_int8(void **state) {
    static const char *const specs[] = {"full", "h2o:budget=24,per=head", "morphkv:budget=24,window=2",
                                        "topk:budget=24"};
    static const enum kvc_type types[] = {KVC_Q8_0, KVC_Q4_0};
    char path[] = "/tmp/kvcull-test-XXXXXX";
    const int file = mkstemp(path);
    const char *source = getenv("top_srcdir");
    struct kvc_error error;
    char demo[512];
    (void)state;
    assert_true(file >= 0);
    close(file);
    snprintf(demo, sizeof demo, "%s/data/demo", source ? source : ".");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(kvc_convert(demo, path, types[i], &error), KVC_OK);
        whole_step(KVC_MATH_INT8, path, "full", KVC_F16);
        whole_step(KVC_MATH_INT8, path, "h2o:budget=24,per=head", KVC_F16);
    }
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        whole_step(KVC_MATH_INT8, path, specs[i], KVC_Q8_0);
    unlink(path);
}

/* With --math=fast where no usable cuBLAS exists: a one-line error, and nothing remains allocated. */
static void fast_math(void **state) {
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_device *device = NULL;
    (void)state;
    if (kvc_backend_cuda.open(NULL, 0, 1, KVC_MATH_FAST, &device, &error) == KVC_OK) {
        device->ops->close(device);
    } else {
        assert_int_equal(error.status, KVC_RESOURCE);
        assert_non_null(strstr(error.text, "cuBLAS"));
        assert_null(strchr(error.text, '\n'));
    }
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

/* If the device is lost during a run, the next sync reports this, all later calls are refused, and nothing remains
 * allocated. */
static void lost(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_buffer *b[3] = {new_buffer(device, 400), new_buffer(device, 400), new_buffer(device, 400)};
    struct kvc_error error = {KVC_OK, ""};
    float result[VALUES];
    (void)state;
    kvc_fake_cuda.fail_after = 4;
    one_step(device, b, 0.5f, result);
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "illegal memory access"));
    assert_null(strchr(error.text, '\n'));
    one_step(device, b, 0.5f, result);
    assert_true(result[0] == 0.0f);
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE);
    for (int i = 0; i < 3; i++)
        device->ops->buffer_free(device, b[i]);
    device->ops->close(device);
    kvc_fake_cuda.lost = cudaSuccess;
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

static void no_device(void **state) {
    struct kvc_error error;
    struct kvc_device *device;
    char detail[256];
    (void)state;
    kvc_fake_cuda.devices = -1;
    assert_false(kvc_backend_cuda.usable(detail, sizeof detail));
    assert_string_equal(detail, "no CUDA device: the driver is missing");
    assert_int_equal(kvc_backend_cuda.open(NULL, 0, 1, KVC_MATH_EXACT, &device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "the driver is missing"));
    kvc_fake_cuda.devices = 0;
    assert_false(kvc_backend_cuda.usable(detail, sizeof detail));
    assert_string_equal(detail, "no CUDA device: the driver sees none");
    kvc_fake_cuda.devices = 1;
    assert_true(kvc_backend_cuda.usable(detail, sizeof detail));
    assert_non_null(strstr(detail, "emulated"));
    assert_int_equal(kvc_backend_cuda.open(NULL, 3, 1, KVC_MATH_EXACT, &device, &error), KVC_RESOURCE);
    assert_int_equal(kvc_backend_cuda.open("H200", 0, 1, KVC_MATH_EXACT, &device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "no device of that name"));
    assert_int_equal(kvc_backend_cuda.open("EMUL", 0, 1, KVC_MATH_EXACT, &device, &error), KVC_OK);
    device->ops->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_shapes), cmocka_unit_test(operations),       cmocka_unit_test(graphs),
        cmocka_unit_test(whole_steps),   cmocka_unit_test(whole_steps_int8), cmocka_unit_test(fast_math),
        cmocka_unit_test(lost),          cmocka_unit_test(no_device),
    };
    if (kvc_test_thinned())
        return 77; /* valgrind mistakes the emulation's fibers for one stack */
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma"))
        return 77; /* the emulation itself is compiled with it */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
