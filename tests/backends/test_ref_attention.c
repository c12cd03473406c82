/* test_ref_attention.c - reference attention, and the attention probabilities for policies, against softmax in double
 * precision. */
#include "tests/backends/ref_fixture.h"

/* ---- attention and probabilities, against double ---- */

struct rows {
    struct kvc_lists lists;
    struct kvc_arena *arena;
    uint32_t heads, rows, window;
    const struct kvc_read_list *reads;
    struct kvc_span q, out, M, L, positions, causal_offset, keys[HEADS], values[HEADS];
    struct kvc_scoring scoring;
    struct kvc_span sinks; /* [heads], or empty */
};

/* Lists of `entries` entries with every third one evicted, and rows that attend to them. */
static struct rows make_rows(uint32_t entries, uint32_t group, uint32_t row_count, enum kvc_type type,
                             uint32_t columns) {
    struct rows r = {.heads = HEADS * group, .rows = row_count};
    struct kvc_span k = values((size_t)entries * HEADS * D), v = values((size_t)entries * HEADS * D);
    uint32_t kept_indices[SLOTS], n = 0;
    struct kvc_read_list kept;
    r.lists = make_lists(type, columns, true, &r.arena);
    append(&r.lists, entries, 0, k, v);
    for (uint32_t i = 0; i < entries; i++)
        if (i % 3 != 1)
            kept_indices[n++] = i;
    kept = indices(kept_indices, n, kept_indices,
                   n > 5 ? n - 5 : n); /* head 1 also loses its newest entries, so that heads differ */
    OPS->evict(device, &(struct kvc_evict){.lists = &r.lists, .kept = &kept});
    r.q = values((size_t)row_count * r.heads * D);
    r.out = buffer((size_t)row_count * r.heads * D * 4);
    r.M = buffer((size_t)row_count * r.heads * 4);
    r.L = buffer((size_t)row_count * r.heads * 4);
    r.positions = buffer(row_count * 4);
    r.causal_offset = buffer(row_count * 4);
    for (uint32_t i = 0; i < row_count; i++) {
        ((int32_t *)kvc_span_data(r.positions))[i] = (int32_t)(entries - row_count + i);
        ((uint32_t *)kvc_span_data(r.causal_offset))[i] = row_count - 1 - i;
    }
    for (uint32_t h = 0; h < HEADS; h++) {
        r.keys[h] = buffer(SLOTS * D * 4);
        r.values[h] = buffer(SLOTS * D * 4);
        OPS->entries(device,
                     &(struct kvc_entries){.lists = &r.lists, .head = h, .keys = r.keys[h], .values = r.values[h]});
    }
    return r;
}

static bool sees(const struct rows *r, uint32_t row, uint32_t h, uint32_t index) {
    uint32_t causal_offset = ((const uint32_t *)kvc_span_data(r->causal_offset))[row];
    int32_t position = ((const int32_t *)kvc_span_data(r->positions))[row];
    if (index + causal_offset >= count_of(&r->lists, h))
        return false;
    if (r->window && position_of(&r->lists, h, index) <= position - (int32_t)r->window)
        return false;
    if (r->reads) {
        const uint32_t *list = (const uint32_t *)r->reads->index->data + (size_t)h * r->reads->stride;
        for (uint32_t i = 0; i < ((const uint32_t *)r->reads->count->data)[h]; i++)
            if (list[i] == index)
                return true;
        return false;
    }
    return true;
}

/* Channel c of a query, rounded to eight bits if entries are multiplied as integers. */
static double query_channel(const struct rows *r, const float *q, uint32_t c) {
    double top = 0;
    if (!kvc_scores_integers(r->scoring, &r->lists.format))
        return q[c];
    for (uint32_t i = 0; i < D; i++)
        top = fmax(top, fabs((double)q[i]));
    return rint(q[c] * 127 / top) * top / 127;
}

/* The largest error of an output of `seen` entries. As integers, each weight is rounded to half a unit of 14 bits. */
static double output_error(const struct rows *r, uint32_t h, uint32_t seen, double L) {
    double top = 0;
    for (uint32_t i = 0; kvc_scores_integers(r->scoring, &r->lists.format) && i < count_of(&r->lists, h) * D; i++)
        top = fmax(top, fabs((double)floats(r->values[h])[i]));
    return 1e-5 + seen * 0.5 * top / 16383 / L;
}

/* Scores and probabilities of one row and query head in double, 0 for entries that are not visible. Returns the number
 * of visible entries. */
