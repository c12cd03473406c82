/* test_methods_rows.c - dapq and kvzip, which add pseudo rows to a prompt, against their oracles, alone and with
 * morphkv after them; and tova. */
#include "tests/oracle/added_rows.h"
#include "tests/check.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- dapq ---- */

struct dapq {
    uint32_t prompt, budget, pseudo, kernel;
    bool average;
    uint32_t share;    /* a percentage of the held entries, instead of the budget; 0: none */
    uint32_t left_out; /* one bit for each layer in which the method does not act */
    bool per_head;
    bool zip; /* kvzip, which adds as many pseudo rows as the turn has rows */
    double floor;
    bool compose, mean; /* kvcompose; it also adds as many pseudo rows as the turn has rows */
    uint32_t least;
};

/* Applies dapq to a list of `held` entries in a layer whose longest list has `most`. */
static void dapq_list(const struct tensors *t, const struct tensors *extra, const struct dapq *plan, enum kvc_type type,
                      struct row_lists *lists, uint32_t l, uint32_t h, uint32_t most) {
    struct head *head = &lists->heads[l * t->lists + h];
    const uint32_t n = head->count, budget = plan->share ? rows_share(most, plan->share) : plan->budget;
    float *score = calloc(n, sizeof *score);
    assert_non_null(score);
    for (uint32_t i = 0; i < plan->pseudo && most > budget; i++) {
        rows_append(lists, extra, type, l, h, i);
        rows_add_probabilities(t, head, h, q_row(extra, l, i), n + i + 1, n, score);
    }
    head->count = n;
    rows_pool(score, n, plan->kernel, plan->average);
    if (most > budget)
        rows_keep_top(head, score, budget);
    free(score);
}

/* Sets score[j], for j < counted, to the largest probability that the query q assigns to entry j in any head of the
 * group. */
static void most_probabilities(const struct tensors *t, const struct head *head, uint32_t h, const float *q, uint32_t n,
                               uint32_t counted, float *score) {
    const uint32_t group = t->heads / t->lists;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a);
    assert_true(s && a);
    for (uint32_t g = 0; g < group; g++) {
        attend(head->entries, n, q + (size_t)(h * group + g) * t->d, t->d, s, a, NULL);
        for (uint32_t j = 0; j < counted; j++)
            score[j] = a[j] > score[j] ? a[j] : score[j];
    }
    free(s);
    free(a);
}

/* Applies kvzip to a layer after a turn of `rows` rows. */
static void zip_layer(const struct tensors *t, const struct tensors *extra, const struct dapq *plan, enum kvc_type type,
                      struct row_lists *lists, uint32_t l, uint32_t most, uint32_t rows) {
    const uint32_t budget = plan->share ? rows_share(most, plan->share) : plan->budget;
    float *score[64];
    bool *taken[64];
    uint32_t share[64] = {0};
    if (most <= budget)
        return;
    for (uint32_t h = 0; h < t->lists; h++) {
        struct head *head = &lists->heads[l * t->lists + h];
        const uint32_t n = head->count;
        score[h] = calloc(n, sizeof *score[h]);
        taken[h] = calloc(n, sizeof *taken[h]);
        assert_true(score[h] && taken[h]);
        for (uint32_t i = 0; i < rows; i++) {
            rows_append(lists, extra, type, l, h, i);
            most_probabilities(t, head, h, q_row(extra, l, i), n + i + 1, n, score[h]);
        }
        head->count = n;
    }
    for (uint32_t slot = 0; slot < t->lists * budget; slot++) { /* to the best remaining entry */
        uint32_t best = t->lists, best_j = 0;
        for (uint32_t h = 0; h < t->lists; h++)
            for (uint32_t j = 0; j < lists->heads[l * t->lists + h].count; j++)
                if (!taken[h][j] && (best == t->lists || score[h][j] > score[best][best_j]))
                    best = h, best_j = j;
        if (best == t->lists)
            break;
        taken[best][best_j] = true;
        share[best]++;
    }
    for (uint32_t h = 0; h < t->lists; h++) {
        const double mine = floor(plan->floor * budget + (1 - plan->floor) * share[h] + 0.5);
        rows_keep_top(&lists->heads[l * t->lists + h], score[h], mine > 1 ? (uint32_t)mine : 1);
        free(score[h]);
        free(taken[h]);
    }
}

