/* series.c - oracle of triattention, see entries.h. In a replay nothing is rotated. */
#include "tests/oracle/entries.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The mean of x, or of its squares, over n entries, in tiles of 256 and 32 lanes. */
static float mean_of(const float *x, uint32_t n, bool squares) {
    float all = 0;
    for (uint32_t tile = 0; tile < n; tile += 256) {
        float lane[32] = {0};
        for (uint32_t j = tile; j < n && j < tile + 256; j++)
            lane[j % 32] = squares ? fmaf(x[j], x[j], lane[j % 32]) : lane[j % 32] + x[j];
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        all += lane[0];
    }
    return all / (float)n;
}

/* The z-scores of query head g, [n]. */
static void score_head(const struct moment *m, const struct entries_plan *plan, const struct head *head, uint32_t g,
                       float *z) {
    const uint32_t d = m->t->d, n = head->count;
    const size_t row = (size_t)m->layer * m->t->heads + g;
    float *length = calloc(d, sizeof *length);
    assert_non_null(length);
    for (uint32_t j = 0; j < n; j++) {
        const float *k = head->entries[j].k;
        for (uint32_t i = 0; i < plan->pairs; i++)
            length[i] = sqrtf(fmaf(k[plan->pairs + i], k[plan->pairs + i], k[i] * k[i]));
        z[j] = oracle_dot(plan->centre + row * d, k, d) + oracle_dot(plan->spread + row * (d / 2), length, plan->pairs);
    }
    const float mean = mean_of(z, n, false);
    for (uint32_t j = 0; j < n; j++)
        z[j] -= mean;
    const float deviation = sqrtf(mean_of(z, n, true));
    for (uint32_t j = 0; j < n; j++)
        z[j] /= deviation > 1e-6f ? deviation : 1e-6f;
    free(length);
}

void oracle_triattention(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->recent + 1), group = m->t->heads / m->t->lists;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (m->step % plan->every != 0 || head->count <= budget)
            continue;
        float *score = calloc(2 * (size_t)head->count, sizeof *score), *z = score + head->count;
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        for (uint32_t g = h * group; g < (h + 1) * group; g++) {
            score_head(m, plan, head, g, z);
            for (uint32_t j = 0; j < head->count; j++)
                if (plan->mean_heads)
                    score[j] = g == h * group ? 0.0f + z[j] : score[j] + z[j];
                else if (g == h * group || !(score[j] > z[j]))
                    score[j] = z[j];
        }
        for (uint32_t j = 0; j < head->count; j++) {
            score[j] /= plan->mean_heads ? (float)group : 1;
            kept[j] = head->entries[j].position >= (int64_t)m->now - plan->recent;
        }
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}
