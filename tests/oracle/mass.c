/* mass.c - see mass.h. */
#include "tests/oracle/mass.h"

#include "core/base/canon.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void *zeros(size_t n, size_t size) {
    void *made = calloc(n + 1, size);
    assert_non_null(made);
    return made;
}

/* Returns the budget B. If it is a percentage of N, it is at least `at_least`. */
static uint32_t budget_of(const struct mass_plan *plan, const struct moment *m, uint32_t at_least) {
    return plan->share ? most((m->heads[0].held * plan->share + 50) / 100, at_least) : plan->budget;
}

/* Keeps the entries with the `many` highest scores, and the last w entries. */
static void keep_top(struct head *head, const float *scores, uint32_t many, uint32_t w) {
    const uint32_t n = head->count;
    bool *kept = zeros(n, sizeof *kept), *candidate = zeros(n, sizeof *candidate);
    for (uint32_t j = 0; j < n; j++) {
        kept[j] = j + w >= n;
        candidate[j] = !kept[j];
    }
    mark_top(scores, candidate, n, many, kept);
    remove_unkept(head, kept);
    free(kept);
    free(candidate);
}

/* ---- h2o, keyformer ---- */

static float noise_of(const struct mass_plan *plan, uint32_t layer, uint32_t head, int32_t position) {
    const uint32_t counter[4] = {layer, head, (uint32_t)position, 0};
    const double u = (oracle_philox(counter, plan->seed) >> 8) / 16777216.0 + 1.0 / 33554432.0;
    return (float)-log(-log(u));
}

/* Replaces x by its softmax. */
static void softmax(float *x, uint32_t n) {
    float m[64], l[64], M = 0, L = 0;
    const uint32_t tiles = (n + 255) / 256;
    assert_true(tiles <= 64);
    for (uint32_t t = 0; t < tiles; t++) {
        const uint32_t first = 256 * t, end = least(first + 256, n);
        float lane[32] = {0};
        m[t] = x[first];
        for (uint32_t j = first; j < end; j++)
            m[t] = x[j] > m[t] ? x[j] : m[t];
        for (uint32_t j = first; j < end; j++)
            lane[(j - first) % 32] += kvc_exp(x[j] - m[t]);
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        l[t] = lane[0];
        M = t == 0 || m[t] > M ? m[t] : M;
    }
    for (uint32_t t = 0; t < tiles; t++)
        L = fmaf(kvc_exp(m[t] - M), l[t], L);
    for (uint32_t j = 0; j < n; j++)
        x[j] = kvc_exp(x[j] - M) / L;
}

/* Adds the query at `position`, which sees the first n entries of list h. Their `probability` becomes the group's sum.
 * `low` is set to show that the query was counted. */
static void add_query(const struct moment *m, const struct mass_plan *plan, uint32_t h, uint32_t position, uint32_t n,
                      float tau) {
    const uint32_t group = m->t->heads / m->t->lists, d = m->t->d;
    struct head *head = &m->heads[h];
    float *s = zeros(n, sizeof *s), *a = zeros(n, sizeof *a), *row = zeros(n, sizeof *row);
    for (uint32_t g = h * group; g < (h + 1) * group; g++) {
        attend(head->entries, n, q_row(m->t, m->layer, position) + (size_t)g * d, d, s, a, NULL);
        if (plan->noise) {
            uint32_t read = 0;
            for (uint32_t j = 0; j < n; j++)
                if (!head->entries[j].unread)
                    a[read++] = (s[j] + noise_of(plan, m->layer, g, head->entries[j].position)) / tau;
            softmax(a, read);
            for (uint32_t j = n; j-- > 0;)
                a[j] = head->entries[j].unread ? 0 : a[--read];
        }
        for (uint32_t j = 0; j < n; j++)
            row[j] += a[j];
    }
    for (uint32_t j = 0; j < head->count; j++)
        head->entries[j].low[position] = 1;
    for (uint32_t j = 0; j < n; j++)
        head->entries[j].probability[position] = row[j];
    free(s);
    free(a);
    free(row);
}

void oracle_mass_look(const struct moment *m, const void *p) {
    const struct mass_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        for (uint32_t j = 0; j < m->heads[h].count; j++) {
            const uint32_t position = (uint32_t)m->heads[h].entries[j].position;
            if (position + m->turn >= m->now)
                add_query(m, plan, h, position, j + 1, (float)plan->tau_init);
        }
}

float oracle_mass_sum(const struct entry *e, uint32_t now) {
    float older = 0, tile = 0;
    for (uint32_t i = (uint32_t)e->position; i < now; i++) {
        if (i % 256 == 0 && e->low[i] != 0) {
            older += tile;
            tile = 0;
        }
        tile += e->probability[i];
    }
    return older + tile;
}