/* Sets entry.score of a layer's entries to kvcompose's score, after a turn of `rows` rows that ends at `now`. */
static void compose_scores(const struct tensors *t, const struct tensors *extra, const struct dapq *plan,
                           enum kvc_type type, struct row_lists *lists, uint32_t l, uint32_t rows, uint32_t now) {
    const uint32_t group = t->heads / t->lists;
    for (uint32_t h = 0; h < t->lists; h++) {
        struct head *head = &lists->heads[l * t->lists + h];
        const uint32_t n = head->count;
        float *most = calloc((size_t)group * n, sizeof *most), *s = calloc(n + rows, sizeof *s);
        float *a = calloc(n + rows, sizeof *a);
        assert_true(most && s && a);
        for (uint32_t i = 0; i < rows; i++) {
            rows_append(lists, extra, type, l, h, i);
            for (uint32_t g = 0; g < group; g++) {
                attend(head->entries, n + i + 1, q_row(extra, l, i) + (size_t)(h * group + g) * t->d, t->d, s, a, NULL);
                for (uint32_t j = 0; j < n; j++)
                    most[g * n + j] = fmaxf(most[g * n + j], a[j]);
            }
        }
        head->count = n;
        for (uint32_t j = 0; j < n; j++) {
            float sum = 0;
            for (uint32_t g = 0; g < group; g++)
                sum += most[g * n + j];
            head->entries[j].score = sum / (float)group;
        }
        free(most);
        free(s);
        free(a);
    }
    struct head *first = &lists->heads[l * t->lists];
    for (uint32_t j = 0; j < first->count && plan->mean && first->count == now; j++) {
        float sum = 0;
        for (uint32_t h = 0; h < t->lists; h++)
            sum += first[h].entries[j].score;
        for (uint32_t h = 0; h < t->lists; h++)
            first[h].entries[j].score += sum / (float)t->lists;
    }
}

/* Returns the score of rank r in a list: the score that r others precede. */
static float score_of_rank(const struct head *head, uint32_t r) {
    for (uint32_t j = 0; j < head->count; j++) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < head->count; i++)
            before += head->entries[i].score > head->entries[j].score ||
                      (head->entries[i].score == head->entries[j].score && i < j);
        if (before == r)
            return head->entries[j].score;
    }
    fail_msg("no rank %u of %u", r, head->count);
    return 0;
}

/* Gives the slots of all layers, one after the other, to the layer whose next rank is best. */
static void compose_all(const struct tensors *t, const struct dapq *plan, struct row_lists *lists) {
    uint32_t top[8] = {0}, most = 0, n[8] = {0};
    float *ranks[8];
    for (uint32_t l = 0; l < t->layers; l++) {
        n[l] = oracle_acts(plan->left_out, l) ? lists->heads[l * t->lists].count : 0;
        most = n[l] > most ? n[l] : most;
        ranks[l] = calloc(n[l] + 1, sizeof *ranks[l]);
        assert_non_null(ranks[l]);
    }
    const uint32_t budget = plan->share ? rows_share(most, plan->share) : plan->budget;
    for (uint32_t l = 0; l < t->layers && most > budget; l++)
        for (uint32_t r = 0; r < n[l]; r++) {
            for (uint32_t h = 0; h < t->lists; h++)
                ranks[l][r] += score_of_rank(&lists->heads[l * t->lists + h], r);
            ranks[l][r] /= (float)t->lists;
        }
    for (uint32_t slot = 0; slot < budget * oracle_acting(plan->left_out, t->layers) && most > budget; slot++) {
        uint32_t best = t->layers;
        for (uint32_t l = 0; l < t->layers; l++) {
            if (top[l] == n[l])
                continue;
            const bool must = top[l] < plan->least, best_must = best < t->layers && top[best] < plan->least;
            if (best == t->layers || (must && !best_must) ||
                (must == best_must && !must && ranks[l][top[l]] > ranks[best][top[best]]))
                best = l;
        }
        if (best == t->layers)
            break;
        top[best]++;
    }
    for (uint32_t l = 0; l < t->layers; l++) {
        for (uint32_t h = 0; h < t->lists && n[l] && most > budget; h++) {
            struct head *head = &lists->heads[l * t->lists + h];
            float *score = calloc(n[l], sizeof *score);
            assert_non_null(score);
            for (uint32_t j = 0; j < n[l]; j++)
                score[j] = head->entries[j].score;
            rows_keep_top(head, score, top[l]);
            free(score);
        }
        free(ranks[l]);
    }
}

