/* test_methods_drawn.c - every method, and every one of a prompt stage joined with every one of the decode stage and of
 * the select stage, beside obvious code with options, prompts, turns, heads and tensors drawn at random, the ends of
 * each range and prompts around the budget often. KVCULL_TEST_DRAWS draws more of each. */
#include "core/base/policy_list.h"
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
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- what is drawn ---- */

enum { MOST_LAYERS = 5, MOST_LISTS = 8 };

static uint64_t random_state;

static uint32_t below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* An end of the range as often as anything within it. */
static uint32_t between(uint32_t low, uint32_t high) {
    const uint32_t which = below(4);
    return which == 0 ? low : which == 1 ? high : low + below(high - low + 1);
}

#define ONE_OF(...) ((const uint32_t[]){__VA_ARGS__}[below(sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))])

struct drawn {
    char spec[800];
    uint32_t layers, heads, kv_heads;
    uint32_t budget, share; /* share: percent, in place of the budget; 0: none */
    uint32_t left_out;      /* a bit for each layer that stays full */
    bool per_head, cut_rows;
    bool both; /* stages, if it has two: it is not limited to one */
    struct plan plan;
    struct scores_plan scores;
    struct mass_plan mass;
    struct cake_seen seen;
    struct select_plan select;
    struct parts parts;
    struct side side;
    float file[MOST_LAYERS * MOST_LISTS];
    char path[32]; /* a duo's; empty: none */
};

static void say(struct drawn *d, const char *format, ...) {
    const size_t used = strlen(d->spec);
    va_list list;
    va_start(list, format);
    vsnprintf(d->spec + used, sizeof d->spec - used, format, list);
    va_end(list);
}

/* Layers it acts on, `least` or more: the upper ones by skip_layers, or any by layers, said after the name. */
static void draw_layers(struct drawn *d, uint32_t least) {
    const uint32_t which = below(4), all = (1u << d->layers) - 1;
    d->left_out = which == 0 ? (1u << below(d->layers - least + 1)) - 1 : 0;
    for (uint32_t tries = 0; which == 1 && tries < 20 && d->left_out == 0; tries++) {
        const uint32_t some = below(all + 1);
        d->left_out = oracle_acting(some, d->layers) >= least ? some : 0;
    }
    if (which == 0)
        say(d, ",skip_layers=%u", d->layers - oracle_acting(d->left_out, d->layers));
    const char *between = ",layers=";
    for (uint32_t l = 0; l < d->layers && which == 1; l++) {
        uint32_t last = l;
        if (!oracle_acts(d->left_out, l))
            continue;
        while (last + 1 < d->layers && oracle_acts(d->left_out, last + 1))
            last++;
        say(d, last > l ? "%s%u-%u" : "%s%u", between, l, last);
        between = "/";
        l = last;
    }
}

/* NAME:budget=B or a share, and the layers; every other option is said after it. */
static void begin(struct drawn *d, const char *name, uint32_t least) {
    d->budget = between(least, least + 70);
    d->share = below(4) ? 0 : ONE_OF(1, 10, 33, 50, 100);
    say(d, "%s:budget=%u%s", name, d->share ? d->share : d->budget, d->share ? "%" : "");
    draw_layers(d, 1);
}

static uint32_t draw_kernel(struct drawn *d, bool *average) {
    const uint32_t kernel = ONE_OF(1, 3, 7, 63, 1048575);
    *average = below(2);
    say(d, ",kernel=%u,pooling=%s", kernel, *average ? "avg" : "max");
    return kernel;
}

static void draw_per_head(struct drawn *d) { /* layers that are skipped have lists per KV head */
    d->per_head = d->left_out == 0 && below(3) == 0;
    if (d->per_head)
        say(d, ",per=head");
}

static void use_plan(struct drawn *d) {
    d->plan.budget = d->plan.decode_budget = d->budget;
    d->plan.share = d->share;
    d->plan.left_out = d->left_out;
    d->side = (struct side){.prompt = oracle_prompt, .step = oracle_step, .plan = &d->plan};
}

static void use_parts(struct drawn *d, const struct parts *parts) {
    d->scores.budget = d->mass.budget = d->share ? 0 : d->budget;
    d->scores.share = d->mass.share = d->share;
    d->scores.left_out = d->mass.left_out = d->left_out;
    d->parts = *parts;
    d->side = (struct side){.prompt = parts_prompt, .step = parts_step, .plan = &d->parts};
}

