/* verify_lists.c - creates synthetic cache lists with the same contents on both devices, and compares them. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "core/check/verify.h"
#include "core/base/assert.h"

struct kvc_lists_shape kvc_verify_shape(struct kvc_verify *v, uint32_t columns, uint32_t most_blocks, bool ordered) {
    static const uint32_t head_sizes[] = {8, 64, 80, 96, 128, 256, 8, 64, 80, 96, 128, 256, 2, 20, 33};
    static const uint32_t small_heads[] = {2, 8, 20, 33};
    struct kvc_lists_shape shape;
    char types[KVC_ENTRY_TYPES_NAME];
    shape.types = kvc_verify_entry_types(v);
    shape.kv_heads = kvc_verify_range(v, 1, v->small ? 2 : 3);
    shape.head_size = v->small ? kvc_verify_pick(v, small_heads) : kvc_verify_pick(v, head_sizes);
    shape.columns = columns;
    shape.most_blocks = kvc_verify_range(v, 1, v->small && most_blocks > 2 ? 2 : most_blocks);
    shape.ordered = ordered;
    shape.flavour = kvc_verify_flavour(v);
    snprintf(v->shape, sizeof v->shape, "%s, kv_heads %u, d %u%s", kvc_entry_types_name(shape.types, types),
             (unsigned)shape.kv_heads, (unsigned)shape.head_size, ordered ? ", ordered" : "");
    return shape;
}

void kvc_verify_describe(struct kvc_verify *v, const char *format, unsigned a, unsigned b) {
    size_t length = strlen(v->shape);
    snprintf(v->shape + length, sizeof v->shape - length, format, a, b);
}

uint32_t kvc_verify_group(struct kvc_verify *v) {
    static const uint32_t groups[] = {1, 4, 7, 8};
    return v->small ? kvc_verify_range(v, 1, 3) : kvc_verify_pick(v, groups);
}

struct kvc_scoring kvc_verify_scoring(struct kvc_verify *v) {
    static const float scales[] = {0.0f, 0.0721687824f, 0.0625f, 0.3f}, caps[] = {50.0f, 0.0f, 3.0f, 30.0f, 0.75f};
    struct kvc_scoring scoring = {.scale = 0.0f};
    scoring.integers =
        v->further == KVC_FURTHER_integers || (v->further == KVC_FURTHER_packed && kvc_verify_range(v, 0, 1));
    if (v->further) {
        scoring.scale = kvc_verify_pick(v, scales);
        scoring.cap = kvc_verify_pick(v, caps);
    }
    return scoring;
}

struct kvc_twin kvc_verify_sinks(struct kvc_verify *v, uint32_t heads) {
    static const float factors[] = {1.0f, 1.0f, 8.0f, 60.0f, 200.0f, 1e30f};
    const enum kvc_flavour flavour = kvc_verify_range(v, 0, 3) ? KVC_PLAIN : kvc_verify_flavour(v);
    float *values = kvc_verify_values(v, heads, flavour);
    for (uint32_t h = 0; values && h < heads; h++)
        values[h] = values[h] * kvc_verify_pick(v, factors);
    return kvc_verify_twin(v, heads * sizeof(float), values);
}

struct kvc_entry_types kvc_verify_entry_types(struct kvc_verify *v) {
#define TYPE(a, NAME, ...) KVC_##NAME,
    static const enum kvc_type few[] = {KVC_F32, KVC_F16, KVC_Q8_0}, all[] = {KVC_ENTRY_TYPES(TYPE, )};
    if (v->further == KVC_FURTHER_integers && kvc_verify_range(v, 0, 4))
        return kvc_entry_types(KVC_Q8_0);
    if (v->further != KVC_FURTHER_packed)
        return kvc_entry_types(kvc_verify_pick(v, few));
    struct kvc_entry_types types;
    types.key = kvc_verify_pick(v, all);
    types.value = kvc_verify_pick(v, all);
    return kvc_verify_range(v, 0, 1) ? types : kvc_entry_types(types.key);
}

/* The contents of the lists on the host, before they are uploaded. */
struct plan {
    uint32_t *base, *order;
    int32_t *position;
    float *state;
};

