/* trace_outputs.c - the outputs of each operation: their shapes, and the lines that a trace writes for them. Each
 * function runs after its operation and reads the output from the device. Entries appear in index order, so lines do
 * not depend on slots. */
#include "core/engine/trace_write.h"

#include <string.h>

#define NO_HEAD UINT32_MAX
#define FLOATS(operation, output) ((struct kvc_trace_name){operation, output, KVC_TRACE_FLOATS})
#define WORDS(operation, output) ((struct kvc_trace_name){operation, output, KVC_TRACE_WORDS})
#define BYTES(operation, output) ((struct kvc_trace_name){operation, output, KVC_TRACE_BYTES})

static struct kvc_span all_of(struct kvc_buffer *buffer) { return (struct kvc_span){buffer, 0}; }

static struct kvc_span span_at(struct kvc_span span, size_t bytes) {
    span.offset += bytes;
    return span;
}

/* This rank has `heads` heads (or query heads, or lists). Returns the index of the first of them among the heads of all
 * ranks. */
static uint32_t first_of(const struct kvc_trace *trace, size_t heads) {
    return trace->kv_heads ? (uint32_t)(trace->first_kv_head * heads / trace->kv_heads) : 0;
}

/* ---- rows ---- */

/* Writes a line for each row and head of an output [rows, heads, width]. If the output has at most as many rows as the
 * batch, they are the batch's rows from `first` on. Otherwise each row of the batch has the same number of consecutive
 * rows in the output. If the numbers of rows do not match in either way, the line has the row's index in place of a
 * head. */
static void put_rows(struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_span from, uint32_t first,
                     size_t rows, size_t heads, size_t width) {
    const size_t bytes = width * kvc_trace_size(name.kind), batch = first < trace->row_count ? trace->row_count : 0;
    const size_t each = rows < batch ? 1 : batch && rows % batch == 0 ? rows / batch : 0;
    const unsigned char *values = from.buffer ? kvc_trace_fetch(trace, from, rows * heads * bytes) : NULL;
    for (size_t i = 0; values && i < rows; i++)
        for (size_t h = 0; h < heads; h++) {
            const size_t row = each ? first + i / each : 0;
            const bool known = each && row < batch;
            const uint32_t head = heads > 1  ? first_of(trace, heads) + (uint32_t)h
                                  : !known   ? (uint32_t)i
                                  : each > 1 ? first_of(trace, each) + (uint32_t)(i % each)
                                             : NO_HEAD;
            kvc_trace_line(trace, name, known ? trace->rows[row] : trace->list, head, values + (i * heads + h) * bytes,
                           width);
        }
}

static bool has_pairs(const struct kvc_trace *trace, const struct kvc_buffer *buffer) {
    for (size_t i = 0; i < trace->pair_buffers; i++)
        if (trace->pair_buffer[i] == buffer)
            return true;
    return false;
}

static void mark_pairs(struct kvc_trace *trace, const struct kvc_buffer *buffer) {
    if (!has_pairs(trace, buffer) && trace->pair_buffers < KVC_TRACE_PAIR_BUFFERS)
        trace->pair_buffer[trace->pair_buffers++] = buffer;
}

/* Writes an output [pairs, width]: one line for each row and each of its experts. The expert's index among the row's
 * experts takes the place of a head. */
static void put_pairs(struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_span from, size_t width) {
    const size_t bytes = width * kvc_trace_size(name.kind);
    const unsigned char *values = kvc_trace_fetch(trace, from, trace->pair_count * bytes);
    for (uint32_t i = 0; values && i < trace->pair_count; i++)
        kvc_trace_line(trace, name, trace->rows[i / trace->used], i % trace->used, values + trace->pair[i] * bytes,
                       width);
}

/* Writes the lines of an output of n floats, a row or a pair at a time. */
static void put_flat(struct kvc_trace *trace, const char *operation, struct kvc_span from, size_t n) {
    const struct kvc_trace_name name = FLOATS(operation, "y");
    if (has_pairs(trace, from.buffer) && trace->pair_count)
        put_pairs(trace, name, from, n / trace->pair_count);
    else if (trace->row_count && n % trace->row_count == 0)
        put_rows(trace, name, from, 0, trace->row_count, 1, n / trace->row_count);
    else
        put_rows(trace, name, from, 0, 1, 1, n);
}

