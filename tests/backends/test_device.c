/* test_device.c - the CPU device: buffers, arenas, memory counters against the process's own memory, instruction sets,
 * failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "core/base/float.h"
#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "tests/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define MORE_THAN_THERE_IS SIZE_MAX /* the sanitizer's allocator ends the program where others return NULL */
#else
#define MORE_THAN_THERE_IS (SIZE_MAX / 2 - 4096)
#endif

static struct kvc_device *open_device(void) {
    struct kvc_device *device;
    assert_int_equal(kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, NULL), KVC_OK);
    return device;
}

static void buffers(void **state) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 131071, 131072, 3000000};
    struct kvc_device *device = open_device();
    const struct kvc_ops *ops = device->ops;
    uint64_t held = 0;
    struct kvc_buffer *made[9];
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(ops->buffer_create(device, KVC_MEMORY_STATE, sizes[i], &made[i], NULL), KVC_OK);
        held += sizes[i];
        assert_int_equal((uintptr_t)made[i]->data % 64, 0);
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(((unsigned char *)made[i]->data)[b], 0);
        assert_true(device->memory.now[KVC_MEMORY_STATE] == held);
        assert_true(device->memory.now_total == held);
    }
    for (size_t i = 0; i < 9; i++)
        ops->buffer_free(device, made[i]);
    ops->buffer_free(device, NULL);
    assert_true(device->memory.now[KVC_MEMORY_STATE] == 0 && device->memory.now_total == 0);
    assert_true(device->memory.peak[KVC_MEMORY_STATE] == held && device->memory.peak_total == held);
    ops->close(device);
}

static void too_large(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_buffer *buffer;
    struct kvc_error error;
    (void)state;
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_STATE, SIZE_MAX, &buffer, &error), KVC_RESOURCE);
    assert_null(buffer);
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_STATE, MORE_THAN_THERE_IS, &buffer, &error),
                     KVC_RESOURCE);
    assert_non_null(strstr(error.text, "no memory"));
    assert_true(device->memory.now_total == 0);
    device->ops->close(device);
}

static void moves_bytes(void **state) {
    struct kvc_device *device = open_device();
    const struct kvc_ops *ops = device->ops;
    struct kvc_buffer *a, *b;
    struct kvc_error error;
    char text[16] = "";
    (void)state;
    assert_int_equal(ops->buffer_create(device, KVC_MEMORY_SCRATCH, 32, &a, NULL), KVC_OK);
    assert_int_equal(ops->buffer_create(device, KVC_MEMORY_SCRATCH, 32, &b, NULL), KVC_OK);
    ops->upload(device, (struct kvc_span){a, 4}, "entries", 8);
    ops->copy(device, (struct kvc_span){b, 10}, (struct kvc_span){a, 4}, 8);
    ops->zero(device, (struct kvc_span){b, 12}, 1);
    ops->download(device, text, (struct kvc_span){b, 10}, 8);
    assert_memory_equal(text, "en\0ries", 8);
    assert_int_equal(ops->sync(device, &error), KVC_OK);
    ops->upload(device, (struct kvc_span){a, 30}, "xyz",
                3); /* Past the end: nothing is written, and sync reports the error. */
    ops->copy(device, (struct kvc_span){a, 40}, (struct kvc_span){b, 0}, 1);
    assert_int_equal(ops->sync(device, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "offset 30"));
    assert_int_equal(ops->sync(device, &error), KVC_OK);
    ops->buffer_free(device, a);
    ops->buffer_free(device, b);
    ops->close(device);
}

static void large_buffers_go_back(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_buffer *buffer;
    int64_t before = kvc_test_resident(), with, after;
    const size_t bytes = (size_t)32 << 20;
    (void)state;
    assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_HIDDEN, bytes, &buffer, NULL), KVC_OK);
    memset(buffer->data, 1, bytes);
    with = kvc_test_resident();
    device->ops->buffer_free(device, buffer);
    after = kvc_test_resident();
    device->ops->close(device);
    if (!RESIDENT_IS_MEANINGFUL)
        SKIP_THINNED();
    if (before < 0)
        SKIP_BECAUSE("the system does not say how much memory a process has");
    assert_in_range(with - before, bytes - ((size_t)1 << 20), bytes + ((size_t)1 << 20));
    assert_true(after - before < (int64_t)1 << 20);
}

