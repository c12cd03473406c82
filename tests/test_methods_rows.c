/* test_methods_rows.c - methods that add rows to a prompt: dapq's pseudo rows and take's probes, beside obvious code,
 * alone and with morphkv behind them; and tova. */
#include "tests/check.h"
#include "tests/obvious_scores.h"
#include "tests/obvious_select.h"
#include "tests/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SPEC_FINE(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != KVC_OK)                                                                                          \
            fail_msg("%s: %s", spec, error.text);                                                                      \
    } while (0)

static struct kvc_engine *engine;

/* Average or maximum over neighbours within n, the way rule 6 of docs/methods.md says. */
static void pool(float *score, uint32_t n, uint32_t kernel, bool average) {
    float *out = malloc(n * sizeof *out + 1);
    assert_non_null(out);
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0, most = -INFINITY;
        for (uint32_t j = 0; j < n; j++) {
            if (j + kernel / 2 < i || j > i + kernel / 2)
                continue;
            sum += score[j];
            most = score[j] > most ? score[j] : most;
        }
        out[i] = average ? sum / (float)kernel : most;
    }
    memcpy(score, out, n * sizeof *out);
    free(out);
}

static void keep_top(struct head *head, const float *score, uint32_t most) {
    const uint32_t n = head->count;
    bool *candidate = malloc(n), *kept = calloc(n, 1);
    assert_true(candidate && kept);
    memset(candidate, 1, n);
    if (n > most) {
        mark_top(score, candidate, n, most, kept);
        remove_unkept(head, kept);
    }
    free(candidate);
    free(kept);
}

static void compare(const struct kvc_session *session, const struct tensors *t, const struct head *heads,
                    const char *spec, const char *when) {
    int32_t *positions = malloc((t->rows + 64) * sizeof *positions);
    struct kvc_error error;
    assert_non_null(positions);
    for (uint32_t l = 0; l < t->layers; l++) {
        assert_int_equal(kvc_session_heads(session, l), t->lists);
        for (uint32_t h = 0; h < t->lists; h++) {
            const struct head *head = &heads[l * t->lists + h];
            size_t count = 0;
            SPEC_FINE(kvc_session_positions(session, l, h, positions, t->rows + 64, &count, &error));
            bool same = count == head->count;
            for (size_t j = 0; same && j < count; j++)
                same = positions[j] == head->entries[j].position;
            if (!same)
                fail_msg("%s, %s: layer %u list %u holds other entries (%zu, expected %u)", spec, when, l, h, count,
                         head->count);
        }
    }
    free(positions);
}

struct lists { /* of all layers */
    struct head *heads;
    struct entry *entries;
    float **made; /* what append made, of evicted entries too */
    size_t count, room;
};

static struct lists make_lists(const struct tensors *t) {
    const size_t n = (size_t)t->layers * t->lists, room = t->rows + 64;
    struct lists lists = {calloc(n, sizeof(struct head)), calloc(n * room, sizeof(struct entry)),
                          malloc(n * room * sizeof(float *)), 0, n * room};
    assert_true(lists.heads && lists.entries && lists.made);
    for (size_t i = 0; i < n; i++)
        lists.heads[i].entries = lists.entries + i * room;
    return lists;
}

static void free_lists(struct lists *lists) {
    for (size_t i = 0; i < lists->count; i++)
        free(lists->made[i]);
    free(lists->made);
    free(lists->entries);
    free(lists->heads);
}

static void add(struct lists *lists, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h,
                uint32_t row) {
    struct head *head = &lists->heads[l * t->lists + h];
    append(head, t, type, l, h, row);
    assert_true(lists->count < lists->room);
    lists->made[lists->count++] = head->entries[head->count - 1].k;
}

static struct kvc_replay *open_replay(const struct tensors *t, const char *spec, enum kvc_type type, uint32_t chunk) {
    const struct kvc_geometry geometry = {t->layers, t->heads, t->kv_heads, t->d};
    struct kvc_session_options options;
    struct kvc_replay *replay;
    struct kvc_error error;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = type;
    options.chunk = chunk;
    options.record_reads = true;
    SPEC_FINE(kvc_replay_open(engine, &geometry, &options, &replay, &error));
    return replay;
}

