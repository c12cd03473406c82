/* test_formula.c - the memory held, the memory needed in prefill and the bytes read by decode steps match the methods'
 * formulas within 1 %: every method, over shapes, cache types and prompts below, at, above and far above the budget. */
#include "kvcull/check.h"
#include "kvcull/policy.h"
#include "tests/check.h"
#include "tests/method_spec.h"
#include "tests/oracle/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct kvc_engine *engine;
static struct kvc_error error;
static unsigned failures;

struct shape {
    struct kvc_geometry geometry;
    enum kvc_type type;
    uint32_t steps;
    bool costly;             /* `costly`: two prompts are enough */
    const uint32_t *windows; /* [layers], or NULL; with windows, only estimates are compared */
};

/* Policies with a budget of 96. A method that is missing here is tested with the trial options of its class. */
static const char *const specs[] = {"full",
                                    "window:budget=96",
                                    "streaming:budget=96",
                                    "h2o:budget=96",
                                    "h2o:budget=96,per=head",
                                    "h2o:budget=40,prompt=keep",
                                    "take:budget=20,chunk=50,probe_from=chunk",
                                    "scissorhands:budget=96",
                                    "keyformer:budget=96",
                                    "snapkv:budget=96",
                                    "snapkv:budget=40%,per=head",
                                    "pyramidkv:budget=96",
                                    "pyramidkv:budget=96,per=head",
                                    "adakv:budget=96",
                                    "adakv:budget=96,per=head",
                                    "cake:budget=96",
                                    "fastkv:budget=96,tsp=200,tsp_layer=0",
                                    "fastkv:budget=96,tsp=60,tsp_layer=0",
                                    "lacache:budget=96,span=1,sinks=8",
                                    "duo:file=%s,sinks=16,recent=80",
                                    "morphkv:budget=96",
                                    "morphkv:budget=96,every=7",
                                    "dapq:budget=96",
                                    "take:budget=96,chunk=4096",
                                    "take:budget=96,chunk=150",
                                    "take:budget=96,chunk=150,question=keep",
                                    "take:budget=20,chunk=50,warmup_layers=0",
                                    "take:budget=40,chunk=64,warmup_budget=300,per=head",
                                    "tova:budget=96",
                                    "quest:budget=96",
                                    "quest:budget=96,per=head",
                                    "quest:budget=96,page=auto",
                                    "sparq:budget=96",
                                    "sparq:budget=96,keys=once",
                                    "sparq:dims=5,topk=20,mean_value=off",
                                    "hsa:budget=96",
                                    "hsa:ratio=6",
                                    "rocketkv:budget=96",
                                    "rocketkv-mt:budget=96",
                                    "topk:budget=96",
                                    "window:budget=96,stages=decode",
                                    "snapkv:budget=96,layers=1",
                                    "dapq:budget=96+hsa:budget=40",
                                    "snapkv:budget=split:40+quest:budget=split:40,page=auto",
                                    "snapkv:budget=96+morphkv:budget=80",
                                    "take:budget=96,chunk=100+topk:budget=30",
                                    "take:budget=96,chunk=100+snapkv:budget=70",
                                    "take:budget=120,chunk=100+dapq:budget=96,content=random",
                                    "duo:file=%s,sinks=16,recent=80+topk:budget=110",
                                    "fastkv:budget=96,tsp=150,tsp_layer=0+sparq:budget=50",
                                    "adakv:budget=96+window:budget=100",
                                    "cake:budget=96+quest:budget=40",
                                    "rocketkv-mt:budget=96+window:budget=80",
                                    "duo:file=%s,sinks=16,recent=80+sparq:budget=50",
                                    "dapq:budget=96+duo:file=%s,sinks=16,recent=80",
                                    "snapkv:budget=96+duo:file=%s,sinks=9,recent=30+hsa:budget=50",
                                    "take:budget=120,chunk=100+morphkv:budget=80,window=20",
                                    "fastkv:budget=96,tsp=60,tsp_layer=0+duo:file=%s,sinks=16,recent=40",
                                    "snapkv:budget=96,per=head+quest:budget=40,page=7",
                                    "adakv:budget=34",
                                    "adakv:budget=5,window=4+window:budget=20",
                                    "cake:budget=129",
                                    "cake:budget=129+tova:budget=80",
                                    "morphkv:budget=48,every=8,stages=decode",
                                    "morphkv:budget=135,every=8",
                                    "streaming:budget=141",
                                    "streaming:budget=40,layers=1,stages=prompt",
                                    "snapkv:budget=90,layers=1,per=head",
                                    "snapkv:budget=96+lacache:budget=60,span=1,sinks=8",
                                    "pyramidkv:budget=96+morphkv:budget=60,every=8",
                                    "adakv:budget=96+lacache:budget=60,span=1,sinks=8",
                                    "adakv:budget=60,floor=0+morphkv:budget=80,every=100",
                                    "adakv:budget=96,floor=0+hsa:ratio=4",
                                    "adakv:budget=96+duo:file=%s,sinks=16,recent=40",
                                    "cake:budget=96+hsa:ratio=2+tova:budget=90",
                                    "cake:budget=96+streaming:budget=80,skip_layers=1",
                                    "rocketkv:budget=30+morphkv:budget=90,every=100",
                                    "rocketkv-mt:budget=60+morphkv:budget=50,every=50",
                                    "take:budget=250,chunk=4096+rocketkv-mt:budget=43",
                                    "take:budget=60,chunk=64,warmup_layers=1+lacache:budget=50,span=1,sinks=8",
                                    "take:budget=50,chunk=100+cake:budget=50",
                                    "take:budget=90,chunk=64,per=head+duo:file=%s,sinks=9,recent=40",
                                    "finch:budget=96,chunk=50",
                                    "simlayerkv:recent=40,threshold=0.3",
                                    "simlayerkv:recent=40,threshold=0.3+quest:budget=60",
                                    "simlayerkv:recent=80,threshold=0.3+morphkv:budget=60,window=20",
                                    "simlayerkv:recent=80,threshold=0.5,layers=1+window:budget=120",
                                    ("duo:file=%s,sinks=16,recent=40,stages=prompt+"
                                     "sparq:budget=50+h2o:budget=90,stages=decode"),
                                    "window:budget=40,stages=prompt+duo:file=%s,sinks=9,recent=80+quest:budget=99"};

