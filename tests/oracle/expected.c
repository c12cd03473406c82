/* expected.c - oracles of rkv, expected and criticalkv, see entries.h. */
#include "tests/oracle/entries.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Replaces the numbers from index `first` on by their softmax, with one maximum for all tiles and a sum for each
 * tile. */
static void softmax_from(float *x, uint32_t first, uint32_t n) {
    float most = -INFINITY, all = 0;
    for (uint32_t j = first; j < n; j++)
        most = most > x[j] ? most : x[j];
    for (uint32_t tile = 0; tile < n; tile += 256) {
        float lane[32] = {0};
        for (uint32_t j = tile; j < n && j < tile + 256; j++)
            if (j >= first)
                lane[j % 32] += kvc_exp(x[j] - most);
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        all += lane[0];
    }
    for (uint32_t j = first; j < n; j++)
        x[j] = kvc_exp(x[j] - most) / all;
}

/* ---- rkv ---- */

/* Writes the row of the query at `position` to the ring of list h. */
static void remember(const struct moment *m, const struct entries_plan *plan, uint32_t h, uint32_t position) {
    struct head *head = &m->heads[h];
    const uint32_t n = entries_up_to(head, position);
    const bool passed = !m->t->kept_rows || m->t->kept_rows[(size_t)m->layer * m->t->rows + position];
    float *row = calloc(n + 1, sizeof *row);
    assert_non_null(row);
    if (passed)
        group_row(m->t, head, m->layer, h, position, n, plan->logits, row);
    for (uint32_t j = 0; j < head->count; j++)
        head->entries[j].ring[position % plan->window] = passed && j < n ? row[j] : plan->logits ? -INFINITY : 0;
    free(row);
}

void oracle_rkv_look(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        for (uint32_t i = 0; i < plan->window && i < m->turn; i++)
            remember(m, plan, h, m->now - 1 - i);
}

/* Returns how much each key resembles others. */
static float *redundancy(const struct head *head, float threshold, uint32_t d) {
    const uint32_t n = head->count;
    float *cosine = calloc((size_t)n * n, sizeof *cosine), *mean = calloc(n, sizeof *mean);
    uint32_t *last = calloc(n, sizeof *last);
    assert_true(cosine && mean && last);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            const float *a = head->entries[i].k, *b = head->entries[j].k;
            const float lengths = sqrtf(oracle_dot(a, a, d)) * sqrtf(oracle_dot(b, b, d));
            if (i != j && lengths != 0)
                cosine[(size_t)i * n + j] = oracle_dot(a, b, d) / lengths;
            if (cosine[(size_t)i * n + j] > threshold)
                last[i] = j;
        }
    for (uint32_t j = 0; j < n; j++) {
        float lane[32] = {0};
        for (uint32_t i = 0; i < n; i++)
            if (last[i] != j)
                lane[i % 32] += cosine[(size_t)i * n + j];
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        mean[j] = lane[0] / (float)n;
    }
    softmax_from(mean, 0, n);
    free(cosine);
    free(last);
    return mean;
}

void oracle_rkv(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t w = plan->window, budget = entries_budget(plan, m, w + 1), rows = w < m->now ? w : m->now;
    const uint32_t group = plan->logits ? 1 : m->t->heads / m->t->lists;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        const uint32_t n = head->count;
        remember(m, plan, h, m->now - 1);
        if (m->step % plan->every != 0 || n <= budget)
            continue;
        float *score = calloc(n, sizeof *score), *row = calloc(n, sizeof *row);
        float *repeated = redundancy(head, plan->threshold, m->t->d);
        bool *kept = calloc(n, sizeof *kept);
        uint32_t older = 0;
        assert_true(score && row && kept);
        while (older < n && head->entries[older].position < (int64_t)m->now - w)
            older++;
        for (uint32_t i = m->now - rows; i < m->now; i++) {
            for (uint32_t j = 0; j < n; j++)
                row[j] = plan->logits && j >= older ? 0 : head->entries[j].ring[i % w];
            if (plan->logits && older > 0)
                oracle_softmax_logits(row, older);
            for (uint32_t j = 0; j < n; j++)
                score[j] += row[j];
        }
        pool_older(score, n - w, plan);
        for (uint32_t j = 0; j < n; j++) {
            kept[j] = j >= n - w;
            score[j] = fmaf(plan->lambda, score[j] / (float)(rows * group), (plan->lambda - 1) * repeated[j]);
        }
        keep_best(head, score, kept, budget);
        free(score);
        free(row);
        free(repeated);
        free(kept);
    }
}

/* ---- expected ---- */

