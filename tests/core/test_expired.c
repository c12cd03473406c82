/* test_expired.c - layers with a sliding window free entries that no later row can see. Results are bit-identical to a
 * session that keeps everything; memory follows from the window; every method chooses among the remaining entries; the
 * estimate includes it. */
#include "tests/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvcull.h"
#include "tests/method_spec.h"

enum { WINDOW = 40, TILE = 256, LAYERS = 7 };

static struct kvc_error error;
static struct kvc_engine *engine;
static struct kvc_model *model;
static const struct kvc_model_info *info;
static char path[512];
static int32_t tokens[2000];

static struct kvc_session *open_in_chunks(const char *policy, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    if (kvc_session_open(model, &options, &session, &error) != KVC_OK)
        fail_msg("%s: %s", policy, error.text);
    return session;
}

static struct kvc_session *open_session(const char *policy) { return open_in_chunks(policy, 96); }

static void prompt(struct kvc_session *session, const int32_t *from, size_t count, float *logits) {
    if (kvc_session_prompt(session, from, count, NULL, logits, &error) != KVC_OK)
        fail_msg("%s", error.text);
}

static size_t held(const struct kvc_session *session, uint32_t layer, int32_t *first) {
    int32_t *positions = malloc(sizeof tokens);
    size_t count = 0;
    assert_non_null(positions);
    assert_int_equal(
        kvc_session_positions(session, layer, 1, positions, sizeof tokens / sizeof *tokens, &count, &error), KVC_OK);
    for (size_t i = 1; i < count; i++)
        assert_int_equal(positions[i], positions[0] + (int32_t)i);
    *first = count ? positions[0] : 0;
    free(positions);
    return count;
}

/* Layers with a window hold the newest entries. Older entries were removed in whole tiles, and only those that row
 * `next` cannot see. `late`: tiles that are removed before the next step are still there. */
static void check_held(const struct kvc_session *session, int32_t next, bool late) {
    for (uint32_t l = 0; l < LAYERS; l++) {
        int32_t first;
        const size_t count = held(session, l, &first);
        assert_int_equal((size_t)first + count, next);
        if (!info->windows[l]) {
            assert_int_equal(first, 0);
            continue;
        }
        assert_int_equal(first % TILE, 0);
        assert_true(first <= (next > WINDOW ? next - WINDOW + 1 : 0));
        assert_true(count < WINDOW + TILE - 1 + (late ? 1 : 0));
    }
}

/* Collects the logits of every row of one prompt, during which nothing is removed. */
static int take_row(void *user, size_t row, const float *logits) {
    float *all = user;
    memcpy(all + row * info->vocab, logits, info->vocab * sizeof *logits);
    return 0;
}

static float *whole_text(size_t rows) {
    struct kvc_session *session = open_session("full");
    float *all = malloc(rows * info->vocab * sizeof *all);
    assert_non_null(all);
    const struct kvc_prompt_options every = {.row = take_row, .user = all};
    if (kvc_session_prompt(session, tokens, rows, &every, NULL, &error) != KVC_OK)
        fail_msg("%s", error.text);
    kvc_session_close(session);
    return all;
}

/* The bytes that steps read, the first one at position `from`: those that each layer's window makes visible. */
static uint64_t bytes_seen(size_t from, size_t steps, uint64_t entry_bytes) {
    uint64_t entries = 0;
    for (size_t n = from + 1; n <= from + steps; n++)
        for (uint32_t l = 0; l < LAYERS; l++)
            entries += info->windows[l] && n > info->windows[l] ? info->windows[l] : n;
    return entries * info->kv_heads * entry_bytes;
}

