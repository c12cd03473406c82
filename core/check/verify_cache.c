/* verify_cache.c - test cases of the operations on lists: append, drop, identity, evict, keep_keys, rotate_keys,
 * relayout, entries, attention. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

static struct kvc_lists_shape draw_shape(struct kvc_verify *v, bool ordered) {
    uint32_t columns = kvc_verify_range(v, 0, 3);
    return kvc_verify_shape(v, columns, 5, ordered);
}

/* Damages the first channel of the newest stored row of each segment: the key becomes 1, or 2 if it was 1. */
void kvc_inject_append(struct kvc_device *device, const struct kvc_append *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    const struct kvc_lists *lists = args->segments[0].lists;
    struct kvc_append damaged = *args;
    const size_t width = (size_t)lists->kv_heads * lists->format.head_size;
    struct kvc_buffer *copy = NULL;
    size_t rows = 0;
    for (size_t i = 0; i < args->segment_count; i++)
        if (args->segments[i].row + args->segments[i].rows > rows)
            rows = args->segments[i].row + args->segments[i].rows;
    const size_t bytes = rows * width * sizeof(float);
    if (bytes && device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &copy, NULL) == KVC_OK) {
        device->ops->copy(device, kvc_all_of(copy), args->k, bytes);
        for (size_t i = 0; i < args->segment_count; i++) {
            const size_t newest = (args->segments[i].row + args->segments[i].stored - 1) * width;
            const bool one =
                args->segments[i].stored && kvc_word_at(device, kvc_all_of(copy), newest) == kvc_bits(1.0f);
            if (args->segments[i].stored)
                kvc_put_word(device, kvc_all_of(copy), newest, kvc_bits(one ? 2.0f : 1.0f));
        }
        damaged.k = kvc_all_of(copy);
    }
    device->ops->append(device, &damaged);
    device->ops->sync(device, NULL);
    device->ops->buffer_free(device, copy);
    kvc_inject_close(device, inject);
}

KVC_CASE(append, 8) {
    struct kvc_lists_shape shape = draw_shape(v, kvc_verify_range(v, 0, 2) > 0);
    struct kvc_twin_lists lists[3];
    struct kvc_segment segments[3][2];
    uint32_t count = kvc_verify_range(v, 1, 3), rows = 0, made = 0;
    struct kvc_twin k, values, positions;
    uint64_t saturated[2];
    int32_t *position;
    memset(lists, 0, sizeof lists);
    for (; made < count && v->status == KVC_OK; made++) {
        uint32_t capacity = UINT32_MAX, stored;
        shape.types = kvc_verify_entry_types(v);
        kvc_verify_lists(v, &shape, &lists[made]);
        for (uint32_t h = 0; v->status == KVC_OK && h < shape.kv_heads; h++)
            if (lists[made].slots[h] - lists[made].count[h] < capacity)
                capacity = lists[made].slots[h] - lists[made].count[h];
        stored = kvc_verify_range(v, 0, kvc_min_u32(capacity, 30));
        for (int side = v->first; side < 2; side++) {
            memset(&segments[made][side], 0, sizeof segments[made][side]);
            segments[made][side].lists = &lists[made].lists[side];
            segments[made][side].row = rows;
            segments[made][side].stored = stored;
            segments[made][side].rows = stored + made; /* the stored rows, followed by `made` probe rows */
        }
        rows += stored + made;
    }
    kvc_verify_describe(v, ", segments %u, rows %u", count, rows);
    position = kvc_verify_alloc(v, (rows + 1) * sizeof *position);
    for (uint32_t i = 0; position && i < rows; i++)
        position[i] = (int32_t)(5000 + i);
    positions = kvc_verify_twin(v, (rows + 1) * sizeof *position, position);
    k = kvc_verify_twin_values(v, (size_t)rows * shape.kv_heads * shape.head_size + 1, kvc_verify_flavour(v));
    values = kvc_verify_twin_values(v, (size_t)rows * shape.kv_heads * shape.head_size + 1, kvc_verify_flavour(v));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_segment here[3];
        for (uint32_t i = 0; i < count; i++)
            here[i] = segments[i][side];
        v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        saturated[side] = v->device[side]->saturated;
        v->device[side]->ops->append(v->device[side],
                                     &(struct kvc_append){.segments = here,
                                                          .segment_count = count,
                                                          .k = kvc_verify_span(k, side),
                                                          .v = kvc_verify_span(values, side),
                                                          .positions = kvc_verify_span(positions, side)});
        v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        saturated[side] = v->device[side]->saturated - saturated[side];
    }
    if (v->status == KVC_OK) {
        for (uint32_t i = 0; i < count; i++)
            kvc_verify_compare_lists(v, &lists[i]);
        kvc_verify_compare_number(v, saturated, "saturated");
    }
    for (uint32_t i = 0; i < made; i++)
        kvc_verify_lists_free(v, &lists[i]);
}
KVC_FURTHER_CASES(append, packed, 40)

