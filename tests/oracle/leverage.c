/* leverage.c - oracle of compactor, leverage, noncausal and cap, see entries.h. */
#include "tests/oracle/entries.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static float tree(float lane[32]) {
    for (uint32_t w = 16; w > 0; w /= 2)
        for (uint32_t i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

static uint32_t end_of(const struct head *head, const struct entries_plan *plan) {
    return head->count > plan->recent ? head->count - plan->recent : 0;
}

/* Adds the attention from q to each of the n entries to sum. */
static void attend_all(const struct entry *entries, uint32_t n, const float *q, uint32_t d, float *sum) {
    float *s = malloc(n * sizeof *s), most = -INFINITY, lane[32] = {0};
    assert_non_null(s);
    for (uint32_t j = 0; j < n; j++) {
        s[j] = oracle_dot(q, entries[j].k, d);
        most = s[j] > most ? s[j] : most;
    }
    for (uint32_t j = 0; j < n; j++)
        lane[j % 32] += kvc_exp(s[j] - most);
    const float all = tree(lane);
    for (uint32_t j = 0; j < n; j++)
        sum[j] += kvc_exp(s[j] - most) / all;
    free(s);
}

/* Computes the attention to the turn's entries, chunk by chunk. */
static void attend_chunks(const struct moment *m, const struct entries_plan *plan, uint32_t h) {
    struct head *head = &m->heads[h];
    const uint32_t end = end_of(head, plan), group = m->t->heads / m->t->lists;
    uint32_t from = 0;
    while (from < end && (head->entries[from].position < (int64_t)m->now - m->turn || from < plan->sinks))
        from++;
    for (uint32_t n; from < end; from += n) {
        n = end - from < plan->chunk ? end - from : plan->chunk;
        float *mass = calloc(2 * (size_t)n, sizeof *mass), *sum = mass + n;
        assert_non_null(mass);
        for (uint32_t i = 0; i < n; i++) {
            const float *q = q_row(m->t, m->layer, (uint32_t)head->entries[from + i].position);
            for (uint32_t g = 0; g < group; g++)
                attend_all(head->entries + from, n, q + (size_t)(h * group + g) * m->t->d, m->t->d, sum);
            for (uint32_t j = 0; j < n; j++) {
                mass[j] += sum[j];
                sum[j] = 0;
            }
        }
        for (uint32_t j = 0; j < n; j++)
            head->entries[from + j].given = mass[j] / (float)group;
        free(mass);
    }
}

/* Multiplies the attention to each entry by the length of its value, then averages it with both neighbors. */
static void weigh(const struct head *head, const struct entries_plan *plan, uint32_t d, float *score) {
    const uint32_t end = end_of(head, plan);
    float *alone = calloc(head->count + 2, sizeof *alone);
    assert_non_null(alone);
    for (uint32_t j = plan->sinks; j < end; j++) {
        const struct entry *e = &head->entries[j];
        alone[j + 1] = e->given * sqrtf(oracle_dot(e->v, e->v, d));
    }
    for (uint32_t j = plan->sinks; j < end; j++)
        score[j] = (alone[j] + alone[j + 1] + alone[j + 2]) / 3;
    free(alone);
}

/* Replaces x [d, d], which is 0, by the lower factor of the Gram matrix of the rows e [n, d]. */
static void factor(float *x, const float *e, uint32_t first, uint32_t n, uint32_t d, float ridge) {
    for (uint32_t b = 0; b < d; b++)
        for (uint32_t c = 0; c <= b; c++) {
            float tile = 0;
            for (uint32_t j = 0; j < n; j++) {
                tile = fmaf(e[j * d + b], e[j * d + c], tile);
                if ((first + j) % 256 == 255 || j + 1 == n) {
                    x[b * d + c] += tile;
                    tile = 0;
                }
            }
            x[b * d + c] += b == c ? ridge : 0;
        }
    for (uint32_t b = 0; b < d; b++) /* row by row, where the library goes column by column */
        for (uint32_t c = 0; c <= b; c++) {
            float s = x[b * d + c];
            for (uint32_t k = 0; k < c; k++)
                s = fmaf(-x[b * d + k], x[c * d + k], s);
            x[b * d + c] = b > c ? s / x[c * d + c] : sqrtf(s > ridge ? s : ridge);
        }
}

/* Adds the leverage of each of the rows e [n, d], which belong to the entries from `first` on, to score. */
static void add_leverage(const float *e, uint32_t first, uint32_t n, uint32_t d, float ridge, float *score) {
    float *x = calloc(((size_t)d + 1) * d, sizeof *x), *y = x + (size_t)d * d;
    assert_non_null(x);
    factor(x, e, first, n, d, ridge);
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t b = 0; b < d; b++) {
            y[b] = e[j * d + b];
            for (uint32_t k = 0; k < b; k++)
                y[b] = fmaf(-x[b * d + k], y[k], y[b]);
            y[b] /= x[b * d + b];
        }
        score[first + j] += oracle_dot(y, y, d);
    }
    free(x);
}

static void lever(const struct head *head, const struct entries_plan *plan, uint32_t d, float *score) {
    const uint32_t end = end_of(head, plan), n = end > plan->sinks ? end - plan->sinks : 0;
    float *e = calloc((n + (size_t)1) * d, sizeof *e), *mean = e + (size_t)n * d;
    assert_non_null(e);
    for (uint32_t c = 0; c < d && n > 0; c++) {
        float tile = 0;
        for (uint32_t j = plan->sinks; j < end; j++) {
            tile += head->entries[j].k[c];
            if (j % 256 == 255 || j + 1 == end) {
                mean[c] += tile;
                tile = 0;
            }
        }
        mean[c] /= (float)n;
        for (uint32_t j = 0; j < n; j++)
            e[j * d + c] = head->entries[plan->sinks + j].k[c] - mean[c];
    }
    add_leverage(e, plan->sinks, n, d, 0.01f, score);
    free(e);
}