static uint32_t exact_probabilities(const struct rows *r, uint32_t row, uint32_t head, double *score,
                                    double *probability, double *M, double *L) {
    uint32_t h = head / (r->heads / HEADS), n = count_of(&r->lists, h), seen = 0;
    const float *q = floats(r->q) + ((size_t)row * r->heads + head) * D;
    *M = -INFINITY;
    *L = 0;
    for (uint32_t i = 0; i < n; i++) {
        score[i] = 0;
        for (int c = 0; c < D; c++)
            score[i] += query_channel(r, q, (uint32_t)c) * floats(r->keys[h])[i * D + (uint32_t)c] *
                        (r->scoring.scale != 0.0f ? (double)r->scoring.scale : 1 / sqrt(D));
        if (r->scoring.cap != 0.0f)
            score[i] = (double)r->scoring.cap * tanh(score[i] / (double)r->scoring.cap);
        if (sees(r, row, h, i) && score[i] > *M)
            *M = score[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        probability[i] = sees(r, row, h, i) ? exp(score[i] - *M) : 0;
        *L += probability[i];
        seen += sees(r, row, h, i) ? 1 : 0;
    }
    if (r->sinks.buffer && seen) /* a score without an entry: the sink */
        *L += exp((double)floats(r->sinks)[head] - *M);
    for (uint32_t i = 0; i < n && seen; i++)
        probability[i] /= *L;
    return seen;
}

static void attend(struct rows *r, uint64_t *bytes) {
    struct kvc_segment segment = {&r->lists, r->reads, 0, r->rows, r->rows, bytes};
    struct kvc_attention a = {
        &segment,         1,          r->heads, HEADS, D, r->window, r->q, r->out, r->M, r->L, r->positions,
        r->causal_offset, r->scoring, r->sinks};
    OPS->attention(device, &a);
}

static void check_attention(struct rows *r) {
    static double score[SLOTS], probability[SLOTS];
    uint64_t bytes = 100, seen = 0;
    attend(r, &bytes);
    for (uint32_t row = 0; row < r->rows; row++)
        for (uint32_t head = 0; head < r->heads; head++) {
            uint32_t h = head / (r->heads / HEADS), n = count_of(&r->lists, h), here;
            size_t at = (size_t)row * r->heads + head;
            double M, L;
            here = exact_probabilities(r, row, head, score, probability, &M, &L);
            seen += head % (r->heads / HEADS) == 0 ? here : 0;
            if (here == 0) {
                assert_true(floats(r->L)[at] == 0 && isinf(floats(r->M)[at]) && floats(r->M)[at] < 0);
                assert_true(floats(r->out)[at * D] == 0);
                continue;
            }
            assert_near(floats(r->M)[at], M, 1e-5);
            assert_near(floats(r->L)[at], L, 1e-5);
            for (uint32_t c = 0; c < D; c++) {
                double o = 0;
                for (uint32_t i = 0; i < n; i++)
                    o += probability[i] * floats(r->values[h])[i * D + c];
                assert_near(floats(r->out)[at * D + c], o, output_error(r, h, here, L));
            }
        }
    assert_int_equal(bytes, 100 + seen * kvc_entry_bytes(&r->lists.format));
}

static void attention_close(void **state) {
    static const uint32_t entries[] = {1, 2, 32, 33, 255, 256, 257, 384, 387, 511, 512};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        struct rows r = make_rows(entries[i], 1 + (uint32_t)i % 3, entries[i] < 4 ? 1 : 4, types[i % 3], 0);
        check_attention(&r);
        r.window = 1 + draw(entries[i]);
        check_attention(&r);
        r.scoring = (struct kvc_scoring){.scale = i % 2 ? 0.25f : 0.0f, .cap = i % 3 ? 1.5f : 0.0f};
        check_attention(&r);
        r.sinks = values(r.heads);
        check_attention(&r);
        end_test(state);
        OPS->arena_free(device, r.arena);
    }
}

/* Rounds rows [n, D] to multiples of their largest magnitude / 127, which has the 11 bits of a half. */
static void round_rows(float *x, size_t n) {
    for (size_t i = 0; i < n * D; i += D) {
        double top = 0, unit;
        int exponent;
        for (size_t c = i; c < i + D; c++)
            top = fmax(top, fabs((double)x[c]));
        unit = frexp(top / 127, &exponent);
        unit = ldexp(rint(ldexp(unit, 11)), exponent - 11);
        for (size_t c = i; c < i + D && top > 0; c++)
            x[c] = (float)(rint(x[c] / unit) * unit);
    }
}

