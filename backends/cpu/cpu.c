/* cpu.c - the CPU as a device: which path this machine can run, opening, the self-test, closing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(KVC_NEON_DOTPROD) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "backends/cpu/cpu.h"
#include "backends/cpu/ref/ref.h"
#include "backends/cpu/stealing.h"
#include "core/base/float.h"

static const char *const path_names[] = {"ref", "avx2", "avx512", "neon", "avx512vnni", "neondotprod", "neoni8mm"};
#define KVC_PATHS (sizeof path_names / sizeof path_names[0])

static bool path_built(enum kvc_cpu_path path) {
    switch (path) {
    case KVC_CPU_REF:
        return true;
    case KVC_CPU_AVX2:
    case KVC_CPU_AVX512:
    case KVC_CPU_AVX512VNNI:
#if defined(KVC_X86_SIMD)
        return true;
#else
        return false;
#endif
    case KVC_CPU_NEON:
#if defined(KVC_NEON)
        return true;
#else
        return false;
#endif
    case KVC_CPU_NEONDOTPROD:
    case KVC_CPU_NEONI8MM:
#if defined(KVC_NEON_DOTPROD)
        return true;
#else
        return false;
#endif
    }
    return false;
}

#if defined(KVC_NEON_DOTPROD)
/* What the system says of the CPU; elsewhere what the compiler may take for granted. */
static bool has_dotprod(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#elif defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}

static bool has_i8mm(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM;
#elif defined(__ARM_FEATURE_MATMUL_INT8)
    return true;
#else
    return false;
#endif
}
#endif

static bool path_runs(enum kvc_cpu_path path) {
    if (!path_built(path))
        return false;
#if defined(KVC_X86_SIMD)
    if (path == KVC_CPU_AVX2 || path == KVC_CPU_AVX512 || path == KVC_CPU_AVX512VNNI) {
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
            return false; /* every CPU with AVX2 has F16C */
        if (path != KVC_CPU_AVX2)
            return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                   (path == KVC_CPU_AVX512 || __builtin_cpu_supports("avx512vnni"));
    }
#endif
#if defined(KVC_NEON_DOTPROD)
    if (path == KVC_CPU_NEONDOTPROD || path == KVC_CPU_NEONI8MM)
        return has_dotprod() && (path == KVC_CPU_NEONDOTPROD || has_i8mm());
#endif
    return true;
}

static enum kvc_cpu_path best_path(void) {
    static const enum kvc_cpu_path order[] = {KVC_CPU_AVX512VNNI, KVC_CPU_AVX512,      KVC_CPU_AVX2,
                                              KVC_CPU_NEONI8MM,   KVC_CPU_NEONDOTPROD, KVC_CPU_NEON};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (path_runs(order[i]))
            return order[i];
    return KVC_CPU_REF;
}

/* name: "avx2"; where: what to call the option or variable that had it. */
static enum kvc_status find_path(const char *name, const char *where, enum kvc_cpu_path *path,
                                 struct kvc_error *error) {
    for (size_t i = 0; i < KVC_PATHS; i++)
        if (strcmp(name, path_names[i]) == 0) {
            *path = (enum kvc_cpu_path)i;
            if (!path_built(*path))
                return kvc_fail(error, KVC_RESOURCE, "%s: the %s path is not part of this build; best here: %s", where,
                                name, path_names[best_path()]);
            if (!path_runs(*path))
                return kvc_fail(error, KVC_RESOURCE, "%s: this CPU cannot run the %s path; best here: %s", where, name,
                                path_names[best_path()]);
            return KVC_OK;
        }
    return kvc_fail(error, KVC_USAGE,
                    "%s: unknown CPU path '%s'; it is ref, avx2, avx512, avx512vnni, neon, neondotprod or neoni8mm",
                    where, name);
}

/* The path that was named, or that KVCULL_CPU names, or else the best one. */
static enum kvc_status select_path(const char *name, enum kvc_cpu_path *path, struct kvc_error *error) {
    const char *variable = getenv("KVCULL_CPU");
    *path = KVC_CPU_REF;
    if (name)
        return find_path(name, "cpu", path, error);
    if (variable && *variable)
        return find_path(variable, "KVCULL_CPU", path, error);
    *path = best_path();
    return KVC_OK;
}

void kvc_cpu_fill_ref(struct kvc_ops *table) {
#if defined(KVC_X86_SIMD)
    if (path_runs(KVC_CPU_AVX2)) {
        kvc_ref_fma_fill(table);
        return;
    }
#endif
    kvc_ref_fill(table);
}

static const char *self_test(void) {
#if defined(KVC_X86_SIMD)
    if (path_runs(KVC_CPU_AVX2)) {
        const char *wrong = kvc_ref_fma_self_test();
        if (wrong)
            return wrong;
    }
#endif
    return kvc_ref_self_test();
}

static void fill_table(struct kvc_ops *table, enum kvc_cpu_path path) {
    kvc_cpu_fill_ref(table);
#if defined(KVC_X86_SIMD)
    if (path == KVC_CPU_AVX2)
        kvc_cpu_fill_avx2(table);
    if (path == KVC_CPU_AVX512)
        kvc_cpu_fill_avx512(table);
    if (path == KVC_CPU_AVX512VNNI)
        kvc_cpu_fill_avx512vnni(table);
#endif
#if defined(KVC_NEON)
    if (path == KVC_CPU_NEON)
        kvc_cpu_fill_neon(table);
#endif
#if defined(KVC_NEON_DOTPROD)
    if (path == KVC_CPU_NEONDOTPROD)
        kvc_cpu_fill_neondotprod(table);
    if (path == KVC_CPU_NEONI8MM)
        kvc_cpu_fill_neoni8mm(table);
#endif
#define KVC_LIFETIME(result, name, arguments) table->name = kvc_cpu_##name;
#define KVC_BYTES(result, name, arguments) table->name = kvc_cpu_##name;
#include "core/base/ops.def"
    table->name = path_names[path];
}

/* Scratch memory grows on first use, by thread. */
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
        return kvc_fail(error, KVC_USAGE, "%s: the reference operations are exact; math=fast needs another path",
                        backend);
    if (wrong)
        return kvc_fail(error, KVC_RESOURCE, "%s: the self-test of the arithmetic failed: %s", backend, wrong);
    cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for a device", backend);
    pthread_mutex_init(&cpu->lock, NULL);
    cpu->path = path;
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
    cpu->device.ops = &cpu->table;
    if (strcmp(backend, path_names[path]) == 0)
        snprintf(cpu->device.name, sizeof cpu->device.name, "%s", backend);
    else
        snprintf(cpu->device.name, sizeof cpu->device.name, "%s (%s, %u thread%s%s)", backend, path_names[path], count,
                 count == 1 ? "" : "s", cpu->exact_linear ? ", fast: not exact" : "");
    *device = &cpu->device;
    return KVC_OK;
}