/* Returns how many slots of a head get random keys and values. If `small` is true, these are one more than the head's
 * entries, otherwise all slots. The other slots are the last ones in the order list. */
static uint32_t filled(const struct kvc_verify *v, const struct kvc_twin_lists *lists, uint32_t h) {
    const uint32_t few = lists->count[h] + 1;
    return v->small && few < lists->slots[h] ? few : lists->slots[h];
}

/* Fills order with 0 .. n-1 in random order. */
static void scramble(struct kvc_verify *v, uint32_t *order, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = kvc_verify_range(v, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
}

#define BLOCKS_IN_TILE (KVC_TILE / KVC_BLOCK)

/* Draws a number of entries: close to a multiple of the tile size, 0, 1, or any number. */
static uint32_t draw_count(struct kvc_verify *v, uint32_t slots) {
    static const uint32_t edges[] = {0,   1,   2,   31,  32,  33,  63,  65,  128, 255,
                                     256, 257, 258, 511, 512, 513, 767, 768, 1024};
    /* few entries, because kernel interpreters are slow */
    static const uint32_t few[] = {4, 8, 1, 7, 5, 6, 3, 2, 33, 4, 9, 1, 5, 0, 3, 2};
    if (v->small && (slots == KVC_TILE || kvc_verify_range(v, 0, 31)))
        return kvc_verify_pick(v, few);
    if (v->small)
        return KVC_TILE + kvc_verify_range(v, 1, 2);
    uint32_t count = kvc_verify_range(v, 0, 3) ? kvc_verify_pick(v, edges) : kvc_verify_range(v, 0, slots);
    return count > slots ? kvc_verify_range(v, slots - 3, slots) : count;
}

static bool make_plan(struct kvc_verify *v, const struct kvc_lists_shape *shape, struct kvc_twin_lists *out,
                      struct plan *plan) {
    uint32_t heads = shape->kv_heads, all = 0;
    out->slots = kvc_verify_alloc(v, heads * sizeof *out->slots);
    out->count = kvc_verify_alloc(v, heads * sizeof *out->count);
    plan->base = kvc_verify_alloc(v, (heads + 1) * sizeof *plan->base);
    if (!out->slots || !out->count || !plan->base)
        return false;
    out->most = 0;
    for (uint32_t h = 0; h < heads; h++) {
        out->slots[h] = KVC_TILE * kvc_verify_range(v, 1, shape->most_blocks);
        out->count[h] = draw_count(v, out->slots[h]);
        out->most = kvc_max_u32(out->count[h], out->most);
        plan->base[h] = all;
        all += out->slots[h];
    }
    plan->base[heads] = out->all_slots = all;
    plan->order = kvc_verify_alloc(v, all * sizeof *plan->order);
    plan->position = kvc_verify_alloc(v, all * sizeof *plan->position);
    plan->state = kvc_verify_values(v, (size_t)all * shape->columns, KVC_PLAIN);
    if (!plan->order || !plan->position || !plan->state)
        return false;
    out->now = (int32_t)out->most;
    for (uint32_t h = 0; h < heads; h++) {
        uint32_t *order = plan->order + plan->base[h];
        int32_t position = 0;
        scramble(v, order, filled(v, out, h));
        for (uint32_t i = filled(v, out, h); i < out->slots[h]; i++)
            order[i] = i;
        KVC_ASSERT(out->count[h] <= filled(v, out, h) && filled(v, out, h) <= out->slots[h]);
        for (uint32_t r = 0; r < out->count[h]; r++) { /* ascending, with gaps */
            position += (int32_t)(kvc_verify_range(v, 0, 3) ? 0 : kvc_verify_range(v, 0, 9));
            plan->position[plan->base[h] + order[r]] = position++;
        }
        out->now = position > out->now ? position : out->now;
    }
    return true;
}

/* Writes random keys and values to every slot of head h on one device, by appending to a list of this head alone. */
static void fill_head(struct kvc_verify *v, int side, const struct kvc_lists *lists, uint32_t h, uint32_t slots,
                      uint32_t rows, const float *k, const float *values, const int32_t *positions,
                      const uint32_t *blocks) {
    struct kvc_device *device = v->device[side];
    const struct kvc_ops *ops = device->ops;
    uint32_t host_base[2] = {0, slots};
    struct kvc_lists one = {.kv_heads = 1, .format = lists->format, .arena = lists->arena, .host_base = host_base};
    struct kvc_buffer *made[6] = {NULL};
    size_t row = (size_t)rows * lists->format.head_size * sizeof(float);
    const size_t bytes[6] = {sizeof host_base,      sizeof(uint32_t), slots / KVC_BLOCK * sizeof(uint32_t), row, row,
                             rows * sizeof(int32_t)};
    const void *contents[6] = {host_base, NULL, blocks + kvc_first_block(lists->host_base[h], h), k, values, positions};
    struct kvc_segment segment = {.lists = &one, .rows = rows, .stored = rows};
    KVC_ASSERT(rows <= slots && slots % KVC_TILE == 0);
    for (int i = 0; i < 6 && v->status == KVC_OK; i++) {
        v->status = ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes[i], &made[i], &v->error);
        if (v->status == KVC_OK && contents[i])
            ops->upload(device, (struct kvc_span){made[i], 0}, contents[i], bytes[i]);
    }
    one.base = made[0];
    one.count = made[1];
    one.blocks = made[2];
    if (v->status == KVC_OK)
        ops->append(device, &(struct kvc_append){.segments = &segment,
                                                 .segment_count = 1,
                                                 .k = (struct kvc_span){made[3], 0},
                                                 .v = (struct kvc_span){made[4], 0},
                                                 .positions = (struct kvc_span){made[5], 0}});
    for (int i = 0; i < 6; i++)
        ops->buffer_free(device, made[i]);
}