/* What follows a prompt: nothing, or morphkv, whose ring the prompt's last queries begin. Behind take it may also evict
 * at the prompt's end. */
static const struct plan decodes[] = {
    {.decode = FULL},
    {.decode = MORPHKV, .decode_budget = 9, .decode_window = 4, .every = 1},
    {.decode = MORPHKV, .decode_budget = 30, .decode_window = 20, .every = 3, .max_fusion = true},
    {.decode = MORPHKV, .decode_budget = 8, .decode_window = 7, .every = 2, .logits = true},
    {MORPHKV, MORPHKV, .budget = 9, .window = 4, .every = 1, .decode_budget = 9, .decode_window = 4}};
enum { DECODES = sizeof decodes / sizeof *decodes, STEPS = 12 };

static void add_decode(char *spec, size_t room, const struct plan *decode) {
    const size_t used = strlen(spec);
    if (decode->decode == MORPHKV)
        snprintf(spec + used, room - used, "+morphkv:budget=%u,window=%u,every=%u,fusion=%s,scores=%s",
                 decode->decode_budget, decode->decode_window, decode->every, decode->max_fusion ? "max" : "sum",
                 decode->logits ? "logits" : "weights");
}

static void add_select(char *spec, size_t room, const struct select_plan *plan) {
    const size_t used = strlen(spec);
    spec += used;
    room -= used;
    switch (plan->method) {
    case TOPK:
        snprintf(spec, room, "+topk:budget=%u", plan->budget);
        break;
    case QUEST:
        snprintf(spec, room, "+quest:budget=%u,page=%u", plan->budget, plan->page);
        break;
    case SPARQ:
        snprintf(spec, room, "+sparq:dims=%u,topk=%u", plan->dims, plan->topk);
        break;
    case HSA:
        snprintf(spec, room, "+hsa:page=%u,dims=%u,topk=%u", plan->page, plan->dims, plan->topk);
        break;
    case ROCKET:
    case ROCKET_MT:
        snprintf(spec, room, "+rocketkv%s:budget=%u,window=%u,kernel=%u", plan->method == ROCKET ? "" : "-mt",
                 plan->budget, plan->window, plan->kernel);
    }
}

/* Before anything is evicted from layer l: rows that were read up to position now - 1, `rows` of them just now. */
static void observe(const struct tensors *t, struct lists *lists, uint32_t l, uint32_t now, uint32_t rows,
                    const struct plan *decode) {
    const struct moment moment = {t, lists->heads + (size_t)l * t->lists, l, now, rows, 0};
    obvious_look(&moment, decode);
}

/* Steps behind a turn's prompt: what evicts after each, and what chooses its reads (NULL: all is read). */
struct steps {
    const struct plan *decode;
    const struct select_plan *select;
};

/* Entries of the fullest list of a layer. */
static uint32_t fullest(const struct tensors *t, const struct lists *lists, uint32_t l) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < t->lists; h++)
        most = lists->heads[l * t->lists + h].count > most ? lists->heads[l * t->lists + h].count : most;
    return most;
}

/* The turn's prompt is over. */
static void note_after(const struct tensors *t, struct lists *lists) {
    for (uint32_t l = 0; l < t->layers; l++)
        for (uint32_t h = 0; h < t->lists; h++)
            lists->heads[l * t->lists + h].after = fullest(t, lists, l);
}

static uint32_t share_of(uint32_t held, uint32_t share) {
    const uint32_t tokens = (held * share + 50) / 100;
    return tokens ? tokens : 1;
}