static void agrees(const char *what, const char *spec, const struct shape *shape, uint32_t prompt, double counted,
                   double expected, enum kvc_expected kind) {
    const double off = counted - expected, hundredth = expected / 100;
    if (kind == KVC_EXPECTED_MOST ? off <= 0.5 : off <= hundredth && off >= -hundredth)
        return;
    failures++;
    print_error("%s, %u layers of %u/%u heads of %u, %s, %u rows: %s %.0f, expected %s %.0f (%+.2f %%)\n", spec,
                shape->geometry.layers, shape->geometry.heads, shape->geometry.kv_heads, shape->geometry.head_size,
                kvc_type_name(shape->type), prompt, what, counted, kind == KVC_EXPECTED_MOST ? "at most" : "", expected,
                100 * off / expected);
}

/* Writes a file of scores for duo in which every other head streams, and none in layer 1. */
static void write_scores(const char *path, const struct kvc_geometry *g) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (uint32_t l = 0; l < g->layers; l++)
        for (uint32_t h = 0; h < g->kv_heads; h++)
            fprintf(file, "%d%c", l == 1 || h % 2, h + 1 < g->kv_heads ? '\t' : '\n');
    assert_int_equal(fclose(file), 0);
}

static struct kvc_replay *run_prompt(const char *spec, const struct shape *shape, const struct tensors *t,
                                     uint32_t prompt) {
    const struct kvc_geometry *g = &shape->geometry;
    struct kvc_session_options options;
    struct kvc_replay *replay;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = kvc_entry_types(shape->type);
    FINE(kvc_replay_open(engine, g, &options, &replay, &error));
    if (shape->windows)
        FINE(kvc_replay_windows(replay, shape->windows, &error));
    for (uint32_t l = 0; l < g->layers; l++) {
        if (strstr(spec, "dapq") && prompt > 96)
            FINE(kvc_replay_pseudo(replay, l, q_row(t, l, 0), t->k + kv_at(t, l, 0, 0), 8, &error));
        if ((strstr(spec, "kvzip") || strstr(spec, "kvcompose")) && prompt > 96)
            FINE(kvc_replay_pseudo(replay, l, q_row(t, l, 0), t->k + kv_at(t, l, 0, 0), prompt, &error));
        const char *chunk = strstr(spec, "chunk=");
        const uint32_t Z = chunk ? (uint32_t)atoi(chunk + 6) : prompt;
        const char *probe = strstr(spec, "probe=");
        const uint32_t wanted = probe ? (uint32_t)atoi(probe + 6) : 32, probes = wanted < prompt ? wanted : prompt;
        for (uint32_t c = 0; strstr(spec, "take") && (c + 1) * Z < prompt; c++)
            FINE(kvc_replay_probe(replay, l, c, q_row(t, l, 0), probes, &error));
    }
    for (uint32_t l = 0; l < g->layers; l++)
        FINE(kvc_replay_prompt(replay, l, q_row(t, l, 0), t->k + kv_at(t, l, 0, 0), t->v + kv_at(t, l, 0, 0), prompt,
                               NULL, &error));
    return replay;
}

