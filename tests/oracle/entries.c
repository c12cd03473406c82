/* entries.c - see entries.h. */
#include "tests/oracle/entries.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

uint32_t entries_budget(const struct entries_plan *plan, const struct moment *m, uint32_t at_least) {
    const uint32_t shared = (m->heads[0].held * plan->share + 50) / 100;
    return !plan->share ? plan->budget : shared > at_least ? shared : at_least;
}

void keep_best(struct head *head, const float *score, bool *kept, uint32_t many) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < head->count; j++)
        n += kept[j];
    for (; n < many; n++) {
        uint32_t best = head->count;
        for (uint32_t j = 0; j < head->count; j++)
            if (!kept[j] && (best == head->count || score[j] > score[best] || (isnan(score[best]) && !isnan(score[j]))))
                best = j;
        if (best == head->count)
            break;
        kept[best] = true;
    }
    remove_unkept(head, kept);
}

typedef void score_fn(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score);

static void evict(const struct moment *m, const struct entries_plan *plan, score_fn *score_head) {
    const uint32_t budget = entries_budget(plan, m, plan->recent + 1);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= budget)
            continue;
        float *score = calloc(head->count, sizeof *score);
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        score_head(m, plan, h, score);
        for (uint32_t j = 0; j < head->count; j++)
            kept[j] = head->entries[j].position >= (int64_t)m->now - plan->recent;
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}

static void draws(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    for (uint32_t j = 0; j < m->heads[h].count; j++) {
        const uint32_t counter[4] = {m->layer, h, (uint32_t)m->heads[h].entries[j].position, 1};
        score[j] = (float)(oracle_philox(counter, plan->seed) / 256);
    }
}

static void norms(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    (void)plan;
    for (uint32_t j = 0; j < m->heads[h].count; j++) {
        const float *k = m->heads[h].entries[j].k;
        score[j] = -sqrtf(oracle_dot(k, k, m->t->d));
    }
}

static void apart(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    const struct head *head = &m->heads[h];
    const uint32_t d = m->t->d;
    float *u = calloc(2 * d, sizeof *u), *tile = u + d;
    (void)plan;
    assert_non_null(u);
    for (uint32_t j = 0; j < head->count; j++) {
        const float *k = head->entries[j].k, length = sqrtf(oracle_dot(k, k, d));
        for (uint32_t c = 0; c < d && length != 0; c++)
            tile[c] += k[c] / length;
        for (uint32_t c = 0; c < d && (j % 256 == 255 || j + 1 == head->count); c++) {
            u[c] += tile[c];
            tile[c] = 0;
        }
    }
    for (uint32_t j = 0; j < head->count; j++) {
        const float *k = head->entries[j].k, length = sqrtf(oracle_dot(k, k, d));
        score[j] = length != 0 ? -(oracle_dot(k, u, d) / length) : 0;
    }
    free(u);
}

void oracle_random(const struct moment *m, const void *plan) { evict(m, plan, draws); }
void oracle_knorm(const struct moment *m, const void *plan) { evict(m, plan, norms); }
void oracle_keydiff(const struct moment *m, const void *plan) { evict(m, plan, apart); }

/* ---- lagkv ---- */

/* The standard deviation over the channels of x, after each channel is scaled by its range in `next` [lag]. */
static float spread(const struct entry *entry, const struct entry *next, uint32_t lag, uint32_t d, bool value) {
    const float *x = value ? entry->v : entry->k;
    float *t = calloc(2 * d, sizeof *t), *ones = t + d;
    assert_non_null(t);
    for (uint32_t c = 0; c < d; c++) {
        float low = (value ? next->v : next->k)[c], high = low;
        for (uint32_t i = 1; i < lag; i++) {
            const float y = (value ? next[i].v : next[i].k)[c];
            low = y < low ? y : low;
            high = y > high ? y : high;
        }
        t[c] = high > low ? (x[c] - low) / (high - low) : 0;
        ones[c] = 1;
    }
    const float mean = oracle_dot(t, ones, d) / (float)d;
    for (uint32_t c = 0; c < d; c++)
        t[c] -= mean;
    const float s = d > 1 ? sqrtf(oracle_dot(t, t, d) / (float)(d - 1)) : 0;
    free(t);
    return s;
}

/* Replaces n numbers, which all lie in one tile, by their softmax. */
static void softmax(float *x, uint32_t n) {
    float most = -INFINITY, lane[32] = {0};
    for (uint32_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kvc_exp(x[i] - most);
        lane[i % 32] += x[i];
    }
    for (uint32_t w = 16; w > 0; w /= 2)
        for (uint32_t i = 0; i < w; i++)
            lane[i] += lane[i + w];
    for (uint32_t i = 0; i < n; i++)
        x[i] /= lane[0];
}