/* The last row's output of each group's first head: the prompt's own rows never see pseudo entries. */
static void check_last(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t row,
                       const float *out) {
    const uint32_t group = t->heads / t->lists, n = head->count;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a), *whole = malloc(t->d * sizeof *whole);
    assert_true(s && a && whole);
    attend(head->entries, n, q_row(t, l, row) + (size_t)h * group * t->d, t->d, s, a, whole);
    assert_memory_equal(whole, out + (size_t)h * group * t->d, t->d * sizeof *whole);
    free(s);
    free(a);
    free(whole);
}

static void run_dapq(const struct tensors *t, const struct tensors *extra, const struct dapq *plan,
                     const struct turn *turns, size_t turn_count, const struct row_steps *steps, enum kvc_type type,
                     uint32_t chunk) {
    char spec[240];
    struct kvc_error error;
    struct row_lists lists = rows_lists(t);
    float *out = malloc((size_t)t->rows * t->heads * t->d * sizeof *out);
    uint32_t now = 0;
    snprintf(spec, sizeof spec, "dapq:budget=%u%s,pseudo=%u,content=random,kernel=%u,pooling=%s,per=%s",
             plan->share ? plan->share : plan->budget, plan->share ? "%" : "", plan->pseudo, plan->kernel,
             plan->average ? "avg" : "max", plan->per_head ? "head" : "group");
    if (plan->zip)
        snprintf(spec, sizeof spec, "kvzip:budget=%u%s,floor=%g", plan->share ? plan->share : plan->budget,
                 plan->share ? "%" : "", plan->floor);
    if (plan->compose)
        snprintf(spec, sizeof spec, "kvcompose:budget=%u%s,least=%u,mean=%s", plan->share ? plan->share : plan->budget,
                 plan->share ? "%" : "", plan->least, plan->mean ? "on" : "off");
    rows_add_layers(spec, sizeof spec, plan->left_out, t->layers);
    rows_add_decode(spec, sizeof spec, steps->decode);
    if (steps->select)
        rows_add_select(spec, sizeof spec, steps->select);
    struct kvc_replay *replay = rows_replay(side_engine(), t, spec, type, chunk);
    assert_non_null(out);
    for (size_t k = 0; k < turn_count; k++) {
        const uint32_t rows = turns[k].prompt, from = now;
        now += rows;
        for (uint32_t l = 0; l < t->layers; l++)
            SPEC_FINE(kvc_replay_pseudo(replay, l, q_row(extra, l, 0), extra->k + kv_at(extra, l, 0, 0),
                                        plan->zip || plan->compose ? rows : plan->pseudo, &error));
        for (uint32_t l = 0; l < t->layers; l++) {
            const size_t at = kv_at(t, l, from, 0);
            SPEC_FINE(kvc_replay_prompt(replay, l, q_row(t, l, from), t->k + at, t->v + at, rows, out, &error));
            for (uint32_t h = 0; h < t->lists; h++) {
                for (uint32_t row = from; row < now; row++)
                    rows_append(&lists, t, type, l, h, row);
                check_last(t, &lists.heads[l * t->lists + h], l, h, now - 1,
                           out + (size_t)(rows - 1) * t->heads * t->d);
            }
            rows_observe(t, &lists, l, now, rows, steps->decode);
            const uint32_t most = rows_longest(t, &lists, l);
            if (plan->zip && oracle_acts(plan->left_out, l))
                zip_layer(t, extra, plan, type, &lists, l, most, rows);
            if (plan->compose && oracle_acts(plan->left_out, l))
                compose_scores(t, extra, plan, type, &lists, l, rows, now);
            for (uint32_t h = 0; h < t->lists && !plan->zip && !plan->compose && oracle_acts(plan->left_out, l); h++)
                dapq_list(t, extra, plan, type, &lists, l, h, most);
        }
        if (plan->compose)
            compose_all(t, plan, &lists);
        rows_note_after(t, &lists);
        rows_compare(kvc_replay_session(replay), t, lists.heads, spec, "prompt");
        rows_run_steps(replay, t, &lists, steps, type, now, now + turns[k].steps, out, spec);
        now += turns[k].steps;
    }
    kvc_replay_close(replay);
    free(out);
    rows_free_lists(&lists);
}

