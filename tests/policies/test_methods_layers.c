/* test_methods_layers.c - cake and fastkv keep exactly what their oracles keep (tests/oracle/mass.c), alone and with
 * other methods. */
#include "tests/check.h"
#include "tests/oracle/mass.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/side_by_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct side side_of(const char *spec, const struct parts *parts) {
    return (struct side){.spec = spec, .prompt = parts_prompt, .step = parts_step, .plan = parts};
}

static void run_parts(const char *spec, const struct parts *parts, uint32_t layers) {
    const struct side side = side_of(spec, parts);
    side_run_all(&side, layers);
}

/* One turn in which some rows do not reach the upper layers. */
static void run_rows(const char *spec, const struct parts *parts, uint32_t layers, const struct turn *turn) {
    const struct side side = side_of(spec, parts);
    side_run_kinds(&side, layers, turn, 1);
}

/* ---- cake ---- */

static void run_cake(const char *spec, struct mass_plan plan, uint32_t layers) {
    struct cake_seen seen = {.mean = 0};
    plan.seen = &seen;
    const struct parts parts = {.prompt = oracle_cake, .prompt_plan = &plan};
    run_parts(spec, &parts, layers);
}

static const struct mass_plan cake_standard = {
    .budget = 40, .window = 32, .kernel = 5, .average = true, .gamma = 200, .tau1 = 1, .tau2 = 1};

static void test_cake(void **state) {
    (void)state;
    struct mass_plan plan = cake_standard;
    run_cake("cake:budget=40", plan, 3);
    plan.window = 8, plan.gamma = 0, plan.tau1 = 2.5, plan.tau2 = 0.4;
    run_cake("cake:budget=40,window=8,gamma=0,tau1=2.5,tau2=0.4", plan, 4);
    plan.window = 39, plan.gamma = 1e6, plan.kernel = 1, plan.tau1 = plan.tau2 = 1;
    run_cake("cake:budget=40,window=39,gamma=1e6,kernel=1", plan, 2);
    plan.window = 1, plan.gamma = 200, plan.kernel = 9, plan.average = false, plan.left_out = 1;
    run_cake("cake:budget=40,window=1,kernel=9,pooling=max,skip_layers=1", plan, 4);
    plan.window = 4, plan.left_out = 0, plan.kernel = 5, plan.average = true, plan.tau1 = 0.05, plan.tau2 = 100;
    run_cake("cake:budget=40,window=4,tau1=0.05,tau2=100", plan, 3);
}

/* Each layer attends more sharply than the one before, so that its share differs. */
static void sharpen_layers(struct tensors *t) {
    for (uint32_t l = 0; l < t->layers; l++)
        for (size_t i = kv_at(t, l, 0, 0); i < kv_at(t, l + 1, 0, 0); i++)
            t->k[i] *= (float)((l * 5 + 2) % 7);
}

/* Layers with very different shares still keep everything while none of them holds more than the budget. */
static void test_cake_shares(void **state) {
    static const uint32_t prompts[] = {20, 39, 40, 41, 44, 90};
    struct cake_seen seen = {.mean = 0};
    struct mass_plan plan = cake_standard;
    (void)state;
    plan.window = 4, plan.seen = &seen;
    const struct parts parts = {.prompt = oracle_cake, .prompt_plan = &plan};
    const struct side side = side_of("cake:budget=40,window=4", &parts);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct tensors t = make_tensors(RANDOM, 40 + seed, 4, 4, 2, 8, prompts[i] + 5);
            sharpen_layers(&t);
            side_run(&t, prompts[i], &side);
            free_tensors(&t);
        }
}

/* ---- fastkv ---- */