/* ---- the backend "cpu" ---- */

static bool cpu_usable(char *detail, size_t capacity) {
    struct kvc_error error;
    enum kvc_cpu_path path;
    bool usable = select_path(NULL, &path, &error) == KVC_OK;
    snprintf(detail, capacity, "%s", usable ? path_names[path] : error.text);
    return usable;
}

static enum kvc_status cpu_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                struct kvc_device **device, struct kvc_error *error) {
    enum kvc_cpu_path chosen;
    enum kvc_status status = select_path(path, &chosen, error);
    *device = NULL;
    if (status != KVC_OK)
        return status;
    if (index != 0)
        return kvc_fail(error, KVC_USAGE, "cpu: there is one CPU device; write cpu, not cpu:%u", index);
    return open_path("cpu", chosen, threads, math, device, error);
}

/* The operations that no CPU path has yet and all take from ref, as a list of names. */
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

/* The path "plain" is ref without fused multiply-add instructions, for the check that both builds agree. */
static bool ref_usable(char *detail, size_t capacity) {
    snprintf(detail, capacity, "plain C%s", path_runs(KVC_CPU_AVX2) ? ", fused multiply-add" : "");
    return true;
}

static enum kvc_status ref_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                struct kvc_device **device, struct kvc_error *error) {
    bool plain = path && strcmp(path, "plain") == 0;
    enum kvc_status status;
    (void)threads;
    *device = NULL;
    if (path && !plain && strcmp(path, "ref") != 0)
        return kvc_fail(error, KVC_USAGE, "ref: it has no path '%s'; write cpu for that", path);
    if (index != 0)
        return kvc_fail(error, KVC_USAGE, "ref: there is one such device; write ref, not ref:%u", index);
    status = open_path("ref", KVC_CPU_REF, 1, math, device, error);
    if (status == KVC_OK && plain)
        kvc_ref_fill(&((struct kvc_cpu *)*device)->table);
    return status;
}

static void ref_missing(char *text, size_t capacity) { snprintf(text, capacity, "none"); }

const struct kvc_backend_class kvc_backend_ref = {
    .name = "ref", .usable = ref_usable, .open = ref_open, .missing = ref_missing};
