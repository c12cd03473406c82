/* cache.h - template: operations that change cache lists: append, drop, evict, identity, relayout. */
#ifndef KVC_SIMD_CACHE_H
#define KVC_SIMD_CACHE_H

#include "core/base/integers.h"
#include "backends/cpu/simd/scores/score_memo.h"

INLINE uint32_t slots_of(const struct kvc_lists *lists, uint32_t h) {
    return lists->host_base[h + 1] - lists->host_base[h];
}

/* Returns column 0 of head h's state. The next column begins slots_of(h) floats later. */
INLINE float *state_of(const struct kvc_lists *lists, uint32_t h) {
    return (float *)lists->state->data + (size_t)lists->columns * lists->host_base[h];
}

/* ---- append ---- */

/* Converts x [d] to F16 and stores it in row. Returns the number of values that saturated. */
static uint32_t store_halves(unsigned char *row, const float *x, size_t d) {
    uint32_t saturated = 0;
    size_t c = 0;
    const vi magnitude = vi_set(INT32_MAX), least = vi_set(0x477ff000 - 1), most = vi_set(0x7f800001);
    for (; c + LANES <= d; c += LANES) {
        const vf value = vf_load(x + c);
        const vi a = vi_and(vf_bits(value), magnitude);
        const vm above = vm_and(vi_greater(a, least), vi_greater(most, a));
        const unsigned bits = vm_bits(above);
        if (bits) { /* saturate to 65504 with the sign of the value */
            const vi sign = vi_and(vf_bits(value), vi_set(INT32_MIN));
            vf_store_f16(row + 2 * c, vf_from_bits(vi_select(above, vi_or(sign, vi_set(0x477fe000)), vf_bits(value))));
            saturated += (uint32_t)__builtin_popcount(bits);
        } else {
            vf_store_f16(row + 2 * c, value);
        }
    }
    for (; c < d; c++) {
        const kvc_u16 half = kvc_f16_store(x[c]);
        memcpy(row + 2 * c, &half, sizeof half);
        saturated += kvc_f16_saturates(x[c]) ? 1 : 0;
    }
    return saturated;
}

/* Stores x [n] as one group of Q8_0. Returns 1 if the scale saturated. */
static uint32_t store_group(unsigned char *group, const float *x, size_t n) {
    float amax = 0.0f;
    bool nan = false;
    kvc_u16 half = KVC_Q8_NAN_SCALE;
    if (n == KVC_Q8_GROUP) {
        vf top = vf_zero();
        vm nans = vf_is_nan(top);
        UNROLL
        for (size_t c = 0; c < KVC_Q8_GROUP; c += LANES) {
            const vf a = vf_from_bits(vi_and(vf_bits(vf_load(x + c)), vi_set(INT32_MAX)));
            nans = vm_or(nans, vf_is_nan(a));
            top = vf_max(a, top);
        }
        float lane[LANES];
        vf_store(lane, top);
        UNROLL
        for (unsigned i = 0; i < LANES; i++)
            amax = kvc_max(lane[i], amax);
        nan = vm_bits(nans) != 0;
    } else {
        for (size_t c = 0; c < n; c++) {
            amax = kvc_q8_amax(amax, x[c]);
            nan = nan || kvc_is_nan(x[c]);
        }
    }
    if (!nan)
        half = kvc_q8_scale(amax);
    const float scale = half_load(&half);
    memcpy(group, &half, sizeof half);
    if (nan || scale == 0.0f) {
        memset(group + 2, 0, n);
        return 0;
    }
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        const vf limit = vf_set(127.0f), least = vf_set(-127.0f), magic = vf_set(KVC_ROUND_MAGIC);
        vf v = vf_div(vf_load(x + c), vf_set(scale));
        v = vf_select(vf_less(limit, v), limit, v);
        v = vf_select(vf_less(v, least), least, v);
        v = vf_add(v, magic); /* the low bits of the float v are now the rounded integer */
        vi_store_i8(group + 2 + c, vi_sub(vf_bits(v), vf_bits(magic)));
    }
    for (; c < n; c++)
        group[2 + c] = (unsigned char)kvc_q8_quant(x[c], scale);
    return kvc_q8_saturates(amax) ? 1 : 0;
}

