/* test_methods.c - every method keeps exactly the entries that slow, obvious code keeps, written here from
 * docs/methods.md on plain lists; and attention over what is left has the same bits. */
#include "tests/check.h"
#include "core/canon.h"
#include "kvcull.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- tensors ---- */

enum kind { RANDOM, EQUAL_KEYS, PLANTED, DRIFT, DENORMAL, HUGE_SCORES, KINDS };

struct tensors {
    uint32_t layers, heads, kv_heads, d, rows;
    float *q, *k, *v; /* [layers, rows, heads, d] or kv_heads */
};

static uint64_t random_state;
static float uniform(void) { /* -1 .. 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(random_state >> 33) - (1 << 30)) / (float)(1 << 30);
}

static float *q_row(const struct tensors *t, uint32_t l, uint32_t row) {
    return t->q + (size_t)(l * t->rows + row) * t->heads * t->d;
}
static size_t kv_at(const struct tensors *t, uint32_t l, uint32_t row, uint32_t h) {
    return ((size_t)(l * t->rows + row) * t->kv_heads + h) * t->d;
}

static struct tensors make_tensors(enum kind kind, uint64_t seed, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                                   uint32_t d, uint32_t rows) {
    struct tensors t = {layers, heads, kv_heads, d, rows, NULL, NULL, NULL};
    const size_t nq = (size_t)layers * rows * heads * d, nk = (size_t)layers * rows * kv_heads * d;
    random_state = seed;
    t.q = malloc(nq * sizeof(float));
    t.k = malloc(nk * sizeof(float));
    t.v = malloc(nk * sizeof(float));
    assert_true(t.q && t.k && t.v);
    const float scale = kind == DENORMAL ? 1e-41f : kind == HUGE_SCORES ? 40.0f : 1.0f;
    for (size_t i = 0; i < nq; i++)
        t.q[i] = uniform() * (kind == DENORMAL ? 1.0f : scale);
    for (size_t i = 0; i < nk; i++)
        t.k[i] = uniform() * scale;
    for (size_t i = 0; i < nk; i++)
        t.v[i] = uniform();
    for (uint32_t l = 0; l < layers; l++) {
        for (uint32_t row = 0; row < rows; row++) {
            for (uint32_t h = 0; h < kv_heads; h++) {
                float *k = t.k + kv_at(&t, l, row, h);
                for (uint32_t c = 0; c < d; c++) {
                    if (kind == EQUAL_KEYS)
                        k[c] = 0.5f;
                    if (kind == PLANTED && row % 17 == h)
                        k[c] = 2.0f;
                    if (kind == DRIFT)
                        k[c] += (float)row / (float)rows;
                }
            }
            for (uint32_t i = 0; i < heads * d && (kind == PLANTED || kind == DRIFT); i++)
                q_row(&t, l, row)[i] += 0.5f;
        }
    }
    return t;
}

static void free_tensors(struct tensors *t) {
    free(t->q);
    free(t->k);
    free(t->v);
}

/* ---- the obvious code ---- */

#define RING 64

struct entry {
    int32_t position;
    float *k, *v;     /* [d], as stored */
    float ring[RING]; /* morphkv: by query position % window */
};

struct head { /* one KV head of one layer */
    struct entry *entries;
    uint32_t count;
};

enum method { FULL, WINDOW, STREAMING, SNAPKV, MORPHKV };

struct plan { /* one method, as its options say */
    enum method prompt, decode;
    uint32_t budget, sinks, window, kernel, every;
    bool average, max_fusion, logits;
    uint32_t decode_budget, decode_window, skip_layers;
};

static void store(enum kvc_type type, const float *from, float *to, uint32_t d) {
    for (uint32_t c = 0; c < d; c++)
        to[c] = type == KVC_F16 ? kvc_f16_to_f32(kvc_f16_store(from[c])) : from[c];
    if (type != KVC_Q8_0)
        return;
    for (uint32_t first = 0; first < d; first += 32) {
        const uint32_t end = first + 32 < d ? first + 32 : d;
        float amax = 0;
        for (uint32_t c = first; c < end; c++)
            amax = fabsf(from[c]) > amax ? fabsf(from[c]) : amax;
        const float scale = kvc_f16_to_f32(kvc_f16_store(amax / 127.0f));
        for (uint32_t c = first; c < end; c++)
            to[c] = scale == 0 ? 0 : rintf(from[c] / scale) * scale;
    }
}

static float dot(const float *a, const float *b, uint32_t n) {
    float lane[32] = {0};
    for (uint32_t k = 0; k < n; k++)
        lane[k % 32] = fmaf(a[k], b[k], lane[k % 32]);
    for (uint32_t w = 16; w > 0; w /= 2)
        for (uint32_t i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

/* Weights a[j] and logits s[j] of one query over the first n entries, and its output when out is not NULL. */
static void attend(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a,
                   float *out) {
    const float scale = (float)(1.0 / sqrt((double)d));
    float m[64], l[64], M = 0, L = 0;
    const uint32_t tiles = (n + 255) / 256;
    assert_true(tiles <= 64);
    float *o = calloc((size_t)(tiles + 1) * d, sizeof *o);
    assert_non_null(o);
    for (uint32_t t = 0; t < tiles; t++) {
        const uint32_t first = 256 * t, end = first + 256 < n ? first + 256 : n;
        float lane[32] = {0};
        for (uint32_t j = first; j < end; j++) {
            s[j] = dot(q, entries[j].k, d) * scale;
            if (j == first || s[j] > m[t])
                m[t] = s[j];
        }
        for (uint32_t j = first; j < end; j++) {
            const float p = kvc_exp(s[j] - m[t]);
            lane[(j - first) % 32] += p;
            for (uint32_t c = 0; c < d; c++)
                o[t * d + c] = fmaf(p, entries[j].v[c], o[t * d + c]);
        }
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        l[t] = lane[0];
        if (t == 0 || m[t] > M)
            M = m[t];
    }
    float *sum = o + (size_t)tiles * d;
    for (uint32_t t = 0; t < tiles; t++) {
        const float c_t = kvc_exp(m[t] - M);
        L = fmaf(c_t, l[t], L);
        for (uint32_t c = 0; c < d; c++)
            sum[c] = fmaf(c_t, o[t * d + c], sum[c]);
    }
    for (uint32_t j = 0; j < n; j++)
        a[j] = kvc_exp(s[j] - M) / L;
    for (uint32_t c = 0; out && c < d; c++)
        out[c] = sum[c] / L;
    free(o);
}

/* The group's summed weights (or logits) of the query at `position` over entries 0..n-1. */
static void group_row(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t position,
                      uint32_t n, bool logits, float *row) {
    const uint32_t group = t->heads / t->kv_heads;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a);
    assert_true(s && a);
    for (uint32_t g = 0; g < group; g++) {
        attend(head->entries, n, q_row(t, l, position) + (size_t)(h * group + g) * t->d, t->d, s, a, NULL);
        for (uint32_t j = 0; j < n; j++) {
            const float value = logits ? s[j] : a[j];
            row[j] = g == 0 ? 0.0f + value : row[j] + value;
        }
    }
    free(s);
    free(a);
}

static void remove_unkept(struct head *head, const bool *kept) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < head->count; j++) {
        if (kept[j])
            head->entries[n++] = head->entries[j];
    }
    head->count = n;
}

