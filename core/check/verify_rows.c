/* verify_rows.c - test cases of the operations on rows: embed, norm, linear, rope, gated_silu, add, blend, scale,
 * repeat_heads, gather, gate_scores, fma_loop. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "core/base/types.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

static const uint32_t any_width[] = {1,   2,   3,   5,   7,   8,    15,   16,   17,   31,   32,   33,   48,   63,
                                     64,  65,  80,  96,  100, 127,  128,  129,  172,  255,  256,  257,  288,  300,
                                     511, 512, 513, 768, 896, 1000, 1023, 1024, 1025, 1536, 2048, 3000, 4096, 5000};
#define SMALL_WIDTHS 16 /* the first elements of any_width */
static const uint32_t head_sizes[] = {8, 64, 80, 96, 128, 256, 8, 64, 80, 96, 128, 256, 2, 20, 36};

static uint32_t draw_any(struct kvc_verify *v) {
    return v->small ? any_width[kvc_verify_range(v, 0, SMALL_WIDTHS - 1)] : kvc_verify_pick(v, any_width);
}

/* Draws the rows of a batch: mostly one or a few, up to 70. */
static uint32_t draw_rows(struct kvc_verify *v) {
    static const uint32_t rows[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 25, 31, 32, 33, 48};
    if (v->small)
        return kvc_verify_range(v, 0, 7) ? kvc_verify_range(v, 1, 5) : kvc_verify_range(v, 6, 18);
    return kvc_verify_range(v, 0, 7) ? kvc_verify_pick(v, rows) : kvc_verify_range(v, 1, 70);
}

uint32_t kvc_verify_width(struct kvc_verify *v, enum kvc_type type) {
    uint32_t block = kvc_type_block(type).elements, width = draw_any(v);
    return block == 1    ? width
           : block < 256 ? (uint32_t)kvc_round_up(width, block)
                         : kvc_verify_range(v, 1, v->small ? 2 : 20) * 256;
}

/* Sets a float32 scale and, if `ordinary`, replaces NaNs among the FP8 numbers. */
static void make_fp8(struct kvc_verify *v, unsigned char *block, bool ordinary) {
    const struct kvc_type_block of = kvc_type_block(KVC_FP8);
    const kvc_u32 bits = (kvc_verify_draw(v) & 0x807fffffu) | kvc_verify_range(v, 112, 122) << 23;
    for (uint32_t i = of.scale + of.wide; ordinary && i < of.bytes; i++)
        block[i] = (unsigned char)(block[i] ^ ((block[i] & 127) == 127));
    for (uint32_t i = 0; ordinary && i < of.wide; i++)
        block[of.scale + i] = (unsigned char)(bits >> 8 * i & 255);
}

static void put_half(unsigned char *at, kvc_u16 half) {
    at[0] = (unsigned char)(half & 0xff);
    at[1] = (unsigned char)(half >> 8);
}

/* Fills a block with random bits and scales of ordinary size; wild blocks may have any scale. */
static void make_block(struct kvc_verify *v, enum kvc_type type, unsigned char *block, bool wild) {
    const struct kvc_type_block of = kvc_type_block(type);
    for (uint32_t i = 0; i < of.bytes; i++)
        block[i] = (unsigned char)kvc_verify_draw(v);
    if (type == KVC_FP8)
        make_fp8(v, block, !wild || kvc_verify_range(v, 0, 15));
    for (uint32_t i = 0; type != KVC_FP8 && i < of.scales; i++)
        if (!wild || kvc_verify_range(v, 0, 15)) {
            uint32_t bits = kvc_verify_draw(v), exponent = kvc_verify_range(v, 1, 9);
            if (of.wide == 2)
                put_half(block + of.scale + 2 * i, (kvc_u16)((bits & 0x83ff) | exponent << 10));
            else /* a power of two */
                block[of.scale + i] = (unsigned char)(115 + exponent);
        }
}

