/* leverage.h - template: compactor's scores: chunk_mass (a task computes a chunk of a head), leverage_scores (a task
 * computes a head) and standard_mix. */
#ifndef KVC_SIMD_SCORES_LEVERAGE_H
#define KVC_SIMD_SCORES_LEVERAGE_H

#include "core/base/integers.h"
#include "backends/cpu/simd/scores/entries.h"

/* Returns the index after the last scored entry. The `last` newest entries are not scored. */
INLINE uint32_t scored_end(const struct kvc_lists *lists, uint32_t h, uint32_t last) {
    const uint32_t count = ((const uint32_t *)lists->count->data)[h];
    return count > last ? count - last : 0;
}

/* Adds up 32 lanes. Each lane is a vector with the values of LANES rows. */
INLINE vf sum_rows(vf lane[KVC_LANES]) {
    UNROLL
    for (unsigned w = KVC_LANES / 2; w > 0; w /= 2)
        for (unsigned i = 0; i < w; i++)
            lane[i] = vf_add(lane[i], lane[i + w]);
    return lane[0];
}

/* ---- chunk_mass ---- */

struct chunk_mass_job {
    struct kvc_cpu *cpu;
    const struct kvc_chunk_mass *args;
    uint32_t blocks_most, chunks_most, n; /* n: largest number of entries of a chunk */
};

struct chunk_work {
    const unsigned char **block;
    float *row;            /* [padded]: one key */
    float *keys;           /* [n / LANES, d, LANES] */
    float *s, *sum, *mass; /* [n rounded up to whole vectors] */
};

static size_t lay_out_chunk(const struct chunk_mass_job *job, struct chunk_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t d = job->args->lists->format.head_size, n = padded_size(job->n), f = sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->row = bump_take(&at, padded_size(d) * f);
    work->keys = bump_take(&at, n * d * f);
    work->s = bump_take(&at, n * f);
    work->sum = bump_take(&at, n * f);
    work->mass = bump_take(&at, n * f);
    return at.used;
}

