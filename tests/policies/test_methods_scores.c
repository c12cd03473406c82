/* test_methods_scores.c - pyramidkv, adakv, scissorhands, lacache, duo and snapkv per query head keep exactly what
 * their oracles keep (tests/oracle/scores.c), alone and with other methods. */
#include "tests/check.h"
#include "tests/oracle/scores.h"
#include "tests/oracle/side_by_side.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct side nothing;

/* Runs a method that acts on the prompt only. */
static void run_prompt(const char *spec, moment_fn *prompt, const struct scores_plan *plan, uint32_t layers) {
    const struct parts parts = {.prompt = prompt, .prompt_plan = plan};
    side_run_all(&(struct side){.spec = spec, .prompt = parts_prompt, .step = parts_step, .plan = &parts}, layers);
}

/* Runs it in both stages. */
static void run_both(const char *spec, moment_fn *evict, const struct scores_plan *plan, uint32_t layers) {
    const struct parts parts = {.prompt = evict, .step = evict, .prompt_plan = plan, .step_plan = plan};
    side_run_all(&(struct side){.spec = spec, .prompt = parts_prompt, .step = parts_step, .plan = &parts}, layers);
}

static struct parts scissorhands(const struct scores_plan *plan) {
    return (struct parts){oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step, plan, plan, plan};
}

static void run_parts(const char *spec, const struct parts *parts, uint32_t layers) {
    side_run_all(&(struct side){.spec = spec, .prompt = parts_prompt, .step = parts_step, .plan = parts}, layers);
}

static void test_pyramidkv(void **state) {
    (void)state;
    struct scores_plan plan = {.budget = 40, .window = 32, .kernel = 7, .beta = 20};
    run_prompt("pyramidkv:budget=40", oracle_pyramidkv, &plan, 3);
    plan.window = 8, plan.beta = 3, plan.average = true, plan.kernel = 5;
    run_prompt("pyramidkv:budget=40,window=8,beta=3,pooling=avg,kernel=5", oracle_pyramidkv, &plan, 4);
    plan.beta = 1, plan.window = 39, plan.kernel = 1;
    run_prompt("pyramidkv:budget=40,window=39,beta=1,kernel=1", oracle_pyramidkv, &plan, 2);
    plan.beta = 1000, plan.window = 1, plan.left_out = 1;
    run_prompt("pyramidkv:budget=40,window=1,beta=1000,kernel=1,skip_layers=1", oracle_pyramidkv, &plan, 4);
    run_prompt("pyramidkv:budget=40,window=1,beta=1000,kernel=1,skip_layers=1", oracle_pyramidkv, &plan, 2);
}

static void test_adakv(void **state) {
    (void)state;
    struct scores_plan plan = {.budget = 40, .window = 32, .kernel = 7, .floor = 0.2};
    run_prompt("adakv:budget=40", oracle_adakv, &plan, 2);
    plan.window = 8, plan.floor = 0, plan.average = true;
    run_prompt("adakv:budget=40,window=8,floor=0,pooling=avg", oracle_adakv, &plan, 2);
    plan.floor = 1;
    run_prompt("adakv:budget=40,window=8,floor=1,pooling=avg", oracle_adakv, &plan, 1);
    plan.window = 1, plan.kernel = 1, plan.floor = 0.35, plan.left_out = 1;
    run_prompt("adakv:budget=40,window=1,kernel=1,floor=0.35,skip_layers=1", oracle_adakv, &plan, 2);
}

static void test_scissorhands(void **state) {
    (void)state;
    struct scores_plan plan = {.budget = 40, .history = 64};
    struct parts parts = scissorhands(&plan);
    run_parts("scissorhands:budget=40", &parts, 1);
    plan.history = 5, plan.recent = 39;
    run_parts("scissorhands:budget=40,history=5,recent=39", &parts, 2);
    plan.history = 1, plan.recent = 1, plan.left_out = 1;
    run_parts("scissorhands:budget=40,history=1,recent=1,skip_layers=1", &parts, 2);
    plan.history = 16, plan.recent = 10, plan.left_out = 0, plan.prompt_only = true;
    parts.step = NULL;
    run_parts("scissorhands:budget=40,history=16,recent=10,stages=prompt", &parts, 1);
}

