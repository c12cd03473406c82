/* test_methods.c - every method keeps exactly the entries that its oracle keeps (tests/oracle/oracle.c), and attention
 * over them is bit-identical. */
#include "tests/check.h"
#include "tests/oracle/side_by_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs a spec with budget 40. */
static void run_all(const char *spec, const struct plan *plan) {
    side_run_all(&(struct side){.spec = spec, .prompt = oracle_prompt, .step = oracle_step, .plan = plan}, 2);
}

static void run(const struct tensors *t, uint32_t prompt, const char *spec, const struct plan *plan) {
    side_run(t, prompt, &(struct side){.spec = spec, .prompt = oracle_prompt, .step = oracle_step, .plan = plan});
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
    plan.logits = false, plan.every = 3, plan.window = plan.decode_window = 39, plan.left_out = 1;
    run_all("morphkv:budget=40,window=39,every=3,skip_layers=1", &plan);
    plan.every = 1, plan.window = plan.decode_window = 1, plan.left_out = 0;
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
/* 10% of the prompt, but at least window + 1. */
static void test_shares(void **state) {
    (void)state;
    struct tensors t = make_tensors(RANDOM, 5, 2, 4, 2, 16, 240);
    run(&t, 205, "snapkv:budget=10%,window=8",
        &(struct plan){SNAPKV, FULL, .budget = 21, .window = 8, .kernel = 7,
                       .decode_budget = UINT32_MAX}); /* 20.5 rounds up */
    run(&t, 205, "streaming:budget=1%",
        &(struct plan){STREAMING, STREAMING, .budget = 5, .sinks = 4, .decode_budget = 5});
    run(&t, 205, "morphkv:budget=1%,window=8",
        &(struct plan){MORPHKV, MORPHKV, .budget = 9, .window = 8, .every = 1, .decode_budget = 9, .decode_window = 8});
    run(&t, 49, "window:budget=1%", &(struct plan){WINDOW, WINDOW, .budget = 1, .decode_budget = 1});
    free_tensors(&t);
}

/* Rule 15: in a later turn N is the number of held entries, and w is at most the turn's length; `every` counts from the
 * turn on; a ring keeps the queries from before a short turn. */
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
        const struct side side = {
            cases[c].spec, oracle_prompt, oracle_step, &cases[c].plan, types[c % 3], c % 4 ? 7 : 0, 0, false, NULL};
        side_run_turns(&t, turns, sizeof turns / sizeof *turns, &side);
        free_tensors(&t);
    }
}

/* 300 decode steps. */
static void test_long(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        struct plan plan;
    } cases[] = {{"morphkv:budget=24,window=8", {MORPHKV, MORPHKV, .budget = 24, .window = 8, .every = 1}},
                 {"morphkv:budget=24,window=9,fusion=max,every=7",
                  {MORPHKV, MORPHKV, .budget = 24, .window = 9, .every = 7, .max_fusion = true}},
                 {"morphkv:budget=60,window=20,scores=logits",
                  {MORPHKV, MORPHKV, .budget = 60, .window = 20, .every = 1, .logits = true}},
                 {"window:budget=33", {WINDOW, WINDOW, .budget = 33}},
                 {"streaming:budget=33", {STREAMING, STREAMING, .budget = 33, .sinks = 4}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += kvc_test_thinned() ? 3 : 1) {
        const uint32_t prompt = c % 2 ? 1 : 40;
        struct tensors t = make_tensors(c % 2 ? PLANTED : DRIFT, 50 + c, 2, 4, c % 2 ? 1 : 2, 8, prompt + 300);
        struct plan plan = cases[c].plan;
        plan.decode_budget = plan.budget, plan.decode_window = plan.window;
        run(&t, prompt, cases[c].spec, &plan);
        free_tensors(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),   cmocka_unit_test(test_window),  cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_snapkv), cmocka_unit_test(test_morphkv), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_shares), cmocka_unit_test(test_turns),   cmocka_unit_test(test_long)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
