/* test_rows.c - embed, norm, rope, gated_silu, add and gather of every SIMD instruction set are bit-identical to the
 * reference. */
#include "tests/backends/pair.h"

static const enum values kinds[] = {ORDINARY, WIDE, NASTY, BROKEN};
static enum values any_values(struct pair *pair) { return kinds[below(pair, COUNT(kinds))]; }

/* Sizes around whole vectors; now and then one large enough for several threads. */
static uint32_t any_size(struct pair *pair) { return below(pair, 8) ? 1 + below(pair, 200) : 1 + below(pair, 5000); }

static void check_norm(struct pair *pair) {
    const uint32_t rows = 1 + below(pair, 70), K = any_size(pair);
    const uint32_t heads = below(pair, 2) ? 1 + below(pair, 9) : 0;
    const size_t weights = (size_t)K * (heads ? heads : 1);
    const bool centred = below(pair, 2), biased = centred && below(pair, 2);
    struct both x = both_floats(pair, (size_t)rows * K, any_values(pair));
    struct both w = both_floats(pair, weights, any_values(pair)), bias = both_floats(pair, weights, any_values(pair));
    struct both y = both_floats(pair, (size_t)rows * K, ORDINARY);
    const float eps = below(pair, 2) ? 1e-5f : 0.0f;
    const bool in_place = below(pair, 2);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->norm(pair->device[s],
                                   &(struct kvc_norm){.y = span_of(in_place ? &x : &y, s),
                                                      .x = span_of(&x, s),
                                                      .w = span_of(&w, s),
                                                      .rows = rows,
                                                      .K = K,
                                                      .heads = heads,
                                                      .eps = eps,
                                                      .centred = centred,
                                                      .bias = biased ? span_of(&bias, s) : (struct kvc_span){NULL, 0}});
    SAME_FLOATS(pair, in_place ? &x : &y, "norm: rows %u, K %u, heads %u, centred %d, biased %d", rows, K, heads,
                centred, biased);
    both_free(pair, &bias);
    both_free(pair, &x);
    both_free(pair, &y);
    both_free(pair, &w);
}

static void check_rope(struct pair *pair) {
    const uint32_t rows = 1 + below(pair, 40), heads = 1 + below(pair, 9), d = 1 + below(pair, 256);
    const uint32_t half = below(pair, 3) ? d / 2 : below(pair, d / 2 + 1);
    const bool interleaved = below(pair, 2), in_place = !interleaved && below(pair, 2);
    const size_t n = (size_t)rows * heads * d;
    struct both x = both_floats(pair, n, any_values(pair)), y = both_floats(pair, n, ORDINARY);
    struct both cosine = both_floats(pair, (size_t)rows * half, ORDINARY);
    struct both sine = both_floats(pair, (size_t)rows * half, ORDINARY);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->rope(pair->device[s], &(struct kvc_rope_heads){.y = span_of(in_place ? &x : &y, s),
                                                                             .x = span_of(&x, s),
                                                                             .cosine = span_of(&cosine, s),
                                                                             .sine = span_of(&sine, s),
                                                                             .rows = rows,
                                                                             .heads = heads,
                                                                             .head_size = d,
                                                                             .rotary = 2 * half,
                                                                             .interleaved = interleaved});
    SAME_FLOATS(pair, in_place ? &x : &y, "rope: rows %u, heads %u, d %u, rotary %u, interleaved %d", rows, heads, d,
                2 * half, interleaved);
    both_free(pair, &x);
    both_free(pair, &y);
    both_free(pair, &cosine);
    both_free(pair, &sine);
}

static void check_values(struct pair *pair) {
    const size_t n = below(pair, 4) ? any_size(pair) : 100000 + any_size(pair);
    const enum values kind = any_values(pair);
    struct both x = both_floats(pair, n, kind), y = both_floats(pair, n, kind), z = both_floats(pair, n, ORDINARY);
    float *gate = x.on[REF]->data;
    for (size_t i = 0; i < n && i < 4000; i++) /* near the limits of exp */
        gate[i] = below(pair, 2) ? gate[i] : (i % 2 ? 88.0f : -88.0f) + gate[i];
    memcpy(x.on[PATH]->data, gate, n * sizeof *gate);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->gated_silu(
            pair->device[s],
            &(struct kvc_gated_silu){.y = span_of(&z, s), .gate = span_of(&x, s), .up = span_of(&y, s), .n = n});
    SAME_FLOATS(pair, &z, "gated_silu: n %zu", n);
    for (int s = 0; s < SIDES; s++) {
        pair->device[s]->ops->gated_silu(
            pair->device[s],
            &(struct kvc_gated_silu){.y = span_of(&x, s), .gate = span_of(&x, s), .up = span_of(&y, s), .n = n});
        pair->device[s]->ops->add(pair->device[s], &(struct kvc_add){.y = span_of(&y, s), .x = span_of(&z, s), .n = n});
    }
    SAME_FLOATS(pair, &x, "gated_silu in place: n %zu", n);
    SAME_FLOATS(pair, &y, "add: n %zu", n);
    both_free(pair, &x);
    both_free(pair, &y);
    both_free(pair, &z);
}