static void fill_entries(struct kvc_verify *v, const struct kvc_lists_shape *shape, struct kvc_twin_lists *out,
                         uint32_t *const blocks[2]) {
    for (uint32_t h = 0; h < shape->kv_heads && v->status == KVC_OK; h++) {
        const uint32_t rows = filled(v, out, h);
        size_t n = (size_t)rows * shape->head_size;
        float *k = kvc_verify_values(v, n, shape->flavour), *values = kvc_verify_values(v, n, shape->flavour);
        int32_t *positions = kvc_verify_alloc(v, rows * sizeof *positions);
        for (uint32_t i = 0; positions && i < rows; i++)
            positions[i] = (int32_t)i;
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            fill_head(v, side, &out->lists[side], h, out->slots[h], rows, k, values, positions, blocks[side]);
    }
}

/* Maps block i of the lists to one of the `blocks` allocated blocks, so that the blocks of a tile are not adjacent in
 * memory. shuffle [blocks / BLOCKS_IN_TILE] is a permutation. */
static uint32_t scattered(const uint32_t *shuffle, uint32_t blocks, uint32_t i) {
    const uint32_t member = (5 * i + 3) % BLOCKS_IN_TILE;
    return member * (blocks / BLOCKS_IN_TILE) + shuffle[i / BLOCKS_IN_TILE];
}

