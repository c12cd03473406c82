/* test_ref.c - compares reference operations on rows, and those that turn scores into kept entries, with double
 * precision, simple models in this file, or results computed by hand. (test_verify.c compares all other implementations
 * with the reference.) */
#include "tests/backends/ref_fixture.h"

/* ---- rows ---- */

static void linear_close(void **state) {
    static const uint32_t widths[] = {1, 5, 31, 32, 33, 64, 172, 300};
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        uint32_t K = widths[w], N = 7, rows = 3;
        struct kvc_span x = values((size_t)rows * K), m = values((size_t)N * K), y = buffer(rows * N * 4),
                        bias = values(N);
        struct kvc_weight *weight;
        assert_int_equal(OPS->weight_create(device, KVC_F32, N, K, floats(m), &weight, NULL), KVC_OK);
        OPS->linear(device, &(struct kvc_linear){.y = y, .x = x, .w = weight, .bias = bias, .rows = rows});
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t n = 0; n < N; n++) {
                double sum = floats(bias)[n];
                for (uint32_t k = 0; k < K; k++)
                    sum += (double)floats(x)[i * K + k] * floats(m)[n * K + k];
                assert_near(floats(y)[i * N + n], sum, 1e-5);
            }
        OPS->weight_free(device, weight);
    }
}

/* The order of the dot product's sums, with values for which it matters. */
static void linear_order(void **state) {
    float a[70] = {0}, b[70];
    struct kvc_span none = {NULL, 0}, x, y = buffer(4);
    struct kvc_weight *weight;
    (void)state;
    for (int k = 0; k < 70; k++)
        b[k] = 1.0f;
    a[0] = 1e8f; /* lane 0 loses what follows until -1e8 in the same lane returns it to 0 */
    a[1] = 1.0f;
    a[32] = 3.0f;
    a[64] = -1e8f;
    x = holding(a, sizeof a);
    assert_int_equal(OPS->weight_create(device, KVC_F32, 1, 70, b, &weight, NULL), KVC_OK);
    OPS->linear(device, &(struct kvc_linear){.y = y, .x = x, .w = weight, .bias = none, .rows = 1});
    assert_true(floats(y)[0] == 1.0f); /* 1e8 + 3 rounds to 1e8 in lane 0; lane 1 holds 1 */
    a[64] = 0.0f;
    a[16] = -1e8f; /* another lane, which is added to lane 0 first: nothing else is lost */
    memcpy(floats(x), a, sizeof a);
    OPS->linear(device, &(struct kvc_linear){.y = y, .x = x, .w = weight, .bias = none, .rows = 1});
    assert_true(floats(y)[0] == 1.0f);
    a[16] = 0.0f;
    a[1] = -1e8f; /* it is added to lane 0 last */
    a[17] = 4.0f; /* but its lane has already lost this value */
    memcpy(floats(x), a, sizeof a);
    OPS->linear(device, &(struct kvc_linear){.y = y, .x = x, .w = weight, .bias = none, .rows = 1});
    assert_true(floats(y)[0] == 0.0f);
    OPS->weight_free(device, weight);
}

static void embed_types(void **state) {
    float table[3 * 4] = {1, 2, 3, 4, 0.5f, -0.25f, 1e-3f, 100, 7, 8, 9, 10};
    int32_t tokens[] = {2, 0, 1, 1};
    struct kvc_span t = holding(tokens, sizeof tokens), out = buffer(4 * 4 * 4);
    kvc_u16 half[12];
    struct kvc_weight *weight;
    (void)state;
    assert_int_equal(OPS->weight_create(device, KVC_F32, 3, 4, table, &weight, NULL), KVC_OK);
    OPS->embed(device, &(struct kvc_embed){.out = out, .table = weight, .tokens = t, .rows = 4});
    for (int i = 0; i < 4; i++)
        assert_memory_equal(floats(out) + 4 * i, table + 4 * tokens[i], 16);
    OPS->weight_free(device, weight);
    for (int i = 0; i < 12; i++)
        half[i] = kvc_f32_to_f16(table[i]);
    assert_int_equal(OPS->weight_create(device, KVC_F16, 3, 4, half, &weight, NULL), KVC_OK);
    OPS->embed(device, &(struct kvc_embed){.out = out, .table = weight, .tokens = t, .rows = 4});
    for (int i = 0; i < 16; i++)
        assert_true(floats(out)[i] == kvc_f16_to_f32(half[4 * tokens[i / 4] + i % 4]));
    OPS->weight_free(device, weight);
}

