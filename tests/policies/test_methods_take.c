/* test_methods_take.c - take, which adds probes to a prompt's chunks, against its oracle, alone and with a method after
 * it. */
#include "tests/oracle/added_rows.h"
#include "tests/check.h"
#include "tests/oracle/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct take {
    uint32_t prompt, budget, warmup_budget, warmup_layers, chunk, probe, kernel;
    float alpha;
    bool per_head;
    uint32_t share; /* a percentage of the held entries, instead of the budget (the warm-up's budget is then four times
                       as large) */
    bool max;       /* pooling */
    uint32_t steps; /* 0: ROWS_STEPS */
    uint32_t left_out; /* one bit for each layer in which the method does not act */
    bool own;          /* the probe of a chunk is its own last rows */
    bool scaled_first; /* the first chunk's queries enter the average with the factor 1 - alpha */
    bool keeps_question;
};

struct chunks { /* the state compared after every chunk */
    struct kvc_replay *replay;
    const struct tensors *t;
    const struct take *plan;
    const struct tensors *probes; /* the rows chunk * probe + i */
    const struct row_steps *steps;
    enum kvc_type type;
    struct row_lists lists;
    uint32_t from, rows; /* the turn's rows within the tensors */
    float *A;            /* [layers, probe, H, d] */
    char spec[280];
    uint32_t called;
};

/* The scores of list h in a layer: the mean over the probe of softmax(A K^T / sqrt(d)), summed over the group, pooled.
 */
static void take_scores(const struct chunks *c, uint32_t l, uint32_t h, uint32_t p, float *score) {
    const struct tensors *t = c->t;
    const struct head *head = &c->lists.heads[l * t->lists + h];
    memset(score, 0, head->count * sizeof *score);
    for (uint32_t i = 0; i < p; i++)
        rows_add_probabilities(t, head, h, c->A + ((size_t)l * p + i) * t->heads * t->d, head->count, head->count,
                               score);
    for (uint32_t j = 0; j < head->count; j++)
        score[j] /= (float)p;
    rows_pool(score, head->count, c->plan->kernel, !c->plan->max);
}

/* Keeps the entries from position `from` on and the others with the highest scores, `most` in all. */
static void keep_from(struct head *head, const float *score, uint32_t most, int32_t from) {
    const uint32_t n = head->count;
    bool *candidate = calloc(n, 1), *kept = calloc(n, 1);
    assert_true(candidate && kept);
    uint32_t others = most;
    for (uint32_t j = 0; j < n; j++) {
        candidate[j] = head->entries[j].position < from;
        kept[j] = !candidate[j];
        others -= kept[j];
    }
    if (n > most) {
        mark_top(score, candidate, n, others, kept);
        remove_unkept(head, kept);
    }
    free(candidate);
    free(kept);
}

/* What layer l keeps of its lists, and, if l is W-1, what the layers below keep. */
static void take_layer(struct chunks *c, uint32_t l, uint32_t p, bool last) {
    const struct tensors *t = c->t;
    const struct take *plan = c->plan;
    const uint32_t W = plan->warmup_layers, held = c->lists.heads[l * t->lists].held;
    const uint32_t question = c->from + c->rows - plan->probe;
    const uint32_t B = plan->share ? rows_share(held, plan->share) : plan->budget;
    const uint32_t warm = plan->share ? 4 * B : plan->warmup_budget;
    float *score = malloc((rows_longest(t, &c->lists, l) + 1) * sizeof *score);
    assert_non_null(score);
    if (c->from == 0 && !plan->share)
        assert_true(rows_longest(t, &c->lists, l) <= plan->chunk + (W ? warm : B));
    const uint32_t budget = l + 1 == W && !last ? warm : B, most = rows_longest(t, &c->lists, l);
    for (uint32_t h = 0; h < t->lists && most > budget; h++) {
        struct head *head = &c->lists.heads[l * t->lists + h];
        take_scores(c, l, h, p, score);
        if (last && plan->keeps_question)
            keep_from(head, score, budget, (int32_t)question);
        else
            rows_keep_top(head, score, budget);
        for (uint32_t below = 0; l + 1 == W && below < l; below++) {
            if (!oracle_acts(plan->left_out, below))
                continue;
            struct head *other = &c->lists.heads[below * t->lists + h];
            bool *kept = calloc(other->count, 1);
            assert_non_null(kept);
            for (uint32_t j = 0; j < other->count; j++)
                for (uint32_t k = 0; k < head->count; k++)
                    kept[j] = kept[j] || head->entries[k].position == other->entries[j].position;
            remove_unkept(other, kept);
            free(kept);
        }
    }
    free(score);
}

