/* oracle.c - see oracle.h. */
#include "tests/oracle/oracle.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- tensors ---- */

static uint64_t random_state;
static float uniform(void) { /* -1 .. 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(random_state >> 33) - (1 << 30)) / (float)(1 << 30);
}

float *q_row(const struct tensors *t, uint32_t l, uint32_t row) {
    return t->q + (size_t)(l * t->rows + row) * t->heads * t->d;
}
size_t kv_at(const struct tensors *t, uint32_t l, uint32_t row, uint32_t h) {
    return ((size_t)(l * t->rows + row) * t->kv_heads + h) * t->d;
}

struct tensors make_tensors(enum kind kind, uint64_t seed, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                            uint32_t d, uint32_t rows) {
    struct tensors t = {layers, heads, kv_heads, d, rows, kv_heads, NULL, NULL, NULL, NULL, NULL};
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

void free_tensors(struct tensors *t) {
    free(t->q);
    free(t->k);
    free(t->v);
}

/* ---- the oracle ---- */

void oracle_store(enum kvc_type type, const float *from, float *to, uint32_t d) {
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

float oracle_dot(const float *a, const float *b, uint32_t n) {
    float lane[32] = {0};
    for (uint32_t k = 0; k < n; k++)
        lane[k % 32] = fmaf(a[k], b[k], lane[k % 32]);
    for (uint32_t w = 16; w > 0; w /= 2)
        for (uint32_t i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

bool oracle_acts(uint32_t left_out, uint32_t l) { return (left_out >> l & 1) == 0; }

uint32_t oracle_acting(uint32_t left_out, uint32_t l) {
    uint32_t n = 0;
    for (uint32_t below = 0; below < l; below++)
        n += oracle_acts(left_out, below);
    return n;
}

uint32_t oracle_philox(const uint32_t counter[4], uint64_t seed) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t first = 0xD2511F53ull * c[0], second = 0xCD9E8D57ull * c[2];
        const uint32_t next[4] = {(uint32_t)(second >> 32) ^ c[1] ^ key[0], (uint32_t)second,
                                  (uint32_t)(first >> 32) ^ c[3] ^ key[1], (uint32_t)first};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return c[0];
}

/* Computes a query's attention to n entries. All are read except those at positions before `oldest`, which still count
 * as part of the tiles. */
/* The probabilities are divided by L / count instead of L. */
static void attend_to(const struct entry *entries, uint32_t n, int64_t oldest, const float *q, uint32_t d, float count,
                      float *s, float *a, float *out) {
    const float scale = (float)(1.0 / sqrt((double)d));
    float m[64], l[64], M = 0, L = 0;
    const uint32_t tiles = (n + 255) / 256;
    uint32_t hidden = 0; /* how many of the first entries are hidden */
    while (hidden < n && entries[hidden].position < oldest)
        hidden++;
    assert_true(tiles <= 64);
    float *o = calloc((size_t)(tiles + 1) * d, sizeof *o);
    assert_non_null(o);
    for (uint32_t j = 0; j < hidden; j++)
        s[j] = -INFINITY;
    for (uint32_t t = hidden / 256; t < tiles; t++) {
        const uint32_t end = 256 * t + 256 < n ? 256 * t + 256 : n, first = 256 * t > hidden ? 256 * t : hidden;
        float lane[32] = {0};
        for (uint32_t j = first; j < end; j++) {
            s[j] = oracle_dot(q, entries[j].k, d) * scale;
            if (j == first || s[j] > m[t])
                m[t] = s[j];
        }
        for (uint32_t j = first; j < end; j++) {
            const float p = kvc_exp(s[j] - m[t]);
            lane[j % 32] += p;
            for (uint32_t c = 0; out && c < d; c++)
                o[t * d + c] = fmaf(p, entries[j].v[c], o[t * d + c]);
        }
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        l[t] = lane[0];
        if (t == hidden / 256 || m[t] > M)
            M = m[t];
    }
    float *sum = o + (size_t)tiles * d;
    for (uint32_t t = hidden / 256; t < tiles; t++) {
        const float c_t = kvc_exp(m[t] - M);
        L = fmaf(c_t, l[t], L);
        for (uint32_t c = 0; out && c < d; c++)
            sum[c] = fmaf(c_t, o[t * d + c], sum[c]);
    }
    for (uint32_t j = 0; j < n; j++)
        a[j] = j < hidden ? 0 : kvc_exp(s[j] - M) / (L / count);
    for (uint32_t c = 0; out && c < d; c++)
        out[c] = sum[c] / L;
    free(o);
}

void attend(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a, float *out) {
    attend_within(entries, n, 0, q, d, s, a, out);
}

void attend_counted(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *s, float *a) {
    attend_to(entries, n, INT64_MIN, q, d, (float)n, s, a, NULL);
}
void attend_within(const struct entry *entries, uint32_t n, uint32_t window, const float *q, uint32_t d, float *s,
                   float *a, float *out) {
    const int64_t oldest = window ? (int64_t)entries[n - 1].position - window + 1 : INT64_MIN;
    struct entry *read = malloc(n * sizeof *read);
    uint32_t count = 0;
    assert_non_null(read);
    for (uint32_t j = 0; j < n; j++)
        if (!entries[j].unread)
            read[count++] = entries[j];
    attend_to(read, count, oldest, q, d, 1, s, a, out);
    for (uint32_t j = n; j-- > 0;) { /* from the last one, so that nothing is overwritten before it has moved */
        count -= !entries[j].unread;
        s[j] = entries[j].unread ? -INFINITY : s[count];
        a[j] = entries[j].unread ? 0 : a[count];
    }
    free(read);
}

void group_row(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t position, uint32_t n,
               bool logits, float *row) {
    const uint32_t group = t->heads / t->lists;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a);
    assert_true(s && a);
    for (uint32_t g = 0; g < group; g++) {
        attend_within(head->entries, n, oracle_window(t, l), q_row(t, l, position) + (size_t)(h * group + g) * t->d,
                      t->d, s, a, NULL);
        for (uint32_t j = 0; j < n; j++) {
            const float value = logits ? s[j] : a[j];
            row[j] = g == 0 ? 0.0f + value : row[j] + value;
        }
    }
    free(s);
    free(a);
}

uint32_t entries_up_to(const struct head *head, uint32_t position) {
    uint32_t n = 0;
    while (n < head->count && head->entries[n].position <= (int64_t)position)
        n++;
    return n;
}

void remove_unkept(struct head *head, const bool *kept) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < head->count; j++) {
        if (kept[j])
            head->entries[n++] = head->entries[j];
    }
    head->count = n;
}

