/* mass.h - template: sums of attention probabilities over queries: window_mass, accumulate. */
#ifndef KVC_SIMD_SCORES_MASS_H
#define KVC_SIMD_SCORES_MASS_H

#include "core/base/integers.h"
#include "backends/cpu/simd/lanes/logarithm.h"
#include "backends/cpu/simd/scores/noise_table.h"
#include "backends/cpu/simd/scores/probability_tiles.h"

/* The data of a call. A sum adds the probabilities of all query heads of a KV head, or of one query head. */
struct mass_job {
    /* must be the first member; its `own` floats: sums [parts, KVC_TILE], then noise and noisy scores [G, KVC_TILE] */
    struct probabilities_job job;
    uint32_t parts; /* number of sums per KV head */
    float *scores;  /* window_mass: [H_kv * parts, stride]; NULL: the sums are added to a state column */
    uint32_t stride, column;
    bool fold;                     /* true: first adds state column `column` + 1 to state column `column` */
    bool maxima;                   /* true: computes maxima instead of sums */
    const float *maximum, *sum;    /* [queries, H] */
    const struct kvc_noise *noise; /* NULL: scores without noise */
    float *known;                  /* noise of the lists (noise_table.h), or NULL */
    uint32_t tiles;                /* tiles of the longest head */
    bool whole; /* true if there is one query and a task computes a whole head; the three arrays below are then [G] and
                 * belong to the task */
    float *tile_maximum, *tile_sum; /* [tiles, queries, H]: maxima and sums of the noisy scores */
    float *noisy;                   /* the noisy scores if there is only one query, [H, tiles * KVC_TILE]; otherwise
                                     * NULL */
};

INLINE const struct mass_job *mass_of(const struct probabilities_tile *tile) {
    return (const struct mass_job *)(const void *)tile->job;
}

static float *state_column(const struct probabilities_tile *tile, uint32_t column) {
    const struct kvc_lists *lists = tile->job->rows->lists;
    const uint32_t base = lists->host_base[tile->h], slots = lists->host_base[tile->h + 1] - base;
    return (float *)lists->state->data + (size_t)lists->columns * base + (size_t)column * slots;
}

/* Prefetches x [n]. These floats were last used one step ago, so they have left the cache. */
static void prefetch_floats(const void *x, size_t n) {
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch((const float *)x + i);
}

/* Returns the memory of sum i of the KV head, by index or by slot. */
static float *mass_target(const struct probabilities_tile *tile, uint32_t i) {
    const struct mass_job *mass = mass_of(tile);
    return mass->scores ? mass->scores + ((size_t)tile->h * mass->parts + i) * mass->stride
                        : state_column(tile, mass->column + 1);
}

/* Returns true if the memory of mass_target has the sums of the tile's entries one after another. */
INLINE bool mass_direct(const struct probabilities_tile *tile) {
    return !tile->head->index && (mass_of(tile)->scores || !tile->head->order);
}

INLINE uint32_t mass_index(const struct probabilities_tile *tile, uint32_t e) {
    return mass_of(tile)->scores ? head_index(tile->head, tile->first + e) : head_slot(tile->head, tile->first + e);
}

static float *mass_sums(const struct probabilities_tile *tile, uint32_t i) {
    return mass_direct(tile) ? mass_target(tile, i) + tile->first : tile->own + (size_t)i * KVC_TILE;
}

/* In a decode step, prefetches a part of a head's slots: part i of n parts. The slots were last used one step ago, so
 * they have left the cache. If indices are scattered over the slots, the hardware does not prefetch them. */
static void prefetch_slots(const struct probabilities_tile *tile, uint32_t i, uint32_t n) {
    const struct mass_job *mass = mass_of(tile);
    const struct kvc_lists *lists = tile->job->rows->lists;
    const uint32_t base = lists->host_base[tile->h], slots = lists->host_base[tile->h + 1] - base;
    if (i >= n || mass->scores || !lists->order || tile->job->rows->queries > 1 ||
        slots > 2 * tile->head->count + KVC_TILE)
        return;
    const size_t from = (size_t)slots * i / n, some = (size_t)slots * (i + 1) / n - from, each = 1 + tile->job->group;
    prefetch_floats(state_column(tile, mass->column + 1) + from, some);
    if (mass->known) {
        prefetch_floats(tile->head->position + from, some);
        prefetch_floats(mass->known + each * (base + from), each * some);
    }
}