/* Decode steps with the rows prompt .. end - 1. */
static void run_steps(struct kvc_replay *replay, const struct tensors *t, struct lists *lists,
                      const struct steps *steps, enum kvc_type type, uint32_t prompt, uint32_t end, float *out,
                      const char *spec) {
    struct kvc_error error;
    for (uint32_t row = prompt; row < end; row++) {
        for (uint32_t l = 0; l < t->layers; l++) {
            const struct moment moment = {t, lists->heads + (size_t)l * t->lists, l, row + 1, 0, row + 1 - prompt};
            const size_t kv = kv_at(t, l, row, 0);
            SPEC_FINE(kvc_replay_step(replay, l, q_row(t, l, row), t->k + kv, t->v + kv, out, &error));
            for (uint32_t h = 0; h < t->lists; h++)
                add(lists, t, type, l, h, row);
            for (uint32_t h = 0; h < t->lists && steps->select; h++)
                side_compare_choice(kvc_replay_session(replay), &moment, h, obvious_select, steps->select, out, spec);
            obvious_step(&moment, steps->decode);
            for (uint32_t h = 0; h < t->lists; h++)
                for (uint32_t j = 0; j < moment.heads[h].count; j++)
                    moment.heads[h].entries[j].unread = false;
        }
        compare(kvc_replay_session(replay), t, lists->heads, spec, "a step");
    }
}

/* The group's weights of query row q [H, d] over the first n entries of list h, added to score. */
static void add_weights(const struct tensors *t, const struct head *head, uint32_t h, const float *q, uint32_t n,
                        uint32_t counted, float *score) {
    const uint32_t group = t->heads / t->lists;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a), *sum = calloc(n, sizeof *sum);
    assert_true(s && a && sum);
    for (uint32_t g = 0; g < group; g++) {
        attend(head->entries, n, q + (size_t)(h * group + g) * t->d, t->d, s, a, NULL);
        for (uint32_t j = 0; j < n; j++)
            sum[j] += a[j];
    }
    for (uint32_t j = 0; j < counted; j++)
        score[j] += sum[j];
    free(s);
    free(a);
    free(sum);
}

/* ---- dapq ---- */

struct dapq {
    uint32_t prompt, budget, pseudo, kernel;
    bool average;
    uint32_t share; /* percent of what is held, in place of the budget; 0: none */
};

/* What dapq does with a list that has `held` entries when its layer's fullest has `most`. */
static void dapq_list(const struct tensors *t, const struct tensors *extra, const struct dapq *plan, enum kvc_type type,
                      struct lists *lists, uint32_t l, uint32_t h, uint32_t most) {
    struct head *head = &lists->heads[l * t->lists + h];
    const uint32_t n = head->count, budget = plan->share ? share_of(most, plan->share) : plan->budget;
    float *score = calloc(n, sizeof *score);
    assert_non_null(score);
    for (uint32_t i = 0; i < plan->pseudo && most > budget; i++) {
        add(lists, extra, type, l, h, i);
        add_weights(t, head, h, q_row(extra, l, i), n + i + 1, n, score);
    }
    head->count = n;
    pool(score, n, plan->kernel, plan->average);
    if (most > budget)
        keep_top(head, score, budget);
    free(score);
}