static void remove_front(struct head *head, uint32_t n) {
    head->count -= n;
    memmove(head->entries, head->entries + n, head->count * sizeof *head->entries);
}

/* Returns the number of entries at the beginning of the list that no row from `next` on can see. */
static uint32_t hidden_of(const struct tensors *t, uint32_t l, const struct head *head, uint32_t next) {
    uint32_t n = 0;
    while (oracle_window(t, l) && n < head->count &&
           (int64_t)head->entries[n].position + oracle_window(t, l) <= (int64_t)next)
        n++;
    return n;
}

void remove_hidden(struct head *heads, const struct tensors *t, uint32_t l, uint32_t next) {
    for (uint32_t h = 0; h < t->lists; h++) {
        remove_front(&heads[h], hidden_of(t, l, &heads[h], next));
        heads[h].thinned = true;
    }
}

void remove_hidden_tiles(struct head *heads, const struct tensors *t, uint32_t l) {
    for (uint32_t h = 0; h < t->lists; h++)
        remove_front(&heads[h], (heads[h].count - seen_of(t, l, heads[h].count)) / 256 * 256);
}

/* Returns true if the layer's longest list holds more visible entries than the budget. Hidden entries are then removed,
 * unless `scores` is true: then scores must first be computed over all entries that attention saw. */
static bool exceeds(const struct moment *m, uint32_t budget, bool scores) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < m->t->lists; h++)
        most = m->heads[h].count > most ? m->heads[h].count : most;
    if (seen_of(m->t, m->layer, most) <= budget)
        return false;
    for (uint32_t h = 0; h < m->t->lists; h++)
        m->heads[h].thinned = true;
    if (!scores)
        remove_hidden(m->heads, m->t, m->layer, m->now);
    return true;
}