static void compare(const char *spec, const struct shape *shape, const struct tensors *t, uint32_t prompt) {
    const struct kvc_geometry *g = &shape->geometry;
    struct kvc_replay *replay = run_prompt(spec, shape, t, prompt);
    struct kvc_session_stats stats;
    struct kvc_estimate estimate;
    struct kvc_formula formula;
#define AGREES(what, counted, expected, kind)                                                                          \
    agrees(what, spec, shape, prompt, (double)(counted), (double)(expected), kind)
    kvc_session_stats(kvc_replay_session(replay), &stats);
    FINE(kvc_formula(engine, spec, g, kvc_entry_types(shape->type), prompt, 0, &formula, &error));
    FINE(kvc_estimate_windows(engine, spec, g, shape->windows, 8, kvc_entry_types(shape->type), prompt, 0, &estimate,
                              &error));
    if (!shape->windows)
        AGREES("entries", stats.entries, formula.entries, formula.entry_kind);
    AGREES("peak in the prompt", stats.prompt_peak_bytes, estimate.peak_bytes, estimate.kind);
    AGREES("bytes after the prompt", stats.cache_bytes + stats.state_bytes, estimate.cache_bytes + estimate.state_bytes,
           estimate.kind);
    for (uint32_t s = 0; s < shape->steps; s++)
        for (uint32_t l = 0; l < g->layers; l++)
            FINE(kvc_replay_step(replay, l, q_row(t, l, prompt + s), t->k + kv_at(t, l, prompt + s, 0),
                                 t->v + kv_at(t, l, prompt + s, 0), NULL, &error));
    kvc_session_stats(kvc_replay_session(replay), &stats);
    FINE(kvc_formula(engine, spec, g, kvc_entry_types(shape->type), prompt, shape->steps, &formula, &error));
    FINE(kvc_estimate_windows(engine, spec, g, shape->windows, 8, kvc_entry_types(shape->type), prompt, shape->steps,
                              &estimate, &error));
    if (!shape->windows) {
        AGREES("bytes read", stats.read_bytes, formula.read_bytes, formula.read_kind);
        AGREES("bytes read to choose", stats.select_bytes, formula.select_bytes, formula.read_kind);
    }
    if (!shape->windows && formula.read_kind == KVC_EXPECTED_MOST &&
        !strchr(spec, '+')) /* of every page only one extreme per channel is read */
        AGREES("half of the bytes to choose", formula.select_bytes / 2, stats.select_bytes, KVC_EXPECTED_MOST);
    AGREES("bytes at the end", stats.cache_bytes + stats.state_bytes, estimate.cache_bytes + estimate.state_bytes,
           estimate.kind);
    AGREES("peak", stats.peak_bytes, estimate.peak_bytes, shape->windows ? KVC_EXPECTED_MOST : estimate.kind);
    if (estimate.kind == KVC_EXPECTED_EXACT)
        AGREES("entries of the fullest head", stats.entries_most, estimate.entries, KVC_EXPECTED_MOST);
    kvc_replay_close(replay);
#undef AGREES
}