static void smooth_by_definition(void **state) {
    enum { ROWS = 9, QUERY_HEADS = 6, KV = 2, SIZE = 5, WIDTH = KV * SIZE };
    struct kvc_span k = values(ROWS * WIDTH), q = values(ROWS * QUERY_HEADS * SIZE), factors = buffer(2 * WIDTH * 4);
    struct kvc_smooth_factors args = {
        .k = k, .q = q, .factors = factors, .rows = ROWS, .heads = QUERY_HEADS, .kv_heads = KV, .d = SIZE};
    (void)state;
    for (int r = 0; r < ROWS; r++)
        floats(k)[r * WIDTH + 3] = 0.25f; /* a constant channel: its factors are 1 */
    OPS->smooth_factors(device, &args);
    for (int i = 0; i < WIDTH; i++) {
        double mean = 0, keys = 0, queries = 0;
        for (int r = 0; r < ROWS; r++)
            mean += (double)floats(k)[r * WIDTH + i] / ROWS;
        for (int r = 0; r < ROWS; r++) {
            keys += pow((double)floats(k)[r * WIDTH + i] - mean, 2) / ROWS;
            for (int h = i / SIZE * 3; h < i / SIZE * 3 + 3; h++)
                queries += pow((double)floats(q)[(r * QUERY_HEADS + h) * SIZE + i % SIZE], 2) / (3 * ROWS);
        }
        const double factor = i == 3 ? 1.0 : pow(sqrt(keys) / sqrt(queries), 0.25);
        assert_near(floats(factors)[WIDTH + i], factor, 1e-5);
        assert_near(floats(factors)[i], 1 / factor, 1e-5);
    }
    struct kvc_span x = values(ROWS * QUERY_HEADS * SIZE), before = values(ROWS * QUERY_HEADS * SIZE);
    memcpy(floats(before), floats(x), ROWS * QUERY_HEADS * SIZE * 4);
    OPS->smooth(device, &(struct kvc_smooth){
                            .x = x, .factor = factors, .rows = ROWS, .heads = QUERY_HEADS, .kv_heads = KV, .d = SIZE});
    for (int i = 0; i < ROWS * QUERY_HEADS * SIZE; i++)
        assert_true(floats(x)[i] == floats(before)[i] * floats(factors)[i / SIZE % QUERY_HEADS / 3 * SIZE + i % SIZE]);
    args.q.buffer = NULL;
    OPS->smooth_factors(device, &args);
    for (int i = 0; i < 2 * WIDTH; i++)
        assert_true(floats(factors)[i] == 1.0f);
}