void kvc_verify_lists(struct kvc_verify *v, const struct kvc_lists_shape *shape, struct kvc_twin_lists *out) {
    struct kvc_entry_format format = kvc_entry_format(shape->types, shape->head_size);
    struct plan plan;
    struct kvc_twin base, count, blocks, order = {{NULL, NULL}}, position = {{NULL, NULL}}, state = {{NULL, NULL}};
    uint32_t *shuffle = NULL, *numbers[2];
    memset(out, 0, sizeof *out);
    if (!make_plan(v, shape, out, &plan))
        return;
    base = kvc_verify_twin(v, (shape->kv_heads + 1) * sizeof(uint32_t), plan.base);
    count = kvc_verify_twin(v, shape->kv_heads * sizeof(uint32_t), out->count);
    blocks = kvc_verify_twin(v, kvc_first_block(out->all_slots, shape->kv_heads) * sizeof(uint32_t), NULL);
    if (shape->ordered) {
        order = kvc_verify_twin(v, out->all_slots * sizeof(uint32_t), plan.order);
        position = kvc_verify_twin(v, out->all_slots * sizeof(int32_t), plan.position);
    } else {
        out->now = (int32_t)out->most;
    }
    if (shape->columns)
        state = kvc_verify_twin(v, (size_t)shape->columns * out->all_slots * sizeof(float), plan.state);
    shuffle = kvc_verify_alloc(v, out->all_slots / KVC_TILE * sizeof *shuffle);
    if (shuffle)
        scramble(v, shuffle, out->all_slots / KVC_TILE);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        struct kvc_lists *lists = &out->lists[side];
        const struct kvc_ops *ops = v->device[side]->ops;
        const uint32_t all = out->all_slots / KVC_BLOCK;
        uint32_t *taken = kvc_verify_alloc(v, all * sizeof *taken);
        const uint32_t named = kvc_first_block(out->all_slots, shape->kv_heads);
        *lists = (struct kvc_lists){shape->kv_heads,
                                    shape->columns,
                                    format,
                                    NULL,
                                    plan.base,
                                    base.buffer[side],
                                    count.buffer[side],
                                    blocks.buffer[side],
                                    order.buffer[side],
                                    position.buffer[side],
                                    state.buffer[side]};
        numbers[side] = kvc_verify_alloc(v, named * sizeof *numbers[side]);
        if (!taken || !numbers[side])
            return;
        v->status = ops->arena_create(v->device[side], &format, &lists->arena, &v->error);
        if (v->status == KVC_OK)
            v->status = ops->arena_take(v->device[side], lists->arena, all, taken, &v->error);
        for (uint32_t i = 0, h = 0; i < all; i++) {
            while (i >= plan.base[h + 1] / KVC_BLOCK)
                h++;
            KVC_ASSERT(h < shape->kv_heads && i + h < named);
            numbers[side][i + h] = taken[scattered(shuffle, all, i)]; /* all slots are in whole blocks */
        }
        if (v->status == KVC_OK)
            ops->upload(v->device[side], (struct kvc_span){lists->blocks, 0}, numbers[side],
                        named * sizeof *numbers[side]);
    }
    if (v->status == KVC_OK)
        fill_entries(v, shape, out, numbers);
}

void kvc_verify_lists_free(struct kvc_verify *v, struct kvc_twin_lists *lists) {
    for (int side = v->first; side < 2; side++)
        if (lists->lists[side].arena) {
            v->device[side]->ops->arena_free(v->device[side], lists->lists[side].arena);
            lists->lists[side].arena = NULL;
        }
}

void kvc_verify_read_lists(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_read_list out[2]) {
    uint32_t heads = lists->lists[1].kv_heads, stride = lists->most + kvc_verify_range(v, 1, 5);
    uint32_t *index = kvc_verify_alloc(v, (size_t)heads * stride * sizeof *index);
    uint32_t *count = kvc_verify_alloc(v, heads * sizeof *count);
    struct kvc_twin counts, indices;
    if (!index || !count)
        return;
    for (uint32_t h = 0; h < heads; h++) {
        uint32_t of = kvc_verify_range(v, 0, 4); /* about `of` quarters of the entries: from none to all */
        KVC_ASSERT(lists->count[h] < stride);
        for (uint32_t r = 0; r < lists->count[h]; r++)
            if (of == 4 || kvc_verify_range(v, 0, 3) < of)
                index[(size_t)h * stride + count[h]++] = r;
    }
    counts = kvc_verify_twin(v, heads * sizeof *count, count);
    indices = kvc_verify_twin(v, (size_t)heads * stride * sizeof *index, index);
    for (int side = v->first; side < 2; side++)
        out[side] = (struct kvc_read_list){counts.buffer[side], indices.buffer[side], stride};
}

/* Combines the same array of both lists into a twin. */
#define KVC_TWIN_OF(twin_lists, member)                                                                                \
    ((struct kvc_twin){{(twin_lists)->lists[0].member, (twin_lists)->lists[1].member}})