/* Marks the top `many` of candidates: again and again the highest score, the lowest index where equal. */
static void mark_top(const float *score, const bool *candidate, uint32_t n, uint32_t many, bool *kept) {
    for (uint32_t k = 0; k < many; k++) {
        int64_t best = -1;
        for (uint32_t j = 0; j < n; j++) {
            if (candidate[j] && !kept[j] && (best < 0 || score[j] > score[best]))
                best = j;
        }
        if (best < 0)
            return;
        kept[best] = true;
    }
}

static void keep_ends(struct head *head, uint32_t first, uint32_t last) {
    bool *kept = calloc(head->count + 1, sizeof *kept);
    assert_non_null(kept);
    for (uint32_t j = 0; j < head->count; j++)
        kept[j] = j < first || j + last >= head->count;
    remove_unkept(head, kept);
    free(kept);
}

static void snapkv(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                   uint32_t now, uint32_t turn) {
    const uint32_t n = head->count, w = plan->window < turn ? plan->window : turn;
    float *mass = calloc(n, sizeof *mass), *pooled = calloc(n, sizeof *pooled), *row = malloc(n * sizeof *row);
    bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
    assert_true(mass && pooled && row && kept && candidate);
    for (uint32_t i = 0; i < w; i++) {
        const uint32_t seen = n - (w - 1 - i);
        group_row(t, head, l, h, now - w + i, seen, false, row);
        for (uint32_t j = 0; j < seen; j++)
            mass[j] += row[j];
    }
    const int64_t half = plan->kernel / 2, end = n - w;
    for (int64_t j = 0; j < end; j++) {
        float best = -1, sum = 0;
        for (int64_t i = j - half; i <= j + half; i++) {
            if (i < 0 || i >= end)
                continue;
            if (mass[i] > best)
                best = mass[i];
            sum += mass[i];
        }
        pooled[j] = plan->kernel == 1 ? mass[j] : plan->average ? sum / (float)plan->kernel : best;
        candidate[j] = true;
    }
    for (uint32_t j = n - w; j < n; j++)
        kept[j] = true;
    mark_top(pooled, candidate, n, plan->budget - w, kept);
    remove_unkept(head, kept);
    free(mass);
    free(pooled);
    free(row);
    free(kept);
    free(candidate);
}