/* rocketkv's queries are the turn's last ones. Their probabilities come from the attention within their chunk. */
static uint32_t window_of(const struct chunks *c) {
    const struct select_plan *select = c->steps->select;
    const uint32_t w = select && (select->method == ROCKET || select->method == ROCKET_MT) ? select->window : 0;
    return w < c->rows ? w : c->rows;
}

static void note_window(struct chunks *c, uint32_t l, uint32_t from, uint32_t rows) {
    const struct tensors *t = c->t;
    float *row = malloc((t->rows + 64) * sizeof *row);
    assert_non_null(row);
    for (uint32_t position = from; position < from + rows; position++) {
        if (position + window_of(c) < c->from + c->rows)
            continue;
        for (uint32_t h = 0; h < t->lists; h++) {
            struct head *head = &c->lists.heads[l * t->lists + h];
            const uint32_t n = entries_up_to(head, position);
            group_row(t, head, l, h, position, n, false, row);
            for (uint32_t j = 0; j < n; j++)
                head->entries[j].probability[position] = row[j];
        }
    }
    free(row);
}

/* rocketkv's first stage, after take's chunks. */
static void filter_layer(struct chunks *c, uint32_t l) {
    const struct tensors *t = c->t;
    const struct select_plan *select = c->steps->select;
    const uint32_t w = window_of(c), end = c->from + c->rows;
    const struct moment moment = {t, c->lists.heads + (size_t)l * t->lists, l, end, c->rows, 0};
    const uint32_t many = rocket_keeps(&moment, select);
    for (uint32_t h = 0; h < t->lists; h++) {
        struct head *head = &moment.heads[h];
        const uint32_t n = head->count;
        float *score = calloc(n, sizeof *score);
        bool *kept = calloc(n, sizeof *kept), *candidate = calloc(n, sizeof *candidate);
        assert_true(score && kept && candidate);
        for (uint32_t position = end - w; position < end; position++)
            for (uint32_t j = 0; j < n; j++)
                score[j] += head->entries[j].probability[position];
        rows_pool(score, n > w ? n - w : 0, select->kernel, false);
        for (uint32_t j = 0; j < n; j++) {
            kept[j] = j + w >= n;
            candidate[j] = !kept[j];
        }
        mark_top(score, candidate, n, many - w, kept);
        for (uint32_t j = 0; j < n && select->method == ROCKET_MT; j++)
            head->entries[j].hidden = !kept[j];
        if (select->method == ROCKET)
            remove_unkept(head, kept);
        free(score);
        free(kept);
        free(candidate);
    }
}

static void take_chunk(struct chunks *c, uint32_t chunk) {
    const struct tensors *t = c->t;
    const struct take *plan = c->plan;
    const uint32_t from = chunk * plan->chunk, left = c->rows - from, rows = left < plan->chunk ? left : plan->chunk;
    const uint32_t most = plan->own && plan->chunk < c->rows ? plan->chunk : c->rows, end = c->from + c->rows;
    const uint32_t p = plan->probe < most ? plan->probe : most;
    const bool last = from + rows == c->rows;
    for (uint32_t l = 0; l < t->layers; l++) {
        const uint32_t held = chunk == 0 ? rows_longest(t, &c->lists, l) + c->rows : c->lists.heads[l * t->lists].held;
        for (uint32_t h = 0; h < t->lists; h++) {
            c->lists.heads[l * t->lists + h].held = held;
            for (uint32_t i = 0; i < rows; i++)
                rows_append(&c->lists, t, c->type, l, h, c->from + from + i);
        }
        rows_observe(t, &c->lists, l, c->from + from + rows, rows, c->steps->decode);
        note_window(c, l, c->from + from, rows);
        for (uint32_t i = 0; i < p; i++) {
            const float *Q = last        ? q_row(t, l, end - p + i)
                             : plan->own ? q_row(t, l, c->from + from + rows - p + i)
                                         : q_row(c->probes, l, chunk * p + i);
            float *A = c->A + ((size_t)l * p + i) * t->heads * t->d;
            for (uint32_t x = 0; x < t->heads * t->d; x++)
                A[x] = chunk == 0 && plan->scaled_first ? (1 - plan->alpha) * Q[x]
                       : chunk == 0 || plan->own        ? Q[x]
                                                        : fmaf(plan->alpha, A[x], (1 - plan->alpha) * Q[x]);
        }
        if (l + 1 >= plan->warmup_layers && oracle_acts(plan->left_out, l))
            take_layer(c, l, p, last);
    }
    for (uint32_t l = 0; l < t->layers && last;
         l++) { /* the prompt stage, when every layer has been reduced by the chunks */
        const struct moment moment = {t, c->lists.heads + (size_t)l * t->lists, l, end, c->rows, 0};
        if (window_of(c))
            filter_layer(c, l);
        else
            oracle_evict(&moment, c->steps->decode);
    }
}

