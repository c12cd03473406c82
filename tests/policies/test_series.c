/* test_series.c - triattention in models: its scores against the paper's series in double precision, the statistics of
 * `kvcull collect` against queries with their rotation undone, and bad files. The models have different rope bases in
 * some layers, a partial rotation, adjacent rotary pairs, or an attention factor. */
#include "core/stage/stage.h"
#include "kvcull/policy.h"
#include "tests/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 40, ALL = ROWS + 1, FUTURE = 300, MOST_D = 128 };

static struct kvc_error error;
static unsigned read_layers, scored_layers;
static float mean[64 * MOST_D], spread[64 * MOST_D / 2]; /* one layer's statistics */

static const struct kvc_rope *rope_of(const struct kvc_stage *stage) {
    const struct kvc_network *network = stage->session->runner->network;
    return &network->rope[network->layer[stage->layer].rope];
}

static double angle(const struct kvc_rope *rope, double position, uint32_t c) {
    return (double)((float)position * rope->frequency[c]);
}

/* ---- queries before their rotation ---- */

static enum kvc_status attended(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, heads = stage->info.heads, half = rope->rotary / 2;
    const double factor = (double)rope->attention_factor;
    const size_t count = (size_t)stage->queries * heads * d;
    float *raw = malloc(count * sizeof *raw), *q = malloc(count * sizeof *q);
    int32_t *position = malloc(stage->queries * sizeof *position);
    size_t rows;
    uint32_t rotary;
    (void)values, (void)e;
    assert_true(raw && q && position);
    FINE(kvc_stage_read_queries(stage, false, raw, stage->queries, &rows, &rotary, &error));
    assert_true(rows == stage->queries && rotary == rope->rotary);
    kvc_stage_device(stage)->ops->download(kvc_stage_device(stage), q, stage->q, count * sizeof *q);
    kvc_stage_device(stage)->ops->download(kvc_stage_device(stage), position, stage->positions,
                                           stage->queries * sizeof *position);
    for (size_t row = 0; row < rows * heads; row++)
        for (uint32_t c = 0; c < half; c++) {
            const double a = (double)q[row * d + c], b = (double)q[row * d + c + half];
            const double t = angle(rope, position[row / heads], c);
            const double x = (a * cos(t) + b * sin(t)) / factor, y = (b * cos(t) - a * sin(t)) / factor;
            if (fabs(x - (double)raw[row * d + c]) > 1e-4 * (1 + fabs(x)) ||
                fabs(y - (double)raw[row * d + c + half]) > 1e-4 * (1 + fabs(y)))
                fail_msg("layer %u, row %zu, pair %u: %g %g in place of %g %g", stage->layer, row, c,
                         (double)raw[row * d + c], (double)raw[row * d + c + half], x, y);
        }
    read_layers += position[0] == 0;
    FINE(kvc_stage_read_queries(stage, true, raw, stage->queries, &rows, &rotary, &error));
    assert_memory_equal(raw, q, count * sizeof *q);
    free(raw);
    free(q);
    free(position);
    return KVC_OK;
}

static enum kvc_status keeps(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)stage, (void)values, (void)e;
    return KVC_OK;
}

/* ---- scores ---- */

/* Numbers of the layer that differ for any two heads. */
static struct kvc_series series_of(const struct kvc_stage *stage) {
    const uint32_t d = stage->info.head_size, heads = stage->info.heads;
    assert_true((size_t)heads * d <= sizeof mean / sizeof *mean);
    for (uint32_t i = 0; i < heads * d; i++)
        mean[i] = (float)sin(1.0 + 3.7 * i + stage->layer);
    for (uint32_t i = 0; i < heads * (d / 2); i++)
        spread[i] = (float)(0.3 + 0.3 * sin(2.0 + 5.1 * i));
    return (struct kvc_series){.mean = mean, .spread = spread, .rotary = rope_of(stage)->rotary, .future = FUTURE};
}

