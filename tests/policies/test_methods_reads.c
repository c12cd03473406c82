/* test_methods_reads.c - methods that evict by the attention of every step, joined with methods that select what a step
 * reads: entries that were not read have probability 0 (rule 13 of docs/reference/methods.md). Both keep and read what
 * their oracles do. */
#include "tests/check.h"
#include "tests/oracle/mass.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/select.h"
#include "tests/oracle/side_by_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every kind of tensor, cache types and chunks; several turns. */
static void run(const char *spec, struct select_plan plan, moment_fn *prompt, const void *prompt_plan, moment_fn *step,
                const void *step_plan) {
    static const struct turn turns[] = {{70, 12}, {5, 9}, {30, 14}};
    plan.prompt = prompt, plan.prompt_plan = prompt_plan, plan.step = step, plan.step_plan = step_plan;
    const struct side side = {
        .spec = spec, .prompt = select_prompt, .step = select_step, .plan = &plan, .select = oracle_select};
    if (!kvc_test_thinned())
        side_run_all(&side, 2);
    side_run_kinds(&side, 2, turns, sizeof turns / sizeof *turns);
}

static void run_parts(const char *spec, struct select_plan plan, const struct parts *parts) {
    run(spec, plan, parts_prompt, parts, parts_step, parts);
}

static const struct select_plan topk = {TOPK, .budget = 12}, quest = {QUEST, .budget = 16, .page = 3},
                                sparq = {SPARQ, .dims = 3, .topk = 9}, hsa = {HSA, .page = 2, .dims = 4, .topk = 13};

static void test_morphkv(void **state) {
    (void)state;
    struct plan plan = {
        MORPHKV, MORPHKV, .budget = 30, .window = 10, .every = 1, .decode_budget = 30, .decode_window = 10};
    run("morphkv:budget=30,window=10+topk:budget=12", topk, oracle_prompt, &plan, oracle_step, &plan);
    plan.max_fusion = true;
    plan.every = 4;
    run("morphkv:budget=30,window=10,every=4,fusion=max+quest:budget=16,page=3", quest, oracle_prompt, &plan,
        oracle_step, &plan);
    plan.max_fusion = false, plan.logits = true, plan.every = 1;
    run("morphkv:budget=30,window=10,scores=logits+hsa:page=2,dims=4,topk=13", hsa, oracle_prompt, &plan, oracle_step,
        &plan);
    plan.logits = false, plan.prompt = SNAPKV, plan.budget = 40, plan.window = 8, plan.kernel = 7;
    run("snapkv:budget=40,window=8+morphkv:budget=30,window=10+sparq:dims=3,topk=9", sparq, oracle_prompt, &plan,
        oracle_step, &plan);
}

static void test_h2o(void **state) {
    (void)state;
    const struct mass_plan plan = {.budget = 30};
    const struct parts parts = {oracle_mass_look, oracle_mass, oracle_mass_step, &plan, &plan, &plan};
    run_parts("h2o:budget=30+quest:budget=16,page=3", quest, &parts);
    run_parts("h2o:budget=30+sparq:dims=3,topk=9", sparq, &parts);
}

static void test_keyformer(void **state) {
    (void)state;
    const struct mass_plan plan = {.budget = 30, .noise = true, .tau_init = 1, .tau_end = 2, .steps = 10, .seed = 0};
    const struct parts parts = {oracle_mass_look, oracle_mass, oracle_mass_step, &plan, &plan, &plan};
    run_parts("keyformer:budget=30,steps=10+hsa:page=2,dims=4,topk=13", hsa, &parts);
    run_parts("keyformer:budget=30,steps=10+topk:budget=12", topk, &parts);
}

static void test_scissorhands(void **state) {
    (void)state;
    const struct scores_plan plan = {.budget = 30, .history = 11};
    const struct parts parts = {
        oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step, &plan, &plan, &plan};
    run_parts("scissorhands:budget=30,history=11+sparq:dims=3,topk=9", sparq, &parts);
    run_parts("scissorhands:budget=30,history=11+topk:budget=12", topk, &parts);
}

static void test_tova(void **state) {
    (void)state;
    static const struct scores_plan plan = {.budget = 30};
    run("tova:budget=30+quest:budget=16,page=3", quest, oracle_tova, &plan, oracle_tova, &plan);
    run("tova:budget=30+topk:budget=12", topk, oracle_tova, &plan, oracle_tova, &plan);
    /* An evicted entry also leaves the filtered list. */
    const struct select_plan rocket = {ROCKET_MT, .budget = 16, .split = -1, .window = 8, .kernel = 63};
    static const struct scores_plan groups = {.budget = 30, .by_group = true};
    run("rocketkv-mt:budget=16,window=8+tova:budget=30,per=group", rocket, NULL, NULL, oracle_tova, &groups);
}

/* What a layer holds after the prompt is final only when the layers above have taken their shares. */
static void test_cake(void **state) {
    (void)state;
    struct cake_seen seen = {.mean = 0};
    const struct mass_plan plan = {
        .budget = 40, .window = 8, .kernel = 5, .average = true, .gamma = 200, .tau1 = 1, .tau2 = 1, .seen = &seen};
    const struct parts parts = {.prompt = oracle_cake, .prompt_plan = &plan};
    run_parts("cake:budget=40,window=8+hsa:ratio=2", (struct select_plan){HSA, .ratio = 2}, &parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_morphkv),   cmocka_unit_test(test_h2o),
                                       cmocka_unit_test(test_keyformer), cmocka_unit_test(test_scissorhands),
                                       cmocka_unit_test(test_tova),      cmocka_unit_test(test_cake)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
