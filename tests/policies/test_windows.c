/* test_windows.c - methods in layers with a sliding window against their oracles: expired entries are removed before a
 * method chooses, and in whole tiles if no method does (rule 16 of docs/reference/methods.md). */
#include "tests/check.h"
#include "tests/oracle/drawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { LAYERS = 4 };

static const struct {
    const char *spec;
    struct plan plan;
} methods[] = {
    {"full", {FULL, FULL, .budget = UINT32_MAX, .decode_budget = UINT32_MAX}},
    {"window:budget=25", {WINDOW, WINDOW, .budget = 25, .decode_budget = 25}},
    {"streaming:budget=30,sinks=5", {STREAMING, STREAMING, .budget = 30, .sinks = 5, .decode_budget = 30}},
    {"snapkv:budget=20,window=6", {SNAPKV, FULL, .budget = 20, .window = 6, .kernel = 7, .decode_budget = UINT32_MAX}},
    {"snapkv:budget=50%,window=6",
     {SNAPKV, FULL, .budget = 9999, .window = 6, .kernel = 7, .decode_budget = UINT32_MAX, .share = 50}},
    {"morphkv:budget=24,window=8",
     {MORPHKV, MORPHKV, .budget = 24, .window = 8, .every = 1, .decode_budget = 24, .decode_window = 8}},
    {"morphkv:budget=24,window=8,every=5,layers=1-3",
     {MORPHKV, MORPHKV, .budget = 24, .window = 8, .every = 5, .decode_budget = 24, .decode_window = 8, .left_out = 1}},
    {"snapkv:budget=30,window=8+morphkv:budget=18,window=5",
     {SNAPKV, MORPHKV, .budget = 30, .window = 8, .kernel = 7, .every = 1, .decode_budget = 18, .decode_window = 5}},
    {"window:budget=22,stages=decode", {FULL, WINDOW, .budget = UINT32_MAX, .decode_budget = 22}},
};

static void test_methods(void **state) {
    (void)state;
    static const uint32_t windows[][LAYERS] = {{40, 0, 31, 20}, {33, 33, 33, 33}, {1, 2, 0, 700}};
    static const struct turn turns[] = {{330, 60}, {30, 20}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const uint32_t chunks[] = {0, 7, 100};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++, n++) {
            if (kvc_test_thinned() && n % 5 != 0)
                continue;
            struct tensors t = make_tensors((enum kind)(n % KINDS), n + 1, LAYERS, 4, 2, 8, 440);
            t.windows = windows[w];
            side_run_turns(&t, turns, 2,
                           &(struct side){.spec = methods[i].spec,
                                          .prompt = oracle_prompt,
                                          .step = oracle_step,
                                          .plan = &methods[i].plan,
                                          .type = types[n % 3],
                                          .chunk = chunks[n / 3 % 3]});
            free_tensors(&t);
        }
}

/* tova:per=group by rule 16: the newest query's probabilities are those of all that it sees; then the entries leave
 * that no later row sees, and of the others the best stay. */
static void tova(const struct moment *m, const void *budget_given) {
    const uint32_t budget = *(const uint32_t *)budget_given, lists = m->t->lists;
    float score[8][150] = {{0}};
    uint32_t before[8], most = 0;
    assert_true(lists <= 8);
    for (uint32_t h = 0; h < lists; h++) {
        before[h] = m->heads[h].count;
        most = before[h] > most ? before[h] : most;
    }
    if (seen_of(m->t, m->layer, most) <= budget)
        return;
    for (uint32_t h = 0; h < lists; h++)
        group_row(m->t, &m->heads[h], m->layer, h, m->now - 1, before[h], false, score[h]);
    if (oracle_window(m->t, m->layer))
        remove_hidden(m->heads, m->t, m->layer, m->now);
    for (uint32_t h = 0; h < lists; h++) {
        const uint32_t n = m->heads[h].count;
        bool candidate[150], kept[150] = {false};
        for (uint32_t j = 0; j + 1 < n; j++)
            candidate[j] = true;
        candidate[n - 1] = !(kept[n - 1] = true);
        if (n > budget) {
            mark_top(score[h] + (before[h] - n), candidate, n, budget - 1, kept);
            remove_unkept(&m->heads[h], kept);
        }
    }
}

/* Entries that expire before a method scores the others leave the list of entries that were read, too: many in the
 * first step, before which no method evicted. */
static void test_reads(void **state) {
    (void)state;
    static const uint32_t windows[LAYERS] = {40, 0, 31, 20}, budget = 14;
    static const struct turn turns[] = {{70, 30}, {9, 20}};
    const struct select_plan topk = {TOPK, .budget = 9, .step = tova, .step_plan = &budget};
    for (int kind = 0; kind < HUGE_SCORES; kind++) { /* scores of 0 would tie with those of hidden entries */
        struct tensors t = make_tensors((enum kind)kind, (uint32_t)kind + 1, LAYERS, 4, 2, 8, 129);
        t.windows = windows;
        side_run_turns(&t, turns, 2,
                       &(struct side){.spec = "tova:budget=14,per=group,stages=decode+topk:budget=9",
                                      .prompt = select_prompt,
                                      .step = select_step,
                                      .plan = &topk,
                                      .select = oracle_select,
                                      .type = KVC_F16});
        free_tensors(&t);
    }
}

/* Channels are scored by the keys that later rows see, alone and after snapkv has evicted. */
static void test_think(void **state) {
    (void)state;
    static const uint32_t windows[LAYERS] = {40, 0, 300, 1};
    static const struct turn turns[] = {{330, 30}, {50, 20}};
    static const char *const specs[] = {"think:channels=3,window=9,recent=7",
                                        "snapkv:budget=20,window=6+think:channels=3,window=9,recent=7"};
    for (uint32_t n = 0; n < 2 * KINDS; n++) {
        const struct think_plan think = {
            .other = {.prompt = n % 2 ? oracle_prompt : NULL, .step = oracle_step, .plan = &methods[3].plan},
            .channels = 3,
            .window = 9,
            .recent = 7};
        struct tensors t = make_tensors((enum kind)(n / 2), n + 1, LAYERS, 4, 2, 8, 430);
        t.windows = windows;
        side_run_turns(&t, turns, 2,
                       &(struct side){.spec = specs[n % 2],
                                      .prompt = oracle_think_prompt,
                                      .step = oracle_think_step,
                                      .plan = &think,
                                      .type = n % 3 ? KVC_F16 : KVC_Q8_0,
                                      .chunk = n % 2 ? 7 : 0});
        free_tensors(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_methods), cmocka_unit_test(test_reads),
                                       cmocka_unit_test(test_think)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
