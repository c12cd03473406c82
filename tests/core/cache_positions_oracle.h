/* cache_positions_oracle.h - a small network whose weights the test knows, and an oracle of it that computes one token
 * after another and rotates every key again for every query. */
#ifndef KVC_TESTS_CORE_CACHE_POSITIONS_ORACLE_H
#define KVC_TESTS_CORE_CACHE_POSITIONS_ORACLE_H

#include "core/base/canon.h"
#include "core/base/trig.h"
#include "core/engine/session.h"
#include "tests/check.h"
#include "tests/oracle/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 3, HIDDEN = 20, HEADS = 4, KV_HEADS = 2, D = 12, FEED = 16, VOCAB = 50 };
enum { Q = HEADS * D, K = KV_HEADS * D, TOKENS = 300 };

static struct kvc_engine *engine;
static struct kvc_error error;

/* ---- a small network whose weights the test knows ---- */

struct matrix {
    uint32_t outputs, inputs;
    float *w; /* [outputs, inputs] */
};

struct model {
    struct matrix embedding, head;
    struct {
        struct matrix q, k, v, output, gate, up, down;
        float *attention_norm, *feed_norm, *k_norm; /* k_norm: NULL, or [D]; queries use it, too */
    } layer[LAYERS];
    float *final_norm;
    struct kvc_layer layers[LAYERS];
    struct kvc_network network;
    struct kvc_weight *weights[64];
    struct kvc_buffer *buffers[64];
};

static float number(uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*random >> 40) / (1 << 23) - 1);
}

static struct kvc_weight *make_matrix(struct model *m, struct matrix *made, uint32_t outputs, uint32_t inputs,
                                      uint64_t *random) {
    struct kvc_device *device = engine->device;
    *made = (struct matrix){outputs, inputs, malloc((size_t)outputs * inputs * sizeof(float))};
    assert_non_null(made->w);
    for (size_t i = 0; i < (size_t)outputs * inputs; i++)
        made->w[i] = 0.6f * number(random);
    struct kvc_weight **weight = &m->weights[m->network.weight_count++];
    FINE(device->ops->weight_create(device, KVC_F32, outputs, inputs, made->w, weight, &error));
    return *weight;
}

static struct kvc_span make_norm(struct model *m, float **made, uint32_t n, uint64_t *random) {
    struct kvc_device *device = engine->device;
    *made = malloc(n * sizeof **made);
    assert_non_null(*made);
    for (uint32_t i = 0; i < n; i++)
        (*made)[i] = 1 + 0.3f * number(random);
    struct kvc_buffer **buffer = &m->buffers[m->network.buffer_count++];
    FINE(device->ops->buffer_create(device, KVC_MEMORY_WEIGHTS, n * sizeof **made, buffer, &error));
    device->ops->upload(device, (struct kvc_span){*buffer, 0}, *made, n * sizeof **made);
    return (struct kvc_span){*buffer, 0};
}

static struct model *make_model(const struct kvc_rope *rope, bool norms) {
    struct model *m = calloc(1, sizeof *m);
    uint64_t random = 11;
    assert_non_null(m);
    m->network = (struct kvc_network){.layers = LAYERS,
                                      .hidden = HIDDEN,
                                      .heads = HEADS,
                                      .kv_heads = KV_HEADS,
                                      .head_size = D,
                                      .feed_forward = FEED,
                                      .vocab = VOCAB,
                                      .trained_context = 4096,
                                      .norm_eps = 1e-5f,
                                      .rope = {*rope},
                                      .ropes = 1,
                                      .layer = m->layers,
                                      .weights = m->weights,
                                      .buffers = m->buffers};
    m->network.embedding = make_matrix(m, &m->embedding, VOCAB, HIDDEN, &random);
    m->network.head = make_matrix(m, &m->head, VOCAB, HIDDEN, &random);
    m->network.final_norm = make_norm(m, &m->final_norm, HIDDEN, &random);
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct kvc_layer *layer = &m->layers[l];
        layer->q = make_matrix(m, &m->layer[l].q, Q, HIDDEN, &random);
        layer->k = make_matrix(m, &m->layer[l].k, K, HIDDEN, &random);
        layer->v = make_matrix(m, &m->layer[l].v, K, HIDDEN, &random);
        layer->output = make_matrix(m, &m->layer[l].output, HIDDEN, Q, &random);
        layer->gate = make_matrix(m, &m->layer[l].gate, FEED, HIDDEN, &random);
        layer->up = make_matrix(m, &m->layer[l].up, FEED, HIDDEN, &random);
        layer->down = make_matrix(m, &m->layer[l].down, HIDDEN, FEED, &random);
        layer->attention_norm = make_norm(m, &m->layer[l].attention_norm, HIDDEN, &random);
        layer->feed_norm = make_norm(m, &m->layer[l].feed_norm, HIDDEN, &random);
        if (norms)
            layer->q_norm = layer->k_norm = make_norm(m, &m->layer[l].k_norm, D, &random);
    }
    return m;
}

