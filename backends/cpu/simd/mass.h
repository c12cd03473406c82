/* mass.h - template: sums of weights over queries: window_mass, accumulate. */
#ifndef KVC_CPU_MASS_H
#define KVC_CPU_MASS_H

#include "backends/cpu/simd/logarithm.h"
#include "backends/cpu/simd/noise_table.h"
#include "backends/cpu/simd/weight_tiles.h"

/* What one sum is made of: a KV head's whole group, or one query head of it. */
struct mass_job {
    struct weights_job job; /* first; own: sums [parts, KVC_TILE], noise and noisy scores [G, KVC_TILE] */
    uint32_t parts;         /* sums per KV head */
    float *scores;          /* window_mass: [H_kv * parts, stride]; NULL: they go to a state column */
    uint32_t stride, column;
    bool fold;                      /* column += column + 1 first */
    const float *maximum, *sum;     /* [queries, H] */
    const struct kvc_noise *noise;  /* NULL: scores are as they are */
    float *tile_maximum, *tile_sum; /* of noisy scores: [tiles, queries, H] */
    float *known;                   /* NULL, or the lists' noise (noise_table.h) */
    float *noisy;                   /* NULL, or keeps those of one query: [H, noisy_stride] by place */
    uint32_t noisy_stride;
};

INLINE const struct mass_job *mass_of(const struct weights_tile *tile) {
    return (const struct mass_job *)(const void *)tile->job;
}

static float *state_column(const struct weights_tile *tile, uint32_t column) {
    const struct kvc_lists *lists = tile->job->rows->lists;
    const uint32_t base = lists->host_base[tile->h], slots = lists->host_base[tile->h + 1] - base;
    return (float *)lists->state->data + (size_t)lists->columns * base + (size_t)column * slots;
}

/* Where part i of the KV head is summed up, by rank or by slot. */
static float *mass_target(const struct weights_tile *tile, uint32_t i) {
    const struct mass_job *mass = mass_of(tile);
    return mass->scores ? mass->scores + ((size_t)tile->h * mass->parts + i) * mass->stride
                        : state_column(tile, mass->column + 1);
}

/* The tile's places lie there as they are. */
INLINE bool mass_direct(const struct weights_tile *tile) {
    return !tile->head->rank && (mass_of(tile)->scores || !tile->head->order);
}

INLINE uint32_t mass_index(const struct weights_tile *tile, uint32_t e) {
    return mass_of(tile)->scores ? head_rank(tile->head, tile->first + e) : head_slot(tile->head, tile->first + e);
}

static float *mass_sums(const struct weights_tile *tile, uint32_t i) {
    return mass_direct(tile) ? mass_target(tile, i) + tile->first : tile->own + (size_t)i * KVC_TILE;
}

/* Sums start at 0, or go on. */
static void mass_start(const struct weights_tile *tile, uint32_t low, uint32_t high) {
    const struct mass_job *mass = mass_of(tile);
    for (uint32_t i = 0; mass->scores && i < mass->parts; i++)
        memset(mass_target(tile, i) + low, 0, (high - low) * sizeof(float));
    if (mass->scores || !mass->fold)
        return;
    float *older = state_column(tile, mass->column), *newer = state_column(tile, mass->column + 1);
    for (uint32_t r = low; r < high; r++) {
        const uint32_t slot = tile->head->order ? tile->head->order[r] : r;
        older[slot] = older[slot] + newer[slot];
        newer[slot] = 0.0f;
    }
}

