/* test_fastkvzip.c - fastkvzip keeps the entries that an oracle keeps, and no more memory than its forecast says. The
 * oracle computes the gates in double from the hidden states that a method of this test sees. Files that do not fit the
 * model are refused. */
#include "tests/policies/networks_file.h"

#include "core/engine/predictor.h"
#include "core/engine/session.h"
#include "core/stage/stage.h"
#include "kvcull/check.h"

#include <math.h>

enum { FIRST = 210, STEPS = 3, SECOND = 50, ALL = FIRST + STEPS + SECOND, LAYERS_MOST = 8, HEADS_MOST = 8 };
enum { CHANNELS = 3, SINKS = 5 }; /* of the gates */

/* ---- the gates ---- */

static uint32_t layers, hidden, kv_heads, group;

/* The tensors of a layer. */
enum { Q, A, K, B, BASE, Q_NORM, K_NORM, TENSORS };
static struct tensor {
    const char *name;
    uint32_t rows, cols; /* cols 0: a vector */
    float *values;       /* [layers, rows, cols] */
} tensor[TENSORS];

static size_t count_of(const struct tensor *t) { return (size_t)t->rows * (t->cols ? t->cols : 1); }
static const float *values_of(int which, size_t l) { return tensor[which].values + l * count_of(&tensor[which]); }

static void draw_gates(const struct kvc_model *model) {
    const struct kvc_network *network = &model->network;
    layers = network->layers;
    hidden = network->hidden;
    kv_heads = network->kv_heads;
    group = network->heads / kv_heads;
    assert_true(layers <= LAYERS_MOST && kv_heads <= HEADS_MOST);
    const struct tensor all[TENSORS] = {[Q] = {"q_proj.weight", kv_heads * group * CHANNELS, hidden, NULL},
                                        [A] = {"q_proj.bias", kv_heads * group * CHANNELS, 0, NULL},
                                        [K] = {"k_proj.weight", kv_heads * CHANNELS, hidden, NULL},
                                        [B] = {"b", kv_heads * group, 0, NULL},
                                        [BASE] = {"k_base", kv_heads * SINKS, CHANNELS, NULL},
                                        [Q_NORM] = {"q_norm.weight", CHANNELS, 0, NULL},
                                        [K_NORM] = {"k_norm.weight", CHANNELS, 0, NULL}};
    memcpy(tensor, all, sizeof tensor);
    for (int t = 0; t < TENSORS; t++)
        tensor[t].values = draw(layers * count_of(&tensor[t]), 1);
}

static void free_gates(void) {
    for (int t = 0; t < TENSORS; t++)
        free(tensor[t].values);
}

/* Writes the gates of the first `count` layers. */
static const char *write_gates(const char *name, uint32_t count) {
    begin_file();
    for (uint32_t l = 0; l < count; l++)
        for (int t = 0; t < TENSORS; t++)
            name_tensor(l, tensor[t].name, tensor[t].rows, tensor[t].cols);
    end_header();
    for (uint32_t l = 0; l < count; l++)
        for (int t = 0; t < TENSORS; t++)
            put_values(values_of(t, l), count_of(&tensor[t]));
    return write_file(name, made.data, made.used);
}

/* ---- the oracle ---- */

static float score[LAYERS_MOST][HEADS_MOST][ALL]; /* by position */
static bool held[LAYERS_MOST][HEADS_MOST][ALL];

/* Computes y [CHANNELS] = norm(rows x + bias) * w. */
static void project(const float *rows, const float *bias, const float *w, const double *x, double *y) {
    double squares = 0;
    for (int c = 0; c < CHANNELS; c++) {
        y[c] = sum_of(rows + (size_t)c * hidden, x, hidden, bias ? bias[c] : 0.0f);
        squares += y[c] * y[c];
    }
    for (int c = 0; c < CHANNELS; c++)
        y[c] *= (double)w[c] / sqrt(squares / CHANNELS + 1e-6);
}

