/* test_methods_select.c - quest, sparq, hsa, topk, rocketkv and rocketkv-mt read, and keep, exactly the entries that
 * slow, obvious code reads and keeps, written from METHODS sections 3.4 and 4; attention has the same bits. */
#include "core/canon.h"
#include "policies/select_sizes.h"
#include "tests/check.h"
#include "tests/obvious_scores.h"
#include "tests/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- the obvious code ---- */

enum choice { TOPK, QUEST, SPARQ, HSA, ROCKET, ROCKET_MT };

struct select_plan { /* one method, as its options say; 0: not given */
    enum choice method;
    uint32_t budget, share;           /* tokens, or percent of what is held */
    uint32_t page, dims, topk, local; /* quest: page 0 is auto */
    double ratio, split;              /* split < 0: auto */
    bool no_mean;
    uint32_t window, kernel;
    moment_fn *prompt, *step; /* of what it is joined with */
    const void *prompt_plan, *step_plan;
    uint32_t skip_layers;
};

struct sizes {
    uint32_t page, dims, top, all; /* all: everything is read up to so many */
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
            sizes.page = (uint32_t)floor((double)held / t + 0.5);
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
            page_and_dims(c, d, &sizes);
            sizes.top = (uint32_t)floor(t / 2.0 + 0.5);
        }
        if (t == 0)
            sizes.all = sizes.top;
        break;
    case ROCKET:
    case ROCKET_MT:
        page_and_dims(pow(c, 1 - rocket_split(plan, c)), d, &sizes);
        sizes.top = (uint32_t)floor(t / 2.0 + 0.5);
    }
    return sizes;
}

/* The entries of a head that may be chosen, and what is worked out about them. */
struct places {
    const struct entry *entry[512];
    uint32_t count, units, page;
    float score[512];      /* of a unit, summed over the group */
    float weight[64][512]; /* of each head of the group */
};

/* Scores of one query become weights: softmax over the places, a unit's places sharing its score. */
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

/* Scores of the group's queries q [G, d] from the strongest channels. */
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
            p->weight[g][i] = dot * factor;
        }
    }
}

static void bound_scores(struct places *p, const float *q, uint32_t group, uint32_t d) {
    for (uint32_t g = 0; g < group; g++)
        for (uint32_t i = 0; i < p->units; i++) {
            float dot = 0;
            for (uint32_t c = 0; c < d; c++)
                dot = fmaf(q[g * d + c], extreme(p, i, c, !(q[g * d + c] < 0)), dot);
            p->weight[g][i] = dot;
        }
}