/* Buffers of 128 KiB to 4 MiB share areas: each is zeroed, does not overlap others, and is returned when freed. */
static void buffers_share_areas(void **state) {
    enum { MANY = 40 };
    struct kvc_device *device = open_device();
    struct kvc_buffer *buffers[MANY];
    const int64_t before = kvc_test_resident(), slack = 512 << 10;
    int64_t all = 0, half = 0, with, after;
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i += round ? 2 : 1) {
            const size_t bytes = ((size_t)128 << 10) + 100000 * (size_t)i;
            assert_int_equal(device->ops->buffer_create(device, KVC_MEMORY_STATE, bytes, &buffers[i], NULL), KVC_OK);
            const unsigned char *data = buffers[i]->data;
            for (size_t at = 0; at < bytes; at += 509)
                assert_int_equal(data[at], 0);
            memset(buffers[i]->data, (int)i + 1, bytes);
            all += round ? 0 : (int64_t)bytes;
        }
        with = kvc_test_resident();
        for (uint32_t i = 0; i < MANY; i++) {
            const unsigned char *data = buffers[i]->data;
            for (size_t at = 0; at < buffers[i]->bytes; at += 509)
                assert_int_equal(data[at], i + 1);
        }
        for (uint32_t i = 0; i < MANY; i += 2) {
            half += round ? 0 : (int64_t)buffers[i]->bytes;
            device->ops->buffer_free(device, buffers[i]);
        }
        after = kvc_test_resident();
        if (before >= 0 && RESIDENT_IS_MEANINGFUL) {
            assert_in_range(with - before, all - slack, all + MANY * (64 << 10) + slack);
            assert_in_range(with - after, half - slack, half + MANY * (64 << 10) + slack);
        }
    }
    for (uint32_t i = 1; i < MANY; i += 2)
        device->ops->buffer_free(device, buffers[i]);
    after = kvc_test_resident();
    device->ops->close(device);
    if (!RESIDENT_IS_MEANINGFUL)
        SKIP_THINNED();
    if (before < 0)
        SKIP_BECAUSE("the system does not say how much memory a process has");
    assert_true(after - before < slack);
}

static void fill_block(const struct kvc_arena *arena, uint32_t block, int value) {
    memset(kvc_cpu_block(arena, block), value, arena->key_bytes);
    memset(kvc_cpu_values(arena, block), value, arena->value_bytes);
}

static void arena_lowest_first(void **state) {
    struct kvc_device *device = open_device();
    const struct kvc_ops *ops = device->ops;
    struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(KVC_Q8_0), 80);
    const uint64_t block = 2 * KVC_BLOCK * 86;
    uint32_t blocks[300], again[2], give[] = {7, 3};
    struct kvc_arena *arena;
    struct kvc_error error;
    (void)state;
    assert_int_equal(ops->arena_create(device, &format, &arena, NULL), KVC_OK);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 0);
    assert_int_equal(ops->arena_take(device, arena, 300, blocks, NULL), KVC_OK);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(blocks[i], i);
        fill_block(arena, i, (int)i); /* each block has its own memory */
    }
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(*kvc_cpu_block(arena, i), i & 255);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 300 * block);
    ops->arena_copy(device, arena, 2, (const uint32_t[]){9, 299}, (const uint32_t[]){255, 8});
    for (uint32_t i = 0; i < 300; i++) {
        const unsigned char *data = kvc_cpu_block(arena, i), wanted = (unsigned char)(i == 9 ? 255 : i == 299 ? 8 : i);
        assert_int_equal(data[0], wanted);
        assert_int_equal(data[arena->key_bytes - 1], wanted);
        assert_int_equal(kvc_cpu_values(arena, i)[arena->value_bytes - 1], wanted);
    }
    unsigned char some[86];
    ops->arena_read(device, arena, 12, block - 86, some, 86);
    assert_true(some[0] == 12 && some[85] == 12);
    ops->arena_write(device, arena, KVC_EXTRA_SLOT + 12 * KVC_BLOCK + 5, 86, "x", 1); /* past the key of slot 5 */
    assert_int_equal(kvc_cpu_block(arena, 12)[5 * 86 + 86], 'x');
    ops->arena_read(device, arena, KVC_EXTRA_SLOT + 12 * KVC_BLOCK + 5, 86, some, 1);
    assert_int_equal(some[0], 'x');
    ops->arena_return(device, arena, 2, give);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 298 * block);
    assert_int_equal(ops->arena_take(device, arena, 2, again, NULL), KVC_OK);
    assert_int_equal(again[0], 3);
    assert_int_equal(again[1], 7);
    assert_int_equal(ops->sync(device, NULL), KVC_OK);
    ops->arena_return(device, arena, 2, give);
    ops->arena_return(device, arena, 1, give); /* the same block twice */
    assert_int_equal(ops->sync(device, &error), KVC_RESOURCE);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 298 * block);
    assert_true(device->memory.peak[KVC_MEMORY_CACHE] == 300 * block);
    ops->arena_free(device, arena);
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 0);
    ops->arena_free(device, NULL);
    ops->close(device);
}

