/* scores.c - see scores.h. */
#include "tests/oracle/scores.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Returns the budget B. If it is a percentage of N, it is at least `at_least`. */
static uint32_t budget_of(const struct scores_plan *plan, const struct moment *m, uint32_t at_least) {
    return plan->share ? most((m->heads[0].held * plan->share + 50) / 100, at_least) : plan->budget;
}

static uint32_t longest(const struct moment *m) {
    uint32_t n = 0;
    for (uint32_t h = 0; h < m->t->lists; h++)
        n = most(n, m->heads[h].count);
    return n;
}

/* Keeps the entries with the `many` highest scores, and the last w entries. */
static void keep_top(struct head *head, const float *scores, uint32_t many, uint32_t w) {
    const uint32_t n = head->count;
    bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
    assert_true(kept && candidate);
    for (uint32_t j = 0; j < n; j++) {
        kept[j] = j + w >= n;
        candidate[j] = !kept[j];
    }
    mark_top(scores, candidate, n, many, kept);
    remove_unkept(head, kept);
    free(kept);
    free(candidate);
}

void oracle_pyramidkv(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t N = m->heads[0].held, w = least(plan->window, m->turn), B = budget_of(plan, m, plan->window + 1);
    const uint32_t L = oracle_acting(plan->left_out, m->t->layers);
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    long double low = (long double)(B - w) / plan->beta, high = 2 * (long double)(B - w) - low;
    if (high > N - w) {
        high = N - w;
        low = 2 * (long double)(B - w) - high;
    }
    long double mine = high;
    if (L == 1)
        mine = B - w;
    else
        mine -= oracle_acting(plan->left_out, m->layer) * (high - low) / (L - 1);
    const uint32_t keep = (uint32_t)floorl(mine + 0.5L + 1e-9L);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        if (m->heads[h].count <= keep + w)
            continue;
        float *scores = window_scores(m, h, w, plan->kernel, plan->average);
        keep_top(&m->heads[h], scores, keep, w);
        free(scores);
    }
}

void oracle_adakv(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t w = least(plan->window, m->turn), B = budget_of(plan, m, plan->window + 1), lists = m->t->lists;
    if (!oracle_acts(plan->left_out, m->layer) || longest(m) <= B)
        return;
    float *scores[64];
    bool *taken[64];
    uint32_t share[64] = {0};
    for (uint32_t h = 0; h < lists; h++) {
        scores[h] = window_scores(m, h, w, plan->kernel, plan->average);
        taken[h] = calloc(m->heads[h].count, sizeof *taken[h]);
        assert_non_null(taken[h]);
    }
    for (uint32_t slot = 0; slot < lists * (B - w); slot++) { /* gives the slot to the best remaining entry */
        uint32_t best_h = lists, best_j = 0;
        for (uint32_t h = 0; h < lists; h++)
            for (uint32_t j = 0; j + w < m->heads[h].count; j++)
                if (!taken[h][j] && (best_h == lists || scores[h][j] > scores[best_h][best_j])) {
                    best_h = h;
                    best_j = j;
                }
        if (best_h == lists)
            break;
        taken[best_h][best_j] = true;
        share[best_h]++;
    }
    for (uint32_t h = 0; h < lists; h++) {
        const double mine = plan->floor * (B - w) + (1 - plan->floor) * share[h];
        keep_top(&m->heads[h], scores[h], (uint32_t)floor(mine + 0.5), w);
        free(scores[h]);
        free(taken[h]);
    }
}

/* ---- scissorhands ---- */

/* Records the attention from the query at `position` to the first n entries of list h: the group's sum, and the number
 * of heads in which it is low. */
static void look(const struct moment *m, uint32_t h, uint32_t position, uint32_t n) {
    const uint32_t group = m->t->heads / m->t->lists, d = m->t->d;
    struct head *head = &m->heads[h];
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a);
    uint32_t read = 0;
    assert_true(s && a);
    for (uint32_t j = 0; j < n; j++)
        read += !head->entries[j].unread;
    for (uint32_t g = 0; g < group; g++) {
        attend(head->entries, n, q_row(m->t, m->layer, position) + (size_t)(h * group + g) * d, d, s, a, NULL);
        for (uint32_t j = 0; j < n; j++) {
            head->entries[j].probability[position] += a[j];
            head->entries[j].low[position] += !head->entries[j].unread && a[j] < 1.0f / (float)read;
        }
    }
    free(s);
    free(a);
}

void oracle_scissorhands_look(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t rows = least(m->turn, plan->history);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        for (uint32_t position = m->now - rows; position < m->now; position++)
            if (!m->t->kept_rows || m->t->kept_rows[(size_t)m->layer * m->t->rows + position])
                look(m, h, position, entries_up_to(&m->heads[h], position));
}

/* Evicts the entries that recent queries ignored most often. `seen` is the number of queries recorded. */
static void drop_highest(const struct moment *m, const struct scores_plan *plan, uint32_t h, uint32_t seen) {
    const uint32_t B = budget_of(plan, m, plan->recent + 1), recent = plan->recent ? plan->recent : B / 2;
    const uint32_t rows = least(seen, plan->history);
    struct head *head = &m->heads[h];
    while (head->count > B) {
        uint32_t worst = head->count;
        float worst_count = 0, worst_sum = 0;
        for (uint32_t j = 0; j < head->count; j++) {
            float count = 0, sum = 0;
            for (uint32_t i = m->now - rows; i < m->now; i++) {
                count += head->entries[j].low[i];
                sum += head->entries[j].probability[i];
            }
            if (head->entries[j].position >= (int64_t)m->now - recent)
                continue;
            if (worst == head->count || count > worst_count || (count == worst_count && sum <= worst_sum)) {
                worst = j;
                worst_count = count;
                worst_sum = sum;
            }
        }
        if (worst == head->count)
            return;
        head->count--;
        for (uint32_t j = worst; j < head->count; j++)
            head->entries[j] = head->entries[j + 1];
    }
}