static bool has_row(const struct kvc_policy_class *policy) {
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        if (kvc_test_is_of(specs[s], policy))
            return true;
    return policy->predictor && strcmp(policy->name, "dms"); /* these need a model: test_predict.c, test_fastkvzip.c */
}

static void test_all(void **state) {
    (void)state;
    static const struct shape shapes[] = {{{3, 6, 2, 24}, KVC_F16, 12, false, NULL},
                                          {{2, 8, 8, 64}, KVC_Q8_0, 3, false, NULL},
                                          {{4, 7, 1, 40}, KVC_F32, 280, true, NULL},
                                          {{12, 12, 4, 64}, KVC_F16, 5, true, NULL}};
    static const uint32_t prompts[] = {40, 96, 97, 130, 256, 500};
    const char *folder = getenv("TMPDIR");
    char path[256], spec[400];
    snprintf(path, sizeof path, "%s/kvcull-duo-%ld.tsv", folder ? folder : "/tmp", (long)getpid());
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const struct kvc_geometry *g = &shapes[s].geometry;
        write_scores(path, g);
        for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++) {
            if (shapes[s].costly && prompts[p] != 130 && (prompts[p] != 500 || g->layers > 4))
                continue;
            if (kvc_test_thinned() && (shapes[s].costly || prompts[p] > 130))
                continue;
            struct tensors t =
                make_tensors(RANDOM, s, g->layers, g->heads, g->kv_heads, g->head_size, prompts[p] + shapes[s].steps);
            for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
                if (kvc_test_thinned() && (i + p + 4 * s) % 8) /* every policy once */
                    continue;
                snprintf(spec, sizeof spec, specs[i], path);
                compare(spec, &shapes[s], &t, prompts[p]);
            }
            for (size_t i = 0; kvc_policy(engine, i); i++)
                if (!has_row(kvc_policy(engine, i))) {
                    kvc_test_method_spec(kvc_policy(engine, i), 96, spec, sizeof spec);
                    compare(spec, &shapes[s], &t, prompts[p]);
                }
            free_tensors(&t);
        }
    }
    remove(path);
    assert_int_equal(failures, 0);
}

/* Returns a number below n from a linear congruential generator (Knuth's constants). */
static uint32_t below(uint64_t *random, uint32_t n) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

static struct shape draw_shape(uint64_t *random, uint32_t layers, uint32_t size) {
    const uint32_t kv = 1 + below(random, 4);
    return (struct shape){{1 + below(random, layers), kv * (1 + below(random, 4)), kv, 8 * (1 + below(random, size))},
                          below(random, 2) ? KVC_F16 : KVC_F32,
                          1 + below(random, below(random, 2) ? 300 : 10),
                          false,
                          NULL};
}

/* Compares a drawn policy, unless its methods cannot be joined or a budget is too small. The queries of every other KV
 * head are multiplied by `sharp`, so that this head attends to fewer entries. */
static void compare_drawn(const char *spec, const struct shape *shape, uint32_t prompt, unsigned seed, float sharp) {
    const struct kvc_geometry *g = &shape->geometry;
    const size_t width = (size_t)g->heads * g->head_size, group = width / g->kv_heads;
    struct kvc_estimate estimate;
    if (kvc_estimate(engine, spec, g, 8, kvc_entry_types(shape->type), prompt, 0, &estimate, &error) != KVC_OK)
        return;
    struct tensors t =
        make_tensors(RANDOM, seed, g->layers, g->heads, g->kv_heads, g->head_size, prompt + shape->steps);
    for (size_t i = 0; i < g->layers * t.rows * width; i++)
        t.q[i] *= i % width / group % 2 ? sharp : 1;
    compare(spec, shape, &t, prompt);
    free_tensors(&t);
}

