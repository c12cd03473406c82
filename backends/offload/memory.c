/* memory.c - buffers, copies, sync and weights of a device. It calls the device's driver. */
#include <stdlib.h>
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"
#include "core/base/types.h"

_Static_assert(offsetof(struct kvc_weight, type) == 0, "kvc_weight_type reads the first member");

enum kvc_status kvc_offload_buffer_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                          struct kvc_buffer **buffer, struct kvc_error *error) {
    struct kvc_offload *offload = kvc_offload_of(device);
    struct kvc_buffer *made = calloc(1, sizeof *made);
    size_t whole = bytes ? bytes : 1; /* a buffer must not be empty */
    enum kvc_status status;
    bool borrowed;
    *buffer = NULL;
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for %zu bytes", bytes);
    if (bytes > offload->most_bytes) {
        free(made);
        offload->device.refused = bytes;
        return kvc_fail(error, KVC_RESOURCE,
                        "%s: no memory for %zu bytes of %s in one buffer: at most %llu here; a smaller context, chunk "
                        "or budget needs less",
                        device->name, bytes, kvc_offload_kind(kind), (unsigned long long)offload->most_bytes);
    }
    status = kvc_offload_allocate(offload, kind, whole, NULL, &made->handle, &borrowed, error);
    if (status != KVC_OK) {
        free(made);
        return status;
    }
    made->bytes = bytes;
    made->kind = kind;
    offload->driver->zero(offload, made->handle, 0, whole);
    kvc_offload_count(offload, kind, (int64_t)bytes);
    *buffer = made;
    return KVC_OK;
}

void kvc_offload_take_status(struct kvc_offload *offload) {
    uint32_t *status_words = offload->host_status, words = KVC_STATUS_READ + offload->read_count;
    KVC_ASSERT(words <= KVC_STATUS_WORDS);
    if (!offload->status_written)
        return;
    memset(status_words, 0, words * sizeof *status_words);
    offload->driver->read(offload, status_words, offload->status_words.handle, 0, words * sizeof *status_words);
    offload->driver->zero(offload, offload->status_words.handle, 0, words * sizeof *status_words);
    if (!offload->lost) {
        for (uint32_t i = 0; i < offload->read_count; i++)
            *offload->reads[i].to +=
                status_words[KVC_STATUS_READ + i] * offload->reads[i].bytes / offload->reads[i].divisor;
        offload->device.saturated += status_words[KVC_STATUS_SATURATED];
    }
    switch (status_words[KVC_STATUS_FAILURE]) {
    case KVC_FAILED_APPEND:
        kvc_offload_failed(offload, KVC_RESOURCE, "append: head %u has no free slot among %u",
                           status_words[KVC_STATUS_FAILURE + 1], status_words[KVC_STATUS_FAILURE + 2]);
        break;
    case KVC_FAILED_EVICT:
        kvc_offload_failed(offload, KVC_RESOURCE, "evict: the lists have no order yet");
        break;
    case KVC_FAILED_RELAYOUT:
        kvc_offload_failed(offload, KVC_RESOURCE, "relayout: %u entries do not fit %u slots",
                           status_words[KVC_STATUS_FAILURE + 1], status_words[KVC_STATUS_FAILURE + 2]);
        break;
    default:
        break;
    }
    offload->read_count = 0;
    offload->status_written = false;
}

void kvc_offload_buffer_free(struct kvc_device *device, struct kvc_buffer *buffer) {
    struct kvc_offload *offload = kvc_offload_of(device);
    if (!buffer)
        return;
    if (offload->read_count) /* takes the counts now, because the session that owns the counters may be closing */
        kvc_offload_take_status(offload);
    offload->driver->release(offload, buffer->handle);
    kvc_offload_count(offload, buffer->kind, -(int64_t)buffer->bytes);
    free(buffer);
}

void *kvc_offload_reach(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    (void)device, (void)span, (void)bytes;
    return NULL;
}

static bool memory_inside(struct kvc_offload *offload, struct kvc_span span, size_t bytes) {
    if (span.offset <= span.buffer->bytes && bytes <= span.buffer->bytes - span.offset)
        return !offload->lost;
    kvc_offload_failed(offload, KVC_RESOURCE, "%zu bytes at offset %zu do not fit a buffer of %zu bytes", bytes,
                       span.offset, span.buffer->bytes);
    return false;
}