static void use_select(struct drawn *d, enum choice method) {
    d->select.method = method;
    d->select.left_out = d->left_out;
    d->side = (struct side){.prompt = select_prompt, .step = select_step, .plan = &d->select, .select = oracle_select};
}

/* ---- the methods ---- */

static void draw_window(struct drawn *d) {
    begin(d, "window", 1);
    d->plan = (struct plan){.prompt = WINDOW, .decode = WINDOW};
    use_plan(d);
}

static void draw_streaming(struct drawn *d) {
    const uint32_t sinks = between(0, 20);
    begin(d, "streaming", sinks + 1);
    say(d, ",sinks=%u", sinks);
    d->plan = (struct plan){.prompt = STREAMING, .decode = STREAMING, .sinks = sinks};
    use_plan(d);
}

static void draw_snapkv(struct drawn *d) {
    const uint32_t window = between(1, 40);
    begin(d, "snapkv", window + 1);
    say(d, ",window=%u", window);
    d->plan = (struct plan){.prompt = SNAPKV, .decode = FULL, .window = window};
    d->plan.kernel = draw_kernel(d, &d->plan.average);
    draw_per_head(d);
    use_plan(d);
    d->plan.decode_budget = UINT32_MAX;
}

static void draw_morphkv(struct drawn *d) {
    const uint32_t window = between(1, 40), every = ONE_OF(1, 2, 7, 1048576), stages = d->both ? 2 : below(4);
    begin(d, "morphkv", window + 1);
    d->plan = (struct plan){MORPHKV, MORPHKV, .window = window, .decode_window = window, .every = every};
    d->plan.max_fusion = below(2);
    d->plan.logits = below(2);
    say(d, ",window=%u,every=%u,fusion=%s,scores=%s%s", window, every, d->plan.max_fusion ? "max" : "sum",
        d->plan.logits ? "logits" : "weights",
        stages == 0   ? ",stages=prompt"
        : stages == 1 ? ",stages=decode"
                      : "");
    use_plan(d);
    if (stages == 0)
        d->plan.decode = FULL, d->plan.decode_budget = UINT32_MAX;
    if (stages == 1)
        d->plan.prompt = FULL, d->plan.budget = UINT32_MAX;
}

static void draw_pyramidkv(struct drawn *d) {
    d->scores.window = between(1, 40);
    d->scores.beta = ONE_OF(1, 2, 20, 1000);
    begin(d, "pyramidkv", d->scores.window + 1);
    say(d, ",window=%u,beta=%u", d->scores.window, d->scores.beta);
    d->scores.kernel = draw_kernel(d, &d->scores.average);
    use_parts(d, &(struct parts){.prompt = oracle_pyramidkv, .prompt_plan = &d->scores});
}

static void draw_adakv(struct drawn *d) {
    static const double floors[] = {0, 0.2, 0.5, 1};
    d->scores.window = between(1, 40);
    d->scores.floor = floors[below(4)];
    begin(d, "adakv", d->scores.window + 1);
    say(d, ",window=%u,floor=%g", d->scores.window, d->scores.floor);
    d->scores.kernel = draw_kernel(d, &d->scores.average);
    use_parts(d, &(struct parts){.prompt = oracle_adakv, .prompt_plan = &d->scores});
}

static void draw_scissorhands(struct drawn *d) {
    d->scores.history = ONE_OF(1, 2, 16, 64, 4096);
    begin(d, "scissorhands", 1);
    d->scores.recent = below(2) && d->budget > 1 ? between(1, d->budget - 1) : 0;
    say(d, ",history=%u", d->scores.history);
    if (d->scores.recent)
        say(d, ",recent=%u", d->scores.recent);
    const struct scores_plan *plan = &d->scores;
    use_parts(
        d, &(struct parts){oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step, plan, plan, plan});
    if (d->both || below(4))
        return;
    d->scores.prompt_only = true;
    d->parts.step = NULL;
    say(d, ",stages=prompt");
}

static void draw_mass(struct drawn *d, const char *name) {
    begin(d, name, 1);
    d->mass.recent = below(2) && d->budget > 1 ? between(1, d->budget - 1) : 0;
    if (d->mass.recent)
        say(d, ",recent=%u", d->mass.recent);
    const struct mass_plan *plan = &d->mass;
    use_parts(d, &(struct parts){oracle_mass_look, oracle_mass, oracle_mass_step, plan, plan, plan});
}

static void draw_h2o(struct drawn *d) {
    draw_mass(d, "h2o");
    draw_per_head(d);
}

