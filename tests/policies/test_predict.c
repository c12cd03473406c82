/* test_predict.c - kvzap, and dms with its scores, keep the entries that an oracle keeps. The oracle computes the
 * networks in double from the hidden states that a method of this test sees. Files that do not fit the model are
 * refused. */
#include "tests/policies/networks_file.h"

#include "core/engine/predictor.h"
#include "core/engine/session.h"
#include "core/stage/stage.h"
#include "kvcull/check.h"
#include "models/model.h"

#include <math.h>

enum { FIRST = 41, STEPS = 9, SECOND = 12, ALL = FIRST + 2 * STEPS + SECOND, LAYERS_MOST = 8, HEADS_MOST = 8 };

/* ---- the networks ---- */

static uint32_t layers, hidden, kv_heads, inner;
static float *first_weights, *first_biases, *last_weights, *last_biases; /* all layers' V, a, W and b, in order */

static void draw_networks(const struct kvc_model *model, uint32_t width) {
    const struct kvc_network *network = &model->network;
    layers = network->layers;
    hidden = network->hidden;
    kv_heads = network->kv_heads;
    inner = width;
    assert_true(layers <= LAYERS_MOST && kv_heads <= HEADS_MOST);
    first_weights = draw((size_t)layers * inner * hidden, 4);
    first_biases = draw((size_t)layers * inner, 1);
    last_weights = draw((size_t)layers * kv_heads * (inner ? inner : hidden), 1);
    last_biases = draw((size_t)layers * kv_heads, 1);
}

static void free_networks(void) {
    free(first_weights);
    free(first_biases);
    free(last_weights);
    free(last_biases);
}

/* ---- the file ---- */

/* Writes the networks of the first `count` layers. */
static const char *write_networks(const char *name, uint32_t count) {
    const uint32_t width = inner ? inner : hidden;
    begin_file();
    for (uint32_t l = 0; l < count; l++) {
        if (inner) {
            name_tensor(l, "0.weight", inner, hidden);
            name_tensor(l, "0.bias", inner, 0);
        }
        name_tensor(l, inner ? "2.weight" : "weight", kv_heads, width);
        name_tensor(l, inner ? "2.bias" : "bias", kv_heads, 0);
    }
    end_header();
    for (size_t l = 0; l < count; l++) {
        put_values(first_weights + l * inner * hidden, (size_t)inner * hidden);
        put_values(first_biases + l * inner, inner);
        put_values(last_weights + l * kv_heads * width, (size_t)kv_heads * width);
        put_values(last_biases + l * kv_heads, kv_heads);
    }
    return write_file(name, made.data, made.used);
}

/* ---- the oracle ---- */

static double score[LAYERS_MOST][HEADS_MOST][ALL]; /* by position */
static bool held[LAYERS_MOST][HEADS_MOST][ALL];

static void predict(size_t l, const double *x, int32_t position) {
    double y[64];
    const uint32_t width = inner ? inner : hidden;
    assert_true(inner <= 64 && position >= 0 && position < ALL);
    for (uint32_t i = 0; i < inner; i++) {
        const double u = sum_of(first_weights + (l * inner + i) * hidden, x, hidden, first_biases[l * inner + i]);
        y[i] = 0.5 * u * erfc(-u / sqrt(2));
    }
    for (uint32_t h = 0; h < kv_heads; h++) {
        score[l][h][position] =
            sum_of(last_weights + (l * kv_heads + h) * width, inner ? y : x, width, last_biases[l * kv_heads + h]);
        held[l][h][position] = true;
    }
}

/* Compares the scores that the session's method has just predicted with the oracle's. */
static void compare_scores(struct kvc_runner *runner, uint32_t layer, const int32_t *positions, uint32_t rows) {
    float *scores = malloc(rows * (size_t)kv_heads * sizeof *scores);
    assert_non_null(scores);
    runner->device->ops->download(runner->device, scores, kvc_growable_at(&runner->predictors->scores, 0),
                                  rows * (size_t)kv_heads * sizeof *scores);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t h = 0; h < kv_heads; h++)
            assert_true(fabs((double)scores[i * kv_heads + h] - score[layer][h][positions[i]]) < 1e-5);
    free(scores);
}