/* Sets the sums to 0 or, if `fold` is set, folds the state columns. */
static void mass_start(const struct probabilities_tile *tile, uint32_t low, uint32_t high) {
    const struct mass_job *mass = mass_of(tile);
    for (uint32_t i = 0; mass->scores && i < mass->parts; i++)
        memset(mass_target(tile, i) + low, 0, (high - low) * sizeof(float));
    prefetch_slots(tile, 0, mass->whole ? mass->tiles : 1);
    if (mass->scores || !mass->fold)
        return;
    float *older = state_column(tile, mass->column), *newer = state_column(tile, mass->column + 1);
    for (uint32_t r = low; r < high; r++) {
        const uint32_t slot = tile->head->order ? tile->head->order[r] : r;
        older[slot] = older[slot] + newer[slot];
        newer[slot] = 0.0f;
    }
}

/* Computes the noise of the tile's keys for each head of the group. */
static void make_noise(const struct probabilities_tile *tile) {
    const struct mass_job *mass = mass_of(tile);
    float *noise = tile->own + (size_t)mass->parts * KVC_TILE;
    const uint32_t group = tile->job->group;
    const uint32_t each = 1 + group;
    float *known = mass->known ? mass->known + (size_t)each * tile->job->rows->lists->host_base[tile->h] : NULL;
    /* the last vector is filled up with copies of the last key */
    const uint32_t n = (tile->n + LANES - 1) / LANES * LANES;
    int32_t position[KVC_TILE], owner[KVC_TILE]; /* owner: position + 1 of the key whose noise is known */
    uint32_t at[KVC_TILE];
    for (uint32_t e = 0; e < n; e++) {
        const uint32_t slot = head_slot(tile->head, tile->first + (e < tile->n ? e : tile->n - 1));
        position[e] = slot_position(tile->head, slot);
        at[e] = slot * each;
    }
    for (uint32_t e = 0; known && e < n; e++)
        owner[e] = (int32_t)kvc_bits(known[at[e]]);
    for (uint32_t g = 0; known && g < group; g++)
        for (uint32_t e = 0; e < n; e++)
            noise[g * KVC_TILE + e] = known[at[e] + 1 + g];
    for (uint32_t e = 0; e < n; e += LANES) {
        const vi key = vi_load(position + e);
        if (known && vm_bits(vi_equal(vi_load(owner + e), vi_add(key, vi_set(1)))) == vm_bits(vm_first(LANES)))
            continue;
        for (uint32_t g = 0; g < group; g++)
            vf_store(noise + g * KVC_TILE + e,
                     gumbel(mass->noise->seed, mass->noise->layer, mass->noise->first_head + tile->h * group + g, key));
        for (uint32_t i = e; known && i < e + LANES; i++) {
            known[at[i]] = kvc_from_bits((uint32_t)position[i] + 1);
            for (uint32_t g = 0; g < group; g++)
                known[at[i] + 1 + g] = noise[g * KVC_TILE + i];
        }
    }
}

/* Memory for the noisy scores of one query and group. Their maxima and sums are [tiles, G], in rows that are `apart`
 * floats apart. The scores are [G, tiles * KVC_TILE]; `kept` is NULL if they are not kept. */
struct noisy_capacity {
    float *maximum, *sum, *kept;
    size_t apart;
};

INLINE struct noisy_capacity noisy_capacity(const struct probabilities_tile *tile, uint32_t query) {
    const struct mass_job *mass = mass_of(tile);
    const struct kvc_probabilities *rows = tile->job->rows;
    const size_t group = tile->job->group, first = tile->h * group, cell = (size_t)query * rows->heads + first;
    const size_t row = (size_t)mass->tiles * KVC_TILE;
    if (mass->whole) {
        float *own = tile->own + (mass->parts + 2 * group) * KVC_TILE;
        return (struct noisy_capacity){own + group * row, own + group * (row + mass->tiles), own, group};
    }
    return (struct noisy_capacity){mass->tile_maximum + cell, mass->tile_sum + cell,
                                   mass->noisy ? mass->noisy + first * row : NULL, (size_t)rows->queries * rows->heads};
}

