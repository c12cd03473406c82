/* test_cuda_memory.c - device memory of the CUDA backend on an emulated device: arenas by kind, shared allocations,
 * when memory returns to the device, and errors without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "backends/offload/offload.h"
#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "tests/check.h"

extern const struct kvc_backend_class kvc_backend_cuda;

/* This program's backends, which replace the library's list. */
const struct kvc_backend_class *const kvc_backend_list[] = {&kvc_backend_cuda, &kvc_backend_ref, NULL};

static struct kvc_device *open_device(void) {
    struct kvc_device *device;
    assert_int_equal(kvc_backend_cuda.open(NULL, 0, 1, KVC_MATH_EXACT, &device, NULL), KVC_OK);
    return device;
}

static struct kvc_buffer *new_buffer(struct kvc_device *device, size_t bytes) {
    struct kvc_buffer *buffer;
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &buffer, NULL), KVC_OK);
    return buffer;
}

/* Small buffers share memory, and freed memory is used again: a thousand small buffers need one allocation. */
static void small_buffers(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_buffer *buffer[64], *large;
    size_t allocated;
    float value;
    (void)state;
    for (int i = 0; i < 64; i++)
        buffer[i] = new_buffer(device, 1000u + (unsigned)i);
    allocated = kvc_fake_cuda.allocated;
    for (int i = 0; i < 1000; i++) {
        float one = 1.0f;
        int at = i * 37 % 64;
        device->ops->buffer_free(device, buffer[at]);
        buffer[at] = new_buffer(device, 4u + (unsigned)i % 1500);
        device->ops->download(device, &value, (struct kvc_span){buffer[at], 0}, sizeof value);
        assert_true(value == 0.0f);
        device->ops->upload(device, (struct kvc_span){buffer[at], 0}, &one, sizeof one);
    }
    assert_int_equal(kvc_fake_cuda.allocated, allocated);
    large = new_buffer(device, (size_t)3 << 20);
    assert_true(kvc_fake_cuda.used >= (size_t)7 << 20);
    device->ops->buffer_free(device, large);
    assert_true(kvc_fake_cuda.used < (size_t)5 << 20); /* freed at once */
    for (int i = 0; i < 64; i++)
        device->ops->buffer_free(device, buffer[i]);
    device->ops->close(device);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
    assert_int_equal(kvc_fake_cuda.used, 0);
}

/* Arenas: two kinds of memory never share an allocation, and a kind whose buffers are all freed holds no memory. */
enum { PIECES = 12 };
static const size_t piece_bytes[PIECES] = {1, 400, 4096, 70000, 1 << 20, 3 << 20, 9, 900000, 800000, 700000, 1234, 1};

/* Counts the buffers of two kinds that share an allocation. */
static unsigned shared(struct kvc_buffer *const buffers[KVC_MEMORY_KINDS][PIECES], unsigned kind, unsigned other) {
    unsigned found = 0;
    for (unsigned i = 0; i < PIECES; i++)
        for (unsigned k = 0; k < PIECES; k++)
            found += buffers[kind][i] && buffers[other][k] &&
                     kvc_fake_allocation(buffers[kind][i]->handle) == kvc_fake_allocation(buffers[other][k]->handle);
    return found;
}

static void arenas(void **state) {
    struct kvc_buffer *buffers[KVC_MEMORY_KINDS][PIECES];
    struct kvc_device *device = open_device();
    const size_t open = kvc_fake_cuda.allocations;
    size_t of_kind[KVC_MEMORY_KINDS] = {0};
    (void)state;
    for (unsigned i = 0; i < PIECES; i++)
        for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++) {
            const size_t before = kvc_fake_cuda.allocations;
            assert_int_equal(
                device->ops->buffer_create(device, (enum kvc_memory_kind)kind, piece_bytes[i], &buffers[kind][i], NULL),
                KVC_OK);
            of_kind[kind] += kvc_fake_cuda.allocations - before;
        }
    for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++) {
        /* Two large buffers and one slab of small ones. Scratch memory had a slab before: the status words. */
        assert_int_equal(of_kind[kind], 2 + (kind != KVC_MEMORY_SCRATCH));
        assert_int_equal(shared(buffers, kind, kind),
                         2 + (PIECES - 2) * (PIECES - 2)); /* the number that shared() counts */
        for (unsigned other = 0; other < kind; other++)
            assert_int_equal(shared(buffers, kind, other), 0);
    }
    for (unsigned i = 0; i < PIECES; i++) /* from the middle outwards, so that free pieces merge on both sides */
        device->ops->buffer_free(device, buffers[KVC_MEMORY_STATE][(i * 5 + 6) % PIECES]);
    assert_int_equal(kvc_fake_cuda.allocations, open + 4 * 2 + 3);
    for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++)
        for (unsigned i = 0; i < PIECES && kind != KVC_MEMORY_STATE; i++)
            device->ops->buffer_free(device, buffers[kind][i]);
    assert_int_equal(kvc_fake_cuda.allocations, open);
    device->ops->close(device);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