static void test_lacache(void **state) {
    (void)state;
    struct scores_plan plan = {.budget = 40, .span = 1, .sinks = 4};
    run_both("lacache:budget=40,span=1,sinks=4", oracle_lacache, &plan, 2);
    plan.span = 2, plan.overlap = 1;
    run_both("lacache:budget=40,span=2,overlap=1,sinks=4", oracle_lacache, &plan, 5);
    plan.span = 3, plan.overlap = 0, plan.sinks = 0, plan.left_out = 1;
    run_both("lacache:budget=40,span=3,sinks=0,skip_layers=1", oracle_lacache, &plan, 6);
    plan.span = 4, plan.overlap = 2, plan.sinks = 30, plan.left_out = 0; /* wb 3, wa 2: the smallest budget */
    run_both("lacache:budget=40,span=4,overlap=2,sinks=30", oracle_lacache, &plan, 8);
}

/* A ladder as for a large model, and a long decode. */
static void test_long(void **state) {
    (void)state;
    static const struct turn turn = {50, 300};
    struct scores_plan ladder = {.budget = 64, .span = 6, .overlap = 2, .sinks = 8};
    struct scores_plan counts = {.budget = 30, .history = 20};
    const struct parts lacache = {
        .prompt = oracle_lacache, .step = oracle_lacache, .prompt_plan = &ladder, .step_plan = &ladder};
    const struct parts hands = scissorhands(&counts);
    struct tensors t = make_tensors(DRIFT, 3, 14, 1, 1, 8, 350);
    side_run_turns(&t, &turn, 1,
                   &(struct side){.spec = "lacache:budget=64,span=6,overlap=2,sinks=8",
                                  .prompt = parts_prompt,
                                  .step = parts_step,
                                  .plan = &lacache});
    free_tensors(&t);
    t = make_tensors(PLANTED, 4, 1, 2, 1, 8, 350);
    side_run_turns(
        &t, &turn, 1,
        &(struct side){
            .spec = "scissorhands:budget=30,history=20", .prompt = parts_prompt, .step = parts_step, .plan = &hands});
    free_tensors(&t);
    counts.history = 4096, counts.budget = 45;
    t = make_tensors(RANDOM, 5, 1, 1, 1, 8, 90);
    side_run(
        &t, 50,
        &(struct side){
            .spec = "scissorhands:budget=45,history=4096", .prompt = parts_prompt, .step = parts_step, .plan = &hands});
    free_tensors(&t);
}

/* ---- duo ---- */

static const float head_scores[] = {0.9f, 0.1f, 0.5f, 0.49f, 0.7f, 0.1f, 0.2f, 1.0f};

static const float without_ties[] = {0.9f, 0.2f, 0.5f, 0.49f,
                                     0.7f, 0.1f, 0.2f, 1.0f}; /* of two equal scores, the later head streams */

/* Writes a file with the first layers * heads of the scores; its path replaces the %s in spec. */
static void run_duo_turns(const char *spec, uint32_t layers, const struct tensors *t, const struct turn *turns,
                          size_t turn_count, const float *scores, const struct parts *parts, bool per_head) {
    char path[] = "test_duo_XXXXXX", text[400];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t h = 0; h < t->kv_heads; h++)
            fprintf(file, "%.3f%s", (double)scores[l * t->kv_heads + h], h + 1 < t->kv_heads ? "\t" : "\n");
    fclose(file);
    snprintf(text, sizeof text, spec, path);
    const struct side side = {
        .spec = text, .prompt = parts_prompt, .step = parts_step, .plan = parts, .per_head = per_head};
    side_run_turns(t, turns, turn_count, &side);
    remove(path);
}