/* Computes x [G, KVC_TILE] = (s + noise) / tau for the entries `in`, and returns x. */
static float *noisy_scores(const struct probabilities_tile *tile, struct seen_range in, const float *s,
                           size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const float *noise = tile->own + (size_t)mass->parts * KVC_TILE;
    float *x = tile->own + (size_t)(mass->parts + tile->job->group) * KVC_TILE;
    const vf tau = vf_set(mass->noise->tau);
    float *kept = mass->whole || mass->noisy ? noisy_capacity(tile, 0).kept + tile->first : NULL;
    for (uint32_t g = 0; g < tile->job->group; g++) {
        for (uint32_t e = in.low / LANES * LANES; e < in.high; e += LANES) {
            const vf y = vf_div(vf_add(vf_load(s + g * s_stride + e), vf_load(noise + g * KVC_TILE + e)), tau);
            vf_store(x + g * KVC_TILE + e, y);
            if (kept)
                vf_store(kept + (size_t)g * mass->tiles * KVC_TILE + e, y);
        }
    }
    return x;
}

/* Returns true if the tile's sums are copied to scratch memory before its queries are added, and copied back
 * afterwards. */
INLINE bool mass_fetched(const struct probabilities_tile *tile) {
    return !mass_direct(tile) && tile->job->rows->queries > 1;
}

static void mass_begin(const struct probabilities_tile *tile) {
    const struct mass_job *mass = mass_of(tile);
    if (mass->noise)
        make_noise(tile);
    for (uint32_t i = 0; mass_fetched(tile) && i < mass->parts; i++) {
        const float *from = mass_target(tile, i);
        float *sums = mass_sums(tile, i);
        for (uint32_t e = 0; e < tile->n; e++)
            sums[e] = from[mass_index(tile, e)];
    }
}

static void mass_finish(const struct probabilities_tile *tile) {
    for (uint32_t i = 0; mass_fetched(tile) && i < mass_of(tile)->parts; i++) {
        const float *sums = mass_sums(tile, i);
        float *to = mass_target(tile, i);
        for (uint32_t e = 0; e < tile->n; e++)
            to[mass_index(tile, e)] = sums[e];
    }
}