static enum kvc_status prepare(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    struct kvc_series series = series_of(stage);
    (void)values;
    series.rotary += 2;
    assert_int_not_equal(kvc_stage_prepare_series(stage, &series, &error), KVC_OK);
    series.rotary -= 2;
    series.future = 0;
    assert_int_equal(kvc_stage_prepare_series(stage, &series, &error), KVC_USAGE);
    series.future = FUTURE;
    return kvc_stage_prepare_series(stage, &series, e);
}

static void load_keys(const struct kvc_stage *stage, uint32_t list, float *keys) {
    struct kvc_device *device = kvc_stage_device(stage);
    struct kvc_growable k = {.kind = KVC_MEMORY_SCRATCH};
    const size_t bytes = (size_t)ALL * stage->info.head_size * sizeof(float);
    FINE(kvc_growable_reserve(device, &k, bytes, &error));
    device->ops->entries(
        device,
        &(struct kvc_entries){.lists = &kvc_stage_lists(stage)->lists, .head = list, .keys = kvc_growable_at(&k, 0)});
    device->ops->download(device, keys, kvc_growable_at(&k, 0), bytes);
    kvc_growable_free(device, &k);
}

/* The paper's form: amplitudes and phases of the key before its rotation, at each distance. Key j has position j. */
static double series_score(const struct kvc_stage *stage, uint32_t h, uint32_t j, const float *key) {
    const struct kvc_rope *rope = rope_of(stage);
    const uint32_t d = stage->info.head_size, half = rope->rotary / 2;
    const float *mu = mean + (size_t)h * d;
    const double factor = (double)rope->attention_factor;
    double all = 0;
    for (uint32_t c = 2 * half; c < d; c++)
        all += (double)mu[c] * (double)key[c];
    for (uint32_t i = 0; i < half; i++) {
        const double own = angle(rope, j, i), a = (double)key[i] / factor, b = (double)key[i + half] / factor;
        const double x = a * cos(own) + b * sin(own), y = b * cos(own) - a * sin(own);
        const double amplitude = hypot((double)mu[i], (double)mu[i + half]) * hypot(x, y);
        const double phase = atan2((double)mu[i + half], (double)mu[i]) - atan2(y, x);
        double sum = 0;
        uint32_t distances = 0;
        for (uint32_t ahead = 1; ahead <= FUTURE; ahead *= 2, distances++)
            sum += amplitude * cos(angle(rope, (double)(stage->info.now + ahead), i) - own + phase);
        all += factor * factor * (sum / distances + (double)spread[(size_t)h * (d / 2) + i] * hypot(x, y));
    }
    return all;
}

static enum kvc_status decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const struct kvc_series series = series_of(stage);
    struct kvc_series other = series;
    const uint32_t d = stage->info.head_size, group = stage->info.heads / stage->info.kv_heads;
    const uint32_t window = kvc_runner_window(stage->session->runner, stage->layer);
    float *keys = malloc((size_t)ALL * d * sizeof *keys), most[ALL], average[ALL];
    struct kvc_scores *scores;
    size_t n;
    (void)values, (void)e;
    assert_non_null(keys);
    scored_layers++;
    for (uint32_t list = 0; list < stage->info.kv_heads && (window == 0 || window > ALL); list++) {
        double high[ALL], sum[ALL] = {0};
        load_keys(stage, list, keys);
        FINE(kvc_stage_scores(stage, &scores, &error));
        other.rotary = 2 * d;
        assert_int_equal(kvc_stage_series_scores(stage, &other, false, scores, &error), KVC_USAGE);
        FINE(kvc_stage_series_scores(stage, &series, false, scores, &error));
        FINE(kvc_stage_read_scores(stage, scores, list, most, ALL, &n, &error));
        assert_int_equal(n, ALL);
        FINE(kvc_stage_series_scores(stage, &series, true, scores, &error));
        FINE(kvc_stage_read_scores(stage, scores, list, average, ALL, &n, &error));
        stage->score_count = 0;
        for (uint32_t g = list * group; g < (list + 1) * group; g++) {
            double s[ALL], centre = 0, square = 0;
            for (uint32_t j = 0; j < ALL; j++)
                centre += (s[j] = series_score(stage, g, j, keys + (size_t)j * d)) / ALL;
            for (uint32_t j = 0; j < ALL; j++)
                square += (s[j] - centre) * (s[j] - centre) / ALL;
            for (uint32_t j = 0; j < ALL; j++) {
                const double z = (s[j] - centre) / sqrt(square);
                high[j] = g == list * group || z > high[j] ? z : high[j];
                sum[j] += z / group;
            }
        }
        for (uint32_t j = 0; j < ALL; j++)
            if (fabs((double)most[j] - high[j]) > 2e-3 || fabs((double)average[j] - sum[j]) > 2e-3)
                fail_msg("layer %u, list %u, entry %u: %g and %g in place of %g and %g", stage->layer, list, j,
                         (double)most[j], (double)average[j], high[j], sum[j]);
    }
    free(keys);
    return KVC_OK;
}