const unsigned char *kvc_verify_matrix(struct kvc_verify *v, enum kvc_type type, uint32_t outputs, uint32_t inputs,
                                       enum kvc_flavour flavour) {
    struct kvc_type_block block = kvc_type_block(type);
    size_t row = kvc_type_row_bytes(type, inputs), unit = type == KVC_F32 ? 4 : 2;
    unsigned char *at = kvc_verify_alloc(v, outputs * row + unit);
    if (!at)
        return NULL;
    at += kvc_verify_range(v, 0, 1) ? unit : 0;
    if (block.elements > 1) {
        for (size_t i = 0; i < outputs * row / block.bytes; i++)
            make_block(v, type, at + i * block.bytes, flavour == KVC_WILD);
        return at;
    }
    for (uint32_t n = 0; n < outputs; n++) {
        uint32_t held = (uint32_t)v->held_count;
        const float *values = kvc_verify_values(v, inputs, flavour);
        for (uint32_t k = 0; values && k < inputs; k++) {
            unsigned char *to = at + n * row + (size_t)k * block.bytes;
            if (type == KVC_F32)
                memcpy(to, &values[k], 4);
            else
                put_half(to, type == KVC_F16 ? kvc_f32_to_f16(values[k]) : kvc_f32_to_bf16(values[k]));
        }
        kvc_verify_release(v, held);
    }
    return at;
}

bool kvc_verify_weight(struct kvc_verify *v, enum kvc_type type, uint32_t outputs, uint32_t inputs,
                       enum kvc_flavour flavour, struct kvc_weight *weight[2]) {
    const unsigned char *host = kvc_verify_matrix(v, type, outputs, inputs, flavour);
    weight[0] = weight[1] = NULL;
    for (int side = v->first; side < 2 && host && v->status == KVC_OK; side++)
        v->status =
            v->device[side]->ops->weight_create(v->device[side], type, outputs, inputs, host, &weight[side], &v->error);
    return v->status == KVC_OK;
}

void kvc_verify_weight_free(struct kvc_verify *v, struct kvc_weight *weight[2]) {
    for (int side = v->first; side < 2; side++)
        if (weight[side])
            v->device[side]->ops->weight_free(v->device[side], weight[side]);
}

KVC_INJECT(linear, kvc_linear, if (args->rows) kvc_flip(device, args->y, 0))
KVC_CASE(linear, 60) {
    static const uint32_t outputs[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 24, 31, 33, 47, 64, 65, 100};
    enum kvc_type type = (enum kvc_type)(v->row.cases % KVC_ALL_TYPES);
    uint32_t K = kvc_verify_width(v, type), rows = draw_rows(v), N = kvc_verify_pick(v, outputs);
    const uint32_t most = v->small ? 3000 : 20000000;
    enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct kvc_weight *weight[2];
    struct kvc_twin x, y, bias = {{NULL, NULL}};
    if (kvc_verify_range(v, 0, 9) == 0)
        N = kvc_verify_range(v, 200, 700); /* enough to be split among threads and tiles */
    if (v->row.cases % 16 == 15)
        rows = kvc_verify_range(v, 71, v->small ? 75 : 700); /* as many as in a chunk of a prompt */
    if ((uint64_t)K * N * rows > most) /* a large matrix with few rows, or many rows of a small one */
        N = most / (K * rows) + 1;
    snprintf(v->shape, sizeof v->shape, "%s, K %u, N %u, rows %u, flavour %d", kvc_type_name(type), (unsigned)K,
             (unsigned)N, (unsigned)rows, (int)flavour);
    x = kvc_verify_twin_values(v, (size_t)rows * K, flavour);
    y = kvc_verify_output(v, (size_t)rows * N * sizeof(float));
    if (kvc_verify_range(v, 0, 1))
        bias = kvc_verify_twin_values(v, N, flavour);
    if (v->status == KVC_OK && kvc_verify_weight(v, type, N, K, kvc_verify_flavour(v), weight)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->linear(v->device[side], &(struct kvc_linear){.y = kvc_verify_span(y, side),
                                                                               .x = kvc_verify_span(x, side),
                                                                               .w = weight[side],
                                                                               .bias = kvc_verify_span(bias, side),
                                                                               .rows = rows});
        kvc_verify_compare(v, y, 0, (size_t)rows * N, "y");
        kvc_verify_weight_free(v, weight);
    }
}