/* The last row's output of each group's first head: the prompt's own rows never see a pseudo entry. */
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
                     const struct turn *turns, size_t turn_count, const struct steps *steps, enum kvc_type type,
                     uint32_t chunk) {
    char spec[240];
    struct kvc_error error;
    struct lists lists = make_lists(t);
    float *out = malloc((size_t)t->rows * t->heads * t->d * sizeof *out);
    uint32_t now = 0;
    snprintf(spec, sizeof spec, "dapq:budget=%u%s,pseudo=%u,content=random,kernel=%u,pooling=%s",
             plan->share ? plan->share : plan->budget, plan->share ? "%" : "", plan->pseudo, plan->kernel,
             plan->average ? "avg" : "max");
    add_decode(spec, sizeof spec, steps->decode);
    if (steps->select)
        add_select(spec, sizeof spec, steps->select);
    struct kvc_replay *replay = open_replay(t, spec, type, chunk);
    assert_non_null(out);
    for (size_t k = 0; k < turn_count; k++) {
        const uint32_t rows = turns[k].prompt, from = now;
        now += rows;
        for (uint32_t l = 0; l < t->layers; l++)
            SPEC_FINE(kvc_replay_pseudo(replay, l, q_row(extra, l, 0), extra->k + kv_at(extra, l, 0, 0), plan->pseudo,
                                        &error));
        for (uint32_t l = 0; l < t->layers; l++) {
            const size_t at = kv_at(t, l, from, 0);
            SPEC_FINE(kvc_replay_prompt(replay, l, q_row(t, l, from), t->k + at, t->v + at, rows, out, &error));
            for (uint32_t h = 0; h < t->lists; h++) {
                for (uint32_t row = from; row < now; row++)
                    add(&lists, t, type, l, h, row);
                check_last(t, &lists.heads[l * t->lists + h], l, h, now - 1,
                           out + (size_t)(rows - 1) * t->heads * t->d);
            }
            observe(t, &lists, l, now, rows, steps->decode);
            const uint32_t most = fullest(t, &lists, l);
            for (uint32_t h = 0; h < t->lists; h++)
                dapq_list(t, extra, plan, type, &lists, l, h, most);
        }
        note_after(t, &lists);
        compare(kvc_replay_session(replay), t, lists.heads, spec, "prompt");
        run_steps(replay, t, &lists, steps, type, now, now + turns[k].steps, out, spec);
        now += turns[k].steps;
    }
    kvc_replay_close(replay);
    free(out);
    free_lists(&lists);
}

static const uint32_t shapes[][2] = {{1, 1}, {4, 4}, {4, 1}, {7, 1}, {8, 2}, {8, 1}}; /* heads, KV heads */
static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};

static void test_dapq(void **state) {
    static const struct dapq plans[] = {{40, 10, 4, 1, false, 0}, {40, 39, 32, 3, true, 0}, {40, 40, 5, 1, false, 0},
                                        {41, 1, 1, 5, false, 0},  {300, 64, 8, 7, true, 0}, {1, 1, 3, 1, false, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
            for (enum kind kind = RANDOM; kind < KINDS; kind++) {
                if ((i + p + kind) % 3 && plans[p].prompt > 100)
                    continue;
                if (kvc_test_thinned() && (2 * i + p + kind) % 6)
                    continue;
                struct tensors t = make_tensors(kind, 7 + i + p, 2, shapes[i][0], shapes[i][1],
                                                8 + 8 * (uint32_t)(p % 3), plans[p].prompt + STEPS);
                struct tensors extra = make_tensors(kind, 99 + i, 2, t.heads, t.kv_heads, t.d, plans[p].pseudo);
                const struct turn turn = {plans[p].prompt, STEPS};
                const struct steps steps = {&decodes[(i + p + kind) % DECODES], NULL};
                run_dapq(&t, &extra, &plans[p], &turn, 1, &steps, types[(i + p) % 3], p % 2 ? 7 : 512);
                free_tensors(&t);
                free_tensors(&extra);
            }
}

/* Turns whose rows come to a cache that was cut; shares of what is held; reads chosen among what is left. */
static void test_dapq_turns(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct dapq plans[] = {{.budget = 20, .pseudo = 4, .kernel = 3},
                                        {.share = 30, .pseudo = 5, .kernel = 1},
                                        {.share = 1, .pseudo = 3, .kernel = 1}};
    static const struct select_plan hsa = {HSA, .page = 2, .dims = 4, .topk = 9};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += kvc_test_thinned() ? 4 : 1)
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
            struct tensors t =
                make_tensors((enum kind)((i + p) % KINDS), 17 + i, 2, shapes[i][0], shapes[i][1], 8, 119);
            struct tensors extra = make_tensors((enum kind)((i + p) % KINDS), 5 + i, 2, t.heads, t.kv_heads, t.d, 5);
            const struct steps steps = {&decodes[i % 3 ? 0 : 1 + p], i % 2 ? &hsa : NULL};
            run_dapq(&t, &extra, &plans[p], turns, 4, &steps, types[(i + p) % 3], p % 2 ? 7 : 512);
            free_tensors(&t);
            free_tensors(&extra);
        }
}

