/* offload.c - opens and closes devices, reports failures, reads status words, and builds launches. */
#include "backends/offload/offload.h"

#include "core/base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kvc_status kvc_offload_open(struct kvc_offload *offload, struct kvc_error *error) {
    bool borrowed;
    enum kvc_status status;
    offload->reads = calloc(KVC_STATUS_WORDS - KVC_STATUS_READ, sizeof *offload->reads);
    offload->host_status = malloc(KVC_STATUS_WORDS * sizeof *offload->host_status);
    if (!offload->reads || !offload->host_status)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for a device", offload->device.name);
    status = kvc_offload_allocate(offload, KVC_MEMORY_SCRATCH, KVC_STATUS_WORDS * sizeof(uint32_t), NULL,
                                  &offload->status_words.handle, &borrowed, error);
    if (status != KVC_OK)
        return status;
    offload->status_words.bytes = KVC_STATUS_WORDS * sizeof(uint32_t);
    offload->status_words.kind = KVC_MEMORY_SCRATCH;
    offload->driver->zero(offload, offload->status_words.handle, 0, offload->status_words.bytes);
    kvc_offload_count(offload, KVC_MEMORY_SCRATCH, (int64_t)offload->status_words.bytes);
    offload->device.capacity = offload->memory_bytes;
#define KVC_LIFETIME(result, name, arguments) offload->table.name = kvc_offload_##name;
#define KVC_BYTES(result, name, arguments) offload->table.name = kvc_offload_##name;
#define KVC_OPERATION(name, parameters, ...) offload->table.name = kvc_offload_##name;
#define KVC_OPERATION_FUSED(name, parameters, ...)
#include "core/base/ops.def"
    offload->device.ops = &offload->table;
    return KVC_OK;
}

void kvc_offload_close(struct kvc_device *device) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    if (offload->workspace.handle)
        offload->driver->release(offload, offload->workspace.handle);
    if (offload->status_words.handle)
        offload->driver->release(offload, offload->status_words.handle);
    free(offload->reads);
    free(offload->host_status);
    offload->driver->close(offload);
}

void kvc_offload_failed(struct kvc_offload *offload, enum kvc_status status, const char *format, ...) {
    va_list arguments;
    if (offload->failure != KVC_OK)
        return;
    va_start(arguments, format);
    vsnprintf(offload->failure_text, sizeof offload->failure_text, format, arguments);
    va_end(arguments);
    offload->failure = status;
}

void kvc_offload_count(struct kvc_offload *offload, enum kvc_memory_kind kind, int64_t bytes) {
    struct kvc_memory *memory = &offload->device.memory;
    KVC_ASSERT(bytes >= 0 || memory->now[kind] >= (uint64_t)-bytes);
    memory->now[kind] += (uint64_t)bytes;
    memory->now_total += (uint64_t)bytes;
    if (memory->now[kind] > memory->peak[kind])
        memory->peak[kind] = memory->now[kind];
    if (memory->now_total > memory->peak_total)
        memory->peak_total = memory->now_total;
}

const char *kvc_offload_kind(enum kvc_memory_kind kind) {
    static const char *const names[KVC_MEMORY_KINDS] = {[KVC_MEMORY_WEIGHTS] = "weights",
                                                        [KVC_MEMORY_CACHE] = "cache",
                                                        [KVC_MEMORY_STATE] = "state",
                                                        [KVC_MEMORY_HIDDEN] = "hidden states",
                                                        [KVC_MEMORY_SCRATCH] = "scratch"};
    return names[kind];
}

enum kvc_status kvc_offload_allocate(struct kvc_offload *offload, enum kvc_memory_kind kind, size_t bytes,
                                     const void *host, void **handle, bool *borrowed, struct kvc_error *error) {
    enum kvc_status status = offload->driver->allocate(offload, kind, bytes, host, handle, borrowed, error);
    if (status != KVC_OK)
        offload->device.refused = bytes;
    return status;
}

struct kvc_buffer *kvc_offload_workspace(struct kvc_offload *offload, uint64_t bytes) {
    struct kvc_buffer *workspace = &offload->workspace;
    struct kvc_error error = {KVC_OK, ""};
    bool borrowed;
    if (workspace->handle && workspace->bytes >= bytes)
        return workspace;
    if (workspace->handle) {
        offload->driver->release(offload, workspace->handle);
        kvc_offload_count(offload, KVC_MEMORY_SCRATCH, -(int64_t)workspace->bytes);
        workspace->handle = NULL;
    }
    bytes = (bytes + bytes / 2 + 65535) / 65536 * 65536; /* makes it 50 % larger than needed, so that it grows rarely */
    if (bytes > SIZE_MAX || kvc_offload_allocate(offload, KVC_MEMORY_SCRATCH, (size_t)bytes, NULL, &workspace->handle,
                                                 &borrowed, &error) != KVC_OK) {
        /* drop the device's name from the message, because the next sync adds it */
        const size_t name = strlen(offload->device.name);
        const bool named = !strncmp(error.text, offload->device.name, name) && !strncmp(error.text + name, ": ", 2);
        workspace->handle = NULL;
        kvc_offload_failed(offload, KVC_RESOURCE, "%s",
                           error.status ? error.text + (named ? name + 2 : 0) : "too much scratch memory");
        return NULL;
    }
    workspace->bytes = (size_t)bytes;
    workspace->kind = KVC_MEMORY_SCRATCH;
    kvc_offload_count(offload, KVC_MEMORY_SCRATCH, (int64_t)bytes);
    return workspace;
}

