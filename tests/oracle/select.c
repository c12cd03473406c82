/* select.c - the entries that select methods read, written from the pages of docs/reference/methods. */
#include "tests/oracle/select.h"
#include "core/base/canon.h"
#include "tests/oracle/scores.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct sizes {
    uint32_t page, dims, top, all; /* `all`: if there are at most this many entries, all are read */
};

static uint32_t budget_of(const struct select_plan *plan, uint32_t held) {
    const uint32_t tokens = (uint32_t)floor(held * (plan->share / 100.0) + 0.5);
    return plan->share == 0 ? plan->budget : tokens < 1 ? 1 : tokens;
}

static void page_and_dims(double c2, uint32_t d, struct sizes *sizes) {
    const double page = ceil(sqrt(c2)), dims = floor(d * (page <= c2 ? page : 1) / c2 + 0.5);
    sizes->page = page <= c2 ? (uint32_t)page : 1;
    sizes->dims = dims < 1 ? 1 : dims > d ? d : (uint32_t)dims;
}

static double rocket_split(const struct select_plan *plan, double c) {
    const double r = 0.2 + 0.06 * log2(c);
    return plan->split >= 0 ? plan->split : r < 0.8 ? r : 0.8;
}

static struct sizes sizes_of(const struct moment *m, const struct select_plan *plan) {
    const uint32_t held = m->heads[0].held, after = m->heads[0].after, d = m->t->d, t = budget_of(plan, held);
    const double c = t > 0 && held > t ? (double)held / t : 1;
    const double c2 = pow(c, 1 - rocket_split(plan, c)), seen = floor(held / pow(c, rocket_split(plan, c)) + 1e-9);
    struct sizes sizes = {plan->page, plan->dims, plan->topk, t};
    uint32_t most = 0;
    for (uint32_t h = 0; h < m->t->lists; h++)
        most = m->heads[h].count > most ? m->heads[h].count : most;
    switch (plan->method) {
    case TOPK:
        sizes.top = t;
        break;
    case QUEST:
        if (sizes.page == 0)
            sizes.page = (uint32_t)floor((plan->is_split ? seen : held) / t + 0.5);
        sizes.page = sizes.page < 1 ? 1 : sizes.page;
        sizes.top = t / (2 * sizes.page) < 1 ? 1 : t / (2 * sizes.page);
        break;
    case SPARQ:
        if (t == 0)
            sizes.all = plan->topk;
        if (sizes.top == 0)
            sizes.top = (uint32_t)floor(t / 2.0 + 0.5);
        if (sizes.dims == 0)
            sizes.dims = (uint32_t)floor((double)d * t / most + 0.5);
        sizes.dims = sizes.dims < 1 ? 1 : sizes.dims > d ? d : sizes.dims;
        break;
    case HSA:
        if (plan->ratio > 0) {
            page_and_dims(plan->ratio, d, &sizes);
            sizes.top = (uint32_t)floor(after / (2 * plan->ratio) + 0.5);
            sizes.top = sizes.top < 1 ? 1 : sizes.top;
        } else if (plan->page == 0) {
            page_and_dims(plan->is_split ? c2 : c, d, &sizes);
            sizes.top = (uint32_t)floor(t / 2.0 + 0.5);
        }
        if (t == 0)
            sizes.all = sizes.top;
        break;
    case ROCKET:
    case ROCKET_MT:
        page_and_dims(c2, d, &sizes);
        sizes.top = (uint32_t)floor(t / 2.0 + 0.5);
    }
    return sizes;
}

/* The entries of a head that may be chosen, and their scores. */
struct places {
    const struct entry *entry[512];
    uint32_t count, units, page;
    float score[512];           /* the score of a unit (an entry or a page), summed over the group */
    float probability[64][512]; /* for each head of the group */
};

/* Turns the scores of one query into probabilities: a softmax over the places, where all places of a unit have its
 * score. */
static void softmax(const struct places *p, float *s) {
    float M = -INFINITY, L = 0;
    for (uint32_t i = 0; i < p->units; i++)
        M = s[i] > M ? s[i] : M;
    for (uint32_t first = 0; first < p->units; first += 256) {
        float lane[32] = {0};
        for (uint32_t i = first; i < p->units && i < first + 256; i++) {
            const uint32_t left = p->count - i * p->page;
            s[i] = kvc_exp(s[i] - M);
            lane[i % 32] = fmaf((float)(left < p->page ? left : p->page), s[i], lane[i % 32]);
        }
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        L += lane[0];
    }
    const float share = 1 / L;
    for (uint32_t i = 0; i < p->units; i++)
        s[i] *= share;
}

/* The smallest or largest value of a channel in a unit. */
static float extreme(const struct places *p, uint32_t unit, uint32_t c, bool largest) {
    float x = p->entry[unit * p->page]->k[c];
    for (uint32_t j = unit * p->page; j < p->count && j < (unit + 1) * p->page; j++) {
        const float y = p->entry[j]->k[c];
        x = largest ? (y > x ? y : x) : y < x ? y : x;
    }
    return x;
}