/* As integers, Q8_0 entries give the same scores as a query that is rounded to eight bits, and outputs within the
 * rounding of the weights. Q4_1 entries do so when their values are rounded. Other entries stay floats. */
static void attention_of_integers(void **state) {
    static const uint32_t entries[] = {1, 31, 256, 300, 512};
    static const enum kvc_type types[] = {KVC_F16, KVC_Q8_0, KVC_Q4_1};
    for (size_t i = 0; i < 3 * sizeof entries / sizeof entries[0]; i++) {
        struct rows r = make_rows(entries[i / 3], 1 + (uint32_t)i % 4, i < 6 ? 1 : 4, types[i % 3], 0);
        r.scoring.integers = true;
        for (uint32_t h = 0; types[i % 3] == KVC_Q4_1 && h < HEADS; h++) {
            round_rows(floats(r.keys[h]), count_of(&r.lists, h));
            round_rows(floats(r.values[h]), count_of(&r.lists, h));
        }
        check_attention(&r);
        r.window = 1 + draw(entries[i / 3]);
        r.scoring.cap = 1.5f;
        r.sinks = values(r.heads);
        check_attention(&r);
        end_test(state);
        OPS->arena_free(device, r.arena);
    }
}

/* A sink far below the scores changes no bit, and one far above takes all probability. M is that of the entries only.
 */
static void attention_sinks(void **state) {
    struct rows r = make_rows(300, 2, 3, KVC_F16, 0);
    const size_t out_bytes = (size_t)r.rows * r.heads * D * 4, bytes = (size_t)r.rows * r.heads * 4;
    struct kvc_span out, M, L;
    float sink[2 * HEADS];
    (void)state;
    attend(&r, NULL);
    out = holding(floats(r.out), out_bytes);
    M = holding(floats(r.M), bytes);
    L = holding(floats(r.L), bytes);
    for (uint32_t h = 0; h < r.heads; h++)
        sink[h] = -200.0f;
    r.sinks = holding(sink, sizeof sink);
    attend(&r, NULL);
    assert_memory_equal(floats(out), floats(r.out), out_bytes);
    assert_memory_equal(floats(L), floats(r.L), bytes);
    for (uint32_t h = 0; h < r.heads; h++)
        floats(r.sinks)[h] = h ? -200.0f : 1e9f; /* for the first head only */
    attend(&r, NULL);
    assert_memory_equal(floats(M), floats(r.M), bytes);
    for (size_t i = 0; i < (size_t)r.rows * r.heads; i++) {
        assert_true(isinf(floats(r.L)[i]) == (i % r.heads == 0));
        for (uint32_t c = 0; c < D; c++)
            assert_true(floats(r.out)[i * D + c] == (i % r.heads ? floats(out)[i * D + c] : 0.0f));
    }
    OPS->arena_free(device, r.arena);
}

/* With a read list and a mean value for the unread entries, the sink takes its share first, also in the softmax that
 * chooses entries. */