/* Increases to[e] by the sum over `heads` heads, in ascending order, of exp(s - M) / L. */
static void add_probabilities(float *to, const float *s, size_t s_stride, uint32_t low, uint32_t high, uint32_t heads,
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

/* Like add_probabilities, but with the maximum over the heads instead of their sum. If it is larger than to[e], it
 * replaces to[e]. */
static void most_probabilities(float *to, const float *s, size_t s_stride, uint32_t low, uint32_t high, uint32_t heads,
                               const float *maximum, const float *sum) {
    for (uint32_t e = low; e < high; e += LANES) {
        const bool whole = e + LANES <= high;
        vf most = vf_zero();
        for (uint32_t g = 0; g < heads; g++) {
            const float *from = s + g * s_stride + e;
            const vf x = whole ? vf_load(from) : vf_part_load(from, high - e);
            most = vf_max(most, vf_div(exp_any(vf_sub(x, vf_set(maximum[g]))), vf_set(sum[g])));
        }
        if (whole)
            vf_store(to + e, vf_max(vf_load(to + e), most));
        else
            vf_part_store(to + e, vf_max(vf_part_load(to + e, high - e), most), high - e);
    }
}

/* Adds the query's probabilities, computed from its group's scores s, M and L. */
static void add_query(const struct probabilities_tile *tile, struct seen_range in, const float *s, size_t s_stride,
                      const float *maximum, const float *sum) {
    const struct mass_job *mass = mass_of(tile);
    const uint32_t group = tile->job->group, each = group / mass->parts;
    const bool one = !mass_direct(tile) && !mass_fetched(tile);
    const uint32_t *order = mass->scores || tile->head->index || !one ? NULL : tile->head->order + tile->first;
    for (uint32_t i = 0, g = 0; i < mass->parts; i++, g += each) {
        float *sums = mass_sums(tile, i), *to = mass_target(tile, i);
        if (one)
            memset(sums + in.low, 0, (in.high - in.low) * sizeof *sums);
        (mass->maxima ? most_probabilities : add_probabilities)(sums, s + g * s_stride, s_stride, in.low, in.high, each,
                                                                maximum + g, sum + g);
        for (uint32_t e = in.low; one && e < in.high; e++) {
            const uint32_t at = order ? order[e] : mass_index(tile, e);
            to[at] = mass->maxima ? kvc_max(to[at], sums[e]) : to[at] + sums[e];
        }
    }
}

static void mass_take(const struct probabilities_tile *tile, uint32_t query, struct seen_range seen,
                      struct seen_range in, const float *s, size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const size_t cell = (size_t)query * tile->job->rows->heads + (size_t)tile->h * tile->job->group;
    (void)seen;
    if (in.low >= in.high)
        return;
    if (mass->noise) {
        s = noisy_scores(tile, in, s, s_stride);
        s_stride = KVC_TILE;
    }
    add_query(tile, in, s, s_stride, mass->maximum + cell, mass->sum + cell);
}

static void window_mass(struct kvc_device *device, const struct kvc_window_mass *args) {
    const struct kvc_probabilities *rows = args->probabilities;
    struct mass_job mass = {.parts = args->by_head ? rows->heads / rows->kv_heads : 1,
                            .scores = kvc_span_data(args->scores),
                            .stride = args->stride,
                            .maxima = args->maxima,
                            .maximum = kvc_span_data(rows->maximum),
                            .sum = kvc_span_data(rows->sum)};
    mass.job = (struct probabilities_job){.cpu = (struct kvc_cpu *)device,
                                          .rows = rows,
                                          .own = (size_t)mass.parts * KVC_TILE,
                                          .start = mass_start,
                                          .begin = mass_begin,
                                          .take = mass_take,
                                          .finish = mass_finish,
                                          .cost = 24.0f};
    if (probabilities_prepare(&mass.job))
        probabilities_run(&mass.job);
}

/* ---- noise: M and L differ from those of attention ---- */

/* Computes the maximum and the sum of the noisy scores of one query in one tile. If the query sees nothing in the tile,
 * the sum is 0. */
static void noise_take(const struct probabilities_tile *tile, uint32_t query, struct seen_range seen,
                       struct seen_range in, const float *s, size_t s_stride) {
    const struct mass_job *mass = mass_of(tile);
    const struct noisy_capacity kept_scores = noisy_capacity(tile, query);
    const uint32_t group = tile->job->group;
    const size_t cell = tile->first / KVC_TILE * kept_scores.apart;
    (void)seen;
    float *x = noisy_scores(tile, in, s, s_stride);
    for (uint32_t g = 0; g < group; g++, x += KVC_TILE) {
        kept_scores.sum[cell + g] = 0.0f;
        if (mass->whole) /* prefetches the data of the next tile */
            prefetch_slots(tile, (tile->first / KVC_TILE + 1) * group + g, mass->tiles * group);
        if (in.low < in.high)
            kept_scores.maximum[cell + g] = softmax_tile(x, in.low, in.high, &kept_scores.sum[cell + g]);
    }
}

/* Merges M and L of one query and head over its tiles. The results replace the values of the first tile. */
static void merge_tiles(float *maximum, float *sum, size_t tiles, size_t apart) {
    float M = -kvc_infinity(), L = 0.0f;
    for (size_t t = 0; t < tiles; t++)
        if (sum[t * apart] != 0.0f)
            M = kvc_max(M, maximum[t * apart]);
    for (size_t t = 0; t < tiles; t++)
        if (sum[t * apart] != 0.0f)
            L = kvc_fma(kvc_exp(maximum[t * apart] - M), sum[t * apart], L);
    *maximum = M;
    *sum = L;
}

static void merge_noise(const struct mass_job *mass) {
    const struct kvc_probabilities *rows = mass->job.rows;
    const struct kvc_buffer *counts = rows->reads ? rows->reads->count : rows->lists->count;
    const size_t cells = (size_t)rows->queries * rows->heads;
    for (size_t cell = 0; cell < cells; cell++) {
        const uint32_t h = (uint32_t)(cell % rows->heads) / mass->job.group;
        const size_t tiles = (((const uint32_t *)counts->data)[h] + KVC_TILE - 1) / KVC_TILE;
        if (tiles > 0)
            merge_tiles(mass->tile_maximum + cell, mass->tile_sum + cell, tiles, cells);
    }
}

/* Adds the probabilities of a single query at the end of its head's task. */
static void noise_end(const struct probabilities_tile *last) {
    const struct noisy_capacity kept_scores = noisy_capacity(last, 0);
    struct probabilities_tile tile = *last;
    for (uint32_t g = 0; g < last->job->group; g++)
        merge_tiles(kept_scores.maximum + g, kept_scores.sum + g, (last->head->places + KVC_TILE - 1) / KVC_TILE,
                    kept_scores.apart);
    for (tile.first = 0; tile.first < tile.head->places; tile.first += KVC_TILE)
        add_query(&tile, seen_in_tile(tile.seen[0], tile.first), kept_scores.kept + tile.first,
                  (size_t)mass_of(last)->tiles * KVC_TILE, kept_scores.maximum, kept_scores.sum);
}

/* Computes M and L of the noisy scores. If there is only one query, keeps its scores, so that they are computed only
 * once. */
static void noise_run(struct mass_job *mass) {
    const struct kvc_probabilities *rows = mass->job.rows;
    KVC_ASSERT(rows->heads % rows->kv_heads == 0);
    const size_t cells = mass->tiles * (size_t)rows->queries * rows->heads;
    mass->tile_maximum = mass->job.shared_capacity;
    mass->tile_sum = mass->tile_maximum + cells;
    mass->noisy = rows->queries == 1 ? mass->tile_sum + cells : NULL;
    mass->job.begin = make_noise;
    mass->job.take = noise_take;
    probabilities_run(&mass->job);
    merge_noise(mass);
    mass->job.start = NULL;
    mass->maximum = mass->tile_maximum;
    mass->sum = mass->tile_sum;
    if (mass->noisy) {
        mass->noise = NULL;
        mass->job.known = mass->noisy;
        mass->job.known_stride = mass->tiles * KVC_TILE;
        mass->job.many = mass->job.integers = false;
        mass->job.at_once = mass->job.group;
    }
}

/* Computes M and L of a single query's noisy scores, and adds its probabilities in the same task. */
static void noise_run_whole(struct mass_job *mass) {
    mass->job.begin = make_noise;
    mass->job.take = noise_take;
    mass->job.end = noise_end;
    probabilities_run(&mass->job);
}

/* Accumulates the probabilities of consecutive queries. If `fold` is set, folds the columns before the first query. */
static void accumulate_some(struct kvc_cpu *cpu, const struct kvc_probabilities *rows, uint32_t column, bool fold,
                            const struct kvc_noise *noise) {
    const uint32_t group = rows->heads / rows->kv_heads;
    struct mass_job mass = {.parts = 1, .column = column, .fold = fold, .noise = noise};
    for (uint32_t h = 0; h < rows->kv_heads; h++) {
        const struct kvc_buffer *counts = rows->reads ? rows->reads->count : rows->lists->count;
        const uint32_t mine = (((const uint32_t *)counts->data)[h] + KVC_TILE - 1) / KVC_TILE;
        mass.tiles = kvc_max_u32(mine, mass.tiles);
    }
    mass.whole = noise && rows->queries == 1 && rows->kv_heads >= kvc_threads_count(cpu->threads);
    mass.job = (struct probabilities_job){.cpu = cpu,
                                          .rows = rows,
                                          .own = KVC_TILE,
                                          .start = mass_start,
                                          .by_slot = rows->queries == 1 && !noise,
                                          .cost = 24.0f};
    if (noise) {
        mass.job.own += (size_t)2 * group * KVC_TILE;
        const size_t all = mass.tiles * (2 + (size_t)(rows->queries == 1 ? KVC_TILE : 0));
        mass.job.own += mass.whole ? all * group : 0;
        mass.job.shared = mass.whole ? 0 : all * rows->queries * rows->heads;
        mass.job.cost += 200.0f / (float)rows->queries;
    }
    if (!probabilities_prepare(&mass.job))
        return;
    if (noise && rows->queries == 1)
        mass.known = noise_of(cpu, rows->lists, rows->heads, noise);
    if (mass.whole) {
        noise_run_whole(&mass);
        return;
    }
    if (noise) {
        noise_run(&mass);
    } else {
        mass.maximum = kvc_span_data(rows->maximum);
        mass.sum = kvc_span_data(rows->sum);
    }
    mass.job.begin = mass_begin;
    mass.job.take = mass_take;
    mass.job.finish = mass_finish;
    probabilities_run(&mass.job);
}

static void accumulate(struct kvc_device *device, const struct kvc_accumulate *args) {
    const struct kvc_probabilities *rows = args->probabilities;
    const int32_t *positions = kvc_span_data(rows->positions);
    const size_t f = sizeof(float), heads = rows->heads;
    KVC_ASSERT(args->column + 2 <= rows->lists->columns);
    for (uint32_t from = 0, to; from < rows->queries; from = to) {
        struct kvc_probabilities some = *rows;
        for (to = from + 1; to < rows->queries && to - from < KVC_TILE && positions[to] % (int32_t)KVC_TILE != 0; to++)
            ;
        some.queries = to - from;
        some.q.offset += from * heads * rows->head_size * f;
        some.maximum.offset += from * heads * f;
        some.sum.offset += from * heads * f;
        some.positions.offset += from * sizeof(int32_t);
        some.causal_offset.offset += from * sizeof(uint32_t);
        accumulate_some((struct kvc_cpu *)device, &some, args->column, positions[from] % (int32_t)KVC_TILE == 0,
                        args->noise);
    }
}

#endif