static int after_chunk(void *user, uint32_t chunk) {
    struct chunks *c = user;
    char when[32];
    snprintf(when, sizeof when, "chunk %u", chunk);
    assert_int_equal(chunk, c->called++);
    take_chunk(c, chunk);
    rows_compare(kvc_replay_session(c->replay), c->t, c->lists.heads, c->spec, when);
    return 0;
}

static void run_take(const struct tensors *t, const struct tensors *probes, const struct take *plan,
                     const struct turn *turns, size_t turn_count, const struct row_steps *steps, enum kvc_type type,
                     uint32_t chunk) {
    struct chunks c = {.t = t, .plan = plan, .probes = probes, .steps = steps, .type = type, .lists = rows_lists(t)};
    struct kvc_error error;
    float *out = malloc((size_t)t->layers * t->rows * t->heads * t->d * sizeof *out);
    c.A = malloc((size_t)t->layers * plan->probe * t->heads * t->d * sizeof *c.A);
    assert_true(out && c.A);
    snprintf(c.spec, sizeof c.spec,
             "take:budget=%u%s,warmup_layers=%u,chunk=%u,probe=%u,kernel=%u,alpha=%.9g,per=%s,pooling=%s,probe_from=%s,"
             "first=%s,question=%s",
             plan->share ? plan->share : plan->budget, plan->share ? "%" : "", plan->warmup_layers, plan->chunk,
             plan->probe, plan->kernel, (double)plan->alpha, plan->per_head ? "head" : "group",
             plan->max ? "max" : "avg", plan->own ? "chunk" : "prompt", plan->scaled_first ? "share" : "whole",
             plan->keeps_question ? "keep" : "score");
    if (!plan->share)
        snprintf(c.spec + strlen(c.spec), sizeof c.spec - strlen(c.spec), ",warmup_budget=%u", plan->warmup_budget);
    rows_add_layers(c.spec, sizeof c.spec, plan->left_out, t->layers);
    rows_add_decode(c.spec, sizeof c.spec, steps->decode);
    if (steps->decode->decode == MORPHKV &&
        steps->decode->prompt == FULL) /* otherwise it would also evict after the prompt */
        strcat(c.spec, ",stages=decode");
    if (steps->select)
        rows_add_select(c.spec, sizeof c.spec, steps->select);
    const char *spec = c.spec;
    c.replay = rows_replay(side_engine(), t, spec, type, chunk);
    kvc_replay_on_chunk(c.replay, after_chunk, &c);
    for (size_t k = 0; k < turn_count; k++) {
        const uint32_t rows = turns[k].prompt, p = plan->probe < rows ? plan->probe : rows;
        const uint32_t count = (rows + plan->chunk - 1) / plan->chunk;
        c.rows = rows;
        c.called = 0;
        for (uint32_t l = 0; l < t->layers; l++)
            for (uint32_t i = 0; i + 1 < count && !plan->own; i++)
                SPEC_FINE(kvc_replay_probe(c.replay, l, i, q_row(probes, l, i * p), p, &error));
        for (uint32_t l = 0; l < t->layers; l++) {
            const size_t kv = kv_at(t, l, c.from, 0);
            SPEC_FINE(kvc_replay_prompt(c.replay, l, q_row(t, l, c.from), t->k + kv, t->v + kv, rows,
                                        out + (size_t)l * t->rows * t->heads * t->d, &error));
        }
        assert_int_equal(c.called, count);
        rows_note_after(t, &c.lists);
        rows_run_steps(c.replay, t, &c.lists, steps, type, c.from + rows, c.from + rows + turns[k].steps, out, spec);
        c.from += rows + turns[k].steps;
    }
    kvc_replay_close(c.replay);
    free(out);
    free(c.A);
    rows_free_lists(&c.lists);
}