KVC_INJECT(drop, kvc_drop, kvc_take_one(device, args->lists))
KVC_CASE(drop, 2) {
    struct kvc_lists_shape shape = draw_shape(v, kvc_verify_range(v, 0, 1));
    struct kvc_twin_lists lists;
    uint32_t rows = kvc_verify_range(v, 0, 40);
    kvc_verify_lists(v, &shape, &lists);
    kvc_verify_describe(v, ", rows %u", rows, 0);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->drop(v->device[side], &(struct kvc_drop){.lists = &lists.lists[side], .rows = rows});
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(identity, kvc_identity, kvc_shift_position(device, args->lists))
KVC_CASE(identity, 2) {
    struct kvc_lists_shape shape = draw_shape(v, true);
    struct kvc_twin_lists lists;
    kvc_verify_lists(v, &shape, &lists);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->identity(v->device[side], &(struct kvc_identity){.lists = &lists.lists[side]});
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(evict, kvc_evict, if (args->lists->order) kvc_swap_slots(device, args->lists))
KVC_CASE(evict, 6) {
    struct kvc_lists_shape shape = draw_shape(v, true);
    struct kvc_twin_lists lists;
    struct kvc_read_list kept[2];
    kvc_verify_lists(v, &shape, &lists);
    kvc_verify_read_lists(v, &lists, kept);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->evict(v->device[side],
                                    &(struct kvc_evict){.lists = &lists.lists[side], .kept = &kept[side]});
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}

/* Tests keep_keys, or rotate_keys with random columns. */
static void keys_case(struct kvc_verify *v, bool rotate) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, 4, kvc_verify_range(v, 0, 2) > 0);
    const uint32_t d = shape.head_size, first = kvc_verify_range(v, 0, 2);
    const uint32_t half = kvc_verify_range(v, d > 1 ? 1 : 0, d / 2);
    const uint32_t width = v->further == KVC_FURTHER_width ? kvc_verify_range(v, 1, kvc_min_u32(d, 3)) : d;
    const bool interleaved = kvc_verify_range(v, 0, 1);
    struct kvc_twin_lists lists;
    struct kvc_twin k, cosine, sine;
    uint32_t rows = UINT32_MAX;
    shape.columns = first + d + kvc_verify_range(v, 0, 1);
    shape.types = kvc_verify_entry_types(v);
    kvc_verify_lists(v, &shape, &lists);
    for (uint32_t h = 0; v->status == KVC_OK && h < shape.kv_heads; h++)
        rows = kvc_min_u32(lists.count[h], rows);
    rows = kvc_verify_range(v, v->small && rows ? 1 : 0, kvc_min_u32(rows, 40));
    kvc_verify_describe(v, ", first %u, rows %u", first, rows);
    if (width != d)
        kvc_verify_describe(v, ", width %u of %u", width, d);
    kvc_verify_describe(v, ", half %u, interleaved %u", half, interleaved);
    k = kvc_verify_twin_values(v, (size_t)rows * shape.kv_heads * d + 1, kvc_verify_flavour(v));
    cosine = kvc_verify_twin_values(v, (size_t)lists.most * half + 1, KVC_PLAIN);
    sine = kvc_verify_twin_values(v, (size_t)lists.most * half + 1, KVC_PLAIN);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        const struct kvc_ops *ops = v->device[side]->ops;
        if (rotate)
            ops->rotate_keys(v->device[side], &(struct kvc_rotate_keys){.lists = &lists.lists[side],
                                                                        .first = first,
                                                                        .cosine = kvc_verify_span(cosine, side),
                                                                        .sine = kvc_verify_span(sine, side),
                                                                        .rotary = 2 * half,
                                                                        .interleaved = interleaved});
        else
            ops->keep_keys(v->device[side], &(struct kvc_keep_keys){.lists = &lists.lists[side],
                                                                    .first = first,
                                                                    .k = kvc_verify_span(k, side),
                                                                    .rows = rows,
                                                                    .width = width});
        v->status = ops->sync(v->device[side], &v->error);
    }
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(keep_keys, kvc_keep_keys, if (args->rows) kvc_flip_state(device, args->lists, args->first))
KVC_CASE(keep_keys, 4) { keys_case(v, false); }
KVC_FURTHER_CASES(keep_keys, width, 4)
/* Changes the first channel of the newest entry's unrotated key. */
void kvc_inject_rotate_keys(struct kvc_device *device, const struct kvc_rotate_keys *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    struct kvc_newest newest;
    const bool any = kvc_find_newest(device, args->lists, &newest);
    const size_t at = args->lists->columns * newest.base + args->first * (size_t)newest.slots + newest.slot;
    const uint32_t word = any ? kvc_word_at(device, kvc_all_of(args->lists->state), at) : 0;
    if (any)
        kvc_put_word(device, kvc_all_of(args->lists->state), at, word ^ 0x40000000u);
    device->ops->rotate_keys(device, args);
    if (any)
        kvc_put_word(device, kvc_all_of(args->lists->state), at, word);
    kvc_inject_close(device, inject);
}

