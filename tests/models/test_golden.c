/* test_golden.c - every family against transformers in float64 (tests/data/golden, made by
 * tests/golden/make_golden.py), and both file formats bit-identical to each other. If ../shared exists, also a real
 * trained model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvcull.h"

/* The largest accepted relative error of a row of logits. transformers' own float32 results differ by up to 4e-6. */
static const double LIMIT = 2e-5;

static const struct {
    const char *family, *cases[3];
} goldens[] = {
    {"llama2", {"short"}},
    {"llama3", {"beyond"}},
    {"llama-linear", {"short"}},
    {"mistral", {"short"}},
    {"mistral-window", {"short"}},
    {"qwen2", {"short"}},
    {"qwen2-yarn", {"beyond"}},
    {"qwen2-window", {"short"}},
    {"qwen3", {"short"}},
    {"qwen3-yarn", {"beyond"}},
    {"qwen3-moe", {"short"}},
    {"qwen3-moe-window", {"short"}},
    {"qwen2-moe", {"short"}},
    {"qwen3-moe-dense", {"short"}},
    {"qwen2-moe-dense", {"short"}},
    {"qwen35", {"long"}},
    {"qwen3-next", {"long"}},
    {"olmoe", {"short"}},
    {"olmoe-gqa", {"short"}},
    {"mixtral", {"short"}},
    {"gpt-oss", {"beyond"}},
    {"gpt-oss-plain", {"short"}},
    {"phi3", {"short"}},
    {"phi3-longrope", {"short", "beyond", "long"}},
    {"phi4-mini", {"short", "long"}},
    {"gemma2", {"short"}},
    {"gemma3", {"short"}},
    {"gemma3-new", {"short"}},
    {"gemma3-images", {"short"}},
    {"smollm3", {"short"}},
    {"olmo2", {"short"}},
    {"olmo3", {"beyond"}},
    {"granite", {"short"}},
    {"glm4", {"short"}},
    {"cohere", {"short"}},
    {"cohere-plus", {"short"}},
    {"phi2", {"short"}},
    {"phi2-fused", {"short"}},
    {"phi2-norms", {"short"}},
    {"stablelm", {"short"}},
    {"stablelm-parallel", {"short"}},
    {"stablelm-norms", {"short"}},
};

struct golden { /* tokens [count], logits [count, vocab] */
    int32_t count, vocab, context, *tokens;
    double *logits;
};

static void must(enum kvc_status status, const struct kvc_error *error) {
    if (status)
        fail_msg("status %d: %s", (int)status, error->text);
}

static const char *source_folder(void) {
    const char *folder = getenv("top_srcdir");
    return folder ? folder : ".";
}

static void read_golden(const char *family, const char *name, struct golden *golden) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/golden/%s/%s.golden", source_folder(), family, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot open; run from the source folder or set top_srcdir", path);
    int32_t header[4];
    assert_int_equal(fread(header, sizeof *header, 4, file), 4);
    golden->count = header[0];
    golden->vocab = header[1];
    golden->context = header[2];
    const size_t count = (size_t)golden->count, values = count * (size_t)golden->vocab;
    golden->tokens = malloc(count * sizeof *golden->tokens);
    golden->logits = malloc(values * sizeof *golden->logits);
    assert_non_null(golden->tokens);
    assert_non_null(golden->logits);
    assert_int_equal(fread(golden->tokens, sizeof *golden->tokens, count, file), count);
    assert_int_equal(fread(golden->logits, sizeof *golden->logits, values, file), values);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void free_golden(struct golden *golden) {
    free(golden->tokens);
    free(golden->logits);
}

struct rows {
    float *logits;
    size_t vocab, next;
};

static int keep_row(void *user, uint64_t row, const float *logits) {
    struct rows *rows = user;
    if (row != rows->next)
        return 1;
    memcpy(rows->logits + rows->next++ * rows->vocab, logits, rows->vocab * sizeof *logits);
    return 0;
}

static struct kvc_session *open_session(struct kvc_model *model, size_t context) {
    struct kvc_error error;
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.cache_type = kvc_entry_types(KVC_F32);
    options.context = context;
    must(kvc_session_open(model, &options, &session, &error), &error);
    return session;
}

/* Logits of every row, with the tokens as one prompt: [count, vocab], from malloc. */
static float *all_logits(struct kvc_model *model, const int32_t *tokens, size_t count, size_t context) {
    struct kvc_error error;
    struct kvc_session *session = open_session(model, context);
    const size_t vocab = kvc_model_info(model)->vocab;
    struct rows rows = {malloc(count * vocab * sizeof(float)), vocab, 0};
    assert_non_null(rows.logits);
    const struct kvc_prompt_options prompt = {.row = keep_row, .user = &rows};
    must(kvc_session_prompt(session, tokens, count, &prompt, NULL, &error), &error);
    assert_int_equal(rows.next, count);
    kvc_session_close(session);
    return rows.logits;
}