static void select_with_sinks(void **state) {
    static double score[SLOTS], probability[SLOTS];
    const uint32_t group = 3, top = 40;
    struct rows r = make_rows(300, group, 1, KVC_F32, 0);
    struct kvc_span scores = buffer(HEADS * SLOTS * 4), own = buffer((size_t)r.heads * SLOTS * 4);
    struct kvc_span rest = buffer(r.heads * 4), alpha = buffer(r.heads * 4), sums = buffer(HEADS * D * 4);
    struct kvc_read_list reads = {buffer(HEADS * 4).buffer, buffer(HEADS * SLOTS * 4).buffer, SLOTS};
    (void)state;
    r.sinks = values(r.heads);
    floats(r.sinks)[1] = 6.0f;  /* takes most of the probability */
    floats(r.sinks)[2] = 1e9f;  /* takes all */
    floats(r.sinks)[3] = -1e9f; /* takes nothing */
    const struct kvc_select_scores choose = {.lists = &r.lists,
                                             .kind = KVC_SCORE_EXACT,
                                             .heads = r.heads,
                                             .head_size = D,
                                             .q = r.q,
                                             .positions = r.positions,
                                             .scores = scores,
                                             .probabilities = own,
                                             .stride = SLOTS,
                                             .sinks = r.sinks,
                                             .rest = rest};
    OPS->select_scores(device, &choose);
    OPS->select_reads(device, &(struct kvc_select_reads){.lists = &r.lists,
                                                         .heads = r.heads,
                                                         .top = top,
                                                         .scores = scores,
                                                         .probabilities = own,
                                                         .rest = rest,
                                                         .alpha = alpha,
                                                         .stride = SLOTS,
                                                         .reads = &reads});
    r.reads = &reads;
    attend(&r, NULL);
    OPS->value_sums(device, &(struct kvc_value_sums){.lists = &r.lists, .sums = sums, .rows = UINT32_MAX});
    OPS->mix_mean(device, &(struct kvc_mix_mean){.lists = &r.lists,
                                                 .reads = &reads,
                                                 .heads = r.heads,
                                                 .head_size = D,
                                                 .out = r.out,
                                                 .alpha = alpha,
                                                 .sums = sums});
    r.reads = NULL;
    for (uint32_t head = 0; head < r.heads; head++) {
        const uint32_t h = head / group, n = count_of(&r.lists, h);
        double M, L, all = 0, read = 0, out[D] = {0}, mean[D] = {0};
        exact_probabilities(&r, 0, head, score, probability, &M, &L);
        assert_int_equal(((const uint32_t *)reads.count->data)[h], top);
        for (uint32_t i = 0; i < n; i++) {
            assert_near(floats(own)[head * SLOTS + i], probability[i], 2e-6);
            all += probability[i];
            for (uint32_t c = 0; c < D; c++)
                mean[c] += (double)floats(r.values[h])[i * D + c] / n;
        }
        for (uint32_t i = 0; i < top; i++) {
            const uint32_t index = ((const uint32_t *)reads.index->data)[h * SLOTS + i];
            read += probability[index];
            for (uint32_t c = 0; c < D; c++)
                out[c] += probability[index] * (double)floats(r.values[h])[index * D + c];
        }
        assert_near(floats(rest)[head], 1 - all, 2e-6);
        assert_near(floats(alpha)[head], read + 1 - all, 2e-6);
        for (uint32_t c = 0; c < D; c++)
            assert_near(floats(r.out)[head * D + c], out[c] + (all - read) * mean[c], 1e-5);
    }
    for (uint32_t h = 0; h < HEADS; h++) /* a head whose sink takes everything does not influence the choice */
        for (uint32_t i = 0; i < count_of(&r.lists, h); i++) {
            float sum = 0;
            for (uint32_t g = 0; g < group; g++)
                sum += floats(own)[(h * group + g) * SLOTS + i];
            assert_true(floats(scores)[h * SLOTS + i] == sum);
            assert_true(floats(own)[2 * SLOTS + i] == 0 || h > 0);
        }
    OPS->arena_free(device, r.arena);
}

/* The weights of almost all visible entries are 0, as those of hidden entries. Hidden entries are chosen last. */
static void select_hidden(void **state) {
    struct rows r = make_rows(300, 3, 1, KVC_F32, 0);
    struct kvc_span scores = buffer(HEADS * SLOTS * 4);
    struct kvc_read_list reads = {buffer(HEADS * 4).buffer, buffer(HEADS * SLOTS * 4).buffer, SLOTS};
    (void)state;
    for (uint32_t i = 0; i < r.heads * D; i++)
        floats(r.q)[i] *= 1e4f;
    r.window = 90;
    for (uint32_t top = 20; top <= 100; top += 80) { /* fewer than the visible entries, and more */
        const struct kvc_select_scores choose = {.lists = &r.lists,
                                                 .kind = KVC_SCORE_EXACT,
                                                 .heads = r.heads,
                                                 .head_size = D,
                                                 .window = r.window,
                                                 .q = r.q,
                                                 .positions = r.positions,
                                                 .scores = scores,
                                                 .stride = SLOTS};
        OPS->select_scores(device, &choose);
        OPS->select_reads(
            device,
            &(struct kvc_select_reads){
                .lists = &r.lists, .heads = r.heads, .top = top, .scores = scores, .stride = SLOTS, .reads = &reads});
        for (uint32_t h = 0; h < HEADS; h++) {
            uint32_t visible = 0, read = 0, zeros = 0;
            for (uint32_t i = 0; i < count_of(&r.lists, h); i++)
                visible += sees(&r, 0, h, i);
            for (uint32_t i = 0; i < top; i++) {
                const uint32_t index = ((const uint32_t *)reads.index->data)[h * SLOTS + i];
                read += sees(&r, 0, h, index);
                zeros += floats(scores)[h * SLOTS + index] == 0;
            }
            assert_int_equal(((const uint32_t *)reads.count->data)[h], top);
            assert_true(zeros > 5 && visible > 20 && visible < 100);
            assert_int_equal(read, top < visible ? top : visible);
        }
    }
    OPS->arena_free(device, r.arena);
}