KVC_INJECT(embed, kvc_embed, if (args->rows) kvc_flip(device, args->out, 0))
KVC_CASE(embed, 15) {
    enum kvc_type type = (enum kvc_type)(v->row.cases % KVC_ALL_TYPES);
    uint32_t K = kvc_verify_width(v, type), rows = draw_rows(v), vocab = kvc_verify_range(v, 1, 40);
    struct kvc_weight *weight[2];
    struct kvc_twin tokens, out;
    int32_t *token = kvc_verify_alloc(v, rows * sizeof *token);
    for (uint32_t i = 0; token && i < rows; i++)
        token[i] = (int32_t)kvc_verify_range(v, 0, vocab - 1);
    snprintf(v->shape, sizeof v->shape, "%s, K %u, rows %u", kvc_type_name(type), (unsigned)K, (unsigned)rows);
    tokens = kvc_verify_twin(v, rows * sizeof *token, token);
    out = kvc_verify_output(v, (size_t)rows * K * sizeof(float));
    if (v->status == KVC_OK && kvc_verify_weight(v, type, vocab, K, kvc_verify_flavour(v), weight)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->embed(v->device[side], &(struct kvc_embed){.out = kvc_verify_span(out, side),
                                                                             .table = weight[side],
                                                                             .tokens = kvc_verify_span(tokens, side),
                                                                             .rows = rows});
        kvc_verify_compare(v, out, 0, (size_t)rows * K, "out");
        kvc_verify_weight_free(v, weight);
    }
}

KVC_INJECT(norm, kvc_norm, if (args->rows) kvc_flip(device, args->y, (size_t)args->rows * args->K - 1))
KVC_CASE(norm, 40) {
    static const float eps[] = {1e-5f, 1e-6f, 0.0f};
    uint32_t K = draw_any(v), rows = draw_rows(v);
    enum kvc_flavour flavour = kvc_verify_flavour(v);
    bool in_place = kvc_verify_range(v, 0, 1);
    float e = kvc_verify_pick(v, eps);
    const uint32_t heads = v->further == KVC_FURTHER_heads ? kvc_verify_range(v, 1, 9) : 0;
    const bool centred = v->further == KVC_FURTHER_heads ? kvc_verify_range(v, 0, 1) : v->further;
    const size_t weights = (size_t)K * (heads ? heads : 1);
    struct kvc_twin x = kvc_verify_twin_values(v, (size_t)rows * K, flavour),
                    w = kvc_verify_twin_values(v, weights, KVC_PLAIN);
    struct kvc_twin y = in_place ? x : kvc_verify_output(v, (size_t)rows * K * sizeof(float));
    struct kvc_twin bias = {{NULL, NULL}};
    if (centred && kvc_verify_range(v, 0, 2))
        bias = kvc_verify_twin_values(v, weights, KVC_PLAIN);
    snprintf(v->shape, sizeof v->shape, "K %u, rows %u, heads %u, flavour %d%s%s", (unsigned)K, (unsigned)rows,
             (unsigned)heads, (int)flavour, in_place ? ", in place" : "", centred ? ", centred" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->norm(v->device[side], &(struct kvc_norm){.y = kvc_verify_span(y, side),
                                                                       .x = kvc_verify_span(x, side),
                                                                       .w = kvc_verify_span(w, side),
                                                                       .rows = rows,
                                                                       .K = K,
                                                                       .heads = heads,
                                                                       .eps = e,
                                                                       .centred = centred,
                                                                       .bias = kvc_verify_span(bias, side)});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, (size_t)rows * K, "y");
}

KVC_FURTHER_CASES(norm, centred, 20)
KVC_FURTHER_CASES(norm, heads, 20)

KVC_INJECT(rope, kvc_rope_heads,
           if (args->rows) kvc_flip(device, args->y, (size_t)args->rows * args->heads * args->head_size - 1))