static bool obvious_select(const struct moment *m, uint32_t h, bool *read, float *alpha, const void *given) {
    const struct select_plan *plan = given;
    const struct head *head = &m->heads[h];
    const struct sizes sizes = sizes_of(m, plan);
    const uint32_t group = m->t->heads / m->t->lists, d = m->t->d;
    const bool pages = plan->method != TOPK && plan->method != SPARQ;
    const float *q = q_row(m->t, m->layer, m->now - 1) + (size_t)h * group * d;
    struct places *p = calloc(1, sizeof *p);
    uint32_t at[512];
    assert_non_null(p);
    for (uint32_t j = 0; j < head->count; j++)
        if (!head->entries[j].hidden) {
            assert_true(p->count < 512);
            at[p->count] = j;
            p->entry[p->count++] = &head->entries[j];
        }
    if (p->count <= sizes.all || m->layer < plan->skip_layers) {
        for (uint32_t i = 0; i < p->count; i++)
            read[at[i]] = true;
        free(p);
        return false;
    }
    p->page = pages ? sizes.page : 1;
    p->units = (p->count + p->page - 1) / p->page;
    if (plan->method == TOPK)
        for (uint32_t g = 0; g < group; g++)
            exact_scores(p, q + g * d, d, p->weight[g]);
    else if (plan->method == QUEST)
        bound_scores(p, q, group, d);
    else
        channel_scores(p, q, group, d, sizes.dims, pages);
    for (uint32_t g = 0; g < group; g++) {
        if (plan->method != QUEST)
            softmax(p, p->weight[g]);
        for (uint32_t i = 0; i < p->units; i++)
            p->score[i] += p->weight[g][i];
    }
    if (plan->method == QUEST) {
        bool candidate[512], best[512] = {false};
        for (uint32_t i = 0; i < p->units; i++)
            candidate[i] = true;
        mark_top(p->score, candidate, p->units, sizes.top, best);
        for (uint32_t j = 0; j < p->count; j++)
            read[at[j]] = best[j / p->page];
    } else {
        float score[512];
        bool candidate[512], best[512] = {false};
        for (uint32_t j = 0; j < p->count; j++) {
            score[j] = p->score[j / p->page];
            candidate[j] = p->count - j > plan->local;
            best[j] = !candidate[j];
        }
        mark_top(score, candidate, p->count, sizes.top - plan->local, best);
        for (uint32_t j = 0; j < p->count; j++)
            read[at[j]] = best[j];
    }
    for (uint32_t g = 0; g < group; g++) {
        float lane[32] = {0};
        uint32_t i = 0;
        for (uint32_t j = 0; j < p->count; j++)
            if (read[at[j]])
                lane[i++ % 32] += p->weight[g][j / p->page];
        for (uint32_t w = 16; w > 0; w /= 2)
            for (i = 0; i < w; i++)
                lane[i] += lane[i + w];
        alpha[g] = lane[0];
    }
    free(p);
    return plan->method == SPARQ && !plan->no_mean;
}