static void norm_close(void **state) {
    uint32_t rows = 4, K = 77;
    struct kvc_span x = values(rows * K), w = values(K), y = buffer(rows * K * 4);
    (void)state;
    OPS->norm(device, &(struct kvc_norm){.y = y, .x = x, .w = w, .rows = rows, .K = K, .eps = 1e-5f});
    for (uint32_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < K; k++)
            sum += (double)floats(x)[i * K + k] * floats(x)[i * K + k];
        for (uint32_t k = 0; k < K; k++)
            assert_near(floats(y)[i * K + k], floats(x)[i * K + k] / sqrt(sum / K + 1e-5) * floats(w)[k], 1e-6);
    }
    struct kvc_span bias = values(K), centred = buffer((size_t)rows * K * 4);
    OPS->norm(device,
              &(struct kvc_norm){
                  .y = centred, .x = x, .w = w, .rows = rows, .K = K, .eps = 1e-5f, .centred = true, .bias = bias});
    for (uint32_t i = 0; i < rows; i++) {
        const float *from = floats(x) + (size_t)i * K;
        double mean = 0, square = 0;
        for (uint32_t k = 0; k < K; k++)
            mean += (double)from[k] / K;
        for (uint32_t k = 0; k < K; k++)
            square += ((double)from[k] - mean) * ((double)from[k] - mean) / K;
        for (uint32_t k = 0; k < K; k++)
            assert_near(floats(centred)[(size_t)i * K + k],
                        ((double)from[k] - mean) / sqrt(square + 1e-5) * (double)floats(w)[k] + (double)floats(bias)[k],
                        1e-5);
    }
    /* Separate weights for each of two heads: the same as normalizing the heads separately. */
    struct kvc_span own = values(2 * K), shift = values(2 * K), whole = buffer((size_t)rows * K * 4);
    for (int c = 0; c < 2; c++) {
        struct kvc_norm args = {.y = whole, .x = x, .w = own, .rows = rows, .K = K, .heads = 2, .eps = 1e-5f};
        args.centred = c;
        args.bias = c ? shift : args.bias;
        OPS->norm(device, &args);
        for (uint32_t i = 0; i < rows; i++) {
            struct kvc_norm one = args;
            one.y = centred;
            one.x.offset += (size_t)i * K * 4;
            one.w.offset += (size_t)(i % 2) * K * 4;
            one.bias.offset += (size_t)(i % 2) * K * 4;
            one.rows = 1;
            one.heads = 0;
            OPS->norm(device, &one);
            assert_memory_equal(floats(centred), floats(whole) + (size_t)i * K, K * 4);
        }
    }
    OPS->norm(device, &(struct kvc_norm){.y = x, .x = x, .w = w, .rows = rows, .K = K, .eps = 1e-5f}); /* in place */
    assert_memory_equal(floats(x), floats(y), rows * K * 4);
}

static void rope_both_orders(void **state) {
    uint32_t rows = 3, heads = 2, d = 10, rotary = 6, half = 3;
    struct kvc_span x = values(rows * heads * d), y = buffer(rows * heads * d * 4), z = buffer(rows * heads * d * 4);
    struct kvc_span c = values(rows * half), s = values(rows * half), apart = buffer(rows * heads * d * 4);
    (void)state;
    OPS->rope(device, &(struct kvc_rope_heads){.y = y,
                                               .x = x,
                                               .cosine = c,
                                               .sine = s,
                                               .rows = rows,
                                               .heads = heads,
                                               .head_size = d,
                                               .rotary = rotary,
                                               .interleaved = true});
    for (uint32_t i = 0; i < rows * heads; i++)
        for (uint32_t k = 0; k < d; k++) { /* the same pairs, in the half-split layout */
            uint32_t to = k >= rotary ? k : k % 2 ? k / 2 + half : k / 2;
            floats(apart)[i * d + to] = floats(x)[i * d + k];
        }
    OPS->rope(device, &(struct kvc_rope_heads){.y = z,
                                               .x = apart,
                                               .cosine = c,
                                               .sine = s,
                                               .rows = rows,
                                               .heads = heads,
                                               .head_size = d,
                                               .rotary = rotary,
                                               .interleaved = false});
    assert_memory_equal(floats(y), floats(z), rows * heads * d * 4);
    for (uint32_t i = 0; i < rows * heads; i++) {
        for (uint32_t k = 0; k < half; k++) {
            double x0 = floats(x)[i * d + 2 * k], x1 = floats(x)[i * d + 2 * k + 1];
            double cosine = floats(c)[i / heads * half + k], sine = floats(s)[i / heads * half + k];
            assert_near(floats(y)[i * d + k], x0 * cosine - x1 * sine, 1e-6);
            assert_near(floats(y)[i * d + k + half], x0 * sine + x1 * cosine, 1e-6);
        }
        for (uint32_t k = rotary; k < d; k++)
            assert_true(floats(y)[i * d + k] == floats(x)[i * d + k]);
    }
    OPS->rope(device, &(struct kvc_rope_heads){.y = apart,
                                               .x = apart,
                                               .cosine = c,
                                               .sine = s,
                                               .rows = rows,
                                               .heads = heads,
                                               .head_size = d,
                                               .rotary = rotary,
                                               .interleaved = false}); /* in place */
    assert_memory_equal(floats(apart), floats(z), rows * heads * d * 4);
}