/* ---- take ---- */

struct take {
    uint32_t prompt, budget, warmup_budget, warmup_layers, chunk, probe, kernel;
    float alpha;
    bool per_head;
    uint32_t share; /* percent of what is held, in place of the budget (the warm-up's is then four times as much) */
};

struct chunks { /* what is compared after every chunk */
    struct kvc_replay *replay;
    const struct tensors *t;
    const struct take *plan;
    const struct tensors *probes; /* rows chunk * probe + i */
    const struct steps *steps;
    enum kvc_type type;
    struct lists lists;
    uint32_t from, rows; /* the turn's rows, of the tensors' */
    float *A;            /* [layers, probe, H, d] */
    char spec[280];
    uint32_t called;
};

/* The score of list h in a layer: the mean over the probe of softmax(A K^T / sqrt(d)), summed over the group, pooled.
 */
static void take_scores(const struct chunks *c, uint32_t l, uint32_t h, uint32_t p, float *score) {
    const struct tensors *t = c->t;
    const struct head *head = &c->lists.heads[l * t->lists + h];
    memset(score, 0, head->count * sizeof *score);
    for (uint32_t i = 0; i < p; i++)
        add_weights(t, head, h, c->A + ((size_t)l * p + i) * t->heads * t->d, head->count, head->count, score);
    for (uint32_t j = 0; j < head->count; j++)
        score[j] /= (float)p;
    pool(score, head->count, c->plan->kernel, true);
}

/* What layer l keeps of its lists, and where it is W-1 those below. */
static void take_layer(struct chunks *c, uint32_t l, uint32_t p, bool last) {
    const struct tensors *t = c->t;
    const struct take *plan = c->plan;
    const uint32_t W = plan->warmup_layers, held = c->lists.heads[l * t->lists].held;
    const uint32_t B = plan->share ? share_of(held, plan->share) : plan->budget;
    const uint32_t warm = plan->share ? 4 * B : plan->warmup_budget;
    float *score = malloc((fullest(t, &c->lists, l) + 1) * sizeof *score);
    assert_non_null(score);
    if (c->from == 0 && !plan->share)
        assert_true(fullest(t, &c->lists, l) <= plan->chunk + (W ? warm : B));
    const uint32_t budget = l + 1 == W && !last ? warm : B, most = fullest(t, &c->lists, l);
    for (uint32_t h = 0; h < t->lists && most > budget; h++) {
        struct head *head = &c->lists.heads[l * t->lists + h];
        take_scores(c, l, h, p, score);
        keep_top(head, score, budget);
        for (uint32_t below = 0; l + 1 == W && below < l; below++) {
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

/* rocketkv's queries: the last of the turn. Their weights are those of the attention that their chunk had. */
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
                head->entries[j].weight[position] = row[j];
        }
    }
    free(row);
}