/* Policies of one to three methods, drawn with budgets, shapes and lengths. */
static void test_drawn(void **state) {
    (void)state;
    static const char *const methods[3][13] = {
        {"snapkv", "adakv", "adakv:floor=0", "pyramidkv", "cake", "dapq", "h2o:stages=prompt", "tova:stages=prompt",
         "snapkv:per=head", "expected", "knorm", "compactor", "lagkv"},
        {"morphkv", "morphkv:every=8", "h2o", "h2o:prompt=keep", "tova", "scissorhands", "keyformer",
         "lacache:span=1,sinks=4", "window", "streaming", "rkv", "morphkv:window=20", "rkv:every=20"},
        {"quest", "hsa", "sparq", "topk", "rocketkv", "rocketkv-mt", "quest:page=7", "hsa:ratio=6", "topk", "quest",
         "hsa", "sparq", "rocketkv"}};
    uint64_t random = 7;
    for (unsigned run = 0; run < (kvc_test_thinned() ? 60 : 600); run++) {
        const uint32_t kinds = 1 + below(&random, 7);
        const struct shape shape = draw_shape(&random, 8, 8);
        const uint32_t prompt = 20 + below(&random, 900);
        char spec[400] = "";
        for (unsigned kind = 0; kind < 3; kind++) {
            const char *method = methods[kind][below(&random, 13)];
            const uint32_t budgets = below(&random, 3) ? 1 : shape.geometry.layers;
            const char *between = strchr(method, ':') ? "," : ":";
            if (!(kinds >> kind & 1))
                continue;
            snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%s%s", spec[0] ? "+" : "", method);
            for (uint32_t i = 0; i < budgets; i++)
                snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%s%s%u", i ? "/" : between,
                         i ? "" : "budget=", 20 + below(&random, 300));
        }
        compare_drawn(spec, &shape, prompt, run, 1);
    }
    assert_int_equal(failures, 0);
}

/* Methods that evict once in some steps, after methods that leave lists of different lengths. The last steps are
 * between two evictions: some lists have just been cut, and others still grow. */
static void test_drawn_every(void **state) {
    (void)state;
    static const char *const uneven[] = {"adakv:floor=0", "adakv:floor=0.1", "kvzip:floor=0", "cake:window=8"};
    static const char *const every[] = {"morphkv:window=8", "rkv:window=8", "snapkv-decode:window=8",
                                        "triattention:stats=drawn"};
    uint64_t random = 11;
    for (unsigned run = 0; run < (kvc_test_thinned() ? 16u : 60u); run++) {
        struct shape shape = draw_shape(&random, 2, 1);
        const uint32_t steps = 20 + below(&random, 150), budget = 60 + below(&random, 80);
        const uint32_t later = budget + below(&random, steps), prompt = 2 * budget + below(&random, 60);
        const char *first = uneven[run % 4], *second = every[run / 4 % 4];
        char spec[400];
        shape.steps = steps + below(&random, steps);
        snprintf(spec, sizeof spec, "%s,budget=%u+%s,budget=%u,every=%u", first, budget, second, later, steps);
        compare_drawn(spec, &shape, prompt, run, 20);
    }
    assert_int_equal(failures, 0);
}

/* `take` with small chunks, probes and budgets. */
static void test_drawn_take(void **state) {
    (void)state;
    uint64_t random = 3;
    for (unsigned run = 0; run < (kvc_test_thinned() ? 20u : 100u); run++) {
        struct shape shape = draw_shape(&random, 3, 1);
        uint32_t windows[8];
        for (size_t l = 0; l < 8; l++)
            windows[l] = below(&random, 3) ? 1 + below(&random, below(&random, 2) ? 6 : 60) : 0;
        if (below(&random, 4))
            shape.windows = windows;
        const uint32_t chunk = 1 + below(&random, below(&random, 2) ? 8 : 60),
                       probe = 1 + below(&random, below(&random, 2) ? 4 : 40), budget = 1 + below(&random, 60);
        const uint32_t warm = below(&random, shape.geometry.layers + 1), choices = below(&random, 64);
        char spec[400];
        snprintf(spec, sizeof spec, "take:chunk=%u,probe=%u,budget=%u,kernel=1,warmup_layers=%u%s%s%s", chunk, probe,
                 budget, warm, choices & 1 ? ",probe_sees=chunk" : "", choices & 6 ? "" : ",probe_from=chunk",
                 choices & 24 ? "" : ",per=head");
        compare_drawn(spec, &shape, 1 + below(&random, 300), run, 1);
    }
    assert_int_equal(failures, 0);
}