/* Stage 1 of rocketkv: snapkv in the prompt, of a list that nothing has left since (a view). */
static void rocket_prompt(const struct moment *m, const struct select_plan *plan) {
    const uint32_t held = m->heads[0].held, t = budget_of(plan, held),
                   w = plan->window < m->turn ? plan->window : m->turn;
    const double c = held > t ? (double)held / t : 1, kept_of = held / pow(c, rocket_split(plan, c));
    uint32_t kept = (uint32_t)floor(kept_of + 1e-9);
    kept = kept < w + 1 ? w + 1 : kept;
    for (uint32_t h = 0; h < m->t->lists; h++) {
        struct head *head = &m->heads[h];
        bool *candidate = calloc(head->count, sizeof *candidate), *stays = calloc(head->count, sizeof *stays);
        assert_true(candidate && stays);
        for (uint32_t j = 0; j < head->count; j++)
            head->entries[j].hidden = false;
        if (head->count > kept) {
            float *score = window_scores(m, h, w, plan->kernel, false);
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

static void prompt_of(const struct moment *m, const void *given) {
    const struct select_plan *plan = given;
    if (plan->prompt)
        plan->prompt(m, plan->prompt_plan);
    else if ((plan->method == ROCKET || plan->method == ROCKET_MT) && m->layer >= plan->skip_layers)
        rocket_prompt(m, plan);
}

static void step_of(const struct moment *m, const void *given) {
    const struct select_plan *plan = given;
    if (plan->step)
        plan->step(m, plan->step_plan);
}

/* ---- side by side ---- */

static void run_all(const char *spec, const struct select_plan *plan) {
    side_run_all(
        &(struct side){.spec = spec, .prompt = prompt_of, .step = step_of, .plan = plan, .select = obvious_select}, 2);
}

static void run(enum kind kind, uint32_t prompt, uint32_t rows, const char *spec, const struct select_plan *plan) {
    struct tensors t = make_tensors(kind, prompt + rows, 2, 8, 2, 32, rows);
    side_run(&t, prompt,
             &(struct side){.spec = spec,
                            .prompt = prompt_of,
                            .step = step_of,
                            .plan = plan,
                            .type = KVC_F16,
                            .select = obvious_select});
    free_tensors(&t);
}

static void test_topk(void **state) {
    (void)state;
    run_all("topk:budget=12", &(struct select_plan){TOPK, .budget = 12});
    run_all("topk:budget=1", &(struct select_plan){TOPK, .budget = 1});
    run_all("topk:budget=30%", &(struct select_plan){TOPK, .share = 30});
}

static void test_quest(void **state) {
    (void)state;
    run_all("quest:budget=40", &(struct select_plan){QUEST, .budget = 40, .page = 16});
    run_all("quest:budget=12,page=2", &(struct select_plan){QUEST, .budget = 12, .page = 2});
    run_all("quest:budget=12,page=auto", &(struct select_plan){QUEST, .budget = 12});
    run_all("quest:budget=20%,page=1", &(struct select_plan){QUEST, .share = 20, .page = 1});
    run_all("quest:budget=1,page=1048576,skip_layers=1",
            &(struct select_plan){QUEST, .budget = 1, .page = 1u << 20, .skip_layers = 1});
}

static void test_sparq(void **state) {
    (void)state;
    run_all("sparq:budget=12", &(struct select_plan){SPARQ, .budget = 12});
    run_all("sparq:budget=12,keys=once", &(struct select_plan){SPARQ, .budget = 12});
    run_all("sparq:dims=3,topk=7,local=2", &(struct select_plan){SPARQ, .dims = 3, .topk = 7, .local = 2});
    run_all("sparq:dims=8,topk=9,local=9,mean_value=off",
            &(struct select_plan){SPARQ, .dims = 8, .topk = 9, .local = 9, .no_mean = true});
    run_all("sparq:budget=25%,dims=1", &(struct select_plan){SPARQ, .share = 25, .dims = 1});
}

static void test_hsa(void **state) {
    (void)state;
    run_all("hsa:budget=12", &(struct select_plan){HSA, .budget = 12});
    run_all("hsa:ratio=6", &(struct select_plan){HSA, .ratio = 6});
    run_all("hsa:ratio=1", &(struct select_plan){HSA, .ratio = 1});
    run_all("hsa:page=5,dims=2,topk=11", &(struct select_plan){HSA, .page = 5, .dims = 2, .topk = 11});
    run_all("hsa:page=1,dims=8,topk=1", &(struct select_plan){HSA, .page = 1, .dims = 8, .topk = 1});
    run_all("hsa:budget=10%", &(struct select_plan){HSA, .share = 10});
}

static void test_rocketkv(void **state) {
    (void)state;
    run_all("rocketkv:budget=16,window=8",
            &(struct select_plan){ROCKET, .budget = 16, .split = -1, .window = 8, .kernel = 63});
    run_all("rocketkv:budget=5,kernel=1,split=0.5",
            &(struct select_plan){ROCKET, .budget = 5, .split = 0.5, .window = 32, .kernel = 1});
    run_all("rocketkv:budget=13,window=1,kernel=7,split=1",
            &(struct select_plan){ROCKET, .budget = 13, .split = 1, .window = 1, .kernel = 7});
    run_all("rocketkv:budget=20%,window=4,split=0",
            &(struct select_plan){ROCKET, .share = 20, .split = 0, .window = 4, .kernel = 63});
    run_all("rocketkv-mt:budget=16,window=8",
            &(struct select_plan){ROCKET_MT, .budget = 16, .split = -1, .window = 8, .kernel = 63});
}

/* Pages stay right over appending, evicting and appending again. */
static void test_pairs(void **state) {
    (void)state;
    const struct plan snap = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7, .decode_budget = 9999};
    const struct plan stream = {STREAMING, STREAMING, .budget = 40, .sinks = 4, .decode_budget = 40};
    const struct plan late = {STREAMING, WINDOW, .budget = 40, .sinks = 4, .decode_budget = 44};
    const struct scores_plan ada = {.budget = 40, .window = 8, .kernel = 7, .floor = 0.2};
    run_all("snapkv:budget=40,window=8+quest:budget=16,page=3",
            &(struct select_plan){QUEST, .budget = 16, .page = 3, .prompt = obvious_prompt, .prompt_plan = &snap});
    run_all("snapkv:budget=40,window=8+sparq:budget=20",
            &(struct select_plan){SPARQ, .budget = 20, .prompt = obvious_prompt, .prompt_plan = &snap});
    run_all("adakv:budget=40,window=8+quest:budget=16,page=3",
            &(struct select_plan){QUEST, .budget = 16, .page = 3, .prompt = obvious_adakv, .prompt_plan = &ada});
    run_all("streaming:budget=40+hsa:budget=10",
            &(struct select_plan){HSA, .budget = 10, .prompt = obvious_prompt, .step = obvious_step,
                                  .prompt_plan = &stream, .step_plan = &stream});
    run_all("streaming:budget=40,stages=prompt+window:budget=44,stages=decode+sparq:dims=3,topk=9",
            &(struct select_plan){SPARQ, .dims = 3, .topk = 9, .prompt = obvious_prompt, .step = obvious_step,
                                  .prompt_plan = &late, .step_plan = &late});
}

static void test_long(void **state) {
    (void)state;
    const struct plan stream = {STREAMING, STREAMING, .budget = 100, .sinks = 4, .decode_budget = 100};
    run(DRIFT, 50, 350, "quest:budget=40,page=4", &(struct select_plan){QUEST, .budget = 40, .page = 4});
    if (kvc_test_thinned())
        return;
    run(PLANTED, 150, 450, "rocketkv:budget=40,window=8",
        &(struct select_plan){ROCKET, .budget = 40, .split = -1, .window = 8, .kernel = 63});
    run(RANDOM, 50, 350, "hsa:page=3,dims=5,topk=20", &(struct select_plan){HSA, .page = 3, .dims = 5, .topk = 20});
    run(DRIFT, 120, 300, "streaming:budget=100+quest:budget=40,page=4",
        &(struct select_plan){QUEST, .budget = 40, .page = 4, .prompt = obvious_prompt, .step = obvious_step,
                              .prompt_plan = &stream, .step_plan = &stream});
}

/* Each turn's prompt attends to everything; rocketkv filters what it kept again, rocketkv-mt all there ever was. */
static void test_turns(void **state) {
    (void)state;
    static const struct turn turns[] = {{70, 9}, {5, 13}, {1, 9}, {50, 20}};
    static const struct {
        const char *spec;
        struct select_plan plan;
    } cases[] = {
        {"rocketkv:budget=16,window=8", {ROCKET, .budget = 16, .split = -1, .window = 8, .kernel = 63}},
        {"rocketkv-mt:budget=16,window=8", {ROCKET_MT, .budget = 16, .split = -1, .window = 8, .kernel = 63}},
        {"rocketkv-mt:budget=90,window=32,kernel=7", {ROCKET_MT, .budget = 90, .split = -1, .window = 32, .kernel = 7}},
        {"rocketkv-mt:budget=20%,window=4,split=0.7",
         {ROCKET_MT, .share = 20, .split = 0.7, .window = 4, .kernel = 63}},
        {"quest:budget=10%,page=auto", {QUEST, .share = 10}},
        {"hsa:ratio=5", {HSA, .ratio = 5}},
        {"sparq:budget=24", {SPARQ, .budget = 24}}};
    for (size_t c = 0; c < (kvc_test_thinned() ? 2 : sizeof cases / sizeof *cases); c++) {
        struct tensors t = make_tensors(c % 2 ? PLANTED : DRIFT, 7 + c, 2, 4, 2, 16, 177);
        const struct side side = {.spec = cases[c].spec,
                                  .prompt = prompt_of,
                                  .step = step_of,
                                  .plan = &cases[c].plan,
                                  .type = c % 3 ? KVC_F16 : KVC_Q8_0,
                                  .chunk = 9,
                                  .select = obvious_select};
        side_run_turns(&t, turns, sizeof turns / sizeof *turns, &side);
        free_tensors(&t);
    }
}

/* The formulas by hand for 100 pairs, and the paper's example. */
static void test_sizes(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 100; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint32_t S = 1 + (uint32_t)(seed >> 33) % 200000, t = 1 + (uint32_t)(seed >> 20) % 8192;
        const long double c = S > t ? (long double)S / t : 1.0L, adaptive = 0.2L + 0.06L * log2l(c);
        const long double r = adaptive < 0.8L ? adaptive : 0.8L, c2 = powl(c, 1 - r), page = ceill(sqrtl(c2));
        uint32_t kept = (uint32_t)floorl(S / powl(c, r)), dims, in_page = page <= c2 ? (uint32_t)page : 1;
        kept = kept < 33 ? 33 : kept;
        kept = kept > S ? S : kept;
        dims = (uint32_t)floorl(128 * in_page / c2 + 0.5L);
        dims = dims < 1 ? 1 : dims > 128 ? 128 : dims;
        const struct kvc_rocket_sizes sizes = kvc_rocket_sizes(S, t, 32, -1);
        const struct kvc_hsa_sizes hsa = kvc_hsa_sizes(sizes.c2, 128);
        assert_int_equal(sizes.kept, kept);
        assert_int_equal(hsa.page, in_page);
        assert_int_equal(hsa.dims, dims);
    }
    const struct kvc_rocket_sizes paper = kvc_rocket_sizes(64 * 512, 512, 32, -1);
    assert_true(fabs(paper.r - 0.56) < 1e-12);
    assert_true(fabs(pow(paper.c, paper.r) - 10.3) < 0.05 && fabs(paper.c2 - 6.2) < 0.05);
    const struct kvc_hsa_sizes hsa = kvc_hsa_sizes(paper.c2, 1000);
    assert_int_equal(hsa.page, 3);
    assert_true(fabs(1000.0 / hsa.dims - 2.1) < 0.05);
    assert_int_equal(kvc_rocket_sizes(3000, 7, 1, 1).kept, 7); /* c^1 = S / t, whatever the rounding */
    assert_int_equal(kvc_rocket_sizes(3000, 7, 1, 0).kept, 3000);
}

static void test_refused(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {2, 4, 2, 16};
    side_refused("topk", &geometry, "budget", NULL);
    side_refused("topk:budget=0", &geometry, "budget=0", "from 1");
    side_refused("quest:budget=8,page=0", &geometry, "page=0", "from 1 to 1048576");
    side_refused("quest:budget=8,page=some", &geometry, "page=some", "auto");
    side_refused("sparq:dims=3", &geometry, "topk=", "missing");
    side_refused("sparq:topk=3", &geometry, "dims=", "missing");
    side_refused("sparq:budget=0", &geometry, "budget=0", "at least 1");
    side_refused("sparq:budget=8,topk=0", &geometry, "topk=0", "at least 1");
    side_refused("sparq:budget=8,topk=9", &geometry, "topk=9", "1 to budget=8");
    side_refused("sparq:dims=3,topk=4,local=5", &geometry, "local=5", "0 to topk, which is 4");
    side_refused("sparq:dims=17,topk=4", &geometry, "dims=17", "1 to 16");
    side_refused("hsa", &geometry, "budget=", "missing");
    side_refused("hsa:budget=8,ratio=2", &geometry, "exclude", NULL);
    side_refused("hsa:ratio=0.5", &geometry, "ratio=0.5", "from 1");
    side_refused("hsa:page=2,dims=3", &geometry, "topk=", "missing");
    side_refused("hsa:page=2,dims=17,topk=3", &geometry, "dims=17", "1 to 16");
    side_refused("rocketkv:budget=8,kernel=4", &geometry, "kernel=4", "odd");
    side_refused("rocketkv:budget=8,split=1.5", &geometry, "split=1.5", "0 to 1");
    side_refused("rocketkv-mt:budget=8,window=0", &geometry, "window=0", "from 1");
    side_refused("quest:budget=8+topk:budget=8", &geometry, "quest", "topk");
    side_accepted("rocketkv:budget=8", &geometry);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_topk),     cmocka_unit_test(test_quest),
                                       cmocka_unit_test(test_sparq),    cmocka_unit_test(test_hsa),
                                       cmocka_unit_test(test_rocketkv), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_long),     cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_sizes),    cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
