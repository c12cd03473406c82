/* test_methods.c - every method keeps exactly the entries that slow, obvious code keeps (tests/obvious.c); and
 * attention over what is left has the same bits. */
#include "tests/check.h"
#include "tests/obvious.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- one run of both ---- */

static struct kvc_engine *engine;

static void compare_lists(const struct kvc_session *session, const struct head *heads, const struct tensors *t,
                          uint32_t l, const char *what) {
    int32_t *positions = malloc(t->rows * sizeof *positions);
    assert_non_null(positions);
    for (uint32_t h = 0; h < t->kv_heads; h++) {
        const struct head *head = &heads[l * t->kv_heads + h];
        size_t count = 0;
        assert_int_equal(kvc_session_positions(session, l, h, positions, t->rows, &count, NULL), KVC_OK);
        bool same = count == head->count;
        for (uint32_t j = 0; same && j < count; j++)
            same = positions[j] == head->entries[j].position;
        if (!same) {
            print_error("%s: layer %u head %u keeps other entries (%zu, expected %u)\n", what, l, h, count,
                        head->count);
            fail();
        }
    }
    free(positions);
}

static void compare_output(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t row,
                           uint32_t seen, const float *out, const char *what) {
    const uint32_t group = t->heads / t->kv_heads;
    float *s = malloc(seen * sizeof *s), *a = malloc(seen * sizeof *a), *expected = malloc(t->d * sizeof *expected);
    assert_true(s && a && expected);
    for (uint32_t g = 0; g < group; g++) {
        const size_t at = (size_t)(h * group + g) * t->d;
        attend(head->entries, seen, q_row(t, l, row) + at, t->d, s, a, expected);
        if (memcmp(expected, out + at, t->d * sizeof(float))) {
            print_error("%s: layer %u head %u row %u: other output\n", what, l, h * group + g, row);
            fail();
        }
    }
    free(s);
    free(a);
    free(expected);
}

/* A session and the obvious code's heads [layers, H_kv], side by side. */
struct both {
    const struct tensors *t;
    const struct plan *plan;
    enum kvc_type type;
    char what[300];
    struct kvc_replay *replay;
    struct head *heads;
    struct entry *entries; /* of all heads */
    float **keys, *out;
    size_t key_count;
};

static struct head *append_to(struct both *both, uint32_t l, uint32_t h, uint32_t row) {
    struct head *head = &both->heads[l * both->t->kv_heads + h];
    append(head, both->t, both->type, l, h, row);
    both->keys[both->key_count++] = head->entries[head->count - 1].k;
    return head;
}

/* The turn of rows from .. from + rows - 1. */
static void prompt_both(struct both *both, uint32_t from, uint32_t rows) {
    const struct tensors *t = both->t;
    struct kvc_error error;
    for (uint32_t l = 0; l < t->layers; l++) {
        const size_t kv = kv_at(t, l, from, 0);
        if (kvc_replay_prompt(both->replay, l, q_row(t, l, from), t->k + kv, t->v + kv, rows, both->out, &error) !=
            KVC_OK)
            fail_msg("%s: %s", both->what, error.text);
        for (uint32_t h = 0; h < t->kv_heads; h++) {
            struct head *head = &both->heads[l * t->kv_heads + h];
            const uint32_t before = head->count;
            for (uint32_t i = 0; i < rows; i++)
                append_to(both, l, h, from + i);
            for (uint32_t i = 0; i < rows; i += 1 + rows / 5)
                compare_output(t, head, l, h, from + i, before + i + 1, both->out + (size_t)i * t->heads * t->d,
                               both->what);
            obvious_prompt(t, head, l, h, both->plan, from + rows, rows);
        }
        compare_lists(kvc_replay_session(both->replay), both->heads, t, l, both->what);
    }
}

