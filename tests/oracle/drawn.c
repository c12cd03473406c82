/* drawn.c - policies with random options, each with the plan of its oracle. */
#include "tests/oracle/drawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state;
uint32_t drawn_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* Returns a number in the range. The probability of each end is at least a quarter. */
static uint32_t between(uint32_t low, uint32_t high) {
    const uint32_t which = drawn_below(4);
    return which == 0 ? low : which == 1 ? high : low + drawn_below(high - low + 1);
}

#define ONE_OF(...)                                                                                                    \
    ((const uint32_t[]){__VA_ARGS__}[drawn_below(sizeof(const uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))])

/* Draws the layers on which the method acts, `least` or more: all, upper ones (option skip_layers) or any (option
 * layers). Appends the option to the policy string. */
static void draw_layers(struct drawn *d, uint32_t least) {
    const uint32_t which = drawn_below(4), all = (1u << d->layers) - 1;
    d->left_out = which == 0 ? (1u << drawn_below(d->layers - least + 1)) - 1 : 0;
    for (uint32_t tries = 0; which == 1 && tries < 20 && d->left_out == 0; tries++) {
        const uint32_t some = drawn_below(all + 1);
        d->left_out = oracle_acting(some, d->layers) >= least ? some : 0;
    }
    if (which == 0)
        drawn_say(d, ",skip_layers=%u", d->layers - oracle_acting(d->left_out, d->layers));
    const char *between = ",layers=";
    for (uint32_t l = 0; l < d->layers && which == 1; l++) {
        uint32_t last = l;
        if (!oracle_acts(d->left_out, l))
            continue;
        while (last + 1 < d->layers && oracle_acts(d->left_out, last + 1))
            last++;
        drawn_say(d, last > l ? "%s%u-%u" : "%s%u", between, l, last);
        between = "/";
        l = last;
    }
}

/* Appends NAME:budget=B, where B is a number or a percentage, and the option for layers. All other options come
 * later. */
static void begin(struct drawn *d, const char *name, uint32_t least) {
    d->budget = between(least, least + 70);
    d->share = drawn_below(4) ? 0 : ONE_OF(1, 10, 33, 50, 100);
    const bool each = !d->both && d->layers > 1 && strcmp(name, "cake") && strcmp(name, "pyramidkv") && !drawn_below(4);
    drawn_say(d, "%s:budget=", name);
    if (!each)
        drawn_say(d, "%u%s", d->share ? d->share : d->budget, d->share ? "%" : "");
    for (uint32_t l = 0; l < d->layers && each; l++) {
        d->each[l] = d->share ? ONE_OF(1, 10, 33, 50, 100) : between(least, least + 70);
        d->budget = !d->share && (l == 0 || d->each[l] < d->budget) ? d->each[l] : d->budget;
        drawn_say(d, "%s%u%s", l ? "/" : "", d->each[l], d->share ? "%" : "");
    }
    draw_layers(d, 1);
}

/* ---- budgets per layer: the plan receives the budget of the layer before each moment ---- */

static struct drawn *with_budget(const void *p, uint32_t layer) {
    struct drawn *d = (struct drawn *)(uintptr_t)p;
    const uint32_t budget = d->each[layer];
    uint32_t *const budgets[] = {&d->plan.budget, &d->plan.decode_budget, &d->scores.budget,
                                 &d->mass.budget, &d->entries.budget,     &d->select.budget};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        if (*budgets[i] != UINT32_MAX && !d->share) /* otherwise the stage is not the method's */
            *budgets[i] = budget;
    if (d->share)
        d->plan.share = d->scores.share = d->mass.share = d->entries.share = d->select.share = budget;
    return d;
}

static void each_prompt(const struct moment *m, const void *p) {
    const struct drawn *d = with_budget(p, m->layer);
    d->one.prompt(m, d->one.plan);
}

static void each_step(const struct moment *m, const void *p) {
    const struct drawn *d = with_budget(p, m->layer);
    d->one.step(m, d->one.plan);
}

