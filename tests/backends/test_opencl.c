/* test_opencl.c - the OpenCL backend is bit-identical to the reference, in both shapes of its kernels; its devices and
 * failures. Skips without an OpenCL device (PoCL is one on any CPU). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/opencl/opencl.h"
#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "core/check/verify.h"
#include "tests/core/whole_model.h"
#include "tests/verify_some.h"

static int print_row(void *user, const struct kvc_verify_row *row) {
    unsigned *operations = user;
    if (row->differing > 0)
        print_message("  %s: %llu of %llu values differ; %s\n", row->name, (unsigned long long)row->differing,
                      (unsigned long long)row->values, row->first);
    assert_true(row->cases > 0 && row->values > 0);
    ++*operations;
    return 0;
}

/* Skips the test if no device exists or none can be exact; any other failure to open one fails the test. */
static void needs_device(void) {
    struct kvc_device *device = NULL;
    struct kvc_error error = {KVC_OK, ""};
    char detail[256];
    if (!kvc_backend_opencl.usable(detail, sizeof detail)) {
        print_message("skipped: %s\n", detail);
        skip();
    }
    if (kvc_backend_opencl.open(NULL, 0, 0, KVC_MATH_EXACT, &device, &error) == KVC_OK)
        device->ops->close(device);
    else if (error.status == KVC_RESOURCE && strstr(error.text, " cannot be exact: ")) {
        print_message("skipped: %s\n", error.text);
        skip();
    } else {
        fail_msg("%s", error.text);
    }
}

static void all_equal(unsigned effort) {
    struct kvc_error error = {KVC_OK, ""};
    unsigned operations = 0;
    enum kvc_status status = kvc_test_verify("opencl", 0, effort, NULL, print_row, &operations, &error);
    if (status != KVC_OK)
        print_message("opencl: %s\n", error.text);
    assert_int_equal(status, KVC_OK);
    assert_true(operations >= 33);
}

static void operations(void **state) {
    (void)state;
    needs_device();
    all_equal(1);
}

/* The kernels in the variant for GPUs, with the quotients and square roots for devices whose own are not exact. */
static void other_shape(void **state) {
    (void)state;
    needs_device();
    if (kvc_test_thinned()) /* Intel's driver compiles each shape for more than a minute */
        SKIP_THINNED();
    setenv("KVCULL_OPENCL_SHAPE", "gpu", 1);
    setenv("KVCULL_OPENCL_DIVISION", "corrected", 1);
    all_equal(0);
    unsetenv("KVCULL_OPENCL_SHAPE");
    unsetenv("KVCULL_OPENCL_DIVISION");
}

/* Linear layers of integers in the variant for GPUs: in work-groups of either size, and with or without the device's
 * dot product of four bytes. */
static void eight_bits(void **state) {
    static const char *const names[] = {"quantize_rows",       "linear_int8",  "expert_linear_int8",
                                        "quantize_rows_int16", "linear_int16", "expert_linear_int16"};
    static const struct {
        const char *shape, *dot;
    } kinds[] = {{"cpu", "emulated"}, {"gpu", "none"}, {"gpu", "emulated"}, {"narrow", "emulated"}};
    (void)state;
    needs_device();
    for (size_t k = 0; k < (kvc_test_thinned() ? 2 : sizeof kinds / sizeof *kinds); k++) {
        setenv("KVCULL_OPENCL_SHAPE", kinds[k].shape, 1);
        setenv("KVCULL_OPENCL_DOT", kinds[k].dot, 1);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            struct kvc_error error = {KVC_OK, ""};
            unsigned count = 0;
            const enum kvc_status status = kvc_test_verify("opencl", 0, 0, names[i], print_row, &count, &error);
            if (status != KVC_OK)
                print_message("%s, shape %s, dot %s: %s\n", names[i], kinds[k].shape, kinds[k].dot, error.text);
            assert_int_equal(status, KVC_OK);
            assert_int_equal(count, 1);
        }
    }
    unsetenv("KVCULL_OPENCL_SHAPE");
    unsetenv("KVCULL_OPENCL_DOT");
}

/* Matrices in many pieces, and arenas in many chunks, on a device whose allocations are small. */
static void small_allocations(void **state) {
    static const char *const names[] = {
        "linear",       "expert_linear",      "embed", "append", "relayout", "linear_int8", "expert_linear_int8",
        "linear_int16", "expert_linear_int16"};
    (void)state;
    needs_device();
    setenv("KVCULL_OPENCL_MOST", "1100000", 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvc_error error = {KVC_OK, ""};
        unsigned count = 0;
        const unsigned effort = strstr(names[i], "int") ? 1 : 0; /* few of these cases are large */
        enum kvc_status status = kvc_test_verify("opencl", 0, effort, names[i], print_row, &count, &error);
        if (status != KVC_OK)
            print_message("%s: %s\n", names[i], error.text);
        assert_int_equal(status, KVC_OK);
    }
    unsetenv("KVCULL_OPENCL_MOST");
}