KVC_CASE(rope, 30) {
    uint32_t d = kvc_verify_pick(v, head_sizes), rows = draw_rows(v), heads = kvc_verify_range(v, 1, 9);
    uint32_t rotary = kvc_verify_range(v, 0, 1) ? d : 2 * kvc_verify_range(v, 1, d / 2);
    bool interleaved = kvc_verify_range(v, 0, 1), in_place = !interleaved && kvc_verify_range(v, 0, 1);
    enum kvc_flavour flavour = kvc_verify_flavour(v);
    size_t n = (size_t)rows * heads * d;
    struct kvc_twin x = kvc_verify_twin_values(v, n, flavour);
    struct kvc_twin c = kvc_verify_twin_values(v, (size_t)rows * (rotary / 2), KVC_PLAIN);
    struct kvc_twin s = kvc_verify_twin_values(v, (size_t)rows * (rotary / 2), KVC_PLAIN);
    struct kvc_twin y = in_place ? x : kvc_verify_output(v, n * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "d %u, rotary %u, heads %u, rows %u%s%s", (unsigned)d, (unsigned)rotary,
             (unsigned)heads, (unsigned)rows, interleaved ? ", interleaved" : "", in_place ? ", in place" : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->rope(v->device[side], &(struct kvc_rope_heads){.y = kvc_verify_span(y, side),
                                                                             .x = kvc_verify_span(x, side),
                                                                             .cosine = kvc_verify_span(c, side),
                                                                             .sine = kvc_verify_span(s, side),
                                                                             .rows = rows,
                                                                             .heads = heads,
                                                                             .head_size = d,
                                                                             .rotary = rotary,
                                                                             .interleaved = interleaved});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, n, "y");
}

KVC_INJECT(gated_silu, kvc_gated_silu, if (args->n) kvc_flip(device, args->y, args->n - 1))
KVC_CASE(gated_silu, 15) {
    uint32_t rows = draw_rows(v), width = draw_any(v);
    size_t n = (size_t)rows * width;
    enum kvc_flavour flavour = kvc_verify_flavour(v);
    float *values = kvc_verify_values(v, n, flavour);
    struct kvc_twin gate, up = kvc_verify_twin_values(v, n, kvc_verify_flavour(v)), y;
    if (flavour == KVC_PLAIN) /* covers the whole range of exp */
        for (size_t i = 0; values && i < n; i++)
            values[i] = values[i] * 32.0f;
    gate = kvc_verify_twin(v, n * sizeof(float), values);
    y = kvc_verify_range(v, 0, 1) ? gate : kvc_verify_output(v, n * sizeof(float));
    const bool more = v->further == KVC_FURTHER_activation, gated = !more || kvc_verify_range(v, 0, 1);
    const enum kvc_activation activation = v->further == KVC_FURTHER_clamped              ? KVC_CLAMPED_SILU
                                           : v->further == KVC_FURTHER_sigmoid            ? KVC_SIGMOID
                                           : v->further == KVC_FURTHER_exact              ? KVC_GELU_EXACT
                                           : more && (gated || kvc_verify_range(v, 0, 2)) ? KVC_GELU
                                                                                          : KVC_SILU;
    snprintf(v->shape, sizeof v->shape, "n %zu, flavour %d%s%s", n, (int)flavour, gated ? "" : ", not gated",
             activation == KVC_GELU           ? ", gelu"
             : activation == KVC_CLAMPED_SILU ? ", clamped"
             : activation == KVC_SIGMOID      ? ", sigmoid"
             : activation == KVC_GELU_EXACT   ? ", exact gelu"
                                              : "");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->gated_silu(
            v->device[side],
            &(struct kvc_gated_silu){.y = kvc_verify_span(y, side),
                                     .gate = kvc_verify_span(gate, side),
                                     .up = gated ? kvc_verify_span(up, side) : (struct kvc_span){NULL, 0},
                                     .n = n,
                                     .activation = activation});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, n, "y");
}

KVC_FURTHER_CASES(gated_silu, activation, 15)
KVC_FURTHER_CASES(gated_silu, clamped, 15)
KVC_FURTHER_CASES(gated_silu, sigmoid, 15)
KVC_FURTHER_CASES(gated_silu, exact, 15)