static double gate(size_t l, uint32_t h, const double *x) {
    double k[CHANNELS], mean = 0;
    const float *base = values_of(BASE, l) + (size_t)h * SINKS * CHANNELS;
    project(values_of(K, l) + (size_t)h * CHANNELS * hidden, NULL, values_of(K_NORM, l), x, k);
    for (uint32_t g = h * group; g < (h + 1) * group; g++) {
        double q[CHANNELS], all = 1, z = 0;
        project(values_of(Q, l) + (size_t)g * CHANNELS * hidden, values_of(A, l) + (size_t)g * CHANNELS,
                values_of(Q_NORM, l), x, q);
        for (int c = 0; c < CHANNELS; c++)
            z += k[c] * q[c] / sqrt(CHANNELS);
        z += (double)values_of(B, l)[g];
        for (int s = 0; s < SINKS; s++)
            all += exp(sum_of(base + s * CHANNELS, q, CHANNELS, 0.0f) / sqrt(CHANNELS) - z);
        mean += 1 / all / group;
    }
    return mean;
}

/* Observer: sees the hidden states of the rows just computed and the scores that the method has just predicted. They
 * are close to the oracle's. The oracle then uses the predicted ones, so that no rounding decides between entries. */
static enum kvc_status peek(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const size_t rows = stage->queries;
    float *x = malloc(rows * hidden * sizeof *x), *scores = malloc(rows * kv_heads * sizeof *scores);
    double *wide = malloc(hidden * sizeof *wide);
    int32_t *positions = malloc(rows * sizeof *positions);
    (void)values;
    assert_true(x && wide && positions && scores);
    device->ops->download(device, x, kvc_growable_at(&runner->normed, stage->first * (size_t)hidden * sizeof *x),
                          rows * hidden * sizeof *x);
    device->ops->download(device, scores, kvc_growable_at(&runner->predictors->scores, 0),
                          rows * kv_heads * sizeof *scores);
    device->ops->download(device, positions, stage->positions, rows * sizeof *positions);
    const enum kvc_status status = device->ops->sync(device, e);
    for (size_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < hidden; c++)
            wide[c] = (double)x[i * hidden + c];
        for (uint32_t h = 0; h < kv_heads; h++) {
            assert_true(fabs((double)scores[i * kv_heads + h] - gate(stage->info.layer, h, wide)) < 1e-4);
            score[stage->info.layer][h][positions[i]] = scores[i * kv_heads + h];
            held[stage->info.layer][h][positions[i]] = true;
        }
    }
    free(x);
    free(wide);
    free(positions);
    free(scores);
    return status;
}

static const struct kvc_policy_class peeks = {
    .name = "peeks", .summary = "sees hidden states", .attended = peek, .observe_step = peek};

struct rule {
    const char *per;
    uint32_t budget, sinks, window; /* window 0: the option is not given */
};

static uint32_t count_held(uint32_t l, uint32_t h, int32_t now) {
    uint32_t count = 0;
    for (int32_t p = 0; p < now; p++)
        count += held[l][h][p];
    return count;
}

/* Layers and heads that share a budget. */
struct scope {
    uint32_t first_layer, last_layer, first_head, last_head;
};
struct place {
    uint32_t layer, head;
    int32_t position;
};

/* Returns the entry outside sinks and window with the lowest score; of equal scores the last one. */
static struct place lowest(const struct scope *scope, uint32_t sinks, uint32_t window, int32_t now) {
    struct place found = {UINT32_MAX, 0, 0};
    for (uint32_t l = scope->first_layer; l <= scope->last_layer; l++)
        for (uint32_t h = scope->first_head; h <= scope->last_head; h++) {
            const uint32_t count = count_held(l, h, now);
            uint32_t index = 0;
            for (int32_t p = 0; p < now; p++) {
                if (!held[l][h][p])
                    continue;
                const bool forced = index < sinks || index + window >= count;
                index++;
                if (!forced &&
                    (found.layer == UINT32_MAX || score[l][h][p] <= score[found.layer][found.head][found.position]))
                    found = (struct place){l, h, p};
            }
        }
    assert_true(found.layer != UINT32_MAX);
    return found;
}