/* Returns the index at which the first chunk begins. */
static uint32_t chunks_begin(const struct kvc_chunk_mass *args, const struct head_entries *head, uint32_t end) {
    uint32_t low = 0, high = head->count;
    if (args->queries == 0)
        return end;
    const int32_t position = ((const int32_t *)kvc_span_data(args->positions))[0];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (slot_position(head, head_slot(head, middle)) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return kvc_min_u32(kvc_max_u32(low, args->first), end);
}

/* Returns the queries [G, d] of the entry at this position. */
static const float *chunk_query(const struct kvc_chunk_mass *args, uint32_t h, int32_t position) {
    const int32_t *positions = kvc_span_data(args->positions);
    const size_t d = args->lists->format.head_size, group = args->heads / args->lists->kv_heads;
    uint32_t low = 0, high = args->queries - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (positions[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return (const float *)kvc_span_data(args->q) + ((size_t)low * args->heads + h * group) * d;
}

/* Transposes the keys of n indices from `from` on, so that a vector holds one channel of LANES keys. The last vector is
 * padded with +0. */
static void transpose_chunk(const struct kvc_lists *lists, const struct head_entries *head, uint32_t from, uint32_t n,
                            const struct chunk_work *work) {
    const size_t d = lists->format.head_size;
    for (uint32_t j = 0; j < n; j++) {
        dequantize_row(lists->format.key.type, work->row, slot_key(head, head_slot(head, from + j)), d);
        for (size_t c = 0; c < d; c++)
            work->keys[(j / LANES * d + c) * LANES + j % LANES] = work->row[c];
    }
    for (uint32_t j = n; j < padded_size(n); j++)
        for (size_t c = 0; c < d; c++)
            work->keys[(j / LANES * d + c) * LANES + j % LANES] = 0.0f;
}

/* Returns the dot products of q [d] with LANES keys [d, LANES]. */
INLINE vf chunk_dots(const float *keys, const float *q, size_t d) {
    vf lane[KVC_LANES];
    size_t k = KVC_LANES;
    UNROLL
    for (unsigned i = 0; i < KVC_LANES; i++)
        lane[i] = i < d ? vf_fma(vf_set(q[i]), vf_load(keys + i * LANES), vf_zero()) : vf_zero();
    for (; k + KVC_LANES <= d; k += KVC_LANES) {
        UNROLL
        for (unsigned i = 0; i < KVC_LANES; i++)
            lane[i] = vf_fma(vf_set(q[k + i]), vf_load(keys + (k + i) * LANES), lane[i]);
    }
    for (unsigned i = 0; k + i < d; i++)
        lane[i] = vf_fma(vf_set(q[k + i]), vf_load(keys + (k + i) * LANES), lane[i]);
    return sum_rows(lane);
}

/* Adds one query's attention probabilities of the chunk's n entries to sum. */
static void add_query_to_chunk(const float *q, uint32_t n, size_t d, const struct chunk_work *work) {
    float most[LANES], M = -kvc_infinity();
    vf high = vf_set(M), lane[LANE_VECTORS];
    for (uint32_t j = 0; j < n; j += LANES) {
        vf s = chunk_dots(work->keys + j * d, q, d);
        if (j + LANES > n)
            s = vf_select(vm_first(n - j), s, vf_set(-kvc_infinity()));
        vf_store(work->s + j, s);
        high = vf_max(high, s);
    }
    vf_store(most, high);
    for (unsigned i = 0; i < LANES; i++)
        M = kvc_max(M, most[i]);
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (uint32_t j = 0; j < n; j += LANES) {
        vf p = exp_any(vf_sub(vf_load(work->s + j), vf_set(M)));
        if (j + LANES > n)
            p = vf_select(vm_first(n - j), p, vf_zero());
        vf_store(work->s + j, p);
        lane[j / LANES % LANE_VECTORS] = vf_add(lane[j / LANES % LANE_VECTORS], p);
    }
    const vf L = vf_set(sum_lanes(lane));
    for (uint32_t j = 0; j < n; j += LANES)
        vf_store(work->sum + j, vf_add(vf_load(work->sum + j), vf_div(vf_load(work->s + j), L)));
}

static void chunk_mass_task(void *argument, size_t task, unsigned thread) {
    const struct chunk_mass_job *job = argument;
    const struct kvc_chunk_mass *args = job->args;
    const struct kvc_lists *lists = args->lists;
    const uint32_t h = (uint32_t)(task / job->chunks_most), number = (uint32_t)(task % job->chunks_most);
    const uint32_t base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    const size_t d = lists->format.head_size, group = args->heads / lists->kv_heads;
    float *column = (float *)lists->state->data + (size_t)lists->columns * base + (size_t)args->column * slots;
    struct chunk_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_chunk(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_chunk(job, &work, scratch);
    const struct head_entries head = head_open(lists, NULL, h, work.block);
    const uint32_t end = scored_end(lists, h, args->last), begin = chunks_begin(args, &head, end);
    if (number >= kvc_divide_up(end - begin, args->chunk))
        return;
    const uint32_t from = begin + number * args->chunk, n = kvc_min_u32(args->chunk, end - from);
    transpose_chunk(lists, &head, from, n, &work);
    memset(work.mass, 0, padded_size(n) * sizeof *work.mass);
    for (uint32_t i = 0; i < n; i++) {
        const float *q = chunk_query(args, h, slot_position(&head, head_slot(&head, from + i)));
        memset(work.sum, 0, padded_size(n) * sizeof *work.sum);
        for (size_t g = 0; g < group; g++)
            add_query_to_chunk(q + g * d, n, d, &work);
        for (uint32_t j = 0; j < n; j += LANES)
            vf_store(work.mass + j, vf_add(vf_load(work.mass + j), vf_load(work.sum + j)));
    }
    for (uint32_t j = 0; j < n; j++)
        column[head_slot(&head, from + j)] = kvc_div(work.mass[j], (float)group);
}

static void weigh_mass_task(void *argument, size_t task, unsigned thread) {
    const struct chunk_mass_job *job = argument;
    const struct kvc_chunk_mass *args = job->args;
    const struct kvc_lists *lists = args->lists;
    const uint32_t h = (uint32_t)task, base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    const float *column = (const float *)lists->state->data + (size_t)lists->columns * base;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct chunk_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_chunk(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_chunk(job, &work, scratch);
    const struct head_entries head = head_open(lists, NULL, h, work.block);
    const uint32_t end = scored_end(lists, h, args->last);
    column += (size_t)args->column * slots;
    for (uint32_t r = 0; r < head.count; r++)
        score[r] =
            r < args->first || r >= end
                ? 0.0f
                : column[head_slot(&head, r)] * kvc_sqrt(dot_row(lists->format.value.type, side_row(&head, r, true),
                                                                 NULL, lists->format.head_size));
}

static void chunk_mass(struct kvc_device *device, const struct kvc_chunk_mass *args) {
    struct chunk_mass_job job = {.cpu = (struct kvc_cpu *)device, .args = args};
    KVC_ASSERT(args->chunk > 0 && args->column < args->lists->columns);
    uint32_t most = 0;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++)
        most = kvc_max_u32(((const uint32_t *)args->lists->count->data)[h], most);
    job.n = kvc_min_u32(args->chunk, most);
    job.chunks_most = most / args->chunk + 1;
    const double d = args->lists->format.head_size, group = (double)args->heads / args->lists->kv_heads;
    const double work = entries_work(args->lists, group * job.n * (d * 1.5 + 60.0) / LANES, &job.blocks_most);
    kvc_threads_run(threads_for(job.cpu, work), (size_t)job.chunks_most * args->lists->kv_heads, chunk_mass_task, &job);
    const double weighed = entries_work(args->lists, d * 2.0 / LANES + 16.0, &job.blocks_most);
    if (args->scores.buffer)
        kvc_threads_run(threads_for(job.cpu, weighed), args->lists->kv_heads, weigh_mass_task, &job);
}

/* ---- leverage_scores ---- */

#define GRAM_ROWS 4u                /* number of rows of the Gram matrix that are computed together */
#define SOLVED_AT_ONCE (4u * LANES) /* number of indices whose triangular systems are solved together */

struct leverage_job {
    struct kvc_cpu *cpu;
    const struct kvc_leverage_scores *args;
    uint32_t blocks_most;
};

struct leverage_work {
    const unsigned char **block;
    float *x;           /* [n, padded]: keys rotated back, then with their mean subtracted, or weighted values; padding
                         * is +0 */
    float *mean, *tile; /* [padded] */
    float *gram;        /* [padded, padded]: first the Gram matrix, then its factor */
    float *y;           /* [d, SOLVED_AT_ONCE] */
    float *solved;      /* [SOLVED_AT_ONCE]: scores of one query head */
};

static size_t lay_out_leverage(const struct leverage_job *job, size_t count, struct leverage_work *work,
                               unsigned char *base) {
    struct bump at = {base, 0};
    const size_t padded = padded_size(job->args->lists->format.head_size), f = sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->x = bump_take(&at, count * padded * f);
    work->mean = bump_take(&at, padded * f);
    work->tile = bump_take(&at, padded * f);
    work->gram = bump_take(&at, padded * padded * f);
    work->y = bump_take(&at, padded * SOLVED_AT_ONCE * f);
    work->solved = bump_take(&at, SOLVED_AT_ONCE * f);
    return at.used;
}

/* Loads the key at an index and rotates it back. */
static void unrotated_key(const struct kvc_leverage_scores *args, const struct head_entries *head, uint32_t index,
                          float *x) {
    const uint32_t slot = head_slot(head, index);
    const size_t d = args->lists->format.head_size, half = args->cosine.buffer ? args->rotary / 2 : 0;
    const size_t row = half ? (size_t)slot_position(head, slot) * half : 0;
    const float *cosine = half ? (const float *)kvc_span_data(args->cosine) + row : NULL;
    const float *sine = half ? (const float *)kvc_span_data(args->sine) + row : NULL;
    dequantize_row(args->lists->format.key.type, x, slot_key(head, slot), d);
    for (size_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = kvc_fma(b, sine[i], a * cosine[i]);
        x[i + half] = kvc_fma(-a, sine[i], b * cosine[i]);
    }
}

/* Loads the keys of the indices begin .. end - 1 of a head and subtracts their mean. */
static void centred_keys(const struct kvc_leverage_scores *args, const struct head_entries *head, uint32_t begin,
                         uint32_t end, const struct leverage_work *work) {
    const size_t d = args->lists->format.head_size, padded = padded_size(d);
    memset(work->mean, 0, padded * sizeof *work->mean);
    memset(work->tile, 0, padded * sizeof *work->tile);
    for (uint32_t r = begin; r < end; r++) {
        float *x = work->x + (r - begin) * padded;
        unrotated_key(args, head, r, x);
        for (size_t c = 0; c < padded; c += LANES)
            vf_store(work->tile + c, vf_add(vf_load(work->tile + c), vf_load(x + c)));
        if (r % KVC_TILE != KVC_TILE - 1 && r + 1 != end)
            continue;
        for (size_t c = 0; c < padded; c += LANES)
            vf_store(work->mean + c, vf_add(vf_load(work->mean + c), vf_load(work->tile + c)));
        memset(work->tile, 0, padded * sizeof *work->tile);
    }
    const vf n = vf_set((float)(end - begin));
    for (size_t c = 0; c < padded; c += LANES)
        vf_store(work->mean + c, vf_div(vf_load(work->mean + c), n));
    for (uint32_t r = begin; r < end; r++)
        for (size_t c = 0; c < padded; c += LANES) {
            float *x = work->x + (r - begin) * padded + c;
            vf_store(x, vf_sub(vf_load(x), vf_load(work->mean + c)));
        }
}

/* Loads the values of the indices begin .. end - 1 of a head, each times its weight. */
static void weighted_values(const struct head_entries *head, const float *weight, uint32_t begin, uint32_t end,
                            const struct kvc_entry_format *format, const struct leverage_work *work) {
    const size_t padded = padded_size(format->head_size);
    for (uint32_t r = begin; r < end; r++) {
        float *x = work->x + (r - begin) * padded;
        dequantize_row(format->value.type, x, side_row(head, r, true), format->head_size);
        for (size_t c = 0; c < padded; c += LANES)
            vf_store(x + c, vf_mul(vf_load(x + c), vf_set(weight[r])));
    }
}

/* Adds the products of a tile's n rows x to the lower triangle of the Gram matrix, rounded up to whole vectors. */
static void add_gram(const float *x, uint32_t n, size_t d, float *gram) {
    const size_t padded = padded_size(d);
    for (size_t b = 0; b < d; b += GRAM_ROWS)
        for (size_t c = 0; c < b + GRAM_ROWS && c < d; c += LANES) {
            vf sum[GRAM_ROWS];
            UNROLL
            for (unsigned i = 0; i < GRAM_ROWS; i++)
                sum[i] = vf_zero();
            for (uint32_t r = 0; r < n; r++) {
                const vf e = vf_load(x + r * padded + c);
                UNROLL
                for (unsigned i = 0; i < GRAM_ROWS; i++)
                    sum[i] = vf_fma(vf_set(x[r * padded + b + i]), e, sum[i]);
            }
            UNROLL
            for (unsigned i = 0; i < GRAM_ROWS; i++) {
                float *to = gram + (b + i) * padded + c;
                vf_store(to, vf_add(vf_load(to), sum[i]));
            }
        }
}

/* Returns s minus the products of the first n values of two rows. */
INLINE float less_products(float s, const float *a, const float *b, size_t n) {
    for (size_t k = 0; k < n; k++)
        s = kvc_fma(-a[k], b[k], s);
    return s;
}

static void factor_gram(float *gram, size_t d, float ridge) {
    const size_t padded = padded_size(d);
    for (size_t b = 0; b < d; b++)
        gram[b * padded + b] = gram[b * padded + b] + ridge;
    for (size_t c = 0; c < d; c++) {
        float *row = gram + c * padded;
        const float pivot = less_products(row[c], row, row, c);
        row[c] = kvc_sqrt(pivot > ridge ? pivot : ridge);
        for (size_t b = c + 1; b < d; b++) {
            float *at = gram + b * padded;
            at[c] = kvc_div(less_products(at[c], at, row, c), row[c]);
        }
    }
}

/* Computes the scores of `n` rows x, at most SOLVED_AT_ONCE. */
static void solve_rows(const float *x, uint32_t n, size_t d, const struct leverage_work *work, float *score) {
    const size_t padded = padded_size(d);
    float *y = work->y;
    for (size_t c = 0; c < d; c++)
        for (uint32_t r = 0; r < SOLVED_AT_ONCE; r++)
            y[c * SOLVED_AT_ONCE + r] = r < n ? x[r * padded + c] : 0.0f;
    for (size_t b = 0; b < d; b++) {
        const float *row = work->gram + b * padded;
        vf s[4];
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            s[i] = vf_load(y + b * SOLVED_AT_ONCE + i * LANES);
        for (size_t k = 0; k < b; k++) {
            const vf a = vf_set(-row[k]);
            UNROLL
            for (unsigned i = 0; i < 4; i++)
                s[i] = vf_fma(a, vf_load(y + k * SOLVED_AT_ONCE + i * LANES), s[i]);
        }
        UNROLL
        for (unsigned i = 0; i < 4; i++)
            vf_store(y + b * SOLVED_AT_ONCE + i * LANES, vf_div(s[i], vf_set(row[b])));
    }
    for (uint32_t r = 0; r < n; r += LANES) {
        vf lane[KVC_LANES];
        float sums[LANES];
        for (unsigned i = 0; i < KVC_LANES; i++)
            lane[i] = vf_zero();
        for (size_t c = 0; c < d; c++) {
            const vf v = vf_load(y + c * SOLVED_AT_ONCE + r);
            lane[c % KVC_LANES] = vf_fma(v, v, lane[c % KVC_LANES]);
        }
        vf_store(sums, sum_rows(lane));
        memcpy(score + r, sums, kvc_min_u32(LANES, n - r) * sizeof *sums);
    }
}

/* Adds the leverage of the rows work->x, which belong to the indices begin .. end - 1, to score. */
static void add_leverages(uint32_t begin, uint32_t end, size_t d, float ridge, const struct leverage_work *work,
                          float *score) {
    const size_t padded = padded_size(d);
    memset(work->gram, 0, padded * padded * sizeof *work->gram);
    for (uint32_t r = begin, next; r < end; r = next) {
        next = kvc_min_u32(r - r % KVC_TILE + KVC_TILE, end);
        add_gram(work->x + (r - begin) * padded, next - r, d, work->gram);
    }
    factor_gram(work->gram, d, ridge);
    for (uint32_t r = begin, some; r < end; r += some) {
        some = kvc_min_u32(SOLVED_AT_ONCE, end - r);
        solve_rows(work->x + (r - begin) * padded, some, d, work, work->solved);
        for (uint32_t i = 0; i < some; i++)
            score[r + i] = score[r + i] + work->solved[i];
    }
}

static void leverage_task(void *argument, size_t task, unsigned thread) {
    const struct leverage_job *job = argument;
    const struct kvc_leverage_scores *args = job->args;
    const uint32_t h = (uint32_t)task, end = scored_end(args->lists, h, args->last);
    const uint32_t begin = kvc_min_u32(args->first, end), count = ((const uint32_t *)args->lists->count->data)[h];
    const size_t d = args->lists->format.head_size;
    float *score = (float *)kvc_span_data(args->scores) + task * args->stride;
    struct leverage_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_leverage(job, end - begin, &work, NULL));
    if (!scratch)
        return;
    lay_out_leverage(job, end - begin, &work, scratch);
    memset(score, 0, count * sizeof *score);
    if (begin == end)
        return;
    const struct head_entries head = head_open(args->lists, NULL, h, work.block);
    const size_t group = args->weights.buffer ? args->heads / args->lists->kv_heads : 1;
    const float *weight = args->weights.buffer ? kvc_span_data(args->weights) : NULL;
    for (size_t g = 0; g < group; g++) {
        if (weight)
            weighted_values(&head, weight + (task * group + g) * args->stride, begin, end, &args->lists->format, &work);
        else
            centred_keys(args, &head, begin, end, &work);
        add_leverages(begin, end, d, args->ridge, &work, score);
    }
    for (uint32_t r = begin; r < end; r++)
        score[r] = kvc_div(score[r], (float)group);
}

static void leverage_scores(struct kvc_device *device, const struct kvc_leverage_scores *args) {
    struct leverage_job job = {(struct kvc_cpu *)device, args, 0};
    KVC_ASSERT(!args->cosine.buffer == !args->sine.buffer);
    const double group = args->weights.buffer ? (double)args->heads / args->lists->kv_heads : 1.0;
    const double d = args->lists->format.head_size, each = group * ((d * d + 8.0 * d) / LANES + 30.0);
    const double work = entries_work(args->lists, each, &job.blocks_most) + args->lists->kv_heads * group * d * d * d;
    kvc_threads_run(threads_for(job.cpu, work), args->lists->kv_heads, leverage_task, &job);
}

/* ---- standard_mix: a few passes over the scores, on the caller's thread ---- */

struct standard { /* a mean and a standard deviation */
    float mean, spread;
};

/* Returns the 32-lane sum of x over indices low .. high - 1 of one tile. If `squares` is true, sums (x - mean)^2
 * instead. */
static float sum_tile(const float *x, uint32_t low, uint32_t high, bool squares, float mean) {
    float lane[KVC_LANES] = {0};
    for (uint32_t r = low; r < high; r++) {
        const float e = x[r] - mean;
        lane[r % KVC_LANES] = squares ? kvc_fma(e, e, lane[r % KVC_LANES]) : lane[r % KVC_LANES] + x[r];
    }
    KVC_TREE32(lane);
    return lane[0];
}

static float sum_lists(const struct kvc_standard_mix *args, struct kvc_span x, bool squares, float mean) {
    float all = 0.0f;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t end = scored_end(args->lists, h, args->last);
        const float *from = (const float *)kvc_span_data(x) + (size_t)h * args->stride;
        float sum = 0.0f;
        for (uint32_t r = kvc_min_u32(args->first, end), next; r < end; r = next) {
            next = kvc_min_u32(r - r % KVC_TILE + KVC_TILE, end);
            sum = sum + sum_tile(from, r, next, squares, mean);
        }
        all = all + sum;
    }
    return all;
}

static struct standard standard_of(const struct kvc_standard_mix *args, struct kvc_span x) {
    struct standard z = {0.0f, 0.0f};
    uint32_t n = 0;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t end = scored_end(args->lists, h, args->last);
        n += end - kvc_min_u32(args->first, end);
    }
    z.mean = kvc_div(sum_lists(args, x, false, 0.0f), (float)n);
    z.spread = kvc_sqrt(kvc_div(sum_lists(args, x, true, z.mean), (float)(n > 1 ? n - 1 : n)));
    z.spread = z.spread > 1e-6f ? z.spread : 1e-6f;
    return z;
}

static void standard_mix(struct kvc_device *device, const struct kvc_standard_mix *args) {
    const struct standard lever = standard_of(args, args->leverage), mass = standard_of(args, args->scores);
    (void)device;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        const uint32_t end = scored_end(args->lists, h, args->last), begin = kvc_min_u32(args->first, end);
        const uint32_t count = ((const uint32_t *)args->lists->count->data)[h];
        const float *leverage = (const float *)kvc_span_data(args->leverage) + (size_t)h * args->stride;
        float *score = (float *)kvc_span_data(args->scores) + (size_t)h * args->stride;
        memset(score, 0, begin * sizeof *score);
        memset(score + end, 0, (count - end) * sizeof *score);
        for (uint32_t r = begin; r < end; r += LANES) {
            const size_t n = kvc_min_u32(LANES, end - r);
            const vf x = vf_part_load(score + r, n), y = vf_part_load(leverage + r, n);
            vf a = vf_div(vf_sub(x, vf_set(mass.mean)), vf_set(mass.spread));
            a = vf_select(vf_equal(x, vf_zero()), vf_zero(), a);
            const vf z = vf_div(vf_sub(y, vf_set(lever.mean)), vf_set(lever.spread));
            vf_part_store(score + r, vf_fma(vf_set(args->share), z, a), n);
        }
    }
}

#endif
