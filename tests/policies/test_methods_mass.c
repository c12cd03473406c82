/* test_methods_mass.c - h2o and keyformer keep exactly what their oracles keep (tests/oracle/mass.c), alone and with
 * other methods. */
#include "tests/oracle/mass.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/side_by_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct side side_of(const char *spec, const struct parts *parts) {
    return (struct side){.spec = spec, .prompt = parts_prompt, .step = parts_step, .plan = parts};
}

static void run_parts(const char *spec, const struct parts *parts, uint32_t layers, bool per_head) {
    struct side side = side_of(spec, parts);
    side.per_head = per_head;
    side_run_all(&side, layers);
}

static struct parts mass(const struct mass_plan *plan) {
    return (struct parts){oracle_mass_look, oracle_mass, oracle_mass_step, plan, plan, plan};
}

static void run_mass(const char *spec, const struct mass_plan *plan, uint32_t layers) {
    const struct parts parts = mass(plan);
    run_parts(spec, &parts, layers, false);
}

static void test_h2o(void **state) {
    (void)state;
    struct mass_plan plan = {.budget = 40};
    run_mass("h2o:budget=40", &plan, 2);
    plan.recent = 39;
    run_mass("h2o:budget=40,recent=39", &plan, 1);
    plan.recent = 1, plan.left_out = 1;
    run_mass("h2o:budget=40,recent=1,skip_layers=1", &plan, 2);
    plan.recent = 0, plan.left_out = 0;
    const struct parts parts = mass(&plan);
    run_parts("h2o:budget=40,per=head", &parts, 2, true);
}

static void test_keyformer(void **state) {
    (void)state;
    struct mass_plan plan = {.budget = 40, .noise = true, .tau_init = 1, .tau_end = 2};
    run_mass("keyformer:budget=40,seed=0", &plan, 2);
    plan.seed = 9007199254740992u, plan.steps = 10;
    run_mass("keyformer:budget=40,steps=10,seed=9007199254740992", &plan, 1);
    plan.seed = 77, plan.steps = 300, plan.tau_init = 0.25, plan.tau_end = 0.01, plan.recent = 39;
    run_mass("keyformer:budget=40,steps=300,seed=77,tau_init=0.25,tau_end=0.01,recent=39", &plan, 1);
    plan.steps = 3, plan.tau_init = 1000, plan.tau_end = 1000, plan.recent = 1, plan.left_out = 1;
    run_mass("keyformer:budget=40,steps=3,seed=77,tau_init=1000,tau_end=1000,recent=1,skip_layers=1", &plan, 2);
}

/* Longer than two tiles of queries, so that sums are folded during the prompt and while decoding. */
static void test_long(void **state) {
    (void)state;
    static const struct turn turn = {250, 300}, folded = {300, 20};
    static const struct mass_plan h2o = {.budget = 30};
    static const struct mass_plan keyformer = {
        .budget = 30, .noise = true, .tau_init = 1, .tau_end = 2, .steps = 250, .seed = 5};
    const struct parts parts[2] = {mass(&h2o), mass(&keyformer)};
    static const char *const specs[2] = {"h2o:budget=30", "keyformer:budget=30,steps=250,seed=5"};
    for (int i = 0; i < 2; i++) {
        struct side side = {.spec = specs[i], .prompt = parts_prompt, .step = parts_step, .plan = &parts[i]};
        struct tensors t = make_tensors(i ? DRIFT : PLANTED, 3 + (uint64_t)i, 1, 2, 1, 8, 550);
        side_run_turns(&t, &turn, 1, &side);
        free_tensors(&t);
        for (uint32_t chunk = 0; chunk < 300; chunk = chunk * 5 + 61) { /* 0, 61 */
            t = make_tensors(RANDOM, 9, 1, 2, 1, 8, 320);
            side.chunk = chunk;
            side_run_turns(&t, &folded, 1, &side);
            free_tensors(&t);
        }
    }
}

/* ---- with other methods ---- */

struct two {
    const struct mass_plan *mass;
    const struct plan *plan;
};

/* Two methods observe the same prompt; the second one's oracle evicts nothing there. */
static void both_look(const struct moment *m, const void *p) {
    const struct two *two = p;
    oracle_mass_look(m, two->mass);
    oracle_prompt(m, two->plan);
}

static void test_pairs(void **state) {
    (void)state;
    const struct plan snapkv = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7};
    const struct plan streaming = {FULL, STREAMING, .budget = UINT32_MAX, .sinks = 4, .decode_budget = 30};
    const struct plan morphkv = {
        FULL, MORPHKV, .budget = UINT32_MAX, .every = 1, .decode_budget = 30, .decode_window = 8};
    const struct mass_plan h2o = {.budget = 30};
    const struct mass_plan keyformer = {.budget = 30, .noise = true, .tau_init = 1, .tau_end = 2, .seed = 1};
    const struct scores_plan ada = {.budget = 40, .window = 8, .kernel = 7, .floor = 0.2};
    struct parts parts = {oracle_mass_look, oracle_prompt, oracle_mass_step, &h2o, &snapkv, &h2o};
    run_parts("snapkv:budget=40,window=8+h2o:budget=30", &parts, 1, false);
    run_parts("h2o:budget=30,per=head+snapkv:budget=40,window=8", &parts, 1, true);
    parts = (struct parts){oracle_mass_look, oracle_adakv, oracle_mass_step, &keyformer, &ada, &keyformer};
    run_parts("adakv:budget=40,window=8+keyformer:budget=30,seed=1", &parts, 1, false);
    parts = (struct parts){oracle_mass_look, oracle_mass, oracle_step, &h2o, &h2o, &streaming};
    run_parts("h2o:budget=30,stages=prompt+streaming:budget=30", &parts, 1, false);
    parts = (struct parts){both_look, oracle_mass, oracle_step, &(struct two){&h2o, &morphkv}, &h2o, &morphkv};
    run_parts("h2o:budget=30,stages=prompt+morphkv:budget=30,window=8", &parts, 1, false);
}

/* ---- shares of the prompt, and turns ---- */

static void test_turns(void **state) {
    (void)state;
    static const struct turn turns[] = {{60, 11}, {5, 13}, {1, 9}, {50, 10}};
    static const struct mass_plan h2o = {.budget = 40}, h2o_share = {.share = 60, .recent = 7};
    static const struct mass_plan small = {.share = 1, .recent = 7};
    static const struct mass_plan keyformer = {
        .budget = 40, .noise = true, .tau_init = 1, .tau_end = 3, .steps = 12, .seed = 8};
    static const struct mass_plan keyformer_share = {
        .share = 50, .noise = true, .tau_init = 1, .tau_end = 2, .seed = 8};
    static const struct plan snapkv = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7};
    const struct {
        const char *spec;
        struct parts parts;
    } cases[] = {{"h2o:budget=40", mass(&h2o)},
                 {"h2o:budget=60%,recent=7", mass(&h2o_share)},
                 {"h2o:budget=1%,recent=7", mass(&small)},
                 {"keyformer:budget=40,tau_end=3,steps=12,seed=8", mass(&keyformer)},
                 {"keyformer:budget=50%,seed=8", mass(&keyformer_share)},
                 {"snapkv:budget=40,window=8+h2o:budget=40",
                  {oracle_mass_look, oracle_prompt, oracle_mass_step, &h2o, &snapkv, &h2o}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct side side = side_of(cases[c].spec, &cases[c].parts);
        side_run_kinds(&side, 2, turns, sizeof turns / sizeof *turns);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_h2o), cmocka_unit_test(test_keyformer),
                                       cmocka_unit_test(test_long), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