static void evict(const struct scope *scope, const struct rule *rule, int32_t now) {
    const uint32_t lists = (scope->last_layer - scope->first_layer + 1) * (scope->last_head - scope->first_head + 1);
    uint32_t count = 0, longest = 0;
    for (uint32_t l = scope->first_layer; l <= scope->last_layer; l++)
        for (uint32_t h = 0; h < kv_heads; h++) {
            const uint32_t here = count_held(l, h, now);
            count += h >= scope->first_head && h <= scope->last_head ? here : 0;
            longest = here > longest ? here : longest;
        }
    const uint32_t n = strcmp(rule->per, "model") ? longest : (uint32_t)now, usual = n < 50 ? 1 : n / 50;
    const uint32_t room = rule->budget - rule->sinks - 1;
    const uint32_t window = rule->window ? rule->window : usual < room ? usual : room;
    for (; count > rule->budget * lists; count--) {
        const struct place gone = lowest(scope, rule->sinks, window, now);
        held[gone.layer][gone.head][gone.position] = false;
    }
}

static void evict_all(const struct rule *rule, int32_t now) {
    const bool model = !strcmp(rule->per, "model"), head = !strcmp(rule->per, "head");
    for (uint32_t l = 0; l < (model ? 1 : layers); l++)
        for (uint32_t h = 0; h < (head ? kv_heads : 1); h++)
            evict(&(struct scope){l, model ? layers - 1 : l, h, head ? h : kv_heads - 1}, rule, now);
}

static void compare(const struct kvc_session *session, int32_t now) {
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t h = 0; h < kv_heads; h++) {
            int32_t positions[ALL];
            size_t count = 0, next = 0;
            FINE(kvc_session_positions(session, l, h, positions, ALL, &count, &error));
            for (int32_t p = 0; p < now; p++)
                if (held[l][h][p]) {
                    assert_true(next < count);
                    assert_int_equal(positions[next++], p);
                }
            assert_int_equal(next, count);
        }
}

/* ---- whole sessions ---- */

static void compare_forecast(const struct kvc_session *session, const struct kvc_engine *engine, const char *policy,
                             const struct rule *rule) {
    struct kvc_session_stats stats;
    struct kvc_estimate estimate;
    kvc_session_stats(session, &stats);
    FINE(kvc_estimate(engine, policy, &session->runner->model, hidden, kvc_entry_types(KVC_F16), FIRST, 0, &estimate,
                      &error));
    const uint64_t held_bytes = estimate.cache_bytes + estimate.state_bytes, full = stats.full_bytes;
    assert_true(stats.cache_bytes + stats.state_bytes <= held_bytes && stats.prompt_peak_bytes <= estimate.peak_bytes);
    assert_int_equal(estimate.kind, strcmp(rule->per, "head") ? KVC_EXPECTED_MOST : KVC_EXPECTED_EXACT);
    if (estimate.kind == KVC_EXPECTED_EXACT)
        assert_int_equal(stats.cache_bytes + stats.state_bytes, held_bytes);
    else /* a block per list more than the budget */
        assert_true(estimate.cache_bytes <= full / FIRST * (rule->budget + 2 * 32));
}

static void run(const struct kvc_engine *engine, struct kvc_model *model, const char *policy, uint32_t chunk,
                const struct rule *rule) {
    struct kvc_session_options with;
    struct kvc_session *session;
    int32_t tokens[FIRST], now = FIRST;
    memset(held, 0, sizeof held);
    for (int32_t t = 0; t < FIRST; t++)
        tokens[t] = t * 7919 % (int32_t)kvc_model_info(model)->vocab;
    kvc_session_defaults(&with);
    with.policy = policy;
    with.chunk = chunk;
    FINE(kvc_session_open(model, &with, &session, &error));
    FINE(kvc_session_prompt(session, tokens, FIRST, NULL, NULL, &error));
    evict_all(rule, now);
    compare(session, now);
    compare_forecast(session, engine, policy, rule);
    for (uint32_t i = 0; i < STEPS; i++) {
        const int32_t token = now++ % 40;
        FINE(kvc_decode(&session, &token, 1, NULL, NULL, &error));
        compare(session, now);
    }
    FINE(kvc_session_prompt(session, tokens + 3, SECOND, NULL, NULL, &error));
    now += SECOND;
    evict_all(rule, now);
    compare(session, now);
    kvc_session_close(session);
}