void kvc_trace_linear(struct kvc_trace *trace, const struct kvc_linear *args) {
    put_rows(trace, FLOATS("linear", "y"), args->y, 0, args->rows, 1, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_linear_int8(struct kvc_trace *trace, const struct kvc_linear_int8 *args) {
    put_rows(trace, FLOATS("linear_int8", "y"), args->y, 0, args->rows, 1, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_quantize_rows(struct kvc_trace *trace, const struct kvc_quantize_rows *args) {
    const struct kvc_int8_rows *y = &args->y;
    if (has_pairs(trace, args->x.buffer)) {
        put_pairs(trace, BYTES("quantize_rows", "quant"), y->quant, args->K);
        put_pairs(trace, FLOATS("quantize_rows", "scale"), y->scale, args->K / 32);
        put_pairs(trace, WORDS("quantize_rows", "sum"), y->sum, args->K / 16);
        return;
    }
    put_rows(trace, BYTES("quantize_rows", "quant"), y->quant, 0, args->rows, 1, args->K);
    put_rows(trace, FLOATS("quantize_rows", "scale"), y->scale, 0, args->rows, 1, args->K / 32);
    put_rows(trace, WORDS("quantize_rows", "sum"), y->sum, 0, args->rows, 1, args->K / 16);
}

void kvc_trace_linear_int16(struct kvc_trace *trace, const struct kvc_linear_int16 *args) {
    put_rows(trace, FLOATS("linear_int16", "y"), args->y, 0, args->rows, 1, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_quantize_rows_int16(struct kvc_trace *trace, const struct kvc_quantize_rows_int16 *args) {
    const struct kvc_int16_rows *y = &args->y;
    if (has_pairs(trace, args->x.buffer)) {
        put_pairs(trace, BYTES("quantize_rows_int16", "quant"), y->quant, 2 * args->K);
        put_pairs(trace, FLOATS("quantize_rows_int16", "scale"), y->scale, kvc_int16_blocks(args->K));
        return;
    }
    put_rows(trace, BYTES("quantize_rows_int16", "quant"), y->quant, 0, args->rows, 1, 2 * args->K);
    put_rows(trace, FLOATS("quantize_rows_int16", "scale"), y->scale, 0, args->rows, 1, kvc_int16_blocks(args->K));
}

void kvc_trace_embed(struct kvc_trace *trace, const struct kvc_embed *args) {
    put_rows(trace, FLOATS("embed", "out"), args->out, 0, args->rows, 1, kvc_trace_inputs(trace, args->table));
}

void kvc_trace_norm(struct kvc_trace *trace, const struct kvc_norm *args) {
    put_rows(trace, FLOATS("norm", "y"), args->y, 0, args->rows, 1, args->K);
}

void kvc_trace_rope(struct kvc_trace *trace, const struct kvc_rope_heads *args) {
    put_rows(trace, FLOATS("rope", "y"), args->y, 0, args->rows, args->heads, args->head_size);
}

void kvc_trace_gated_silu(struct kvc_trace *trace, const struct kvc_gated_silu *args) {
    put_flat(trace, "gated_silu", args->y, args->n);
}

void kvc_trace_add(struct kvc_trace *trace, const struct kvc_add *args) { put_flat(trace, "add", args->y, args->n); }

void kvc_trace_blend(struct kvc_trace *trace, const struct kvc_blend *args) {
    put_flat(trace, "blend", args->y, args->n);
}

void kvc_trace_scale(struct kvc_trace *trace, const struct kvc_scale *args) {
    put_flat(trace, "scale", args->y, args->n);
}

void kvc_trace_hadamard(struct kvc_trace *trace, const struct kvc_hadamard *args) {
    put_flat(trace, "hadamard", args->x, (size_t)args->heads * args->d);
}

void kvc_trace_smooth_factors(struct kvc_trace *trace, const struct kvc_smooth_factors *args) {
    put_flat(trace, "smooth_factors", args->factors, (size_t)2 * args->kv_heads * args->d);
}

void kvc_trace_smooth(struct kvc_trace *trace, const struct kvc_smooth *args) {
    put_flat(trace, "smooth", args->x, (size_t)args->rows * args->heads * args->d);
}

void kvc_trace_centre(struct kvc_trace *trace, const struct kvc_centre *args) {
    put_flat(trace, "centre", args->x, (size_t)args->rows * args->width);
}

void kvc_trace_repeat_heads(struct kvc_trace *trace, const struct kvc_repeat_heads *args) {
    put_rows(trace, FLOATS("repeat_heads", "out"), args->out, 0, args->rows, args->heads * args->copies,
             args->head_size);
}

void kvc_trace_gather(struct kvc_trace *trace, const struct kvc_gather *args) {
    const struct kvc_trace_name name = FLOATS("gather", "out");
    if (trace->pair_rows && args->index.buffer == trace->pair_rows) {
        mark_pairs(trace, args->out.buffer);
        put_pairs(trace, name, args->out, args->width);
    } else {
        put_rows(trace, name, args->out, 0, args->rows, 1, args->width);
    }
}

void kvc_trace_gate_scores(struct kvc_trace *trace, const struct kvc_gate_scores *args) {
    put_rows(trace, FLOATS("gate_scores", "scores"), args->scores, 0, args->rows, args->kv_heads, 1);
}

void kvc_trace_fma_loop(struct kvc_trace *trace, const struct kvc_fma_loop *args) {
    put_rows(trace, FLOATS("fma_loop", "x"), args->x, 0, 1, 1, args->n);
}

/* ---- experts ---- */

/* Keeps the pairs of each row for the operations that follow. */
void kvc_trace_route(struct kvc_trace *trace, const struct kvc_route *args) {
    const size_t pairs = (size_t)args->rows * args->used;
    const uint32_t *pair = kvc_trace_fetch(trace, args->pair, pairs * sizeof *pair);
    trace->pair_count = 0;
    trace->pair_rows = args->row.buffer;
    trace->used = args->used;
    if (pair && args->rows == trace->row_count && kvc_trace_keep_pairs(trace, pair, pairs))
        trace->pair_count = (uint32_t)pairs;
    put_rows(trace, WORDS("route", "expert"), args->expert, 0, args->rows, 1, args->used);
    put_rows(trace, FLOATS("route", "share"), args->share, 0, args->rows, 1, args->used);
}

void kvc_trace_expert_linear(struct kvc_trace *trace, const struct kvc_expert_linear *args) {
    mark_pairs(trace, args->y.buffer);
    put_pairs(trace, FLOATS("expert_linear", "y"), args->y, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_expert_linear_int8(struct kvc_trace *trace, const struct kvc_expert_linear_int8 *args) {
    mark_pairs(trace, args->y.buffer);
    put_pairs(trace, FLOATS("expert_linear_int8", "y"), args->y, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_expert_linear_int16(struct kvc_trace *trace, const struct kvc_expert_linear_int16 *args) {
    mark_pairs(trace, args->y.buffer);
    put_pairs(trace, FLOATS("expert_linear_int16", "y"), args->y, kvc_trace_outputs(trace, args->w));
}

void kvc_trace_expert_sum(struct kvc_trace *trace, const struct kvc_expert_sum *args) {
    put_rows(trace, FLOATS("expert_sum", "out"), args->out, 0, args->rows, 1, args->width);
}

/* ---- lists ---- */

/* One head's entries, on the host. */
struct head {
    uint32_t number; /* among all ranks' heads */
    uint32_t count, base, slots;
    const uint32_t *order; /* [slots]; NULL: the index is the slot */
};

/* The counts and order lists of all heads of a layer. */
struct heads {
    const uint32_t *count, *order;
};
static bool fetch_heads(struct kvc_trace *trace, const struct kvc_lists *lists, struct heads *heads) {
    heads->count = kvc_trace_fetch(trace, all_of(lists->count), lists->kv_heads * sizeof *heads->count);
    heads->order = NULL;
    if (lists->order)
        heads->order =
            kvc_trace_fetch(trace, all_of(lists->order), lists->host_base[lists->kv_heads] * sizeof *heads->order);
    return heads->count && (heads->order || !lists->order);
}

static struct head head_of(const struct kvc_trace *trace, const struct kvc_lists *lists, const struct heads *heads,
                           uint32_t h) {
    const uint32_t base = lists->host_base[h];
    return (struct head){.number = first_of(trace, lists->kv_heads) + h,
                         .count = heads->count[h],
                         .base = base,
                         .slots = lists->host_base[h + 1] - base,
                         .order = heads->order ? heads->order + base : NULL};
}

static uint32_t slot_of(const struct head *head, uint32_t index) { return head->order ? head->order[index] : index; }

/* Writes the order list and, by index, the positions of each head. */
static void put_order(struct kvc_trace *trace, const char *operation, const struct kvc_lists *lists) {
    struct heads heads;
    const uint32_t *position = NULL;
    if (!fetch_heads(trace, lists, &heads))
        return;
    if (lists->position)
        position =
            kvc_trace_fetch(trace, all_of(lists->position), lists->host_base[lists->kv_heads] * sizeof *position);
    uint32_t *sorted = kvc_trace_alloc(trace, lists->host_base[lists->kv_heads] * sizeof *sorted);
    for (uint32_t h = 0; sorted && h < lists->kv_heads; h++) {
        const struct head head = head_of(trace, lists, &heads, h);
        kvc_trace_line(trace, WORDS(operation, "count"), trace->list, head.number, &head.count, 1);
        if (head.order)
            kvc_trace_line(trace, WORDS(operation, "order"), trace->list, head.number, head.order, head.slots);
        for (uint32_t i = 0; position && i < head.count; i++)
            sorted[i] = position[head.base + slot_of(&head, i)];
        if (position)
            kvc_trace_line(trace, WORDS(operation, "position"), trace->list, head.number, sorted, head.count);
    }
}

/* Writes state columns first .. first + columns - 1 of each head's entries, by index: [columns, count]. */
static void put_columns(struct kvc_trace *trace, const char *operation, const struct kvc_lists *lists, uint32_t first,
                        uint32_t columns) {
    struct heads heads;
    if (!lists->state || !fetch_heads(trace, lists, &heads))
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const struct head head = head_of(trace, lists, &heads, h);
        const size_t at = (size_t)lists->columns * head.base + (size_t)first * head.slots;
        const size_t kept = trace->held_count;
        const uint32_t *state = kvc_trace_fetch(trace, (struct kvc_span){lists->state, at * sizeof *state},
                                                (size_t)columns * head.slots * sizeof *state);
        uint32_t *sorted = kvc_trace_alloc(trace, (size_t)columns * head.count * sizeof *sorted);
        for (uint32_t c = 0; state && sorted && c < columns; c++)
            for (uint32_t i = 0; i < head.count; i++)
                sorted[(size_t)c * head.count + i] = state[(size_t)c * head.slots + slot_of(&head, i)];
        if (state && sorted)
            kvc_trace_line(trace, FLOATS(operation, "state"), trace->list, head.number, sorted,
                           (size_t)columns * head.count);
        kvc_trace_release(trace, kept);
    }
}

/* Writes scores [lists' heads * rows, stride] up to each head's count. */
static void put_scores(struct kvc_trace *trace, struct kvc_trace_name name, const struct kvc_lists *lists,
                       struct kvc_span scores, uint32_t rows, uint32_t stride) {
    struct heads heads;
    if (!scores.buffer || !fetch_heads(trace, lists, &heads))
        return;
    for (uint32_t h = 0; h < lists->kv_heads * rows; h++) {
        const uint32_t count = heads.count[h / rows];
        const size_t kept = trace->held_count;
        const float *values =
            kvc_trace_fetch(trace, span_at(scores, (size_t)h * stride * sizeof *values), count * sizeof *values);
        if (values)
            kvc_trace_line(trace, name, trace->list, first_of(trace, lists->kv_heads * rows) + h, values, count);
        kvc_trace_release(trace, kept);
    }
}

/* Writes an ascending list of indices per head. */
static void put_list(struct kvc_trace *trace, const char *operation, const char *output, uint32_t heads,
                     const struct kvc_read_list *list) {
    const uint32_t *count = kvc_trace_fetch(trace, all_of(list->count), heads * sizeof *count);
    for (uint32_t h = 0; count && h < heads; h++) {
        const size_t kept = trace->held_count;
        const struct kvc_span from = {list->index, (size_t)h * list->stride * sizeof(uint32_t)};
        const uint32_t *index = kvc_trace_fetch(trace, from, count[h] * sizeof *index);
        if (index)
            kvc_trace_line(trace, WORDS(operation, output), trace->list, first_of(trace, heads) + h, index, count[h]);
        kvc_trace_release(trace, kept);
    }
}

/* Writes an output [heads, width] that belongs to no row. */
static void put_words(struct kvc_trace *trace, struct kvc_trace_name name, struct kvc_span from, uint32_t heads,
                      size_t width) {
    const size_t bytes = width * kvc_trace_size(name.kind);
    const unsigned char *values = from.buffer ? kvc_trace_fetch(trace, from, heads * bytes) : NULL;
    for (uint32_t h = 0; values && h < heads; h++)
        kvc_trace_line(trace, name, trace->list, heads > 1 ? first_of(trace, heads) + h : NO_HEAD, values + h * bytes,
                       width);
}

/* ---- entries ---- */

/* The block that was read last, with the keys and values of KVC_BLOCK entries as stored. */
struct block {
    uint32_t number;
    unsigned char *bytes;
};

/* Copies the stored key and value of an entry to `to`, one after the other. */
static void fetch_entry(struct kvc_trace *trace, const struct kvc_lists *lists, const uint32_t *names,
                        const struct head *head, uint32_t index, struct block *block, unsigned char *to) {
    const size_t row[2] = {lists->format.key.bytes, lists->format.value.bytes}, half = KVC_BLOCK * row[0];
    const uint32_t slot = slot_of(head, index), number = slot / KVC_BLOCK;
    const size_t some = head->slots - number * KVC_BLOCK < KVC_BLOCK ? 1 : KVC_BLOCK; /* read an extra slot alone */
    if (block->number != number) {
        for (size_t side = 0; side < 2; side++)
            trace->device->ops->arena_read(trace->device, lists->arena, names[number], side * half,
                                           block->bytes + side * half, some * row[side]);
        block->number = number;
    }
    for (size_t side = 0; side < 2; side++)
        memcpy(to + side * row[0], block->bytes + side * half + slot % KVC_BLOCK * row[side], row[side]);
}

/* Writes the stored keys and values of each head. With `segment`: one line for each of the newest segment->stored
 * entries. Without `segment`: one line for all entries. */
static void put_entries(struct kvc_trace *trace, const char *operation, const struct kvc_lists *lists,
                        const struct kvc_segment *segment) {
    const size_t bytes = kvc_entry_bytes(&lists->format);
    struct heads heads;
    if (!fetch_heads(trace, lists, &heads))
        return;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const struct head head = head_of(trace, lists, &heads, h);
        const uint32_t count = segment ? segment->stored : head.count, first = kvc_first_block(head.base, h);
        const size_t kept = trace->held_count;
        const uint32_t *names = kvc_trace_fetch(trace, (struct kvc_span){lists->blocks, first * sizeof *names},
                                                kvc_slots_blocks(head.slots) * sizeof *names);
        struct block block = {UINT32_MAX, kvc_trace_alloc(trace, KVC_BLOCK * bytes)};
        unsigned char *entries = kvc_trace_alloc(trace, count * bytes);
        for (uint32_t i = 0; names && block.bytes && entries && i < count; i++) {
            fetch_entry(trace, lists, names, &head, head.count - count + i, &block, entries + i * bytes);
            const uint32_t at = segment ? segment->row + i : UINT32_MAX;
            if (segment)
                kvc_trace_line(trace, BYTES(operation, "entry"), at < trace->row_count ? trace->rows[at] : trace->list,
                               head.number, entries + i * bytes, bytes);
        }
        if (names && block.bytes && entries && !segment)
            kvc_trace_line(trace, BYTES(operation, "entries"), trace->list, head.number, entries, count * bytes);
        kvc_trace_release(trace, kept);
    }
}

void kvc_trace_append(struct kvc_trace *trace, const struct kvc_append *args) {
    for (size_t i = 0; i < args->segment_count; i++) {
        const size_t kept = trace->held_count;
        put_entries(trace, "append", args->segments[i].lists, &args->segments[i]);
        kvc_trace_release(trace, kept);
    }
}

void kvc_trace_drop(struct kvc_trace *trace, const struct kvc_drop *args) { put_order(trace, "drop", args->lists); }

void kvc_trace_attention(struct kvc_trace *trace, const struct kvc_attention *args) {
    for (size_t i = 0; i < args->segment_count; i++) {
        const struct kvc_segment *segment = &args->segments[i];
        const size_t heads = segment->row * (size_t)args->heads * sizeof(float), kept = trace->held_count;
        put_rows(trace, FLOATS("attention", "out"), span_at(args->out, heads * args->head_size), segment->row,
                 segment->rows, args->heads, args->head_size);
        put_rows(trace, FLOATS("attention", "maximum"), span_at(args->maximum, heads), segment->row, segment->rows, 1,
                 args->heads);
        put_rows(trace, FLOATS("attention", "sum"), span_at(args->sum, heads), segment->row, segment->rows, 1,
                 args->heads);
        kvc_trace_release(trace, kept);
    }
}

void kvc_trace_identity(struct kvc_trace *trace, const struct kvc_identity *args) {
    put_order(trace, "identity", args->lists);
}

void kvc_trace_evict(struct kvc_trace *trace, const struct kvc_evict *args) { put_order(trace, "evict", args->lists); }

void kvc_trace_relayout(struct kvc_trace *trace, const struct kvc_relayout *args) {
    put_order(trace, "relayout", args->dst);
}

void kvc_trace_keep_keys(struct kvc_trace *trace, const struct kvc_keep_keys *args) {
    put_columns(trace, "keep_keys", args->lists, args->first, args->width);
}

void kvc_trace_rotate_keys(struct kvc_trace *trace, const struct kvc_rotate_keys *args) {
    put_entries(trace, "rotate_keys", args->lists, NULL);
}

void kvc_trace_entries(struct kvc_trace *trace, const struct kvc_entries *args) {
    struct heads heads;
    if (!fetch_heads(trace, args->lists, &heads))
        return;
    const size_t n = (size_t)heads.count[args->head] * args->lists->format.head_size;
    put_words(trace, FLOATS("entries", "keys"), args->keys, 1, n);
    put_words(trace, FLOATS("entries", "values"), args->values, 1, n);
}

/* ---- scores ---- */

void kvc_trace_window_mass(struct kvc_trace *trace, const struct kvc_window_mass *args) {
    const struct kvc_probabilities *p = args->probabilities;
    put_scores(trace, FLOATS("window_mass", "scores"), p->lists, args->scores,
               args->by_head ? p->heads / p->lists->kv_heads : 1, args->stride);
}

void kvc_trace_window_moments(struct kvc_trace *trace, const struct kvc_window_moments *args) {
    const struct kvc_probabilities *p = args->probabilities;
    put_scores(trace, FLOATS("window_moments", "scores"), p->lists, args->scores, p->heads / p->lists->kv_heads,
               args->stride);
    put_words(trace, FLOATS("window_moments", "totals"), args->totals, p->heads, 2);
}

void kvc_trace_accumulate(struct kvc_trace *trace, const struct kvc_accumulate *args) {
    put_columns(trace, "accumulate", args->probabilities->lists, args->column, 2);
}

void kvc_trace_ring_write(struct kvc_trace *trace, const struct kvc_ring_write *args) {
    put_columns(trace, "ring_write", args->probabilities->lists, args->first,
                args->kind == KVC_ROW_COUNTS ? 2 * args->ring + 1 : args->ring);
}

/* Operations whose only output is scores, per list. */
#define SCORES(name)                                                                                                   \
    void kvc_trace_##name(struct kvc_trace *trace, const struct kvc_##name *args) {                                    \
        put_scores(trace, FLOATS(#name, "scores"), args->lists, args->scores, 1, args->stride);                        \
    }
SCORES(ring_fuse)
SCORES(column_scores)
SCORES(entry_scores)
SCORES(lag_scores)
SCORES(norm_shares)
SCORES(weigh_scores)
SCORES(mix_redundancy)
SCORES(expected_scores)
SCORES(series_scores)
SCORES(leverage_scores)
SCORES(standard_mix)

void kvc_trace_scores_column(struct kvc_trace *trace, const struct kvc_scores_column *args) {
    put_columns(trace, "scores_column", args->lists, args->column, 1);
}

void kvc_trace_chunk_mass(struct kvc_trace *trace, const struct kvc_chunk_mass *args) {
    put_columns(trace, "chunk_mass", args->lists, args->column, 1);
    put_scores(trace, FLOATS("chunk_mass", "scores"), args->lists, args->scores, 1, args->stride);
}

void kvc_trace_output_norms(struct kvc_trace *trace, const struct kvc_output_norms *args) {
    put_scores(trace, FLOATS("output_norms", "norms"), args->lists, args->norms, args->heads / args->lists->kv_heads,
               args->stride);
}

void kvc_trace_mean_weights(struct kvc_trace *trace, const struct kvc_mean_weights *args) {
    put_scores(trace, FLOATS("mean_weights", "weights"), args->lists, args->weights,
               args->heads / args->lists->kv_heads, args->stride);
}

void kvc_trace_merge_similar(struct kvc_trace *trace, const struct kvc_merge_similar *args) {
    put_scores(trace, WORDS("merge_similar", "targets"), args->lists, args->targets, 1, args->stride);
    put_scores(trace, FLOATS("merge_similar", "weights"), args->lists, args->weights, 1, args->stride);
}

void kvc_trace_merge_following(struct kvc_trace *trace, const struct kvc_merge_following *args) {
    put_scores(trace, WORDS("merge_following", "targets"), args->lists, args->targets, 1, args->stride);
    put_scores(trace, FLOATS("merge_following", "weights"), args->lists, args->weights, 1, args->stride);
}

void kvc_trace_merge_values(struct kvc_trace *trace, const struct kvc_merge_values *args) {
    put_entries(trace, "merge_values", args->lists, NULL);
}

void kvc_trace_prune_channels(struct kvc_trace *trace, const struct kvc_prune_channels *args) {
    put_entries(trace, "prune_channels", args->lists, NULL);
}

void kvc_trace_query_moments(struct kvc_trace *trace, const struct kvc_query_moments *args) {
    put_words(trace, FLOATS("query_moments", "sums"), args->sums, args->heads,
              (args->head_size + (size_t)1) * args->head_size);
}

/* ---- keep ---- */

void kvc_trace_pool(struct kvc_trace *trace, const struct kvc_pool *args) {
    put_scores(trace, FLOATS("pool", "out"), args->lists, args->out, args->rows, args->stride);
}

void kvc_trace_group_scores(struct kvc_trace *trace, const struct kvc_group_scores *args) {
    put_scores(trace, FLOATS("group_scores", "out"), args->lists, args->out, 1, args->stride);
}

void kvc_trace_keep(struct kvc_trace *trace, const struct kvc_keep_rules *args) {
    put_list(trace, "keep", "kept", args->lists->kv_heads, args->kept);
}

/* A fused operation has the name of its last part, so that its line can be compared with that of a backend that runs
 * the parts one after another. */
void kvc_trace_keep_ring(struct kvc_trace *trace, const struct kvc_keep_ring *args) {
    put_list(trace, "keep", "kept", args->lists->kv_heads, args->kept);
}

void kvc_trace_shares(struct kvc_trace *trace, const struct kvc_shares *args) {
    put_words(trace, WORDS("shares", "shares"), args->shares, 1, args->lists->kv_heads);
}

/* ---- reading a part of a cache ---- */

void kvc_trace_view_append(struct kvc_trace *trace, const struct kvc_view_append *args) {
    put_list(trace, "view_append", "view", args->lists->kv_heads, args->view);
}

void kvc_trace_view_evict(struct kvc_trace *trace, const struct kvc_view_evict *args) {
    put_list(trace, "view_evict", "view", args->lists->kv_heads, args->view);
}

/* Returns how many entries each head has in the view or, if there is no view, in the lists. */
static const uint32_t *fetch_places(struct kvc_trace *trace, const struct kvc_lists *lists,
                                    const struct kvc_read_list *view) {
    return kvc_trace_fetch(trace, all_of(view ? view->count : lists->count), lists->kv_heads * sizeof(uint32_t));
}

/* Writes low or high [H_kv, d, stride]: the values of each head's pages, by channel. */
static void put_pages(struct kvc_trace *trace, const char *output, const struct kvc_lists *lists,
                      const struct kvc_pages *pages, struct kvc_buffer *buffer, const uint32_t *places) {
    const enum kvc_trace_kind kind = pages->type == KVC_F16 ? KVC_TRACE_HALVES : KVC_TRACE_FLOATS;
    const uint32_t d = lists->format.head_size;
    const size_t size = kvc_trace_size(kind), all = (size_t)d * pages->stride * size;
    for (uint32_t h = 0; buffer && h < lists->kv_heads; h++) {
        const size_t kept = trace->held_count, used = (places[h] + pages->page - 1) / pages->page * size;
        unsigned char *values = kvc_trace_fetch(trace, (struct kvc_span){buffer, h * all}, all);
        for (uint32_t c = 0; values && c < d; c++)
            memmove(values + c * used, values + (size_t)c * pages->stride * size, used);
        if (values)
            kvc_trace_line(trace, (struct kvc_trace_name){"pages_update", output, kind}, trace->list,
                           first_of(trace, lists->kv_heads) + h, values, d * used / size);
        kvc_trace_release(trace, kept);
    }
}

void kvc_trace_pages_update(struct kvc_trace *trace, const struct kvc_pages_update *args) {
    const uint32_t *places = fetch_places(trace, args->lists, args->view);
    if (places) {
        put_pages(trace, "low", args->lists, args->pages, args->pages->low, places);
        put_pages(trace, "high", args->lists, args->pages, args->pages->high, places);
    }
}

/* Writes the scores of the heads that were not skipped, by entry or by page, and the weights of their query heads. */
void kvc_trace_select_scores(struct kvc_trace *trace, const struct kvc_select_scores *args) {
    const bool paged = args->kind == KVC_SCORE_PAGE_CHANNELS || args->kind == KVC_SCORE_PAGE_BOUND;
    const uint32_t lists = args->lists->kv_heads, group = args->heads / lists;
    const uint32_t *places = fetch_places(trace, args->lists, args->view);
    for (uint32_t h = 0; places && h < lists; h++) {
        const size_t kept = trace->held_count, row = args->stride * sizeof(float);
        const uint32_t units = paged ? (places[h] + args->pages->page - 1) / args->pages->page : places[h];
        if (places[h] <= args->budget)
            continue;
        const float *scores = kvc_trace_fetch(trace, span_at(args->scores, h * row), units * sizeof *scores);
        if (scores)
            kvc_trace_line(trace, FLOATS("select_scores", "scores"), trace->list, first_of(trace, lists) + h, scores,
                           units);
        for (uint32_t g = h * group; args->probabilities.buffer && g < (h + 1) * group; g++) {
            const float *p = kvc_trace_fetch(trace, span_at(args->probabilities, g * row), units * sizeof *p);
            if (p)
                kvc_trace_line(trace, FLOATS("select_scores", "probabilities"), trace->list,
                               first_of(trace, args->heads) + g, p, units);
            kvc_trace_release(trace, kept);
        }
        kvc_trace_release(trace, kept);
    }
}

void kvc_trace_select_reads(struct kvc_trace *trace, const struct kvc_select_reads *args) {
    put_list(trace, "select_reads", "reads", args->lists->kv_heads, args->reads);
    put_words(trace, FLOATS("select_reads", "alpha"), args->alpha, 1, args->heads);
}

void kvc_trace_select_scores_reads(struct kvc_trace *trace, const struct kvc_select_scores_reads *args) {
    kvc_trace_select_reads(trace, args->reads);
}

void kvc_trace_cut_reads(struct kvc_trace *trace, const struct kvc_cut_reads *args) {
    put_list(trace, "cut_reads", "reads", args->lists->kv_heads, args->reads);
}

void kvc_trace_value_sums(struct kvc_trace *trace, const struct kvc_value_sums *args) {
    put_words(trace, FLOATS("value_sums", "sums"), args->sums, args->lists->kv_heads, args->lists->format.head_size);
}

void kvc_trace_mix_mean(struct kvc_trace *trace, const struct kvc_mix_mean *args) {
    put_words(trace, FLOATS("mix_mean", "out"), args->out, args->heads, args->head_size);
}

/* ---- gated delta nets ---- */

void kvc_trace_convolve(struct kvc_trace *trace, const struct kvc_convolve *args) {
    for (size_t i = 0; i < args->segment_count; i++)
        put_rows(trace, FLOATS("convolve", "y"),
                 span_at(args->y, (size_t)args->segments[i].row * args->channels * sizeof(float)),
                 args->segments[i].row, args->segments[i].rows, 1, args->channels);
}

void kvc_trace_delta_rule(struct kvc_trace *trace, const struct kvc_delta_rule *args) {
    const size_t width = (size_t)args->heads * args->value_size * sizeof(float);
    for (size_t i = 0; i < args->segment_count; i++)
        put_rows(trace, FLOATS("delta_rule", "out"), span_at(args->out, args->segments[i].row * width),
                 args->segments[i].row, args->segments[i].rows, args->heads, args->value_size);
}