static int remember(void *user, const struct kvc_verify_row *row) {
    *(struct kvc_verify_row *)user = *row;
    return 0;
}

static void finds_a_flipped_bit(void **state) {
    const struct kvc_verify_options options = {.backend = "opencl", .only = "norm", .inject = "norm"};
    struct kvc_verify_row row = {.differing = 0};
    (void)state;
    needs_device();
    assert_int_equal(kvc_verify_operations(&options, remember, &row, NULL), KVC_DIFFERS);
    assert_int_equal(row.differing, row.cases); /* one bit in each case */
    assert_int_equal(row.differing_bits, row.cases);
}

static void opens_not(const char *backend, const char *text) {
    struct kvc_engine_options options = {.backend = backend, .threads = 0, .math = KVC_MATH_EXACT};
    struct kvc_engine *engine = NULL;
    struct kvc_error error = {KVC_OK, ""};
    assert_int_equal(kvc_engine_open(&options, &engine, &error), KVC_RESOURCE);
    assert_null(engine);
    if (!strstr(error.text, text))
        print_message("no '%s' in: %s\n", text, error.text);
    assert_non_null(strstr(error.text, text));
    assert_null(strchr(error.text, '\n'));
}

static void devices(void **state) {
    struct kvc_engine_options options = {.backend = "opencl:0", .threads = 0, .math = KVC_MATH_EXACT};
    struct kvc_engine *engine = NULL;
    struct kvc_error error;
    char detail[256], name[64] = "opencl:";
    (void)state;
    needs_device();
    assert_true(kvc_backend_opencl.device(0, detail, sizeof detail));
    assert_false(kvc_backend_opencl.device(1000, detail, sizeof detail));
    assert_true(strstr(detail, "fma yes, denormals yes") || strstr(detail, "fma not claimed, denormals yes"));
    assert_int_equal(kvc_engine_open(&options, &engine, &error), KVC_OK);
    kvc_engine_close(engine);
    strncat(name, strstr(detail, ": ") + 2, 6); /* the first letters of the device's name */
    options.backend = name;
    assert_int_equal(kvc_engine_open(&options, &engine, &error), KVC_OK);
    kvc_engine_close(engine);
    opens_not("opencl:1000", "no device 1000");
    opens_not("opencl:nosuch", "no device's name contains 'nosuch'");
    opens_not("rocm", "use opencl or cpu");
}

static void kernels_that_do_not_compile(void **state) {
    (void)state;
    needs_device();
    setenv("KVCULL_OPENCL_SHAPE", "broken", 1);
    opens_not("opencl", "opencl-build.log");
    unsetenv("KVCULL_OPENCL_SHAPE");
}

/* Buffers that exceed every cache are cleared another way: every byte is cleared, and none outside. */
static void a_large_clear(void **state) {
    const size_t bytes = ((size_t)16 << 20) + 36, all = bytes + 128;
    struct kvc_device *device = NULL;
    struct kvc_buffer *buffer = NULL;
    struct kvc_error error = {KVC_OK, ""};
    (void)state;
    needs_device();
    unsigned char *memory = malloc(all);
    assert_non_null(memory);
    memset(memory, 0x2c, all);
    assert_int_equal(kvc_backend_opencl.open(NULL, 0, 0, KVC_MATH_EXACT, &device, &error), KVC_OK);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, all, &buffer, &error), KVC_OK);
    device->ops->upload(device, (struct kvc_span){buffer, 0}, memory, all);
    device->ops->zero(device, (struct kvc_span){buffer, 64}, bytes);
    device->ops->download(device, memory, (struct kvc_span){buffer, 0}, all);
    assert_int_equal(device->ops->sync(device, &error), KVC_OK);
    for (size_t i = 0; i < all; i++)
        if (memory[i] != (i < 64 || i >= 64 + bytes ? 0x2c : 0))
            fail_msg("byte %zu is %u", i, (unsigned)memory[i]);
    device->ops->buffer_free(device, buffer);
    device->ops->close(device);
    free(memory);
}

/* Creates buffers until memory runs out; earlier buffers stay usable. */
static void too_little_memory(void **state) {
    struct kvc_device *device = NULL;
    struct kvc_buffer *buffer[3] = {NULL};
    struct kvc_error error = {KVC_OK, ""};
    char text[8] = "";
    (void)state;
    needs_device();
    setenv("KVCULL_OPENCL_MEMORY", "3000000", 1);
    assert_int_equal(kvc_backend_opencl.open(NULL, 0, 0, KVC_MATH_EXACT, &device, &error), KVC_OK);
    unsetenv("KVCULL_OPENCL_MEMORY");
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_CACHE, 1 << 20, &buffer[0], &error), KVC_OK);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_CACHE, 1 << 21, &buffer[1], &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "no memory for 2097152 bytes"));
    assert_null(buffer[1]);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_CACHE, SIZE_MAX / 2, &buffer[2], &error),
                     KVC_RESOURCE);
    device->ops->upload(device, (struct kvc_span){buffer[0], 4}, "entries", 8);
    device->ops->download(device, text, (struct kvc_span){buffer[0], 4}, 8);
    assert_string_equal(text, "entries");
    device->ops->upload(device, (struct kvc_span){buffer[0], 1 << 20}, "x", 1); /* past the end */
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE);
    assert_int_equal(device->ops->sync(device, &error), KVC_OK);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 1 << 20);
    device->ops->buffer_free(device, buffer[0]);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 0);
    device->ops->close(device);
}