/* ---- models ---- */

static const struct kvc_option options[] = {{.name = NULL}};
static const struct kvc_policy_class looks = {.name = "looks",
                                              .summary = "compares queries",
                                              .stages = KVC_STAGE_PROMPT,
                                              .options = options,
                                              .attended = attended,
                                              .prompt = keeps};
static const struct kvc_policy_class scores = {.name = "scores",
                                               .summary = "compares scores",
                                               .stages = KVC_STAGE_DECODE,
                                               .options = options,
                                               .prepare = prepare,
                                               .decode = decode};

static void open_model(struct kvc_engine **engine, const char *folder, struct kvc_model **model) {
    const struct kvc_engine_options with = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    const char *source = getenv("top_srcdir");
    char path[512];
    FINE(kvc_engine_open(&with, engine, &error));
    FINE(kvc_engine_register(*engine, &looks, &error));
    FINE(kvc_engine_register(*engine, &scores, &error));
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", folder);
    FINE(kvc_model_open(*engine, path, model, &error));
}

static void models(void **state) {
    static const char *const folders[] = {"data/demo",
                                          "tests/data/golden/gemma3",
                                          "tests/data/golden/cohere",
                                          "tests/data/golden/qwen3",
                                          "tests/data/golden/glm4",
                                          "tests/data/golden/phi2",
                                          "tests/data/golden/smollm3",
                                          "tests/data/golden/qwen3-yarn"};
    (void)state;
    for (size_t i = 0; i < (kvc_test_thinned() ? (size_t)2 : sizeof folders / sizeof *folders); i++) {
        struct kvc_session_options with;
        struct kvc_session *session;
        struct kvc_engine *engine;
        struct kvc_model *model;
        int32_t tokens[ALL];
        open_model(&engine, folders[i], &model);
        for (uint32_t t = 0; t < ALL; t++)
            tokens[t] = (int32_t)(t * 7919 % kvc_model_info(model)->vocab);
        kvc_session_defaults(&with);
        with.policy = "looks+scores";
        with.cache_type = kvc_entry_types(i % 2 ? KVC_F16 : KVC_F32);
        with.chunk = i % 2 ? 7 : 0;
        read_layers = scored_layers = 0;
        FINE(kvc_session_open(model, &with, &session, &error));
        FINE(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error));
        assert_int_equal(read_layers, kvc_model_info(model)->layers);
        FINE(kvc_decode(&session, tokens + ROWS, 1, NULL, NULL, &error));
        assert_int_equal(scored_layers, kvc_model_info(model)->layers);
        kvc_session_close(session);
        kvc_model_close(model);
        kvc_engine_close(engine);
    }
}

/* ---- files ---- */

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