static bool each_select(const struct moment *m, uint32_t h, bool *read, float *alpha, const void *p) {
    const struct drawn *d = with_budget(p, m->layer);
    return d->one.select(m, h, read, alpha, d->one.plan);
}

static void use(struct drawn *d, const struct side *side) {
    d->side = d->one = *side;
    if (d->each[0])
        d->side = (struct side){
            .prompt = each_prompt, .step = each_step, .plan = d, .select = side->select ? each_select : NULL};
}

static uint32_t draw_kernel(struct drawn *d, bool *average) {
    const uint32_t kernel = ONE_OF(1, 3, 7, 63, 1048575);
    *average = drawn_below(2);
    drawn_say(d, ",kernel=%u,pooling=%s", kernel, *average ? "avg" : "max");
    return kernel;
}

static void draw_per_head(struct drawn *d) { /* layers that are left out always have one list per KV head */
    d->per_head = d->left_out == 0 && drawn_below(3) == 0;
    if (d->per_head)
        drawn_say(d, ",per=head");
}

static void use_plan(struct drawn *d) {
    d->plan.budget = d->plan.decode_budget = d->budget;
    d->plan.share = d->share;
    d->plan.left_out = d->left_out;
    use(d, &(struct side){.prompt = oracle_prompt, .step = oracle_step, .plan = &d->plan});
}

static void use_parts(struct drawn *d, const struct parts *parts) {
    d->scores.budget = d->mass.budget = d->share ? 0 : d->budget;
    d->scores.share = d->mass.share = d->share;
    d->scores.left_out = d->mass.left_out = d->entries.left_out = d->left_out;
    d->entries.budget = d->budget;
    d->entries.share = d->share;
    d->parts = *parts;
    use(d, &(struct side){.prompt = parts_prompt, .step = parts_step, .plan = &d->parts});
}

static void use_select(struct drawn *d, enum choice method) {
    d->select.method = method;
    d->select.left_out = d->left_out;
    use(d, &(struct side){.prompt = select_prompt, .step = select_step, .plan = &d->select, .select = oracle_select});
}

/* ---- the methods ---- */

void draw_window(struct drawn *d) {
    begin(d, "window", 1);
    d->plan = (struct plan){.prompt = WINDOW, .decode = WINDOW};
    use_plan(d);
}

void draw_streaming(struct drawn *d) {
    const uint32_t sinks = between(0, 20);
    begin(d, "streaming", sinks + 1);
    drawn_say(d, ",sinks=%u", sinks);
    d->plan = (struct plan){.prompt = STREAMING, .decode = STREAMING, .sinks = sinks};
    use_plan(d);
}

void draw_snapkv(struct drawn *d) {
    const uint32_t window = between(1, 40);
    begin(d, "snapkv", window + 1);
    drawn_say(d, ",window=%u", window);
    d->plan = (struct plan){.prompt = SNAPKV, .decode = FULL, .window = window};
    d->plan.kernel = draw_kernel(d, &d->plan.average);
    draw_per_head(d);
    use_plan(d);
    d->plan.decode_budget = UINT32_MAX;
}

void draw_morphkv(struct drawn *d) {
    const uint32_t window = between(1, 40), every = ONE_OF(1, 2, 7, 1048576), stages = d->both ? 2 : drawn_below(4);
    begin(d, "morphkv", window + 1);
    d->plan = (struct plan){MORPHKV, MORPHKV, .window = window, .decode_window = window, .every = every};
    d->plan.max_fusion = drawn_below(2);
    d->plan.logits = drawn_below(2);
    drawn_say(d, ",window=%u,every=%u,fusion=%s,scores=%s%s", window, every, d->plan.max_fusion ? "max" : "sum",
              d->plan.logits ? "logits" : "weights",
              stages == 0   ? ",stages=prompt"
              : stages == 1 ? ",stages=decode"
                            : "");
    draw_per_head(d);
    use_plan(d);
    if (stages == 0)
        d->plan.decode = FULL, d->plan.decode_budget = UINT32_MAX;
    if (stages == 1)
        d->plan.prompt = FULL, d->plan.budget = UINT32_MAX;
}