/* Finds the smallest and the largest of x [n]. Returns true if x has a NaN; the results are undefined then. */
INLINE bool group_range(const float *x, size_t n, float *least, float *largest) {
    bool nan = false;
    *least = *largest = x[0];
    if (n == KVC_ENTRY_GROUP) {
        vf low = vf_load(x), high = low;
        vm nans = vf_is_nan(low);
        float lane[2][LANES];
        UNROLL
        for (unsigned c = LANES; c < KVC_ENTRY_GROUP; c += LANES) {
            const vf value = vf_load(x + c);
            nans = vm_or(nans, vf_is_nan(value));
            low = vf_select(vf_less(value, low), value, low);
            high = vf_select(vf_less(high, value), value, high);
        }
        vf_store(lane[0], low);
        vf_store(lane[1], high);
        UNROLL
        for (unsigned i = 0; i < LANES; i++) {
            *least = lane[0][i] < *least ? lane[0][i] : *least;
            *largest = lane[1][i] > *largest ? lane[1][i] : *largest;
        }
        return vm_bits(nans) != 0;
    }
    for (size_t e = 0; e < n; e++) {
        *least = x[e] < *least ? x[e] : *least;
        *largest = x[e] > *largest ? x[e] : *largest;
        nan = nan || kvc_is_nan(x[e]);
    }
    return nan;
}

/* The numbers of kvc_iq4_value, and the midpoints between them. */
static const float q4h_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const float q4h_middles[19] = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19,
                                      31.5f,   45.5f,  61,  79,  101, 0,      0,   0,     0};

/* Returns to[c] [16] for each lane of v, where c is the number of the midpoints below it. */
INLINE vf look_up(vf v, const float *to) {
#if LANES == 16 /* a binary search */
    vi c = _mm512_maskz_set1_epi32(vf_less(vf_set(q4h_middles[7]), v), 8);
    UNROLL
    for (int step = 4; step > 0; step /= 2) {
        const vf middle = _mm512_permutexvar_ps(c, vf_load(q4h_middles + step - 1));
        c = _mm512_mask_add_epi32(c, vf_less(middle, v), c, vi_set(step));
    }
    return _mm512_permutexvar_ps(c, vf_load(to));
#else
    vf found = vf_set(to[0]);
    UNROLL
    for (int i = 0; i < 15; i++)
        found = vf_select(vf_less(vf_set(q4h_middles[i]), v), vf_set(to[i + 1]), found);
    return found;
#endif
}

/* Does the same as kvc_q4h_best. A lane computes the error of one scale. */
static float q4h_best(const float *x, size_t n, float top) {
    enum { COUNT = KVC_Q4H_SCALES > LANES ? KVC_Q4H_SCALES : LANES };
    float scale[COUNT], inverse[COUNT], sum[COUNT];
    int best = 0;
    for (int i = 0; i < COUNT; i++) {
        scale[i] = kvc_f16_to_f32(kvc_group_scale(top, kvc_q4h_divisor(i % KVC_Q4H_SCALES)));
        inverse[i] = kvc_q4h_inverse(scale[i]);
    }
    for (int i = 0; i < KVC_Q4H_SCALES; i += LANES) {
        const vf times = vf_load(scale + i), by = vf_load(inverse + i);
        vf squares = vf_zero();
        for (size_t e = 0; e < n; e++) {
            const vf off = vf_sub(vf_set(x[e]), vf_mul(times, look_up(vf_mul(vf_set(x[e]), by), q4h_values)));
            squares = vf_fma(off, off, squares);
        }
        vf_store(sum + i, squares);
    }
    for (int i = 1; i < KVC_Q4H_SCALES; i++)
        best = sum[i] < sum[best] ? i : best;
    return kvc_q4h_divisor(best);
}