void mark_top(const float *score, const bool *candidate, uint32_t n, uint32_t many, bool *kept) {
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

float *window_scores(const struct moment *m, uint32_t h, uint32_t w, uint32_t kernel, bool average) {
    const struct head *head = &m->heads[h];
    const uint32_t n = head->count;
    float *mass = calloc(n, sizeof *mass), *pooled = calloc(n, sizeof *pooled), *row = malloc(n * sizeof *row);
    assert_true(mass && pooled && row);
    for (uint32_t i = 0; i < w; i++) {
        const uint32_t seen = n - (w - 1 - i);
        group_row(m->t, head, m->layer, h, m->now - w + i, seen, false, row);
        for (uint32_t j = 0; j < seen; j++)
            mass[j] += row[j];
    }
    const int64_t half = kernel / 2, end = n - w, begin = hidden_of(m->t, m->layer, head, m->now);
    for (int64_t j = begin; j < end; j++) {
        float best = -1, sum = 0;
        for (int64_t i = j - half < begin ? begin : j - half; i <= j + half && i < end; i++) {
            if (mass[i] > best)
                best = mass[i];
            sum += mass[i];
        }
        pooled[j] = kernel == 1 ? mass[j] : average ? sum / (float)kernel : best;
    }
    free(mass);
    free(row);
    return pooled;
}

static void snapkv(const struct moment *m, uint32_t h, const struct plan *plan, uint32_t budget) {
    struct head *head = &m->heads[h];
    const uint32_t n = head->count, w = plan->window < m->turn ? plan->window : m->turn;
    const uint32_t hidden = hidden_of(m->t, m->layer, head, m->now);
    if (n - hidden <= budget) {
        remove_front(head, hidden);
        return;
    }
    float *scores = window_scores(m, h, w, plan->kernel, plan->average);
    bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
    assert_true(kept && candidate);
    for (uint32_t j = 0; j < n; j++) {
        kept[j] = j >= n - w;
        candidate[j] = j >= hidden && j < n - w;
    }
    mark_top(scores, candidate, n, budget - w, kept);
    remove_unkept(head, kept);
    free(scores);
    free(kept);
    free(candidate);
}

/* A query that did not reach the layer contributes nothing to any entry. */
static void write_ring(const struct tensors *t, struct head *head, uint32_t l, uint32_t h, const struct plan *plan,
                       uint32_t window, uint32_t position) {
    const uint32_t n =
        t->kept_rows && !t->kept_rows[(size_t)l * t->rows + position] ? 0 : entries_up_to(head, position);
    float *row = malloc((n + 1) * sizeof *row);
    assert_non_null(row);
    if (n > 0)
        group_row(t, head, l, h, position, n, plan->logits, row);
    for (uint32_t j = 0; j < head->count; j++)
        head->entries[j].ring[position % window] = j < n ? row[j] : plan->logits ? -INFINITY : 0;
    free(row);
}

/* Logits become exp(s - M) / L, tile by tile as in attention; the minus infinity of invisible entries becomes 0. */
void oracle_softmax_logits(float *row, uint32_t n) {
    float m[64], l[64], M = 0, L = 0;
    for (uint32_t first = 0; first < n; first += 256) {
        const uint32_t t = first / 256, end = first + 256 < n ? first + 256 : n;
        float lane[32] = {0};
        for (uint32_t j = first; j < end; j++)
            m[t] = j == first || row[j] > m[t] ? row[j] : m[t];
        for (uint32_t j = first; j < end && m[t] != -INFINITY; j++)
            lane[(j - first) % 32] += kvc_exp(row[j] - m[t]);
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        l[t] = lane[0];
        M = t == 0 || m[t] > M ? m[t] : M;
    }
    for (uint32_t t = 0; t < (n + 255) / 256; t++)
        L = m[t] == -INFINITY ? L : fmaf(kvc_exp(m[t] - M), l[t], L);
    for (uint32_t j = 0; j < n; j++)
        row[j] = row[j] == -INFINITY ? 0 : kvc_exp(row[j] - M) / L;
}

/* `seen` is how many queries have rows in the ring; the newest one is at position now - 1. */
static void morphkv(struct head *head, const struct plan *plan, uint32_t budget, uint32_t window, uint32_t now,
                    uint32_t seen) {
    const uint32_t n = head->count, rows = seen < window ? seen : window;
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
        if (plan->logits && older > 0) /* the older entries come first */
            oracle_softmax_logits(row, older);
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

void append(struct head *head, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h, uint32_t row) {
    struct entry *e = &head->entries[head->count++];
    memset(e, 0, sizeof *e);
    e->position = (int32_t)row;
    e->k = calloc(2 * (t->d + t->rows), sizeof(float));
    assert_non_null(e->k);
    e->v = e->k + t->d;
    e->probability = e->v + t->d;
    e->low = e->probability + t->rows;
    const uint32_t kv_head = h * t->kv_heads / t->lists;
    oracle_store(type, t->k + kv_at(t, l, row, kv_head), e->k, t->d);
    oracle_store(type, t->v + kv_at(t, l, row, kv_head), e->v, t->d);
}

/* Returns the budget of one stage. A percentage refers to the entries that the head held when the last prompt was
 * read. */
static uint32_t budget_of(const struct plan *plan, const struct head *head, enum method method, uint32_t budget) {
    if (!plan->share)
        return budget;
    const uint32_t least = method == STREAMING ? plan->sinks + 1 : method == WINDOW ? 1 : plan->window + 1;
    const uint32_t tokens = (head->held * plan->share + 50) / 100;
    return tokens > least ? tokens : least;
}

static void look_of_head(const struct moment *m, uint32_t h, const struct plan *plan) {
    if (plan->prompt == MORPHKV || plan->decode == MORPHKV) {
        const uint32_t window = plan->decode == MORPHKV ? plan->decode_window : plan->window;
        const uint32_t rows = m->turn < window ? m->turn : window;
        for (uint32_t i = 0; i < rows; i++)
            write_ring(m->t, &m->heads[h], m->layer, h, plan, window, m->now - rows + i);
    }
}

static void evict_of_head(const struct moment *m, uint32_t h, const struct plan *plan) {
    struct head *head = &m->heads[h];
    const uint32_t budget = budget_of(plan, head, plan->prompt, plan->budget);
    if (head->count <= budget)
        return;
    if (plan->prompt == WINDOW)
        keep_ends(head, 0, budget);
    if (plan->prompt == STREAMING)
        keep_ends(head, plan->sinks, budget - plan->sinks);
    if (plan->prompt == SNAPKV)
        snapkv(m, h, plan, budget);
    if (plan->prompt == MORPHKV) /* without a decode method, only this turn's queries can vote */
        morphkv(head, plan, budget, plan->window, m->now, plan->decode == MORPHKV ? m->now : m->turn);
}

void oracle_look(const struct moment *m, const void *plan) {
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(((const struct plan *)plan)->left_out, m->layer); h++)
        look_of_head(m, h, plan);
}

void oracle_evict(const struct moment *m, const void *plan) {
    const struct plan *p = plan;
    if (!oracle_acts(p->left_out, m->layer) || p->prompt == FULL ||
        !exceeds(m, budget_of(p, &m->heads[0], p->prompt, p->budget), p->prompt == SNAPKV))
        return;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(((const struct plan *)plan)->left_out, m->layer); h++)
        evict_of_head(m, h, plan);
}