static void draw_keyformer(struct drawn *d) {
    static const double tau[] = {0.01, 1, 2.5, 1000};
    static const uint64_t seeds[] = {0, 1, 77, 9007199254740992u};
    draw_mass(d, "keyformer");
    d->mass.noise = true;
    d->mass.tau_init = tau[below(4)];
    d->mass.tau_end = tau[below(4)];
    d->mass.steps = ONE_OF(0, 1, 10, 2147483647);
    d->mass.seed = seeds[below(4)];
    say(d, ",tau_init=%g,tau_end=%g,steps=%u,seed=%llu", d->mass.tau_init, d->mass.tau_end, d->mass.steps,
        (unsigned long long)d->mass.seed);
}

static void draw_cake(struct drawn *d) {
    static const double tau[] = {0.05, 1, 2.5, 100}, gamma[] = {0, 1, 200, 1000000};
    d->mass.window = between(1, 40);
    d->mass.gamma = gamma[below(4)];
    d->mass.tau1 = tau[below(4)];
    d->mass.tau2 = tau[below(4)];
    d->mass.seen = &d->seen;
    begin(d, "cake", d->mass.window + 1);
    say(d, ",window=%u,gamma=%.0f,tau1=%g,tau2=%g", d->mass.window, d->mass.gamma, d->mass.tau1, d->mass.tau2);
    d->mass.kernel = draw_kernel(d, &d->mass.average);
    use_parts(d, &(struct parts){.prompt = oracle_cake, .prompt_plan = &d->mass});
}

static void draw_fastkv(struct drawn *d) {
    d->mass.window = between(1, 20);
    begin(d, "fastkv", d->mass.window + 1);
    d->mass.tsp = between(d->mass.window + 1, d->mass.window + 90);
    do
        d->mass.tsp_layer = between(0, d->layers - 1);
    while (!oracle_acts(d->left_out, d->mass.tsp_layer));
    say(d, ",window=%u,tsp=%u,tsp_layer=%u", d->mass.window, d->mass.tsp, d->mass.tsp_layer);
    d->mass.kernel = draw_kernel(d, &d->mass.average);
    d->cut_rows = true;
    use_parts(d, &(struct parts){.prompt = oracle_fastkv, .prompt_plan = &d->mass});
}

static void draw_lacache(struct drawn *d) {
    struct scores_plan *plan = &d->scores;
    d->layers = d->layers > 1 ? d->layers : 2;
    say(d, "lacache:positions=original");
    draw_layers(d, 2);
    const uint32_t L = oracle_acting(d->left_out, d->layers);
    uint32_t wb, wa;
    do {
        plan->span = between(1, L - 1);
        plan->overlap = between(0, plan->span - 1);
        const uint32_t rung = plan->span - plan->overlap;
        wb = 1 + (L - plan->span + rung - 1) / rung;
        wa = (plan->span + rung - 1) / rung < wb ? (plan->span + rung - 1) / rung : wb;
    } while (wb == wa);
    plan->sinks = between(0, 20);
    const uint32_t possible = plan->sinks + L + wa - (wb - wa) / 2;
    d->budget = between(possible, possible + 60);
    d->share = below(4) ? 0 : ONE_OF(1, 33, 50, 100);
    say(d, ",span=%u,overlap=%u,sinks=%u,budget=%u%s", plan->span, plan->overlap, plan->sinks,
        d->share ? d->share : d->budget, d->share ? "%" : "");
    use_parts(d, &(struct parts){NULL, oracle_lacache, oracle_lacache, NULL, plan, plan});
}

static void draw_duo(struct drawn *d) {
    static const float thresholds[] = {-1e9f, 0.3f, 0.5f, 1, 1e9f};
    const int fd = (strcpy(d->path, "test_drawn_XXXXXX"), mkstemp(d->path));
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    for (uint32_t l = 0; l < d->layers; l++)
        for (uint32_t h = 0; h < d->kv_heads; h++) {
            float *score = &d->file[l * d->kv_heads + h];
            *score = (float)below(11) / 10;
            fprintf(file, "%.1f%s", (double)*score, h + 1 < d->kv_heads ? "\t" : "\n");
        }
    assert_int_equal(fclose(file), 0);
    d->scores.scores = d->file;
    d->scores.threshold = thresholds[below(5)];
    d->scores.sinks = between(0, 20);
    d->scores.recent = between(1, 40);
    d->budget = d->scores.sinks + d->scores.recent;
    say(d, "duo:file=\"%s\",threshold=%.1f,sinks=%u,recent=%u", d->path, (double)d->scores.threshold, d->scores.sinks,
        d->scores.recent);
    draw_layers(d, 1);
    use_parts(d, &(struct parts){NULL, oracle_duo, oracle_duo, NULL, &d->scores, &d->scores});
}