/* Writes the codes of n values in Q4H. */
static void q4h_codes(const float *x, size_t n, float inverse, kvc_i8 *code) {
    static const float number[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t e = 0;
    for (; inverse != 0.0f && e + LANES <= n; e += LANES) {
        float whole[LANES];
        vf_store(whole, look_up(vf_mul(vf_load(x + e), vf_set(inverse)), number));
        UNROLL
        for (unsigned i = 0; i < LANES; i++)
            code[e + i] = (kvc_i8)whole[i];
    }
    for (; e < n; e++)
        code[e] = (kvc_i8)kvc_q4h_code(x[e], inverse);
}

/* Writes the codes of n values. A code is a quant plus `offset`. */
static void group_codes(enum kvc_type type, const float *x, size_t n, float scale, float minimum, int offset,
                        kvc_i8 *code) {
    const float low = type == KVC_Q4_1 ? 0.0f : (float)-offset, high = type == KVC_Q4_1 ? 15.0f : (float)(offset - 1);
    const vf limit = vf_set(high), least = vf_set(low), magic = vf_set(KVC_ROUND_MAGIC);
    size_t e = 0;
    if (type == KVC_Q4H) {
        q4h_codes(x, n, kvc_q4h_inverse(scale), code);
        return;
    }
    if (type == KVC_IQ4_NL || scale == 0.0f || kvc_is_nan(scale)) {
        for (; e < n; e++)
            code[e] = (kvc_i8)(type == KVC_IQ4_NL ? kvc_group_iq4(x[e], scale) : offset);
        return;
    }
    for (; e + LANES <= n; e += LANES) {
        int32_t whole[LANES];
        vf v = vf_div(vf_sub(vf_load(x + e), vf_set(minimum)), vf_set(scale));
        v = vf_select(vf_less(limit, v), limit, v);
        v = vf_select(vf_less(v, least), least, v);
        vi_store(whole, vi_sub(vf_bits(vf_add(v, magic)), vf_bits(magic)));
        UNROLL
        for (unsigned i = 0; i < LANES; i++)
            code[e + i] = (kvc_i8)(whole[i] + offset);
    }
    for (; e < n; e++)
        code[e] = (kvc_i8)(kvc_group_quant(x[e] - minimum, scale, low, high) + offset);
}

/* Stores x [n] as one group in a type of fewer than eight bits. Returns 1 if the scale or the minimum saturated,
 * otherwise 0. */
static uint32_t store_packed(enum kvc_type type, unsigned char *group, const float *x, size_t n) {
    const int offset = type == KVC_Q5H ? 16 : type == KVC_Q6H ? 32 : type == KVC_Q4_1 ? 0 : 8;
    float least, largest, minimum = 0.0f;
    kvc_i8 code[KVC_ENTRY_GROUP] = {0};
    const bool nan = group_range(x, n, &least, &largest);
    const float top = type == KVC_Q4_1 ? largest - least : kvc_group_top(least, largest);
    const float by = type == KVC_Q4H      ? q4h_best(x, n, top)
                     : type == KVC_Q4_1   ? 15.0f
                     : type == KVC_IQ4_NL ? -127.0f
                                          : (float)-offset;
    const kvc_u16 half = nan ? KVC_Q8_NAN_SCALE : kvc_group_scale(top, by);
    memcpy(group, &half, sizeof half);
    unsigned char *q = group + 2;
    bool saturates = kvc_group_saturates(top, by);
    if (type == KVC_Q4_1) {
        const kvc_u16 bits = nan ? KVC_Q8_NAN_SCALE : kvc_f16_store(least);
        memcpy(q, &bits, sizeof bits);
        minimum = half_load(q);
        saturates = saturates || kvc_f16_saturates(least);
        q += 2;
    }
    group_codes(type, x, n, half_load(group), minimum, offset, code);
    const size_t low = kvc_min_u64(n, 16);
    for (size_t e = 0; e < low; e++)
        q[e] = (unsigned char)((code[e] & 15) | (code[16 + e] & 15) << 4);
    q += low;
    if (type == KVC_Q5H) {
        memset(q, 0, 4);
        for (size_t e = 0; e < n; e++)
            q[e / 8] = (unsigned char)(q[e / 8] | code[e] >> 4 << e % 8);
    } else if (type == KVC_Q6H) {
        memset(q, 0, 8);
        for (size_t e = 0; e < n; e++)
            q[e % 8] = (unsigned char)(q[e % 8] | code[e] >> 4 << e / 8 * 2);
    }
    return !nan && saturates;
}

static uint32_t store_row(enum kvc_type type, unsigned char *row, const float *x, size_t d) {
    uint32_t saturated = 0;
    if (type == KVC_F32) {
        memcpy(row, x, d * sizeof *x);
        return 0;
    }
    if (type == KVC_F16)
        return store_halves(row, x, d);
    if (type == KVC_BF16) {
        for (size_t c = 0; c < d; c++) {
            const kvc_u16 bits = kvc_f32_to_bf16(x[c]);
            memcpy(row + 2 * c, &bits, sizeof bits);
        }
        return 0;
    }
    const size_t bytes = kvc_entry_group_bytes(type);
    for (size_t c = 0; c < d && type != KVC_Q8_0; c += KVC_ENTRY_GROUP, row += bytes)
        saturated += store_packed(type, row, x + c, kvc_min_u64(d - c, KVC_ENTRY_GROUP));
    if (type != KVC_Q8_0)
        return saturated;
    for (size_t c = 0; c < d; c += KVC_Q8_GROUP)
        saturated += store_group(row + c / KVC_Q8_GROUP * Q8_BYTES, x + c, kvc_min_u64(d - c, KVC_Q8_GROUP));
    return saturated;
}

struct append_job {
    struct kvc_cpu *cpu;
    const struct kvc_segment *segments;
    size_t segment_count;
    const float *k, *v;
    const int32_t *positions;
};

/* Zeroes the state of `n` entries in consecutive slots, one column after another, because columns lie far apart. */
static void empty_state(const struct kvc_lists *lists, uint32_t h, uint32_t slot, uint32_t n) {
    const uint32_t slots = slots_of(lists, h);
    float *state = lists->state && n ? state_of(lists, h) + slot : NULL;
    KVC_ASSERT(!n || slot + n <= slots);
    for (uint32_t c = 0; state && c < lists->columns; c++)
        if (n == 1)
            state[(size_t)c * slots] = 0.0f;
        else
            memset(state + (size_t)c * slots, 0, n * sizeof *state);
}

static void append_task(void *argument, size_t task, unsigned thread) {
    const struct append_job *job = argument;
    const uint32_t h = (uint32_t)task;
    uint64_t saturated = 0;
    (void)thread;
    for (size_t i = 0; i < job->segment_count; i++) {
        const struct kvc_segment *segment = &job->segments[i];
        struct kvc_lists *lists = segment->lists;
        const uint32_t slots = h < lists->kv_heads ? kvc_slots_hold(slots_of(lists, h)) : 0;
        const uint32_t d = lists->format.head_size;
        /* a run of consecutive slots whose state is not zeroed yet */
        uint32_t *count = (uint32_t *)lists->count->data + h, first = 0, run = 0;
        for (uint32_t r = 0; r < segment->stored && h < lists->kv_heads; r++) {
            const size_t row = segment->row + r, at = (row * lists->kv_heads + h) * d;
            if (*count >= slots) {
                kvc_cpu_failed(job->cpu, KVC_RESOURCE, "append: head %u has no free slot among %u", (unsigned)h,
                               (unsigned)slots);
                break;
            }
            const uint32_t slot = kvc_list_slot(lists, h, *count);
            KVC_ASSERT(slot < slots_of(lists, h));
            if (lists->position)
                ((int32_t *)lists->position->data)[lists->host_base[h] + slot] = job->positions[row];
            saturated += store_row(lists->format.key.type, kvc_list_key(lists, h, slot), job->k + at, d);
            saturated += store_row(lists->format.value.type, kvc_list_value(lists, h, slot), job->v + at, d);
            if (slot != first + run) {
                empty_state(lists, h, first, run);
                first = slot;
                run = 0;
            }
            run++;
            *count += 1;
        }
        empty_state(lists, h, first, run);
    }
    if (saturated)
        __atomic_fetch_add(&job->cpu->device.saturated, saturated, __ATOMIC_RELAXED);
}

static void append(struct kvc_device *device, const struct kvc_append *args) {
    struct append_job job = {(struct kvc_cpu *)device, args->segments,         args->segment_count,
                             kvc_span_data(args->k),   kvc_span_data(args->v), kvc_span_data(args->positions)};
    uint32_t heads = 0;
    double work = 0.0;
    for (size_t i = 0; i < args->segment_count; i++) {
        const struct kvc_lists *lists = args->segments[i].lists;
        memo_forget(job.cpu, lists);
        heads = kvc_max_u32(lists->kv_heads, heads);
        work += (double)args->segments[i].stored * lists->kv_heads *
                (lists->format.head_size * (kvc_entry_group_bytes(lists->format.key.type) ? 16.0 : 4.0) / LANES +
                 lists->columns);
    }
    kvc_threads_run(threads_for(job.cpu, work), heads, append_task, &job);
}

static void drop(struct kvc_device *device, const struct kvc_drop *args) {
    struct kvc_lists *lists = args->lists;
    uint32_t *count = lists->count->data;
    memo_forget((struct kvc_cpu *)device, lists);
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        count[h] -= kvc_min_u32(args->rows, count[h]);
}

/* ---- evict ---- */

/* Returns the number of consecutive indices at the start of indices [n]. */
static uint32_t run_length(const uint32_t *indices, uint32_t n) {
    uint32_t good = 1, step = 1; /* indices ascend, so n of them are consecutive if last - first == n - 1 */
    if (indices[n - 1] - indices[0] == n - 1)
        return n;
    while (good + step <= n && indices[good + step - 1] - indices[0] == good + step - 1) {
        good += step;
        step *= 2;
    }
    for (; step > 0; step /= 2)
        if (good + step <= n && indices[good + step - 1] - indices[0] == good + step - 1)
            good += step;
    return good;
}

static void evict(struct kvc_device *device, const struct kvc_evict *args) {
    struct kvc_lists *lists = args->lists;
    memo_forget((struct kvc_cpu *)device, lists);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t *count = (uint32_t *)lists->count->data + h, *order, *evicted, gone = 0, next = 0, index = 0;
        const uint32_t kept_count = ((const uint32_t *)args->kept->count->data)[h];
        const uint32_t *indices = (const uint32_t *)args->kept->index->data + (size_t)h * args->kept->stride;
        if (kept_count == *count)
            continue;
        KVC_ASSERT(kept_count < *count && kept_count <= args->kept->stride);
        if (!lists->order) {
            kvc_cpu_failed((struct kvc_cpu *)device, KVC_RESOURCE, "evict: the lists have no order yet");
            return;
        }
        evicted = kvc_cpu_scratch((struct kvc_cpu *)device, 0, *count * sizeof *evicted);
        if (!evicted)
            return;
        order = (uint32_t *)lists->order->data + lists->host_base[h];
        while (next < kept_count) {
            const uint32_t run = run_length(indices + next, kept_count - next), first = indices[next];
            for (; index < first; index++)
                evicted[gone++] = order[index];
            if (next != first)
                memmove(order + next, order + first, run * sizeof *order);
            next += run;
            index = first + run;
        }
        for (; index < *count; index++)
            evicted[gone++] = order[index];
        KVC_ASSERT(next == kept_count && next + gone == *count); /* the kept indices ascend */
        memcpy(order + next, evicted, gone * sizeof *order);
        *count = next;
    }
}