void draw_pyramidkv(struct drawn *d) {
    d->scores.window = between(1, 40);
    d->scores.beta = ONE_OF(1, 2, 20, 1000);
    begin(d, "pyramidkv", d->scores.window + 1);
    drawn_say(d, ",window=%u,beta=%u", d->scores.window, d->scores.beta);
    d->scores.kernel = draw_kernel(d, &d->scores.average);
    draw_per_head(d);
    use_parts(d, &(struct parts){.prompt = oracle_pyramidkv, .prompt_plan = &d->scores});
}

void draw_adakv(struct drawn *d) {
    static const double floors[] = {0, 0.2, 0.5, 1};
    d->scores.window = between(1, 40);
    d->scores.floor = floors[drawn_below(4)];
    begin(d, "adakv", d->scores.window + 1);
    drawn_say(d, ",window=%u,floor=%g", d->scores.window, d->scores.floor);
    d->scores.kernel = draw_kernel(d, &d->scores.average);
    draw_per_head(d);
    use_parts(d, &(struct parts){.prompt = oracle_adakv, .prompt_plan = &d->scores});
}

void draw_scissorhands(struct drawn *d) {
    d->scores.history = ONE_OF(1, 2, 16, 64, 4096);
    begin(d, "scissorhands", 1);
    d->scores.recent = drawn_below(2) && d->budget > 1 ? between(1, d->budget - 1) : 0;
    drawn_say(d, ",history=%u", d->scores.history);
    if (d->scores.recent)
        drawn_say(d, ",recent=%u", d->scores.recent);
    const struct scores_plan *plan = &d->scores;
    use_parts(
        d, &(struct parts){oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step, plan, plan, plan});
    if (d->both || drawn_below(4))
        return;
    d->scores.prompt_only = true;
    d->parts.step = NULL;
    drawn_say(d, ",stages=prompt");
}

static void draw_mass(struct drawn *d, const char *name) {
    begin(d, name, 1);
    d->mass.recent = drawn_below(2) && d->budget > 1 ? between(1, d->budget - 1) : 0;
    if (d->mass.recent)
        drawn_say(d, ",recent=%u", d->mass.recent);
    const struct mass_plan *plan = &d->mass;
    use_parts(d, &(struct parts){oracle_mass_look, oracle_mass, oracle_mass_step, plan, plan, plan});
}

void draw_h2o(struct drawn *d) {
    draw_mass(d, "h2o");
    d->mass.keeps_prompt = drawn_below(3) == 0;
    if (d->mass.keeps_prompt)
        drawn_say(d, ",prompt=keep");
    draw_per_head(d);
}

void draw_keyformer(struct drawn *d) {
    static const double tau[] = {0.01, 1, 2.5, 1000};
    static const uint64_t seeds[] = {0, 1, 77, 9007199254740992u};
    draw_mass(d, "keyformer");
    d->mass.noise = true;
    d->mass.tau_init = tau[drawn_below(4)];
    d->mass.tau_end = tau[drawn_below(4)];
    d->mass.steps = ONE_OF(0, 1, 10, 2147483647);
    d->mass.seed = seeds[drawn_below(4)];
    drawn_say(d, ",tau_init=%g,tau_end=%g,steps=%u,seed=%llu", d->mass.tau_init, d->mass.tau_end, d->mass.steps,
              (unsigned long long)d->mass.seed);
}

void draw_cake(struct drawn *d) {
    static const double tau[] = {0.05, 1, 2.5, 100}, gamma[] = {0, 1, 200, 1000000};
    d->mass.window = between(1, 40);
    d->mass.gamma = gamma[drawn_below(4)];
    d->mass.tau1 = tau[drawn_below(4)];
    d->mass.tau2 = tau[drawn_below(4)];
    d->mass.seen = &d->seen;
    begin(d, "cake", d->mass.window + 1);
    drawn_say(d, ",window=%u,gamma=%.0f,tau1=%g,tau2=%g", d->mass.window, d->mass.gamma, d->mass.tau1, d->mass.tau2);
    d->mass.kernel = draw_kernel(d, &d->mass.average);
    use_parts(d, &(struct parts){.prompt = oracle_cake, .prompt_plan = &d->mass});
}