static void write_ring(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                       uint32_t window, uint32_t position, uint32_t newer) {
    const uint32_t n = head->count - newer;
    float *row = malloc((n + 1) * sizeof *row);
    assert_non_null(row);
    group_row(t, head, l, h, position, n, plan->logits, row);
    for (uint32_t j = 0; j < head->count; j++)
        head->entries[j].ring[position % window] = j < n ? row[j] : 0;
    free(row);
}

static void morphkv(struct head *head, const struct plan *plan, uint32_t budget, uint32_t window, uint32_t now) {
    const uint32_t n = head->count, rows = now < window ? now : window;
    if (n <= budget)
        return;
    float *fused = calloc(n, sizeof *fused), *row = malloc(n * sizeof *row);
    bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
    assert_true(fused && row && kept && candidate);
    uint32_t older = 0;
    for (uint32_t j = 0; j < n; j++) {
        candidate[j] = head->entries[j].position < (int64_t)now - window;
        kept[j] = !candidate[j];
        older += candidate[j];
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < n; j++)
            row[j] = head->entries[j].ring[(now - rows + r) % window];
        if (plan->logits && older > 0) { /* softmax over the older entries, which come first */
            float m[64], l[64], M = 0, L = 0;
            for (uint32_t first = 0; first < older; first += 256) {
                const uint32_t t = first / 256, end = first + 256 < older ? first + 256 : older;
                float lane[32] = {0};
                for (uint32_t j = first; j < end; j++)
                    m[t] = j == first || row[j] > m[t] ? row[j] : m[t];
                for (uint32_t j = first; j < end; j++)
                    lane[(j - first) % 32] += kvc_exp(row[j] - m[t]);
                for (uint32_t w = 16; w > 0; w /= 2)
                    for (uint32_t i = 0; i < w; i++)
                        lane[i] += lane[i + w];
                l[t] = lane[0];
                M = t == 0 || m[t] > M ? m[t] : M;
            }
            for (uint32_t t = 0; t < (older + 255) / 256; t++)
                L = fmaf(kvc_exp(m[t] - M), l[t], L);
            for (uint32_t j = 0; j < older; j++)
                row[j] = kvc_exp(row[j] - M) / L;
        }
        for (uint32_t j = 0; j < n; j++) {
            if (r == 0)
                fused[j] = row[j];
            else if (!plan->max_fusion)
                fused[j] += row[j];
            else if (row[j] > fused[j])
                fused[j] = row[j];
        }
    }
    mark_top(fused, candidate, n, budget - window, kept);
    remove_unkept(head, kept);
    free(fused);
    free(row);
    free(kept);
    free(candidate);
}

/* ---- one run of both ---- */

static struct kvc_engine *engine;

static void compare_lists(const struct kvc_session *session, const struct head *heads, const struct tensors *t,
                          uint32_t l, const char *what) {
    int32_t *positions = malloc(t->rows * sizeof *positions);
    assert_non_null(positions);
    for (uint32_t h = 0; h < t->kv_heads; h++) {
        const struct head *head = &heads[l * t->kv_heads + h];
        const size_t count = kvc_session_positions(session, l, h, positions, t->rows);
        bool same = count == head->count;
        for (uint32_t j = 0; same && j < count; j++)
            same = positions[j] == head->entries[j].position;
        if (!same) {
            print_error("%s: layer %u head %u keeps other entries (%zu, expected %u)\n", what, l, h, count,
                        head->count);
            fail();
        }
    }
    free(positions);
}