static void step_both(struct both *both, uint32_t row, uint32_t step) {
    const struct tensors *t = both->t;
    struct kvc_error error;
    for (uint32_t l = 0; l < t->layers; l++) {
        const size_t kv = kv_at(t, l, row, 0);
        if (kvc_replay_step(both->replay, l, q_row(t, l, row), t->k + kv, t->v + kv, both->out, &error) != KVC_OK)
            fail_msg("%s: %s", both->what, error.text);
        for (uint32_t h = 0; h < t->kv_heads; h++) {
            struct head *head = append_to(both, l, h, row);
            compare_output(t, head, l, h, row, head->count, both->out, both->what);
            obvious_step(t, head, l, h, both->plan, row, step);
        }
        compare_lists(kvc_replay_session(both->replay), both->heads, t, l, both->what);
    }
}

struct turn {
    uint32_t prompt, steps;
};

static void run_turns(const struct tensors *t, const struct turn *turns, size_t turn_count, const char *spec,
                      const struct plan *plan, enum kvc_type type, uint32_t chunk) {
    const size_t heads = (size_t)t->layers * t->kv_heads;
    const struct kvc_geometry geometry = {t->layers, t->heads, t->kv_heads, t->d};
    struct kvc_error error;
    struct kvc_session_options options;
    struct both both = {t, plan, type, "", NULL, NULL, NULL, NULL, NULL, 0};
    snprintf(both.what, sizeof both.what, "%s, H %u/%u, d %u, prompt %u of %u, %s, %zu turns", spec, t->heads,
             t->kv_heads, t->d, turns[0].prompt, t->rows, kvc_type_name(type), turn_count);
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = type;
    options.chunk = chunk;
    if (kvc_replay_open(engine, &geometry, &options, &both.replay, &error) != KVC_OK)
        fail_msg("%s: %s", both.what, error.text);
    both.heads = calloc(heads, sizeof *both.heads);
    both.out = malloc((size_t)t->rows * t->heads * t->d * sizeof *both.out);
    both.entries = calloc(heads * t->rows, sizeof *both.entries);
    both.keys = malloc(heads * t->rows * sizeof *both.keys);
    assert_true(both.heads && both.out && both.entries && both.keys);
    for (size_t i = 0; i < heads; i++)
        both.heads[i].entries = both.entries + i * t->rows;
    uint32_t row = 0;
    for (size_t i = 0; i < turn_count; i++) {
        prompt_both(&both, row, turns[i].prompt);
        row += turns[i].prompt;
        for (uint32_t step = 1; step <= turns[i].steps; step++)
            step_both(&both, row++, step);
    }
    assert_int_equal(row, t->rows);
    for (size_t i = 0; i < both.key_count; i++)
        free(both.keys[i]);
    free(both.keys);
    free(both.entries);
    free(both.heads);
    free(both.out);
    kvc_replay_close(both.replay);
}

static void run(const struct tensors *t, uint32_t prompt, const char *spec, const struct plan *plan, enum kvc_type type,
                uint32_t chunk) {
    const struct turn turn = {prompt, t->rows - prompt};
    run_turns(t, &turn, 1, spec, plan, type, chunk);
}

struct shape {
    uint32_t heads, kv_heads, d, prompt, rows;
};
static const struct shape shapes[] = {
    {4, 4, 8, 60, 75},   /* multi-head */
    {8, 2, 16, 90, 100}, /* G = 4 */
    {8, 1, 40, 47, 60},  /* G = 8, one KV head, channels not a multiple of 32 */
    {7, 1, 32, 41, 50},  /* G = 7; the prompt is the budget + 1 */
    {1, 1, 8, 40, 50},   /* one head; the prompt is the budget */
    {2, 1, 8, 1, 50},    /* a prompt of one token */
    {2, 2, 64, 300, 310} /* more than one tile */
};