static void test_fastkv(void **state) {
    (void)state;
    struct mass_plan plan = {.budget = 40, .window = 8, .kernel = 7, .average = true, .tsp = 2048, .tsp_layer = 1};
    const struct parts parts = {.prompt = oracle_fastkv, .prompt_plan = &plan};
    run_parts("fastkv:budget=40", &parts, 4); /* prompts shorter than tsp */
    struct turn turn = {90, 12};
    plan.tsp = 60;
    run_rows("fastkv:budget=40,tsp=60", &parts, 4, &turn);
    plan.tsp = 30; /* lower than the budget */
    run_rows("fastkv:budget=40,tsp=30", &parts, 5, &turn);
    plan.tsp_layer = 0, plan.tsp = 9, plan.average = false, plan.kernel = 1;
    run_rows("fastkv:budget=40,tsp=9,tsp_layer=0,pooling=max,kernel=1", &parts, 2, &turn);
    turn.prompt = 41;
    plan.tsp = 40, plan.tsp_layer = 1;
    run_rows("fastkv:budget=40,tsp=40,tsp_layer=1,pooling=max,kernel=1", &parts, 2,
             &turn); /* none reaches the layers above */
    turn.prompt = 290;
    plan.window = 39, plan.tsp = 270, plan.tsp_layer = 0, plan.kernel = 63, plan.average = true, plan.budget = 280;
    run_rows("fastkv:budget=280,window=39,tsp=270,tsp_layer=0,kernel=63", &parts, 2, &turn);
    turn.prompt = 1;
    run_rows("fastkv:budget=280,window=39,tsp=270,tsp_layer=0,kernel=63", &parts, 2, &turn);
    turn = (struct turn){100, 9};
    plan = (struct mass_plan){
        .share = 20, .window = 8, .kernel = 7, .average = true, .tsp = 50, .tsp_layer = 1, .left_out = 1};
    run_rows("fastkv:budget=20%,tsp=50,tsp_layer=1,skip_layers=1", &parts, 3, &turn);
}

/* ---- with other methods ---- */

static void test_pairs(void **state) {
    (void)state;
    static const struct turn turn = {90, 20};
    const struct plan morphkv = {
        FULL, MORPHKV, .budget = UINT32_MAX, .every = 1, .decode_budget = 30, .decode_window = 8};
    const struct plan snapkv = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7};
    const struct plan streaming = {FULL, STREAMING, .budget = UINT32_MAX, .sinks = 4, .decode_budget = 30};
    const struct mass_plan h2o = {.budget = 30};
    struct cake_seen seen = {.mean = 0};
    struct mass_plan cake = cake_standard;
    const struct mass_plan fastkv = {
        .budget = 40, .window = 8, .kernel = 7, .average = true, .tsp = 50, .tsp_layer = 0};
    const struct mass_plan rows_only = {.window = 8, .kernel = 7, .average = true, .tsp = 50, .tsp_layer = 0};
    cake.window = 8, cake.seen = &seen;
    struct parts parts = {oracle_prompt, oracle_cake, oracle_step, &morphkv, &cake, &morphkv};
    run_rows("cake:budget=40,window=8+morphkv:budget=30,window=8", &parts, 3, &turn);
    parts = (struct parts){NULL, oracle_cake, oracle_step, NULL, &cake, &streaming};
    run_rows("cake:budget=40,window=8+streaming:budget=30", &parts, 2, &turn);
    parts = (struct parts){oracle_mass_look, oracle_cake, oracle_mass_step, &h2o, &cake, &h2o};
    run_rows("cake:budget=40,window=8+h2o:budget=30", &parts, 2, &turn);
    parts = (struct parts){oracle_prompt, oracle_fastkv, oracle_step, &morphkv, &fastkv, &morphkv};
    run_rows("fastkv:budget=40,tsp=50+morphkv:budget=30,window=8", &parts, 3, &turn);
    parts = (struct parts){oracle_mass_look, oracle_fastkv, oracle_mass_step, &h2o, &fastkv, &h2o};
    run_rows("fastkv:budget=40,tsp=50+h2o:budget=30", &parts, 2, &turn);
    parts = (struct parts){oracle_fastkv, oracle_prompt, oracle_step, &rows_only, &snapkv, &snapkv};
    run_rows("snapkv:budget=40,window=8+fastkv:budget=99,tsp=50", &parts, 3, &turn);
}