void draw_fastkv(struct drawn *d) {
    d->mass.window = between(1, 20);
    begin(d, "fastkv", d->mass.window + 1);
    d->mass.tsp = between(d->mass.window + 1, d->mass.window + 90);
    do
        d->mass.tsp_layer = between(0, d->layers - 1);
    while (!oracle_acts(d->left_out, d->mass.tsp_layer));
    drawn_say(d, ",window=%u,tsp=%u,tsp_layer=%u", d->mass.window, d->mass.tsp, d->mass.tsp_layer);
    d->mass.kernel = draw_kernel(d, &d->mass.average);
    d->cut_rows = true;
    use_parts(d, &(struct parts){.prompt = oracle_fastkv, .prompt_plan = &d->mass});
}

void draw_lacache(struct drawn *d) {
    struct scores_plan *plan = &d->scores;
    d->layers = d->layers > 1 ? d->layers : 2;
    drawn_say(d, "lacache:positions=original");
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
    d->share = drawn_below(4) ? 0 : ONE_OF(1, 33, 50, 100);
    drawn_say(d, ",span=%u,overlap=%u,sinks=%u,budget=%u%s", plan->span, plan->overlap, plan->sinks,
              d->share ? d->share : d->budget, d->share ? "%" : "");
    use_parts(d, &(struct parts){NULL, oracle_lacache, oracle_lacache, NULL, plan, plan});
}

void draw_duo(struct drawn *d) {
    static const float thresholds[] = {-1e9f, 0.3f, 0.5f, 1, 1e9f};
    drawn_scores(d);
    d->scores.scores = d->file;
    d->scores.threshold = thresholds[drawn_below(5)];
    d->scores.sinks = between(0, 20);
    d->scores.recent = between(1, 40);
    d->budget = d->scores.sinks + d->scores.recent;
    drawn_say(d, "duo:file=\"%s\",threshold=%.1f,sinks=%u,recent=%u", d->path, (double)d->scores.threshold,
              d->scores.sinks, d->scores.recent);
    draw_layers(d, 1);
    use_parts(d, &(struct parts){NULL, oracle_duo, oracle_duo, NULL, &d->scores, &d->scores});
}

void draw_tova(struct drawn *d) {
    begin(d, "tova", 2);
    d->scores.by_group = drawn_below(2);
    drawn_say(d, ",per=%s", d->scores.by_group ? "group" : "layer");
    use_parts(d, &(struct parts){NULL, oracle_tova, oracle_tova, NULL, &d->scores, &d->scores});
}

static void draw_entries(struct drawn *d, const char *name, moment_fn *evict) {
    const uint32_t recent = between(0, 20);
    begin(d, name, recent + 1);
    d->entries.recent = recent;
    drawn_say(d, ",recent=%u", recent);
    use_parts(d, &(struct parts){NULL, evict, evict, NULL, &d->entries, &d->entries});
}

void draw_random(struct drawn *d) {
    static const uint64_t seeds[] = {0, 1, 77, 9007199254740992u};
    draw_entries(d, "random", oracle_random);
    d->entries.seed = seeds[drawn_below(4)];
    drawn_say(d, ",seed=%llu", (unsigned long long)d->entries.seed);
}

void draw_knorm(struct drawn *d) { draw_entries(d, "knorm", oracle_knorm); }
void draw_keydiff(struct drawn *d) { draw_entries(d, "keydiff", oracle_keydiff); }

void draw_qfilter(struct drawn *d) {
    draw_entries(d, "qfilter", oracle_qfilter);
    drawn_stats(d, DRAWN_FILTERS);
    drawn_say(d, ",file=\"%s\"", d->path);
}