static void arena_resident(void **state) {
    struct kvc_device *device = open_device();
    const struct kvc_ops *ops = device->ops;
    struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(KVC_F16), 128);
    const int64_t block = 2 * KVC_BLOCK * 256, slack = 512 << 10;
    enum { MANY = 3200 }; /* 52 MB */
    uint32_t blocks[MANY], given = 0, *give = calloc(MANY, sizeof *give);
    struct kvc_arena *arena;
    int64_t before = kvc_test_resident(), full, half, none;
    (void)state;
    assert_non_null(give);
    assert_int_equal(ops->arena_create(device, &format, &arena, NULL), KVC_OK);
    assert_int_equal(ops->arena_take(device, arena, MANY, blocks, NULL), KVC_OK);
    for (uint32_t i = 0; i < MANY; i++)
        fill_block(arena, blocks[i], 1);
    full = kvc_test_resident();
    for (uint32_t i = 0; i < MANY; i += 2) /* every other one */
        give[given++] = blocks[i];
    ops->arena_return(device, arena, given, give);
    ops->arena_trim(device, arena);
    half = kvc_test_resident();
    for (uint32_t i = 1; i < MANY; i += 2)
        for (size_t at = 0; at < 2; at++) /* the remaining blocks are unchanged */
            assert_int_equal((at ? kvc_cpu_values : kvc_cpu_block)(arena, blocks[i])[arena->key_bytes - 1], 1);
    for (uint32_t i = 1; i < MANY; i += 2)
        give[i / 2] = blocks[i];
    ops->arena_return(device, arena, MANY / 2, give);
    ops->arena_trim(device, arena);
    none = kvc_test_resident();
    assert_true(device->memory.now[KVC_MEMORY_CACHE] == 0);
    assert_int_equal(ops->arena_take(device, arena, 1, blocks, NULL), KVC_OK); /* usable after trimming */
    fill_block(arena, blocks[0], 1);
    ops->arena_free(device, arena);
    ops->close(device);
    free(give);
    if (!RESIDENT_IS_MEANINGFUL)
        SKIP_THINNED();
    if (before < 0)
        SKIP_BECAUSE("the system does not say how much memory a process has");
    assert_in_range(full - before, MANY * block - slack, MANY * block + slack);
    assert_in_range(half - before, MANY / 2 * block - slack, MANY / 2 * block + slack);
    assert_true(none - before < slack);
}

static void scratch(void **state) {
    struct kvc_device *device = open_device();
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    void *first = kvc_cpu_scratch(cpu, 0, 1000), *other = kvc_cpu_scratch(cpu, 1, 500);
    struct kvc_error error;
    (void)state;
    assert_non_null(first);
    assert_true(first != other);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_true(device->memory.now[KVC_MEMORY_SCRATCH] == 1500);
    assert_ptr_equal(kvc_cpu_scratch(cpu, 0, 900), first); /* the same memory */
    assert_true(device->memory.now[KVC_MEMORY_SCRATCH] == 1500);
    assert_non_null(kvc_cpu_scratch(cpu, 0, 200000));
    assert_true(device->memory.now[KVC_MEMORY_SCRATCH] == 200500);
    assert_null(kvc_cpu_scratch(cpu, 0, MORE_THAN_THERE_IS));
    assert_int_equal(device->ops->sync(device, &error), KVC_RESOURCE);
    assert_non_null(kvc_cpu_scratch(cpu, 0, 8));
    device->ops->close(device);
}

static void weights(void **state) {
    static const unsigned char data[34 * 4] = {0};
    struct kvc_device *device = open_device();
    struct kvc_weight *weight;
    struct kvc_error error;
    (void)state;
    assert_int_equal(device->ops->weight_create(device, KVC_Q8_0, 2, 64, data, &weight, NULL), KVC_OK);
    assert_int_equal(weight->row_bytes, 68);
    assert_ptr_equal(weight->data, data); /* used without a copy */
    assert_true(device->memory.now_total == 0);
    device->ops->weight_free(device, weight);
    assert_int_equal(device->ops->weight_create(device, KVC_Q8_0, 2, 63, data, &weight, &error), KVC_INPUT);
    assert_int_equal(device->ops->weight_create(device, KVC_F32, UINT64_MAX, 64, data, &weight, &error), KVC_INPUT);
    assert_null(weight);
    device->ops->close(device);
}