KVC_INJECT(add, kvc_add, if (args->n) kvc_flip(device, args->y, args->n - 1))
KVC_CASE(add, 8) {
    uint32_t rows = draw_rows(v), width = draw_any(v);
    size_t n = (size_t)rows * width;
    struct kvc_twin y = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "n %zu", n);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->add(
            v->device[side], &(struct kvc_add){.y = kvc_verify_span(y, side), .x = kvc_verify_span(x, side), .n = n});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, n, "y");
}

KVC_INJECT(blend, kvc_blend, if (args->n) kvc_flip(device, args->y, args->n - 1))
KVC_CASE(blend, 8) {
    static const float share[] = {0.32f, 0.2f, 0.0f, 1.0f, 0.999f};
    uint32_t rows = draw_rows(v), width = draw_any(v);
    size_t n = (size_t)rows * width;
    float s = kvc_verify_pick(v, share);
    struct kvc_twin y = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "n %zu, share %g", n, (double)s);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->blend(
            v->device[side],
            &(struct kvc_blend){.y = kvc_verify_span(y, side), .x = kvc_verify_span(x, side), .share = s, .n = n});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, n, "y");
}

KVC_INJECT(scale, kvc_scale, if (args->n) kvc_flip(device, args->y, args->n - 1))
KVC_CASE(scale, 12) {
    static const float factors[] = {1.0f, 16.0f, 25.298222f, 0.22f, 1e20f}, caps[] = {0.0f, 30.0f, 50.0f, 0.01f};
    uint32_t rows = draw_rows(v), width = draw_any(v);
    size_t n = (size_t)rows * width;
    const float factor = kvc_verify_pick(v, factors), cap = kvc_verify_pick(v, caps);
    struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    struct kvc_twin y = kvc_verify_range(v, 0, 1) ? x : kvc_verify_output(v, n * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "n %zu, factor %g, cap %g", n, (double)factor, (double)cap);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->scale(
            v->device[side],
            &(struct kvc_scale){
                .y = kvc_verify_span(y, side), .x = kvc_verify_span(x, side), .n = n, .factor = factor, .cap = cap});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, y, 0, n, "y");
}

KVC_INJECT(hadamard, kvc_hadamard, if (args->heads) kvc_flip(device, args->x, (size_t)args->heads * args->d - 1))
KVC_CASE(hadamard, 12) {
    static const uint32_t sizes[] = {1, 2, 3, 8, 20, 33, 64, 80, 96, 128, 256, 512};
    const uint32_t heads = kvc_verify_range(v, 1, v->small ? 20 : 300), d = kvc_verify_pick(v, sizes);
    const size_t n = (size_t)heads * d;
    const struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "heads %u, d %u", (unsigned)heads, (unsigned)d);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->hadamard(v->device[side],
                                       &(struct kvc_hadamard){.x = kvc_verify_span(x, side), .heads = heads, .d = d});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, x, 0, n, "x");
}

KVC_INJECT(smooth_factors, kvc_smooth_factors,
           kvc_flip(device, args->factors, (size_t)2 * args->kv_heads * args->d - 1))
KVC_CASE(smooth_factors, 12) {
    const uint32_t rows = draw_rows(v), d = draw_any(v), kv_heads = kvc_verify_range(v, 1, 3),
                   heads = kv_heads * kvc_verify_range(v, 1, 4), n = kv_heads * d;
    const bool queries = kvc_verify_range(v, 0, 5) > 0;
    const struct kvc_twin k = kvc_verify_twin_values(v, (size_t)rows * n, kvc_verify_flavour(v)),
                          q = kvc_verify_twin_values(v, (size_t)rows * heads * d, kvc_verify_flavour(v)),
                          factors = kvc_verify_output(v, 2 * (size_t)n * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "rows %u, heads %u, kv_heads %u, d %u%s", (unsigned)rows, (unsigned)heads,
             (unsigned)kv_heads, (unsigned)d, queries ? "" : ", no queries");
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->smooth_factors(
            v->device[side],
            &(struct kvc_smooth_factors){.k = kvc_verify_span(k, side),
                                         .q = queries ? kvc_verify_span(q, side) : (struct kvc_span){0},
                                         .factors = kvc_verify_span(factors, side),
                                         .rows = rows,
                                         .heads = heads,
                                         .kv_heads = kv_heads,
                                         .d = d});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, factors, 0, 2 * (size_t)n, "factors");
}