static void attention_read_lists(void **state) {
    uint32_t list[SLOTS], n = 0;
    struct rows r = make_rows(500, 4, 1, KVC_F16, 0);
    struct kvc_read_list reads;
    (void)state;
    for (uint32_t i = 0; i < 320; i++)
        if (draw(3))
            list[n++] = i;
    reads = indices(list, n, list, 0); /* head 1 reads nothing */
    r.reads = &reads;
    check_attention(&r);
    for (uint32_t i = 0; i < n; i++) { /* indices in the read list that are too new to be visible */
        ((uint32_t *)kvc_span_data(r.causal_offset))[0] = count_of(&r.lists, 0) - list[i];
        if (i % 40 == 7)
            check_attention(&r);
    }
    OPS->arena_free(device, r.arena);
}

/* Tiles consist of indices: a fully masked first tile changes nothing, and the merge starts with the first visible
 * tile. */
static void attention_masked_tile(void **state) {
    struct rows r = make_rows(512, 1, 1, KVC_F32, 0);
    struct kvc_span out;
    float M;
    (void)state;
    r.window = 100; /* the first tile of each head is outside the window */
    check_attention(&r);
    out = holding(floats(r.out), r.heads * D * 4);
    M = floats(r.M)[0];
    for (uint32_t i = 0; i < KVC_TILE; i++) { /* These values would overflow: they must not be read. */
        memset(kvc_list_key(&r.lists, 0, kvc_list_slot(&r.lists, 0, i)), 0x7f, D * 4);
        memset(kvc_list_value(&r.lists, 0, kvc_list_slot(&r.lists, 0, i)), 0xff, D * 4);
    }
    attend(&r, NULL);
    assert_memory_equal(floats(out), floats(r.out), r.heads * D * 4);
    assert_true(floats(r.M)[0] == M);
    OPS->arena_free(device, r.arena);
}

static void attention_not_a_number(void **state) {
    struct rows r = make_rows(20, 1, 1, KVC_F32, 0);
    float key = NAN;
    (void)state;
    memcpy(kvc_list_key(&r.lists, 0, kvc_list_slot(&r.lists, 0, 3)), &key, 4);
    attend(&r, NULL);
    assert_true(isnan(floats(r.L)[0]) && isnan(floats(r.M)[0]) && isnan(floats(r.out)[0]));
    assert_true(!isnan(floats(r.out)[D])); /* the other head */
    OPS->arena_free(device, r.arena);
}

static void window_mass_close(void **state) {
    static double score[SLOTS], probability[SLOTS], sum[SLOTS];
    uint32_t list[SLOTS], n = 0;
    struct kvc_read_list reads;
    (void)state;
    for (uint32_t group = 1; group <= 4; group += 3) {
        struct rows r = make_rows(400, group, 9, KVC_F16, 0);
        struct kvc_span scores = buffer(HEADS * SLOTS * 4);
        struct kvc_probabilities w = {&r.lists, NULL, r.rows, r.heads,     HEADS,           D,        0,
                                      r.q,      r.M,  r.L,    r.positions, r.causal_offset, r.scoring};
        if (group == 4) {
            for (uint32_t i = 0; i < 250; i += 1 + draw(3))
                list[n++] = i;
            reads = indices(list, n, list, n / 2);
            r.reads = w.reads = &reads;
            r.sinks = values(r.heads);
        }
        attend(&r, NULL);
        OPS->window_mass(device, &(struct kvc_window_mass){
                                     .probabilities = &w, .scores = scores, .stride = SLOTS, .by_head = false});
        for (uint32_t h = 0; h < HEADS; h++) {
            memset(sum, 0, sizeof sum);
            for (uint32_t row = 0; row < r.rows; row++)
                for (uint32_t g = 0; g < group; g++) {
                    double M, L;
                    exact_probabilities(&r, row, h * group + g, score, probability, &M, &L);
                    for (uint32_t i = 0; i < count_of(&r.lists, h); i++)
                        sum[i] += probability[i];
                }
            for (uint32_t i = 0; i < count_of(&r.lists, h); i++)
                assert_near(floats(scores)[h * SLOTS + i], sum[i], 2e-6);
        }
        OPS->arena_free(device, r.arena);
    }
}

