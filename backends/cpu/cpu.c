/* cpu.c - the CPU as a device: opening, the self-test, closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"
#include "backends/cpu/stealing.h"
#include "core/base/assert.h"
#include "core/base/float.h"

void kvc_cpu_fill_ref(struct kvc_ops *table) {
#if defined(KVC_X86_SIMD)
    if (kvc_cpu_path_runs(KVC_CPU_AVX2)) {
        kvc_ref_fma_fill(table);
        return;
    }
#endif
    kvc_ref_fill(table);
}

static const char *self_test(void) {
#if defined(KVC_X86_SIMD)
    if (kvc_cpu_path_runs(KVC_CPU_AVX2)) {
        const char *wrong = kvc_ref_fma_self_test();
        if (wrong)
            return wrong;
    }
#endif
    return kvc_ref_self_test();
}

static void fill_table(struct kvc_ops *table, enum kvc_cpu_path path) {
    kvc_cpu_fill_ref(table);
    if (path != KVC_CPU_REF)
        kvc_cpu_path_fill(path, table);
#define KVC_LIFETIME(result, name, arguments) table->name = kvc_cpu_##name;
#define KVC_BYTES(result, name, arguments) table->name = kvc_cpu_##name;
#include "core/base/ops.def"
    table->name = kvc_cpu_path_name(path);
}

/* Does nothing: each thread's scratch memory grows on first use. */
enum kvc_status kvc_cpu_prepare(struct kvc_device *device, const struct kvc_step_shape *step, struct kvc_error *error) {
    (void)device, (void)step, (void)error;
    return KVC_OK;
}

void kvc_cpu_close(struct kvc_device *device) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    unsigned count = kvc_threads_count(cpu->threads);
    for (unsigned i = 0; cpu->scratch && cpu->scratch_bytes && i < count; i++)
        kvc_host_free(cpu->scratch[i], cpu->scratch_bytes[i]);
    kvc_host_free(cpu->memo, cpu->memo_bytes);
    kvc_host_free(cpu->noise, cpu->noise_bytes);
    kvc_areas_close(cpu);
    kvc_threads_close(cpu->threads);
    free(cpu->scratch);
    free(cpu->scratch_bytes);
    free(cpu->stealing);
    pthread_mutex_destroy(&cpu->lock);
    free(cpu);
}

static enum kvc_status open_path(const char *backend, enum kvc_cpu_path path, int threads, enum kvc_math math,
                                 struct kvc_device **device, struct kvc_error *error) {
    struct kvc_cpu *cpu;
    uint64_t environment = kvc_float_open();
    const char *wrong = self_test();
    enum kvc_status status;
    unsigned count;
    kvc_float_close(environment);
    if (math == KVC_MATH_FAST && path == KVC_CPU_REF)
        return kvc_fail(error, KVC_USAGE, "%s: the reference operations are exact; math=fast needs another backend",
                        backend);
    if (wrong)
        return kvc_fail(error, KVC_RESOURCE, "%s: the self-test of the arithmetic failed: %s", backend, wrong);
    cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for a device", backend);
    pthread_mutex_init(&cpu->lock, NULL);
    cpu->path = path;
    cpu->integers = kvc_cpu_path_integers(path);
    cpu->math = math;
    if (path != KVC_CPU_REF && (status = kvc_threads_open(threads, &cpu->threads, error)) != KVC_OK) {
        kvc_cpu_close(&cpu->device);
        return status;
    }
    count = kvc_threads_count(cpu->threads);
    cpu->scratch = calloc(count, sizeof *cpu->scratch);
    cpu->scratch_bytes = calloc(count, sizeof *cpu->scratch_bytes);
    cpu->stealing = aligned_alloc(_Alignof(struct kvc_stealing), count * sizeof *cpu->stealing);
    if (!cpu->scratch || !cpu->scratch_bytes || !cpu->stealing) {
        kvc_cpu_close(&cpu->device);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for a device", backend);
    }
    fill_table(&cpu->table, path);
    if (math == KVC_MATH_FAST && path != KVC_CPU_REF && (status = kvc_cpu_fill_fast(cpu, error)) != KVC_OK) {
        kvc_cpu_close(&cpu->device);
        return status;
    }
    KVC_ASSERT(cpu->table.append && cpu->table.attention && cpu->table.relayout && cpu->table.name);
    cpu->device.ops = &cpu->table;
    if (strcmp(backend, kvc_cpu_path_name(path)) == 0)
        snprintf(cpu->device.name, sizeof cpu->device.name, "%s", backend);
    else
        snprintf(cpu->device.name, sizeof cpu->device.name, "%s (%s, %u thread%s%s)", backend, kvc_cpu_path_name(path),
                 count, count == 1 ? "" : "s", cpu->exact_linear ? ", fast: not exact" : "");
    *device = &cpu->device;
    return KVC_OK;
}