KVC_INJECT(smooth, kvc_smooth,
           if (args->rows) kvc_flip(device, args->x, (size_t)args->rows * args->heads * args->d - 1))
KVC_CASE(smooth, 12) {
    const uint32_t rows = draw_rows(v), d = draw_any(v), kv_heads = kvc_verify_range(v, 1, 3),
                   heads = kv_heads * kvc_verify_range(v, 1, 4);
    const size_t n = (size_t)rows * heads * d;
    const struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v)),
                          factor = kvc_verify_twin_values(v, (size_t)kv_heads * d, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "rows %u, heads %u, kv_heads %u, d %u", (unsigned)rows, (unsigned)heads,
             (unsigned)kv_heads, (unsigned)d);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->smooth(v->device[side], &(struct kvc_smooth){.x = kvc_verify_span(x, side),
                                                                           .factor = kvc_verify_span(factor, side),
                                                                           .rows = rows,
                                                                           .heads = heads,
                                                                           .kv_heads = kv_heads,
                                                                           .d = d});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, x, 0, n, "x");
}

KVC_INJECT(centre, kvc_centre, if (args->rows) kvc_flip(device, args->x, (size_t)args->rows * args->width - 1))
KVC_CASE(centre, 12) {
    static const enum kvc_type types[] = {KVC_Q4H, KVC_Q5H, KVC_Q6H, KVC_F32};
    const enum kvc_type type = kvc_verify_pick(v, types);
    const uint32_t rows = draw_rows(v), d = draw_any(v), width = d * kvc_verify_range(v, 1, 3);
    const uint32_t first =
        kvc_verify_range(v, 0, 2) ? kvc_verify_range(v, 1, rows < KVC_MEAN_ROWS ? rows : KVC_MEAN_ROWS) : 0;
    const struct kvc_twin x = kvc_verify_twin_values(v, (size_t)rows * width, kvc_verify_flavour(v));
    const struct kvc_twin mean = kvc_verify_twin_values(v, width, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "rows %u, heads %u, d %u, mean of %u, keys %s", (unsigned)rows,
             (unsigned)(width / d), (unsigned)d, (unsigned)first, kvc_type_name(type));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->centre(v->device[side], &(struct kvc_centre){.x = kvc_verify_span(x, side),
                                                                           .centre = kvc_verify_span(mean, side),
                                                                           .rows = rows,
                                                                           .width = width,
                                                                           .first = first,
                                                                           .d = d,
                                                                           .type = type});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, mean, 0, width, "centre");
    if (v->status == KVC_OK)
        kvc_verify_compare(v, x, 0, (size_t)rows * width, "x");
}

KVC_INJECT(repeat_heads, kvc_repeat_heads,
           if (args->rows)
               kvc_flip(device, args->out, (size_t)args->rows * args->heads * args->copies * args->head_size - 1))
KVC_CASE(repeat_heads, 8) {
    uint32_t rows = draw_rows(v), heads = kvc_verify_range(v, 1, 9), copies = kvc_verify_group(v);
    uint32_t d = kvc_verify_pick(v, head_sizes);
    size_t n = (size_t)rows * heads * d;
    struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    struct kvc_twin out = kvc_verify_output(v, n * copies * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "rows %u, heads %u, copies %u, d %u", (unsigned)rows, (unsigned)heads,
             (unsigned)copies, (unsigned)d);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->repeat_heads(v->device[side],
                                           &(struct kvc_repeat_heads){.out = kvc_verify_span(out, side),
                                                                      .x = kvc_verify_span(x, side),
                                                                      .rows = rows,
                                                                      .heads = heads,
                                                                      .copies = copies,
                                                                      .head_size = d});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, out, 0, n * copies, "out");
}

