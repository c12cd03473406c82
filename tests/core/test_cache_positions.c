/* test_cache_positions.c - positions=cache: a network with keys rotated to cache positions is bit-identical to an
 * oracle that rotates every key again for every query; every kind of rotation, several turns, batches, and prompts in
 * chunks. */
#include "tests/core/cache_positions_oracle.h"
#include "tests/oracle/added_rows.h"
#include "tests/oracle/scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct take {
    uint32_t budget, warmup_budget, warmup_layers, chunk, probe, kernel;
    float alpha;
    bool max, together, own, per_head;
    uint32_t left_out;
};

struct joined {
    const char *spec;
    moment_fn *evict; /* NULL: nothing is evicted */
    const void *plan;
    const struct take *take; /* NULL: another method */
};

static void evict_all(struct text *text, const struct joined *method, uint32_t turn) {
    for (uint32_t l = 0; l < LAYERS && method->evict; l++) {
        for (uint32_t h = 0; h < KV_HEADS && turn; h++)
            text->heads[l][h].held = text->heads[l][h].count;
        const struct moment moment = {&text->shape, text->heads[l], l, text->tokens, turn, turn ? 0 : 1};
        method->evict(&moment, method->plan);
    }
}

/* ---- both ---- */

static void same(const float *found, const struct text *text, const float *expected, const char *spec) {
    if (memcmp(found, expected, VOCAB * sizeof *found))
        fail_msg("%s, %s: other logits after %u tokens", spec, kvc_type_name(text->type), text->tokens);
}

/* With positions=cache streaming evicts by the same rule. */
static void streaming(const struct moment *m, const void *given) {
    const struct scores_plan *plan = given;
    const uint32_t tokens = (uint32_t)floor(m->heads[0].held * (plan->share / 100.0) + 0.5);
    const uint32_t budget = plan->share ? tokens > plan->sinks ? tokens : plan->sinks + 1 : plan->budget;
    bool kept[TOKENS];
    for (uint32_t h = 0; h < KV_HEADS && oracle_acts(plan->left_out, m->layer); h++) {
        struct head *head = &m->heads[h];
        for (uint32_t r = 0; r < head->count; r++) {
            kept[r] = head->count <= budget || r < plan->sinks || r + (budget - plan->sinks) >= head->count;
        }
        keep_marked(head, kept);
    }
}

/* lacache does not report what it evicts: the evicted entries are determined from those that remain. */
static void lacache(const struct moment *m, const void *plan) {
    for (uint32_t h = 0; h < KV_HEADS; h++) {
        struct entry had[TOKENS];
        struct head *head = &m->heads[h];
        const uint32_t count = head->count;
        memcpy(had, head->entries, count * sizeof *had);
        struct head one[1] = {*head};
        struct tensors shape = *m->t;
        shape.lists = 1;
        const struct moment alone = {&shape, one, m->layer, m->now, m->turn, m->step};
        oracle_lacache(&alone, plan);
        *head = one[0];
        for (uint32_t r = 0, at = 0; r < count; r++) {
            if (at < head->count && head->entries[at].k == had[r].k) {
                at++;
                continue;
            }
            free(had[r].k);
            free(had[r].v);
        }
    }
}

/* ---- take: its prompt is read in chunks ---- */

/* Layers below W-1 keep the positions that list h of layer W-1 has kept. */
static void keep_below(struct text *text, const struct take *plan, uint32_t h) {
    const struct head *chosen = &text->heads[plan->warmup_layers - 1][h];
    for (uint32_t l = 0; l + 1 < plan->warmup_layers; l++) {
        struct head *head = &text->heads[l][h];
        bool kept[TOKENS] = {false};
        for (uint32_t j = 0; j < head->count; j++)
            for (uint32_t k = 0; k < chosen->count; k++)
                kept[j] = kept[j] || chosen->entries[k].position == head->entries[j].position;
        if (oracle_acts(plan->left_out, l))
            keep_marked(head, kept);
    }
}