KVC_CASE(rotate_keys, 8) { keys_case(v, true); }
KVC_FURTHER_CASES(rotate_keys, packed, 20)

/* Creates dst: lists like src, but with other numbers of slots per head, for relayout to fill. Allocates the buffers of
 * dst, and the blocks that dst needs in addition to those of src. */
static bool make_destination(struct kvc_verify *v, const struct kvc_twin_lists *src, bool ordered,
                             struct kvc_twin_lists *dst) {
    const struct kvc_lists *from = &src->lists[1];
    uint32_t heads = from->kv_heads, all = 0;
    uint32_t *base = kvc_verify_alloc(v, (heads + 1) * sizeof *base);
    struct kvc_twin bases, counts, blocks, order = {{NULL, NULL}}, position = {{NULL, NULL}}, state = {{NULL, NULL}};
    if (!base)
        return false;
    *dst = *src;
    for (uint32_t h = 0; h < heads; h++) {
        uint32_t least = (uint32_t)kvc_divide_up(src->count[h], KVC_TILE);
        base[h] = all;
        all += KVC_TILE * kvc_verify_range(v, least ? least : 1, least + 3);
    }
    base[heads] = dst->all_slots = all;
    bases = kvc_verify_twin(v, (heads + 1) * sizeof *base, base);
    counts = kvc_verify_output(v, heads * sizeof(uint32_t));
    blocks = kvc_verify_twin(v, kvc_first_block(all, heads) * sizeof(uint32_t), NULL);
    if (ordered) {
        order = kvc_verify_output(v, all * sizeof(uint32_t));
        position = kvc_verify_output(v, all * sizeof(int32_t));
    }
    if (from->columns)
        state = kvc_verify_output(v, (size_t)from->columns * all * sizeof(float));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        const struct kvc_ops *ops = v->device[side]->ops;
        struct kvc_lists *lists = &dst->lists[side];
        lists->host_base = base;
        lists->base = bases.buffer[side];
        lists->count = counts.buffer[side];
        lists->blocks = blocks.buffer[side];
        lists->order = order.buffer[side];
        lists->position = position.buffer[side];
        lists->state = state.buffer[side];
        for (uint32_t h = 0; h < heads; h++) {
            uint32_t had = src->slots[h] / KVC_BLOCK, has = (base[h + 1] - base[h]) / KVC_BLOCK, number;
            for (uint32_t i = had; i < has && v->status == KVC_OK; i++) {
                v->status = ops->arena_take(v->device[side], lists->arena, 1, &number, &v->error);
                ops->upload(v->device[side], (struct kvc_span){lists->blocks, (kvc_first_block(base[h], h) + i) * 4},
                            &number, 4);
            }
        }
    }
    return v->status == KVC_OK;
}

