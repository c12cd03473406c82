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

static void filtered(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score) {
    const size_t kv_head = h * plan->filter_heads / m->t->lists, row = m->layer * plan->filter_heads + kv_head;
    for (uint32_t j = 0; j < m->heads[h].count; j++)
        score[j] = oracle_dot(plan->centre + row * m->t->d, m->heads[h].entries[j].k, m->t->d);
}

void oracle_random(const struct moment *m, const void *plan) { evict(m, plan, draws); }
void oracle_knorm(const struct moment *m, const void *plan) { evict(m, plan, norms); }
void oracle_keydiff(const struct moment *m, const void *plan) { evict(m, plan, apart); }

void oracle_qfilter(const struct moment *m, const void *plan) { evict(m, plan, filtered); }

void oracle_dms(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        float *score = calloc(head->count + 1, sizeof *score);
        bool *kept = calloc(head->count + 1, sizeof *kept);
        assert_true(score && kept);
        (plan->scorer == SCORE_NORM ? norms : filtered)(m, plan, h, score);
        for (uint32_t j = 0; j < head->count; j++)
            kept[j] = head->entries[j].position >= (int64_t)m->now - plan->recent || score[j] >= plan->threshold;
        remove_unkept(head, kept);
        free(score);
        free(kept);
    }
}

/* ---- cur ---- */

/* Returns an entry's share of the squared lengths in its chunk, or its own squared length without chunks. */
static float share(const struct head *head, uint32_t j, uint32_t chunk, uint32_t d, bool value) {
    float sum = 0, mine = 0;
    for (uint32_t i = chunk ? j / chunk * chunk : j; i < head->count && (i == j || i / chunk == j / chunk); i++) {
        const float *x = value ? head->entries[i].v : head->entries[i].k, square = oracle_dot(x, x, d);
        sum += square;
        if (i == j)
            mine = square;
        if (!chunk)
            return mine;
    }
    return sum == 0 ? 0 : mine / sum;
}

void oracle_cur(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t budget = entries_budget(plan, m, plan->sinks + 1);
    for (uint32_t h = 0; h < m->t->lists && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        if (head->count <= budget)
            continue;
        float *score = calloc(head->count, sizeof *score);
        bool *kept = calloc(head->count, sizeof *kept);
        assert_true(score && kept);
        for (uint32_t j = 0; j < head->count; j++) {
            const float k = share(head, j, plan->chunk, m->t->d, false), v = share(head, j, plan->chunk, m->t->d, true);
            const float scores[] = {k, v, (k + v) / 2, k * v};
            score[j] = scores[plan->shares];
            kept[j] = j < plan->sinks;
        }
        keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
}

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

/* Adds up the scores of all lists of the layer, which hold the same tokens. */
static void add_lists(const struct moment *m, const struct entries_plan *plan, uint32_t w, float *score) {
    const uint32_t n = m->heads[0].count;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        float *x = plan->scorer == SCORE_WINDOW ? window_scores(m, h, w, 1, false) : calloc(n, sizeof *x);
        assert_non_null(x);
        if (plan->scorer != SCORE_WINDOW)
            score_entries(m, plan, h, x);
        for (uint32_t j = 0; j < n; j++)
            score[j] = h ? score[j] + x[j] : x[j];
        free(x);
    }
}

/* Returns the median of x [n], or the lower one of two. */
static float lower_median(const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t below = 0, same = 0;
        for (uint32_t j = 0; j < n; j++) {
            below += x[j] < x[i];
            same += x[j] == x[i];
        }
        if (below <= (n - 1) / 2 && (n - 1) / 2 < below + same)
            return x[i];
    }
    fail_msg("no median of %u numbers", n);
    return 0;
}

static float chunk_entropy(const float *x, uint32_t n) {
    float least_score = 0, sum = 0, h = 0;
    for (uint32_t i = 0; i < n; i++)
        least_score = fminf(least_score, x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] - least_score;
    if (n == 1)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        const float share = (x[i] - least_score) / (sum + 1e-8f);
        h -= share * kvc_log(share + 1e-8f);
    }
    return fmaxf(0, fminf(1, h / kvc_log((float)n)));
}

/* Keeps the marked entries, then chunks by their mean, and last the entries that the gate held back. */
static void keep_gated(struct head *head, const struct entries_plan *plan, uint32_t older, const float *score,
                       bool *kept, uint32_t budget) {
    const uint32_t c = plan->chunk, chunks = older / c + (older % c > 0);
    float *mean = calloc(2 * (size_t)chunks + 1, sizeof *mean), *entropy = mean + chunks;
    bool *held_back = calloc(older + 1, sizeof *held_back);
    assert_true(mean && held_back);
    for (uint32_t i = 0; i < chunks; i++) {
        const uint32_t size = older - i * c < c ? older - i * c : c;
        for (uint32_t j = 0; j < size; j++)
            mean[i] += score[i * c + j];
        mean[i] /= (float)size;
        entropy[i] = chunk_entropy(score + (size_t)i * c, size);
    }
    for (uint32_t j = 0; j < older; j++) {
        const uint32_t i = j / c;
        uint32_t better = 0;
        for (uint32_t k = i * c; k < older && k / c == i; k++)
            better += score[k] > score[j] || (score[k] == score[j] && k < j);
        held_back[j] =
            mean[i] >= lower_median(mean, chunks) && entropy[i] < lower_median(entropy, chunks) && better >= plan->gate;
    }
    uint32_t n = head->count - older;
    for (; n < budget; n++) {
        uint32_t best = older;
        for (uint32_t j = 0; j < older; j++) {
            if (kept[j])
                continue;
            if (best == older || held_back[best] > held_back[j])
                best = j;
            else if (held_back[best] < held_back[j])
                continue;
            else if (!held_back[j] && mean[j / c] != mean[best / c])
                best = mean[j / c] > mean[best / c] ? j : best;
            else
                best = score[j] > score[best] ? j : best;
        }
        kept[best] = true;
    }
    free(mean);
    free(held_back);
    remove_unkept(head, kept);
}

void oracle_chunkkv(const struct moment *m, const void *p) {
    const struct entries_plan *plan = p;
    const uint32_t w = least(plan->window, m->turn), budget = entries_budget(plan, m, plan->window + 1);
    float *layer = NULL;
    if (plan->per_layer && m->heads[0].count > budget) {
        layer = calloc(m->heads[0].count, sizeof *layer);
        assert_non_null(layer);
        add_lists(m, plan, w, layer);
    }
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
        for (uint32_t j = 0; j < n; j++) {
            kept[j] = j >= n - w;
            score[j] = layer ? layer[j] : score[j];
        }
        if (plan->gate)
            keep_gated(head, plan, n - w, score, kept, budget);
        for (uint32_t first = 0; first < n - w && plan->chunk > 1 && !plan->gate;
             first += least(plan->chunk, n - w - first)) {
            const uint32_t size = least(plan->chunk, n - w - first);
            float sum = 0;
            for (uint32_t i = 0; i < size; i++)
                sum += score[first + i];
            for (uint32_t i = 0; i < size; i++)
                score[first + i] = sum / (float)size;
        }
        if (!plan->gate)
            keep_best(head, score, kept, budget);
        free(score);
        free(kept);
    }
    free(layer);
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