/* Evicts from layer l after a chunk. A [p, Q] is the average of the probe so far. */
static void take_layer(struct text *text, const struct take *plan, uint32_t l, const float *A, uint32_t p, bool last) {
    const uint32_t n = text->heads[l][0].count;
    const uint32_t budget = l + 1 == plan->warmup_layers && !last ? plan->warmup_budget : plan->budget;
    for (uint32_t h = 0; h < text->shape.lists && n > budget; h++) {
        struct head *head = &text->heads[l][h];
        float score[TOKENS] = {0};
        bool candidate[TOKENS], kept[TOKENS] = {false};
        memset(candidate, true, sizeof candidate);
        for (uint32_t i = 0; i < p; i++)
            rows_add_probabilities(&text->shape, head, h, A + i * Q, n, n, score);
        for (uint32_t j = 0; j < n; j++)
            score[j] /= (float)p;
        rows_pool(score, n, plan->kernel, !plan->max);
        mark_top(score, candidate, n, budget, kept);
        keep_marked(head, kept);
        if (l + 1 == plan->warmup_layers)
            keep_below(text, plan, h);
    }
}

/* Reads a prompt; `logits` are those of its last token. */
static void take_prompt(struct text *text, const struct take *plan, const int32_t *tokens, uint32_t count,
                        float *logits) {
    const uint32_t most = plan->own && plan->chunk < count ? plan->chunk : count;
    const uint32_t p = plan->probe < most ? plan->probe : most;
    float A[LAYERS][TOKENS * Q];
    for (uint32_t from = 0, end; from < count; from = end) {
        end = count - from < plan->chunk ? count : from + plan->chunk;
        const bool last = end == count;
        for (uint32_t i = from; i < end; i++)
            oracle_row(text, tokens[i], logits);
        if (!last && !plan->own)
            oracle_probe(text, tokens + count - p, p, plan->together);
        const uint32_t row = last || plan->own ? text->tokens - p : text->tokens;
        for (uint32_t l = 0; l < LAYERS; l++) {
            const float *now = text->q[l][row];
            for (uint32_t i = 0; i < p * Q; i++)
                A[l][i] = from == 0 || plan->own ? now[i] : fmaf(plan->alpha, A[l][i], (1 - plan->alpha) * now[i]);
            if (l + 1 >= plan->warmup_layers && oracle_acts(plan->left_out, l))
                take_layer(text, plan, l, A[l], p, last);
        }
    }
}

static const struct scores_plan stream_plan = {.budget = 20, .sinks = 3};
static const struct scores_plan share_plan = {.share = 40, .sinks = 2, .left_out = 1};
static const struct scores_plan ladder_plan = {.budget = 24, .span = 1, .sinks = 4};
static const struct take takes[] = {{20, 20, 0, 11, 5, 3, 0.32f, true, true, false, false, 0},
                                    {8, 16, 2, 9, 4, 5, 0.5f, false, false, false, false, 0},
                                    {6, 9, 3, 4, 6, 1, 0.2f, true, true, false, true, 0},
                                    {12, 12, 2, 7, 3, 7, 0.32f, true, true, true, false, 1}};
#define TAKE(budget, warmup, layers, chunk, probe, kernel, alpha)                                                      \
    "take:budget=" #budget ",warmup_budget=" #warmup ",warmup_layers=" #layers ",chunk=" #chunk ",probe=" #probe       \
    ",kernel=" #kernel ",alpha=" #alpha ",positions=cache"
static const struct joined methods[] = {
    {TAKE(20, 20, 0, 11, 5, 3, 0.32), NULL, NULL, &takes[0]},
    {TAKE(8, 16, 2, 9, 4, 5, 0.5) ",pooling=avg,probe_sees=chunk+topk:budget=200", NULL, NULL, &takes[1]},
    {TAKE(6, 9, 3, 4, 6, 1, 0.2) ",per=head", NULL, NULL, &takes[2]},
    {TAKE(12, 12, 2, 7, 3, 7, 0.32) ",probe_from=chunk,skip_layers=1", NULL, NULL, &takes[3]},
    {"streaming:budget=20,sinks=3,positions=cache", streaming, &stream_plan, NULL},
    {"streaming:budget=40%,sinks=2,skip_layers=1,positions=cache", streaming, &share_plan, NULL},
    {"lacache:budget=24,span=1,sinks=4,positions=cache", lacache, &ladder_plan, NULL},
    {"streaming:budget=20,sinks=3,positions=cache+topk:budget=21", streaming, &stream_plan, NULL},
    {"full", NULL, NULL, NULL}};
enum { METHODS = sizeof methods / sizeof *methods };

struct turn { /* tokens of a prompt, then decode steps */
    uint32_t prompt, steps;
};
static const struct turn turns[] = {{30, 25}, {1, 4}, {17, 12}, {2, 9}, {0, 0}};