KVC_INJECT(relayout, kvc_relayout, if (args->dst->order) kvc_swap_slots(device, args->dst);
           else kvc_take_one(device, args->dst))
KVC_CASE(relayout, 6) {
    struct kvc_lists_shape shape = draw_shape(v, kvc_verify_range(v, 0, 3) > 0);
    struct kvc_twin_lists src, dst;
    kvc_verify_lists(v, &shape, &src);
    if (v->status == KVC_OK && make_destination(v, &src, shape.ordered || kvc_verify_range(v, 0, 1), &dst)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->relayout(v->device[side],
                                           &(struct kvc_relayout){.dst = &dst.lists[side], .src = &src.lists[side]});
        kvc_verify_compare_lists(v, &dst);
    }
    kvc_verify_lists_free(v, &src);
}
KVC_FURTHER_CASES(relayout, packed, 20)

KVC_INJECT(entries, kvc_entries,
           if (kvc_word_at(device, kvc_all_of(args->lists->count), args->head))
               kvc_flip(device, args->keys.buffer ? args->keys : args->values, 0))
KVC_CASE(entries, 2) {
    struct kvc_lists_shape shape = draw_shape(v, kvc_verify_range(v, 0, 1));
    struct kvc_twin_lists lists;
    kvc_verify_lists(v, &shape, &lists);
    if (v->status == KVC_OK)
        kvc_verify_compare_lists(v, &lists);
    kvc_verify_lists_free(v, &lists);
}
KVC_FURTHER_CASES(entries, packed, 20)

/* ---- attention ---- */

#define MOST_ROWS 210

struct attention_case {
    struct kvc_twin_lists lists[3];
    struct kvc_read_list reads[3][2];
    struct kvc_segment segments[2][3];
    uint64_t bytes_read[2][3];
    uint32_t segment_count, rows;
    int32_t *position;
    uint32_t *causal_offset;
};

/* Adds the rows of one session: a decode step, a chunk of a prompt, rows that see fewer or more entries, or a read
 * list. */
static void add_segment(struct kvc_verify *v, struct attention_case *c, struct kvc_lists_shape *shape) {
    uint32_t i = c->segment_count++, rows = kvc_verify_range(v, 0, 2) ? kvc_verify_range(v, 1, 5) : 1, kind;
    bool reads = kvc_verify_range(v, 0, 3) == 0;
    if (kvc_verify_range(v, 0, 9) == 0)
        rows = kvc_verify_range(v, 1, v->small ? 9 : 70);
    shape->types = kvc_verify_entry_types(v);
    shape->ordered = kvc_verify_range(v, 0, 2) > 0;
    kvc_verify_lists(v, shape, &c->lists[i]);
    if (reads && v->status == KVC_OK) {
        kvc_verify_read_lists(v, &c->lists[i], c->reads[i]);
        rows = 1;
    }
    kind = kvc_verify_range(v, 0, 3);
    for (uint32_t row = 0; row < rows; row++) {
        c->causal_offset[c->rows + row] = kind < 2 ? rows - 1 - row : kvc_verify_range(v, 0, kind == 2 ? 3 : 600);
        c->position[c->rows + row] =
            c->lists[i].now - (int32_t)(kind < 2 ? rows - 1 - row : kvc_verify_range(v, 0, 20));
    }
    for (int side = v->first; side < 2; side++)
        c->segments[side][i] = (struct kvc_segment){
            &c->lists[i].lists[side], reads ? &c->reads[i][side] : NULL, c->rows, rows, rows, &c->bytes_read[side][i]};
    c->rows += rows;
}

