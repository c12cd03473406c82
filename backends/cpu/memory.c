/* memory.c - host memory for the CPU's buffers, weights and scratch, counted by kind. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/cpu.h"

#include "core/base/assert.h"

/* Allocations of at least this size are mapped. AddressSanitizer detects overruns only in memory from the allocator, so
 * nothing is mapped in its builds. */
#if defined(__SANITIZE_ADDRESS__)
#define KVC_MAPPED_FROM SIZE_MAX
#else
#define KVC_MAPPED_FROM ((size_t)128 << 10)
#endif
/* larger allocations have huge pages of their own; smaller buffers share areas */
#define KVC_AREAS_MOST (2 * KVC_AREA_BYTES)
#define KVC_ALIGNMENT 64u

void *kvc_host_alloc(size_t bytes) {
    void *memory;
    if (bytes > PTRDIFF_MAX - KVC_ALIGNMENT)
        return NULL;
    if (bytes >= KVC_MAPPED_FROM) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
#if defined(MADV_HUGEPAGE)
        if (bytes > KVC_AREAS_MOST)
            (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
        return memory;
    }
    bytes = bytes ? (bytes + KVC_ALIGNMENT - 1) / KVC_ALIGNMENT * KVC_ALIGNMENT : KVC_ALIGNMENT;
    memory = aligned_alloc(KVC_ALIGNMENT, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void kvc_host_free(void *memory, size_t bytes) {
    if (!memory)
        return;
    if (bytes >= KVC_MAPPED_FROM)
        munmap(memory, bytes);
    else
        free(memory);
}

void kvc_cpu_count(struct kvc_cpu *cpu, enum kvc_memory_kind kind, int64_t bytes) {
    struct kvc_memory *memory = &cpu->device.memory;
    pthread_mutex_lock(&cpu->lock);
    KVC_ASSERT(bytes >= 0 || memory->now[kind] >= (uint64_t)-bytes);
    memory->now[kind] += (uint64_t)bytes;
    memory->now_total += (uint64_t)bytes;
    if (memory->now[kind] > memory->peak[kind])
        memory->peak[kind] = memory->now[kind];
    if (memory->now_total > memory->peak_total)
        memory->peak_total = memory->now_total;
    pthread_mutex_unlock(&cpu->lock);
}

void kvc_cpu_failed(struct kvc_cpu *cpu, enum kvc_status status, const char *format, ...) {
    pthread_mutex_lock(&cpu->lock);
    if (cpu->failure == KVC_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(cpu->failure_text, sizeof cpu->failure_text, format, arguments);
        va_end(arguments);
        cpu->failure = status;
    }
    pthread_mutex_unlock(&cpu->lock);
}

void *kvc_cpu_scratch(struct kvc_cpu *cpu, unsigned thread, size_t bytes) {
    KVC_ASSERT(thread < kvc_threads_count(cpu->threads));
    if (cpu->scratch_bytes[thread] >= bytes && cpu->scratch[thread])
        return cpu->scratch[thread];
    if (cpu->scratch[thread]) {
        kvc_host_free(cpu->scratch[thread], cpu->scratch_bytes[thread]);
        kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, -(int64_t)cpu->scratch_bytes[thread]);
        cpu->scratch[thread] = NULL;
        cpu->scratch_bytes[thread] = 0;
    }
    cpu->scratch[thread] = kvc_host_alloc(bytes);
    if (!cpu->scratch[thread]) {
        kvc_cpu_failed(cpu, KVC_RESOURCE, "no memory for %zu bytes of scratch", bytes);
        return NULL;
    }
    cpu->scratch_bytes[thread] = bytes;
    kvc_cpu_count(cpu, KVC_MEMORY_SCRATCH, (int64_t)bytes);
    return cpu->scratch[thread];
}

static bool in_areas(size_t bytes) { return bytes >= KVC_MAPPED_FROM && bytes <= KVC_AREAS_MOST; }

enum kvc_status kvc_cpu_buffer_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                      struct kvc_buffer **buffer, struct kvc_error *error) {
    struct kvc_buffer *made = malloc(sizeof *made);
    *buffer = NULL;
    if (made)
        made->data = in_areas(bytes) ? kvc_areas_take((struct kvc_cpu *)device, bytes) : kvc_host_alloc(bytes);
    if (!made || !made->data) {
        free(made);
        return kvc_fail(error, KVC_RESOURCE, "no memory for a buffer of %zu bytes", bytes);
    }
    made->bytes = bytes;
    made->kind = kind;
    kvc_cpu_count((struct kvc_cpu *)device, kind, (int64_t)bytes);
    *buffer = made;
    return KVC_OK;
}

