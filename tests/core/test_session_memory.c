/* test_session_memory.c - the memory of sessions is bounded, counted, estimated beforehand and freed (rules 9 and 12 of
 * docs/reference/methods.md); a session without memory fails alone. */
#include "core/engine/cache.h"
#include "core/engine/session.h"
#include "tests/core/session_fixture.h"

/* Checks counts in every step: a decode method holds B entries after the step, and the query may read B + n. */
static void test_bounds(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        uint32_t budget, every;
    } cases[] = {{"window:budget=50", 50, 1},
                 {"streaming:budget=50", 50, 1},
                 {"streaming:budget=256", 256, 1}, /* whole blocks: capacity for the extra entry is allocated at once */
                 {"morphkv:budget=50", 50, 1},
                 {"morphkv:budget=50,every=7", 50, 7}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += kvc_test_thinned() ? 2 : 1) {
        struct kvc_session *session = open_with(model, cases[c].policy, KVC_F16, 0);
        struct kvc_session_stats stats, before;
        const struct kvc_model_info *info = kvc_model_info(model);
        FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
        for (uint32_t step = 1; step < 40; step++) {
            kvc_session_stats(session, &before);
            FINE(kvc_decode(&session, &tokens[step], 1, NULL, NULL, &error));
            kvc_session_stats(session, &stats);
            assert_int_equal(stats.entries_most, cases[c].budget + step % cases[c].every);
            const uint64_t row = 2ull * 2 * info->head_size; /* key and value, F16 */
            assert_int_equal(stats.read_bytes - before.read_bytes,
                             (before.entries_most + 1) * row * info->kv_heads * info->layers);
            assert_int_equal(stats.cache_bytes, before.cache_bytes); /* allocated only once */
            assert_int_equal(stats.state_bytes, before.state_bytes);
        }
        kvc_session_close(session);
    }
}

/* Memory is counted in blocks and freed after the prompt and at the end; the layer-major prefill holds one full layer.
 */
static void test_memory(void **state) {
    (void)state;
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t tile = 2ull * KVC_TILE * 2 * info->head_size, layer = info->kv_heads * tile;
    const uint64_t tiles = kvc_test_thinned() ? 3 : 8,
                   rows = tiles * KVC_TILE - KVC_BLOCK / 2; /* after eviction the blocks of one tile remain */
    struct kvc_memory before, after;
    struct kvc_session_stats stats;
    struct kvc_session *session = open_with(model, "snapkv:budget=256", KVC_F16, 0);
    kvc_engine_memory(engine, &before);
    assert_int_equal(before.now[KVC_MEMORY_CACHE], 0);
    FINE(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.cache_bytes, info->layers * layer);
    assert_int_equal(stats.full_bytes, tiles * info->layers * layer);
    kvc_engine_memory(engine, &after);
    assert_int_equal(after.now[KVC_MEMORY_CACHE], stats.cache_bytes);
    assert_int_equal(after.now[KVC_MEMORY_HIDDEN], 0);
    assert_true(after.peak[KVC_MEMORY_HIDDEN] >= rows * info->hidden * 4);
    assert_int_equal(after.peak[KVC_MEMORY_CACHE], tiles * layer + (info->layers - 1) * layer);
    assert_true(stats.prompt_peak_bytes >= after.peak[KVC_MEMORY_CACHE]);
    kvc_session_close(session);
    kvc_engine_memory(engine, &after);
    assert_int_equal(after.now[KVC_MEMORY_CACHE], 0);
    assert_int_equal(after.now[KVC_MEMORY_STATE], 0);
}