/* rocketkv's first stage, behind take's chunks. */
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
                score[j] += head->entries[j].weight[position];
        pool(score, n > w ? n - w : 0, select->kernel, false);
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
    const uint32_t p = plan->probe < c->rows ? plan->probe : c->rows, end = c->from + c->rows;
    const bool last = from + rows == c->rows;
    for (uint32_t l = 0; l < t->layers; l++) {
        const uint32_t held = chunk == 0 ? fullest(t, &c->lists, l) + c->rows : c->lists.heads[l * t->lists].held;
        for (uint32_t h = 0; h < t->lists; h++) {
            c->lists.heads[l * t->lists + h].held = held;
            for (uint32_t i = 0; i < rows; i++)
                add(&c->lists, t, c->type, l, h, c->from + from + i);
        }
        observe(t, &c->lists, l, c->from + from + rows, rows, c->steps->decode);
        note_window(c, l, c->from + from, rows);
        for (uint32_t i = 0; i < p; i++) {
            const float *Q = last ? q_row(t, l, end - p + i) : q_row(c->probes, l, chunk * p + i);
            float *A = c->A + ((size_t)l * p + i) * t->heads * t->d;
            for (uint32_t x = 0; x < t->heads * t->d; x++)
                A[x] = chunk == 0 ? Q[x] : fmaf(plan->alpha, A[x], (1 - plan->alpha) * Q[x]);
        }
        if (l + 1 >= plan->warmup_layers)
            take_layer(c, l, p, last);
    }
    for (uint32_t l = 0; l < t->layers && last; l++) { /* the prompt stage: when every layer has what the chunks left */
        const struct moment moment = {t, c->lists.heads + (size_t)l * t->lists, l, end, c->rows, 0};
        if (window_of(c))
            filter_layer(c, l);
        else
            obvious_evict(&moment, c->steps->decode);
    }
}

static int after_chunk(void *user, uint32_t chunk) {
    struct chunks *c = user;
    char when[32];
    snprintf(when, sizeof when, "chunk %u", chunk);
    assert_int_equal(chunk, c->called++);
    take_chunk(c, chunk);
    compare(kvc_replay_session(c->replay), c->t, c->lists.heads, c->spec, when);
    return 0;
}

static void run_take(const struct tensors *t, const struct tensors *probes, const struct take *plan,
                     const struct turn *turns, size_t turn_count, const struct steps *steps, enum kvc_type type,
                     uint32_t chunk) {
    struct chunks c = {.t = t, .plan = plan, .probes = probes, .steps = steps, .type = type, .lists = make_lists(t)};
    struct kvc_error error;
    float *out = malloc((size_t)t->layers * t->rows * t->heads * t->d * sizeof *out);
    c.A = malloc((size_t)t->layers * plan->probe * t->heads * t->d * sizeof *c.A);
    assert_true(out && c.A);
    snprintf(c.spec, sizeof c.spec, "take:budget=%u%s,warmup_layers=%u,chunk=%u,probe=%u,kernel=%u,alpha=%.9g,per=%s",
             plan->share ? plan->share : plan->budget, plan->share ? "%" : "", plan->warmup_layers, plan->chunk,
             plan->probe, plan->kernel, (double)plan->alpha, plan->per_head ? "head" : "group");
    if (!plan->share)
        snprintf(c.spec + strlen(c.spec), sizeof c.spec - strlen(c.spec), ",warmup_budget=%u", plan->warmup_budget);
    add_decode(c.spec, sizeof c.spec, steps->decode);
    if (steps->decode->decode == MORPHKV && steps->decode->prompt == FULL) /* which would evict after the prompt, too */
        strcat(c.spec, ",stages=decode");
    if (steps->select)
        add_select(c.spec, sizeof c.spec, steps->select);
    const char *spec = c.spec;
    c.replay = open_replay(t, spec, type, chunk);
    kvc_replay_on_chunk(c.replay, after_chunk, &c);
    for (size_t k = 0; k < turn_count; k++) {
        const uint32_t rows = turns[k].prompt, p = plan->probe < rows ? plan->probe : rows;
        const uint32_t count = (rows + plan->chunk - 1) / plan->chunk;
        c.rows = rows;
        c.called = 0;
        for (uint32_t l = 0; l < t->layers; l++)
            for (uint32_t i = 0; i + 1 < count; i++)
                SPEC_FINE(kvc_replay_probe(c.replay, l, i, q_row(probes, l, i * p), p, &error));
        for (uint32_t l = 0; l < t->layers; l++) {
            const size_t kv = kv_at(t, l, c.from, 0);
            SPEC_FINE(kvc_replay_prompt(c.replay, l, q_row(t, l, c.from), t->k + kv, t->v + kv, rows,
                                        out + (size_t)l * t->rows * t->heads * t->d, &error));
        }
        assert_int_equal(c.called, count);
        note_after(t, &c.lists);
        run_steps(c.replay, t, &c.lists, steps, type, c.from + rows, c.from + rows + turns[k].steps, out, spec);
        c.from += rows + turns[k].steps;
    }
    kvc_replay_close(c.replay);
    free(out);
    free(c.A);
    free_lists(&c.lists);
}