#define HEAD "kvcull query statistics 1\nmodel a b\ntokens 3\n"
#define LAYER "0 1 2 3 4\n1e-3 -1 0 0 0\n"

struct file_case {
    const char *text, *says; /* NULL: accepted */
};

/* Checks a policy with each file; the policy's text ends in the option that names it. */
static void check_files(const char *policy, const struct file_case *cases, size_t count) {
    char path[] = "test_series_XXXXXX", spec[100];
    const int fd = mkstemp(path);
    struct kvc_engine *engine;
    struct kvc_model *model;
    assert_true(fd >= 0 && close(fd) == 0);
    open_model(&engine, "data/demo", &model);
    snprintf(spec, sizeof spec, "%s=%s", policy, path);
    for (size_t i = 0; i < count; i++) {
        write_text(path, cases[i].text);
        const enum kvc_status status = kvc_policy_check(engine, spec, &error);
        if (!cases[i].says && status != KVC_OK)
            fail_msg("case %zu: %s", i, error.text);
        if (cases[i].says && (status != KVC_INPUT || !strstr(error.text, cases[i].says) || strchr(error.text, '\n') ||
                              strncmp(error.text, "policy ", 7) != 0 || !strstr(error.text, "=test_series_")))
            fail_msg("case %zu: status %d, \"%s\" does not say \"%s\"", i, (int)status, error.text, cases[i].says);
    }
    remove(path);
    assert_int_equal(kvc_policy_check(engine, spec, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "No such file"));
    kvc_model_close(model);
    kvc_engine_close(engine);
}

static void files(void **state) {
    static const struct file_case cases[] = {
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n" LAYER, NULL},
        {HEAD "shape 1 2 4\r\nlayer 0 rotary 2 \r\n0 1 2 3 4\r\n1e-3\t-1 0 0 0", NULL},
        {"", "line 1: must be \"kvcull query statistics 1\""},
        {"kvcull query statistics 12\n", "line 1"},
        {"kvcull query statistics 1\nmodel\n", "line 2"},
        {"kvcull query statistics 1\nmodel a\ntokens 0\n", "line 3"},
        {HEAD, "line 4"},
        {HEAD "shape 1 2\n", "line 4: must be \"shape LAYERS HEADS SIZE\""},
        {HEAD "shape 0 2 4\n", "line 4"},
        {HEAD "shape 1 2.5 4\n", "line 4"},
        {HEAD "shape 1 2 4 4\n", "line 4"},
        {HEAD "shape 65537 1 1\n", "1 to 65536"},
        {HEAD "shape 65536 65536 65536\nlayer 0 rotary 2\n", "line 4: must be a shape whose numbers"},
        {HEAD "shape 1 2 4\nlayer 1 rotary 2\n" LAYER, "line 5: must be \"layer L rotary R\""},
        {HEAD "shape 1 2 4\nlayer 0 rotary 3\n" LAYER, "line 5"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 6\n" LAYER, "line 5"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 3\n1e-3 -1 0 0 0\n", "line 6"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 3 4 5\n1e-3 -1 0 0 0\n", "line 6: must be as many"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 nan 4\n1e-3 -1 0 0 0\n", "line 6"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 1e10 4\n1e-3 -1 0 0 0\n", "from -1e9 to 1e9"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 3 -4\n1e-3 -1 0 0 0\n", "line 6"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n0 1 2 3 4              \n", "line 7"},
        {HEAD "shape 1 2 4\nlayer 0 rotary 2\n" LAYER "layer 1 rotary 2\n", "line 8: must be the file's end"}};
    (void)state;
    check_files("triattention:budget=9,stats", cases, sizeof cases / sizeof *cases);
}

#define COVARIANCES "kvcull query covariances 1\nmodel a\ntokens 3\nshape 1 1 2\nlayer 0 rotary 2\n"
#define FILTERS "kvcull query filters 1\nmodel a\ntokens 3\nshape 1 1 2\nlayer 0 rotary 2\n"

static void other_files(void **state) {
    static const struct file_case
        covariances[] = {{COVARIANCES "1 2 0.5 -0.25 1\n", NULL},
                         {HEAD "shape 1 1 2\nlayer 0 rotary 2\n1 2 3\n", "must be \"kvcull query covariances 1\""},
                         {COVARIANCES "1 2 0.5 -0.25\n", "line 6: must be a mean query, then its covariances"},
                         {COVARIANCES "1 2 0.5 -0.25 inf\n", "from -1e9 to 1e9"},
                         {COVARIANCES "1 2 0.5 -0.25 1 1\n", "line 6: must be as many numbers as the shape says"},
                         {COVARIANCES "1 2 0.5 -0.25 1\n\n", "line 7: must be the file's end"}},
        filters[] = {{FILTERS "1 -2\n", NULL},
                     {COVARIANCES "1 2 0.5 -0.25 1\n", "line 1: must be \"kvcull query filters 1\""},
                     {FILTERS "1\n", "line 6: must be a filter"},
                     {FILTERS "1 -2 3\n", "line 6: must be as many numbers as the shape says"}};
    (void)state;
    check_files("expected:budget=9,stats", covariances, sizeof covariances / sizeof *covariances);
    check_files("qfilter:budget=9,file", filters, sizeof filters / sizeof *filters);
    check_files("dms:file", filters, sizeof filters / sizeof *filters);
}

/* A file with the model's shape; rotary: the number of rotated channels it specifies for each layer. */
static void write_shape(const char *path, uint32_t layers, uint32_t heads, uint32_t d, uint32_t rotary) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, HEAD "shape %u %u %u\n", layers, heads, d);
    for (uint32_t l = 0; l < layers; l++) {
        fprintf(file, "layer %u rotary %u\n", l, rotary);
        for (uint32_t h = 0; h < heads; h++) {
            for (uint32_t i = 0; i < d + rotary / 2; i++)
                fprintf(file, "%s1", i ? " " : "");
            fprintf(file, "\n");
        }
    }
    assert_int_equal(fclose(file), 0);
}