static void run_duo(const char *spec, uint32_t layers, const struct tensors *t, uint32_t prompt,
                    const struct parts *parts, bool per_head) {
    const struct turn turn = {prompt, t->rows - prompt};
    run_duo_turns(spec, layers, t, &turn, 1, head_scores, parts, per_head);
}

static void test_duo(void **state) {
    (void)state;
    struct scores_plan plan = {.sinks = 4, .recent = 20, .scores = head_scores, .threshold = 0.5f};
    const struct parts parts = {.prompt = oracle_duo, .step = oracle_duo, .prompt_plan = &plan, .step_plan = &plan};
    for (enum kind kind = RANDOM; kind < KINDS; kind++) {
        struct tensors t = make_tensors(kind, 9 + (uint64_t)kind, 2, 8, 4, 8, 80);
        plan.sinks = 4, plan.recent = 20, plan.threshold = 0.5f;
        run_duo("duo:file=\"%s\",sinks=4,recent=20", 2, &t, 60, &parts, false);
        run_duo("duo:file=\"%s\",sinks=4,recent=20", 2, &t, 24, &parts, false);
        run_duo("duo:file=\"%s\",sinks=4,recent=20", 2, &t, 1, &parts, false);
        plan.sinks = 0, plan.recent = 1, plan.threshold = 0.2f;
        run_duo("duo:file=\"%s\",sinks=0,recent=1,threshold=0.2", 2, &t, 30, &parts, false);
        run_duo("duo:file=\"%s\",sinks=0,recent=1,sparsity=0.25", 2, &t, 30, &parts,
                false); /* the two heads with 0.1 */
        plan.threshold = 0.7f;
        run_duo("duo:file=\"%s\",sinks=0,recent=1,sparsity=0.57", 2, &t, 30, &parts, false); /* 4.56 rounds to five */
        plan.threshold = 0.15f, plan.scores = without_ties;
        run_duo("duo:file=\"%s\",sinks=0,recent=1,sparsity=0.125", 2, &t, 30, &parts,
                false); /* one of the two heads with 0.1 */
        plan.threshold = 2, plan.scores = head_scores;
        run_duo("duo:file=\"%s\",sinks=0,recent=1,sparsity=1", 2, &t, 30, &parts, false);
        plan.threshold = 0;
        run_duo("duo:file=\"%s\",sinks=0,recent=1,sparsity=0", 2, &t, 30, &parts, false);
        free_tensors(&t);
    }
}

/* Other numbers of heads, several turns, and 300 steps. */
static void test_duo_more(void **state) {
    (void)state;
    static const uint32_t heads[][3] = {{1, 1, 2}, {4, 4, 3}, {7, 1, 3}, {14, 7, 1}, {12, 12, 2}, {16, 2, 2}};
    static const struct turn turns[] = {{40, 6}, {9, 4}, {1, 3}, {30, 5}}, whole = {30, 300};
    struct scores_plan plan = {.sinks = 3, .recent = 12, .threshold = 0.5f};
    const struct parts parts = {.prompt = oracle_duo, .step = oracle_duo, .prompt_plan = &plan, .step_plan = &plan};
    float scores[3 * 12];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const uint32_t layers = heads[i][2];
        for (uint32_t j = 0; j < layers * heads[i][1]; j++)
            scores[j] = (float)((j * 7 + (uint32_t)i) % 10) / 10;
        plan.scores = scores;
        struct tensors t = make_tensors((enum kind)(i % KINDS), 60 + i, layers, heads[i][0], heads[i][1], 8, 98);
        run_duo_turns("duo:file=\"%s\",sinks=3,recent=12", layers, &t, turns, 4, scores, &parts, false);
        free_tensors(&t);
        if (i > 1 || kvc_test_thinned())
            continue;
        t = make_tensors(DRIFT, 70 + i, layers, heads[i][0], heads[i][1], 8, 330);
        run_duo_turns("duo:file=\"%s\",sinks=3,recent=12", layers, &t, &whole, 1, scores, &parts, false);
        free_tensors(&t);
    }
}