static void simple_rows(void **state) {
    size_t n = 100;
    struct kvc_span a = values(n), b = values(n), y = buffer(n * 4), before = buffer(n * 4);
    uint32_t index[] = {3, 0, 3};
    struct kvc_span indices = holding(index, sizeof index), out = buffer(3 * 5 * 4);
    (void)state;
    OPS->gated_silu(device, &(struct kvc_gated_silu){.y = y, .gate = a, .up = b, .n = n});
    for (size_t i = 0; i < n; i++)
        assert_near(floats(y)[i], floats(a)[i] / (1 + exp(-(double)floats(a)[i])) * floats(b)[i], 1e-6);
    OPS->gated_silu(device, &(struct kvc_gated_silu){.y = y, .gate = a, .n = n, .activation = KVC_GELU});
    for (size_t i = 0; i < n; i++) {
        const double x = (double)floats(a)[i], u = sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
        assert_near(floats(y)[i], 0.5 * x * (1 + tanh(u)), 1e-6);
    }
    OPS->gated_silu(device, &(struct kvc_gated_silu){.y = y, .gate = a, .n = n, .activation = KVC_GELU_EXACT});
    for (size_t i = 0; i < n; i++) {
        const double x = (double)floats(a)[i];
        assert_near(floats(y)[i], 0.5 * x * (1 + erf(x / sqrt(2))), 1e-6);
    }
    OPS->gated_silu(device, &(struct kvc_gated_silu){.y = y, .gate = a, .up = b, .n = n, .activation = KVC_SIGMOID});
    for (size_t i = 0; i < n; i++)
        assert_near(floats(y)[i], floats(b)[i] / (1 + exp(-(double)floats(a)[i])), 1e-6);
    for (size_t i = 0; i < n; i++) /* the limit applies to both signs */
        floats(y)[i] = 5.0f * floats(a)[i], floats(b)[i] = 6.0f * floats(b)[i];
    OPS->gated_silu(device,
                    &(struct kvc_gated_silu){.y = before, .gate = y, .up = b, .n = n, .activation = KVC_CLAMPED_SILU});
    for (size_t i = 0; i < n; i++) {
        const double g = fmin(5 * (double)floats(a)[i], 7), u = fmax(fmin((double)floats(b)[i], 7), -7);
        assert_near(floats(before)[i], (u + 1) * g / (1 + exp(-1.702 * g)), 1e-5);
    }
    OPS->scale(device, &(struct kvc_scale){.y = y, .x = a, .n = n, .factor = 3.0f, .cap = 2.0f});
    for (size_t i = 0; i < n; i++)
        assert_near(floats(y)[i], 2 * tanh(1.5 * (double)floats(a)[i]), 1e-6);
    OPS->scale(device, &(struct kvc_scale){.y = y, .x = a, .n = n, .factor = 3.0f});
    for (size_t i = 0; i < n; i++)
        assert_true(floats(y)[i] == 3.0f * floats(a)[i]);
    OPS->copy(device, before, y, n * 4);
    OPS->add(device, &(struct kvc_add){.y = y, .x = a, .n = n});
    for (size_t i = 0; i < n; i++)
        assert_true(floats(y)[i] == floats(before)[i] + floats(a)[i]);
    OPS->copy(device, before, y, n * 4);
    OPS->blend(device, &(struct kvc_blend){.y = before, .x = b, .share = 0.25f, .n = n});
    for (size_t i = 0; i < n; i++) /* y had the initial values plus a */
        assert_true(floats(before)[i] == fmaf(0.25f, floats(y)[i], 0.75f * floats(b)[i]));
    OPS->gather(device, &(struct kvc_gather){.out = out, .x = a, .index = indices, .rows = 3, .width = 5});
    for (int i = 0; i < 3; i++)
        assert_memory_equal(floats(out) + 5 * i, floats(a) + 5 * index[i], 20);
}