static void free_model(struct model *m) {
    struct kvc_device *device = engine->device;
    for (size_t i = 0; i < m->network.weight_count; i++)
        device->ops->weight_free(device, m->weights[i]);
    for (size_t i = 0; i < m->network.buffer_count; i++)
        device->ops->buffer_free(device, m->buffers[i]);
    free(m->embedding.w);
    free(m->head.w);
    free(m->final_norm);
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct matrix *all[] = {&m->layer[l].q,    &m->layer[l].k,  &m->layer[l].v,   &m->layer[l].output,
                                &m->layer[l].gate, &m->layer[l].up, &m->layer[l].down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]->w);
        free(m->layer[l].attention_norm);
        free(m->layer[l].feed_norm);
        free(m->layer[l].k_norm);
    }
    free(m);
}

/* ---- the oracle: one token after another, with every key rotated again for every query ---- */

struct text { /* what one session has seen */
    const struct model *m;
    enum kvc_type type;
    bool long_factors;
    struct tensors shape;
    struct head heads[LAYERS][HEADS]; /* shape.lists of a layer; each entry's k: [D] as stored, then [D] unrotated */
    uint32_t tokens;
    uint32_t probe;             /* number of rows of a probe computed so far; they follow the tokens */
    bool hidden;                /* the row gets no entry, so later rows do not see it */
    float q[LAYERS][TOKENS][Q]; /* rotated queries of tokens and of the newest probe's rows */
};

static void multiply(const struct matrix *w, const float *x, float *y) {
    for (uint32_t i = 0; i < w->outputs; i++)
        y[i] = oracle_dot(x, w->w + (size_t)i * w->inputs, w->inputs);
}

