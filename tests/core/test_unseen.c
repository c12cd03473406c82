/* test_unseen.c - layers with a sliding window give back what no later row can see: the bits are those of a session
 * that keeps everything, what is held follows from the window, and the estimate knows it. */
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

enum { WINDOW = 40, TILE = 256, LAYERS = 7 };

static struct kvc_error error;
static struct kvc_engine *engine;
static struct kvc_model *model;
static const struct kvc_model_info *info;
static char path[512];
static int32_t tokens[2000];

static struct kvc_session *open_session(const char *policy) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = 96;
    if (kvc_session_open(model, &options, &session, &error) != KVC_OK)
        fail_msg("%s: %s", policy, error.text);
    return session;
}

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

/* Layers with a window hold the newest entries; what went before them went in whole tiles, and only what is hidden from
 * row `next`. late: tiles that go before the next step have not gone yet. */
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

static void one_run(size_t rows, size_t steps, size_t second) {
    const size_t vocab = info->vocab;
    struct kvc_session *whole = open_session("window:budget=100000"), *given = open_session("full");
    struct kvc_session *all[2] = {whole, given};
    float *logits = malloc(2 * vocab * sizeof *logits);
    struct kvc_session_stats stats, before;
    struct kvc_estimate estimate;
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    int32_t next = (int32_t)rows;
    assert_non_null(logits);
    for (int i = 0; i < 2; i++)
        prompt(all[i], tokens, rows, logits + (size_t)i * vocab);
    assert_memory_equal(logits, logits + vocab, vocab * sizeof *logits);
    check_held(given, next, false);
    for (size_t s = 0; s < steps; s++, next++) {
        const int32_t step[2] = {tokens[rows + s], tokens[rows + s]};
        enum kvc_status status[2];
        if (kvc_decode(all, step, 2, logits, status, &error) != KVC_OK)
            fail_msg("%s", error.text);
        if (memcmp(logits, logits + vocab, vocab * sizeof *logits) != 0)
            fail_msg("%zu rows, step %zu: other bits", rows, s);
    }
    check_held(given, next, true);
    kvc_session_stats(given, &stats);
    kvc_session_stats(whole, &before);
    if (kvc_estimate_windows(engine, "full", &geometry, info->windows, info->hidden, KVC_F16, rows, steps, &estimate,
                             &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(estimate.cache_bytes, stats.cache_bytes);
    assert_int_equal(estimate.state_bytes, stats.state_bytes);
    assert_int_equal(estimate.prompt_peak_bytes, stats.prompt_peak_bytes);
    assert_true(estimate.peak_bytes >= stats.peak_bytes && estimate.peak_bytes <= stats.peak_bytes * 101 / 100);
    assert_int_equal(estimate.entries, rows + steps);
    assert_int_equal(stats.read_bytes, before.read_bytes);
    assert_true(rows + steps < 2 * TILE || stats.cache_bytes < before.cache_bytes);
    if (second) { /* another turn sees what is left of the first */
        for (int i = 0; i < 2; i++)
            prompt(all[i], tokens + next, second, logits + (size_t)i * vocab);
        assert_memory_equal(logits, logits + vocab, vocab * sizeof *logits);
        check_held(given, next + (int32_t)second, false);
    }
    kvc_session_close(whole);
    kvc_session_close(given);
    free(logits);
}

static void bits_stay(void **state) {
    (void)state;
    static const size_t rows[] = {1, 39, 41, 255, 294, 295, 296, 551, 552, 800};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += kvc_test_thinned() ? 4 : 1)
        one_run(rows[i], kvc_test_thinned() ? 3 : i % 3 ? 20 : 600, i % 2 ? 300 : 0);
}

/* Where a method acts it decides what stays, in the other layers the window does. */
static void methods_decide_where_they_act(void **state) {
    (void)state;
    struct kvc_session *session = open_session("snapkv:budget=100,layers=0-2"),
                       *cut = open_session("fastkv:budget=60,tsp=48");
    prompt(session, tokens, 600, NULL);
    prompt(cut, tokens, 600, NULL);
    for (uint32_t l = 0; l < LAYERS; l++) {
        int32_t positions[600];
        size_t count;
        assert_int_equal(kvc_session_positions(session, l, 0, positions, 600, &count, &error), KVC_OK);
        assert_int_equal(count, l <= 2 ? 100 : info->windows[l] ? 600 - 2 * TILE : 600);
        assert_int_equal(kvc_session_positions(cut, l, 0, positions, 600, &count, &error), KVC_OK);
        assert_true(count <= 60);
    }
    kvc_session_close(session);
    kvc_session_close(cut);
}

static int set_up(void **state) {
    (void)state;
    const struct kvc_engine_options options = {NULL, 2, KVC_MATH_EXACT};
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_stay), cmocka_unit_test(methods_decide_where_they_act)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