void draw_dms(struct drawn *d) {
    static const float least[] = {-1000, -4, -3, -2.5f, -2, -0.5f, 0, 0.5f, 1000};
    d->budget = d->entries.recent = between(1, 30);
    d->entries.threshold = least[drawn_below(9)];
    d->entries.scorer = drawn_below(2) ? SCORE_NORM : SCORE_FILTER;
    drawn_say(d, "dms:threshold=%g,window=%u", (double)d->entries.threshold, d->entries.recent);
    draw_layers(d, 1);
    if (d->entries.scorer == SCORE_NORM) {
        drawn_say(d, ",scorer=knorm");
    } else {
        drawn_stats(d, DRAWN_FILTERS);
        drawn_say(d, ",file=\"%s\"", d->path);
    }
    use_parts(d, &(struct parts){NULL, oracle_dms, oracle_dms, NULL, &d->entries, &d->entries});
}

void draw_lagkv(struct drawn *d) {
    d->entries.sinks = between(0, 9);
    d->entries.lag = ONE_OF(2, 3, 16, 33);
    d->entries.across = drawn_below(2);
    begin(d, "lagkv", d->entries.sinks + 2 * d->entries.lag);
    drawn_say(d, ",sinks=%u,lag=%u,scoring=%s", d->entries.sinks, d->entries.lag,
              d->entries.across ? "across" : "within");
    use_parts(d, &(struct parts){.prompt = oracle_lagkv, .prompt_plan = &d->entries});
}

void draw_chunkkv(struct drawn *d) {
    static const char *const scorers[] = {"snapkv", "knorm", "keydiff", "random"};
    d->entries.scorer = (enum scorer)drawn_below(4);
    d->entries.window = between(d->entries.scorer == SCORE_WINDOW, 40);
    d->entries.chunk = ONE_OF(1, 2, 10, 63, 1048576);
    begin(d, "chunkkv", d->entries.window + 1);
    d->entries.per_layer = !d->both && drawn_below(3) == 0;
    d->entries.gate =
        d->entries.chunk > 1 && drawn_below(2) ? between(1, d->entries.chunk < 13 ? d->entries.chunk - 1 : 12) : 0;
    drawn_say(d, ",window=%u,chunk=%u,scorer=%s,per=%s,gate=%u", d->entries.window, d->entries.chunk,
              scorers[d->entries.scorer], d->entries.per_layer ? "layer" : "group", d->entries.gate);
    use_parts(d, &(struct parts){.prompt = oracle_chunkkv, .prompt_plan = &d->entries});
}

void draw_block(struct drawn *d) {
    static moment_fn *const evicts[] = {oracle_keydiff, oracle_knorm, oracle_random};
    const uint32_t scorer = drawn_below(3), chunk = ONE_OF(1, 2, 16, 33, 16777216);
    begin(d, "block", 1);
    drawn_say(d, ",chunk=%u,scorer=%s", chunk, (const char *const[]){"keydiff", "knorm", "random"}[scorer]);
    use_parts(d, &(struct parts){.prompt = evicts[scorer], .prompt_plan = &d->entries});
    d->side.evict_after = chunk;
}

void draw_snapkv_decode(struct drawn *d) {
    d->entries.window = between(1, 40);
    d->entries.every = ONE_OF(1, 2, 7, 30);
    begin(d, "snapkv-decode", d->entries.window + 1);
    drawn_say(d, ",window=%u,every=%u", d->entries.window, d->entries.every);
    d->entries.kernel = draw_kernel(d, &d->entries.average);
    const struct entries_plan *plan = &d->entries;
    use_parts(d, &(struct parts){oracle_snapkv_decode_look, NULL, oracle_snapkv_decode, plan, NULL, plan});
}

void draw_rkv(struct drawn *d) {
    static const float lambdas[] = {0, 0.07f, 0.5f, 1}, thresholds[] = {-1, 0, 0.5f, 1};
    d->entries.window = between(1, 40);
    d->entries.every = ONE_OF(1, 2, 7, 30);
    d->entries.lambda = lambdas[drawn_below(4)];
    d->entries.threshold = thresholds[drawn_below(4)];
    d->entries.logits = drawn_below(2);
    begin(d, "rkv", d->entries.window + 1);
    drawn_say(d, ",window=%u,every=%u,lambda=%g,threshold=%g,scores=%s", d->entries.window, d->entries.every,
              (double)d->entries.lambda, (double)d->entries.threshold, d->entries.logits ? "logits" : "weights");
    d->entries.kernel = draw_kernel(d, &d->entries.average);
    const struct entries_plan *plan = &d->entries;
    use_parts(d, &(struct parts){oracle_rkv_look, NULL, oracle_rkv, plan, NULL, plan});
}