void kvc_offload_upload(struct kvc_device *device, struct kvc_span to, const void *from, size_t bytes) {
    if (bytes && memory_inside(kvc_offload_of(device), to, bytes))
        kvc_offload_of(device)->driver->write(kvc_offload_of(device), to.buffer->handle, to.offset, from, bytes);
}

void kvc_offload_download(struct kvc_device *device, void *to, struct kvc_span from, size_t bytes) {
    if (bytes && memory_inside(kvc_offload_of(device), from, bytes))
        kvc_offload_of(device)->driver->read(kvc_offload_of(device), to, from.buffer->handle, from.offset, bytes);
    else if (bytes && kvc_offload_of(device)->lost)
        memset(to, 0, bytes);
}

void kvc_offload_copy(struct kvc_device *device, struct kvc_span to, struct kvc_span from, size_t bytes) {
    if (bytes && memory_inside(kvc_offload_of(device), to, bytes) && memory_inside(kvc_offload_of(device), from, bytes))
        kvc_offload_of(device)->driver->copy(kvc_offload_of(device), to.buffer->handle, to.offset, from.buffer->handle,
                                             from.offset, bytes);
}

void kvc_offload_zero(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    if (bytes && memory_inside(kvc_offload_of(device), span, bytes))
        kvc_offload_of(device)->driver->zero(kvc_offload_of(device), span.buffer->handle, span.offset, bytes);
}

enum kvc_status kvc_offload_sync(struct kvc_device *device, struct kvc_error *error) {
    struct kvc_offload *offload = kvc_offload_of(device);
    enum kvc_status status;
    if (!offload->lost) {
        kvc_offload_take_status(offload);
        offload->driver->finish(offload);
    }
    status = offload->failure;
    if (!offload->lost) /* a lost device stays lost */
        offload->failure = KVC_OK;
    return status == KVC_OK ? KVC_OK : kvc_fail(error, status, "%s: %s", device->name, offload->failure_text);
}

/* ---- weights ---- */

void kvc_offload_weight_free(struct kvc_device *device, struct kvc_weight *weight) {
    if (!weight)
        return;
    for (uint32_t i = 0; i < weight->pieces; i++)
        if (weight->piece[i])
            kvc_offload_of(device)->driver->release(kvc_offload_of(device), weight->piece[i]);
    kvc_offload_count(kvc_offload_of(device), KVC_MEMORY_WEIGHTS, -(int64_t)weight->counted);
    free(weight);
}

/* Records the size of a packed matrix, for kvc_offload_prepare. */
static void note_size(struct kvc_offload *offload, uint64_t outputs, uint64_t inputs) {
    const uint64_t row = (inputs + 31) / 32 * 128, all = (outputs + 127) / 128 * 128 * row;
    offload->widest = kvc_max_u64(row, offload->widest);
    offload->largest = kvc_max_u64(all, offload->largest);
}

/* Creates a weight with `outputs` rows. Its pieces have no memory yet. */
static enum kvc_status memory_describe(struct kvc_offload *offload, enum kvc_type type, uint64_t outputs,
                                       uint64_t inputs, struct kvc_weight **weight, struct kvc_error *error) {
    size_t row_bytes = kvc_type_row_bytes(type, inputs);
    uint64_t piece_rows, pieces;
    struct kvc_weight *made;
    *weight = NULL;
    if (!row_bytes)
        return kvc_fail(error, KVC_INPUT, "a matrix row of %llu values cannot be of type %s",
                        (unsigned long long)inputs, kvc_type_name(type));
    if (outputs > PTRDIFF_MAX / row_bytes)
        return kvc_fail(error, KVC_INPUT, "a matrix of %llu x %llu values is larger than memory can be",
                        (unsigned long long)outputs, (unsigned long long)inputs);
    piece_rows = offload->most_bytes / row_bytes;
    pieces = piece_rows ? (outputs + piece_rows - 1) / piece_rows : 0;
    if (pieces == 0 || pieces > 65536)
        return kvc_fail(error, KVC_RESOURCE, "%s: a matrix of %llu x %llu values does not fit the device",
                        offload->device.name, (unsigned long long)outputs, (unsigned long long)inputs);
    made = calloc(1, sizeof *made + (size_t)pieces * sizeof *made->piece);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "no memory for a weight's description");
    made->type = type;
    made->outputs = outputs;
    made->inputs = inputs;
    made->row_bytes = row_bytes;
    made->piece_rows = piece_rows;
    made->pieces = (uint32_t)pieces;
    KVC_ASSERT((pieces - 1) * piece_rows < outputs && outputs <= pieces * piece_rows);
    *weight = made;
    return KVC_OK;
}