/* Observer: sees the hidden states of the rows just computed. */
static enum kvc_status peek(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    float *x = malloc(stage->queries * (size_t)hidden * sizeof *x);
    double *wide = malloc(hidden * sizeof *wide);
    int32_t *positions = malloc(stage->queries * sizeof *positions);
    (void)values;
    assert_true(x && wide && positions);
    device->ops->download(device, x, kvc_growable_at(&runner->normed, stage->first * (size_t)hidden * sizeof *x),
                          stage->queries * (size_t)hidden * sizeof *x);
    device->ops->download(device, positions, stage->positions, stage->queries * sizeof *positions);
    const enum kvc_status status = device->ops->sync(device, e);
    for (uint32_t i = 0; i < stage->queries; i++) {
        for (uint32_t c = 0; c < hidden; c++)
            wide[c] = (double)x[i * (size_t)hidden + c];
        predict(stage->info.layer, wide, positions[i]);
    }
    compare_scores(runner, stage->info.layer, positions, stage->queries);
    free(x);
    free(wide);
    free(positions);
    return status;
}

static const struct kvc_policy_class peeks = {
    .name = "peeks", .summary = "sees hidden states", .attended = peek, .observe_step = peek};

/* How the method evicts: budget 0 is dms. */
struct rule {
    uint32_t budget, window;
    double threshold;
    bool per_head;   /* another method of the policy has a list per query head */
    bool keeps_turn; /* nothing is evicted after a prompt */
};

static void evict(size_t l, size_t h, int32_t now, const struct rule *rule) {
    bool *here = held[l][h];
    uint32_t count = 0;
    for (int32_t p = 0; p < now; p++) {
        if (!rule->budget && p < now - (int32_t)rule->window && score[l][h][p] < rule->threshold)
            here[p] = false;
        count += here[p];
    }
    for (; rule->budget && count > rule->budget; count--) {
        int32_t least = -1;
        for (int32_t p = 0; p < now; p++)
            if (here[p] && (least < 0 || score[l][h][p] <= score[l][h][least]))
                least = p;
        here[least] = false;
    }
}

static void compare(const struct kvc_session *session, int32_t now, const struct rule *rule, bool step) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const uint32_t group = rule->per_head ? g->heads / g->kv_heads : 1;
    for (uint32_t l = 0; l < layers; l++)
        for (uint32_t list = 0; list < kv_heads * group; list++) {
            const uint32_t h = list / group;
            int32_t positions[ALL];
            size_t count = 0, next = 0;
            FINE(kvc_session_positions(session, l, list, positions, ALL, &count, &error));
            if (list % group == 0 && (step || !rule->keeps_turn))
                evict(l, h, now, rule);
            for (int32_t p = 0; p < now; p++)
                if (held[l][h][p]) {
                    assert_true(next < count);
                    assert_int_equal(positions[next++], p);
                }
            assert_int_equal(next, count);
        }
}

/* ---- whole sessions ---- */

static void steps(struct kvc_session *session, int32_t *now, const struct rule *rule) {
    for (uint32_t i = 0; i < STEPS; i++) {
        const int32_t token = (*now)++ % 40;
        FINE(kvc_decode(&session, &token, 1, NULL, NULL, &error));
        compare(session, *now, rule, true);
    }
}

static void run(struct kvc_model *model, const char *policy, uint32_t chunk, const struct rule *rule) {
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
    compare(session, now, rule, false);
    steps(session, &now, rule);
    FINE(kvc_session_prompt(session, tokens + 3, SECOND, NULL, NULL, &error));
    compare(session, now += SECOND, rule, false);
    steps(session, &now, rule);
    kvc_session_close(session);
}

static void open_model(struct kvc_engine **engine, const char *folder, struct kvc_model **model) {
    open_model_on(NULL, &peeks, engine, folder, model);
}