uint32_t kvc_offload_read_status(struct kvc_offload *offload, uint32_t count, uint64_t *to, uint64_t bytes,
                                 uint64_t divisor) {
    uint32_t first;
    if (!to || count > KVC_STATUS_WORDS - KVC_STATUS_READ)
        return 0;
    if (offload->read_count > KVC_STATUS_WORDS - KVC_STATUS_READ - count)
        kvc_offload_take_status(offload);
    first = KVC_STATUS_READ + offload->read_count;
    KVC_ASSERT(first + count <= KVC_STATUS_WORDS);
    offload->status_written = true;
    for (uint32_t i = 0; i < count; i++)
        offload->reads[offload->read_count++] = (struct kvc_offload_read){to, bytes, divisor};
    return first;
}

uint32_t kvc_offload_most_slots(const struct kvc_lists *lists) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        if (lists->host_base[h + 1] - lists->host_base[h] > most)
            most = lists->host_base[h + 1] - lists->host_base[h];
    return most;
}

/* ---- launches ---- */

struct kvc_launch kvc_launch_of(enum kvc_kernel kernel) {
    struct kvc_launch launch;
    launch.kernel = kernel;
    launch.count = 0;
    return launch;
}

void kvc_launch_handle(struct kvc_launch *launch, void *handle) {
    unsigned i = launch->count++;
    KVC_ASSERT(i < KVC_ARGUMENTS);
    launch->argument[i].value.handle = handle;
    launch->argument[i].bytes = sizeof handle;
    launch->argument[i].is_handle = true;
}

void kvc_launch_buffer(struct kvc_launch *launch, const struct kvc_buffer *buffer) {
    kvc_launch_handle(launch, buffer ? buffer->handle : NULL);
}

void kvc_launch_word(struct kvc_launch *launch, uint32_t word) {
    unsigned i = launch->count++;
    launch->argument[i].value.word = word;
    launch->argument[i].bytes = sizeof word;
    launch->argument[i].is_handle = false;
}

void kvc_launch_wide(struct kvc_launch *launch, uint64_t wide) {
    unsigned i = launch->count++;
    launch->argument[i].value.wide = wide;
    launch->argument[i].bytes = sizeof wide;
    launch->argument[i].is_handle = false;
}

void kvc_launch_real(struct kvc_launch *launch, float real) {
    unsigned i = launch->count++;
    launch->argument[i].value.real = real;
    launch->argument[i].bytes = sizeof real;
    launch->argument[i].is_handle = false;
}

void kvc_launch_span(struct kvc_launch *launch, struct kvc_span span) {
    kvc_launch_buffer(launch, span.buffer);
    kvc_launch_wide(launch, span.buffer ? span.offset / 4 : 0);
}

void kvc_launch_lists(struct kvc_launch *launch, const struct kvc_lists *lists) {
    kvc_launch_buffer(launch, lists->base);
    kvc_launch_buffer(launch, lists->count);
    kvc_launch_buffer(launch, lists->blocks);
    kvc_launch_buffer(launch, lists->order);
    kvc_launch_buffer(launch, lists->position);
    kvc_launch_buffer(launch, lists->state);
    kvc_launch_word(launch, lists->columns);
}

void kvc_launch_arena(struct kvc_launch *launch, const struct kvc_arena *arena) {
    for (uint32_t i = 0; i < KVC_CHUNKS; i++)
        kvc_launch_handle(launch, arena->chunk[i]);
    kvc_launch_word(launch, arena->shift);
    kvc_launch_word(launch, arena->top);
    kvc_launch_word(launch, arena->format.head_size);
    kvc_launch_word(launch, arena->format.key.type);
    kvc_launch_word(launch, arena->format.key.bytes);
    kvc_launch_word(launch, arena->format.value.type);
    kvc_launch_word(launch, arena->format.value.bytes);
}

void kvc_launch_reads(struct kvc_launch *launch, const struct kvc_read_list *reads) {
    kvc_launch_buffer(launch, reads ? reads->count : NULL);
    kvc_launch_buffer(launch, reads ? reads->index : NULL);
    kvc_launch_word(launch, reads ? reads->stride : 0);
}

void kvc_launch_run(struct kvc_offload *offload, struct kvc_launch *launch, uint32_t items, uint64_t x, uint64_t y,
                    uint64_t z) {
    if (x == 0 || y == 0 || z == 0 || offload->lost)
        return;
    if (x > 0x7fffffffu || y > 65535 || z > 65535) {
        kvc_offload_failed(offload, KVC_RESOURCE, "one operation over %llu x %llu x %llu groups is too large",
                           (unsigned long long)x, (unsigned long long)y, (unsigned long long)z);
        return;
    }
    launch->items = items;
    KVC_ASSERT(launch->count <= KVC_ARGUMENTS);
    launch->groups[0] = (uint32_t)x;
    launch->groups[1] = (uint32_t)y;
    launch->groups[2] = (uint32_t)z;
    offload->driver->launch(offload, launch);
}

void kvc_launch_groups(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z) {
    kvc_launch_run(offload, launch, offload->group, x, y, z);
}

void kvc_launch_items(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y, uint64_t z) {
    const uint32_t items = KVC_ITEMS_OF(offload->group);
    kvc_launch_run(offload, launch, items, (x + items - 1) / items, y, z);
}

void kvc_launch_runs(struct kvc_offload *offload, struct kvc_launch *launch, uint64_t x, uint64_t y) {
    kvc_launch_items(offload, launch, kvc_offload_runs(offload, x), y, 1);
}

uint64_t kvc_offload_runs(const struct kvc_offload *offload, uint64_t n) {
    const uint64_t run_length = KVC_RUN_OF(offload->workers);
    KVC_ASSERT(offload->workers == 1 || offload->workers == 4);
    return (n + run_length - 1) / run_length;
}