void oracle_scissorhands(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        drop_highest(m, plan, h, plan->prompt_only ? m->turn : m->now);
}

void oracle_scissorhands_step(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        look(m, h, m->now - 1, m->heads[h].count);
        drop_highest(m, plan, h, m->now);
    }
}

/* ---- lacache ---- */

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* Keeps the entries at indices below `first`, those of the ladder, and those from first + wb * blocks on. */
static void climb(struct head *head, uint32_t first, uint32_t shift, uint32_t wb, uint32_t blocks, uint32_t wa,
                  uint32_t times) {
    bool *kept = calloc(head->count, sizeof *kept);
    assert_non_null(kept);
    for (uint32_t r = 0; r < head->count; r++)
        kept[r] = r < first || r >= first + wb * blocks;
    for (uint32_t j = 0; j < blocks; j++)
        for (uint32_t k = 0; k < wa; k++)
            if (first + shift + wb * j + times * k < head->count)
                kept[first + shift + wb * j + times * k] = true;
    remove_unkept(head, kept);
    free(kept);
}

void oracle_lacache(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t L = oracle_acting(plan->left_out, m->t->layers), l = oracle_acting(plan->left_out, m->layer);
    const uint32_t span = plan->span, overlap = plan->overlap, sinks = plan->sinks;
    const uint32_t wb = 1 + divide_up(L - span, span - overlap), wa = least(divide_up(span, span - overlap), wb);
    const uint32_t red = wb - wa;
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    uint32_t possible = 1; /* the smallest budget: the sinks, one entry per layer, and space for one block */
    while (possible + red / 2 < sinks + L || (possible + red / 2 - sinks - L) / wa == 0)
        possible++;
    const uint32_t C = budget_of(plan, m, possible) + red / 2;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        struct head *head = &m->heads[h];
        if (head->count <= C)
            continue;
        head->cursor = most(head->cursor, sinks);
        const uint32_t need = head->count - C, capacity = C > head->cursor + L ? C - head->cursor - L : 0;
        const uint32_t can = capacity / wa * red;
        if (need <= can) {
            const uint32_t inc = divide_up(need, red) * wa;
            climb(head, head->cursor, l % (red + 1), wb, inc / wa, wa, 1);
            head->cursor += inc;
            continue;
        }
        climb(head, head->cursor, l % (red + 1), wb, capacity / wa, wa, 1);
        const uint32_t rest = need - can, within = (C - sinks - L) / wa * red, times = divide_up(rest, within);
        const uint32_t wb2 = wb + (times - 1) * (wb - 1), red2 = wb2 - wa, inc2 = divide_up(rest, red2) * wa;
        climb(head, sinks, l % (red2 + 1), wb2, inc2 / wa, wa, times);
        head->cursor = sinks + inc2;
        assert_true(head->count <= C);
    }
}

/* ---- duo ---- */

void oracle_duo(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        const uint32_t kv_head = h * m->t->kv_heads / m->t->lists;
        struct head *head = &m->heads[h];
        if (plan->scores[m->layer * m->t->kv_heads + kv_head] >= plan->threshold ||
            head->count <= plan->sinks + plan->recent)
            continue;
        bool *kept = calloc(head->count, sizeof *kept);
        assert_non_null(kept);
        for (uint32_t j = 0; j < head->count; j++)
            kept[j] = j < plan->sinks || head->entries[j].position >= (int64_t)m->now - plan->recent;
        remove_unkept(head, kept);
        free(kept);
    }
}

/* ---- tova ---- */

void oracle_tova(const struct moment *m, const void *p) {
    const struct scores_plan *plan = p;
    const uint32_t budget = budget_of(plan, m, 2), lists = m->t->lists;
    const bool layer = !plan->by_group && !(plan->apart >> m->layer & 1);
    float *score[64];
    if (!oracle_acts(plan->left_out, m->layer) || longest(m) <= budget)
        return;
    for (uint32_t h = 0; h < lists; h++) {
        const uint32_t n = m->heads[h].count;
        score[h] = calloc(n, sizeof **score);
        assert_non_null(score[h]);
        group_row(m->t, &m->heads[h], m->layer, h, m->now - 1, n, false, score[h]);
        for (uint32_t j = 0; j < n && layer && h > 0; j++)
            score[0][j] = score[0][j] + score[h][j];
    }
    for (uint32_t h = 0; h < lists; h++)
        if (m->heads[h].count > budget)
            keep_top(&m->heads[h], layer ? score[0] : score[h], budget - 1, 1);
    for (uint32_t h = 0; h < lists; h++)
        free(score[h]);
}

/* ---- several methods ---- */

void parts_prompt(const struct moment *m, const void *p) {
    const struct parts *parts = p;
    if (parts->look)
        parts->look(m, parts->look_plan);
    if (parts->prompt)
        parts->prompt(m, parts->prompt_plan);
}

void parts_step(const struct moment *m, const void *p) {
    const struct parts *parts = p;
    if (parts->step)
        parts->step(m, parts->step_plan);
}
