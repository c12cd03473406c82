/* test_methods_drawn.c - every method, and every prompt method joined with every decode and every select method,
 * against its oracle, with random options, prompts, turns, heads and tensors (tests/oracle/drawn.h). KVCULL_TEST_DRAWS
 * draws more of each. */
#include "core/base/policy_list.h"
#include "tests/check.h"
#include "tests/oracle/drawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name;
    draw_fn *draw;
} methods[] = {
#define METHOD(name, function) {name, draw_##function},
#include "tests/oracle/methods.def"
#undef METHOD
    {"full", NULL},                       /* the reference of every run */
    {"dapq", NULL},                       /* test_dapq.c, test_methods_rows.c */
    {"kvzip", NULL},                      /* test_methods_rows.c */
    {"kvcompose", NULL}, {"kvzap", NULL}, /* test_predict.c */
    {"fastkvzip", NULL},                  /* test_fastkvzip.c */
    {"take", NULL}};                      /* test_methods_take.c */
enum { METHODS = sizeof methods / sizeof *methods };

/* ---- alone ---- */

static uint64_t draws(uint64_t defaults) {
    const char *more = getenv("KVCULL_TEST_DRAWS");
    return more ? strtoull(more, NULL, 10) : kvc_test_thinned() ? 1 : defaults;
}

static void test_alone(void **state) {
    (void)state;
    for (size_t m = 0; m < METHODS; m++)
        for (uint64_t i = 0; i < draws(10) && methods[m].draw; i++) {
            struct drawn d;
            drawn_begin(&d, 1000 * m + i, 1 + (uint32_t)(i % MOST_LAYERS));
            methods[m].draw(&d);
            drawn_run(&d, UINT32_MAX);
            remove(d.path);
        }
}

static void test_300_steps(void **state) {
    (void)state;
    for (size_t m = 0; m < METHODS; m += kvc_test_thinned() ? 9 : 1) {
        struct drawn d;
        if (!methods[m].draw)
            continue;
        drawn_begin(&d, 100000 + m, 1 + m % 2);
        methods[m].draw(&d);
        drawn_run(&d, 300);
        remove(d.path);
    }
}

/* ---- joined methods ---- */

struct joined {
    struct drawn prompt, decode, select; /* empty spec: none */
    struct plan decode_plan;             /* for decode's plan if another method evicts after the prompt */
};

static void joined_prompt(const struct moment *m, const void *p) {
    const struct joined *joined = p;
    const struct drawn *before = &joined->prompt, *follows = &joined->decode;
    if (!before->spec[0]) {
        follows->side.prompt(m, follows->side.plan);
        return;
    }
    if (follows->side.plan == &follows->parts && follows->parts.look)
        follows->parts.look(m, follows->parts.look_plan);
    if (follows->side.plan == &follows->plan)
        oracle_look(m, &joined->decode_plan);
    before->side.prompt(m, before->side.plan);
}

static void joined_step(const struct moment *m, const void *p) {
    const struct joined *joined = p;
    const bool second = joined->prompt.spec[0] && joined->decode.side.plan == &joined->decode.plan;
    joined->decode.side.step(m, second ? &joined->decode_plan : joined->decode.side.plan);
}

static bool joined_select(const struct moment *m, uint32_t h, bool *read, float *alpha, const void *p) {
    const struct joined *joined = p;
    return oracle_select(m, h, read, alpha, joined->select.spec[0] ? &joined->select.select : &joined->prompt.select);
}

static void join(struct drawn *whole, struct drawn *one, draw_fn *draw) {
    *one = (struct drawn){.layers = whole->layers, .heads = whole->heads, .kv_heads = whole->kv_heads, .both = true};
    if (!draw)
        return;
    draw(one);
    drawn_say(whole, "%s%s", whole->spec[0] ? "+" : "", one->spec);
    whole->per_head = whole->per_head || one->per_head;
    whole->cut_rows = whole->cut_rows || one->cut_rows;
    whole->budget = whole->budget == 0 || drawn_below(2) ? one->budget : whole->budget;
}

static void run_joined(draw_fn *before, draw_fn *follows, draw_fn *select, uint64_t seed) {
    struct drawn d;
    struct joined *joined = calloc(1, sizeof *joined);
    assert_non_null(joined);
    drawn_begin(&d, seed, 2 + (uint32_t)(seed % (MOST_LAYERS - 1)));
    join(&d, &joined->prompt, before);
    join(&d, &joined->decode, follows);
    join(&d, &joined->select, select);
    joined->decode.scores.apart = before ? ~joined->prompt.left_out : 0;
    joined->decode_plan = joined->decode.plan;
    joined->decode_plan.prompt = FULL;
    joined->decode_plan.budget = UINT32_MAX;
    d.side = (struct side){.prompt = joined_prompt, .step = joined_step, .plan = joined};
    d.side.select = select || joined->prompt.side.select ? joined_select : NULL;
    drawn_run(&d, UINT32_MAX);
    remove(joined->decode.path);
    free(joined);
}

static const struct kvc_policy_class *class_of(const char *name) {
    size_t i = 0;
    while (kvc_policy_list[i] && strcmp(kvc_policy_list[i]->name, name) != 0)
        i++;
    if (!kvc_policy_list[i])
        fail_msg("there is no method %s", name);
    return kvc_policy_list[i];
}

static void test_joined(void **state) {
    static const unsigned evicts = KVC_STAGE_PROMPT | KVC_STAGE_DECODE;
    draw_fn *before[METHODS + 1] = {NULL}, *follows[METHODS], *select[METHODS + 1] = {NULL};
    size_t befores = 1, followers = 0, selects = 1;
    (void)state;
    for (size_t m = 0; m < METHODS; m++) {
        const unsigned stages = methods[m].draw ? class_of(methods[m].name)->stages : 0;
        if (stages == evicts || stages == KVC_STAGE_DECODE)
            follows[followers++] = methods[m].draw;
        else if (stages & KVC_STAGE_PROMPT)
            before[befores++] = methods[m].draw;
        else if (stages == KVC_STAGE_SELECT)
            select[selects++] = methods[m].draw;
    }
    uint64_t n = 0;
    for (size_t a = 0; a < befores; a++)
        for (size_t b = 0; b < followers; b++)
            for (size_t c = 0; c < selects; c++) {
                const bool rocket = before[a] == draw_rocketkv || before[a] == draw_rocketkv_mt;
                if (!(rocket && select[c]) && (before[a] || select[c]) && (!kvc_test_thinned() || n % 31 == 0))
                    for (uint64_t i = 0; i < draws(1); i++)
                        run_joined(before[a], follows[b], select[c], 1000 * n + i);
                n++;
            }
}

static void test_every_method(void **state) {
    (void)state;
    for (size_t i = 0; kvc_policy_list[i]; i++) {
        bool found = false;
        for (size_t m = 0; m < METHODS; m++)
            found = found || strcmp(methods[m].name, kvc_policy_list[i]->name) == 0;
        if (!found)
            fail_msg("%s: no oracle draws its options here; add a function to the table", kvc_policy_list[i]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_300_steps), cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