static void check_estimate(const struct kvc_session *session, const char *policy, size_t rows, size_t steps) {
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    struct kvc_session_stats stats;
    struct kvc_estimate e;
    kvc_session_stats(session, &stats);
    if (kvc_estimate_windows(engine, policy, &geometry, info->windows, info->hidden, kvc_entry_types(KVC_F16), rows,
                             steps, &e, &error) != KVC_OK)
        fail_msg("%s: %s", policy, error.text);
    if (e.prompt_peak_bytes < stats.prompt_peak_bytes || e.peak_bytes < stats.peak_bytes)
        fail_msg("%s, %zu + %zu: %llu and %llu bytes at most, but there were %llu and %llu", policy, rows, steps,
                 (unsigned long long)e.prompt_peak_bytes, (unsigned long long)e.peak_bytes,
                 (unsigned long long)stats.prompt_peak_bytes, (unsigned long long)stats.peak_bytes);
    if (e.kind == KVC_EXPECTED_EXACT && (e.cache_bytes != stats.cache_bytes || e.state_bytes != stats.state_bytes ||
                                         e.prompt_peak_bytes != stats.prompt_peak_bytes))
        fail_msg("%s, %zu + %zu: %llu + %llu bytes, %llu in the prompt; there were %llu + %llu, %llu", policy, rows,
                 steps, (unsigned long long)e.cache_bytes, (unsigned long long)e.state_bytes,
                 (unsigned long long)e.prompt_peak_bytes, (unsigned long long)stats.cache_bytes,
                 (unsigned long long)stats.state_bytes, (unsigned long long)stats.prompt_peak_bytes);
}

/* A prompt, steps and another prompt, against the rows of the same tokens in one prompt. */
static void one_run(const char *policy, size_t rows, size_t steps, size_t second) {
    const size_t vocab = info->vocab, row = vocab * sizeof(float);
    struct kvc_session *session = open_session(policy);
    float *logits = malloc(row), *all = whole_text(rows + steps + second);
    struct kvc_session_stats stats;
    int32_t next = (int32_t)rows;
    assert_non_null(logits);
    prompt(session, tokens, rows, logits);
    if (memcmp(logits, all + (rows - 1) * vocab, row) != 0)
        fail_msg("%s, %zu rows: other bits", policy, rows);
    check_held(session, next, false);
    kvc_session_stats(session, &stats);
    if (strcmp(policy, "full") == 0)
        assert_int_equal(stats.cache_bytes, stats.full_bytes);
    for (size_t s = 0; s < steps; s++, next++) {
        if (kvc_decode(&session, tokens + rows + s, 1, logits, NULL, &error) != KVC_OK)
            fail_msg("%s", error.text);
        if (memcmp(logits, all + (rows + s) * vocab, row) != 0)
            fail_msg("%s, %zu rows, step %zu: other bits", policy, rows, s);
    }
    check_held(session, next, true);
    kvc_session_stats(session, &stats);
    check_estimate(session, policy, rows, steps);
    assert_int_equal(stats.read_bytes, bytes_seen(rows, steps, stats.entry_bytes));
    assert_true(stats.full_bytes <= stats.cache_bytes || strcmp(policy, "full") != 0);
    if (second) { /* another turn sees what remains of the first */
        prompt(session, tokens + next, second, logits);
        if (memcmp(logits, all + (rows + steps + second - 1) * vocab, row) != 0)
            fail_msg("%s, %zu + %zu + %zu: other bits", policy, rows, steps, second);
        check_held(session, next + (int32_t)second, false);
    }
    kvc_session_close(session);
    free(logits);
    free(all);
}

static void bits_stay(void **state) {
    (void)state;
    static const size_t rows[] = {1, 39, 41, 255, 294, 295, 296, 551, 552, 800};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += kvc_test_thinned() ? 4 : 1)
        one_run("full", rows[i], kvc_test_thinned() ? 3 : i % 3 ? 20 : 600, i % 2 ? 300 : 0);
}

/* The same with every method while no head holds more than its budget. */
static void bits_stay_within_budgets(void **state) {
    (void)state;
    const struct kvc_policy_class *policy;
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i += kvc_test_thinned() ? 5 : 1) {
        char spec[300];
        kvc_test_method_spec(policy, 100000, spec, sizeof spec);
        if (policy->stages & KVC_STAGE_PROPAGATE)
            snprintf(spec, sizeof spec, "%s:budget=100000,tsp=100000", policy->name);
        if (strcmp(policy->name, "duo") == 0)
            snprintf(spec, sizeof spec, "duo:file=every-other,recent=100000");
        if (strcmp(policy->name, "dms") == 0)
            snprintf(spec, sizeof spec, "dms:file=drawn,window=100000");
        if (strcmp(policy->name, "simlayerkv") == 0)
            snprintf(spec, sizeof spec, "simlayerkv:recent=100000,threshold=0");
        if (strcmp(policy->name, "think") == 0)
            snprintf(spec, sizeof spec, "think:recent=100000");
        one_run(spec, 300, 20, 280);
    }
}