static void draw_tova(struct drawn *d) {
    begin(d, "tova", 2);
    use_parts(d, &(struct parts){NULL, oracle_tova, oracle_tova, NULL, &d->scores, &d->scores});
}

static void draw_topk(struct drawn *d) {
    begin(d, "topk", 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    use_select(d, TOPK);
}

static void draw_quest(struct drawn *d) {
    begin(d, "quest", 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    d->select.page = ONE_OF(0, 1, 3, 16, 1048576);
    if (d->select.page)
        say(d, ",page=%u", d->select.page);
    else
        say(d, ",page=auto");
    use_select(d, QUEST);
}

static void draw_sparq(struct drawn *d) {
    if (below(2)) {
        begin(d, "sparq", 1);
        d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    } else {
        d->select = (struct select_plan){.dims = between(1, 8), .topk = between(1, 40)};
        d->select.local = between(0, d->select.topk);
        d->budget = d->select.topk;
        say(d, "sparq:dims=%u,topk=%u,local=%u", d->select.dims, d->select.topk, d->select.local);
        draw_layers(d, 1);
    }
    d->select.no_mean = below(2);
    say(d, ",mean_value=%s,keys=%s", d->select.no_mean ? "off" : "on", below(2) ? "once" : "twice");
    use_select(d, SPARQ);
}

static void draw_hsa(struct drawn *d) {
    static const double ratios[] = {1, 1.5, 7, 1048576};
    const uint32_t which = below(3);
    if (which == 0) {
        begin(d, "hsa", 1);
        d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
        use_select(d, HSA);
        return;
    }
    if (which == 1) {
        d->budget = 40;
        d->select = (struct select_plan){.ratio = ratios[below(4)]};
        say(d, "hsa:ratio=%.9g", d->select.ratio);
    } else {
        d->select =
            (struct select_plan){.page = ONE_OF(1, 2, 7, 1048576), .dims = between(1, 8), .topk = between(1, 40)};
        d->budget = d->select.topk;
        say(d, "hsa:page=%u,dims=%u,topk=%u", d->select.page, d->select.dims, d->select.topk);
    }
    draw_layers(d, 1);
    use_select(d, HSA);
}

static void draw_rocket(struct drawn *d, const char *name, enum choice method) {
    static const double splits[] = {-1, 0, 0.35, 1};
    begin(d, name, 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    d->select.window = between(1, 40);
    d->select.split = splits[below(4)];
    say(d, ",window=%u", d->select.window);
    d->select.kernel = draw_kernel(d, &d->select.average);
    if (d->select.split >= 0)
        say(d, ",split=%g", d->select.split);
    use_select(d, method);
}

static void draw_rocketkv(struct drawn *d) { draw_rocket(d, "rocketkv", ROCKET); }
static void draw_rocketkv_mt(struct drawn *d) { draw_rocket(d, "rocketkv-mt", ROCKET_MT); }

/* ---- runs ---- */

typedef void draw_fn(struct drawn *d);

static const struct {
    const char *name;
    draw_fn *draw;
} methods[] = {{"window", draw_window},
               {"streaming", draw_streaming},
               {"snapkv", draw_snapkv},
               {"morphkv", draw_morphkv},
               {"pyramidkv", draw_pyramidkv},
               {"adakv", draw_adakv},
               {"scissorhands", draw_scissorhands},
               {"h2o", draw_h2o},
               {"keyformer", draw_keyformer},
               {"cake", draw_cake},
               {"fastkv", draw_fastkv},
               {"lacache", draw_lacache},
               {"duo", draw_duo},
               {"tova", draw_tova},
               {"topk", draw_topk},
               {"quest", draw_quest},
               {"sparq", draw_sparq},
               {"hsa", draw_hsa},
               {"rocketkv", draw_rocketkv},
               {"rocketkv-mt", draw_rocketkv_mt},
               {"full", NULL},  /* the reference of every run */
               {"dapq", NULL},  /* test_dapq.c, test_methods_rows.c */
               {"take", NULL}}; /* test_methods_take.c */
enum { METHODS = sizeof methods / sizeof *methods };

static void begin_draws(struct drawn *d, uint64_t seed, uint32_t layers) {
    static const uint32_t heads[][2] = {{1, 1}, {4, 4}, {4, 1}, {7, 1}, {8, 2}, {8, 1}, {14, 2}};
    random_state = seed * 0x9E3779B97F4A7C15u;
    const size_t shape = below(sizeof heads / sizeof *heads);
    *d = (struct drawn){.layers = layers, .heads = heads[shape][0], .kv_heads = heads[shape][1]};
}

/* Prompts below, at, just above and well above the budget; steps of the first turn: UINT32_MAX draws turns, too. */
static void run(struct drawn *d, uint32_t steps) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    const uint32_t budget = d->budget;
    const size_t count = steps == UINT32_MAX ? 1 + below(3) : 1;
    struct turn turns[3];
    uint32_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t prompts[] = {1, budget - (budget > 1), budget, budget + 1, 2 * budget + 1, 1 + below(100)};
        const uint32_t prompt = prompts[below(6)];
        turns[i] = (struct turn){prompt < 150 ? prompt : 150, steps == UINT32_MAX ? between(0, 20) : steps};
        rows += turns[i].prompt + turns[i].steps;
    }
    struct tensors t = make_tensors((enum kind)below(KINDS), random_state, d->layers, d->heads, d->kv_heads, 8, rows);
    t.lists = d->per_head ? t.heads : t.kv_heads;
    if (d->cut_rows) {
        t.kept_rows = malloc((size_t)t.layers * rows);
        assert_non_null(t.kept_rows);
        memset(t.kept_rows, true, (size_t)t.layers * rows);
    }
    d->side.spec = d->spec;
    d->side.per_head = d->per_head;
    d->side.type = types[below(3)];
    d->side.chunk = ONE_OF(0, 1, 7, 33);
    side_run_turns(&t, turns, count, &d->side);
    free(t.kept_rows);
    free_tensors(&t);
}

static uint64_t draws(uint64_t defaults) {
    const char *more = getenv("KVCULL_TEST_DRAWS");
    return more ? strtoull(more, NULL, 10) : kvc_test_thinned() ? 1 : defaults;
}

static void test_alone(void **state) {
    (void)state;
    for (size_t m = 0; m < METHODS; m++)
        for (uint64_t i = 0; i < draws(10) && methods[m].draw; i++) {
            struct drawn d;
            begin_draws(&d, 1000 * m + i, 1 + (uint32_t)(i % MOST_LAYERS));
            methods[m].draw(&d);
            run(&d, UINT32_MAX);
            remove(d.path);
        }
}

static void test_300_steps(void **state) {
    (void)state;
    for (size_t m = 0; m < METHODS; m += kvc_test_thinned() ? 9 : 1) {
        struct drawn d;
        if (!methods[m].draw)
            continue;
        begin_draws(&d, 100000 + m, 1 + m % 2);
        methods[m].draw(&d);
        run(&d, 300);
        remove(d.path);
    }
}

/* ---- joined methods ---- */

struct joined {
    struct drawn prompt, decode, select; /* spec empty: none */
    struct plan decode_plan;             /* of decode's, where another evicts after the prompt */
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
    say(whole, "%s%s", whole->spec[0] ? "+" : "", one->spec);
    whole->per_head = whole->per_head || one->per_head;
    whole->cut_rows = whole->cut_rows || one->cut_rows;
    whole->budget = whole->budget == 0 || below(2) ? one->budget : whole->budget;
}

static void run_joined(draw_fn *before, draw_fn *follows, draw_fn *select, uint64_t seed) {
    struct drawn d;
    struct joined *joined = calloc(1, sizeof *joined);
    assert_non_null(joined);
    begin_draws(&d, seed, 2 + (uint32_t)(seed % (MOST_LAYERS - 1)));
    join(&d, &joined->prompt, before);
    join(&d, &joined->decode, follows);
    join(&d, &joined->select, select);
    joined->decode_plan = joined->decode.plan;
    joined->decode_plan.prompt = FULL;
    joined->decode_plan.budget = UINT32_MAX;
    d.side = (struct side){.prompt = joined_prompt, .step = joined_step, .plan = joined};
    d.side.select = select || joined->prompt.side.select ? joined_select : NULL;
    run(&d, UINT32_MAX);
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
        if (stages == evicts)
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
            fail_msg("%s: no obvious code draws its options here; add a function to the table",
                     kvc_policy_list[i]->name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_300_steps), cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, side_open, side_close);
}