KVC_INJECT(gather, kvc_gather, if (args->rows) kvc_flip(device, args->out, (size_t)args->rows * args->width - 1))
KVC_CASE(gather, 8) {
    uint32_t width = draw_any(v), from = draw_rows(v), rows = draw_rows(v);
    uint32_t *index = kvc_verify_alloc(v, rows * sizeof *index);
    struct kvc_twin x = kvc_verify_twin_values(v, (size_t)from * width, kvc_verify_flavour(v)), indices;
    struct kvc_twin out = kvc_verify_output(v, (size_t)rows * width * sizeof(float));
    for (uint32_t i = 0; index && i < rows; i++)
        index[i] = kvc_verify_range(v, 0, from - 1);
    indices = kvc_verify_twin(v, rows * sizeof *index, index);
    snprintf(v->shape, sizeof v->shape, "width %u, rows %u of %u", (unsigned)width, (unsigned)rows, (unsigned)from);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->gather(v->device[side], &(struct kvc_gather){.out = kvc_verify_span(out, side),
                                                                           .x = kvc_verify_span(x, side),
                                                                           .index = kvc_verify_span(indices, side),
                                                                           .rows = rows,
                                                                           .width = width});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, out, 0, (size_t)rows * width, "out");
}

KVC_INJECT(gate_scores, kvc_gate_scores,
           if (args->rows) kvc_flip(device, args->scores, (size_t)args->rows * args->kv_heads - 1))
KVC_CASE(gate_scores, 8) {
    const uint32_t rows = draw_rows(v), heads = kvc_verify_range(v, 1, 9), group = kvc_verify_group(v);
    const uint32_t sinks = kvc_verify_range(v, 0, 17),
                   width = kvc_verify_range(v, 0, 1) ? 16 : kvc_verify_range(v, 1, 40);
    const size_t n = (size_t)rows * heads;
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    const struct kvc_twin q = kvc_verify_twin_values(v, n * group * width, flavour);
    const struct kvc_twin k = kvc_verify_twin_values(v, n * width, flavour);
    const struct kvc_twin base = kvc_verify_twin_values(v, (size_t)heads * (sinks + 1) * width, flavour);
    const struct kvc_twin bias = kvc_verify_twin_values(v, (size_t)heads * group, flavour);
    const struct kvc_twin scores = kvc_verify_output(v, n * sizeof(float));
    snprintf(v->shape, sizeof v->shape, "rows %u, heads %u, group %u, sinks %u, channels %u", (unsigned)rows,
             (unsigned)heads, (unsigned)group, (unsigned)sinks, (unsigned)width);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->gate_scores(v->device[side],
                                          &(struct kvc_gate_scores){.scores = kvc_verify_span(scores, side),
                                                                    .q = kvc_verify_span(q, side),
                                                                    .k = kvc_verify_span(k, side),
                                                                    .base = kvc_verify_span(base, side),
                                                                    .bias = kvc_verify_span(bias, side),
                                                                    .rows = rows,
                                                                    .kv_heads = heads,
                                                                    .group = group,
                                                                    .sinks = sinks,
                                                                    .channels = width,
                                                                    .scale = 0.25f});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, scores, 0, n, "scores");
}

KVC_INJECT(fma_loop, kvc_fma_loop, if (args->n) kvc_flip(device, args->x, args->n - 1))
KVC_CASE(fma_loop, 8) {
    const size_t n = 128 * (size_t)kvc_verify_range(v, 1, v->small ? 2 : 130);
    const uint32_t rounds = kvc_verify_range(v, 0, 40);
    struct kvc_twin x = kvc_verify_twin_values(v, n, kvc_verify_flavour(v));
    snprintf(v->shape, sizeof v->shape, "n %zu, rounds %u", n, (unsigned)rounds);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->fma_loop(v->device[side],
                                       &(struct kvc_fma_loop){.x = kvc_verify_span(x, side), .n = n, .rounds = rounds});
    if (v->status == KVC_OK)
        kvc_verify_compare(v, x, 0, n, "x");
}