static void models(void **state) {
    static const char *const folders[] = {"data/demo", "tests/data/golden/qwen3", "tests/data/golden/phi2",
                                          "tests/data/golden/glm4"};
    (void)state;
    for (size_t i = 0; i < (kvc_test_thinned() ? 2 : sizeof folders / sizeof *folders); i++) {
        static const struct rule rules[] = {{"model", 40, 4, 0},  {"layer", 40, 4, 0}, {"head", 40, 4, 0},
                                            {"model", 60, 0, 30}, {"layer", 90, 9, 5}, {"head", 7, 4, 0}};
        struct kvc_engine *engine;
        struct kvc_model *model;
        char policy[900];
        open_model_on(getenv("KVCULL_TEST_BACKEND"), &peeks, &engine, folders[i], &model);
        draw_gates(model);
        dtype = i % 2 ? "BF16" : "F32";
        const char *path = write_gates("model.safetensors", layers);
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            const struct rule *rule = &rules[r];
            char window[30] = "";
            if (rule->window)
                snprintf(window, sizeof window, ",window=%u", rule->window);
            snprintf(policy, sizeof policy, "fastkvzip:budget=%u,sinks=%u,per=%s%s,file=%s+peeks", rule->budget,
                     rule->sinks, rule->per, window, r % 2 ? path : own_folder());
            run(engine, model, policy, r % 2 ? 17 : 0, rule);
        }
        free_gates();
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
}

/* ---- sliding windows ---- */

static uint32_t below(uint32_t n) {
    static uint64_t random = 3;
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random >> 33) % n);
}

enum { ROWS_MOST = 1900 };

struct windowed {
    uint32_t windows[LAYERS_MOST], rows, steps;
    char options[100];
    bool by_window; /* layers without a window have the high scores */
};

/* Writes gates whose scores differ more between heads than between tokens, so that some heads keep nearly all and
 * others nearly none. */
static void write_uneven_gates(const struct windowed *one) {
    const size_t count = count_of(&tensor[B]);
    for (size_t i = 0; i < layers * count; i++)
        tensor[B].values[i] = (one->by_window ? one->windows[i / count] == 0 : below(2)) ? 5 : -5;
    write_gates("model.safetensors", layers);
}

static void check_windows(const struct kvc_engine *engine, const struct kvc_session *session, const char *policy,
                          const struct windowed *one, uint32_t steps) {
    struct kvc_session_stats stats;
    struct kvc_estimate e;
    kvc_session_stats(session, &stats);
    FINE(kvc_estimate_windows(engine, policy, &session->runner->model, one->windows, hidden, kvc_entry_types(KVC_F16),
                              one->rows, steps, &e, &error));
    const uint64_t there = stats.cache_bytes + stats.state_bytes, most = e.cache_bytes + e.state_bytes;
    if (stats.prompt_peak_bytes <= e.prompt_peak_bytes && stats.peak_bytes <= e.peak_bytes && there <= most &&
        (there == most || e.kind == KVC_EXPECTED_MOST))
        return;
    print_error("%s, windows", policy);
    for (uint32_t l = 0; l < layers; l++)
        print_error(" %u", one->windows[l]);
    fail_msg(", %u + %u: at most %llu in the prompt, %llu, %llu at the end; there were %llu, %llu, %llu", one->rows,
             steps, (unsigned long long)e.prompt_peak_bytes, (unsigned long long)e.peak_bytes, (unsigned long long)most,
             (unsigned long long)stats.prompt_peak_bytes, (unsigned long long)stats.peak_bytes,
             (unsigned long long)there);
}

static void run_windows(const struct kvc_engine *engine, struct kvc_model *model, const struct windowed *one) {
    struct kvc_session_options with;
    struct kvc_session *session;
    char policy[400];
    int32_t tokens[ROWS_MOST];
    for (uint32_t l = 0; l < layers; l++)
        model->network.layer[l].window = one->windows[l];
    write_uneven_gates(one);
    snprintf(policy, sizeof policy, "fastkvzip:file=%s,%s", own_folder(), one->options);
    kvc_session_defaults(&with);
    with.policy = policy;
    with.chunk = below(2) ? 0 : 17;
    FINE(kvc_session_open(model, &with, &session, &error));
    for (uint32_t t = 0; t < one->rows; t++)
        tokens[t] = (int32_t)below(kvc_model_info(model)->vocab);
    FINE(kvc_session_prompt(session, tokens, one->rows, NULL, NULL, &error));
    check_windows(engine, session, policy, one, 0);
    for (uint32_t s = 0; s < one->steps; s++)
        FINE(kvc_decode(&session, tokens + s % one->rows, 1, NULL, NULL, &error));
    check_windows(engine, session, policy, one, one->steps);
    kvc_session_close(session);
}