static void append(struct head *head, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h,
                   uint32_t row) {
    struct entry *e = &head->entries[head->count++];
    memset(e, 0, sizeof *e);
    e->position = (int32_t)row;
    e->k = malloc(2 * t->d * sizeof(float));
    assert_non_null(e->k);
    e->v = e->k + t->d;
    store(type, t->k + kv_at(t, l, row, h), e->k, t->d);
    store(type, t->v + kv_at(t, l, row, h), e->v, t->d);
}

static void obvious_prompt(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                           uint32_t prompt) {
    const bool acts = l >= plan->skip_layers;
    if (acts && (plan->prompt == MORPHKV || plan->decode == MORPHKV)) {
        const uint32_t window = plan->decode == MORPHKV ? plan->decode_window : plan->window;
        const uint32_t rows = prompt < window ? prompt : window;
        for (uint32_t i = 0; i < rows; i++)
            write_ring(t, head, l, h, plan, window, prompt - rows + i, rows - 1 - i);
    }
    if (!acts || head->count <= plan->budget)
        return;
    if (plan->prompt == WINDOW)
        keep_ends(head, 0, plan->budget);
    if (plan->prompt == STREAMING)
        keep_ends(head, plan->sinks, plan->budget - plan->sinks);
    if (plan->prompt == SNAPKV)
        snapkv(t, head, l, h, plan, prompt, prompt);
    if (plan->prompt == MORPHKV)
        morphkv(head, plan, plan->budget, plan->window, prompt);
}

static void obvious_step(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                         uint32_t row, uint32_t step) {
    if (l < plan->skip_layers)
        return;
    if (plan->decode == MORPHKV) {
        write_ring(t, head, l, h, plan, plan->decode_window, row, 0);
        if (step % plan->every == 0)
            morphkv(head, plan, plan->decode_budget, plan->decode_window, row + 1);
    }
    if (head->count <= plan->decode_budget)
        return;
    if (plan->decode == WINDOW)
        keep_ends(head, 0, plan->decode_budget);
    if (plan->decode == STREAMING)
        keep_ends(head, plan->sinks, plan->decode_budget - plan->sinks);
}

static void compare_output(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t row,
                           uint32_t seen, const float *out, const char *what) {
    const uint32_t group = t->heads / t->kv_heads;
    float *s = malloc(seen * sizeof *s), *a = malloc(seen * sizeof *a), *expected = malloc(t->d * sizeof *expected);
    assert_true(s && a && expected);
    for (uint32_t g = 0; g < group; g++) {
        const size_t at = (size_t)(h * group + g) * t->d;
        attend(head->entries, seen, q_row(t, l, row) + at, t->d, s, a, expected);
        if (memcmp(expected, out + at, t->d * sizeof(float))) {
            print_error("%s: layer %u head %u row %u: other output\n", what, l, h * group + g, row);
            fail();
        }
    }
    free(s);
    free(a);
    free(expected);
}