static void paths(void **state) {
    struct kvc_device *device;
    struct kvc_backend_info info;
    struct kvc_error error;
    const char *was = getenv("KVCULL_CPU");
    char *kept = was ? strdup(was) : NULL;
    (void)state;
    setenv("KVCULL_CPU", "ref", 1);
    assert_int_equal(kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, NULL), KVC_OK);
    assert_string_equal(device->name, "cpu (ref, 1 thread)");
    device->ops->close(device);
    setenv("KVCULL_CPU", "sse9", 1);
    assert_int_equal(kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "KVCULL_CPU"));
    assert_non_null(strstr(error.text, "sse9"));
    assert_null(strchr(error.text, '\n'));
#if defined(__x86_64__)
    setenv("KVCULL_CPU", "neon", 1);
#else
    setenv("KVCULL_CPU", "avx2", 1);
#endif
    assert_int_equal(kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, &error), KVC_RESOURCE);
    assert_int_equal(kvc_backend_cpu.open("ref", 0, 1, KVC_MATH_EXACT, &device, NULL),
                     KVC_OK); /* a backend's name takes precedence */
    device->ops->close(device);
    if (kept)
        setenv("KVCULL_CPU", kept, 1);
    else
        unsetenv("KVCULL_CPU");
    free(kept);
    assert_int_equal(kvc_backend_cpu.open(NULL, 3, 1, KVC_MATH_EXACT, &device, &error), KVC_USAGE);
    assert_int_equal(kvc_backend_ref.open("avx2", 0, 1, KVC_MATH_EXACT, &device, &error), KVC_USAGE);
    assert_int_equal(kvc_backend_ref.open(NULL, 0, 8, KVC_MATH_EXACT, &device, NULL), KVC_OK);
    assert_string_equal(device->name, "ref");
    device->ops->close(device);
    assert_true(kvc_backend(0, &info) && info.usable && strcmp(info.name, "cpu") == 0);
    /* no instruction set leaves another slow operation to ref */
    assert_string_equal(info.missing, "gate_scores, merge_similar, merge_following, merge_values, prune_channels");
    assert_true(kvc_backend(1, &info) && info.usable && strcmp(info.name, "ref") == 0);
    assert_string_equal(info.missing, "none");
    for (size_t i = 2; kvc_backend(i, &info); i++) /* the further backends of this build */
        assert_true(strcmp(info.name, "opencl") == 0 || strcmp(info.name, "cuda") == 0);
}

/* The host program has set flush-to-zero: opening a device still works and does not change the host's setting. */
static void host_environment(void **state) {
    (void)state;
    if (kvc_test_thinned()) /* valgrind never flushes */
        SKIP_THINNED();
#if defined(__x86_64__)
    {
        struct kvc_device *device;
        unsigned mine = __builtin_ia32_stmxcsr(), flush = mine | 0x8040u;
        uint64_t saved;
        volatile float tiny = 1e-40f, one = 1.0f;
        __builtin_ia32_ldmxcsr(flush);
        assert_int_equal(kvc_backend_cpu.open(NULL, 0, 2, KVC_MATH_EXACT, &device, NULL), KVC_OK);
        assert_int_equal(__builtin_ia32_stmxcsr() & 0xffc0u, flush & 0xffc0u);
        device->ops->close(device);
        assert_true(tiny * one == 0.0f);
        saved = kvc_float_open();
        assert_true(tiny * one != 0.0f);
        kvc_float_close(saved);
        assert_true(tiny * one == 0.0f);
        __builtin_ia32_ldmxcsr(mine);
    }
#else
    SKIP_BECAUSE("no x86: nothing to set");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers),
        cmocka_unit_test(too_large),
        cmocka_unit_test(moves_bytes),
        cmocka_unit_test(large_buffers_go_back),
        cmocka_unit_test(arena_lowest_first),
        cmocka_unit_test(buffers_share_areas),
        cmocka_unit_test(arena_resident),
        cmocka_unit_test(scratch),
        cmocka_unit_test(weights),
        cmocka_unit_test(paths),
        cmocka_unit_test(host_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