/* A formula that calls its bytes exact has them to the byte, also where the last page is not full. */
static void test_exact_bytes(void **state) {
    (void)state;
    static const char *const selects[] = {"quest:budget=32,page=16", "quest:budget=30,page=5", "sparq:budget=33",
                                          "hsa:budget=33",           "topk:budget=33",         "window:budget=33"};
    const struct shape shape = {{2, 4, 4, 64}, KVC_F16, 9, false, NULL};
    for (uint32_t prompt = 90; prompt < 100; prompt++) {
        struct tensors t = make_tensors(RANDOM, prompt, 2, 4, 4, 64, prompt + shape.steps);
        for (size_t i = 0; i < sizeof selects / sizeof *selects; i++) {
            struct kvc_replay *replay = run_prompt(selects[i], &shape, &t, prompt);
            struct kvc_session_stats stats;
            struct kvc_formula formula;
            for (uint32_t s = 0; s < shape.steps; s++)
                for (uint32_t l = 0; l < 2; l++)
                    FINE(kvc_replay_step(replay, l, q_row(&t, l, prompt + s), t.k + kv_at(&t, l, prompt + s, 0),
                                         t.v + kv_at(&t, l, prompt + s, 0), NULL, &error));
            kvc_session_stats(kvc_replay_session(replay), &stats);
            FINE(kvc_formula(engine, selects[i], &shape.geometry, kvc_entry_types(shape.type), prompt, shape.steps,
                             &formula, &error));
            const double off = formula.read_bytes - (double)stats.read_bytes;
            if (formula.read_kind == KVC_EXPECTED_EXACT ? off < -0.5 || off > 0.5 : off < -0.5)
                fail_msg("%s, %u rows: %.1f bytes read, the formula has %.1f (%s)", selects[i], prompt,
                         (double)stats.read_bytes, formula.read_bytes,
                         formula.read_kind == KVC_EXPECTED_EXACT ? "exact" : "at most");
            kvc_replay_close(replay);
        }
        free_tensors(&t);
    }
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

/* Lengths that no run could have, in little time: equal chunks and equal reductions are counted together. */
static void test_long(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {32, 32, 8, 128};
    static const char *const takes[] = {"take:budget=4096", "take:budget=96,chunk=1",
                                        "take:budget=96,chunk=64,layers=0-15"};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        struct kvc_estimate some, many, rest;
        FINE(kvc_estimate(engine, takes[i], &geometry, 8, kvc_entry_types(KVC_F16), 1u << 20, 0, &some, &error));
        FINE(kvc_estimate(engine, takes[i], &geometry, 8, kvc_entry_types(KVC_F16), 1u << 30, 1u << 30, &many, &error));
        FINE(kvc_estimate(engine, "lacache:budget=4096", &geometry, 8, kvc_entry_types(KVC_F16), 1u << 30, 1u << 30,
                          &rest, &error));
        if (i < 2) /* the prompt's length makes no difference */
            assert_int_equal(some.prompt_peak_bytes, many.prompt_peak_bytes);
        else
            assert_true(many.prompt_peak_bytes > 500 * some.prompt_peak_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),         cmocka_unit_test(test_drawn),
                                       cmocka_unit_test(test_drawn_every), cmocka_unit_test(test_drawn_take),
                                       cmocka_unit_test(test_long),        cmocka_unit_test(test_exact_bytes)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