struct run {
    struct kvc_session *session;
    struct text *text;
    const struct joined *method;
};

static struct run open_run(struct model *m, struct kvc_runner **runner, const struct joined *method, enum kvc_type type,
                           uint32_t chunk, uint64_t context) {
    struct kvc_session_options options;
    struct run run = {.method = method};
    kvc_session_defaults(&options);
    options.policy = method->spec;
    options.cache_type = kvc_entry_types(type);
    options.chunk = chunk;
    options.context = context;
    FINE(kvc_session_create(engine, &m->network, runner, &options, &run.session, &error));
    run.text = open_text(m, type, method->take && method->take->per_head ? HEADS : KV_HEADS, context > 0);
    return run;
}

static void prompt(const struct run *run, const int32_t *tokens, uint32_t count) {
    float found[VOCAB], expected[VOCAB];
    FINE(kvc_session_prompt(run->session, tokens, count, NULL, found, &error));
    if (run->method->take)
        take_prompt(run->text, run->method->take, tokens, count, expected);
    for (uint32_t i = 0; i < count && !run->method->take; i++)
        oracle_row(run->text, tokens[i], expected);
    same(found, run->text, expected, run->method->spec);
    evict_all(run->text, run->method, count);
}

/* One decode step of both sessions in one batch. */
static void step(const struct run runs[2], const int32_t tokens[2]) {
    float found[2 * VOCAB], expected[VOCAB];
    struct kvc_session *sessions[2] = {runs[0].session, runs[1].session};
    FINE(kvc_decode(sessions, tokens, 2, found, NULL, &error));
    for (int i = 0; i < 2; i++) {
        oracle_row(runs[i].text, tokens[i], expected);
        same(found + i * VOCAB, runs[i].text, expected, runs[i].method->spec);
        evict_all(runs[i].text, runs[i].method, 0);
    }
}

static void close_run(struct run *run) {
    kvc_session_close(run->session);
    close_text(run->text);
}

/* Two methods in one batch over several turns, of which the last has no prompt. */
static void run_pair(struct model *m, const struct joined *a, const struct joined *b, enum kvc_type type,
                     uint64_t context, const struct turn *turn) {
    struct kvc_runner *runner = NULL;
    struct run runs[2] = {open_run(m, &runner, a, type, 0, context), open_run(m, &runner, b, type, 7, context)};
    int32_t tokens[2 * TOKENS];
    uint64_t random = strlen(a->spec) + 10 * strlen(b->spec);
    for (uint32_t i = 0; i < 2 * TOKENS; i++)
        tokens[i] = (int32_t)((number(&random) + 1) / 2 * (VOCAB - 1));
    for (uint32_t at = 0; turn->prompt; turn++) {
        prompt(&runs[0], tokens + at, turn->prompt);
        prompt(&runs[1], tokens + TOKENS + at, turn->prompt);
        at += turn->prompt;
        for (uint32_t s = 0; s < turn->steps; s++, at++)
            step(runs, (const int32_t[]){tokens[at], tokens[TOKENS + at]});
    }
    close_run(&runs[0]);
    close_run(&runs[1]);
    kvc_runner_close(runner);
}

static void test_places(void **state) {
    (void)state;
    static float frequency[] = {1.0f, 0.5f, 0.2f, 0.1f, 0.03f, 0.01f},
                 slow[] = {0.5f, 0.2f, 0.1f, 0.05f, 0.01f, 0.004f};
    static const struct {
        uint32_t rotary;
        bool interleaved, norms, long_factors;
        float factor;
    } kinds[] = {{12, false, false, false, 1.0f},
                 {12, true, true, false, 1.0f},
                 {8, false, true, false, 1.3f}, /* some of the channels; yarn's factor */
                 {4, true, false, false, 1.0f},
                 {12, false, false, true, 1.1f}}; /* longrope */
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct kvc_rope rope = {.rotary = kinds[i].rotary,
                                      .interleaved = kinds[i].interleaved,
                                      .frequency = frequency,
                                      .long_frequency = kinds[i].long_factors ? slow : NULL,
                                      .original_context = 64,
                                      .attention_factor = kinds[i].factor,
                                      .long_attention_factor = 1.2f};
        struct model *m = make_model(&rope, kinds[i].norms);
        for (size_t a = 0; a < METHODS; a++) {
            if (kvc_test_thinned() && a != i % METHODS)
                continue;
            run_pair(m, &methods[a], &methods[(a + 1 + i) % METHODS], types[(a + i) % 3],
                     kinds[i].long_factors ? 100 : 0, turns);
        }
        free_model(m);
    }
}