void oracle_mass(const struct moment *m, const void *p) {
    const struct mass_plan *plan = p;
    const uint32_t B = budget_of(plan, m, plan->recent + 1), recent = plan->recent ? plan->recent : B / 2;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        const uint32_t first = plan->keeps_prompt ? head->after : 0;
        float *sums = zeros(head->count, sizeof *sums);
        for (uint32_t j = 0; j < head->count && head->count > first + B; j++)
            sums[j] = oracle_mass_sum(&head->entries[j], m->now);
        while (head->count > first + B &&
               !(plan->keeps_prompt && m->turn)) { /* the lowest sum is evicted; among equal sums, the last entry */
            uint32_t worst = head->count;
            for (uint32_t j = first; j < head->count; j++)
                if ((uint32_t)head->entries[j].position + recent < m->now &&
                    (worst == head->count || sums[j] <= sums[worst]))
                    worst = j;
            assert_true(worst < head->count);
            head->count--;
            for (uint32_t j = worst; j < head->count; j++) {
                head->entries[j] = head->entries[j + 1];
                sums[j] = sums[j + 1];
            }
        }
        free(sums);
    }
}

void oracle_mass_step(const struct moment *m, const void *p) {
    const struct mass_plan *plan = p;
    const double done = plan->steps > m->step ? (double)m->step / plan->steps : 1;
    const float tau = (float)(plan->tau_init + (plan->tau_end - plan->tau_init) * done);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++)
        add_query(m, plan, h, m->now - 1, m->heads[h].count, tau);
    oracle_mass(m, p);
}

/* ---- cake ---- */

static float pooled_at(const float *x, int64_t n, int64_t j, const struct mass_plan *plan) {
    const int64_t half = plan->kernel / 2;
    float sum = 0, best = -1;
    for (int64_t i = j < half ? 0 : j - half; i <= j + half && i < n; i++) {
        sum += x[i];
        best = x[i] > best ? x[i] : best;
    }
    return plan->kernel == 1 ? x[j] : plan->average ? sum / (float)plan->kernel : best;
}

/* Returns the probabilities [w, n] that the last w queries of query head g give to the entries of list h: 0 for entries
 * that are not visible. */
static float *window_probabilities(const struct moment *m, uint32_t h, uint32_t g, uint32_t w) {
    const struct head *head = &m->heads[h];
    const uint32_t n = head->count, d = m->t->d;
    float *probabilities = zeros((size_t)w * n, sizeof *probabilities), *s = zeros(n, sizeof *s);
    for (uint32_t i = 0; i < w; i++)
        attend(head->entries, n - (w - 1 - i), q_row(m->t, m->layer, m->now - w + i) + (size_t)g * d, d, s,
               probabilities + (size_t)i * n, NULL);
    free(s);
    return probabilities;
}