static void gates(void **state) {
    enum { ROWS = 3, LISTS = 2, GROUP = 3, SINKS = 5, C = 4 };
    const struct kvc_span q = values(ROWS * LISTS * GROUP * C), k = values(ROWS * LISTS * C),
                          base = values(LISTS * SINKS * C), bias = values(LISTS * GROUP),
                          scores = buffer(ROWS * LISTS * 4);
    (void)state;
    OPS->gate_scores(device, &(struct kvc_gate_scores){.scores = scores,
                                                       .q = q,
                                                       .k = k,
                                                       .base = base,
                                                       .bias = bias,
                                                       .rows = ROWS,
                                                       .kv_heads = LISTS,
                                                       .group = GROUP,
                                                       .sinks = SINKS,
                                                       .channels = C,
                                                       .scale = 0.5f});
    for (int i = 0; i < ROWS * LISTS; i++) {
        const int h = i % LISTS;
        double mean = 0;
        for (int g = 0; g < GROUP; g++) {
            const float *query = floats(q) + (i * GROUP + g) * C;
            double z = (double)floats(bias)[h * GROUP + g], all = 1;
            for (int c = 0; c < C; c++)
                z += 0.5 * (double)query[c] * (double)floats(k)[i * C + c];
            for (int s = 0; s < SINKS; s++) {
                double other = 0;
                for (int c = 0; c < C; c++)
                    other += 0.5 * (double)query[c] * (double)floats(base)[(h * SINKS + s) * C + c];
                all += exp(other - z);
            }
            mean += 1 / all / GROUP;
        }
        assert_near(floats(scores)[i], mean, 1e-6);
    }
}

/* ---- pooling and keeping ---- */

static void pools(void **state) {
    static const uint32_t kernels[] = {1, 3, 7, 63, 999};
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, false, &arena);
    struct kvc_span in = values(HEADS * SLOTS), out = buffer(HEADS * SLOTS * 4);
    uint32_t *count = lists.count->data;
    (void)state;
    count[0] = 100;
    count[1] = 3;
    for (size_t k = 0; k < 5; k++)
        for (int pooling = 0; pooling < 2; pooling++) {
            int half = (int)kernels[k] / 2;
            OPS->pool(device, &(struct kvc_pool){.lists = &lists,
                                                 .rows = 1,
                                                 .out = out,
                                                 .in = in,
                                                 .stride = SLOTS,
                                                 .tail = 5,
                                                 .kernel = kernels[k],
                                                 .pooling = pooling ? KVC_POOL_AVERAGE : KVC_POOL_MAX});
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < (int)count[h]; i++) {
                    int n = (int)count[h] - 5;
                    double most = -INFINITY, sum = 0;
                    for (int j = i - half; j <= i + half; j++)
                        if (j >= 0 && j < n) {
                            most = fmax(most, floats(in)[h * SLOTS + j]);
                            sum += floats(in)[h * SLOTS + j];
                        }
                    if (i >= n)
                        assert_true(floats(out)[h * SLOTS + i] == 0);
                    else
                        assert_near(floats(out)[h * SLOTS + i], pooling ? sum / kernels[k] : most, 1e-6);
                }
        }
    OPS->arena_free(device, arena);
}

/* Whether a score ranks before another: rule 4 of docs/reference/methods.md. */
static bool above(float a, float b) { return isnan(a) != isnan(b) ? isnan(b) : !isnan(a) && a > b; }