static void norm(const float *x, const float *w, uint32_t n, float *y) {
    const float r = 1.0f / sqrtf(oracle_dot(x, x, n) / (float)n + 1e-5f);
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

static void rotate(const struct text *text, const float *x, uint32_t position, float *y) {
    const struct kvc_rope *rope = &text->m->network.rope[0];
    const float *frequency = text->long_factors ? rope->long_frequency : rope->frequency;
    const float factor = text->long_factors ? rope->long_attention_factor : rope->attention_factor;
    const uint32_t half = rope->rotary / 2;
    memcpy(y, x, D * sizeof *y);
    for (uint32_t i = 0; i < half; i++) {
        const float angle = (float)position * frequency[i];
        const float c = (float)kvc_double_cos(angle) * factor, s = (float)kvc_double_sin(angle) * factor;
        const float x0 = x[rope->interleaved ? 2 * i : i], x1 = x[rope->interleaved ? 2 * i + 1 : i + half];
        y[i] = fmaf(-x1, s, x0 * c);
        y[i + half] = fmaf(x0, s, x1 * c);
    }
}

static void add_entry(const struct text *text, struct head *head, const float *k, const float *v) {
    struct entry *entry = &head->entries[head->count++];
    *entry = (struct entry){
        .position = (int32_t)text->tokens, .k = malloc(2 * D * sizeof(float)), .v = malloc(D * sizeof(float))};
    assert_true(entry->k && entry->v);
    memcpy(entry->k + D, k, D * sizeof *k);
    oracle_store(text->type, v, entry->v, D);
}

static void attend_row(struct text *text, uint32_t l, const float *q, const float *k, const float *v, float *out) {
    const uint32_t lists = text->shape.lists, group = HEADS / lists;
    for (uint32_t h = 0; h < lists; h++) {
        struct head *head = &text->heads[l][h];
        const uint32_t from = h * KV_HEADS / lists * D;
        float rotated[D], s[TOKENS], a[TOKENS];
        if (!text->hidden)
            add_entry(text, head, k + from, v + from);
        for (uint32_t r = 0; r < head->count; r++) {
            rotate(text, head->entries[r].k + D, r, rotated);
            oracle_store(text->type, rotated, head->entries[r].k, D);
        }
        for (uint32_t query = h * group; query < (h + 1) * group; query++) {
            float *kept = text->q[l][text->tokens + text->probe] + query * D;
            rotate(text, q + query * D, text->hidden ? head->count + text->probe : head->count - 1, kept);
            attend(head->entries, head->count, kept, D, s, a, out + query * D);
        }
    }
}

/* Computes the logits [VOCAB] that follow a token. */
static void compute_row(struct text *text, int32_t token, float *logits) {
    const struct model *m = text->m;
    float x[HIDDEN], y[HIDDEN], q[Q], k[K], v[K], out[Q], gate[FEED], up[FEED];
    memcpy(x, m->embedding.w + token * HIDDEN, sizeof x);
    for (uint32_t l = 0; l < LAYERS; l++) {
        norm(x, m->layer[l].attention_norm, HIDDEN, y);
        multiply(&m->layer[l].q, y, q);
        multiply(&m->layer[l].k, y, k);
        multiply(&m->layer[l].v, y, v);
        for (uint32_t h = 0; m->layer[l].k_norm && h < HEADS; h++)
            norm(q + h * D, m->layer[l].k_norm, D, q + h * D);
        for (uint32_t h = 0; m->layer[l].k_norm && h < KV_HEADS; h++)
            norm(k + h * D, m->layer[l].k_norm, D, k + h * D);
        attend_row(text, l, q, k, v, out);
        multiply(&m->layer[l].output, out, y);
        for (uint32_t i = 0; i < HIDDEN; i++)
            x[i] += y[i];
        norm(x, m->layer[l].feed_norm, HIDDEN, y);
        multiply(&m->layer[l].gate, y, gate);
        multiply(&m->layer[l].up, y, up);
        for (uint32_t i = 0; i < FEED; i++)
            gate[i] = kvc_silu(gate[i]) * up[i];
        multiply(&m->layer[l].down, gate, y);
        for (uint32_t i = 0; i < HIDDEN; i++)
            x[i] += y[i];
    }
    norm(x, m->final_norm, HIDDEN, y);
    multiply(&m->head, y, logits);
}

static void oracle_row(struct text *text, int32_t token, float *logits) {
    compute_row(text, token, logits);
    text->tokens++;
}

/* Evicts the entries that are not marked. */
static void keep_marked(struct head *head, const bool *kept) {
    for (uint32_t r = 0; r < head->count; r++)
        if (!kept[r]) {
            free(head->entries[r].k);
            free(head->entries[r].v);
        }
    remove_unkept(head, kept);
}

/* Computes the rows of a probe, which leaves no entries. If `together`, its rows also see those before them. */
static void oracle_probe(struct text *text, const int32_t *tokens, uint32_t count, bool together) {
    float logits[VOCAB];
    bool kept[TOKENS];
    text->hidden = !together;
    for (text->probe = 0; text->probe < count; text->probe++)
        compute_row(text, tokens[text->probe], logits);
    for (uint32_t i = 0; together && i < LAYERS * text->shape.lists; i++) {
        struct head *head = &text->heads[i / text->shape.lists][i % text->shape.lists];
        for (uint32_t r = 0; r < head->count; r++)
            kept[r] = r < head->count - count;
        keep_marked(head, kept);
    }
    text->probe = 0;
    text->hidden = false;
}

static struct text *open_text(const struct model *m, enum kvc_type type, uint32_t lists, bool long_factors) {
    struct text *text = calloc(1, sizeof *text);
    assert_non_null(text);
    text->m = m;
    text->type = type;
    text->long_factors = long_factors;
    text->shape = (struct tensors){
        .layers = LAYERS, .heads = HEADS, .kv_heads = KV_HEADS, .lists = lists, .d = D, .rows = TOKENS};
    for (uint32_t i = 0; i < LAYERS * lists; i++) {
        text->heads[i / lists][i % lists].entries = calloc(TOKENS, sizeof(struct entry));
        assert_non_null(text->heads[i / lists][i % lists].entries);
    }
    return text;
}

static void close_text(struct text *text) {
    for (uint32_t i = 0; i < LAYERS * text->shape.lists; i++) {
        struct head *head = &text->heads[i / text->shape.lists][i % text->shape.lists];
        for (uint32_t r = 0; r < head->count; r++) {
            free(head->entries[r].k);
            free(head->entries[r].v);
        }
        free(head->entries);
    }
    free(text);
}

#endif