/* A spec with budget 40 over every kind of tensor and shape. */
static void run_all(const char *spec, const struct plan *plan) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const uint32_t chunks[] = {0, 7, 1, 33};
    uint64_t n = 0;
    for (enum kind kind = RANDOM; kind < KINDS; kind++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, n++) {
            const struct shape *shape = &shapes[s];
            if (kvc_test_thinned() && n % 8 != 0)
                continue;
            struct tensors t =
                make_tensors(kind, 1000 * n + 7, 2, shape->heads, shape->kv_heads, shape->d, shape->rows);
            run(&t, shape->prompt, spec, plan, types[n % 3], chunks[n % 4]);
            free_tensors(&t);
        }
    }
}

static void test_full(void **state) {
    (void)state;
    run_all("full", &(struct plan){FULL, FULL, .budget = UINT32_MAX, .decode_budget = UINT32_MAX});
}
static void test_window(void **state) {
    (void)state;
    run_all("window:budget=40", &(struct plan){WINDOW, WINDOW, .budget = 40, .decode_budget = 40});
}
static void test_streaming(void **state) {
    (void)state;
    run_all("streaming:budget=40", &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 4, .decode_budget = 40});
    run_all("streaming:budget=40,sinks=0",
            &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 0, .decode_budget = 40});
    run_all("streaming:budget=40,sinks=39",
            &(struct plan){STREAMING, STREAMING, .budget = 40, .sinks = 39, .decode_budget = 40});
}
static void test_snapkv(void **state) {
    (void)state;
    struct plan plan = {SNAPKV, FULL, .budget = 40, .window = 32, .kernel = 7, .decode_budget = UINT32_MAX};
    run_all("snapkv:budget=40", &plan);
    plan.window = 39;
    run_all("snapkv:budget=40,window=39", &plan);
    plan.window = 1, plan.kernel = 1;
    run_all("snapkv:budget=40,window=1,kernel=1", &plan);
    plan.window = 8, plan.kernel = 63, plan.average = true;
    run_all("snapkv:budget=40,window=8,kernel=63,pooling=avg", &plan);
}
static void test_morphkv(void **state) {
    (void)state;
    struct plan plan = {
        MORPHKV, MORPHKV, .budget = 40, .window = 32, .every = 1, .decode_budget = 40, .decode_window = 32};
    run_all("morphkv:budget=40", &plan);
    plan.max_fusion = true;
    run_all("morphkv:budget=40,fusion=max", &plan);
    plan.logits = true;
    run_all("morphkv:budget=40,fusion=max,scores=logits", &plan);
    plan.max_fusion = false, plan.every = 8, plan.window = plan.decode_window = 5;
    run_all("morphkv:budget=40,window=5,scores=logits,every=8", &plan);
    plan.logits = false, plan.every = 3, plan.window = plan.decode_window = 39, plan.skip_layers = 1;
    run_all("morphkv:budget=40,window=39,every=3,skip_layers=1", &plan);
    plan.every = 1, plan.window = plan.decode_window = 1, plan.skip_layers = 0;
    run_all("morphkv:budget=40,window=1", &plan);
}
static void test_pairs(void **state) {
    (void)state;
    run_all("snapkv:budget=40+morphkv:budget=30,window=10",
            &(struct plan){SNAPKV, MORPHKV, .budget = 40, .window = 32, .kernel = 7, .every = 1, .decode_budget = 30,
                           .decode_window = 10});
    run_all("snapkv:budget=40,window=8+streaming:budget=44",
            &(struct plan){SNAPKV, STREAMING, .budget = 40, .window = 8, .kernel = 7, .sinks = 4, .decode_budget = 44});
    run_all("streaming:budget=40,stages=prompt+window:budget=41,stages=decode",
            &(struct plan){STREAMING, WINDOW, .budget = 40, .sinks = 4, .decode_budget = 41});
}
/* 10% of the prompt, and at least window + 1. */
static void test_shares(void **state) {
    (void)state;
    struct tensors t = make_tensors(RANDOM, 5, 2, 4, 2, 16, 240);
    run(&t, 205, "snapkv:budget=10%,window=8",
        &(struct plan){SNAPKV, FULL, .budget = 21, .window = 8, .kernel = 7, .decode_budget = UINT32_MAX}, KVC_F32,
        0); /* 20.5 rounds up */
    run(&t, 205, "streaming:budget=1%",
        &(struct plan){STREAMING, STREAMING, .budget = 5, .sinks = 4, .decode_budget = 5}, KVC_F32, 0);
    run(&t, 205, "morphkv:budget=1%,window=8",
        &(struct plan){MORPHKV, MORPHKV, .budget = 9, .window = 8, .every = 1, .decode_budget = 9, .decode_window = 8},
        KVC_F32, 0);
    run(&t, 49, "window:budget=1%", &(struct plan){WINDOW, WINDOW, .budget = 1, .decode_budget = 1}, KVC_F32, 0);
    free_tensors(&t);
}