static void test_dapq(void **state) {
    static const struct dapq plans[] = {{40, 10, 4, 1, false, 0, 0, false, false, 0, false, false, 0},
                                        {40, 39, 32, 3, true, 0, 0, false, false, 0, false, false, 0},
                                        {40, 40, 5, 1, false, 0, 0, false, false, 0, false, false, 0},
                                        {41, 1, 1, 5, false, 0, 0, false, false, 0, false, false, 0},
                                        {300, 64, 8, 7, true, 0, 0, false, false, 0, false, false, 0},
                                        {1, 1, 3, 1, false, 0, 0, false, false, 0, false, false, 0},
                                        {40, 10, 4, 1, false, 0, 1, false, false, 0, false, false, 0},
                                        {40, 10, 4, 1, false, 0, 2, false, false, 0, false, false, 0},
                                        {40, 10, 4, 3, false, 0, 0, true, false, 0, false, false, 0}};
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES; i++)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
            for (enum kind kind = RANDOM; kind < KINDS; kind++) {
                if ((i + p + kind) % 3 && plans[p].prompt > 100)
                    continue;
                if (kvc_test_thinned() && (2 * i + p + kind) % 6)
                    continue;
                struct tensors t = make_tensors(kind, 7 + i + p, 2, rows_shapes[i][0], rows_shapes[i][1],
                                                8 + 8 * (uint32_t)(p % 3), plans[p].prompt + ROWS_STEPS);
                struct tensors extra = make_tensors(kind, 99 + i, 2, t.heads, t.kv_heads, t.d, plans[p].pseudo);
                const struct turn turn = {plans[p].prompt, ROWS_STEPS};
                t.lists = extra.lists = plans[p].per_head ? t.heads : t.kv_heads;
                const struct row_steps steps = {&rows_decodes[(i + p + kind) % ROWS_DECODES], NULL};
                run_dapq(&t, &extra, &plans[p], &turn, 1, &steps, rows_types[(i + p) % 3], p % 2 ? 7 : 512);
                free_tensors(&t);
                free_tensors(&extra);
            }
}

/* 300 steps after the prompt. */
static void test_dapq_steps(void **state) {
    static const struct dapq plan = {40, 12, 4, 3, true, 0, 0, false, false, 0, false, false, 0};
    const uint32_t steps_after = kvc_test_thinned() ? 40 : 300;
    (void)state;
    for (size_t i = 0; i < ROWS_DECODES; i++) {
        struct tensors t = make_tensors(DRIFT, 7 + i, 2, 4, i % 2 ? 4 : 2, 8, plan.prompt + steps_after);
        struct tensors extra = make_tensors(DRIFT, 3 + i, 2, t.heads, t.kv_heads, t.d, plan.pseudo);
        const struct turn turn = {plan.prompt, steps_after};
        const struct row_steps steps = {&rows_decodes[i], NULL};
        run_dapq(&t, &extra, &plan, &turn, 1, &steps, rows_types[i % 3], 512);
        free_tensors(&t);
        free_tensors(&extra);
    }
}

/* Turns whose rows meet a cache with evicted entries; shares of the held entries; reads chosen among the remaining
 * entries. */
static void test_dapq_turns(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct dapq plans[] = {{.budget = 20, .pseudo = 4, .kernel = 3},
                                        {.share = 30, .pseudo = 5, .kernel = 1},
                                        {.share = 1, .pseudo = 3, .kernel = 1, .per_head = true}};
    static const struct select_plan hsa = {HSA, .page = 2, .dims = 4, .topk = 9};
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES; i += kvc_test_thinned() ? 4 : 1)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            struct tensors t =
                make_tensors((enum kind)((i + p) % KINDS), 17 + i, 2, rows_shapes[i][0], rows_shapes[i][1], 8, 119);
            struct tensors extra = make_tensors((enum kind)((i + p) % KINDS), 5 + i, 2, t.heads, t.kv_heads, t.d, 5);
            const struct row_steps steps = {&rows_decodes[i % 3 ? 0 : 1 + p], i % 2 ? &hsa : NULL};
            t.lists = extra.lists = plans[p].per_head ? t.heads : t.kv_heads;
            run_dapq(&t, &extra, &plans[p], turns, 4, &steps, rows_types[(i + p) % 3], p % 2 ? 7 : 512);
            free_tensors(&t);
            free_tensors(&extra);
        }
}

