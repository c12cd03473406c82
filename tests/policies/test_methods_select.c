/* test_methods_select.c - quest, sparq, hsa, topk, rocketkv and rocketkv-mt read and keep exactly the entries that
 * their oracles read and keep (written from the pages of docs/reference/methods), and attention is bit-identical. */
#include "core/base/budget_split.h"
#include "policies/select_sizes.h"
#include "tests/check.h"
#include "tests/oracle/entries.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/select.h"
#include "tests/oracle/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- side by side ---- */

static void run_all(const char *spec, const struct select_plan *plan) {
    side_run_all(
        &(struct side){
            .spec = spec, .prompt = select_prompt, .step = select_step, .plan = plan, .select = oracle_select},
        2);
}

static void run(enum kind kind, uint32_t prompt, uint32_t rows, const char *spec, const struct select_plan *plan) {
    struct tensors t = make_tensors(kind, prompt + rows, 2, 8, 2, 32, rows);
    side_run(&t, prompt,
             &(struct side){.spec = spec,
                            .prompt = select_prompt,
                            .step = select_step,
                            .plan = plan,
                            .type = KVC_F16,
                            .select = oracle_select});
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
            &(struct select_plan){QUEST, .budget = 1, .page = 1u << 20, .left_out = 1});
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

/* A prompt method with a split budget, and the place of the budget in its own plan. */
struct split_plan {
    uint32_t total, window;
    moment_fn *prompt;
    void *plan;
    uint32_t *budget;
};

static void split_prompt(const struct moment *m, const void *given) {
    const struct split_plan *split = given;
    *split->budget =
        rocket_keeps(m, &(struct select_plan){.budget = split->total, .split = -1, .window = split->window});
    split->prompt(m, split->plan);
}

/* Split budgets: with snapkv and hsa they are rocketkv; other methods take their places. */
static void test_split(void **state) {
    (void)state;
    run_all("snapkv:budget=split:16,window=8,kernel=63+hsa:budget=split:16",
            &(struct select_plan){ROCKET, .budget = 16, .split = -1, .window = 8, .kernel = 63});
    run_all("snapkv:budget=split:20%,window=4+hsa:budget=split:20%",
            &(struct select_plan){ROCKET, .share = 20, .split = -1, .window = 4, .kernel = 7});
    struct scores_plan ada = {.window = 8, .kernel = 7, .floor = 0.2};
    struct entries_plan norms = {.recent = 3};
    const struct split_plan splits[] = {{12, 8, oracle_adakv, &ada, &ada.budget},
                                        {12, 3, oracle_knorm, &norms, &norms.budget}};
    run_all("adakv:budget=split:12,window=8+quest:budget=split:12,page=auto",
            &(struct select_plan){QUEST, .budget = 12, .split = -1, .is_split = true, .prompt = split_prompt,
                                  .prompt_plan = &splits[0]});
    run_all("knorm:budget=split:12,recent=3,stages=prompt+sparq:budget=split:12",
            &(struct select_plan){SPARQ, .budget = 12, .split = -1, .is_split = true, .prompt = split_prompt,
                                  .prompt_plan = &splits[1]});
    run_all("adakv:budget=split:12,window=8+topk:budget=split:12",
            &(struct select_plan){TOPK, .budget = 12, .split = -1, .is_split = true, .prompt = split_prompt,
                                  .prompt_plan = &splits[0]});
}

/* Page summaries stay correct while entries are appended, evicted and appended again. */
static void test_pairs(void **state) {
    (void)state;
    const struct plan snap = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7, .decode_budget = 9999};
    const struct plan stream = {STREAMING, STREAMING, .budget = 40, .sinks = 4, .decode_budget = 40};
    const struct plan late = {STREAMING, WINDOW, .budget = 40, .sinks = 4, .decode_budget = 44};
    const struct scores_plan ada = {.budget = 40, .window = 8, .kernel = 7, .floor = 0.2};
    run_all("snapkv:budget=40,window=8+quest:budget=16,page=3",
            &(struct select_plan){QUEST, .budget = 16, .page = 3, .prompt = oracle_prompt, .prompt_plan = &snap});
    run_all("snapkv:budget=40,window=8+sparq:budget=20",
            &(struct select_plan){SPARQ, .budget = 20, .prompt = oracle_prompt, .prompt_plan = &snap});
    run_all("adakv:budget=40,window=8+quest:budget=16,page=3",
            &(struct select_plan){QUEST, .budget = 16, .page = 3, .prompt = oracle_adakv, .prompt_plan = &ada});
    run_all("streaming:budget=40+hsa:budget=10",
            &(struct select_plan){HSA, .budget = 10, .prompt = oracle_prompt, .step = oracle_step,
                                  .prompt_plan = &stream, .step_plan = &stream});
    run_all("streaming:budget=40,stages=prompt+window:budget=44,stages=decode+sparq:dims=3,topk=9",
            &(struct select_plan){SPARQ, .dims = 3, .topk = 9, .prompt = oracle_prompt, .step = oracle_step,
                                  .prompt_plan = &late, .step_plan = &late});
}