static struct windowed draw_windows(void) {
    static const char *const pers[] = {"model", "model", "layer", "head"};
    struct windowed one = {.by_window = below(2)};
    one.rows = 20 + below(below(2) ? 200 : 900);
    one.steps = below(below(2) ? 300 : 2);
    const uint32_t shortest = 2 + below(one.rows), budget = 9 + below(91), unit = below(3), sinks = below(5);
    for (uint32_t l = 0; l < layers; l++) {
        const uint32_t more = below(2) ? below(300) : 0;
        one.windows[l] = below(3) ? shortest + more : 0;
    }
    snprintf(one.options, sizeof one.options, "budget=%u%s,sinks=%u,per=%s", budget, unit ? "%" : "", sinks,
             pers[below(4)]);
    return one;
}

/* The forecast is an upper bound in models with sliding windows of any sizes. */
static void windows_are_forecast(void **state) {
    static const struct windowed known[] = {
        {{669, 0, 59, 59}, 1493, 0, "budget=22%", false}, /* a share of all tokens, not of the last layer's window */
        {{0, 1000, 0, 1000}, 1900, 1400, "budget=45%", true}, /* lists of a few entries grow to a whole window */
    };
    struct kvc_engine *engine;
    struct kvc_model *model;
    (void)state;
    open_model_on(NULL, &peeks, &engine, "data/demo", &model);
    dtype = "F32";
    draw_gates(model);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        run_windows(engine, model, &known[i]);
    for (unsigned i = 0; i < (kvc_test_thinned() ? 10 : 100); i++) {
        const struct windowed one = draw_windows();
        run_windows(engine, model, &one);
    }
    free_gates();
    kvc_model_close(model);
    kvc_engine_close(engine);
}

/* ---- refusals ---- */

static void refuse(struct kvc_model *model, const char *path, const char *says) {
    struct kvc_session_options with;
    struct kvc_session *session;
    char policy[900];
    kvc_session_defaults(&with);
    snprintf(policy, sizeof policy, "fastkvzip:budget=13,file=%s", path);
    with.policy = policy;
    check_refusal(kvc_session_open(model, &with, &session, &error), KVC_INPUT, &error, says);
}

static void bad_files(void **state) {
    struct kvc_engine *engine;
    struct kvc_model *model;
    (void)state;
    open_model_on(NULL, &peeks, &engine, "data/demo", &model);
    dtype = "F32";
    draw_gates(model);
    refuse(model, "/nowhere", "policy fastkvzip: /nowhere: cannot be opened");
    refuse(model, write_gates("short", layers - 1), "has 21 tensors; for this model of 4 layers it must have 28");
    tensor[BASE].name = "base";
    refuse(model, write_gates("names", layers), "tensor layers.0.k_base is missing");
    tensor[BASE].name = "k_base";
    tensor[BASE].rows--;
    refuse(model, write_gates("bases", layers),
           "tensor layers.0.k_base is 9 x 3; for this model it must be a multiple of 2, up to 1048576, x 1 to 4096");
    tensor[BASE].rows++;
    for (int t = 0; t < TENSORS; t++) {
        char says[100];
        snprintf(says, sizeof says, "tensor layers.0.%s is ", tensor[t].name);
        tensor[t].rows += 2;
        if (t != BASE) /* two rows more are one base key more for each KV head */
            refuse(model, write_gates("rows", layers), says);
        tensor[t].rows -= 2;
    }
    free_gates();
    kvc_model_close(model);
    kvc_engine_close(engine);
}

static void replay(void **state) {
    (void)state;
    refuse_replay("fastkvzip:budget=13,file=drawn", "policy fastkvzip: needs a model: a replay has no hidden states");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(windows_are_forecast),
                                       cmocka_unit_test(bad_files), cmocka_unit_test(replay)};
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