static float tree(float lane[32]) {
    for (uint32_t w = 16; w > 0; w /= 2)
        for (uint32_t i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

/* Stores the scores of list h in its entries, and adds up the dispersion and variance of its heads. */
static void cake_scores(const struct moment *m, const struct mass_plan *plan, uint32_t h, uint32_t w, float *dispersion,
                        float *variance) {
    struct head *head = &m->heads[h];
    const uint32_t n = head->count, older = n - w, group = m->t->heads / m->t->lists;
    float *total = zeros(n, sizeof *total);
    for (uint32_t g = h * group; g < (h + 1) * group; g++) {
        float *a = window_probabilities(m, h, g, w), *score = zeros(n, sizeof *score);
        float disp[32] = {0}, var[32] = {0};
        for (uint32_t j = 0; j < older; j++) {
            float mean = 0, spread = 0, entropy = 0;
            for (uint32_t i = 0; i < w; i++) {
                const float x = a[(size_t)i * n + j];
                mean += x;
                entropy += -(x * kvc_log(x + 1e-10f));
            }
            mean /= (float)w;
            for (uint32_t i = 0; i < w; i++) {
                const float e = a[(size_t)i * n + j] - mean;
                spread = fmaf(e, e, spread);
            }
            spread = w > 1 ? spread / (float)(w - 1) : 0;
            score[j] = fmaf((float)plan->gamma, spread, mean);
            disp[j % 32] += entropy;
            var[j % 32] += spread;
        }
        *dispersion += tree(disp);
        *variance += tree(var);
        for (uint32_t j = 0; j < older; j++)
            total[j] += pooled_at(score, older, j, plan);
        free(a);
        free(score);
    }
    for (uint32_t j = 0; j < n; j++)
        head->entries[j].score = total[j] / (float)group;
    free(total);
}

/* Computes the budgets of the layers so far, without the window, as in section 4.2 of the paper. */
static void cake_budgets(const struct cake_seen *seen, uint32_t layers, int64_t T, int64_t *b) {
    double sum = 0;
    int64_t cut = 0, all = 0;
    for (uint32_t l = 0; l < layers; l++)
        sum += seen->P[l];
    for (uint32_t l = 0; l < layers; l++) {
        b[l] = (int64_t)floor(sum > 0 ? seen->P[l] / sum * (double)T : 1.0 / layers * (double)T);
        if (b[l] > seen->older[l]) {
            cut += b[l] - seen->older[l];
            b[l] = seen->older[l];
        }
    }
    for (int round = 0; round < 2; round++) {
        int64_t open[32], count = 0, amount = cut;
        for (uint32_t l = 0; l < layers; l++)
            if (b[l] < seen->older[l])
                open[count++] = l;
        for (int64_t i = 0; i < count; i++)
            b[open[i]] += amount / count + (i < amount % count);
        all = 0;
        for (uint32_t l = 0; l < layers; l++)
            all += b[l];
        cut = T - all;
        assert_true(cut >= 0);
    }
}

void oracle_cake(const struct moment *m, const void *p) {
    const struct mass_plan *plan = p;
    const uint32_t w = least(plan->window, m->turn), lists = m->t->lists;
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    const uint32_t here = oracle_acting(plan->left_out, m->layer);
    float dispersion = 0, variance = 0;
    if (here == 0)
        plan->seen->mean = budget_of(plan, m, plan->window + 1) - w;
    for (uint32_t h = 0; h < lists; h++)
        cake_scores(m, plan, h, w, &dispersion, &variance);
    plan->seen->older[here] = m->heads[0].held - w;
    plan->seen->P[here] = pow(fmax((double)dispersion, 0), 1 / plan->tau1) * pow((double)variance, 1 / plan->tau2);
    bool within = true; /* rule 5 of docs/reference/methods.md */
    for (uint32_t l = 0; l <= here; l++)
        within = within && plan->seen->older[l] <= plan->seen->mean;
    if (within)
        return;
    int64_t b[32];
    cake_budgets(plan->seen, here + 1, (int64_t)oracle_acting(plan->left_out, m->t->layers) * plan->seen->mean, b);
    for (uint32_t layer = 0; layer <= m->layer; layer++)
        for (uint32_t h = 0; h < lists && oracle_acts(plan->left_out, layer); h++) {
            const uint32_t l = oracle_acting(plan->left_out, layer);
            struct head *head = m->heads - (size_t)(m->layer - layer) * lists + h;
            float *scores = zeros(head->count, sizeof *scores);
            for (uint32_t j = 0; j < head->count; j++)
                scores[j] = head->entries[j].score;
            if (head->count > b[l] + w)
                keep_top(head, scores, (uint32_t)b[l], w);
            free(scores);
        }
}

/* ---- fastkv ---- */

/* Returns the window mass of each query head, pooled, then summed over the group. */
static float *fastkv_scores(const struct moment *m, const struct mass_plan *plan, uint32_t h, uint32_t w) {
    const uint32_t n = m->heads[h].count, older = n - w, group = m->t->heads / m->t->lists;
    float *scores = zeros(n, sizeof *scores);
    for (uint32_t g = h * group; g < (h + 1) * group; g++) {
        float *a = window_probabilities(m, h, g, w), *mass = zeros(n, sizeof *mass);
        for (uint32_t i = 0; i < w; i++)
            for (uint32_t j = 0; j < n; j++)
                mass[j] += a[(size_t)i * n + j];
        for (uint32_t j = 0; j < older; j++)
            scores[j] += pooled_at(mass, older, j, plan);
        free(a);
        free(mass);
    }
    return scores;
}

/* Lets only the turn's best tsp - w rows and the window reach the layers above. */
static void fastkv_cut(const struct moment *m, const struct mass_plan *plan, uint32_t w) {
    const uint32_t rows = m->turn, first = m->now - rows;
    float *total = zeros(rows, sizeof *total);
    bool *goes = zeros(rows, sizeof *goes), *candidate = zeros(rows, sizeof *candidate);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        float *scores = fastkv_scores(m, plan, h, w);
        for (uint32_t i = 0; i < rows; i++)
            total[i] += scores[m->heads[h].count - rows + i];
        free(scores);
    }
    for (uint32_t i = 0; i < rows; i++) {
        goes[i] = i + w >= rows;
        candidate[i] = !goes[i];
    }
    mark_top(total, candidate, rows, plan->tsp - w, goes);
    for (uint32_t l = m->layer + 1; l < m->t->layers; l++)
        for (uint32_t i = 0; i < rows; i++)
            m->t->kept_rows[(size_t)l * m->t->rows + first + i] = goes[i];
    free(total);
    free(goes);
    free(candidate);
}

void oracle_fastkv(const struct moment *m, const void *p) {
    const struct mass_plan *plan = p;
    const uint32_t w = least(plan->window, m->turn), B = budget_of(plan, m, plan->window + 1);
    if (!oracle_acts(plan->left_out, m->layer))
        return;
    if (m->layer == plan->tsp_layer && m->turn > plan->tsp)
        fastkv_cut(m, plan, w);
    for (uint32_t h = 0; h < m->t->lists && plan->budget + plan->share > 0;
         h++) { /* without a budget or share, another method evicts */
        struct head *head = &m->heads[h];
        if (head->count <= B)
            continue;
        float *scores = fastkv_scores(m, plan, h, w);
        keep_top(head, scores, B - w, w);
        free(scores);
    }
}