/* The noise of the tile's keys for each head of the group. */
static void make_noise(const struct weights_tile *tile) {
    const struct mass_job *mass = mass_of(tile);
    float *noise = tile->own + (size_t)mass->parts * KVC_TILE;
    const uint32_t group = tile->job->group;
    const size_t each = 1 + group;
    float *known = mass->known ? mass->known + each * tile->job->rows->lists->host_base[tile->h] : NULL;
    int32_t position[KVC_TILE];
    uint32_t slot[KVC_TILE];
    bool missing[KVC_TILE / LANES] = {false};
    for (uint32_t e = 0; e < tile->n; e++) {
        slot[e] = head_slot(tile->head, tile->first + e);
        position[e] = slot_position(tile->head, slot[e]);
    }
    for (uint32_t e = tile->n; e % LANES; e++)
        position[e] = 0;
    for (uint32_t e = 0; known && e < tile->n; e++) {
        const float *of = known + slot[e] * each;
        if (kvc_bits(of[0]) != (uint32_t)position[e] + 1)
            missing[e / LANES] = true;
        for (uint32_t g = 0; g < group; g++)
            noise[g * KVC_TILE + e] = of[1 + g];
    }
    for (uint32_t e = 0; e < tile->n; e += LANES) {
        if (known && !missing[e / LANES])
            continue;
        for (uint32_t g = 0; g < group; g++)
            vf_store(noise + g * KVC_TILE + e,
                     gumbel(mass->noise->seed, mass->noise->layer, tile->h * group + g, vi_load(position + e)));
        for (uint32_t i = e; known && i < e + LANES && i < tile->n; i++) {
            float *of = known + slot[i] * each;
            of[0] = kvc_from_bits((uint32_t)position[i] + 1);
            for (uint32_t g = 0; g < group; g++)
                of[1 + g] = noise[g * KVC_TILE + i];
        }
    }
}

/* x [G, KVC_TILE] = (s + noise) / tau at places in; returns x. */
static float *noisy_scores(const struct weights_tile *tile, struct seen_range in, const float *s, size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const float *noise = tile->own + (size_t)mass->parts * KVC_TILE;
    float *x = tile->own + (size_t)(mass->parts + tile->job->group) * KVC_TILE;
    const vf tau = vf_set(mass->noise->tau);
    for (uint32_t g = 0; g < tile->job->group; g++)
        for (uint32_t e = in.low / LANES * LANES; e < in.high; e += LANES)
            vf_store(x + g * KVC_TILE + e,
                     vf_div(vf_add(vf_load(s + g * s_stride + e), vf_load(noise + g * KVC_TILE + e)), tau));
    return x;
}

static void mass_begin(const struct weights_tile *tile) {
    const struct mass_job *mass = mass_of(tile);
    if (mass->noise)
        make_noise(tile);
    for (uint32_t i = 0; !mass_direct(tile) && i < mass->parts; i++) {
        const float *from = mass_target(tile, i);
        float *sums = mass_sums(tile, i);
        for (uint32_t e = 0; e < tile->n; e++)
            sums[e] = from[mass_index(tile, e)];
    }
}

static void mass_finish(const struct weights_tile *tile) {
    for (uint32_t i = 0; !mass_direct(tile) && i < mass_of(tile)->parts; i++) {
        const float *sums = mass_sums(tile, i);
        float *to = mass_target(tile, i);
        for (uint32_t e = 0; e < tile->n; e++)
            to[mass_index(tile, e)] = sums[e];
    }
}

/* to[e] += the sum over `heads` heads, from 0 and ascending, of exp(s - M) / L. */
static void add_weights(float *to, const float *s, size_t s_stride, uint32_t low, uint32_t high, uint32_t heads,
                        const float *maximum, const float *sum) {
    for (uint32_t e = low; e < high; e += LANES) {
        const bool whole = e + LANES <= high;
        vf total = vf_zero();
        for (uint32_t g = 0; g < heads; g++) {
            const float *from = s + g * s_stride + e;
            const vf x = whole ? vf_load(from) : vf_part_load(from, high - e);
            total = vf_add(total, vf_div(exp_any(vf_sub(x, vf_set(maximum[g]))), vf_set(sum[g])));
        }
        if (whole)
            vf_store(to + e, vf_add(vf_load(to + e), total));
        else
            vf_part_store(to + e, vf_add(vf_part_load(to + e, high - e), total), high - e);
    }
}