static bool before(float a, float tie_a, uint32_t index_a, float b, float tie_b, uint32_t index_b) {
    if (above(a, b) || above(b, a))
        return above(a, b);
    if (above(tie_a, tie_b) || above(tie_b, tie_a))
        return above(tie_a, tie_b);
    return index_a < index_b;
}

static void keeps(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, true, &arena);
    struct kvc_span scores = values(HEADS * SLOTS), ties = values(HEADS * SLOTS);
    struct kvc_read_list kept = indices(NULL, 0, NULL, 0);
    uint32_t *count = lists.count->data;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct kvc_keep rule = {.recent = INT64_MAX}, rules[HEADS];
        bool keep[SLOTS], candidate[SLOTS], one = draw(2), tied = draw(2);
        count[0] = draw(60);
        count[1] = draw(6);
        for (uint32_t i = 0; i < HEADS * SLOTS; i++) {
            static const float some[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, -INFINITY};
            floats(scores)[i] = some[draw(round % 2 ? 2 : 7)];
            floats(ties)[i] = some[draw(7)];
        }
        rule.first = draw(2) ? draw(5) : 0;
        rule.tail = draw(2) ? draw(9) : 0;
        rule.top = draw(2) ? draw(30) : 0;
        rule.fill = draw(2) ? draw(40) : 0;
        rule.recent = draw(3) ? INT64_MAX : (int64_t)draw(60);
        rules[0] = rule;
        rules[1] = (struct kvc_keep){.tail = 2, .top = 3, .limit = draw(60), .recent = INT64_MAX};
        OPS->keep(device, &(struct kvc_keep_rules){.lists = &lists,
                                                   .rules = rules,
                                                   .rule_count = one ? 1 : 2,
                                                   .scores = scores,
                                                   .ties = tied ? ties : (struct kvc_span){NULL, 0},
                                                   .stride = SLOTS,
                                                   .kept = &kept});
        for (uint32_t h = 0; h < HEADS; h++) {
            rule = rules[one ? 0 : h];
            uint32_t n = count[h], forced = 0, found = 0;
            uint64_t top = rule.top;
            const float *s = floats(scores) + h * SLOTS, *t = floats(ties) + h * SLOTS;
            const uint32_t *list = (const uint32_t *)kept.index->data + h * SLOTS;
            for (uint32_t i = 0; i < n; i++) {
                keep[i] = i < rule.first || i + rule.tail >= n || (int64_t)i >= rule.recent || n <= rule.limit;
                forced += keep[i] ? 1 : 0;
                candidate[i] = !keep[i];
            }
            if (forced + top < rule.fill)
                top = rule.fill - forced;
            for (uint32_t i = 0; i < n; i++) {
                uint64_t better = 0; /* the number of candidates ranked before i */
                if (!candidate[i])
                    continue;
                for (uint32_t j = 0; j < n; j++)
                    if (candidate[j] && before(s[j], tied ? t[j] : 0, j, s[i], tied ? t[i] : 0, i))
                        better++;
                keep[i] = better < top;
            }
            for (uint32_t i = 0; i < n; i++)
                if (keep[i])
                    assert_int_equal(list[found++], i);
            assert_int_equal(((const uint32_t *)kept.count->data)[h], found);
        }
    }
    OPS->arena_free(device, arena);
}