/* ---- per query head ---- */

static void test_per_head(void **state) {
    (void)state;
    struct plan plan = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7, .decode_budget = UINT32_MAX};
    side_run_all(&(struct side){.spec = "snapkv:budget=40,window=8,per=head",
                                .prompt = oracle_prompt,
                                .step = oracle_step,
                                .plan = &plan,
                                .per_head = true},
                 2);
    plan = (struct plan){SNAPKV,      MORPHKV,    .budget = 40,        .window = 8,
                         .kernel = 7, .every = 2, .decode_budget = 30, .decode_window = 10};
    side_run_all(&(struct side){.spec = "snapkv:budget=40,window=8,per=head+morphkv:budget=30,window=10,every=2",
                                .prompt = oracle_prompt,
                                .step = oracle_step,
                                .plan = &plan,
                                .per_head = true},
                 1);
}

/* ---- with other methods ---- */

static void test_pairs(void **state) {
    (void)state;
    const struct plan morphkv = {
        FULL, MORPHKV, .budget = UINT32_MAX, .every = 1, .decode_budget = 30, .decode_window = 10};
    const struct plan streaming = {FULL, STREAMING, .budget = UINT32_MAX, .sinks = 4, .decode_budget = 30};
    const struct plan snapkv = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7};
    const struct scores_plan window = {.budget = 40, .window = 8, .kernel = 7, .floor = 0.2, .beta = 20};
    const struct scores_plan counts = {.budget = 30, .history = 9};
    const struct scores_plan ladder = {.budget = 30, .span = 2, .sinks = 4};
    struct parts parts = {oracle_prompt, oracle_adakv, oracle_step, &morphkv, &window, &morphkv};
    run_parts("adakv:budget=40,window=8+morphkv:budget=30,window=10", &parts, 2);
    parts = (struct parts){NULL, oracle_pyramidkv, oracle_step, NULL, &window, &streaming};
    run_parts("pyramidkv:budget=40,window=8+streaming:budget=30", &parts, 3);
    parts =
        (struct parts){oracle_scissorhands_look, oracle_prompt, oracle_scissorhands_step, &counts, &snapkv, &counts};
    run_parts("scissorhands:budget=30,history=9+snapkv:budget=40,window=8", &parts, 1);
    parts = (struct parts){oracle_scissorhands_look, oracle_adakv, oracle_scissorhands_step, &counts, &window, &counts};
    run_parts("adakv:budget=40,window=8+scissorhands:budget=30,history=9", &parts, 1);
    parts = (struct parts){NULL, oracle_adakv, oracle_lacache, NULL, &window, &ladder};
    run_parts("adakv:budget=40,window=8+lacache:budget=30,span=2,sinks=4", &parts, 4);
    const struct scores_plan duo = {.sinks = 4, .recent = 15, .scores = head_scores, .threshold = 0.5f};
    struct tensors t = make_tensors(PLANTED, 12, 2, 8, 2, 16, 90);
    parts = (struct parts){NULL, oracle_adakv, oracle_duo, NULL, &window, &duo};
    run_duo("adakv:budget=40,window=8+duo:file=\"%s\",sinks=4,recent=15", 2, &t, 60, &parts, false);
    t.lists = t.heads;
    parts = (struct parts){NULL, oracle_prompt, oracle_duo, NULL, &snapkv, &duo};
    run_duo("snapkv:per=head,budget=40,window=8+duo:file=\"%s\",sinks=4,recent=15", 2, &t, 60, &parts, true);
    free_tensors(&t);
}

/* ---- shares of the prompt, and turns ---- */