/* Indices beyond a tile of the cosine table, and other numbers of threads. */
static void test_long(void **state) {
    static float frequency[] = {1.0f, 0.5f, 0.2f, 0.1f, 0.03f, 0.01f};
    static const struct take plan = {120, 120, 0, 130, 8, 3, 0.32f, true, true, false, false, 0};
    static const struct joined method = {TAKE(120, 120, 0, 130, 8, 3, 0.32), NULL, NULL, &plan};
    static const struct turn turn[] = {{270, 3}, {0, 0}};
    const struct kvc_rope rope = {.rotary = D, .frequency = frequency, .attention_factor = 1};
    struct kvc_engine *const opened = engine;
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        const struct kvc_engine_options options = {
            .backend = getenv("KVCULL_TEST_BACKEND"), .threads = threads, .math = KVC_MATH_EXACT};
        FINE(kvc_engine_open(&options, &engine, &error));
        struct model *m = make_model(&rope, false);
        run_pair(m, &method, &methods[threads / 2], KVC_F16, 0, turn);
        free_model(m);
        kvc_engine_close(engine);
    }
    engine = opened;
}

/* Models and methods that do not allow keys to be rotated again are refused with one line that gives the reason. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *spec, *says, *too;
    } cases[] = {
        {"streaming:budget=20,positions=cache+snapkv:budget=64", "streaming", "snapkv"},
        {"streaming:budget=20,stages=decode,positions=cache+h2o:budget=30,stages=prompt", "streaming", "h2o"},
        {"take:budget=30+streaming:budget=20,positions=cache", "streaming", "take"},
        {"lacache:budget=200,positions=cache,stages=decode+dapq:budget=60", "lacache", "dapq"},
        {"rocketkv:budget=30+streaming:budget=20,positions=cache", "streaming", "rocketkv"},
        {"take:budget=30,positions=cache+h2o:budget=30,stages=decode", "take", "h2o"},
        {"take:budget=30,positions=cache+streaming:budget=20", "take", "streaming"},
        {"take:budget=30,positions=cache,probe_pos=end", "probe_pos=end", "must be chunk with positions=cache"},
        {"take:budget=30,average=unrotated,positions=cache", "average=unrotated", "must be rotated"},
        {"streaming:budget=20,positions=cache+think", "streaming", "think"},
        {"streaming:budget=20,positions=there", "positions=there", "original|cache"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(kvc_policy_check(engine, cases[i].spec, &error), KVC_USAGE);
        if (!strstr(error.text, cases[i].says) || !strstr(error.text, cases[i].too))
            fail_msg("%s: '%s' does not say '%s' and '%s'", cases[i].spec, error.text, cases[i].says, cases[i].too);
    }
    FINE(kvc_policy_check(engine, "streaming:budget=20,positions=cache,stages=prompt+quest:budget=8", &error));

    const struct kvc_geometry geometry = {LAYERS, HEADS, KV_HEADS, D};
    struct kvc_session_options options;
    struct kvc_replay *replay;
    kvc_session_defaults(&options);
    options.policy = "streaming:budget=20,sinks=3,positions=cache";
    assert_int_equal(kvc_replay_open(engine, &geometry, &options, &replay, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "replay"));

    float frequency[D / 2] = {1};
    const struct kvc_rope rope = {.rotary = D, .frequency = frequency, .attention_factor = 1};
    struct model *m = make_model(&rope, false);
    struct kvc_runner *runner = NULL;
    struct kvc_session *session;
    m->layers[1].window = 16;
    assert_int_equal(kvc_session_create(engine, &m->network, &runner, &options, &session, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "layer 1 sees its last 16 positions"));
    kvc_runner_close(runner);
    free_model(m);
}

static int open_engine(void **state) {
    (void)state;
    const struct kvc_engine_options options = {
        .backend = getenv("KVCULL_TEST_BACKEND"), .threads = 2, .math = KVC_MATH_EXACT};
    return kvc_engine_open(&options, &engine, &error) == KVC_OK ? 0 : -1;
}

static int close_engine(void **state) {
    (void)state;
    kvc_engine_close(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