static void models(void **state) {
    static const char *const folders[] = {"data/demo", "tests/data/golden/qwen3", "tests/data/golden/phi2",
                                          "tests/data/golden/glm4"};
    (void)state;
    for (size_t i = 0; i < (kvc_test_thinned() ? 2 : sizeof folders / sizeof *folders); i++) {
        const struct rule top = {.budget = 13}, low = {.window = 10, .threshold = 0.25};
        const struct rule each = {.budget = 13, .per_head = true, .keeps_turn = true};
        struct kvc_engine *engine;
        struct kvc_model *model;
        char policy[900];
        open_model(&engine, folders[i], &model);
        draw_networks(model, i % 2 ? 0 : 5);
        dtype = i < 2 ? "F32" : "BF16";
        const char *path = write_networks("model.safetensors", layers);
        snprintf(policy, sizeof policy, "kvzap:budget=13,file=%s+peeks", i % 2 ? path : own_folder());
        run(model, policy, i % 2 ? 7 : 0, &top);
        snprintf(policy, sizeof policy, "dms:scorer=kvzap,threshold=0.25,window=10,file=%s+peeks", path);
        run(model, policy, i % 2 ? 0 : 7, &low);
        snprintf(policy, sizeof policy, "snapkv:budget=900,per=head+kvzap:budget=13,stages=decode,file=%s+peeks", path);
        run(model, policy, 7, &each);
        free_networks();
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
}

/* ---- forecasts ---- */

/* Returns the forecast for a part of the model. */
static uint64_t forecast(const struct kvc_model *model, const char *policy, uint32_t from, uint32_t count,
                         uint32_t heads) {
    uint64_t bytes;
    FINE(kvc_estimate_networks(model, policy, from, count, heads, &bytes, &error));
    return bytes;
}

static uint64_t counted_weights(const struct kvc_engine *engine) {
    struct kvc_memory memory;
    kvc_engine_memory(engine, &memory);
    return memory.now[KVC_MEMORY_WEIGHTS];
}

/* Opens two sessions with a policy, and compares the counted bytes with the forecast. The sessions share networks.
 * `mapped` bytes are used in the file and not counted. */
static void compare_forecast(struct kvc_engine *engine, struct kvc_model *model, const char *policy, uint64_t mapped) {
    struct kvc_session_options with;
    struct kvc_session *session[2];
    const uint64_t before = counted_weights(engine);
    kvc_session_defaults(&with);
    with.policy = policy;
    for (size_t i = 0; i < 2; i++)
        FINE(kvc_session_open(model, &with, &session[i], &error));
    assert_int_equal(counted_weights(engine) - before + mapped, forecast(model, policy, 0, layers, kv_heads));
    for (size_t i = 0; i < 2; i++)
        kvc_session_close(session[i]);
    assert_int_equal(counted_weights(engine), before);
}

static bool has_opencl(void) {
    struct kvc_backend_info info;
    for (size_t i = 0; kvc_backend(i, &info); i++)
        if (!strcmp(info.name, "opencl"))
            return info.usable;
    return false;
}

static void forecasts(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        /* the device stores weights in its own memory, the CPU uses those of the file */
        const bool device = i % 2 && has_opencl();
        struct kvc_engine *engine;
        struct kvc_model *model;
        char policy[900];
        setenv("KVCULL_OPENCL_MEMORY", "1000000000", 1);
        open_model_on(device ? "opencl" : NULL, &peeks, &engine, "tests/data/golden/qwen3", &model);
        unsetenv("KVCULL_OPENCL_MEMORY");
        draw_networks(model, i / 2 ? 0 : 5);
        dtype = i / 2 ? "F32" : "BF16";
        const char *path = write_networks("model.safetensors", layers);
        const uint64_t number = i / 2 ? 4 : 2, width = inner ? inner : hidden;
        const uint64_t first = number * inner * hidden, last = number * width, biases = 4ull * (inner + kv_heads);
        snprintf(policy, sizeof policy, "kvzap:budget=13,file=%s,stages=prompt+dms:scorer=kvzap,stages=decode,file=%s",
                 path, path);
        compare_forecast(engine, model, policy, device ? 0 : layers * (first + last * kv_heads));
        assert_int_equal(forecast(model, policy, 1, 1, 1), first + last + layers * biases);
        assert_int_equal(forecast(model, "dms:scorer=knorm+knorm:budget=9,stages=prompt", 0, layers, kv_heads), 0);
        free_networks();
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
}

/* ---- refusals ---- */

static void refuse(struct kvc_model *model, const char *path, const char *says) {
    struct kvc_session_options with;
    struct kvc_session *session;
    char policy[900];
    uint64_t bytes;
    kvc_session_defaults(&with);
    snprintf(policy, sizeof policy, "kvzap:budget=13,file=%s", path);
    with.policy = policy;
    check_refusal(kvc_session_open(model, &with, &session, &error), KVC_INPUT, &error, says);
    check_refusal(kvc_estimate_networks(model, policy, 0, 1, 1, &bytes, &error), KVC_INPUT, &error, says);
}

static void bad_files(void **state) {
    struct kvc_engine *engine;
    struct kvc_model *model;
    uint64_t bytes;
    (void)state;
    open_model(&engine, "data/demo", &model);
    dtype = "F32";
    refuse(model, "/nowhere", "policy kvzap: /nowhere: cannot be opened");
    check_refusal(kvc_estimate_networks(model, "full", 3, 2, 1, &bytes, &error), KVC_USAGE, &error,
                  "estimate: 2 layers from 3 on with 1 KV heads: the model has 4 with 2");
    for (uint32_t width = 0; width < 2; width++) {
        draw_networks(model, width);
        refuse(model, write_networks("short", layers - 1),
               width ? "has 12 tensors; for this model of 4 layers it must have 16"
                     : "has 6 tensors; for this model of 4 layers it must have 8");
        hidden++;
        refuse(model, write_networks("wide", layers),
               width ? "tensor layers.0.0.weight is 1 x 129; for this model it must be 1 x 128"
                     : "tensor layers.0.weight is 2 x 129; for this model it must be 2 x 128");
        hidden--;
        kv_heads--;
        refuse(model, write_networks("heads", layers),
               width ? "tensor layers.0.2.weight is 1 x 1; for this model it must be 2 x 1"
                     : "tensor layers.0.weight is 1 x 128; for this model it must be 2 x 128");
        kv_heads++;
        (void)write_networks("model", layers);
        refuse(model, write_file("cut", made.data, made.used - 4), "cut");
        char *name = strstr((char *)made.data + 8, width ? "layers.1.2.bias" : "layers.1.bias");
        name[7] = '7';
        refuse(model, write_file("names", made.data, made.used),
               width ? "tensor layers.1.2.bias is missing" : "tensor layers.1.bias is missing");
        name[7] = '1';
        name = strstr((char *)made.data + 8, "\"F32\"");
        memcpy(name, "\"I32\"", 5);
        refuse(model, write_file("types", made.data, made.used), "I32");
        free_networks();
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
}

/* A class without a predictor, and one that asks for scores when the rows' hidden states are gone. */
static uint32_t one(const struct kvc_values *values) {
    (void)values;
    return 1;
}

static const char *drawn(const struct kvc_values *values) {
    (void)values;
    return "drawn";
}

static enum kvc_status ask(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    return kvc_stage_predict(stage, 0, e);
}

static const struct kvc_policy_class without = {
    .name = "without", .summary = "has no predictor", .columns = one, .attended = ask};
static const struct kvc_policy_class late = {
    .name = "late", .summary = "asks late", .columns = one, .predictor = drawn, .observe_prompt = ask};

static void wrong_classes(void **state) {
    static const char *const says[][2] = {{"without", "the class names no predictor"},
                                          {"late", "only after the attention of rows"}};
    struct kvc_engine *engine;
    struct kvc_model *model;
    (void)state;
    open_model(&engine, "data/demo", &model);
    FINE(kvc_engine_register(engine, &without, &error));
    FINE(kvc_engine_register(engine, &late, &error));
    for (size_t i = 0; i < 2; i++) {
        const int32_t tokens[] = {1, 2, 3};
        struct kvc_session_options with;
        struct kvc_session *session;
        kvc_session_defaults(&with);
        with.policy = says[i][0];
        FINE(kvc_session_open(model, &with, &session, &error));
        check_refusal(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error), KVC_USAGE, &error, says[i][1]);
        kvc_session_close(session);
    }
    kvc_model_close(model);
    kvc_engine_close(engine);
}

static void replay(void **state) {
    (void)state;
    refuse_replay("kvzap:budget=13,file=drawn", "policy kvzap: needs a model: a replay has no hidden states");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(forecasts),
                                       cmocka_unit_test(bad_files), cmocka_unit_test(wrong_classes),
                                       cmocka_unit_test(replay)};
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