/* The mean [d] and covariance [d, d] of query head g over the turn's rows at positions from `sinks` on. */
static void moments(const struct moment *m, uint32_t g, uint32_t sinks, float *mean, float *covariance) {
    const uint32_t d = m->t->d;
    uint32_t n = 0;
    for (uint32_t row = m->now - m->turn; row < m->now; row++) {
        const float *q = q_row(m->t, m->layer, row) + (size_t)g * d;
        if (row < sinks || (m->t->kept_rows && !m->t->kept_rows[(size_t)m->layer * m->t->rows + row]))
            continue;
        n++;
        for (uint32_t c = 0; c < d; c++)
            mean[c] += q[c];
        for (uint32_t b = 0; b < d; b++)
            for (uint32_t c = 0; c < d; c++)
                covariance[b * d + c] = fmaf(q[b], q[c], covariance[b * d + c]);
    }
    for (uint32_t c = 0; c < d && n; c++)
        mean[c] /= (float)n;
    for (uint32_t b = 0; b < d && n; b++)
        for (uint32_t c = 0; c < d; c++)
            covariance[b * d + c] = fmaf(-mean[b], mean[c], covariance[b * d + c] / (float)n);
}

/* The mean and covariance of query head g in the plan's statistics. */
static void given(const struct moment *m, const struct entries_plan *plan, uint32_t g, float *mean, float *covariance) {
    const uint32_t d = m->t->d;
    const size_t row = (size_t)m->layer * m->t->heads + g;
    const float *from = plan->spread + row * (d * (d + 1) / 2);
    for (uint32_t c = 0; c < d; c++)
        mean[c] = plan->centre[row * d + c];
    for (uint32_t b = 0; b < d; b++)
        for (uint32_t c = 0; c <= b; c++, from++) {
            const float product = (float)((double)mean[b] * (double)mean[c] + (double)*from);
            covariance[b * d + c] = fmaf(-mean[b], mean[c], product);
            covariance[c * d + b] = fmaf(-mean[c], mean[b], product);
        }
}

static void expected_head(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    const struct head *head = &m->heads[h];
    const uint32_t d = m->t->d, n = head->count, group = m->t->heads / m->t->lists;
    const float scale = (float)(1 / sqrt((double)d));
    float *p = calloc(n, sizeof *p);
    assert_non_null(p);
    for (uint32_t g = h * group; g < (h + 1) * group; g++) {
        float *mean = calloc((size_t)d * (d + 1), sizeof *mean), *covariance = mean + d;
        assert_non_null(mean);
        if (plan->centre)
            given(m, plan, g, mean, covariance);
        else
            moments(m, g, plan->sinks, mean, covariance);
        for (uint32_t j = plan->sinks; j < n; j++) {
            const float *k = head->entries[j].k;
            float b = 0;
            for (uint32_t i = 0; i < d; i++)
                b = fmaf(oracle_dot(covariance + (size_t)i * d, k, d), k[i], b);
            p[j] = oracle_dot(mean, k, d);
            p[j] = scale * (plan->no_covariance ? p[j] : fmaf(scale / 2, b, p[j]));
        }
        softmax_from(p, plan->sinks, n);
        for (uint32_t j = plan->sinks; j < n; j++)
            score[j] += p[j];
        free(mean);
    }
    for (uint32_t j = plan->sinks; j < n; j++) {
        const float *v = head->entries[j].v;
        score[j] /= (float)group;
        if (!plan->no_values)
            score[j] = (score[j] + plan->epsilon) * sqrtf(oracle_dot(v, v, d));
    }
    free(p);
}

void oracle_expected(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->sinks + 1);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= budget)
            continue;
        float *score = calloc(head->count, sizeof *score);
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        expected_head(m, plan, h, score);
        for (uint32_t j = 0; j < plan->sinks; j++)
            kept[j] = true;
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}

/* ---- criticalkv ---- */

void oracle_criticalkv(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p, expected = {.sinks = 4, .no_values = true};
    const uint32_t sinks = plan->scorer == SCORE_EXPECTED ? 4 : 0, w = plan->window < m->turn ? plan->window : m->turn;
    const uint32_t budget = entries_budget(plan, m, plan->window + sinks + 1), group = m->t->heads / m->t->lists;
    const uint32_t alone = (uint32_t)floor(plan->first * budget);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        const uint32_t n = head->count;
        if (n <= budget)
            continue;
        float *score = plan->scorer == SCORE_WINDOW ? window_scores(m, h, w, plan->kernel, plan->average)
                                                    : calloc(n, sizeof *score);
        bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
        assert_true(score && kept && candidate);
        if (plan->scorer == SCORE_EXPECTED)
            expected_head(m, &expected, h, score);
        else if (plan->scorer != SCORE_WINDOW)
            score_entries(m, plan, h, score);
        for (uint32_t j = 0; j < n; j++) {
            score[j] /= plan->scorer == SCORE_WINDOW ? (float)(w * group) : 1;
            kept[j] = j < sinks || j >= n - w;
            candidate[j] = !kept[j];
        }
        mark_top(score, candidate, n, alone > w + sinks ? alone - w - sinks : 0, kept);
        for (uint32_t j = 0; j < n; j++) {
            float norm = 0, all = 0;
            for (uint32_t c = 0; c < m->t->d; c++)
                norm += fabsf(head->entries[j].v[c]);
            for (uint32_t g = 0; g < group; g++)
                all += norm;
            score[j] = (score[j] + plan->epsilon) * (all / (float)group);
        }
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
        free(candidate);
    }
}