/* Blocks that evictions empty are returned: after a prompt all of them, after a decode step when each head has two. */
static void test_blocks_go_back(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        size_t prompt;
        uint64_t then, after_step; /* blocks per head after the prompt and after a step */
    } cases[] = {{"snapkv:budget=200", 300, 7, 7},
                 {"snapkv:budget=500+window:budget=100", 600, 16, 4},
                 {"snapkv:budget=700+window:budget=100", 800, 22, 4}};
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t blocks = 2ull * KVC_BLOCK * 2 * info->head_size * info->kv_heads * info->layers; /* one per head */
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += kvc_test_thinned() ? 2 : 1) {
        struct kvc_session *session = open_with(model, cases[c].policy, KVC_F16, 0);
        struct kvc_session_stats stats;
        struct kvc_memory memory;
        FINE(kvc_session_prompt(session, tokens, cases[c].prompt, NULL, NULL, &error));
        kvc_session_stats(session, &stats);
        kvc_engine_memory(engine, &memory);
        assert_int_equal(stats.cache_bytes, cases[c].then * blocks);
        assert_int_equal(memory.now[KVC_MEMORY_CACHE], stats.cache_bytes);
        FINE(kvc_decode(&session, &tokens[0], 1, NULL, NULL, &error));
        kvc_session_stats(session, &stats);
        kvc_engine_memory(engine, &memory);
        assert_int_equal(stats.cache_bytes, cases[c].after_step * blocks);
        assert_int_equal(memory.now[KVC_MEMORY_CACHE], stats.cache_bytes);
        kvc_session_close(session);
    }
}

static const struct kvc_ops *real;
static unsigned changes; /* the number of buffers created and freed */

static enum kvc_status count_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                    struct kvc_buffer **buffer, struct kvc_error *why) {
    changes++;
    return real->buffer_create(device, kind, bytes, buffer, why);
}

static void count_free(struct kvc_device *device, struct kvc_buffer *buffer) {
    changes += buffer != NULL;
    real->buffer_free(device, buffer);
}

/* After the first step, steps allocate and free no memory unless a new entry begins another block. */
static void test_steps_keep_their_memory(void **state) {
    (void)state;
    static const char *const methods[] = {
        "full",          "streaming:budget=50", "snapkv:budget=50",   "morphkv:budget=50,every=4",
        "h2o:budget=66", "quest:budget=66",     "rocketkv:budget=66", "snapkv:budget=90+keyformer:budget=66"};
    static struct kvc_ops counting;
    counting = *engine->device->ops;
    real = engine->device->ops;
    counting.buffer_create = count_create;
    counting.buffer_free = count_free;
    engine->device->ops = &counting;
    for (size_t p = 0; p < sizeof methods / sizeof *methods; p = after(p)) {
        struct kvc_session *session = open_with(model, methods[p], KVC_F16, 0);
        struct kvc_session_stats stats = {.cache_bytes = 0};
        unsigned blocks = 0; /* steps that add blocks */
        for (size_t at = 210; at < 310; at++) {
            const unsigned before = changes;
            if (at == 210)
                FINE(kvc_session_prompt(session, tokens, at, NULL, NULL, &error));
            FINE(kvc_decode(&session, tokens + at, 1, NULL, NULL, &error));
            const uint64_t had = stats.cache_bytes;
            kvc_session_stats(session, &stats);
            if (at > 210 && stats.cache_bytes == had && changes != before) /* no list needs another block */
                fail_msg("%s: %u buffers created or freed for token %zu", methods[p], changes - before, at);
            if (at == 210 || stats.cache_bytes != had)
                assert_true(changes > before); /* the counter works */
            blocks += at > 210 && stats.cache_bytes != had;
        }
        assert_true(p == 0 ? blocks == 3 : blocks <= 3); /* at 224, 256 and 288 tokens */
        kvc_session_close(session);
    }
    engine->device->ops = real;
}

/* Memory that a decode step frees returns to the operating system. */
static void test_memory_is_freed(void **state) {
    (void)state;
    if (kvc_test_thinned())
        SKIP_THINNED();
    if (kvc_test_resident() < 0)
        SKIP_BECAUSE("the system does not say how much memory a process has");
    struct kvc_session *session = open_with(model, "snapkv:budget=3500+window:budget=100", KVC_F32, 0);
    struct kvc_session_stats before, after;
    FINE(kvc_session_prompt(session, tokens, 3600, NULL, NULL, &error));
    kvc_session_stats(session, &before);
    const int64_t held = kvc_test_resident();
    FINE(kvc_decode(&session, &tokens[0], 1, NULL, NULL, &error));
    kvc_session_stats(session, &after);
    assert_true(before.cache_bytes > 3000000 && after.cache_bytes < before.cache_bytes / 10);
    assert_true(held - kvc_test_resident() > (int64_t)(before.cache_bytes - after.cache_bytes) * 3 / 4);
    kvc_session_close(session);
}

