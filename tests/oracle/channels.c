/* channels.c - oracle of think. Another method's oracle may evict; then channels of the keys that are left become 0. */
#include "tests/oracle/drawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Returns the sum of the squares of channel c in the last `window` queries of the turn and the group's heads. */
static float squared_queries(const struct moment *m, uint32_t h, uint32_t window, uint32_t c) {
    const uint32_t group = m->t->heads / m->t->lists, rows = window < m->turn ? window : m->turn;
    float sum = 0;
    for (uint32_t row = m->now - rows; row < m->now; row++)
        for (uint32_t g = 0; g < group; g++) {
            const float x = q_row(m->t, m->layer, row)[(size_t)(h * group + g) * m->t->d + c];
            sum = fmaf(x, x, sum);
        }
    return sum;
}

/* Returns the sum of the squares of channel c in the keys of the turn, in tiles of 256. */
static float squared_keys(const struct head *head, int64_t oldest, uint32_t c) {
    float sum = 0, tile = 0;
    for (uint32_t j = 0; j < head->count; j++) {
        const float x = head->entries[j].position < oldest ? 0 : head->entries[j].k[c];
        tile = fmaf(x, x, tile);
        if (j % 256 == 255 || j + 1 == head->count) {
            sum += tile;
            tile = 0;
        }
    }
    return sum;
}

static void prune(const struct moment *m, const struct think_plan *plan) {
    const uint32_t d = m->t->d, window = oracle_window(m->t, m->layer);
    const uint32_t many = plan->channels ? plan->channels : (uint32_t)floor(d * plan->ratio + 0.5);
    const int64_t begin = (int64_t)m->now - m->turn, seen = window ? (int64_t)m->now - window + 1 : 0;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        float score[HEAD_SIZE];
        bool all[HEAD_SIZE], stays[HEAD_SIZE] = {false};
        assert_true(d <= HEAD_SIZE);
        for (uint32_t c = 0; c < d; c++) {
            all[c] = true;
            score[c] =
                squared_queries(m, h, plan->window, c) * squared_keys(&m->heads[h], begin > seen ? begin : seen, c);
        }
        mark_top(score, all, d, d - many, stays);
        for (uint32_t j = 0; j < m->heads[h].count; j++) {
            const struct entry *e = &m->heads[h].entries[j];
            const bool is_pruned = e->position >= begin && (int64_t)e->position < (int64_t)m->now - plan->recent;
            for (uint32_t c = 0; c < d && is_pruned; c++)
                e->k[c] = stays[c] ? e->k[c] : 0;
        }
    }
}

void oracle_think_prompt(const struct moment *m, const void *p) {
    const struct think_plan *plan = p;
    if (plan->other.prompt)
        plan->other.prompt(m, plan->other.plan);
    if (oracle_acts(plan->left_out, m->layer))
        prune(m, plan);
}

void oracle_think_step(const struct moment *m, const void *p) {
    const struct think_plan *plan = p;
    if (plan->other.step)
        plan->other.step(m, plan->other.plan);
}

static bool think_select(const struct moment *m, uint32_t h, bool *read, float *alpha, const void *p) {
    const struct think_plan *plan = p;
    return plan->other.select(m, h, read, alpha, plan->other.plan);
}

void draw_think(struct drawn *d) {
    static draw_fn *const methods[] = {draw_window, draw_snapkv, draw_morphkv, draw_h2o, draw_adakv,
                                       draw_cake,   draw_quest,  draw_sparq,   draw_hsa, draw_rocketkv};
    static const double ratios[] = {0, 0.25, 0.4, 0.6, 1};
    static const uint32_t rows[] = {1, 7, 32, 1000};
    struct think_plan *plan = &d->think;
    d->budget = 1 + drawn_below(100);
    if (drawn_below(4)) {
        methods[drawn_below(sizeof methods / sizeof *methods)](d);
        drawn_say(d, "+");
    }
    const uint32_t skipped = drawn_below(3) ? 0 : drawn_below(d->layers);
    *plan = (struct think_plan){.other = d->side, .left_out = (1u << skipped) - 1};
    plan->ratio = ratios[drawn_below(5)];
    plan->channels = drawn_below(2) ? 0 : 1 + drawn_below(HEAD_SIZE);
    plan->window = rows[drawn_below(4)];
    plan->recent = drawn_below(2) ? 0 : rows[drawn_below(4)];
    d->side = (struct side){.prompt = oracle_think_prompt, .step = oracle_think_step, .plan = plan};
    d->side.select = plan->other.select ? think_select : NULL;
    drawn_say(d, "think:skip_layers=%u,ratio=%g%%,window=%u,recent=%u", skipped, 100 * plan->ratio, plan->window,
              plan->recent);
    if (plan->channels)
        drawn_say(d, ",channels=%u", plan->channels);
}
