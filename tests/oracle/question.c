/* question.c - oracles of finch and simlayerkv, which read the prompt's last queries; see scores.h. */
#include "tests/oracle/scores.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Returns the mass of the last w queries, with votes of equal weight if `counted`. The caller frees it. */
static float *mass_of(const struct moment *m, uint32_t h, uint32_t w, bool counted) {
    const uint32_t group = m->t->heads / m->t->lists, d = m->t->d;
    const struct head *head = &m->heads[h];
    float *mass = calloc(3 * (size_t)head->count, sizeof *mass), *s = mass + head->count, *a = s + head->count;
    assert_non_null(mass);
    for (uint32_t i = w > head->count ? w - head->count : 0; i < w; i++) {
        const uint32_t n = head->count - (w - 1 - i);
        float *sum = calloc(n, sizeof *sum);
        assert_non_null(sum);
        for (uint32_t g = 0; g < group; g++) {
            const float *q = q_row(m->t, m->layer, m->now - w + i) + (size_t)(h * group + g) * d;
            if (counted)
                attend_counted(head->entries, n, q, d, s, a);
            else
                attend_within(head->entries, n, oracle_window(m->t, m->layer), q, d, s, a, NULL);
            for (uint32_t j = 0; j < n; j++)
                sum[j] += a[j];
        }
        for (uint32_t j = 0; j < n; j++)
            mass[j] += sum[j];
        free(sum);
    }
    return mass;
}

/* ---- finch ---- */

/* Keeps the last w entries and, of each chunk of the others, those with the highest scores. */
static void keep_of_chunks(struct head *head, const float *score, uint32_t w, uint32_t top, uint32_t chunk) {
    const uint32_t older = head->count - w;
    bool *kept = calloc(2 * (size_t)head->count, sizeof *kept), *candidate = kept + head->count;
    assert_non_null(kept);
    for (uint32_t j = 0; j < head->count; j++)
        kept[j] = j >= older;
    for (uint64_t from = 0; from < older; from += chunk) {
        const uint64_t end = from + chunk < older ? from + chunk : older;
        for (uint32_t j = 0; j < head->count; j++)
            candidate[j] = j >= from && j < end;
        mark_top(score, candidate, head->count, (uint32_t)(top * end / older - top * from / older), kept);
    }
    remove_unkept(head, kept);
    free(kept);
}

void oracle_finch(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t w = plan->window < m->turn ? plan->window : m->turn;
    uint32_t B = plan->budget;
    if (plan->share)
        B = (m->heads[0].held * plan->share + 50) / 100 > plan->window ? (m->heads[0].held * plan->share + 50) / 100
                                                                       : plan->window + 1;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= B)
            continue;
        float *score = mass_of(m, h, w, !plan->plain);
        keep_of_chunks(head, score, w, B - w, plan->chunk ? plan->chunk : head->count);
        free(score);
    }
}

/* ---- simlayerkv ---- */

void oracle_simlayerkv(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t w = plan->window < m->turn ? plan->window : m->turn;
    double sum = 0;
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    bool longer = false;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        const struct head *head = &m->heads[h];
        float *mass = mass_of(m, h, w, false);
        longer = longer || head->count > plan->sinks + plan->recent;
        for (uint32_t j = 0; j < head->count; j++)
            if (j < plan->sinks || j + plan->recent >= head->count)
                sum += (double)mass[j];
        free(mass);
    }
    if (!longer || plan->share_above >= 1 || !(sum > plan->share_above * w * m->t->heads))
        return;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        struct head *head = &m->heads[h];
        bool *kept = calloc(head->count, sizeof *kept);
        assert_non_null(kept);
        for (uint32_t j = 0; j < head->count; j++)
            kept[j] = j < plan->sinks || j + plan->recent >= head->count;
        remove_unkept(head, kept);
        free(kept);
    }
}