/* ---- kvzip ---- */

static void test_kvzip(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct dapq plans[] = {{.budget = 20, .zip = true},
                                        {.budget = 49, .floor = 0.25, .zip = true},
                                        {.share = 30, .floor = 1, .zip = true},
                                        {.budget = 1, .zip = true, .left_out = 1}};
    static const struct select_plan hsa = {HSA, .page = 2, .dims = 4, .topk = 9};
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES; i += kvc_test_thinned() ? 4 : 1)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            struct tensors t =
                make_tensors((enum kind)((i + p) % KINDS), 23 + i, 2, rows_shapes[i][0], rows_shapes[i][1], 8, 119);
            struct tensors extra = make_tensors((enum kind)((i + p) % KINDS), 5 + i, 2, t.heads, t.kv_heads, t.d, 50);
            const struct row_steps steps = {&rows_decodes[p == 2 ? 1 : 0], i % 2 ? &hsa : NULL};
            run_dapq(&t, &extra, &plans[p], turns, 4, &steps, rows_types[(i + p) % 3], p % 2 ? 7 : 512);
            free_tensors(&t);
            free_tensors(&extra);
        }
}

/* ---- kvcompose ---- */

static void test_kvcompose(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct dapq plans[] = {{.budget = 20, .compose = true, .least = 1, .mean = true},
                                        {.budget = 49, .compose = true, .least = 30},
                                        {.share = 30, .compose = true, .least = 5, .mean = true},
                                        {.budget = 4, .compose = true, .least = 4, .mean = true, .left_out = 2}};
    static const struct select_plan hsa = {HSA, .page = 2, .dims = 4, .topk = 9};
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES; i += kvc_test_thinned() ? 4 : 1)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            struct tensors t =
                make_tensors((enum kind)((i + p) % KINDS), 31 + i, 4, rows_shapes[i][0], rows_shapes[i][1], 8, 119);
            struct tensors extra = make_tensors((enum kind)((i + p) % KINDS), 9 + i, 4, t.heads, t.kv_heads, t.d, 50);
            for (uint32_t l = 0; l < 4; l++) /* layers differ, and the division with them */
                for (size_t k = kv_at(&extra, l, 0, 0); k < kv_at(&extra, l + 1, 0, 0); k++)
                    extra.k[k] *= (float)((l * 5 + 2) % 7);
            const struct row_steps steps = {&rows_decodes[p == 2 ? 1 : 0], i % 2 ? &hsa : NULL};
            run_dapq(&t, &extra, &plans[p], turns, 4, &steps, rows_types[(i + p) % 3], p % 2 ? 7 : 512);
            free_tensors(&t);
            free_tensors(&extra);
        }
}

/* ---- tova ---- */

static void test_tova(void **state) {
    static const uint32_t budgets[] = {2, 2, 40, 40};
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "tova:budget=%u%s", budgets[i], i % 2 ? ",per=group" : "");
        const struct scores_plan plan = {.budget = budgets[i], .by_group = i % 2};
        const struct side side = {.spec = spec, .prompt = oracle_tova, .step = oracle_tova, .plan = &plan};
        side_run_all(&side, 2);
        struct tensors t = make_tensors(DRIFT, 3 + i, 1, 4, 2, 8, kvc_test_thinned() ? 90 : 330); /* 300 steps */
        side_run(&t, 30, &side);
        free_tensors(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dapq),       cmocka_unit_test(test_dapq_steps),
                                       cmocka_unit_test(test_dapq_turns), cmocka_unit_test(test_kvzip),
                                       cmocka_unit_test(test_kvcompose),  cmocka_unit_test(test_tova)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