static void rings(void **state) {
    static double score[SLOTS], probability[SLOTS], rows[4][SLOTS];
    const uint32_t group = 4, ring = 4, filled = 3, first = 2, columns = first + ring;
    const int64_t recent = 281; /* the position of an entry that is held */
    (void)state;
    for (enum kvc_row_kind kind = KVC_ROW_PROBABILITIES; kind <= KVC_ROW_LOW; kind++) {
        struct rows r = make_rows(400, group, filled, KVC_F32, columns);
        struct kvc_span scores = buffer(HEADS * SLOTS * 4);
        struct kvc_probabilities w = {&r.lists, NULL, r.rows, r.heads,     HEADS,           D,        0,
                                      r.q,      r.M,  r.L,    r.positions, r.causal_offset, r.scoring};
        float *column = floats((struct kvc_span){r.lists.state, 0});
        attend(&r, NULL);
        for (uint32_t i = 0; i < columns * HEADS * SLOTS; i++)
            column[i] = -7.0f;
        OPS->ring_write(device,
                        &(struct kvc_ring_write){.probabilities = &w, .first = first, .ring = ring, .kind = kind});
        for (uint32_t h = 0; h < HEADS; h++) {
            uint32_t n = count_of(&r.lists, h);
            memset(rows, 0, sizeof rows);
            for (uint32_t row = 0; row < filled; row++) {
                uint32_t c = (uint32_t)((const int32_t *)kvc_span_data(r.positions))[row] % ring;
                uint32_t seen = 0;
                for (uint32_t i = 0; i < n; i++)
                    seen += sees(&r, row, h, i);
                for (uint32_t g = 0; g < group; g++) {
                    double M, L;
                    exact_probabilities(&r, row, h * group + g, score, probability, &M, &L);
                    for (uint32_t i = 0; i < n; i++)
                        if (!sees(&r, row, h, i))
                            rows[row][i] = kind == KVC_ROW_LOGITS ? -INFINITY : 0; /* the entry is invisible */
                        else
                            rows[row][i] += kind == KVC_ROW_PROBABILITIES ? probability[i]
                                            : kind == KVC_ROW_LOGITS      ? score[i]
                                                                          : probability[i] < 1.0 / seen;
                }
                for (uint32_t i = 0; i < n; i++) {
                    const float got = column[(columns * h + first + c) * SLOTS + kvc_list_slot(&r.lists, h, i)];
                    if (isinf(rows[row][i]))
                        assert_true(got == -INFINITY);
                    else
                        assert_near(got, rows[row][i], 2e-6);
                }
            }
            assert_true(column[(columns * h + first + 400 % ring) * SLOTS] ==
                        -7.0f); /* the column of a query that does not exist */
            assert_true(column[columns * h * SLOTS] == -7.0f);
            for (uint32_t row = 0; kind == KVC_ROW_LOGITS && row < filled; row++) {
                double sum = 0; /* softmax over the older entries */
                for (uint32_t i = 0; i < n; i++)
                    sum += position_of(&r.lists, h, i) < recent ? exp(rows[row][i]) : 0;
                for (uint32_t i = 0; i < n; i++)
                    rows[row][i] = exp(rows[row][i]) / sum;
            }
            for (int fusion = 0; fusion < 2; fusion++) {
                OPS->ring_fuse(device, &(struct kvc_ring_fuse){.lists = &r.lists,
                                                               .first = first,
                                                               .ring = ring,
                                                               .filled = filled,
                                                               .now = 400,
                                                               .kind = kind,
                                                               .fusion = fusion ? KVC_FUSE_MAX : KVC_FUSE_SUM,
                                                               .recent = recent,
                                                               .scores = scores,
                                                               .stride = SLOTS});
                for (uint32_t i = 0; i < n; i++) {
                    double F = 0;
                    for (uint32_t row = 0; row < filled; row++)
                        F = fusion ? fmax(F, rows[row][i]) : F + rows[row][i];
                    assert_near(floats(scores)[h * SLOTS + i], position_of(&r.lists, h, i) < recent ? F : 0, 2e-6);
                }
            }
        }
        OPS->arena_free(device, r.arena);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(attention_close),       TEST(attention_of_integers),
                                       TEST(attention_sinks),       TEST(select_with_sinks),
                                       TEST(select_hidden),         TEST(attention_read_lists),
                                       TEST(attention_masked_tile), TEST(attention_not_a_number),
                                       TEST(window_mass_close),     TEST(rings)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
