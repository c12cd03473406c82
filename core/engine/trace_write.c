/* trace_write.c - copies outputs from the device and writes the lines of a trace. */
#include "core/engine/trace_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes_hash.h"

void *kvc_trace_grow(struct kvc_trace *trace, void *array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity)
        return array;
    void *grown = realloc(array, 2 * n * size);
    if (grown)
        *capacity = 2 * n;
    else
        trace->failed = ENOMEM;
    return grown;
}

void *kvc_trace_alloc(struct kvc_trace *trace, size_t bytes) {
    void *memory = trace->held_count < KVC_TRACE_HELD ? malloc(bytes + 1) : NULL;
    if (memory)
        trace->held[trace->held_count++] = memory;
    else
        trace->failed = ENOMEM;
    return memory;
}

void kvc_trace_release(struct kvc_trace *trace, size_t kept) {
    while (trace->held_count > kept)
        free(trace->held[--trace->held_count]);
}

bool kvc_trace_keep_pairs(struct kvc_trace *trace, const uint32_t *pair, size_t pairs) {
    uint32_t *copy = kvc_trace_grow(trace, trace->pair, &trace->pair_capacity, pairs, sizeof *copy);
    if (!copy)
        return false;
    trace->pair = memcpy(copy, pair, pairs * sizeof *copy);
    return true;
}

void *kvc_trace_fetch(struct kvc_trace *trace, struct kvc_span from, size_t bytes) {
    void *memory = kvc_trace_alloc(trace, bytes);
    if (memory && bytes)
        trace->device->ops->download(trace->device, memory, from, bytes);
    return memory;
}

static const struct kvc_trace_weight *find_weight(const struct kvc_trace *trace, const struct kvc_weight *weight) {
    for (size_t i = 0; i < trace->weight_count; i++)
        if (trace->weights[i].weight == weight)
            return &trace->weights[i];
    return NULL;
}

uint64_t kvc_trace_outputs(const struct kvc_trace *trace, const struct kvc_weight *weight) {
    const struct kvc_trace_weight *found = find_weight(trace, weight);
    return found ? found->outputs : 0;
}

uint64_t kvc_trace_inputs(const struct kvc_trace *trace, const struct kvc_weight *weight) {
    const struct kvc_trace_weight *found = find_weight(trace, weight);
    return found ? found->inputs : 0;
}

/* Returns value i as bits. */
static uint32_t bits_of(enum kvc_trace_kind kind, const unsigned char *values, size_t i) {
    uint32_t word = 0;
    memcpy(&word, values + i * kvc_trace_size(kind), kvc_trace_size(kind));
    return kind == KVC_TRACE_FLOATS && (word & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : word;
}

/* Returns the hash of n values. Every value counts as 32 bits. */
static uint64_t hash_of(enum kvc_trace_kind kind, const unsigned char *values, size_t n) {
    uint32_t part[256];
    uint64_t hash = 0;
    for (size_t i = 0; i < n;) {
        size_t filled = 0;
        for (; filled < 256 && i < n; i++)
            part[filled++] = bits_of(kind, values, i);
        hash = kvc_bytes_hash(hash, part, filled * sizeof *part);
    }
    return hash;
}

static bool wants_values(const struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_trace_row row) {
    const struct kvc_trace_values *values = &trace->values;
    const bool layer = trace->part == KVC_TRACE_LAYER && trace->number == (uint64_t)values->layer;
    return values->any && (values->position < 0 || values->position == row.position) && (values->layer < 0 || layer) &&
           (!values->operation[0] || strcmp(values->operation, name.operation) == 0);
}

void kvc_trace_line(struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_trace_row row, uint32_t head,
                    const void *values, size_t n) {
    static const char *const parts[] = {"embedding", "layer", "delta", "logits"};
    static const char *const kinds[] = {"f32", "u32", "f16", "u8"};
    FILE *file = trace->file;
    if (row.session == UINT32_MAX)
        fputs("- ", file);
    else
        fprintf(file, "%" PRIu32 " ", row.session);
    fprintf(file, "%" PRId32 " %s", row.position, parts[trace->part]);
    if (trace->part == KVC_TRACE_LAYER || trace->part == KVC_TRACE_DELTA)
        fprintf(file, "%" PRIu32, trace->number);
    fprintf(file, " %s %s", name.operation, name.output);
    if (head == UINT32_MAX)
        fputs(" -", file);
    else
        fprintf(file, " %" PRIu32, head);
    fprintf(file, " %s %zu %016" PRIx64, kinds[name.kind], n, hash_of(name.kind, values, n));
    for (size_t i = 0; i < n && wants_values(trace, name, row); i++)
        fprintf(file, "%c%0*" PRIx32, i ? ',' : ' ', (int)(2 * kvc_trace_size(name.kind)),
                bits_of(name.kind, values, i));
    fputc('\n', file);
}