static void device_lost(void **state) {
    struct kvc_device *device = NULL;
    struct kvc_buffer *buffer = NULL;
    struct kvc_error error = {KVC_OK, ""};
    float values[4] = {1, 2, 3, 4};
    (void)state;
    needs_device();
    setenv("KVCULL_OPENCL_LOSE", "8", 1); /* the self-test is six launches */
    assert_int_equal(kvc_backend_opencl.open(NULL, 0, 0, KVC_MATH_EXACT, &device, &error), KVC_OK);
    unsetenv("KVCULL_OPENCL_LOSE");
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_STATE, sizeof values, &buffer, &error), KVC_OK);
    device->ops->upload(device, (struct kvc_span){buffer, 0}, values, sizeof values);
    for (int i = 0; i < 4; i++)
        device->ops->add(
            device, &(struct kvc_add){.y = (struct kvc_span){buffer, 0}, .x = (struct kvc_span){buffer, 0}, .n = 4});
    device->ops->download(device, values, (struct kvc_span){buffer, 0}, sizeof values);
    assert_true(values[0] == 0.0f); /* no invented value */
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "lost"));
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE); /* and the device stays lost */
    device->ops->buffer_free(device, buffer);
    device->ops->close(device);
}

static unsigned made, freed; /* The numbers of buffers created and freed, counted by the driver below. */

static enum kvc_status count_allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes,
                                      const void *host, void **handle, bool *borrowed, struct kvc_error *error) {
    made++;
    return kvc_opencl_driver.allocate(offload, kind, bytes, host, handle, borrowed, error);
}

static void count_release(struct kvc_offload *offload, void *handle) {
    freed++;
    kvc_opencl_driver.release(offload, handle);
}

/* Once a policy has reached its steady state, decode steps neither create nor free a buffer. (Before a step, capacity
 * for another 256 entries or 64 pages may be allocated; none is needed between 70 and 110 entries.) */
static void a_step_makes_no_buffer(void **state) {
    static const char *const policies[] = {
        "full",          "streaming:budget=40", "snapkv:budget=40,window=8+morphkv:budget=40,window=8",
        "h2o:budget=40", "quest:budget=32",     "sparq:budget=32",
        "hsa:budget=32"};
    const struct kvc_engine_options options = {.backend = "opencl", .threads = 0, .math = KVC_MATH_EXACT};
    struct kvc_offload_driver driver = kvc_opencl_driver;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_error error;
    int32_t tokens[70];
    char path[512];
    (void)state;
    needs_device();
    driver.allocate = count_allocate;
    driver.release = count_release;
    for (int32_t i = 0; i < 70; i++)
        tokens[i] = i % 40 + 3; /* the smaller model of shortened tests has few tokens */
    assert_int_equal(whole_model(KVC_F32, "opencl", path, sizeof path, &error), KVC_OK);
    assert_int_equal(kvc_engine_open(&options, &engine, &error), KVC_OK);
    assert_int_equal(kvc_model_open(engine, path, &model, &error), KVC_OK);
    ((struct kvc_offload *)engine->device)->driver = &driver;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct kvc_session_options wanted;
        struct kvc_session *session = NULL;
        kvc_session_defaults(&wanted);
        wanted.policy = policies[i];
        made = 0;
        assert_int_equal(kvc_session_open(model, &wanted, &session, &error), KVC_OK);
        assert_int_equal(kvc_session_prompt(session, tokens, 70, NULL, NULL, &error), KVC_OK);
        for (int32_t step = 0; step < 25; step++) {
            if (step == 4) {
                assert_true(made > 0); /* the counter works */
                made = freed = 0;
            }
            assert_int_equal(kvc_decode(&session, &tokens[step], 1, NULL, NULL, &error), KVC_OK);
        }
        if (made + freed > 0)
            fail_msg("%s: %u buffers made and %u freed in 21 steps", policies[i], made, freed);
        kvc_session_close(session);
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
    whole_model_remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(eight_bits),
        cmocka_unit_test(other_shape),
        cmocka_unit_test(small_allocations),
        cmocka_unit_test(finds_a_flipped_bit),
        cmocka_unit_test(devices),
        cmocka_unit_test(kernels_that_do_not_compile),
        cmocka_unit_test(too_little_memory),
        cmocka_unit_test(device_lost),
        cmocka_unit_test(a_large_clear),
        cmocka_unit_test(a_step_makes_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