static void mass_take(const struct weights_tile *tile, uint32_t query, struct seen_range seen, struct seen_range in,
                      const float *s, size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const uint32_t group = tile->job->group, each = group / mass->parts;
    const size_t cell = (size_t)query * tile->job->rows->heads + (size_t)tile->h * group;
    (void)seen;
    if (in.low >= in.high)
        return;
    if (mass->noise) {
        s = noisy_scores(tile, in, s, s_stride);
        s_stride = KVC_TILE;
    }
    for (uint32_t i = 0; i < mass->parts; i++)
        add_weights(mass_sums(tile, i), s + (size_t)i * each * s_stride, s_stride, in.low, in.high, each,
                    mass->maximum + cell + (size_t)i * each, mass->sum + cell + (size_t)i * each);
}

static void window_mass(struct kvc_device *device, const struct kvc_weight_rows *rows, struct kvc_span scores,
                        uint32_t stride, bool by_head) {
    struct mass_job mass = {.parts = by_head ? rows->heads / rows->kv_heads : 1,
                            .scores = kvc_span_data(scores),
                            .stride = stride,
                            .maximum = kvc_span_data(rows->maximum),
                            .sum = kvc_span_data(rows->sum)};
    mass.job = (struct weights_job){.cpu = (struct kvc_cpu *)device,
                                    .rows = rows,
                                    .own = (size_t)mass.parts * KVC_TILE,
                                    .start = mass_start,
                                    .begin = mass_begin,
                                    .take = mass_take,
                                    .finish = mass_finish,
                                    .cost = 24.0f};
    if (weights_prepare(&mass.job))
        weights_run(&mass.job);
}

/* ---- noise: M and L are not those of attention ---- */

static void noise_start(const struct weights_tile *tile, uint32_t low, uint32_t high) {
    (void)tile, (void)low, (void)high;
}

/* Maximum and sum of the noisy scores of one query in one tile; sum 0: it sees nothing there. */
static void noise_take(const struct weights_tile *tile, uint32_t query, struct seen_range seen, struct seen_range in,
                       const float *s, size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const struct kvc_weight_rows *rows = tile->job->rows;
    const uint32_t group = tile->job->group;
    const size_t cell =
        ((size_t)(tile->first / KVC_TILE) * rows->queries + query) * rows->heads + (size_t)tile->h * group;
    (void)seen;
    float *x = noisy_scores(tile, in, s, s_stride);
    for (uint32_t g = 0; g < group; g++, x += KVC_TILE) {
        float *maximum = mass->tile_maximum + cell + g, *sum = mass->tile_sum + cell + g;
        *sum = 0.0f;
        if (in.low >= in.high)
            continue;
        if (mass->noisy)
            memcpy(mass->noisy + (size_t)(tile->h * group + g) * mass->noisy_stride + tile->first + in.low, x + in.low,
                   (in.high - in.low) * sizeof *x);
        *maximum = softmax_tile(x, in.low, in.high, sum);
    }
}

/* All tiles of each query: the results are left in the first tile's places. */
static void merge_noise(const struct mass_job *mass) {
    const struct kvc_weight_rows *rows = mass->job.rows;
    const size_t cells = (size_t)rows->queries * rows->heads;
    for (uint32_t h = 0; h < rows->heads; h++) {
        const struct kvc_buffer *counts = rows->reads ? rows->reads->count : rows->lists->count;
        const size_t tiles = (((const uint32_t *)counts->data)[h / mass->job.group] + KVC_TILE - 1) / KVC_TILE;
        for (uint32_t query = 0; query < rows->queries && tiles > 0; query++) {
            float *maximum = mass->tile_maximum + (size_t)query * rows->heads + h;
            float *sum = mass->tile_sum + (size_t)query * rows->heads + h, M = -kvc_infinity(), L = 0.0f;
            for (size_t t = 0; t < tiles; t++)
                if (sum[t * cells] != 0.0f)
                    M = kvc_max(M, maximum[t * cells]);
            for (size_t t = 0; t < tiles; t++)
                if (sum[t * cells] != 0.0f)
                    L = kvc_fma(kvc_exp(maximum[t * cells] - M), sum[t * cells], L);
            *maximum = M;
            *sum = L;
        }
    }
}