static void exact_scores(struct places *p, const float *q, uint32_t d, float *s) {
    const float scale = (float)(1.0 / sqrt((double)d));
    for (uint32_t j = 0; j < p->count; j++) {
        float lane[32] = {0};
        for (uint32_t c = 0; c < d; c++)
            lane[c % 32] = fmaf(q[c], p->entry[j]->k[c], lane[c % 32]);
        for (uint32_t w = 16; w > 0; w /= 2)
            for (uint32_t i = 0; i < w; i++)
                lane[i] += lane[i + w];
        s[j] = lane[0] * scale;
    }
}

/* Computes the scores of the group's queries q [G, d] from the strongest channels. */
static void channel_scores(struct places *p, const float *q, uint32_t group, uint32_t d, uint32_t dims, bool paged) {
    float strength[256], sign[256];
    bool all[256], chosen[256];
    for (uint32_t c = 0; c < d; c++) {
        strength[c] = sign[c] = 0;
        for (uint32_t g = 0; g < group; g++) {
            strength[c] += fabsf(q[g * d + c]);
            sign[c] += q[g * d + c];
        }
        all[c] = true, chosen[c] = false;
    }
    mark_top(strength, all, d, dims, chosen);
    for (uint32_t g = 0; g < group; g++) {
        float a = 0, b = 0;
        for (uint32_t c = 0; c < d; c++) {
            a += chosen[c] ? fabsf(q[g * d + c]) : 0;
            b += fabsf(q[g * d + c]);
        }
        const float factor = a == 0 || b == 0 ? 0 : 1 / sqrtf((float)d * (a / b));
        for (uint32_t i = 0; i < p->units; i++) {
            float dot = 0;
            for (uint32_t c = 0; c < d; c++)
                if (chosen[c])
                    dot = fmaf(q[g * d + c], paged ? extreme(p, i, c, !(sign[c] < 0)) : p->entry[i]->k[c], dot);
            p->probability[g][i] = dot * factor;
        }
    }
}

static void bound_scores(struct places *p, const float *q, uint32_t group, uint32_t d) {
    for (uint32_t g = 0; g < group; g++)
        for (uint32_t i = 0; i < p->units; i++) {
            float dot = 0;
            for (uint32_t c = 0; c < d; c++)
                dot = fmaf(q[g * d + c], extreme(p, i, c, !(q[g * d + c] < 0)), dot);
            p->probability[g][i] = dot;
        }
}

/* The weight of a unit's places, as a fixed-point number with 24 fractional bits. */
static uint32_t weight_of(const struct places *p, uint32_t unit, enum choice method, float factor) {
    float most = -INFINITY, w = p->score[unit];
    for (uint32_t i = 0; i < p->units; i++)
        most = most > p->score[i] ? most : p->score[i];
    if (method == QUEST)
        w = kvc_exp((w - most) * factor);
    return w > 0 ? (uint32_t)((w < 255 ? w : 255) * 16777216) : 0;
}

/* Shortens the list of places to read to the best ones whose weight suffices; for quest, to whole pages. */
static void cut(const struct places *p, const struct select_plan *plan, float factor, bool *best) {
    uint64_t all = 0, sum = 0;
    bool stays[512] = {false};
    for (uint32_t j = 0; j < p->count; j++)
        all += weight_of(p, j / p->page, plan->method, factor);
    const uint64_t need = (all * (uint64_t)floor(plan->p * 65536 + 0.5) + 65535) / 65536;
    if (need == 0)
        return;
    while (sum < need) {
        uint32_t first = p->count;
        for (uint32_t j = 0; j < p->count; j++) {
            const float a = p->score[j / p->page], b = first < p->count ? p->score[first / p->page] : 0;
            if (best[j] && !stays[j] && (first == p->count || a > b || (isnan(b) && !isnan(a))))
                first = j;
        }
        if (first == p->count)
            return; /* no more weight is available: all remain */
        sum += weight_of(p, first / p->page, plan->method, factor);
        stays[first] = true;
    }
    for (uint32_t j = 0; j < p->count; j++)
        for (uint32_t i = j / p->page * p->page; plan->method == QUEST && i < p->count && i / p->page == j / p->page;
             i++)
            stays[j] = stays[j] || (stays[i] && best[j]);
    memcpy(best, stays, p->count * sizeof *best);
}