/* Computes the mean and standard deviation of the scores x [lists][count] of all lists. */
static void spread(const struct moment *m, const struct entries_plan *plan, float *const *x, float *mean, float *sd) {
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        float all = 0;
        for (uint32_t h = 0; h < m->t->lists; h++) {
            const uint32_t end = end_of(&m->heads[h], plan);
            float sum = 0;
            for (uint32_t tile = 0; tile < end; tile += 256) {
                float lane[32] = {0};
                for (uint32_t j = tile; j < end && j < tile + 256; j++) {
                    const float e = pass ? x[h][j] - *mean : 0;
                    if (j < plan->sinks)
                        continue;
                    lane[j % 32] = pass ? fmaf(e, e, lane[j % 32]) : lane[j % 32] + x[h][j];
                    n += pass == 0;
                }
                sum += tree(lane);
            }
            all += sum;
        }
        if (pass == 0)
            *mean = all / (float)n;
        else
            *sd = sqrtf(all / (float)(n > 1 ? n - 1 : n));
    }
    *sd = *sd > 1e-6f ? *sd : 1e-6f;
}

static void keep_scored(const struct moment *m, const struct entries_plan *plan, uint32_t budget) {
    const float blend = (float)(plan->blend >= 0 ? plan->blend : 1 - (double)budget / m->heads[0].held);
    float *given[64], *alone[64], of_given[2], of_alone[2];
    for (uint32_t h = 0; h < m->t->lists; h++) {
        given[h] = calloc(m->heads[h].count + 1, sizeof *given[h]);
        alone[h] = calloc(m->heads[h].count + 1, sizeof *alone[h]);
        assert_true(given[h] && alone[h]);
        weigh(&m->heads[h], plan, m->t->d, given[h]);
        lever(&m->heads[h], plan, m->t->d, alone[h]);
    }
    spread(m, plan, given, &of_given[0], &of_given[1]);
    spread(m, plan, alone, &of_alone[0], &of_alone[1]);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        struct head *head = &m->heads[h];
        const uint32_t end = end_of(head, plan);
        bool *kept = calloc(head->count + 1, sizeof *kept);
        assert_non_null(kept);
        for (uint32_t j = 0; j < head->count; j++) {
            const float a = given[h][j] == 0 ? 0 : (given[h][j] - of_given[0]) / of_given[1];
            kept[j] = j < plan->sinks || j >= end;
            given[h][j] = plan->part == LEVERAGE_PART    ? alone[h][j]
                          : plan->part == ATTENTION_PART ? a
                                                         : fmaf(blend, (alone[h][j] - of_alone[0]) / of_alone[1], a);
        }
        if (head->count > budget)
            keep_best(head, given[h], kept, budget);
        free(kept);
        free(given[h]);
        free(alone[h]);
    }
}

void oracle_compactor(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->sinks + plan->recent + 1);
    uint32_t most = 0;
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        if (plan->part != LEVERAGE_PART)
            attend_chunks(m, plan, h);
        most = m->heads[h].count > most ? m->heads[h].count : most;
    }
    if (most > budget)
        keep_scored(m, plan, budget);
}

/* ---- cap ---- */

/* The mean [d] of query head g over the turn's rows at positions from `sinks` on. */
static void mean_query(const struct moment *m, uint32_t g, uint32_t sinks, float *mean) {
    const uint32_t d = m->t->d;
    uint32_t n = 0;
    for (uint32_t row = m->now - m->turn; row < m->now; row++) {
        if (row < sinks || (m->t->kept_rows && !m->t->kept_rows[(size_t)m->layer * m->t->rows + row]))
            continue;
        n++;
        for (uint32_t c = 0; c < d; c++)
            mean[c] += q_row(m->t, m->layer, row)[(size_t)g * d + c];
    }
    for (uint32_t c = 0; c < d && n; c++)
        mean[c] /= (float)n;
}

/* Adds the scores of query head g to those of its list. */
static void cap_head(const struct moment *m, const struct entries_plan *plan, uint32_t g, const struct head *head,
                     float *score) {
    const uint32_t d = m->t->d, first = plan->sinks, n = head->count > first ? head->count - first : 0;
    const float half = (float)(plan->tau / 2);
    float *mean = calloc((n + 1) * ((size_t)d + 1), sizeof *mean), *weight = mean + d, *e = weight + n + 1;
    float most = -INFINITY;
    assert_non_null(mean);
    mean_query(m, g, first, mean);
    for (uint32_t j = 0; j < n; j++) {
        const float *k = head->entries[first + j].k;
        const float lengths = sqrtf(oracle_dot(mean, mean, d)) * sqrtf(oracle_dot(k, k, d));
        weight[j] = half * (lengths == 0 ? 0 : oracle_dot(mean, k, d) / lengths);
        most = weight[j] > most ? weight[j] : most;
    }
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t c = 0; c < d; c++)
            e[j * d + c] = head->entries[first + j].v[c] * kvc_exp(weight[j] - most);
    add_leverage(e, first, n, d, 1, score);
    free(mean);
}

void oracle_cap(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->sinks + 1), group = m->t->heads / m->t->lists;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= budget)
            continue;
        float *score = calloc(head->count, sizeof *score);
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        for (uint32_t g = h * group; g < (h + 1) * group; g++)
            cap_head(m, plan, g, head, score);
        for (uint32_t j = 0; j < head->count; j++) {
            score[j] /= (float)group;
            kept[j] = j < plan->sinks;
        }
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}