void draw_expected(struct drawn *d) {
    static const float epsilons[] = {0, 0.02f, 1};
    d->entries.sinks = between(0, 9);
    d->entries.no_covariance = drawn_below(3) == 0;
    d->entries.no_values = drawn_below(3) == 0;
    d->entries.epsilon = epsilons[drawn_below(3)];
    begin(d, "expected", d->entries.sinks + 1);
    drawn_say(d, ",sinks=%u,covariance=%s,values=%s,epsilon=%g", d->entries.sinks,
              d->entries.no_covariance ? "off" : "on", d->entries.no_values ? "off" : "on", (double)d->entries.epsilon);
    if (drawn_below(3) == 0) {
        drawn_stats(d, DRAWN_COVARIANCES);
        drawn_say(d, ",stats=\"%s\"", d->path);
    }
    use_parts(d, &(struct parts){.prompt = oracle_expected, .prompt_plan = &d->entries});
}

void draw_criticalkv(struct drawn *d) {
    static const char *const scorers[] = {"snapkv", "knorm", "keydiff", "random", "expected"};
    static const double firsts[] = {0, 0.25, 0.5, 1};
    static const float epsilons[] = {0, 0.0001f, 1};
    d->entries.scorer = (enum scorer)drawn_below(5);
    d->entries.window = between(d->entries.scorer == SCORE_WINDOW, 40);
    d->entries.first = firsts[drawn_below(4)];
    d->entries.epsilon = epsilons[drawn_below(3)];
    begin(d, "criticalkv", d->entries.window + 1 + (d->entries.scorer == SCORE_EXPECTED ? 4 : 0));
    drawn_say(d, ",window=%u,scorer=%s,first=%g,epsilon=%g", d->entries.window, scorers[d->entries.scorer],
              d->entries.first, (double)d->entries.epsilon);
    d->entries.kernel = draw_kernel(d, &d->entries.average);
    use_parts(d, &(struct parts){.prompt = oracle_criticalkv, .prompt_plan = &d->entries});
}

void draw_triattention(struct drawn *d) {
    d->entries.recent = between(0, 20);
    d->entries.every = ONE_OF(1, 2, 7, 30);
    d->entries.mean_heads = drawn_below(2);
    begin(d, "triattention", d->entries.recent + 1);
    drawn_stats(d, DRAWN_PAIRS);
    drawn_say(d, ",recent=%u,every=%u,future=%u,heads=%s,stats=\"%s\"", d->entries.recent, d->entries.every,
              ONE_OF(1, 100, 65536), d->entries.mean_heads ? "mean" : "max", d->path);
    use_parts(d, &(struct parts){.step = oracle_triattention, .step_plan = &d->entries});
}

/* Begins compactor or one of the two methods that use a part of its score. */
static void begin_compactor(struct drawn *d, const char *name) {
    d->entries.sinks = between(0, 9);
    d->entries.recent = between(0, 5);
    d->entries.chunk = ONE_OF(1, 2, 16, 33, 65536);
    begin(d, name, d->entries.sinks + d->entries.recent + 1);
    drawn_say(d, ",sinks=%u,recent=%u", d->entries.sinks, d->entries.recent);
    use_parts(d, &(struct parts){.prompt = oracle_compactor, .prompt_plan = &d->entries});
}

void draw_compactor(struct drawn *d) {
    static const double blends[] = {-1, -1, 0, 0.35, 1, 1000};
    begin_compactor(d, "compactor");
    d->entries.blend = blends[drawn_below(6)];
    drawn_say(d, ",chunk=%u", d->entries.chunk);
    if (d->entries.blend >= 0)
        drawn_say(d, ",blend=%g", d->entries.blend);
}