static double worst_row(const float *ours, const struct golden *golden) {
    const size_t vocab = (size_t)golden->vocab;
    double worst = 0;
    for (size_t i = 0; i < (size_t)golden->count; i++) {
        double distance = 0, size = 0;
        for (size_t j = 0; j < vocab; j++) {
            const double truth = golden->logits[i * vocab + j], d = (double)ours[i * vocab + j] - truth;
            distance += d * d;
            size += truth * truth;
        }
        const double relative = sqrt(distance / size);
        if (!(relative <= worst))
            worst = relative;
    }
    return worst;
}

static void open_model(struct kvc_engine *engine, const char *family, const char *file, struct kvc_model **model) {
    struct kvc_error error;
    char path[512];
    snprintf(path, sizeof path, "%s/tests/data/golden/%s%s", source_folder(), family, file);
    must(kvc_model_open(engine, path, model, &error), &error);
}

static void families_match_transformers(void **state) {
    (void)state;
    struct kvc_error error;
    struct kvc_engine *engine;
    must(kvc_engine_open(NULL, &engine, &error), &error);
    for (size_t f = 0; f < sizeof goldens / sizeof *goldens; f++) {
        struct kvc_model *folder, *gguf;
        open_model(engine, goldens[f].family, "", &folder);
        open_model(engine, goldens[f].family, "/model.gguf", &gguf);
        assert_int_equal(kvc_model_info(folder)->parameters, kvc_model_info(gguf)->parameters);
        assert_int_equal(kvc_model_info(folder)->trained_context, kvc_model_info(gguf)->trained_context);
        assert_int_equal(kvc_model_info(folder)->active_parameters, kvc_model_info(gguf)->active_parameters);
        assert_string_equal(kvc_model_info(folder)->rope, kvc_model_info(gguf)->rope);
        for (size_t c = 0; c < 3 && goldens[f].cases[c]; c++) {
            struct golden golden;
            read_golden(goldens[f].family, goldens[f].cases[c], &golden);
            const size_t count = (size_t)golden.count, values = count * (size_t)golden.vocab;
            assert_int_equal(kvc_model_info(folder)->vocab, golden.vocab);
            float *ours = all_logits(folder, golden.tokens, count, count);
            float *theirs = all_logits(gguf, golden.tokens, count, count);
            const double worst = worst_row(ours, &golden);
            printf("%-15s %-7s largest relative error of a row %.1e\n", goldens[f].family, goldens[f].cases[c], worst);
            if (!(worst <= LIMIT)) {
                fail_msg("%s %s: %g, at most %g is right", goldens[f].family, goldens[f].cases[c], worst, LIMIT);
            }
            for (size_t i = 0; i < values; i++) {
                if (memcmp(&ours[i], &theirs[i], sizeof *ours) != 0) {
                    fail_msg("%s %s: row %zu, logit %zu: %.9g from the folder, %.9g from model.gguf", goldens[f].family,
                             goldens[f].cases[c], i / (size_t)golden.vocab, i % (size_t)golden.vocab, (double)ours[i],
                             (double)theirs[i]);
                }
            }
            free(ours);
            free(theirs);
            free_golden(&golden);
        }
        kvc_model_close(folder);
        kvc_model_close(gguf);
    }
    kvc_engine_close(engine);
}

/* ---- ../shared/models/stories260k: a trained model in both formats ---- */

static const char OPENING[] = "Once upon a time, there was a little girl named Lily. She loved to play outside in the "
                              "park. One day, she saw a big, red ball.";
enum { STEPS = 199 };

