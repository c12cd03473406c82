/* test_optional_parts.c - transformers' config.json files of every family, with and without the family's optional parts
 * (tests/data/configs.jsonl, made by tests/golden/make_configs.py): kvcull reads them as transformers does, and a model
 * stays bit-identical from GGUF to a folder and back. */
#include "tests/models/convert_checks.h"

#include <jansson.h>

#include "models/config/plan.h"
#include "models/convert/random_row.h"

/* Writes a tensor's numbers: norms are near 1, all others around 0. */
static void write_random(struct kvc_gguf_writer *writer, size_t index, const struct kvc_planned_tensor *tensor) {
    struct kvc_random random = kvc_random_start(3, index);
    struct kvc_error error = {0};
    size_t count = 1;
    for (uint32_t d = 0; d < tensor->dimensions; d++)
        count *= (size_t)tensor->shape[d];
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    kvc_random_row(&random, KVC_F32, 0.1f, count, values);
    for (size_t i = 0; i < count; i++) {
        const float value = values[i] + (tensor->kind == KVC_PLAN_NORM ? 1.0f : 0.0f);
        values[i] = (value - 1.0f) + 1.0f; /* exactly 1 + w for a float32 w, because Gemma's files store w */
    }
    must(kvc_gguf_write(writer, index, tensor->factors ? tensor->factors : values, count * sizeof *values, &error),
         &error, tensor->name);
    free(values);
}

/* Writes a GGUF file of random weights for a configuration. */
static void make_model(const struct kvc_config *config, const char *to) {
    struct kvc_plan plan;
    struct kvc_error error = {0};
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    assert_non_null(writer);
    must(kvc_plan_build(config, KVC_F32, &plan, &error), &error, to);
    must(kvc_plan_metadata(config, &plan, KVC_F32, "random", writer, &error), &error, to);
    for (size_t i = 0; i < plan.count; i++) {
        const struct kvc_planned_tensor *tensor = &plan.tensors[i];
        kvc_gguf_add_tensor(writer, tensor->name, tensor->type, tensor->dimensions, tensor->shape);
    }
    must(kvc_gguf_writer_begin(writer, to, &error), &error, to);
    for (size_t i = 0; i < plan.count; i++)
        write_random(writer, i, &plan.tensors[i]);
    must(kvc_gguf_writer_commit(writer, &error), &error, to);
    kvc_plan_free(&plan);
}

static bool expected(const json_t *line, const char *key) { return json_is_true(json_object_get(line, key)); }

/* Reads the configuration with kvcull's reader; the caller frees it. */
static void read_config(const json_t *line, const char *about, struct kvc_config *config) {
    struct kvc_error error = {0};
    char *text = json_dumps(json_object_get(line, "config"), 0);
    assert_non_null(text);
    const enum kvc_status status = kvc_config_from_json(write_file("config.json", text, strlen(text)), config, &error);
    free(text);
    must(status, &error, about);
    if (config->qkv_bias != expected(line, "qkv_bias") || config->output_bias != expected(line, "output_bias") ||
        config->feed_bias != expected(line, "feed_bias") || config->tied != expected(line, "tied"))
        fail_msg("%s: biases of q, k, v %d, of o %d, of the feed-forward network %d, tied %d", about, config->qkv_bias,
                 config->output_bias, config->feed_bias, config->tied);
}

static void bits_stay(const struct kvc_config *config) {
    struct kvc_error error = {0};
    make_model(config, own_path("random.gguf"));
    must(kvc_convert(own_path("random.gguf"), own_path("folder/"), KVC_F32, &error), &error, "to a folder");
    same_bits(own_path("random.gguf"), own_path("folder"));
    must(kvc_convert(own_path("folder"), own_path("again.gguf"), KVC_F32, &error), &error, "to GGUF");
    same_bits(own_path("random.gguf"), own_path("again.gguf"));
    remove_tree(own_path("folder"));
}

static void families_with_and_without(void **state) {
    (void)state;
    char path[500], about[200];
    const char *top = getenv("top_srcdir");
    size_t converted = 0, lines = 0;
    snprintf(path, sizeof path, "%s/tests/data/configs.jsonl", top ? top : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (json_t *line; (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL; json_decref(line)) {
        struct kvc_config config;
        struct kvc_error error;
        snprintf(about, sizeof about, "%s, %s, transformers %s", json_string_value(json_object_get(line, "family")),
                 json_string_value(json_object_get(line, "variant")),
                 json_string_value(json_object_get(line, "transformers")));
        if (kvc_test_thinned() && lines++ % 20)
            continue;
        read_config(line, about, &config);
        if (kvc_config_convertible(&config, about, &error) == KVC_OK) {
            if (getenv("KVCULL_SHOW_ERRORS"))
                print_message("%s\n", about);
            bits_stay(&config);
            converted++;
        }
        kvc_config_free(&config);
    }
    fclose(file);
    assert_true(converted >= 100 || (kvc_test_thinned() && converted > 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(families_with_and_without)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