void draw_leverage(struct drawn *d) {
    begin_compactor(d, "leverage");
    d->entries.part = LEVERAGE_PART;
}

void draw_noncausal(struct drawn *d) {
    begin_compactor(d, "noncausal");
    d->entries.part = ATTENTION_PART;
    drawn_say(d, ",chunk=%u", d->entries.chunk);
}

void draw_cap(struct drawn *d) {
    static const double taus[] = {0, 0.3, 5, 5, 1000};
    d->entries.sinks = between(0, 9);
    d->entries.tau = taus[drawn_below(5)];
    begin(d, "cap", d->entries.sinks + 1);
    drawn_say(d, ",sinks=%u,tau=%g,future=%u", d->entries.sinks, d->entries.tau, ONE_OF(1, 512, 65536));
    use_parts(d, &(struct parts){.prompt = oracle_cap, .prompt_plan = &d->entries});
}

void draw_cur(struct drawn *d) {
    static const char *const by[] = {"keys", "values", "mean", "product"};
    d->entries.sinks = between(0, 9);
    d->entries.chunk = ONE_OF(0, 1, 2, 16, 33, 65536);
    d->entries.shares = drawn_below(4);
    begin(d, "cur", d->entries.sinks + 1);
    drawn_say(d, ",sinks=%u,chunk=%u,by=%s", d->entries.sinks, d->entries.chunk, by[d->entries.shares]);
    use_parts(d, &(struct parts){.prompt = oracle_cur, .prompt_plan = &d->entries});
}

void draw_finch(struct drawn *d) {
    d->scores.window = between(1, 40);
    d->scores.chunk = ONE_OF(0, 1, 2, 33, 65536);
    d->scores.plain = drawn_below(2);
    begin(d, "finch", d->scores.window + 1);
    drawn_say(d, ",window=%u,chunk=%u,normalize=%s", d->scores.window, d->scores.chunk, d->scores.plain ? "off" : "on");
    use_parts(d, &(struct parts){.prompt = oracle_finch, .prompt_plan = &d->scores});
}

void draw_simlayerkv(struct drawn *d) {
    static const double thresholds[] = {0, 0.1, 0.5, 0.9, 0.999, 1};
    d->scores.sinks = between(0, 9);
    d->scores.recent = between(1, 40);
    d->scores.window = between(1, 40);
    d->scores.share_above = thresholds[drawn_below(6)];
    d->budget = d->scores.sinks + d->scores.recent;
    drawn_say(d, "simlayerkv:sinks=%u,recent=%u,window=%u,threshold=%g", d->scores.sinks, d->scores.recent,
              d->scores.window, d->scores.share_above);
    draw_layers(d, 1);
    use_parts(d, &(struct parts){.prompt = oracle_simlayerkv, .prompt_plan = &d->scores});
}