bool oracle_select(const struct moment *m, uint32_t h, bool *read, float *alpha, const void *given) {
    const struct select_plan *plan = given;
    const struct head *head = &m->heads[h];
    const struct sizes sizes = sizes_of(m, plan);
    const uint32_t group = m->t->heads / m->t->lists, d = m->t->d, window = oracle_window(m->t, m->layer);
    const bool pages = plan->method != TOPK && plan->method != SPARQ;
    const float *q = q_row(m->t, m->layer, m->now - 1) + (size_t)h * group * d;
    struct places *p = calloc(1, sizeof *p);
    uint32_t at[512];
    assert_non_null(p);
    for (uint32_t j = 0; j < head->count; j++)
        if (!head->entries[j].hidden && !(window && (uint32_t)head->entries[j].position + window < m->now)) {
            assert_true(p->count < 512);
            at[p->count] = j;
            p->entry[p->count++] = &head->entries[j];
        }
    if (p->count <= sizes.all || !oracle_acts(plan->left_out, m->layer)) {
        for (uint32_t i = 0; i < p->count; i++)
            read[at[i]] = true;
        free(p);
        return false;
    }
    p->page = pages ? sizes.page : 1;
    p->units = (p->count + p->page - 1) / p->page;
    if (plan->method == TOPK)
        for (uint32_t g = 0; g < group; g++)
            exact_scores(p, q + g * d, d, p->probability[g]);
    else if (plan->method == QUEST)
        bound_scores(p, q, group, d);
    else
        channel_scores(p, q, group, d, sizes.dims, pages);
    for (uint32_t g = 0; g < group; g++) {
        if (plan->method != QUEST)
            softmax(p, p->probability[g]);
        for (uint32_t i = 0; i < p->units; i++)
            p->score[i] += p->probability[g][i];
    }
    if (plan->method == QUEST) {
        bool candidate[512], best[512] = {false};
        for (uint32_t i = 0; i < p->units; i++)
            candidate[i] = true;
        mark_top(p->score, candidate, p->units, sizes.top, best);
        bool places[512];
        for (uint32_t j = 0; j < p->count; j++)
            places[j] = best[j / p->page];
        if (plan->p > 0)
            cut(p, plan, (float)(1.0 / sqrt((double)d)) / (float)group, places);
        for (uint32_t j = 0; j < p->count; j++)
            read[at[j]] = places[j];
    } else {
        float score[512];
        bool candidate[512], best[512] = {false};
        for (uint32_t j = 0; j < p->count; j++) {
            score[j] = p->score[j / p->page];
            candidate[j] = p->count - j > plan->local;
            best[j] = !candidate[j];
        }
        mark_top(score, candidate, p->count, sizes.top - plan->local, best);
        if (plan->p > 0)
            cut(p, plan, 0, best);
        for (uint32_t j = 0; j < p->count; j++)
            read[at[j]] = best[j];
    }
    for (uint32_t g = 0; g < group; g++) {
        float lane[32] = {0};
        uint32_t i = 0;
        for (uint32_t j = 0; j < p->count; j++)
            if (read[at[j]])
                lane[i++ % 32] += p->probability[g][j / p->page];
        for (uint32_t w = 16; w > 0; w /= 2)
            for (i = 0; i < w; i++)
                lane[i] += lane[i + w];
        alpha[g] = lane[0];
    }
    free(p);
    return plan->method == SPARQ && !plan->no_mean;
}

uint32_t rocket_keeps(const struct moment *m, const struct select_plan *plan) {
    const uint32_t held = m->heads[0].held, t = budget_of(plan, held),
                   w = plan->window < m->turn ? plan->window : m->turn;
    const double c = held > t ? (double)held / t : 1, kept_of = held / pow(c, rocket_split(plan, c));
    const uint32_t kept = (uint32_t)floor(kept_of + 1e-9);
    return kept < w + 1 ? w + 1 : kept;
}

/* Stage 1 of rocketkv: chooses entries after the prompt as snapkv does. rocketkv evicts the others, rocketkv-mt hides
 * them. */
static void rocket_prompt(const struct moment *m, const struct select_plan *plan) {
    const uint32_t w = plan->window < m->turn ? plan->window : m->turn, kept = rocket_keeps(m, plan);
    for (uint32_t h = 0; h < m->t->lists; h++) {
        struct head *head = &m->heads[h];
        bool *candidate = calloc(head->count, sizeof *candidate), *stays = calloc(head->count, sizeof *stays);
        assert_true(candidate && stays);
        for (uint32_t j = 0; j < head->count; j++)
            head->entries[j].hidden = false;
        if (head->count > kept) {
            float *score = window_scores(m, h, w, plan->kernel, plan->average);
            for (uint32_t j = 0; j < head->count; j++) {
                candidate[j] = j + w < head->count;
                stays[j] = !candidate[j];
            }
            mark_top(score, candidate, head->count - w, kept - w, stays);
            if (plan->method == ROCKET)
                remove_unkept(head, stays);
            for (uint32_t j = 0; plan->method == ROCKET_MT && j < head->count; j++)
                head->entries[j].hidden = !stays[j];
            free(score);
        }
        free(candidate);
        free(stays);
    }
}

void select_prompt(const struct moment *m, const void *given) {
    const struct select_plan *plan = given;
    if (plan->prompt)
        plan->prompt(m, plan->prompt_plan);
    else if ((plan->method == ROCKET || plan->method == ROCKET_MT) && oracle_acts(plan->left_out, m->layer))
        rocket_prompt(m, plan);
}

void select_step(const struct moment *m, const void *given) {
    const struct select_plan *plan = given;
    if (plan->step)
        plan->step(m, plan->step_plan);
}