/* Rule 15: N of a later turn is what is held, w at most the turn; `every` counts from the turn on; a ring keeps the
 * rows of the queries before a short turn. */
static void test_turns(void **state) {
    (void)state;
    static const struct turn turns[] = {{60, 11}, {5, 13}, {1, 9}, {50, 10}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const struct {
        const char *spec;
        struct plan plan;
    } cases[] = {
        {"window:budget=40", {WINDOW, WINDOW, .budget = 40, .decode_budget = 40}},
        {"streaming:budget=40", {STREAMING, STREAMING, .budget = 40, .sinks = 4, .decode_budget = 40}},
        {"streaming:budget=60%,sinks=3", {STREAMING, STREAMING, .sinks = 3, .share = 60}},
        {"snapkv:budget=40,window=8", {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7, .decode_budget = 9999}},
        {"snapkv:budget=30%,window=8", {SNAPKV, FULL, .window = 8, .kernel = 7, .share = 30}},
        {"morphkv:budget=40,window=10",
         {MORPHKV, MORPHKV, .budget = 40, .window = 10, .every = 1, .decode_budget = 40, .decode_window = 10}},
        {"morphkv:budget=40,window=10,every=4",
         {MORPHKV, MORPHKV, .budget = 40, .window = 10, .every = 4, .decode_budget = 40, .decode_window = 10}},
        {"morphkv:budget=50%,window=10,scores=logits,fusion=max",
         {MORPHKV, MORPHKV, .window = 10, .every = 1, .decode_window = 10, .max_fusion = true, .logits = true,
          .share = 50}},
        {"morphkv:budget=40,window=10,stages=prompt",
         {MORPHKV, FULL, .budget = 40, .window = 10, .every = 1, .decode_budget = 9999}},
        {"snapkv:budget=40,window=8+morphkv:budget=36,window=10,every=3",
         {SNAPKV, MORPHKV, .budget = 40, .window = 8, .kernel = 7, .every = 3, .decode_budget = 36,
          .decode_window = 10}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct tensors t = make_tensors(c % 2 ? PLANTED : RANDOM, 77 + c, 2, 4, 2, 16, 159);
        run_turns(&t, turns, sizeof turns / sizeof *turns, cases[c].spec, &cases[c].plan, types[c % 3], c % 4 ? 7 : 0);
        free_tensors(&t);
    }
}

static int open_engine(void **state) {
    (void)state;
    struct kvc_error error;
    const struct kvc_engine_options options = {getenv("KVCULL_TEST_BACKEND"), 2, KVC_MATH_EXACT};
    return kvc_engine_open(&options, &engine, &error) == KVC_OK ? 0 : -1;
}
static int close_engine(void **state) {
    (void)state;
    kvc_engine_close(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full),      cmocka_unit_test(test_window),
                                       cmocka_unit_test(test_streaming), cmocka_unit_test(test_snapkv),
                                       cmocka_unit_test(test_morphkv),   cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_shares),    cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