/* With a method that selects entries, those that no later row can see were removed before the selection: layers with a
 * window hold only entries visible to later rows, until a decode step in which the method does not select. A method
 * without eviction holds whole tiles. */
static void check_seen(const struct kvc_session *session, const struct kvc_policy_class *policy, const char *spec,
                       int32_t next, bool chosen) {
    const struct kvc_forecast *forecast = policy->forecast;
    const bool plain = forecast && forecast->bound && !forecast->entries && forecast->ragged == KVC_RAGGED_NONE &&
                       (policy->stages & (KVC_STAGE_CHUNK | KVC_STAGE_PROMPT | KVC_STAGE_DECODE));
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t h = 0; h < info->kv_heads && info->windows[l]; h++) {
            static int32_t positions[sizeof tokens / sizeof *tokens];
            const int32_t oldest = next > WINDOW ? next - WINDOW + 1 : 0;
            size_t count = 0;
            assert_int_equal(
                kvc_session_positions(session, l, h, positions, sizeof tokens / sizeof *tokens, &count, &error),
                KVC_OK);
            if (count > WINDOW - 1 + TILE || (count == 0 && !(policy->stages & KVC_STAGE_CHUNK)))
                fail_msg("%s, layer %u, %d tokens: %zu entries", spec, l, next, count);
            if (!chosen || positions[0] >= oldest)
                continue;
            bool neighbours = true; /* no more than the layer's budget, where layers have their own */
            for (size_t p = 1; p < count; p++)
                neighbours = neighbours && positions[p] == positions[p - 1] + 1;
            if (plain || !neighbours || positions[0] % TILE != 0)
                fail_msg("%s, layer %u, %d tokens: begins at %d", spec, l, next, positions[0]);
        }
}

enum { BUDGET = 36 }; /* above the windows of the methods, below those of the layers */

/* One session alone, with other chunks, and as part of a batch: bit-identical results. */
static void every_method_sees_what_is_left(void **state) {
    (void)state;
    const size_t rows = 330, steps = kvc_test_thinned() ? 3 : 280, vocab = info->vocab;
    const struct kvc_policy_class *policy;
    float *logits = malloc(2 * vocab * sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; (policy = kvc_policy(engine, i)) != NULL; i += kvc_test_thinned() ? 5 : 1) {
        char spec[300];
        kvc_test_method_spec(policy, BUDGET, spec, sizeof spec);
        if (strcmp(policy->name, "duo") == 0)
            snprintf(spec, sizeof spec, "duo:file=every-other,sinks=4,recent=32");
        struct kvc_session *all[2] = {open_session(spec), open_in_chunks(spec, 7)};
        const bool full = policy->stages == 0, decodes = policy->stages & KVC_STAGE_DECODE;
        int32_t next = (int32_t)rows;
        for (int s = 0; s < 2; s++)
            prompt(all[s], tokens, rows, logits + (size_t)s * vocab);
        assert_memory_equal(logits, logits + vocab, vocab * sizeof *logits);
        check_seen(all[0], policy, spec, next, !full);
        for (size_t s = 0; s < steps; s++, next++) {
            const int32_t step[2] = {tokens[next], tokens[next]};
            enum kvc_status status[2];
            if (kvc_decode(all, step, 2, logits, status, &error) != KVC_OK)
                fail_msg("%s: %s", spec, error.text);
            if (memcmp(logits, logits + vocab, vocab * sizeof *logits) != 0)
                fail_msg("%s, step %zu: other bits in other chunks", spec, s);
        }
        check_seen(all[1], policy, spec, next, decodes && !policy->surplus && !policy->plan);
        check_estimate(all[0], spec, rows, steps);
        for (int s = 0; s < 2; s++)
            prompt(all[s], tokens + next, 100, logits + (size_t)s * vocab);
        assert_memory_equal(logits, logits + vocab, vocab * sizeof *logits);
        check_seen(all[0], policy, spec, next + 100, !full);
        for (int s = 0; s < 2; s++)
            kvc_session_close(all[s]);
    }
    free(logits);
}