static void test_take(void **state) {
    static const struct take plans[] = {
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, false, 0, 0, false, false, false},
        {61, 8, 8, 2, 20, 8, 3, 0.2f, false, 0, false, 0, 0, false, false, false},
        {40, 12, 15, 0, 9, 3, 1, 0.0f, false, 0, false, 0, 0, false, false, false},
        {30, 40, 40, 1, 64, 50, 5, 1.0f, false, 0, false, 0, 0, false, false, false},
        {57, 9, 30, 3, 10, 12, 5, 0.5f, false, 0, false, 0, 0, false, false, false},
        {50, 7, 11, 1, 13, 5, 5, 0.32f, true, 0, false, 0, 0, false, false, false},
        {400, 40, 100, 2, 120, 16, 5, 0.32f, false, 0, false, 0, 0, false, false, false},
        {8, 3, 3, 1, 1, 1, 1, 0.32f, false, 0, false, 0, 0, false, false, false},
        {60, 10, 20, 2, 16, 4, 5, 0.32f, false, 0, false, 0, 1, false, false, false},
        {60, 10, 20, 3, 16, 4, 5, 0.32f, false, 0, false, 0, 2, false, false, false},
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, false, 0, 6, false, false, false},
        {60, 10, 20, 0, 16, 4, 5, 0.32f, false, 0, false, 0, 5, false, false, false},
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, true, 0, 0, false, false, false},
        {40, 12, 15, 2, 9, 3, 3, 0.5f, false, 0, true, 300, 0, false, false, false},
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, true, 0, 0, true, false, false},
        {57, 9, 30, 0, 10, 12, 5, 0.5f, true, 0, false, 0, 0, true, false, false},
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, false, 0, 0, false, true, false},
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0, false, 0, 0, false, true, true},
        {57, 9, 30, 3, 10, 8, 3, 0.5f, true, 0, true, 0, 0, false, false, true}};
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES; i++)
        for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
            const struct take *plan = &plans[k];
            const enum kind kind = (enum kind)((i + k) % KINDS);
            if (plan->prompt > 100 && i % 3)
                continue;
            if (kvc_test_thinned() && (i + k) % 3)
                continue;
            const uint32_t steps_after = plan->steps && !kvc_test_thinned() ? plan->steps : ROWS_STEPS;
            const uint32_t chunks = (plan->prompt + plan->chunk - 1) / plan->chunk;
            struct tensors t = make_tensors(kind, 31 + i + k, 3, rows_shapes[i][0], rows_shapes[i][1],
                                            8 + 8 * (uint32_t)(k % 2), plan->prompt + steps_after);
            struct tensors probes = make_tensors(kind, 77 + k, 3, t.heads, t.kv_heads, t.d, chunks * plan->probe);
            if (plan->per_head)
                t.lists = t.heads;
            const struct turn turn = {plan->prompt, steps_after};
            const struct row_steps steps = {&rows_decodes[(i + k / 2) % ROWS_DECODES], NULL};
            run_take(&t, &probes, plan, &turn, 1, &steps, rows_types[(i + k) % 3], k % 2 ? 5 : 512);
            free_tensors(&t);
            free_tensors(&probes);
        }
}

/* Turns whose rows meet a cache with evicted entries; shares of the held entries; reads chosen among the remaining
 * entries. */