/* Slots go one by one to the best remaining score of both heads. */
static void shares_slots(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 0, false, &arena);
    struct kvc_span scores = values(HEADS * SLOTS), out = buffer(HEADS * 4);
    uint32_t *count = lists.count->data;
    (void)state;
    for (int round = 0; round < 200; round++) {
        bool taken[HEADS * SLOTS] = {false};
        uint32_t share[HEADS] = {0};
        const uint32_t slots = draw(80), tail = draw(9);
        count[0] = draw(50);
        count[1] = draw(20);
        for (uint32_t i = 0; i < HEADS * SLOTS; i++) {
            static const float some[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, -INFINITY};
            floats(scores)[i] = some[draw(round % 2 ? 2 : 7)];
        }
        for (uint32_t n = 0; n < slots; n++) {
            int best = -1;
            for (uint32_t i = 0; i < HEADS * SLOTS; i++)
                if (i % SLOTS + tail < count[i / SLOTS] && !taken[i] &&
                    (best < 0 || above(floats(scores)[i], floats(scores)[best])))
                    best = (int)i;
            if (best >= 0) {
                taken[best] = true;
                share[best / SLOTS]++;
            }
        }
        OPS->shares(
            device,
            &(struct kvc_shares){
                .lists = &lists, .scores = scores, .stride = SLOTS, .tail = tail, .slots = slots, .shares = out});
        assert_memory_equal(kvc_span_data(out), share, sizeof share);
    }
    OPS->arena_free(device, arena);
}

static void columns_and_groups(void **state) {
    struct kvc_arena *arena;
    struct kvc_lists lists = make_lists(KVC_F32, 5, true, &arena);
    struct kvc_span scores = buffer(HEADS * SLOTS * 4), k = values(9 * HEADS * D), out = buffer(HEADS * SLOTS * 4);
    struct kvc_span heads = values(3 * HEADS * SLOTS), x = values(2 * 3 * 4), repeated = buffer(2 * 3 * 4 * 2 * 4);
    static const uint32_t some[] = {0, 3, 4, 7, 8};
    struct kvc_read_list kept = indices(some, 5, some, 3);
    const float *state_of = lists.state->data;
    (void)state;
    append(&lists, 9, 0, k, k);
    OPS->evict(device, &(struct kvc_evict){.lists = &lists, .kept = &kept}); /* slots and indices differ now */
    for (uint32_t i = 0; i < 5 * HEADS * SLOTS; i++)
        ((float *)lists.state->data)[i] = value();
    OPS->column_scores(device, &(struct kvc_column_scores){
                                   .lists = &lists, .first = 1, .columns = 3, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < count_of(&lists, h); r++) {
            const float *at = state_of + (h * 5 + 1) * SLOTS + some[r];
            assert_true(floats(scores)[h * SLOTS + r] == (at[0] + at[SLOTS]) + at[2 * SLOTS]);
        }
    OPS->scores_column(device,
                       &(struct kvc_scores_column){.lists = &lists, .column = 4, .scores = scores, .stride = SLOTS});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < count_of(&lists, h); r++)
            assert_true(state_of[(h * 5 + 4) * SLOTS + some[r]] == floats(scores)[h * SLOTS + r]);
    OPS->group_scores(device,
                      &(struct kvc_group_scores){
                          .lists = &lists, .rows = 3, .out = out, .in = heads, .stride = SLOTS, .divisor = 3.0f});
    for (uint32_t h = 0; h < HEADS; h++)
        for (uint32_t r = 0; r < count_of(&lists, h); r++) {
            const float *at = floats(heads) + h * 3 * SLOTS + r;
            assert_true(floats(out)[h * SLOTS + r] == ((at[0] + at[SLOTS]) + at[2 * SLOTS]) / 3.0f);
        }
    OPS->repeat_heads(device, &(struct kvc_repeat_heads){
                                  .out = repeated, .x = x, .rows = 2, .heads = 3, .copies = 2, .head_size = 4});
    for (int i = 0; i < 2 * 3 * 2; i++)
        assert_memory_equal(floats(repeated) + 4 * i, floats(x) + i / 2 * 4, 16);
    OPS->arena_free(device, arena);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {TEST(linear_close), TEST(linear_order),
                                       TEST(embed_types),  TEST(smooth_by_definition),
                                       TEST(norm_close),   TEST(rope_both_orders),
                                       TEST(simple_rows),  TEST(gates),
                                       TEST(pools),        TEST(keeps),
                                       TEST(shares_slots), TEST(columns_and_groups)};
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