void draw_topk(struct drawn *d) {
    begin(d, "topk", 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    use_select(d, TOPK);
}

static void draw_p(struct drawn *d) {
    static const double shares[] = {0.001, 0.3, 0.9, 1};
    if (drawn_below(2))
        return;
    d->select.p = shares[drawn_below(4)];
    drawn_say(d, ",p=%g", d->select.p);
}

void draw_quest(struct drawn *d) {
    begin(d, "quest", 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    d->select.page = ONE_OF(0, 1, 3, 16, 1048576);
    if (d->select.page)
        drawn_say(d, ",page=%u", d->select.page);
    else
        drawn_say(d, ",page=auto");
    draw_p(d);
    draw_per_head(d);
    use_select(d, QUEST);
}

void draw_sparq(struct drawn *d) {
    if (drawn_below(2)) {
        begin(d, "sparq", 1);
        d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    } else {
        d->select = (struct select_plan){.dims = between(1, 8), .topk = between(1, 40)};
        d->select.local = between(0, d->select.topk);
        d->budget = d->select.topk;
        drawn_say(d, "sparq:dims=%u,topk=%u,local=%u", d->select.dims, d->select.topk, d->select.local);
        draw_layers(d, 1);
    }
    d->select.no_mean = drawn_below(2);
    drawn_say(d, ",mean_value=%s,keys=%s", d->select.no_mean ? "off" : "on", drawn_below(2) ? "once" : "twice");
    use_select(d, SPARQ);
}

void draw_hsa(struct drawn *d) {
    static const double ratios[] = {1, 1.5, 7, 1048576};
    const uint32_t which = drawn_below(3);
    if (which == 0) {
        begin(d, "hsa", 1);
        d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
        draw_p(d);
        use_select(d, HSA);
        return;
    }
    if (which == 1) {
        d->budget = 40;
        d->select = (struct select_plan){.ratio = ratios[drawn_below(4)]};
        drawn_say(d, "hsa:ratio=%.9g", d->select.ratio);
    } else {
        d->select =
            (struct select_plan){.page = ONE_OF(1, 2, 7, 1048576), .dims = between(1, 8), .topk = between(1, 40)};
        d->budget = d->select.topk;
        drawn_say(d, "hsa:page=%u,dims=%u,topk=%u", d->select.page, d->select.dims, d->select.topk);
    }
    draw_layers(d, 1);
    draw_p(d);
    use_select(d, HSA);
}

static void draw_rocket(struct drawn *d, const char *name, enum choice method) {
    static const double splits[] = {-1, 0, 0.35, 1};
    begin(d, name, 1);
    d->select = (struct select_plan){.budget = d->share ? 0 : d->budget, .share = d->share};
    d->select.window = between(1, 40);
    d->select.split = splits[drawn_below(4)];
    drawn_say(d, ",window=%u", d->select.window);
    d->select.kernel = draw_kernel(d, &d->select.average);
    if (d->select.split >= 0)
        drawn_say(d, ",split=%g", d->select.split);
    use_select(d, method);
}

void draw_rocketkv(struct drawn *d) { draw_rocket(d, "rocketkv", ROCKET); }
void draw_rocketkv_mt(struct drawn *d) { draw_rocket(d, "rocketkv-mt", ROCKET_MT); }

void drawn_begin(struct drawn *d, uint64_t seed, uint32_t layers) {
    static const uint32_t heads[][2] = {{1, 1}, {4, 4}, {4, 1}, {7, 1}, {8, 2}, {8, 1}, {14, 2}};
    random_state = seed * 0x9E3779B97F4A7C15u;
    const size_t shape = drawn_below(sizeof heads / sizeof *heads);
    *d = (struct drawn){.layers = layers, .heads = heads[shape][0], .kv_heads = heads[shape][1]};
}

void drawn_run(struct drawn *d, uint32_t steps) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    const size_t count = steps == UINT32_MAX ? 1 + drawn_below(3) : 1;
    uint32_t rows = 0;
    struct turn turns[3];
    for (size_t i = 0; i < count; i++) {
        const uint32_t b = d->budget, prompts[] = {1, b - (b > 1), b, b + 1, 2 * b + 1, 1 + drawn_below(100)};
        const uint32_t prompt = prompts[drawn_below(6)];
        turns[i] = (struct turn){prompt < 150 ? prompt : 150, steps == UINT32_MAX ? between(0, 20) : steps};
        rows += turns[i].prompt + turns[i].steps;
    }
    struct tensors t =
        make_tensors((enum kind)drawn_below(KINDS), random_state, d->layers, d->heads, d->kv_heads, HEAD_SIZE, rows);
    t.lists = d->per_head ? t.heads : t.kv_heads;
    if (d->cut_rows) {
        t.kept_rows = malloc((size_t)t.layers * rows);
        assert_non_null(t.kept_rows);
        memset(t.kept_rows, true, (size_t)t.layers * rows);
    }
    d->side.spec = d->spec;
    d->side.per_head = d->per_head;
    d->side.type = types[drawn_below(3)];
    d->side.chunk = ONE_OF(0, 1, 7, 33);
    side_run_turns(&t, turns, count, &d->side);
    free(t.kept_rows);
    free_tensors(&t);
}