static void test_shares(void **state) {
    (void)state;
    struct scores_plan plan = {
        .share = 10, .window = 8, .kernel = 7, .floor = 0.2, .beta = 20, .history = 9, .span = 1};
    struct parts parts = {.prompt = oracle_pyramidkv, .prompt_plan = &plan};
    struct side side = nothing;
    struct tensors t = make_tensors(RANDOM, 5, 2, 4, 2, 16, 240);
    side.prompt = parts_prompt, side.step = parts_step, side.plan = &parts;
    side.spec = "pyramidkv:budget=10%,window=8";
    side_run(&t, 205, &side);
    parts.prompt = oracle_adakv;
    side.spec = "adakv:budget=10%,window=8";
    side_run(&t, 205, &side);
    plan.share = 1;
    side.spec = "adakv:budget=1%,window=8";
    side_run(&t, 205, &side);
    plan.recent = 7;
    parts = scissorhands(&plan);
    side.spec = "scissorhands:budget=1%,history=9,recent=7";
    side_run(&t, 205, &side);
    plan.recent = 0, plan.share = 25;
    side.spec = "scissorhands:budget=25%,history=9";
    side_run(&t, 205, &side);
    parts = (struct parts){.prompt = oracle_lacache, .step = oracle_lacache, .prompt_plan = &plan, .step_plan = &plan};
    plan.sinks = 6;
    side.spec = "lacache:budget=25%,span=1,sinks=6";
    side_run(&t, 205, &side);
    plan.share = 1; /* at least what the ladder needs */
    side.spec = "lacache:budget=1%,span=1,sinks=6";
    side_run(&t, 205, &side);
    free_tensors(&t);
}

static void test_turns(void **state) {
    (void)state;
    static const struct turn turns[] = {{60, 11}, {5, 13}, {1, 9}, {50, 10}};
    static const struct scores_plan window = {.budget = 40, .window = 8, .kernel = 7, .floor = 0.2, .beta = 4};
    static const struct scores_plan window_share = {.share = 30, .window = 8, .kernel = 7, .floor = 0.2, .beta = 4};
    static const struct scores_plan counts = {.budget = 40, .history = 12, .recent = 5};
    static const struct scores_plan counts_share = {.share = 60, .history = 12};
    static const struct scores_plan counts_prompt = {.budget = 40, .history = 12, .prompt_only = true};
    static const struct scores_plan ladder = {.budget = 40, .span = 1, .sinks = 4};
    static const struct scores_plan ladder_share = {.share = 50, .span = 1, .sinks = 4};
    static const struct plan snapkv = {SNAPKV, FULL, .budget = 40, .window = 8, .kernel = 7};
    const struct {
        const char *spec;
        struct parts parts;
    } cases[] = {{"pyramidkv:budget=40,window=8,beta=4", {.prompt = oracle_pyramidkv, .prompt_plan = &window}},
                 {"pyramidkv:budget=30%,window=8,beta=4", {.prompt = oracle_pyramidkv, .prompt_plan = &window_share}},
                 {"adakv:budget=40,window=8", {.prompt = oracle_adakv, .prompt_plan = &window}},
                 {"adakv:budget=30%,window=8", {.prompt = oracle_adakv, .prompt_plan = &window_share}},
                 {"scissorhands:budget=40,history=12,recent=5", scissorhands(&counts)},
                 {"scissorhands:budget=60%,history=12", scissorhands(&counts_share)},
                 {"scissorhands:budget=40,history=12,stages=prompt",
                  {oracle_scissorhands_look, oracle_scissorhands, NULL, &counts_prompt, &counts_prompt, NULL}},
                 {"snapkv:budget=40,window=8+scissorhands:budget=40,history=12,recent=5",
                  {oracle_scissorhands_look, oracle_prompt, oracle_scissorhands_step, &counts, &snapkv, &counts}},
                 {"lacache:budget=40,span=1,sinks=4", {NULL, oracle_lacache, oracle_lacache, NULL, &ladder, &ladder}},
                 {"lacache:budget=50%,span=1,sinks=4",
                  {NULL, oracle_lacache, oracle_lacache, NULL, &ladder_share, &ladder_share}},
                 {"adakv:budget=40,window=8+lacache:budget=40,span=1,sinks=4",
                  {NULL, oracle_adakv, oracle_lacache, NULL, &window, &ladder}}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct tensors t = make_tensors(c % 2 ? PLANTED : RANDOM, 77 + c, 2, 4, 2, 16, 159);
        const struct side side = {
            cases[c].spec, parts_prompt, parts_step, &cases[c].parts, types[c % 3], c % 4 ? 7 : 0, 0, false, NULL};
        side_run_turns(&t, turns, sizeof turns / sizeof *turns, &side);
        free_tensors(&t);
    }
}