/* Statistics of another model: a wrong shape is found when the session opens, a wrong rotation in the first step. */
static void another_model(void **state) {
    char path[] = "test_series_XXXXXX", spec[100];
    const int fd = mkstemp(path);
    struct kvc_session_options with;
    struct kvc_session *session = NULL;
    struct kvc_engine *engine;
    struct kvc_model *model;
    const int32_t tokens[] = {1, 2, 3};
    (void)state;
    assert_true(fd >= 0 && close(fd) == 0);
    open_model(&engine, "data/demo", &model);
    const struct kvc_model_info *info = kvc_model_info(model);
    snprintf(spec, sizeof spec, "triattention:budget=9,stats=%s", path);
    kvc_session_defaults(&with);
    with.policy = spec;
    for (unsigned i = 0; i < 3; i++) {
        write_shape(path, info->layers + (i == 0), info->heads + (i == 1), info->head_size + (i == 2), 2);
        assert_int_equal(kvc_session_open(model, &with, &session, &error), KVC_INPUT);
        assert_non_null(strstr(error.text, "the model has"));
    }
    write_shape(path, info->layers, info->heads, info->head_size, info->head_size - 2);
    FINE(kvc_session_open(model, &with, &session, &error));
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error));
    assert_int_equal(kvc_decode(&session, tokens, 1, NULL, NULL, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "rotated channels; the model has"));
    kvc_session_close(session);
    write_shape(path, info->layers, info->heads, info->head_size, info->head_size);
    FINE(kvc_session_open(model, &with, &session, &error));
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error));
    FINE(kvc_decode(&session, tokens, 1, NULL, NULL, &error));
    kvc_session_close(session);
    remove(path);
    kvc_model_close(model);
    kvc_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models), cmocka_unit_test(files), cmocka_unit_test(other_files),
                                       cmocka_unit_test(another_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