/* Finds M and L of the noisy scores; of a single query also keeps these, so that they are not made twice. */
static void noise_run(struct mass_job *mass, size_t tiles) {
    const struct kvc_weight_rows *rows = mass->job.rows;
    const size_t cells = (size_t)rows->queries * rows->heads;
    mass->tile_maximum = mass->job.shared_room;
    mass->tile_sum = mass->tile_maximum + tiles * cells;
    mass->noisy_stride = (uint32_t)(tiles * KVC_TILE);
    mass->noisy = rows->queries == 1 ? mass->tile_sum + tiles * cells : NULL;
    mass->job.start = noise_start;
    mass->job.begin = make_noise;
    mass->job.take = noise_take;
    weights_run(&mass->job);
    merge_noise(mass);
    mass->maximum = mass->tile_maximum;
    mass->sum = mass->tile_sum;
    if (mass->noisy) {
        mass->noise = NULL;
        mass->job.known = mass->noisy;
        mass->job.known_stride = mass->noisy_stride;
        mass->job.many = false;
        mass->job.at_once = mass->job.group;
    }
}

/* Queries of which none but the first is at a position where columns are folded. */
static void accumulate_some(struct kvc_cpu *cpu, const struct kvc_weight_rows *rows, uint32_t column, bool fold,
                            const struct kvc_noise *noise) {
    const uint32_t group = rows->heads / rows->kv_heads;
    struct mass_job mass = {.parts = 1, .column = column, .fold = fold, .noise = noise};
    size_t tiles = 0;
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const struct kvc_buffer *counts = rows->reads ? rows->reads->count : rows->lists->count;
        const uint32_t mine = (((const uint32_t *)counts->data)[h] + KVC_TILE - 1) / KVC_TILE;
        tiles = mine > tiles ? mine : tiles;
    }
    mass.job = (struct weights_job){.cpu = cpu, .rows = rows, .own = KVC_TILE, .cost = 24.0f};
    if (noise) {
        mass.job.own += (size_t)2 * group * KVC_TILE;
        mass.job.shared = 2 * tiles * rows->queries * rows->heads;
        mass.job.shared += rows->queries == 1 ? rows->heads * tiles * KVC_TILE : 0;
        mass.job.cost += 200.0f / (float)rows->queries;
    }
    if (!weights_prepare(&mass.job))
        return;
    if (noise && rows->queries == 1)
        mass.known = noise_of(cpu, rows->lists, rows->heads, noise);
    if (noise) {
        noise_run(&mass, tiles);
    } else {
        mass.maximum = kvc_span_data(rows->maximum);
        mass.sum = kvc_span_data(rows->sum);
    }
    mass.job.start = mass_start;
    mass.job.begin = mass_begin;
    mass.job.take = mass_take;
    mass.job.finish = mass_finish;
    weights_run(&mass.job);
}

static void accumulate(struct kvc_device *device, const struct kvc_weight_rows *rows, uint32_t column,
                       const struct kvc_noise *noise) {
    const int32_t *positions = kvc_span_data(rows->positions);
    const size_t f = sizeof(float), heads = rows->heads;
    for (uint32_t from = 0, to; from < rows->queries; from = to) {
        struct kvc_weight_rows some = *rows;
        for (to = from + 1; to < rows->queries && to - from < KVC_TILE && positions[to] % (int32_t)KVC_TILE != 0; to++)
            ;
        some.queries = to - from;
        some.q.offset += from * heads * rows->head_size * f;
        some.maximum.offset += from * heads * f;
        some.sum.offset += from * heads * f;
        some.positions.offset += from * sizeof(int32_t);
        some.later.offset += from * sizeof(uint32_t);
        accumulate_some((struct kvc_cpu *)device, &some, column, positions[from] % (int32_t)KVC_TILE == 0, noise);
    }
}

#endif