void oracle_prompt(const struct moment *m, const void *plan) {
    oracle_look(m, plan);
    oracle_evict(m, plan);
}

static void step_of_head(const struct moment *m, uint32_t h, const struct plan *plan) {
    struct head *head = &m->heads[h];
    const uint32_t budget = budget_of(plan, head, plan->decode, plan->decode_budget);
    if (plan->decode == MORPHKV)
        morphkv(head, plan, budget, plan->decode_window, m->now, m->now);
    if (head->count <= budget)
        return;
    if (plan->decode == WINDOW)
        keep_ends(head, 0, budget);
    if (plan->decode == STREAMING)
        keep_ends(head, plan->sinks, budget - plan->sinks);
}

void oracle_step(const struct moment *m, const void *plan) {
    const struct plan *p = plan;
    const bool acts = oracle_acts(p->left_out, m->layer), morphs = p->decode == MORPHKV;
    for (uint32_t h = 0; h < m->t->lists && acts && morphs; h++)
        write_ring(m->t, &m->heads[h], m->layer, h, p, p->decode_window, m->now - 1);
    if (!acts || p->decode == FULL || p->decode == SNAPKV || (morphs && m->step % p->every != 0) ||
        !exceeds(m, budget_of(p, &m->heads[0], p->decode, p->decode_budget), false))
        return;
    for (uint32_t h = 0; h < m->t->lists; h++)
        step_of_head(m, h, plan);
}