static void run_rings(const char *spec, const struct parts *parts, uint64_t n) {
    static const struct turn turns[] = {{70, 10}, {50, 9}, {3, 2}, {45, 7}};
    static const uint32_t shapes[][2] = {{4, 4}, {8, 2}, {7, 1}, {1, 1}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    for (uint64_t i = n; i < n + 4; i += kvc_test_thinned() ? 4 : 1) {
        struct tensors t = make_tensors((enum kind)(i % KINDS), 9 + i, 2, shapes[i % 4][0], shapes[i % 4][1], 16, 196);
        struct side side = side_of(spec, parts);
        side.type = types[i % 3];
        t.kept_rows = malloc(2 * 196);
        assert_non_null(t.kept_rows);
        memset(t.kept_rows, true, 2 * 196);
        side_run_turns(&t, turns, sizeof turns / sizeof *turns, &side);
        free(t.kept_rows);
        free_tensors(&t);
    }
}

/* Rings of queries after fastkv, over several turns: rows that did not reach a layer have no query there, and the
 * attention from an earlier turn's queries is forgotten. */
static void test_rings(void **state) {
    (void)state;
    static const struct mass_plan cut = {.window = 8, .kernel = 7, .average = true, .tsp = 12, .tsp_layer = 0};
    static const struct scores_plan scissorhands = {.budget = 40, .history = 32};
    static const struct scores_plan prompt_only = {.budget = 40, .history = 32, .prompt_only = true};
    const char *const morphkv[] = {"", ",fusion=max", ",scores=logits", ",scores=logits,fusion=max,every=3"};
    struct mass_plan fastkv = cut;
    struct parts parts;
    char spec[160];
    fastkv.budget = 44;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t prompt = 0; prompt < 2; prompt++) {
            struct plan plan = {.every = i == 3 ? 3 : 1, .max_fusion = i % 2, .logits = i >= 2};
            plan.prompt = prompt ? MORPHKV : FULL;
            plan.decode = prompt ? FULL : MORPHKV;
            plan.budget = prompt ? 40 : UINT32_MAX;
            plan.window = plan.decode_window = 32;
            plan.decode_budget = prompt ? UINT32_MAX : 40;
            if (prompt)
                parts = (struct parts){oracle_fastkv, oracle_prompt, oracle_step, &cut, &plan, &plan};
            else
                parts = (struct parts){oracle_prompt, oracle_fastkv, oracle_step, &plan, &fastkv, &plan};
            snprintf(spec, sizeof spec, "fastkv:budget=44,tsp=12,tsp_layer=0+morphkv:budget=40,window=32%s%s",
                     morphkv[i], prompt ? ",stages=prompt" : "");
            run_rings(spec, &parts, 3 * i + prompt);
        }
    parts = (struct parts){
        oracle_scissorhands_look, oracle_fastkv, oracle_scissorhands_step, &scissorhands, &fastkv, &scissorhands};
    run_rings("fastkv:budget=44,tsp=12,tsp_layer=0+scissorhands:budget=40,history=32", &parts, 1);
    struct parts both = {oracle_fastkv, oracle_scissorhands_look, NULL, &cut, &prompt_only, NULL};
    struct parts last = {parts_prompt, oracle_scissorhands, NULL, &both, &prompt_only, NULL};
    run_rings("fastkv:budget=44,tsp=12,tsp_layer=0+scissorhands:budget=40,history=32,stages=prompt", &last, 2);
}

/* ---- shares of the prompt, and turns ---- */

static void test_turns(void **state) {
    (void)state;
    static const struct turn turns[] = {{60, 11}, {5, 13}, {1, 9}, {50, 10}};
    static const struct mass_plan h2o = {.budget = 40};
    static const struct mass_plan fastkv = {
        .budget = 30, .window = 8, .kernel = 7, .average = true, .tsp = 40, .tsp_layer = 0};
    static const struct mass_plan fastkv_share = {
        .share = 70, .window = 8, .kernel = 7, .average = true, .tsp = 20, .tsp_layer = 1};
    struct cake_seen seen = {.mean = 0};
    struct mass_plan cake = cake_standard, cake_share;
    cake.window = 8, cake.seen = &seen;
    cake_share = cake;
    cake_share.share = 40;
    const struct {
        const char *spec;
        struct parts parts;
    } cases[] = {
        {"cake:budget=40,window=8", {.prompt = oracle_cake, .prompt_plan = &cake}},
        {"cake:budget=40%,window=8", {.prompt = oracle_cake, .prompt_plan = &cake_share}},
        {"cake:budget=40,window=8+h2o:budget=40", {oracle_mass_look, oracle_cake, oracle_mass_step, &h2o, &cake, &h2o}},
        {"fastkv:budget=30,tsp=40,tsp_layer=0", {.prompt = oracle_fastkv, .prompt_plan = &fastkv}},
        {"fastkv:budget=70%,tsp=20,tsp_layer=1", {.prompt = oracle_fastkv, .prompt_plan = &fastkv_share}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct side side = side_of(cases[c].spec, &cases[c].parts);
        side_run_kinds(&side, 3, turns, sizeof turns / sizeof *turns);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cake),   cmocka_unit_test(test_cake_shares),
                                       cmocka_unit_test(test_fastkv), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_rings),  cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