/* ---- what cannot be ---- */

static void write_file(const char *path, const char *text, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void test_models(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {4, 4, 2, 8};
    side_refused("lacache:budget=200,sinks=4", &geometry, "span=16", "below 4");
    side_refused("lacache:budget=200,sinks=4,span=4", &geometry, "span=4", "below 4");
    side_refused("lacache:budget=200,sinks=4,span=2,skip_layers=2", &geometry, "span=2", "below 2");
    side_refused("lacache:budget=200,sinks=4,span=3,overlap=2", &geometry, "overlap=2",
                 "span=3"); /* wb 2, wa 2: nothing is evicted */
    side_refused("lacache:budget=7,sinks=4,span=1", &geometry, "budget=7", "from 8");
    side_accepted("lacache:budget=8,sinks=4,span=1", &geometry);
    side_accepted("lacache:budget=1%,sinks=4,span=1", &geometry);
}

static void test_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *says, *too;
    } cases[] = {{"1\t0\n1\t1\n0\t0\n", "3 lines of 2", "4 layers of 2"},
                 {"1\n0\n1\n1\n", "4 lines of 1", "4 layers of 2"},
                 {"1\t0\n1\n0\t0\n0\t1\n", "line 2 has 1 numbers", "as many as the first"},
                 {"1\t0\n\n1\t1\n0\t0\n", "line 2 has 0 numbers", "as many as the first"},
                 {"1\tx\n", "line 1: 'x'", "number"},
                 {"1\t1e9x\n", "line 1: '1e9x'", "number"},
                 {"1\t0\n1\tnan\n", "line 2: 'nan'", "number"},
                 {"1\t2e9\n", "line 1: '2e9'", "1e9"},
                 {"", "no scores", "file="},
                 {"\n", "no scores", "file="}};
    char path[] = "test_duo_XXXXXX", spec[100];
    const struct kvc_geometry geometry = {4, 4, 2, 8};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(spec, sizeof spec, "duo:file=%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(path, cases[i].text, strlen(cases[i].text));
        side_refused(spec, &geometry, cases[i].says, cases[i].too);
    }
    write_file(path, "1\t0\n1\0\n", 8);
    side_refused(spec, &geometry, "text", path);
    write_file(path, "1 0\r\n-1\t+0.5\r\n 0\t1e-3 \n1 1", 26);
    side_accepted(spec, &geometry);
    remove(path);
    side_refused(spec, &geometry, path, "No such file");
    side_refused("duo:file=/dev/null", &geometry, "/dev/null", "regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pyramidkv), cmocka_unit_test(test_adakv),    cmocka_unit_test(test_scissorhands),
        cmocka_unit_test(test_lacache),   cmocka_unit_test(test_long),     cmocka_unit_test(test_duo),
        cmocka_unit_test(test_duo_more),  cmocka_unit_test(test_per_head), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_shares),    cmocka_unit_test(test_turns),    cmocka_unit_test(test_models),
        cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