static int32_t highest(const float *logits, size_t vocab) {
    size_t best = 0;
    for (size_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Greedy generation from BOS; the logits are [STEPS, vocab], from malloc. */
static float *generate(struct kvc_model *model, int32_t *tokens) {
    struct kvc_error error;
    struct kvc_session_options options;
    struct kvc_session *session;
    const size_t vocab = kvc_model_info(model)->vocab;
    float *logits = malloc(STEPS * vocab * sizeof *logits);
    assert_non_null(logits);
    kvc_session_defaults(&options);
    must(kvc_session_open(model, &options, &session, &error), &error);
    int32_t token = kvc_model_info(model)->bos;
    assert_int_equal(token, 1);
    for (size_t i = 0; i < STEPS; i++) {
        float *row = logits + i * vocab;
        if (i == 0)
            must(kvc_session_prompt(session, &token, 1, NULL, row, &error), &error);
        else
            must(kvc_decode(&session, &token, 1, row, NULL, &error), &error);
        tokens[i] = token = highest(row, vocab);
    }
    kvc_session_close(session);
    return logits;
}

static void a_trained_model_tells_its_story(void **state) {
    (void)state;
    struct kvc_error error;
    struct kvc_engine *engine;
    struct kvc_model *model[2];
    char path[2][1024];
    const char *shared = getenv("KVCULL_SHARED");
    char beside[512];
    if (!shared) {
        snprintf(beside, sizeof beside, "%s/../shared", source_folder());
        shared = beside;
    }
    snprintf(path[0], sizeof path[0], "%s/models/stories260k.gguf", shared);
    snprintf(path[1], sizeof path[1], "%s/models/stories260k", shared);
    FILE *file = fopen(path[0], "rb");
    if (!file) {
        print_message("no %s: nothing to test\n", path[0]);
        skip();
    }
    fclose(file);
    must(kvc_engine_open(NULL, &engine, &error), &error);
    float *logits[2];
    int32_t tokens[2][STEPS];
    char *text;
    size_t bytes;
    for (int i = 0; i < 2; i++) {
        must(kvc_model_open(engine, path[i], &model[i], &error), &error);
        logits[i] = generate(model[i], tokens[i]);
        must(kvc_detokenize(model[i], tokens[i], STEPS, false, &text, &bytes, &error), &error);
        const char *begin = text + (text[0] == ' ');
        if (strncmp(begin, OPENING, sizeof OPENING - 1) != 0)
            fail_msg("%s: the story is: %s", path[i], text);
        free(text);
    }
    const bool comparable = !strcmp(kvc_model_info(model[0])->weight_types, kvc_model_info(model[1])->weight_types);
    if (comparable) {
        assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        assert_memory_equal(logits[0], logits[1], STEPS * kvc_model_info(model[0])->vocab * sizeof(float));
    } else {
        print_message("%s holds %s weights, the folder %s: their bits cannot be compared\n", path[0],
                      kvc_model_info(model[0])->weight_types, kvc_model_info(model[1])->weight_types);
    }
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
        kvc_model_close(model[i]);
    }
    kvc_engine_close(engine);
    if (!comparable)
        skip();
}

/* The intended context length chooses the factors, and a session keeps those it began with, so its keys stay valid. */
static void longrope_factors_stay(void **state) {
    enum { SHORT = 20, ORIGINAL = 32, BEYOND = 40 };
    struct kvc_error error;
    struct kvc_engine *engine;
    struct kvc_model *model;
    char path[512];
    int32_t tokens[BEYOND];
    (void)state;
    for (int32_t i = 0; i < BEYOND; i++)
        tokens[i] = 3 + i;
    snprintf(path, sizeof path, "%s/tests/data/golden/phi3-longrope", source_folder());
    must(kvc_engine_open(NULL, &engine, &error), &error);
    must(kvc_model_open(engine, path, &model, &error), &error);
    const size_t vocab = kvc_model_info(model)->vocab, bytes = SHORT * vocab * sizeof(float);
    float *near = all_logits(model, tokens, SHORT, 0), *far = all_logits(model, tokens, SHORT, BEYOND);
    float *whole = all_logits(model, tokens, BEYOND, 0), *just = all_logits(model, tokens, ORIGINAL, ORIGINAL);
    assert_memory_equal(far, whole, bytes);
    assert_memory_equal(near, just, bytes);
    assert_true(memcmp(near, far, bytes) != 0);
    struct kvc_session *turns = open_session(model, 0), *steps = open_session(model, 0);
    must(kvc_session_prompt(turns, tokens, SHORT, NULL, NULL, &error), &error);
    must(kvc_session_prompt(turns, tokens + SHORT, BEYOND - SHORT, NULL, near, &error), &error);
    must(kvc_session_prompt(steps, tokens, SHORT, NULL, NULL, &error), &error);
    for (size_t i = SHORT; i < BEYOND; i++)
        must(kvc_decode(&steps, &tokens[i], 1, far, NULL, &error), &error);
    assert_memory_equal(near, far, vocab * sizeof *near);
    struct kvc_session_stats stats; /* the session reports this */
    assert_int_equal(kvc_model_info(model)->original_context, ORIGINAL);
    kvc_session_stats(steps, &stats);
    assert_true(stats.outgrown);
    struct kvc_session *anew = open_session(model, BEYOND);
    must(kvc_session_prompt(anew, tokens, BEYOND, NULL, near, &error), &error);
    assert_memory_equal(near, whole + (BEYOND - 1) * vocab, vocab * sizeof *near);
    memcpy(near, far, vocab * sizeof *near);
    kvc_session_stats(anew, &stats);
    assert_false(stats.outgrown);
    kvc_session_close(anew);
    assert_true(memcmp(near, whole + (BEYOND - 1) * vocab, vocab * sizeof *near) != 0);
    kvc_session_close(turns);
    kvc_session_close(steps);
    free(near);
    free(far);
    free(whole);
    free(just);
    kvc_model_close(model);
    kvc_engine_close(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_match_transformers),
        cmocka_unit_test(longrope_factors_stay),
        cmocka_unit_test(a_trained_model_tells_its_story),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