static void run(const struct tensors *t, uint32_t prompt, const char *spec, const struct plan *plan, enum kvc_type type,
                uint32_t chunk) {
    struct kvc_error error = {KVC_OK, ""};
    struct kvc_session_options options;
    struct kvc_replay *replay;
    const struct kvc_geometry geometry = {t->layers, t->heads, t->kv_heads, t->d};
    char what[256];
    snprintf(what, sizeof what, "%s, H %u/%u, d %u, prompt %u of %u, %s", spec, t->heads, t->kv_heads, t->d, prompt,
             t->rows, kvc_type_name(type));
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = type;
    options.chunk = chunk;
    if (kvc_replay_open(engine, &geometry, &options, &replay, &error) != KVC_OK)
        fail_msg("%s: %s", what, error.text);
    struct head *heads = calloc(t->layers * t->kv_heads, sizeof *heads);
    float *out = malloc((size_t)t->rows * t->heads * t->d * sizeof *out);
    struct entry *made = calloc((size_t)t->layers * t->kv_heads * t->rows, sizeof *made);
    float **keys = malloc((size_t)t->layers * t->kv_heads * t->rows * sizeof *keys);
    size_t key_count = 0;
    assert_true(heads && out && made && keys);
    for (uint32_t i = 0; i < t->layers * t->kv_heads; i++)
        heads[i].entries = made + (size_t)i * t->rows;
    for (uint32_t l = 0; l < t->layers; l++) {
        const size_t kv = kv_at(t, l, 0, 0);
        if (kvc_replay_prompt(replay, l, q_row(t, l, 0), t->k + kv, t->v + kv, prompt, out, &error) != KVC_OK)
            fail_msg("%s: %s", what, error.text);
        for (uint32_t h = 0; h < t->kv_heads; h++) {
            struct head *head = &heads[l * t->kv_heads + h];
            for (uint32_t row = 0; row < prompt; row++) {
                append(head, t, type, l, h, row);
                keys[key_count++] = head->entries[row].k;
            }
            for (uint32_t row = 0; row < prompt; row += 1 + prompt / 5)
                compare_output(t, head, l, h, row, row + 1, out + (size_t)row * t->heads * t->d, what);
            obvious_prompt(t, head, l, h, plan, prompt);
        }
        compare_lists(kvc_replay_session(replay), heads, t, l, what);
    }
    for (uint32_t row = prompt; row < t->rows; row++) {
        for (uint32_t l = 0; l < t->layers; l++) {
            const size_t kv = kv_at(t, l, row, 0);
            if (kvc_replay_step(replay, l, q_row(t, l, row), t->k + kv, t->v + kv, out, &error) != KVC_OK)
                fail_msg("%s: %s", what, error.text);
            for (uint32_t h = 0; h < t->kv_heads; h++) {
                struct head *head = &heads[l * t->kv_heads + h];
                append(head, t, type, l, h, row);
                keys[key_count++] = head->entries[head->count - 1].k;
                compare_output(t, head, l, h, row, head->count, out, what);
                obvious_step(t, head, l, h, plan, row, row - prompt + 1);
            }
            compare_lists(kvc_replay_session(replay), heads, t, l, what);
        }
    }
    for (size_t i = 0; i < key_count; i++)
        free(keys[i]);
    free(keys);
    free(made);
    free(heads);
    free(out);
    kvc_replay_close(replay);
}

struct shape {
    uint32_t heads, kv_heads, d, prompt, rows;
};
static const struct shape shapes[] = {
    {4, 4, 8, 60, 75},   /* multi-head */
    {8, 2, 16, 90, 100}, /* G = 4 */
    {8, 1, 40, 47, 60},  /* G = 8, one KV head, channels not a multiple of 32 */
    {7, 1, 32, 41, 50},  /* G = 7; the prompt is the budget + 1 */
    {1, 1, 8, 40, 50},   /* one head; the prompt is the budget */
    {2, 1, 8, 1, 50},    /* a prompt of one token */
    {2, 2, 64, 300, 310} /* more than one tile */
};

/* A spec with budget 40 over every kind of tensor and shape. */
static void run_all(const char *spec, const struct plan *plan) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const uint32_t chunks[] = {0, 7, 1, 33};
    uint64_t n = 0;
    for (enum kind kind = RANDOM; kind < KINDS; kind++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, n++) {
            const struct shape *shape = &shapes[s];
            if (kvc_test_thinned() && n % 8 != 0)
                continue;
            struct tensors t =
                make_tensors(kind, 1000 * n + 7, 2, shape->heads, shape->kv_heads, shape->d, shape->rows);
            run(&t, shape->prompt, spec, plan, types[n % 3], chunks[n % 4]);
            free_tensors(&t);
        }
    }
}