static void test_take(void **state) {
    static const struct take plans[] = {
        {60, 10, 20, 1, 16, 4, 5, 0.32f, false, 0},     {61, 8, 8, 2, 20, 8, 3, 0.2f, false, 0},
        {40, 12, 15, 0, 9, 3, 1, 0.0f, false, 0},       {30, 40, 40, 1, 64, 50, 5, 1.0f, false, 0},
        {57, 9, 30, 3, 10, 12, 5, 0.5f, false, 0},      {50, 7, 11, 1, 13, 5, 5, 0.32f, true, 0},
        {400, 40, 100, 2, 120, 16, 5, 0.32f, false, 0}, {8, 3, 3, 1, 1, 1, 1, 0.32f, false, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
            const struct take *plan = &plans[k];
            const enum kind kind = (enum kind)((i + k) % KINDS);
            if (plan->prompt > 100 && i % 3)
                continue;
            if (kvc_test_thinned() && (i + k) % 3)
                continue;
            const uint32_t chunks = (plan->prompt + plan->chunk - 1) / plan->chunk;
            struct tensors t = make_tensors(kind, 31 + i + k, 3, shapes[i][0], shapes[i][1], 8 + 8 * (uint32_t)(k % 2),
                                            plan->prompt + STEPS);
            struct tensors probes = make_tensors(kind, 77 + k, 3, t.heads, t.kv_heads, t.d, chunks * plan->probe);
            if (plan->per_head)
                t.lists = t.heads;
            const struct turn turn = {plan->prompt, STEPS};
            const struct steps steps = {&decodes[(i + k / 2) % DECODES], NULL};
            run_take(&t, &probes, plan, &turn, 1, &steps, types[(i + k) % 3], k % 2 ? 5 : 512);
            free_tensors(&t);
            free_tensors(&probes);
        }
}

/* Turns whose rows come to a cache that was cut; shares of what is held; reads chosen among what is left. */
static void test_take_turns(void **state) {
    static const struct turn turns[] = {{50, 6}, {7, 5}, {1, 4}, {40, 6}};
    static const struct take plans[] = {{0, 12, 20, 1, 13, 5, 5, 0.32f, false, 0},
                                        {0, 9, 30, 3, 10, 12, 5, 0.5f, false, 0},
                                        {0, 0, 0, 2, 16, 6, 3, 0.2f, false, 20},
                                        {0, 0, 0, 1, 64, 6, 3, 0.2f, true, 1}};
    static const struct select_plan selects[] = {{TOPK, .budget = 7},
                                                 {QUEST, .budget = 6, .page = 2},
                                                 {SPARQ, .dims = 3, .topk = 6},
                                                 {HSA, .page = 2, .dims = 4, .topk = 7},
                                                 {ROCKET, .budget = 2, .split = -1, .window = 4, .kernel = 3},
                                                 {ROCKET_MT, .budget = 3, .split = -1, .window = 3, .kernel = 5}};
    enum { SELECTS = sizeof selects / sizeof *selects };
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes * (SELECTS + 1); i += kvc_test_thinned() ? 9 : 1)
        for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
            const uint32_t *shape = shapes[i / (SELECTS + 1)];
            const enum kind kind = (enum kind)((i + k) % KINDS);
            struct tensors t = make_tensors(kind, 27 + i, 3, shape[0], shape[1], 8, 119);
            struct tensors probes = make_tensors(kind, 8 + i, 3, t.heads, t.kv_heads, t.d, 60);
            const struct steps steps = {&decodes[(i + k) % (DECODES - 1)],
                                        i % (SELECTS + 1) ? &selects[i % (SELECTS + 1) - 1] : NULL};
            t.lists = plans[k].per_head ? t.heads : t.kv_heads;
            run_take(&t, &probes, &plans[k], turns, 4, &steps, types[(i + k) % 3], k % 2 ? 5 : 512);
            free_tensors(&t);
            free_tensors(&probes);
        }
}