KVC_INJECT(attention, kvc_attention, if (args->segment_count) kvc_flip(device, args->out, 0))
KVC_CASE(attention, 50) {
    struct attention_case c;
    struct kvc_lists_shape shape = draw_shape(v, false);
    uint32_t count = kvc_verify_range(v, 0, 2) ? 1 : kvc_verify_range(v, 1, 3), heads, window = 0;
    struct kvc_twin q, out, maximum = {{NULL, NULL}}, sum = {{NULL, NULL}}, sinks = sum, positions, causal_offset;
    bool wants = kvc_verify_range(v, 0, 1);
    struct kvc_scoring scoring;
    memset(&c, 0, sizeof c);
    heads = shape.kv_heads * kvc_verify_group(v);
    c.position = kvc_verify_alloc(v, MOST_ROWS * sizeof *c.position);
    c.causal_offset = kvc_verify_alloc(v, MOST_ROWS * sizeof *c.causal_offset);
    for (uint32_t i = 0; i < count && v->status == KVC_OK; i++)
        add_segment(v, &c, &shape);
    if (kvc_verify_range(v, 0, 2) == 0)
        window = kvc_verify_range(v, 1, (uint32_t)c.lists[0].now + 3);
    kvc_verify_describe(v, ", heads %u, rows %u", heads, c.rows);
    kvc_verify_describe(v, ", segments %u, window %u", c.segment_count, window);
    q = kvc_verify_twin_values(v, (size_t)c.rows * heads * shape.head_size, kvc_verify_flavour(v));
    out = kvc_verify_output(v, (size_t)c.rows * heads * shape.head_size * sizeof(float));
    scoring = kvc_verify_scoring(v);
    positions = kvc_verify_twin(v, MOST_ROWS * sizeof *c.position, c.position);
    causal_offset = kvc_verify_twin(v, MOST_ROWS * sizeof *c.causal_offset, c.causal_offset);
    if (wants) {
        maximum = kvc_verify_output(v, (size_t)c.rows * heads * sizeof(float));
        sum = kvc_verify_output(v, (size_t)c.rows * heads * sizeof(float));
    }
    if (v->further == KVC_FURTHER_sinks)
        sinks = kvc_verify_sinks(v, heads);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_attention a = {.segments = c.segments[side],
                                  .segment_count = c.segment_count,
                                  .heads = heads,
                                  .kv_heads = shape.kv_heads,
                                  .head_size = shape.head_size,
                                  .window = window,
                                  .q = kvc_verify_span(q, side),
                                  .out = kvc_verify_span(out, side),
                                  .maximum = kvc_verify_span(maximum, side),
                                  .sum = kvc_verify_span(sum, side),
                                  .positions = kvc_verify_span(positions, side),
                                  .causal_offset = kvc_verify_span(causal_offset, side),
                                  .scoring = scoring,
                                  .sinks = kvc_verify_span(sinks, side)};
        v->device[side]->ops->attention(v->device[side], &a);
        v->status = v->device[side]->ops->sync(v->device[side], &v->error);
    }
    if (v->status == KVC_OK) {
        kvc_verify_compare(v, out, 0, (size_t)c.rows * heads * shape.head_size, "out");
        if (wants) {
            kvc_verify_compare(v, maximum, 0, (size_t)c.rows * heads, "M");
            kvc_verify_compare(v, sum, 0, (size_t)c.rows * heads, "L");
        }
        for (uint32_t i = 0; i < c.segment_count; i++) {
            const uint64_t bytes[2] = {c.bytes_read[0][i], c.bytes_read[1][i]};
            kvc_verify_compare_number(v, bytes, "bytes_read");
        }
    }
    for (uint32_t i = 0; i < c.segment_count; i++)
        kvc_verify_lists_free(v, &c.lists[i]);
}
KVC_FURTHER_CASES(attention, scoring, 20)
KVC_FURTHER_CASES(attention, sinks, 20)
KVC_FURTHER_CASES(attention, integers, 40)
KVC_FURTHER_CASES(attention, packed, 100)