static void test_long(void **state) {
    (void)state;
    const struct plan stream = {STREAMING, STREAMING, .budget = 100, .sinks = 4, .decode_budget = 100};
    run(DRIFT, 50, 350, "quest:budget=40,page=4", &(struct select_plan){QUEST, .budget = 40, .page = 4});
    if (kvc_test_thinned())
        return;
    static const struct {
        const char *spec;
        struct select_plan plan;
    } steps300[] = {
        {"sparq:budget=30,local=3", {SPARQ, .budget = 30, .local = 3}},
        {"topk:budget=25", {TOPK, .budget = 25}},
        {"rocketkv-mt:budget=24,window=4", {ROCKET_MT, .budget = 24, .split = -1, .window = 4, .kernel = 63}}};
    for (size_t c = 0; c < sizeof steps300 / sizeof *steps300; c++) {
        struct tensors t = make_tensors(c % 2 ? PLANTED : DRIFT, 40 + c, 1, 4, 2, 16, 360);
        side_run(&t, 60,
                 &(struct side){.spec = steps300[c].spec,
                                .prompt = select_prompt,
                                .step = select_step,
                                .plan = &steps300[c].plan,
                                .type = KVC_F16,
                                .select = oracle_select});
        free_tensors(&t);
    }
    run(PLANTED, 150, 450, "rocketkv:budget=40,window=8",
        &(struct select_plan){ROCKET, .budget = 40, .split = -1, .window = 8, .kernel = 63});
    run(RANDOM, 50, 350, "hsa:page=3,dims=5,topk=20", &(struct select_plan){HSA, .page = 3, .dims = 5, .topk = 20});
    run(DRIFT, 120, 300, "streaming:budget=100+quest:budget=40,page=4",
        &(struct select_plan){QUEST, .budget = 40, .page = 4, .prompt = oracle_prompt, .step = oracle_step,
                              .prompt_plan = &stream, .step_plan = &stream});
}

/* Each turn's prompt attends to everything; rocketkv filters the entries that it kept before, rocketkv-mt all entries
 * ever read. */
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
                                  .prompt = select_prompt,
                                  .step = select_step,
                                  .plan = &cases[c].plan,
                                  .type = c % 3 ? KVC_F16 : KVC_Q8_0,
                                  .chunk = 9,
                                  .select = oracle_select};
        side_run_turns(&t, turns, sizeof turns / sizeof *turns, &side);
        free_tensors(&t);
    }
}

/* The formulas, computed independently for 100 pairs, and the paper's example. */
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
        const struct kvc_budget_split sizes = kvc_budget_split(S, t, 33, -1);
        const struct kvc_hsa_sizes hsa = kvc_hsa_sizes(sizes.c2, 128);
        assert_int_equal(sizes.kept, kept);
        assert_int_equal(hsa.page, in_page);
        assert_int_equal(hsa.dims, dims);
    }
    const struct kvc_budget_split paper = kvc_budget_split(64 * 512, 512, 33, -1);
    assert_true(fabs(paper.r - 0.56) < 1e-12);
    assert_true(fabs(pow(paper.c, paper.r) - 10.3) < 0.05 && fabs(paper.c2 - 6.2) < 0.05);
    const struct kvc_hsa_sizes hsa = kvc_hsa_sizes(paper.c2, 1000);
    assert_int_equal(hsa.page, 3);
    assert_true(fabs(1000.0 / hsa.dims - 2.1) < 0.05);
    assert_int_equal(kvc_budget_split(3000, 7, 2, 1).kept, 7); /* c^1 = S / t, whatever rounding does */
    assert_int_equal(kvc_budget_split(3000, 7, 2, 0).kept, 3000);
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
    side_refused("sparq:budget=0", &geometry, "budget=0", "from 1");
    side_refused("sparq:budget=8,topk=0", &geometry, "topk=0", "from 1");
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
    side_refused("rocketkv:budget=split:8", &geometry, "budget=split:8", "splits");
    side_refused("quest:budget=split:0", &geometry, "budget=split:0", "from 1");
    side_refused("quest:budget=split:0%", &geometry, "budget=split:0%", "above 0%");
    side_refused("quest:budget=split:", &geometry, "budget=split:", "from 1");
    side_refused("quest:budget=split:8", &geometry, "budget=split:8", "prompt method");
    side_refused("knorm:budget=split:8,stages=decode+quest:budget=split:8", &geometry, "prompt method", NULL);
    side_refused("snapkv:budget=split:40", &geometry, "budget=split:40", "select method");
    side_refused("snapkv:budget=split:40+quest:budget=split:8", &geometry, "split:40", "split:8");
    side_accepted("rocketkv:budget=8", &geometry);
    side_accepted("snapkv:budget=split:8+quest:budget=split:8", &geometry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topk),  cmocka_unit_test(test_quest),    cmocka_unit_test(test_sparq),
        cmocka_unit_test(test_hsa),   cmocka_unit_test(test_rocketkv), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_split), cmocka_unit_test(test_long),     cmocka_unit_test(test_turns),
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
