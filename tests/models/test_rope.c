/* test_rope.c - rotary frequencies of real geometries against transformers. */
#include <math.h>

#include "tests/models/config_checks.h"

static double read_real(FILE *file) {
    char text[64];
    assert_int_equal(fscanf(file, "%63s", text), 1);
    return strtod(text, NULL);
}

/* At most two ULPs of a float32, because transformers' own pow is not correctly rounded; a few more where Llama 3's
 * formula with unpublished parameters is stored as divisors, as in GGUF files. */
static void expect_near(const char *name, size_t i, float ours, double theirs) {
    const double limit = strcmp(name, "llama3-odd") == 0 ? 6e-7 : 2.4e-7;
    if (!(fabs((double)ours - theirs) <= limit * fabs(theirs)))
        fail_msg("%s: frequency %zu is %.9g, transformers has %.9g", name, i, (double)ours, theirs);
}

static void check_rope(const char *name) {
    char rest[128], path[512];
    struct kvc_config config;
    struct kvc_rope rope;
    snprintf(rest, sizeof rest, "rope/%s.json", name);
    if (kvc_config_from_json(golden(rest, path, sizeof path), &config, &error))
        fail_msg("%s", error.text);
    assert_int_equal(kvc_rope_build(&config, false, &rope, &error), KVC_OK);
    snprintf(rest, sizeof rest, "rope/%s.txt", name);
    FILE *file = fopen(golden(rest, path, sizeof path), "r");
    if (!file)
        fail_msg("%s: cannot open", path);
    const double attention = read_real(file);
    const size_t pairs = (size_t)read_real(file);
    const bool two = read_real(file) != 0;
    assert_int_equal(rope.rotary, 2 * pairs);
    assert_true(two == (rope.long_frequency != NULL));
    expect_near(name, 9999, rope.attention_factor, attention);
    expect_near(name, 9999, rope.long_attention_factor, attention);
    for (size_t i = 0; i < pairs; i++)
        expect_near(name, i, rope.frequency[i], read_real(file));
    for (size_t i = 0; two && i < pairs; i++)
        expect_near(name, i, rope.long_frequency[i], read_real(file));
    fclose(file);
    free(rope.frequency);
    free(rope.long_frequency);
    kvc_config_free(&config);
}

static void frequencies_are_those_of_transformers(void **state) {
    (void)state;
    static const char *const names[] = {"llama2-7b",    "llama3.1-8b",     "llama3.2-1b",     "llama3-odd",
                                        "longchat-7b",  "mistral-7b-v0.3", "qwen2.5-7b-yarn", "qwen3-8b-yarn",
                                        "yarn-options", "phi-4-mini",      "phi-3-su",        "gemma-3-4b",
                                        "gpt-oss-20b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_rope(names[i]);
}

/* Divisors from GGUF files are recognized as the published parameters, and always give the same frequencies. */
static void divisors_are_recognised(void **state) {
    (void)state;
    static const char *const names[] = {"rope/llama3.1-8b.json", "rope/llama3.2-1b.json", "rope/llama3-odd.json"};
    static const enum kvc_rope_kind kinds[] = {KVC_ROPE_LLAMA3, KVC_ROPE_LLAMA3, KVC_ROPE_DIVISORS};
    for (size_t n = 0; n < 3; n++) {
        char path[512];
        struct kvc_config config;
        struct kvc_rope first, second;
        assert_int_equal(kvc_config_from_json(golden(names[n], path, sizeof path), &config, &error), KVC_OK);
        assert_int_equal(config.rope.kind, kinds[n]);
        assert_int_equal(kvc_rope_build(&config, false, &first, &error), KVC_OK);
        const uint64_t original = config.rope.original_context;
        config.rope.kind = KVC_ROPE_DIVISORS;
        config.rope.factor = config.rope.low_factor = config.rope.high_factor = 0;
        config.rope.original_context = 0;
        kvc_rope_recognise(&config);
        assert_int_equal(config.rope.kind, kinds[n]);
        if (kinds[n] == KVC_ROPE_LLAMA3)
            assert_int_equal(config.rope.original_context, original);
        assert_int_equal(kvc_rope_build(&config, false, &second, &error), KVC_OK);
        assert_memory_equal(first.frequency, second.frequency, config.rope.rotary / 2 * sizeof(float));
        free(first.frequency);
        free(second.frequency);
        kvc_config_free(&config);
    }
}

/* Layers with a window have a rope of their own: the scaling of the other layers, and what it does to attention, does
 * not reach them. */
static void local_layers_are_not_scaled(void **state) {
    (void)state;
    char path[512];
    struct kvc_config config;
    struct kvc_rope local, whole;
    assert_int_equal(kvc_config_from_json(golden("rope/yarn-options.json", path, sizeof path), &config, &error),
                     KVC_OK);
    config.rope.local_base = 10000;
    config.rope.attention_scale = 1.75;
    assert_int_equal(kvc_rope_build(&config, false, &whole, &error), KVC_OK);
    assert_int_equal(kvc_rope_build_local(&config, false, &local, &error), KVC_OK);
    assert_true(whole.attention_factor > 1.5f);
    assert_float_equal(local.attention_factor, 1, 0);
    assert_float_equal(local.long_attention_factor, 1, 0);
    for (size_t i = 0; i < local.rotary / 2; i++)
        expect_near("local", i, local.frequency[i], pow(10000, -2.0 * (double)i / (double)local.rotary));
    free(local.frequency);
    free(whole.frequency);
    kvc_config_free(&config);
}

/* If yarn's ramp would be empty, only the first pair keeps its frequency, as in transformers. A factor of attention
 * from a GGUF file holds without scaling, too. */
static void ramps_that_are_empty(void **state) {
    (void)state;
    char path[512];
    struct kvc_config config;
    struct kvc_rope rope;
    assert_int_equal(kvc_config_from_json(golden("rope/yarn-options.json", path, sizeof path), &config, &error),
                     KVC_OK);
    config.rope.keep_fractions = false;
    config.rope.original_context = 12; /* a little less than beta_slow turns of the first pair */
    for (int scaled = 0; scaled < 2; scaled++) {
        config.rope.kind = scaled ? KVC_ROPE_YARN : KVC_ROPE_PLAIN;
        config.rope.attention_scale = 1.75;
        assert_int_equal(kvc_rope_build(&config, false, &rope, &error), KVC_OK);
        if (!scaled)
            assert_float_equal(rope.attention_factor, 1.75, 0);
        for (size_t i = 0; i < rope.rotary / 2; i++)
            expect_near("empty", i, rope.frequency[i],
                        pow(10000, -2.0 * (double)i / (double)rope.rotary) / (scaled && i ? config.rope.factor : 1));
        free(rope.frequency);
    }
    kvc_config_free(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(divisors_are_recognised),
        cmocka_unit_test(local_layers_are_not_scaled),
        cmocka_unit_test(ramps_that_are_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