static void check_blend(struct pair *pair) {
    const size_t n = 1 + below(pair, 20000);
    const float share = below(pair, 2) ? 0.32f : (float)below(pair, 101) / 100.0f;
    const enum values kind = any_values(pair);
    struct both x = both_floats(pair, n, kind), y = both_floats(pair, n, kind);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->blend(
            pair->device[s], &(struct kvc_blend){.y = span_of(&y, s), .x = span_of(&x, s), .share = share, .n = n});
    SAME_FLOATS(pair, &y, "blend: n %zu, share %g", n, (double)share);
    both_free(pair, &x);
    both_free(pair, &y);
}

static void check_gather(struct pair *pair) {
    const uint32_t from = 1 + below(pair, 100), rows = 1 + below(pair, 70), width = any_size(pair);
    struct both x = both_floats(pair, (size_t)from * width, any_values(pair));
    struct both y = both_floats(pair, (size_t)rows * width, ORDINARY);
    uint32_t index[70];
    for (uint32_t i = 0; i < rows; i++)
        index[i] = below(pair, from);
    struct both which = both_copy(pair, index, rows * sizeof *index);
    for (int s = 0; s < SIDES; s++)
        pair->device[s]->ops->gather(
            pair->device[s],
            &(struct kvc_gather){
                .out = span_of(&y, s), .x = span_of(&x, s), .index = span_of(&which, s), .rows = rows, .width = width});
    SAME_FLOATS(pair, &y, "gather: rows %u, width %u", rows, width);
    both_free(pair, &x);
    both_free(pair, &y);
    both_free(pair, &which);
}

static void check_embed(struct pair *pair) {
    for (int t = 0; t < KVC_ALL_TYPES; t++) {
        const enum kvc_type type = (enum kvc_type)t;
        const uint32_t unit = kvc_type_block(type).elements, vocab = 1 + below(pair, 20);
        const uint32_t K = unit == 256 ? 256 * (1 + below(pair, 5)) : unit * (1 + below(pair, unit == 1 ? 300 : 20));
        const uint32_t rows = below(pair, 4) ? 1 + below(pair, 9) : 300;
        const size_t row_bytes = kvc_type_row_bytes(type, K);
        unsigned char *table = malloc(vocab * row_bytes);
        struct both tokens = both_make(pair, rows * 4), y = both_floats(pair, (size_t)rows * K, ORDINARY);
        assert_non_null(table);
        for (size_t i = 0; i < vocab * row_bytes; i++)
            table[i] = (unsigned char)chance(pair);
        for (uint32_t i = 0; i < rows; i++)
            ((int32_t *)tokens.on[REF]->data)[i] = (int32_t)below(pair, vocab);
        memcpy(tokens.on[PATH]->data, tokens.on[REF]->data, tokens.bytes);
        for (int s = 0; s < SIDES; s++) {
            struct kvc_weight *weight;
            struct kvc_error error;
            struct kvc_device *device = pair->device[s];
            if (device->ops->weight_create(device, type, vocab, K, table, &weight, &error) != KVC_OK)
                fail_msg("%s", error.text);
            device->ops->embed(
                device, &(struct kvc_embed){
                            .out = span_of(&y, s), .table = weight, .tokens = span_of(&tokens, s), .rows = rows});
            device->ops->weight_free(device, weight);
        }
        SAME_FLOATS(pair, &y, "embed: %s, K %u, rows %u", kvc_type_name(type), K, rows);
        both_free(pair, &tokens);
        both_free(pair, &y);
        free(table);
    }
}

static void test_norm(void **state) {
    (void)state;
    on_all(check_norm, 60);
}
static void test_rope(void **state) {
    (void)state;
    on_all(check_rope, 60);
}
static void test_values(void **state) {
    (void)state;
    on_all(check_values, 30);
    on_all(check_blend, 20);
}
static void test_gather(void **state) {
    (void)state;
    on_all(check_gather, 20);
}
static void test_embed(void **state) {
    (void)state;
    on_all(check_embed, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),   cmocka_unit_test(test_rope),  cmocka_unit_test(test_values),
        cmocka_unit_test(test_gather), cmocka_unit_test(test_embed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