/* Weights and cache blocks lie in the arenas of their kinds, too. Closing the device frees what was not freed before.
 */
static void arenas_of_models(void **state) {
    static const unsigned char rows[64 * 64 * 4] = {0};
    const struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(KVC_F16), 16);
    struct kvc_device *device = open_device();
    struct kvc_buffer *weights, *cache, *scratch;
    struct kvc_weight *weight;
    struct kvc_arena *arena;
    uint32_t block;
    (void)state;
    assert_int_equal(device->ops->weight_create(device, KVC_F32, 64, 64, rows, &weight, NULL), KVC_OK);
    assert_int_equal(device->ops->arena_create(device, &format, &arena, NULL), KVC_OK);
    assert_int_equal(device->ops->arena_take(device, arena, 1, &block, NULL), KVC_OK);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_WEIGHTS, 64, &weights, NULL), KVC_OK);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_CACHE, 64, &cache, NULL), KVC_OK);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, 64, &scratch, NULL), KVC_OK);
    assert_ptr_equal(kvc_fake_allocation(weight->piece[0]), kvc_fake_allocation(weights->handle));
    assert_ptr_not_equal(kvc_fake_allocation(arena->chunk[0]), kvc_fake_allocation(weights->handle));
    assert_ptr_not_equal(kvc_fake_allocation(arena->chunk[0]), kvc_fake_allocation(scratch->handle));
    assert_ptr_not_equal(kvc_fake_allocation(cache->handle), kvc_fake_allocation(scratch->handle));
    device->ops->buffer_free(device, weights);
    device->ops->buffer_free(device, cache);
    device->ops->weight_free(device, weight);
    device->ops->arena_free(device, arena);
    free(scratch); /* closing the device frees its memory */
    device->ops->close(device);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

static void out_of_one_kind(void **state) {
    static const char *const names[KVC_MEMORY_KINDS] = {"weights", "cache", "state", "hidden states", "scratch"};
    struct kvc_device *device = open_device();
    (void)state;
    for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++) {
        struct kvc_error error = {KVC_OK, ""};
        struct kvc_buffer *held, *buffer;
        char expected[64];
        const size_t memory = kvc_fake_cuda.memory;
        snprintf(expected, sizeof expected, ": no memory for %s: 0.004 GiB more are needed, ", names[kind]);
        assert_int_equal(device->ops->buffer_create(device, (enum kvc_memory_kind)kind, 1000, &held, NULL), KVC_OK);
        kvc_fake_cuda.memory = kvc_fake_cuda.used;
        assert_int_equal(
            device->ops->buffer_create(device, (enum kvc_memory_kind)kind, (4 << 20) - 512, &buffer, &error),
            KVC_RESOURCE);
        kvc_fake_cuda.memory = memory;
        if (!strstr(error.text, expected) || strchr(error.text, '\n'))
            fail_msg("not '%s' but '%s'", expected, error.text);
        device->ops->buffer_free(device, held);
    }
    device->ops->close(device);
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

static void too_little_memory(void **state) {
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_device *device;
    struct kvc_buffer *held, *buffer;
    (void)state;
    kvc_fake_cuda.memory = (size_t)64 << 20;
    device = open_device();
    held = new_buffer(device, (size_t)16 << 20);
    for (int i = 0; i < 3; i++) {
        if (device->ops->buffer_create(device, KVC_MEMORY_CACHE, (size_t)16 << 20, &buffer, &error) != KVC_OK)
            break;
        device->ops->buffer_free(device, held);
        held = buffer;
        kvc_fake_cuda.memory -= (size_t)16 << 20;
    }
    assert_int_equal(error.status, KVC_RESOURCE);
    assert_non_null(strstr(error.text, "GiB more are needed"));
    assert_null(strchr(error.text, '\n'));
    device->ops->buffer_free(device, held);
    device->ops->close(device);
    kvc_fake_cuda.memory = (size_t)1 << 30;
    assert_int_equal(kvc_fake_cuda.allocations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_buffers), cmocka_unit_test(arenas),
                                       cmocka_unit_test(arenas_of_models), cmocka_unit_test(out_of_one_kind),
                                       cmocka_unit_test(too_little_memory)};
    if (kvc_test_thinned()) { /* valgrind mistakes the emulation's fibers for one stack */
        puts("elsewhere: ./dev check --plain runs this");
        return 77;
    }
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma"))
        return 77; /* the emulation itself is compiled with it */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