/* At every moment of prefill a layer holds at most a chunk and the largest of its budgets so far. Here that is three
 * blocks of each list, filled to the last entry where the budget is 256; the prompt has eight. */
static void test_take_bound(void **state) {
    static const char *const specs[] = {"take:budget=64,warmup_budget=256,warmup_layers=3,chunk=512,probe=16",
                                        "take:budget=256,warmup_budget=256,warmup_layers=2,chunk=512,probe=16",
                                        "take:budget=256,warmup_layers=0,chunk=512,probe=16",
                                        "take:budget=64,warmup_layers=0,chunk=512,probe=16"};
    struct kvc_engine *const shared = engine;
    const uint32_t heads = kvc_test_thinned() ? 1 : 8;
    struct tensors t = make_tensors(RANDOM, 5, 3, heads, heads, 8, 2048);
    struct tensors probes = make_tensors(RANDOM, 6, 3, heads, heads, 8, 48);
    float *out = malloc((size_t)t.layers * t.rows * t.heads * t.d * sizeof *out);
    (void)state;
    assert_non_null(out);
    for (size_t c = 0; c < (kvc_test_thinned() ? 1 : sizeof specs / sizeof *specs); c++) {
        const char *spec = specs[c];
        struct kvc_memory memory;
        struct kvc_error error;
        SPEC_FINE(kvc_engine_open(NULL, &engine, &error)); /* whose peak is this run's */
        struct kvc_replay *replay = open_replay(&t, spec, KVC_F32, 0);
        for (uint32_t l = 0; l < t.layers; l++)
            for (uint32_t i = 0; i < 3; i++)
                SPEC_FINE(kvc_replay_probe(replay, l, i, q_row(&probes, l, 16 * i), 16, &error));
        for (uint32_t l = 0; l < t.layers; l++) {
            const size_t kv = kv_at(&t, l, 0, 0);
            SPEC_FINE(kvc_replay_prompt(replay, l, q_row(&t, l, 0), t.k + kv, t.v + kv, t.rows,
                                        out + (size_t)l * t.rows * t.heads * t.d, &error));
        }
        kvc_engine_memory(engine, &memory);
        assert_int_equal(memory.peak[KVC_MEMORY_CACHE], t.layers * t.lists * 3 * 256 * 2 * t.d * sizeof(float));
        kvc_replay_close(replay);
        kvc_engine_close(engine);
    }
    engine = shared;
    free(out);
    free_tensors(&probes);
    free_tensors(&t);
}

/* ---- tova ---- */

static void test_tova(void **state) {
    static const uint32_t budgets[] = {2, 40};
    (void)state;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "tova:budget=%u", budgets[i]);
        const struct scores_plan plan = {.budget = budgets[i]};
        const struct side side = {.spec = spec, .prompt = obvious_tova, .step = obvious_tova, .plan = &plan};
        side_run_all(&side, 2);
        struct tensors t = make_tensors(DRIFT, 3 + i, 1, 4, 2, 8, kvc_test_thinned() ? 90 : 330); /* 300 steps */
        side_run(&t, 30, &side);
        free_tensors(&t);
    }
}

static int open_both(void **state) { return side_open(state) || kvc_engine_open(NULL, &engine, NULL) != KVC_OK; }

static int close_both(void **state) {
    kvc_engine_close(engine);
    return side_close(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dapq),       cmocka_unit_test(test_dapq_turns),
                                       cmocka_unit_test(test_take),       cmocka_unit_test(test_take_turns),
                                       cmocka_unit_test(test_take_bound), cmocka_unit_test(test_tova)};
    return cmocka_run_group_tests(tests, open_both, close_both);
}