static void test_full(void **state) {
    (void)state;
    run_all("full", &(struct plan){FULL, FULL, .budget = UINT32_MAX, .decode_budget = UINT32_MAX});
}
static void test_window(void **state) {
    (void)state;
    run_all("window:budget=40", &(struct plan){WINDOW, WINDOW, .budget = 40, .decode_budget = 40});
}
static void test_streaming(void **state) {
    (void)state;
    run_all("streaming:budget=40", &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 4, .decode_budget = 40});
    run_all("streaming:budget=40,sinks=0",
            &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 0, .decode_budget = 40});
    run_all("streaming:budget=40,sinks=39",
            &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 39, .decode_budget = 40});
}
static void test_snapkv(void **state) {
    (void)state;
    struct plan plan = {SNAPKV, FULL, .budget = 40, .window = 32, .kernel = 7, .decode_budget = UINT32_MAX};
    run_all("snapkv:budget=40", &plan);
    plan.window = 39;
    run_all("snapkv:budget=40,window=39", &plan);
    plan.window = 1, plan.kernel = 1;
    run_all("snapkv:budget=40,window=1,kernel=1", &plan);
    plan.window = 8, plan.kernel = 63, plan.average = true;
    run_all("snapkv:budget=40,window=8,kernel=63,pooling=avg", &plan);
}
static void test_morphkv(void **state) {
    (void)state;
    struct plan plan = {
        MORPHKV, MORPHKV, .budget = 40, .window = 32, .every = 1, .decode_budget = 40, .decode_window = 32};
    run_all("morphkv:budget=40", &plan);
    plan.max_fusion = true;
    run_all("morphkv:budget=40,fusion=max", &plan);
    plan.logits = true;
    run_all("morphkv:budget=40,fusion=max,scores=logits", &plan);
    plan.max_fusion = false, plan.every = 8, plan.window = plan.decode_window = 5;
    run_all("morphkv:budget=40,window=5,scores=logits,every=8", &plan);
    plan.logits = false, plan.every = 3, plan.window = plan.decode_window = 39, plan.skip_layers = 1;
    run_all("morphkv:budget=40,window=39,every=3,skip_layers=1", &plan);
    plan.every = 1, plan.window = plan.decode_window = 1, plan.skip_layers = 0;
    run_all("morphkv:budget=40,window=1", &plan);
}
static void test_pairs(void **state) {
    (void)state;
    run_all("snapkv:budget=40+morphkv:budget=30,window=10",
            &(struct plan){SNAPKV, MORPHKV, .budget = 40, .window = 32, .kernel = 7, .every = 1, .decode_budget = 30,
                           .decode_window = 10});
    run_all("snapkv:budget=40,window=8+streaming:budget=44",
            &(struct plan){SNAPKV, STREAMING, .budget = 40, .window = 8, .kernel = 7, .sinks = 4, .decode_budget = 44});
    run_all("streaming:budget=40,stages=prompt+window:budget=41,stages=decode",
            &(struct plan){STREAMING, WINDOW, .budget = 40, .sinks = 4, .decode_budget = 41});
}
/* 10% of the prompt, and at least window + 1. */
static void test_shares(void **state) {
    (void)state;
    struct tensors t = make_tensors(RANDOM, 5, 2, 4, 2, 16, 240);
    run(&t, 205, "snapkv:budget=10%,window=8",
        &(struct plan){SNAPKV, FULL, .budget = 21, .window = 8, .kernel = 7, .decode_budget = UINT32_MAX}, KVC_F32,
        0); /* 20.5 rounds up */
    run(&t, 205, "streaming:budget=1%",
        &(struct plan){STREAMING, STREAMING, .budget = 5, .sinks = 4, .decode_budget = 5}, KVC_F32, 0);
    run(&t, 205, "morphkv:budget=1%,window=8",
        &(struct plan){MORPHKV, MORPHKV, .budget = 9, .window = 8, .every = 1, .decode_budget = 9, .decode_window = 8},
        KVC_F32, 0);
    run(&t, 49, "window:budget=1%", &(struct plan){WINDOW, WINDOW, .budget = 1, .decode_budget = 1}, KVC_F32, 0);
    free_tensors(&t);
}

static int open_engine(void **state) {
    (void)state;
    struct kvc_error error;
    const struct kvc_engine_options options = {getenv("KVCULL_TEST_BACKEND"), 2, KVC_MATH_EXACT};
    return kvc_engine_open(&options, &engine, &error) == KVC_OK ? 0 : -1;
}
static int close_engine(void **state) {
    (void)state;
    kvc_engine_close(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full),      cmocka_unit_test(test_window),
                                       cmocka_unit_test(test_streaming), cmocka_unit_test(test_snapkv),
                                       cmocka_unit_test(test_morphkv),   cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
