/* merge.c - oracles of merging and cam. Another method's oracle evicts; then the values of the entries that it removed
 * are merged into those of the entries that are left. */
#include "tests/oracle/drawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float length_of(const float *x, uint32_t d) { return sqrtf(oracle_dot(x, x, d)); }

/* One list before and after an eviction. */
struct change {
    const struct moment *m;
    const struct merge_plan *plan;
    const struct entry *before; /* [count] */
    const struct head *head;
    uint32_t h, count;
};

/* Returns the place of the most similar key that is left, and its cosine. */
static uint32_t most_similar(const struct change *change, const struct entry *e, float *most) {
    const uint32_t d = change->m->t->d;
    uint32_t best = 0;
    for (uint32_t i = 0; i < change->head->count; i++) {
        const float *k = change->head->entries[i].k, both = length_of(e->k, d) * length_of(k, d);
        const float cosine = both == 0 ? 0 : oracle_dot(e->k, k, d) / both;
        if (i == 0 || cosine > *most) {
            best = i;
            *most = cosine;
        }
    }
    return best;
}

/* Returns true if entry e is merged into the entry at `place`, and then its weight. `next` is the number of entries
 * that are left of those before e. */
static bool joins(const struct change *change, const struct entry *e, uint32_t next, uint32_t place, float *weight) {
    const struct merge_plan *plan = change->plan;
    const struct head *head = change->head;
    const uint32_t d = change->m->t->d, now = change->m->now;
    if (plan->similar) {
        float cosine = 0;
        if (most_similar(change, e, &cosine) != place || !(cosine >= plan->threshold))
            return false;
        const float mine = length_of(e->v, d);
        *weight = cosine * mine / (mine + length_of(head->entries[place].v, d) + 1e-6f);
        return *weight > 0;
    }
    const uint32_t many = head->count - next < plan->span ? head->count - next : plan->span;
    if (place < next || place >= next + many)
        return false;
    const uint32_t counter[4] = {change->m->layer, change->h, (uint32_t)e->position, 2};
    const double u = (oracle_philox(counter, plan->seed) >> 8) / 16777216.0;
    float sum = 0;
    for (uint32_t i = next; i < next + many; i++)
        sum += oracle_mass_sum(&head->entries[i], now);
    *weight = 1 / (float)many;
    return u < (double)(oracle_mass_sum(e, now) / (sum / (float)many));
}

/* Computes the new value [d] of the entry at `place`. Returns false if nothing is merged into it. */
static bool merged_value(const struct change *change, uint32_t place, float *value) {
    const uint32_t d = change->m->t->d;
    float all = 0, weight;
    bool some = false;
    memset(value, 0, d * sizeof *value);
    for (uint32_t j = 0, next = 0; j < change->count; j++) {
        const struct entry *e = &change->before[j];
        if (next < change->head->count && change->head->entries[next].position == e->position) {
            next++;
            continue;
        }
        if (!joins(change, e, next, place, &weight))
            continue;
        some = true;
        all += weight;
        for (uint32_t c = 0; c < d; c++)
            value[c] = fmaf(weight, e->v[c], value[c]);
    }
    for (uint32_t c = 0; c < d && some; c++) {
        value[c] = change->head->entries[place].v[c] + value[c];
        value[c] = change->plan->similar ? value[c] / (1 + all) : value[c];
    }
    return some;
}

static void merge(const struct change *change) {
    const uint32_t d = change->m->t->d, left = change->head->count;
    float *values = malloc(((size_t)left * d + 1) * sizeof *values);
    bool *some = malloc(left + 1);
    assert_true(values && some);
    for (uint32_t i = 0; i < left; i++)
        some[i] = merged_value(change, i, values + (size_t)i * d);
    for (uint32_t i = 0; i < left; i++)
        if (some[i])
            oracle_store(*change->plan->type, values + (size_t)i * d, change->head->entries[i].v, d);
    free(values);
    free(some);
}

/* Calls the oracle that evicts, and then merges. */
static void evict_and_merge(const struct moment *m, const struct merge_plan *plan, moment_fn *evict) {
    const bool merges = oracle_acts(plan->left_out, m->layer) && !(plan->keeps_prompt && m->turn);
    struct entry **before = calloc(m->t->lists, sizeof *before);
    uint32_t *count = calloc(m->t->lists, sizeof *count);
    assert_true(before && count);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        count[h] = m->heads[h].count;
        before[h] = malloc(count[h] * sizeof **before + 1);
        assert_non_null(before[h]);
        memcpy(before[h], m->heads[h].entries, count[h] * sizeof **before);
    }
    evict(m, plan->evicts.plan);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        if (merges && m->heads[h].count < count[h])
            merge(&(struct change){m, plan, before[h], &m->heads[h], h, count[h]});
        free(before[h]);
    }
    free(before);
    free(count);
}

static void merge_prompt(const struct moment *m, const void *p) {
    const struct merge_plan *plan = p;
    if (!plan->similar)
        oracle_mass_look(m, &(struct mass_plan){.left_out = plan->left_out});
    evict_and_merge(m, plan, plan->evicts.prompt);
}

static void merge_step(const struct moment *m, const void *p) {
    const struct merge_plan *plan = p;
    if (!plan->similar)
        oracle_mass_step(m, &(struct mass_plan){.left_out = plan->left_out, .budget = UINT32_MAX});
    evict_and_merge(m, plan, plan->evicts.step);
}

/* Draws a method that evicts, and appends the text of a method that merges. */
static void draw_merge(struct drawn *d, const char *name, draw_fn *const *methods, uint32_t count) {
    methods[drawn_below(count)](d);
    const uint32_t skipped = drawn_below(3) ? 0 : drawn_below(d->layers);
    d->merge.left_out = (1u << skipped) - 1;
    d->merge.evicts = d->side;
    d->merge.type = &d->side.type;
    d->side = (struct side){.prompt = merge_prompt, .step = merge_step, .plan = &d->merge};
    drawn_say(d, "+%s:skip_layers=%u", name, skipped);
}

void draw_merging(struct drawn *d) {
    static draw_fn *const methods[] = {draw_window, draw_snapkv,  draw_morphkv, draw_h2o,    draw_tova,
                                       draw_lagkv,  draw_keydiff, draw_adakv,   draw_random, draw_snapkv_decode};
    static const float thresholds[] = {0, 0.25f, 0.5f, 1};
    draw_merge(d, "merging", methods, sizeof methods / sizeof *methods);
    d->merge.similar = true;
    d->merge.threshold = thresholds[drawn_below(4)];
    drawn_say(d, ",threshold=%g", (double)d->merge.threshold);
}

void draw_cam(struct drawn *d) {
    static draw_fn *const methods[] = {draw_window, draw_streaming, draw_morphkv,      draw_h2o,
                                       draw_tova,   draw_knorm,     draw_snapkv_decode};
    static const uint32_t spans[] = {1, 2, 7, 32, 1048576};
    draw_merge(d, "cam", methods, sizeof methods / sizeof *methods);
    d->merge.span = spans[drawn_below(5)];
    d->merge.keeps_prompt = drawn_below(3) == 0;
    d->merge.seed = drawn_below(1000);
    drawn_say(d, ",span=%u,prompt=%s,seed=%u", d->merge.span, d->merge.keeps_prompt ? "keep" : "merge",
              (unsigned)d->merge.seed);
}