/* Forecasts of methods that cut the prompt, over windows of other sizes than their chunks. */
static void chunks_are_forecast(void **state) {
    (void)state;
    static const char *const specs[] = {"take:budget=10,chunk=10,probe=4",
                                        "take:budget=9,chunk=10,probe=4",
                                        "take:budget=12,chunk=10,probe=4",
                                        "take:budget=10,chunk=30,probe=4",
                                        "take:budget=36,chunk=16,probe=4",
                                        "take:budget=60,chunk=64,probe=8",
                                        "take:budget=128,chunk=16,probe=4,warmup_layers=3",
                                        "take:budget=100,chunk=100,warmup_layers=6",
                                        "take:budget=30,chunk=40,probe=4,warmup_layers=7",
                                        "cake:budget=36",
                                        "cake:budget=100"};
    static const size_t rows[] = {90, 200, 330, 520, 700};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            struct kvc_session *session = open_session(specs[i]);
            const size_t steps = r * 20;
            prompt(session, tokens, rows[r], NULL);
            for (size_t s = 0; s < steps; s++)
                if (kvc_decode(&session, tokens + rows[r] + s, 1, NULL, NULL, &error) != KVC_OK)
                    fail_msg("%s", error.text);
            check_estimate(session, specs[i], rows[r], steps);
            kvc_session_close(session);
        }
}

/* Within its budget a method does nothing, and whole tiles are removed as without it. */
static void budgets_count_what_is_seen(void **state) {
    (void)state;
    struct kvc_session *session = open_session("snapkv:budget=100,layers=0-5");
    prompt(session, tokens, 600, NULL);
    for (uint32_t l = 0; l < LAYERS; l++) {
        int32_t positions[600];
        size_t count;
        assert_int_equal(kvc_session_positions(session, l, 0, positions, 600, &count, &error), KVC_OK);
        assert_int_equal(count, info->windows[l] ? 600 - 2 * TILE : 100);
    }
    kvc_session_close(session);
}

/* The first row after a text of exactly `window` tokens cannot see position 0, so a method does not choose it. */
static void texts_as_long_as_the_window(void **state) {
    (void)state;
    for (int32_t rows = WINDOW - 1; rows <= WINDOW + 1; rows++) {
        struct kvc_session *session = open_session("streaming:budget=30,sinks=4");
        prompt(session, tokens, (size_t)rows, NULL);
        for (uint32_t l = 0; l < LAYERS; l++) {
            const int32_t first = info->windows[l] && rows >= WINDOW ? rows - WINDOW + 1 : 0;
            int32_t positions[WINDOW + 1];
            size_t count;
            assert_int_equal(kvc_session_positions(session, l, 0, positions, WINDOW + 1, &count, &error), KVC_OK);
            assert_int_equal(count, 30);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(positions[i], i < 4 ? first + (int32_t)i : rows - 30 + (int32_t)i);
        }
        kvc_session_close(session);
    }
}

static int set_up(void **state) {
    (void)state;
    const struct kvc_engine_options options = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    const char *folder = getenv("TMPDIR");
    uint64_t random = 1;
    snprintf(path, sizeof path, "%s/kvcull-unseen-%ld.gguf", folder ? folder : "/tmp", (long)getpid());
    if (kvc_make_model("tiny-gemma3", KVC_F16, 3, path, &error) != KVC_OK ||
        kvc_engine_open(&options, &engine, &error) != KVC_OK ||
        kvc_model_open(engine, path, &model, &error) != KVC_OK) {
        print_error("%s\n", error.text);
        return -1;
    }
    info = kvc_model_info(model);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % info->vocab);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    remove(path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_stay),
                                       cmocka_unit_test(bits_stay_within_budgets),
                                       cmocka_unit_test(every_method_sees_what_is_left),
                                       cmocka_unit_test(budgets_count_what_is_seen),
                                       cmocka_unit_test(chunks_are_forecast),
                                       cmocka_unit_test(texts_as_long_as_the_window)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