/* ---- the backend "cpu" ---- */

static bool cpu_usable(char *detail, size_t capacity) {
    struct kvc_error error;
    enum kvc_cpu_path path;
    bool usable = kvc_cpu_path_find(NULL, &path, &error) == KVC_OK;
    snprintf(detail, capacity, "%s", usable ? kvc_cpu_path_name(path) : error.text);
    return usable;
}

static enum kvc_status cpu_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                struct kvc_device **device, struct kvc_error *error) {
    enum kvc_cpu_path chosen;
    enum kvc_status status = kvc_cpu_path_find(path, &chosen, error);
    *device = NULL;
    if (status != KVC_OK)
        return status;
    if (index != 0)
        return kvc_fail(error, KVC_USAGE, "cpu: there is one CPU device; write cpu, not cpu:%u", index);
    return open_path("cpu", chosen, threads, math, device, error);
}

/* Lists the names of the operations for which every CPU instruction set still uses ref's code. */
static void cpu_missing(char *text, size_t capacity) {
    static const char *const names[] = {
#define KVC_OPERATION(name, parameters, ...)
#define KVC_OPERATION_REF(name, parameters, ...) #name,
#include "core/base/ops.def"
        NULL};
    size_t length = 0;
    snprintf(text, capacity, "none");
    for (size_t i = 0; names[i] && length < capacity; i++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", length ? ", " : "", names[i]);
}

const struct kvc_backend_class kvc_backend_cpu = {
    .name = "cpu", .usable = cpu_usable, .open = cpu_open, .missing = cpu_missing};

/* ---- the backend "ref": the same device with the reference operations only, on the caller's thread ---- */

/* The instruction set "plain" is ref compiled without fused multiply-add instructions. A test checks that both builds
 * agree. */
static bool ref_usable(char *detail, size_t capacity) {
    snprintf(detail, capacity, "plain C%s", kvc_cpu_path_runs(KVC_CPU_AVX2) ? ", fused multiply-add" : "");
    return true;
}

static enum kvc_status ref_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                struct kvc_device **device, struct kvc_error *error) {
    bool plain = path && strcmp(path, "plain") == 0;
    enum kvc_status status;
    (void)threads;
    *device = NULL;
    if (path && !plain && strcmp(path, "ref") != 0)
        return kvc_fail(error, KVC_USAGE, "ref: unknown name '%s'; the cpu backend has the instruction sets", path);
    if (index != 0)
        return kvc_fail(error, KVC_USAGE, "ref: there is one device; write ref, not ref:%u", index);
    status = open_path("ref", KVC_CPU_REF, 1, math, device, error);
    if (status == KVC_OK && plain)
        kvc_ref_fill(&((struct kvc_cpu *)*device)->table);
    return status;
}

static void ref_missing(char *text, size_t capacity) { snprintf(text, capacity, "none"); }

const struct kvc_backend_class kvc_backend_ref = {
    .name = "ref", .usable = ref_usable, .open = ref_open, .missing = ref_missing};