static void identity(struct kvc_device *device, const struct kvc_identity *args) {
    KVC_ASSERT(args->lists->order && args->lists->position);
    struct kvc_lists *lists = args->lists;
    memo_forget((struct kvc_cpu *)device, lists);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t *order = (uint32_t *)lists->order->data + lists->host_base[h], s = 0;
        int32_t *position = (int32_t *)lists->position->data + lists->host_base[h];
        const uint32_t slots = slots_of(lists, h); /* a multiple of KVC_EXTRA_SLOTS, so the loop stores whole vectors */
        KVC_ASSERT(slots % LANES == 0);
        for (; s < slots; s += LANES) {
            const vi number = vi_add(vi_ascending(), vi_set((int32_t)s));
            vi_store(order + s, number);
            vi_store(position + s, number);
        }
    }
}

/* ---- relayout ---- */

struct relayout_job {
    struct kvc_cpu *cpu;
    struct kvc_lists *dst;
    const struct kvc_lists *src;
    uint32_t slots_most, count_most;
};

static void relayout_task(void *argument, size_t task, unsigned thread) {
    const struct relayout_job *job = argument;
    struct kvc_lists *dst = job->dst;
    const struct kvc_lists *src = job->src;
    const uint32_t h = (uint32_t)task, slots = slots_of(dst, h), had = slots_of(src, h);
    const uint32_t count = ((const uint32_t *)src->count->data)[h], kept_slots = kvc_slots_kept(slots, had);
    const uint32_t *from = src->order ? (const uint32_t *)src->order->data + src->host_base[h] : NULL;
    if (count > kvc_slots_hold(slots)) {
        kvc_cpu_failed(job->cpu, KVC_RESOURCE, "relayout: %u entries do not fit %u slots", (unsigned)count,
                       (unsigned)slots);
        return;
    }
    memcpy((uint32_t *)dst->blocks->data + kvc_first_block(dst->host_base[h], h),
           (const uint32_t *)src->blocks->data + kvc_first_block(src->host_base[h], h),
           kvc_slots_blocks(kept_slots) * sizeof(uint32_t));
    ((uint32_t *)dst->count->data)[h] = count;
    if (!dst->order && count <= kept_slots) { /* no entry moves, and no table contains slot numbers */
        for (uint32_t c = 0; dst->state && src->state && c < dst->columns; c++)
            memcpy(state_of(dst, h) + (size_t)c * slots, state_of(src, h) + (size_t)c * had, count * sizeof(float));
        return;
    }
    uint32_t *to = kvc_cpu_scratch(job->cpu, thread, job->count_most * sizeof *to + job->slots_most * sizeof(bool));
    if (!to)
        return;
    bool *used = (bool *)(to + job->count_most);
    memset(used, 0, slots * sizeof *used);
    for (uint32_t r = 0; r < count; r++) {
        to[r] = from ? from[r] : r;
        if (to[r] < kept_slots)
            used[to[r]] = true;
    }
    for (uint32_t r = 0, lowest = 0; r < count; r++) {
        const uint32_t slot = to[r];
        if (slot < kept_slots)
            continue;
        while (used[lowest])
            lowest++;
        KVC_ASSERT(lowest < slots);
        to[r] = lowest;
        used[lowest] = true;
        memcpy(kvc_list_key(dst, h, lowest), kvc_list_key(src, h, slot), src->format.key.bytes);
        memcpy(kvc_list_value(dst, h, lowest), kvc_list_value(src, h, slot), src->format.value.bytes);
    }
    for (uint32_t c = 0; dst->state && src->state && c < dst->columns; c++) {
        float *column = state_of(dst, h) + (size_t)c * slots;
        const float *old = state_of(src, h) + (size_t)c * had;
        for (uint32_t r = 0; r < count; r++)
            column[to[r]] = old[from ? from[r] : r];
    }
    if (dst->position) {
        int32_t *position = (int32_t *)dst->position->data + dst->host_base[h];
        for (uint32_t r = 0; r < count; r++)
            position[to[r]] = kvc_list_position(src, h, from ? from[r] : r);
    }
    if (dst->order) {
        uint32_t *order = (uint32_t *)dst->order->data + dst->host_base[h];
        memcpy(order, to, count * sizeof *order);
        order += count;
        for (uint32_t s = 0; s < slots; s++)
            if (!used[s])
                *order++ = s;
        KVC_ASSERT(order == (const uint32_t *)dst->order->data + dst->host_base[h] + slots);
    }
}

static void relayout(struct kvc_device *device, const struct kvc_relayout *args) {
    struct kvc_lists *dst = args->dst;
    const struct kvc_lists *src = args->src;
    struct relayout_job job = {.cpu = (struct kvc_cpu *)device, .dst = dst, .src = src};
    KVC_ASSERT(dst->kv_heads == src->kv_heads && (dst->order || !src->order));
    double work = 0.0;
    memo_forget(job.cpu, src);
    memo_forget(job.cpu, dst);
    for (uint32_t h = 0; h < src->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)src->count->data)[h], slots = slots_of(dst, h);
        job.count_most = kvc_max_u32(count, job.count_most);
        job.slots_most = kvc_max_u32(slots, job.slots_most);
        work += count * (4.0 + dst->columns + (slots < slots_of(src, h) ? kvc_entry_bytes(&src->format) / 32.0 : 0.0));
    }
    kvc_threads_run(threads_for(job.cpu, work), src->kv_heads, relayout_task, &job);
}

#endif