/* Returns positions and state columns of head h by index, as floats. */
static float *by_index(struct kvc_verify *v, const struct kvc_lists *lists, int side, uint32_t h, uint32_t count) {
    const struct kvc_ops *ops = v->device[side]->ops;
    uint32_t base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    float *out = kvc_verify_alloc(v, (size_t)count * (1 + lists->columns) * sizeof *out);
    uint32_t *order = kvc_verify_alloc(v, slots * sizeof *order);
    int32_t *position = kvc_verify_alloc(v, slots * sizeof *position);
    float *column = kvc_verify_alloc(v, slots * sizeof *column);
    if (!out || !order || !position || !column)
        return NULL;
    for (uint32_t s = 0; s < slots; s++) {
        order[s] = s;
        position[s] = (int32_t)s;
    }
    if (lists->order) {
        ops->download(v->device[side], order, (struct kvc_span){lists->order, base * sizeof *order}, slots * 4);
        ops->download(v->device[side], position, (struct kvc_span){lists->position, base * sizeof *order}, slots * 4);
    }
    for (uint32_t c = 0; c <= lists->columns; c++) {
        size_t at = ((size_t)lists->columns * base + (size_t)(c ? c - 1 : 0) * slots) * sizeof(float);
        if (c)
            ops->download(v->device[side], column, (struct kvc_span){lists->state, at}, slots * sizeof *column);
        for (uint32_t r = 0; r < count; r++) {
            uint32_t slot = order[r] < slots ? order[r] : 0;
            out[(size_t)c * count + r] = c ? column[slot] : (float)position[slot];
        }
    }
    return out;
}

void kvc_verify_compare_lists(struct kvc_verify *v, const struct kvc_twin_lists *lists) {
    const struct kvc_lists *one = &lists->lists[1];
    uint32_t heads = one->kv_heads, d = one->format.head_size, *counts;
    uint64_t before = v->row.differing;
    if (v->status != KVC_OK)
        return;
    kvc_verify_compare_words(v, KVC_TWIN_OF(lists, count), 0, heads, "count");
    if (one->order)
        kvc_verify_compare_words(v, KVC_TWIN_OF(lists, order), 0, one->host_base[heads], "order");
    if (v->row.differing > before)
        return; /* the comparisons below use count and order */
    counts = kvc_verify_counts(v, KVC_TWIN_OF(lists, count), heads);
    for (uint32_t h = 0; h < heads && v->status == KVC_OK; h++) {
        if (counts[h] > one->host_base[h + 1] - one->host_base[h])
            counts[h] = 0; /* without a reference, no comparison has checked the count */
        size_t bytes = (size_t)counts[h] * d * sizeof(float);
        struct kvc_twin keys = kvc_verify_output(v, bytes), values = kvc_verify_output(v, bytes);
        size_t held = v->held_count;
        float *found[2] = {NULL, NULL};
        char what[40];
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            found[side] = by_index(v, &lists->lists[side], side, h, counts[h]);
            v->device[side]->ops->entries(v->device[side],
                                          &(struct kvc_entries){.lists = &lists->lists[side],
                                                                .head = h,
                                                                .keys = kvc_verify_span(keys, side),
                                                                .values = kvc_verify_span(values, side)});
        }
        if (v->status != KVC_OK)
            return;
        snprintf(what, sizeof what, "head %u position, state", (unsigned)h);
        kvc_verify_compare_host(v, found[0], found[1], (size_t)counts[h] * (1 + one->columns), what);
        kvc_verify_release(v, held);
        kvc_verify_compare(v, keys, 0, (size_t)counts[h] * d, "key");
        kvc_verify_compare(v, values, 0, (size_t)counts[h] * d, "value");
    }
}

void kvc_verify_compare_scores(struct kvc_verify *v, const struct kvc_twin_lists *lists, struct kvc_twin scores,
                               uint32_t stride) {
    for (uint32_t h = 0; v->status == KVC_OK && h < lists->lists[1].kv_heads; h++)
        kvc_verify_compare(v, scores, (size_t)h * stride, lists->count[h], "scores");
}