void kvc_cpu_buffer_free(struct kvc_device *device, struct kvc_buffer *buffer) {
    if (!buffer)
        return;
    kvc_cpu_count((struct kvc_cpu *)device, buffer->kind, -(int64_t)buffer->bytes);
    if (in_areas(buffer->bytes))
        kvc_areas_free((struct kvc_cpu *)device, buffer->data, buffer->bytes);
    else
        kvc_host_free(buffer->data, buffer->bytes);
    free(buffer);
}

/* Returns true if `bytes` bytes at `span` lie within its buffer. Otherwise records a failure for the next sync. */
static bool memory_inside(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    if (span.offset <= span.buffer->bytes && bytes <= span.buffer->bytes - span.offset)
        return true;
    kvc_cpu_failed((struct kvc_cpu *)device, KVC_RESOURCE, "%zu bytes at offset %zu do not fit a buffer of %zu bytes",
                   bytes, span.offset, span.buffer->bytes);
    return false;
}

void *kvc_cpu_reach(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    return memory_inside(device, span, bytes) ? kvc_span_data(span) : NULL;
}

void kvc_cpu_upload(struct kvc_device *device, struct kvc_span to, const void *from, size_t bytes) {
    if (bytes && memory_inside(device, to, bytes))
        memcpy(kvc_span_data(to), from, bytes);
}

void kvc_cpu_download(struct kvc_device *device, void *to, struct kvc_span from, size_t bytes) {
    if (bytes && memory_inside(device, from, bytes))
        memcpy(to, kvc_span_data(from), bytes);
}

void kvc_cpu_copy(struct kvc_device *device, struct kvc_span to, struct kvc_span from, size_t bytes) {
    if (bytes && memory_inside(device, to, bytes) && memory_inside(device, from, bytes))
        memcpy(kvc_span_data(to), kvc_span_data(from), bytes);
}

void kvc_cpu_zero(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    if (bytes && memory_inside(device, span, bytes))
        memset(kvc_span_data(span), 0, bytes);
}

enum kvc_status kvc_cpu_sync(struct kvc_device *device, struct kvc_error *error) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    enum kvc_status status = cpu->failure; /* needs no lock, because no operation is running now */
    cpu->failure = KVC_OK;
    return status == KVC_OK ? KVC_OK : kvc_fail(error, status, "%s: %s", device->name, cpu->failure_text);
}

enum kvc_status kvc_cpu_weight_create(struct kvc_device *device, enum kvc_type type, uint64_t outputs, uint64_t inputs,
                                      const void *host, struct kvc_weight **weight, struct kvc_error *error) {
    size_t row_bytes = kvc_type_row_bytes(type, inputs);
    struct kvc_weight *made;
    (void)device;
    *weight = NULL;
    if (!row_bytes)
        return kvc_fail(error, KVC_INPUT, "a matrix row of %llu values cannot be of type %s",
                        (unsigned long long)inputs, kvc_type_name(type));
    if (outputs > PTRDIFF_MAX / row_bytes)
        return kvc_fail(error, KVC_INPUT, "a matrix of %llu x %llu values is larger than memory can be",
                        (unsigned long long)outputs, (unsigned long long)inputs);
    made = malloc(sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for a weight's description");
    *made =
        (struct kvc_weight){.type = type, .outputs = outputs, .inputs = inputs, .row_bytes = row_bytes, .data = host};
    *weight = made;
    return KVC_OK;
}

enum kvc_status kvc_cpu_experts_create(struct kvc_device *device, enum kvc_type type, uint32_t experts,
                                       uint64_t outputs, uint64_t inputs, const void *const *host,
                                       struct kvc_weight **weight, struct kvc_error *error) {
    struct kvc_weight *one, *made;
    enum kvc_status status = kvc_cpu_weight_create(device, type, outputs, inputs, NULL, &one, error);
    *weight = NULL;
    if (status != KVC_OK)
        return status;
    made = realloc(one, sizeof *made + experts * sizeof *made->expert);
    if (!made) {
        free(one);
        return kvc_fail(error, KVC_RESOURCE, "no memory for the description of %u experts", experts);
    }
    made->experts = experts;
    for (uint32_t e = 0; e < experts; e++)
        made->expert[e] = host[e];
    *weight = made;
    return KVC_OK;
}
