/* networks_file.h - random networks that predict scores, the safetensors files with them, and models for the tests of
 * methods that read such files. */
#ifndef KVC_TESTS_POLICIES_NETWORKS_FILE_H
#define KVC_TESTS_POLICIES_NETWORKS_FILE_H

#include "tests/models/file_maker.h"

#include "kvcull/check.h"
#include "models/model.h"

static struct kvc_error error;
static struct maker made;

static float *draw(size_t count, uint32_t width) {
    static uint64_t random = 5;
    float *numbers = calloc(2 * count + 64, sizeof *numbers); /* more, for files of wrong shapes */
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++) { /* exact in 16 bits */
        random = random * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = ((float)(random >> 56) - 128) / 128 / (float)width;
    }
    return numbers;
}

static char header[1 << 14];
static size_t offset;
static const char *dtype;

/* Adds a tensor to the header. cols 0: a vector. */
static void name_tensor(uint32_t layer, const char *rest, uint32_t rows, uint32_t cols) {
    const size_t used = strlen(header), values = (size_t)rows * (cols ? cols : 1);
    char shape[64];
    snprintf(shape, sizeof shape, cols ? "%u,%u" : "%u", rows, cols);
    const size_t end = offset + values * (strcmp(dtype, "F32") ? 2 : 4);
    snprintf(header + used, sizeof header - used,
             "%s\"layers.%u.%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", used ? "," : "{", layer,
             rest, dtype, shape, offset, end);
    offset = end;
}

static void put_values(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (!strcmp(dtype, "F32"))
            put_number(&made, bits, 4);
        else
            put_number(&made, bits >> 16, 2); /* BF16 */
    }
}

static void begin_file(void) {
    header[0] = 0;
    made.used = offset = 0;
}

static void end_header(void) {
    strcat(header, "}");
    put_text(&made, header);
}

/* Returns the product of a row of weights and x [n], plus the bias. */
static double sum_of(const float *weights, const double *x, uint32_t n, float bias) {
    double sum = (double)bias;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)weights[i] * x[i];
    return sum;
}

/* Opens a model, with an observer of hidden states. */
static void open_model_on(const char *backend, const struct kvc_policy_class *observer, struct kvc_engine **engine,
                          const char *folder, struct kvc_model **model) {
    const struct kvc_engine_options with = {.backend = backend, .threads = 2, .math = KVC_MATH_EXACT};
    const char *source = getenv("top_srcdir");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", folder);
    FINE(kvc_engine_open(&with, engine, &error));
    FINE(kvc_engine_register(*engine, observer, &error));
    FINE(kvc_model_open(*engine, path, model, &error));
}

/* Checks that a replay refuses the policy, because it has no hidden states. */
static void refuse_replay(const char *policy, const char *says) {
    const struct kvc_geometry geometry = {1, 2, 1, 8};
    const struct kvc_engine_options engine_options = {.backend = "ref", .threads = 1};
    struct kvc_session_options with;
    struct kvc_engine *engine;
    struct kvc_replay *none;
    FINE(kvc_engine_open(&engine_options, &engine, &error));
    kvc_session_defaults(&with);
    with.policy = policy;
    check_refusal(kvc_replay_open(engine, &geometry, &with, &none, &error), KVC_USAGE, &error, says);
    kvc_engine_close(engine);
}

#endif