static void score_partition(const struct entry *part, const struct entries_plan *plan, uint32_t d, float *score) {
    const uint32_t lag = plan->lag;
    float *keys = calloc(3 * (size_t)lag, sizeof *keys), *values = keys + lag, *raw = values + lag;
    assert_non_null(keys);
    for (uint32_t i = 0; i < lag; i++) {
        keys[i] = spread(part + i, part + lag, lag, d, false);
        values[i] = spread(part + i, part + lag, lag, d, true);
    }
    softmax(keys, lag);
    softmax(values, lag);
    for (uint32_t i = 0; i < lag; i++)
        raw[i] = (keys[i] + values[i]) / 2;
    for (uint32_t i = 0; i < lag; i++) {
        uint32_t before = 0; /* number of entries that rank below entry i */
        for (uint32_t j = 0; j < lag; j++) {
            const bool ni = isnan(raw[i]), nj = isnan(raw[j]), same = (ni && nj) || raw[i] == raw[j];
            before += same ? j > i : nj || raw[j] < raw[i];
        }
        score[i] = plan->across ? raw[i] : (float)before;
    }
    free(keys);
}

void oracle_lagkv(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->sinks + 2 * plan->lag);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= budget)
            continue;
        float *score = calloc(head->count, sizeof *score);
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        uint32_t j = 0;
        for (; j < plan->sinks; j++)
            kept[j] = true;
        for (; j + 2 * plan->lag <= head->count; j += plan->lag)
            score_partition(head->entries + j, plan, m->t->d, score + j);
        for (; j < head->count; j++)
            kept[j] = true;
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}

/* ---- chunkkv ---- */

void score_entries(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    (plan->scorer == SCORE_NORM ? norms : plan->scorer == SCORE_APART ? apart : draws)(m, plan, h, score);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

void oracle_chunkkv(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t w = least(plan->window, m->turn), budget = entries_budget(plan, m, plan->window + 1);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        const uint32_t n = head->count;
        if (n <= budget)
            continue;
        float *score = plan->scorer == SCORE_WINDOW ? window_scores(m, h, w, 1, false) : calloc(n, sizeof *score);
        bool *kept = calloc(n, sizeof *kept);
        assert_true(score && kept);
        if (plan->scorer != SCORE_WINDOW)
            score_entries(m, plan, h, score);
        for (uint32_t first = 0; first < n - w && plan->chunk > 1; first += least(plan->chunk, n - w - first)) {
            const uint32_t size = least(plan->chunk, n - w - first);
            float sum = 0;
            for (uint32_t i = 0; i < size; i++)
                sum += score[first + i];
            for (uint32_t i = 0; i < size; i++)
                score[first + i] = sum / (float)size;
        }
        for (uint32_t j = n - w; j < n; j++)
            kept[j] = true;
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}

/* ---- snapkv-decode ---- */

void pool_older(float *score, uint32_t older, const struct entries_plan *plan) {
    const uint32_t half = plan->kernel / 2;
    float *pooled = calloc(older + 1, sizeof *pooled);
    assert_non_null(pooled);
    for (uint32_t j = 0; j < older; j++) {
        float best = -1, sum = 0;
        for (uint32_t i = j > half ? j - half : 0; i <= j + half && i < older; i++) {
            best = score[i] > best ? score[i] : best;
            sum += score[i];
        }
        pooled[j] = plan->average ? sum / (float)plan->kernel : best;
    }
    for (uint32_t j = 0; j < older && plan->kernel > 1; j++)
        score[j] = pooled[j];
    free(pooled);
}

/* Records the attention from the query at `position` to the visible entries of list h. */
static void remember(const struct moment *m, uint32_t h, uint32_t position) {
    struct head *head = &m->heads[h];
    const uint32_t n = entries_up_to(head, position);
    float *row = calloc(n + 1, sizeof *row);
    assert_non_null(row);
    if (!m->t->kept_rows || m->t->kept_rows[(size_t)m->layer * m->t->rows + position])
        group_row(m->t, head, m->layer, h, position, n, false, row);
    for (uint32_t j = 0; j < n; j++)
        head->entries[j].probability[position] = row[j];
    free(row);
}

void oracle_snapkv_decode_look(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        for (uint32_t i = 0; i < least(plan->window, m->turn); i++)
            remember(m, h, m->now - 1 - i);
}

void oracle_snapkv_decode(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t w = plan->window, budget = entries_budget(plan, m, w + 1), rows = least(w, m->now);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        remember(m, h, m->now - 1);
        if (m->step % plan->every != 0 || head->count <= budget)
            continue;
        const uint32_t n = head->count;
        float *mass = calloc(n, sizeof *mass);
        bool *kept = calloc(n, sizeof *kept);
        assert_true(mass && kept);
        for (uint32_t j = 0; j < n; j++) {
            kept[j] = j >= n - w;
            for (uint32_t i = m->now - rows; i < m->now; i++)
                mass[j] += head->entries[j].probability[i];
        }
        pool_older(mass, n - w, plan);
        keep_best(head, mass, kept, budget);
        free(mass);
        free(kept);
    }
}