/* Allocates memory for each piece. `host` has the contents, or is NULL if they are written later. */
static enum kvc_status allocate_pieces(struct kvc_offload *offload, struct kvc_weight *weight,
                                       const unsigned char *host, struct kvc_error *error) {
    for (uint32_t i = 0; i < weight->pieces; i++) {
        const size_t bytes = (size_t)(kvc_offload_piece_rows(weight, i) * weight->row_bytes);
        const unsigned char *from = host ? host + (size_t)(i * weight->piece_rows) * weight->row_bytes : NULL;
        bool borrowed = false;
        enum kvc_status status =
            kvc_offload_allocate(offload, KVC_MEMORY_WEIGHTS, bytes, from, &weight->piece[i], &borrowed, error);
        if (status != KVC_OK)
            return status;
        if (!borrowed) {
            weight->counted += bytes;
            kvc_offload_count(offload, KVC_MEMORY_WEIGHTS, (int64_t)bytes);
        }
    }
    return KVC_OK;
}

enum kvc_status kvc_offload_weight_create(struct kvc_device *device, enum kvc_type type, uint64_t outputs,
                                          uint64_t inputs, const void *host, struct kvc_weight **weight,
                                          struct kvc_error *error) {
    enum kvc_status status = memory_describe(kvc_offload_of(device), type, outputs, inputs, weight, error);
    if (status != KVC_OK)
        return status;
    note_size(kvc_offload_of(device), kvc_min_u64(outputs, (*weight)->piece_rows), inputs);
    status = allocate_pieces(kvc_offload_of(device), *weight, host, error);
    if (status != KVC_OK) {
        kvc_offload_weight_free(device, *weight);
        *weight = NULL;
    }
    return status;
}

/* Does nothing: the kernels quantize weights whenever they read them. */
enum kvc_status kvc_offload_weight_pack(struct kvc_device *device, struct kvc_weight *weight, struct kvc_error *error) {
    (void)device, (void)weight, (void)error;
    return KVC_OK;
}

/* Writes rows of one expert's matrix to the device. They may belong to several pieces. */
static void write_expert(struct kvc_offload *offload, const struct kvc_weight *weight, uint64_t row, uint64_t rows,
                         const unsigned char *host) {
    for (uint64_t here; rows > 0; row += here, rows -= here) {
        const uint64_t piece = row / weight->piece_rows, at = row % weight->piece_rows;
        here = kvc_min_u64(rows, weight->piece_rows - at);
        offload->driver->write(offload, weight->piece[piece], (size_t)at * weight->row_bytes, host,
                               (size_t)here * weight->row_bytes);
        host += (size_t)here * weight->row_bytes;
    }
}

/* The matrices of the experts follow one another, like one matrix with all of their rows. If they are already
 * contiguous in host memory, the driver may use that memory in place. */
enum kvc_status kvc_offload_experts_create(struct kvc_device *device, enum kvc_type type, uint32_t experts,
                                           uint64_t outputs, uint64_t inputs, const void *const *host,
                                           struct kvc_weight **weight, struct kvc_error *error) {
    struct kvc_offload *offload = kvc_offload_of(device);
    if (outputs > UINT64_MAX / experts)
        return kvc_fail(error, KVC_INPUT, "%u matrices of %llu rows are larger than memory can be", experts,
                        (unsigned long long)outputs);
    enum kvc_status status = memory_describe(offload, type, experts * outputs, inputs, weight, error);
    if (status != KVC_OK)
        return status;
    const size_t bytes = (size_t)outputs * (*weight)->row_bytes;
    bool together = true;
    for (uint32_t e = 1; e < experts; e++)
        together = together && (uintptr_t)host[e] == (uintptr_t)host[0] + e * bytes;
    status = allocate_pieces(offload, *weight, together ? host[0] : NULL, error);
    for (uint32_t e = 0; e < experts && status == KVC_OK && !together; e++)
        write_expert(offload, *weight, e * outputs, outputs, host[e]);
    if (status != KVC_OK) {
        kvc_offload_weight_free(device, *weight);
        *weight = NULL;
    }
    return status;
}