static void test_take_turns(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct take plans[] = {{0, 12, 20, 1, 13, 5, 5, 0.32f, false, 0, false, 0, 0, false, false, false},
                                        {0, 9, 30, 3, 10, 12, 5, 0.5f, false, 0, false, 0, 0, false, false, false},
                                        {0, 0, 0, 2, 16, 6, 3, 0.2f, false, 20, false, 0, 0, false, false, false},
                                        {0, 0, 0, 1, 64, 6, 3, 0.2f, true, 1, false, 0, 0, false, false, false},
                                        {0, 12, 20, 1, 13, 5, 5, 0.32f, false, 0, true, 0, 0, true, false, false}};
    static const struct select_plan selects[] = {{TOPK, .budget = 7},
                                                 {QUEST, .budget = 6, .page = 2},
                                                 {SPARQ, .dims = 3, .topk = 6},
                                                 {HSA, .page = 2, .dims = 4, .topk = 7},
                                                 {ROCKET, .budget = 2, .split = -1, .window = 4, .kernel = 3},
                                                 {ROCKET_MT, .budget = 3, .split = -1, .window = 3, .kernel = 5}};
    enum { SELECTS = sizeof selects / sizeof *selects };
    (void)state;
    for (size_t i = 0; i < ROWS_SHAPES * (SELECTS + 1); i += kvc_test_thinned() ? 9 : 1)
        for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
            const uint32_t *shape = rows_shapes[i / (SELECTS + 1)];
            const enum kind kind = (enum kind)((i + k) % KINDS);
            struct tensors t = make_tensors(kind, 27 + i, 3, shape[0], shape[1], 8, 119);
            struct tensors probes = make_tensors(kind, 8 + i, 3, t.heads, t.kv_heads, t.d, 60);
            const struct row_steps steps = {&rows_decodes[(i + k) % (ROWS_DECODES - 1)],
                                            i % (SELECTS + 1) ? &selects[i % (SELECTS + 1) - 1] : NULL};
            t.lists = plans[k].per_head ? t.heads : t.kv_heads;
            run_take(&t, &probes, &plans[k], turns, 4, &steps, rows_types[(i + k) % 3], k % 2 ? 5 : 512);
            free_tensors(&t);
            free_tensors(&probes);
        }
}

/* At every moment of prefill a layer holds at most a chunk and the largest of its budgets so far, in whole blocks.
 * Here probes do not see each other; otherwise they would add entries of their own. */
#define CHUNK ",probe_sees=chunk"
static void test_take_bound(void **state) {
    static const char *const specs[] = {"take:budget=64,warmup_budget=256,warmup_layers=3,chunk=512,probe=16" CHUNK,
                                        "take:budget=256,warmup_budget=256,warmup_layers=2,chunk=512,probe=16" CHUNK,
                                        "take:budget=256,warmup_layers=0,chunk=512,probe=16" CHUNK,
                                        "take:budget=64,warmup_layers=0,chunk=512,probe=16" CHUNK};
    static const uint32_t largest[] = {256, 256, 256, 64};
    const uint32_t heads = kvc_test_thinned() ? 1 : 8;
    struct tensors t = make_tensors(RANDOM, 5, 3, heads, heads, 8, 2048);
    struct tensors probes = make_tensors(RANDOM, 6, 3, heads, heads, 8, 48);
    float *out = malloc((size_t)t.layers * t.rows * t.heads * t.d * sizeof *out);
    (void)state;
    assert_non_null(out);
    for (size_t c = 0; c < (kvc_test_thinned() ? 1 : sizeof specs / sizeof *specs); c++) {
        const char *spec = specs[c];
        struct kvc_engine *engine;
        struct kvc_memory memory;
        struct kvc_error error;
        SPEC_FINE(kvc_engine_open(NULL, &engine, &error)); /* a new engine, so that the peak comes from this run only */
        struct kvc_replay *replay = rows_replay(engine, &t, spec, KVC_F32, 0);
        for (uint32_t l = 0; l < t.layers; l++)
            for (uint32_t i = 0; i < 3; i++)
                SPEC_FINE(kvc_replay_probe(replay, l, i, q_row(&probes, l, 16 * i), 16, &error));
        for (uint32_t l = 0; l < t.layers; l++) {
            const size_t kv = kv_at(&t, l, 0, 0);
            SPEC_FINE(kvc_replay_prompt(replay, l, q_row(&t, l, 0), t.k + kv, t.v + kv, t.rows,
                                        out + (size_t)l * t.rows * t.heads * t.d, &error));
        }
        kvc_engine_memory(engine, &memory);
        assert_int_equal(memory.peak[KVC_MEMORY_CACHE],
                         (uint64_t)t.layers * t.lists * (512 + largest[c]) * 2 * t.d * sizeof(float));
        kvc_replay_close(replay);
        kvc_engine_close(engine);
    }
    free(out);
    free_tensors(&probes);
    free_tensors(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_take), cmocka_unit_test(test_take_turns),
                                       cmocka_unit_test(test_take_bound)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