/* kvc_estimate predicts exactly what a run then holds. */
static void test_estimate(void **state) {
    (void)state;
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    static const uint64_t prompts[] = {40, 256, 900}, steps[] = {1, 30, 300};
    for (size_t p = 0; p < POLICIES; p = after(p)) {
        for (size_t n = 0; n < (kvc_test_thinned() ? 8 : 9); n = after(n)) {
            struct kvc_estimate expected;
            struct kvc_session_stats stats;
            const enum kvc_type type = n % 2 ? KVC_Q4H : KVC_Q8_0;
            struct kvc_session *session = open_with(model, policies[p], type, 0);
            FINE(kvc_estimate(engine, policies[p], &geometry, info->hidden, kvc_entry_types(type), prompts[n % 3],
                              steps[n / 3], &expected, &error));
            FINE(kvc_session_prompt(session, tokens, prompts[n % 3], NULL, NULL, &error));
            for (size_t i = 0; i < steps[n / 3]; i++)
                FINE(kvc_decode(&session, &tokens[i], 1, NULL, NULL, &error));
            kvc_session_stats(session, &stats);
            const uint64_t tables = 16 * info->layers * (info->kv_heads + stats.entries_most / KVC_BLOCK + 1);
            if (stats.cache_bytes != expected.cache_bytes || stats.entries_most > expected.entries ||
                stats.state_bytes > expected.state_bytes + tables ||
                stats.peak_bytes > expected.peak_bytes + 3 * tables)
                fail_msg("%s, %d + %d tokens: %.0f + %.0f bytes, peak %.0f, %.0f entries; estimated %.0f + %.0f, %.0f, "
                         "%.0f",
                         policies[p], (int)prompts[n % 3], (int)steps[n / 3], (double)stats.cache_bytes,
                         (double)stats.state_bytes, (double)stats.peak_bytes, (double)stats.entries_most,
                         (double)expected.cache_bytes, (double)expected.state_bytes, (double)expected.peak_bytes,
                         (double)expected.entries);
            kvc_session_close(session);
        }
    }
}

/* One session that lacks memory fails alone, and continues where it was once there is memory again. */
static void test_one_without_memory(void **state) {
    (void)state;
    struct kvc_session_options options;
    struct kvc_session *sessions[2];
    enum kvc_status statuses[2];
    float *logits = malloc(2 * vocab * sizeof *logits), *expected = malloc(vocab * sizeof *expected);
    const int32_t next[2] = {5, 6};
    assert_true(logits && expected);
    kvc_session_defaults(&options);
    sessions[0] = open_with(model, "full", KVC_F16, 0);
    FINE(kvc_session_prompt(sessions[0], tokens, 256, NULL, NULL, &error));
    struct kvc_session_stats stats;
    kvc_session_stats(sessions[0], &stats);
    options.memory_limit = stats.cache_bytes + stats.state_bytes; /* exactly full at 256 entries */
    FINE(kvc_session_open(model, &options, &sessions[1], &error));
    FINE(kvc_session_prompt(sessions[1], tokens, 256, NULL, NULL, &error));
    logits[vocab] = 12345;
    assert_int_equal(kvc_decode(sessions, next, 2, logits, statuses, &error), KVC_RESOURCE);
    assert_int_equal(statuses[0], KVC_OK);
    assert_int_equal(statuses[1], KVC_RESOURCE);
    assert_non_null(strstr(error.text, "session 1"));
    assert_true(logits[vocab] == 12345);
    kvc_session_stats(sessions[1], &stats);
    assert_int_equal(stats.tokens, 256);
    sessions[1]->cache.limit_bytes = 0;
    FINE(kvc_decode(&sessions[1], &next[0], 1, expected, NULL, &error));
    assert_memory_equal(expected, logits, vocab * sizeof *expected);
    kvc_session_close(sessions[0]);
    kvc_session_close(sessions[1]);
    free(logits);
    free(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory), /* first, so that the engine's peaks come from this test only */
        cmocka_unit_test(test_blocks_go_back),  cmocka_unit_test(test_steps_keep_their_memory),
        cmocka_unit_test(test_memory_is_freed), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_estimate),        cmocka_unit_test(test_one_without_memory)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
