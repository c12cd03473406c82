/* test_session.c - sessions over a small random model: nothing about how rows are batched may change a bit, memory is
 * bounded, counted and given back. Rules of docs/methods.md that concern whole runs (2-5, 9, 12, 14, 15) are tested
 * here. */
#include "core/engine/cache.h"
#include "core/engine/session.h"
#include "tests/core/whole_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPT = 330, STEPS = 12 };

static char model_path[512];
static struct kvc_engine *engine; /* two threads */
static struct kvc_model *model;
static uint32_t vocab;
static int32_t tokens[4096];

static const char *const policies[] = {"full",
                                       "window:budget=50",
                                       "streaming:budget=50",
                                       "snapkv:budget=50",
                                       "snapkv:budget=20%,kernel=5,pooling=avg",
                                       "morphkv:budget=50",
                                       "morphkv:budget=50,every=4,fusion=max",
                                       "morphkv:budget=50,scores=logits,skip_layers=1",
                                       "snapkv:budget=50+morphkv:budget=45",
                                       "streaming:budget=50,positions=cache"};
enum { POLICIES = sizeof policies / sizeof *policies };
static size_t after(size_t p) { return p + (kvc_test_thinned() ? 4 : 1); } /* the case to try next */

static struct kvc_error error;

static struct kvc_session *open_with(struct kvc_model *m, const char *policy, enum kvc_type type, uint32_t chunk) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = type;
    options.chunk = chunk;
    FINE(kvc_session_open(m, &options, &session, &error));
    return session;
}

static int add_row(void *user, uint64_t row, const float *logits) {
    (void)row;
    kvc_hash_add(user, logits, vocab);
    return 0;
}

/* A prompt, some steps, a second turn, more steps; the hash of all logits. */
static uint64_t run_alone(struct kvc_model *m, const char *policy, enum kvc_type type, uint32_t chunk) {
    struct kvc_session *session = open_with(m, policy, type, chunk);
    struct kvc_hash *hash = kvc_hash_open();
    float *logits = malloc(vocab * sizeof *logits);
    assert_true(hash && logits);
    const struct kvc_prompt_options rows = {.row = add_row, .user = hash};
    size_t at = 0;
    for (int turn = 0; turn < 2; turn++) {
        const size_t count = turn == 1 ? 40 : kvc_test_thinned() ? 70 : PROMPT;
        FINE(kvc_session_prompt(session, tokens + at, count, &rows, logits, &error));
        kvc_hash_add(hash, logits, vocab);
        at += count;
        for (int step = 0; step < STEPS; step++, at++) {
            FINE(kvc_decode(&session, tokens + at, 1, logits, NULL, &error));
            kvc_hash_add(hash, logits, vocab);
        }
    }
    const uint64_t value = kvc_hash_value(hash);
    kvc_hash_close(hash);
    free(logits);
    kvc_session_close(session);
    return value;
}

static void test_chunks(void **state) {
    (void)state;
    static const uint32_t chunks[] = {1, 7, 256};
    for (size_t p = 0; p < POLICIES; p = after(p)) {
        const uint64_t expected = run_alone(model, policies[p], KVC_F16, 0);
        for (size_t c = 0; c < 3; c++) {
            if (run_alone(model, policies[p], KVC_F16, chunks[c]) != expected)
                fail_msg("%s: chunks of %u change a bit", policies[p], chunks[c]);
        }
    }
}

static void test_threads_and_backends(void **state) {
    (void)state;
    static const struct kvc_engine_options others[] = {{"cpu", 1, KVC_MATH_EXACT},
                                                       {"cpu", 3, KVC_MATH_EXACT},
                                                       {"ref", 1, KVC_MATH_EXACT},
                                                       {"avx2", 2, KVC_MATH_EXACT}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    const size_t count = sizeof others / sizeof *others - kvc_test_thinned(); /* valgrind's cpu is avx2 */
    for (size_t o = 0; o < count; o++) {
        struct kvc_engine *other;
        struct kvc_model *same;
        if (kvc_engine_open(&others[o], &other, &error) != KVC_OK) {
            assert_int_equal(error.status, KVC_RESOURCE); /* this machine lacks it */
            continue;
        }
        FINE(kvc_model_open(other, model_path, &same, &error));
        for (size_t p = 0; p < POLICIES; p = after(p)) {
            const enum kvc_type type = types[p % 3];
            if (run_alone(same, policies[p], type, 0) != run_alone(model, policies[p], type, 0))
                fail_msg("%s: %s with %d threads differs", policies[p], others[o].backend, others[o].threads);
        }
        kvc_model_close(same);
        kvc_engine_close(other);
    }
}

/* Sessions of all policies, each at another length, decoded in one batch. */
static void test_batch(void **state) {
    (void)state;
    const size_t least = kvc_test_thinned() ? 60 : 100, apart = kvc_test_thinned() ? 3 : 31;
    struct kvc_session *batch[POLICIES];
    int32_t next[POLICIES];
    float *logits = malloc(POLICIES * vocab * sizeof *logits), *alone = malloc(vocab * sizeof *alone);
    float *kept = malloc((size_t)STEPS * POLICIES * vocab * sizeof *kept);
    enum kvc_status statuses[POLICIES];
    assert_true(logits && alone && kept);
    for (size_t p = 0; p < POLICIES; p++) {
        batch[p] = open_with(model, policies[p], KVC_F16, 0);
        FINE(kvc_session_prompt(batch[p], tokens, least + apart * p, NULL, NULL, &error));
    }
    for (int step = 0; step < STEPS; step++) {
        for (size_t p = 0; p < POLICIES; p++)
            next[p] = tokens[1000 + 50 * p + (size_t)step];
        FINE(kvc_decode(batch, next, POLICIES, logits, statuses, &error));
        memcpy(kept + (size_t)step * POLICIES * vocab, logits, POLICIES * vocab * sizeof *logits);
    }
    for (size_t p = 0; p < POLICIES; p++) {
        assert_int_equal(statuses[p], KVC_OK);
        struct kvc_session *session = open_with(model, policies[p], KVC_F16, 0);
        FINE(kvc_session_prompt(session, tokens, least + apart * p, NULL, NULL, &error));
        for (int step = 0; step < STEPS; step++) {
            FINE(kvc_decode(&session, &tokens[1000 + 50 * p + (size_t)step], 1, alone, NULL, &error));
            assert_memory_equal(alone, kept + ((size_t)step * POLICIES + p) * vocab, vocab * sizeof *alone);
        }
        kvc_session_close(session);
        kvc_session_close(batch[p]);
    }
    free(logits);
    free(alone);
    free(kept);
}

/* `full`: a turn given whole, token by token, or in two prompts gives the same logits. */
static void test_whole_or_single(void **state) {
    (void)state;
    float *whole = malloc(vocab * sizeof *whole), *single = malloc(vocab * sizeof *single);
    assert_true(whole && single);
    struct kvc_session *a = open_with(model, "full", KVC_F16, 0), *b = open_with(model, "full", KVC_F16, 0);
    FINE(kvc_session_prompt(a, tokens, 270, NULL, whole, &error));
    FINE(kvc_session_prompt(b, tokens, 1, NULL, single, &error));
    for (size_t i = 1; i < 270; i++)
        FINE(kvc_decode(&b, &tokens[i], 1, single, NULL, &error));
    assert_memory_equal(whole, single, vocab * sizeof *whole);
    FINE(kvc_session_prompt(a, tokens + 270, 20, NULL, whole, &error));
    FINE(kvc_session_prompt(b, tokens + 270, 13, NULL, NULL, &error));
    FINE(kvc_session_prompt(b, tokens + 283, 7, NULL, single, &error));
    assert_memory_equal(whole, single, vocab * sizeof *whole);
    kvc_session_close(a);
    kvc_session_close(b);
    free(whole);
    free(single);
}

/* Rule 5: within the budget a method is `full`, bit for bit. Rule 14: a prompt-only method then grows. */
static void test_nothing_to_do(void **state) {
    (void)state;
    const uint64_t full = run_alone(model, "full", KVC_Q8_0, 0);
    static const char *const roomy[] = {"window:budget=1000", "streaming:budget=1000", "snapkv:budget=1000",
                                        "morphkv:budget=1000", "morphkv:budget=1000,scores=logits"};
    for (size_t i = 0; i < sizeof roomy / sizeof *roomy; i++)
        assert_true(run_alone(model, roomy[i], KVC_Q8_0, 0) == full);
    struct kvc_session *session = open_with(model, "snapkv:budget=50", KVC_F16, 0);
    struct kvc_session_stats stats;
    FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.entries_most, 50);
    for (int i = 0; i < 9; i++)
        FINE(kvc_decode(&session, &tokens[i], 1, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.entries_most, 59);
    assert_int_equal(stats.tokens, 309);
    kvc_session_close(session);
}

/* Rules 2, 3, 15: positions stay, ascending; a second turn chooses again among what is held and what is new. */
static void test_turns(void **state) {
    (void)state;
    int32_t first[64], second[64];
    struct kvc_session *session = open_with(model, "snapkv:budget=50", KVC_F16, 0);
    FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
    size_t count = 0;
    FINE(kvc_session_positions(session, 0, 0, first, 64, &count, &error));
    assert_int_equal(count, 50);
    for (size_t i = 0; i < 32; i++)
        assert_int_equal(first[18 + i], 268 + (int)i); /* the window */
    for (int i = 0; i < 5; i++)
        FINE(kvc_decode(&session, &tokens[i], 1, NULL, NULL, &error));
    FINE(kvc_session_prompt(session, tokens, 10, NULL, NULL, &error)); /* w = min(32, 10) */
    FINE(kvc_session_positions(session, 0, 0, second, 64, &count, &error));
    assert_int_equal(count, 50);
    assert_int_equal(kvc_session_positions(session, 99, 0, second, 64, &count, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "layer 99"));
    assert_int_equal(kvc_session_positions(session, 0, 99, second, 64, &count, &error), KVC_USAGE);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(second[40 + i], 305 + (int)i);
    for (size_t i = 1; i < 50; i++)
        assert_true(second[i] > second[i - 1]);
    for (size_t i = 0; i < 40; i++) { /* what an earlier turn evicted does not come back */
        bool held = second[i] >= 300;
        for (size_t j = 0; j < 50; j++)
            held = held || first[j] == second[i];
        assert_true(held);
    }
    kvc_session_close(session);
}

/* Counts on every step: a decode method holds B after the step; the query may read B + n. */
static void test_bounds(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        uint32_t budget, every;
    } cases[] = {{"window:budget=50", 50, 1},
                 {"streaming:budget=50", 50, 1},
                 {"streaming:budget=256", 256, 1}, /* whole blocks: room for the surplus is made at once */
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
            assert_int_equal(stats.cache_bytes, before.cache_bytes); /* made once */
            assert_int_equal(stats.state_bytes, before.state_bytes);
        }
        kvc_session_close(session);
    }
}

/* Memory: counted by block, given back after the prompt and at the end; layer-major prefill holds one full layer. */
static void test_memory(void **state) {
    (void)state;
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t block = 2ull * KVC_TILE * 2 * info->head_size, layer = info->kv_heads * block;
    const uint64_t blocks = kvc_test_thinned() ? 3 : 8, rows = blocks * KVC_TILE - 48; /* 1 of the blocks stays */
    struct kvc_memory before, after;
    struct kvc_session_stats stats;
    struct kvc_session *session = open_with(model, "snapkv:budget=256", KVC_F16, 0);
    kvc_engine_memory(engine, &before);
    assert_int_equal(before.now[KVC_MEMORY_CACHE], 0);
    FINE(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.cache_bytes, info->layers * layer);
    assert_int_equal(stats.full_bytes, blocks * info->layers * layer);
    kvc_engine_memory(engine, &after);
    assert_int_equal(after.now[KVC_MEMORY_CACHE], stats.cache_bytes);
    assert_int_equal(after.now[KVC_MEMORY_HIDDEN], 0);
    assert_true(after.peak[KVC_MEMORY_HIDDEN] >= rows * info->hidden * 4);
    assert_int_equal(after.peak[KVC_MEMORY_CACHE], blocks * layer + (info->layers - 1) * layer);
    assert_true(stats.prompt_peak_bytes >= after.peak[KVC_MEMORY_CACHE]);
    kvc_session_close(session);
    kvc_engine_memory(engine, &after);
    assert_int_equal(after.now[KVC_MEMORY_CACHE], 0);
    assert_int_equal(after.now[KVC_MEMORY_STATE], 0);
}

/* Blocks that evictions empty go back: after a prompt all of them, after a decode step when there are two to a head. */
static void test_blocks_go_back(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        size_t prompt;
        uint64_t then, causal_offset; /* blocks per head after the prompt, and after a step */
    } cases[] = {{"snapkv:budget=200", 300, 1, 1},
                 {"snapkv:budget=500+window:budget=100", 600, 2, 2},
                 {"snapkv:budget=700+window:budget=100", 800, 3, 1}};
    const struct kvc_model_info *info = kvc_model_info(model);
    const uint64_t blocks = 2ull * KVC_TILE * 2 * info->head_size * info->kv_heads * info->layers; /* one per head */
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
        assert_int_equal(stats.cache_bytes, cases[c].causal_offset * blocks);
        assert_int_equal(memory.now[KVC_MEMORY_CACHE], stats.cache_bytes);
        kvc_session_close(session);
    }
}

static const struct kvc_ops *real;
static unsigned changes; /* buffers created and freed */

static enum kvc_status count_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                    struct kvc_buffer **buffer, struct kvc_error *why) {
    changes++;
    return real->buffer_create(device, kind, bytes, buffer, why);
}

static void count_free(struct kvc_device *device, struct kvc_buffer *buffer) {
    changes += buffer != NULL;
    real->buffer_free(device, buffer);
}

/* A step after the first takes and gives back no memory, unless its entry begins another block. */
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
        for (size_t at = 210; at < 310; at++) {
            const unsigned before = changes;
            if (at == 210)
                FINE(kvc_session_prompt(session, tokens, at, NULL, NULL, &error));
            FINE(kvc_decode(&session, tokens + at, 1, NULL, NULL, &error));
            if (at > 210 && at != 256 && changes != before)
                fail_msg("%s: %u buffers created or freed for token %zu", methods[p], changes - before, at);
            if (at == 210 || (at == 256 && p == 0))
                assert_true(changes > before); /* they are counted */
        }
        kvc_session_close(session);
    }
    engine->device->ops = real;
}

/* What a decode step gives back is the system's again. */
static void test_memory_is_freed(void **state) {
    (void)state;
    if (kvc_test_thinned() || kvc_test_resident() < 0)
        skip();
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

/* What kvc_estimate says beforehand is what a run then holds. */
static void test_estimate(void **state) {
    (void)state;
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    static const uint64_t prompts[] = {40, 256, 900}, steps[] = {1, 30, 300};
    for (size_t p = 0; p < POLICIES; p = after(p)) {
        for (size_t n = 0; n < (kvc_test_thinned() ? 8 : 9); n = after(n)) {
            struct kvc_estimate expected;
            struct kvc_session_stats stats;
            struct kvc_session *session = open_with(model, policies[p], KVC_Q8_0, 0);
            FINE(kvc_estimate(engine, policies[p], &geometry, info->hidden, KVC_Q8_0, prompts[n % 3], steps[n / 3],
                              &expected, &error));
            FINE(kvc_session_prompt(session, tokens, prompts[n % 3], NULL, NULL, &error));
            for (size_t i = 0; i < steps[n / 3]; i++)
                FINE(kvc_decode(&session, &tokens[i], 1, NULL, NULL, &error));
            kvc_session_stats(session, &stats);
            const uint64_t tables = 16 * info->layers * (info->kv_heads + stats.entries_most / KVC_TILE + 1);
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

/* One session without memory fails alone and goes on where it was once there is room. */
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

static void test_misuse(void **state) {
    (void)state;
    struct kvc_session_options options;
    struct kvc_session *session, *twice[2];
    kvc_session_defaults(&options);
    options.cache_type = KVC_Q4_0;
    assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_USAGE);
    kvc_session_defaults(&options);
    options.policy = "nosuch";
    assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_USAGE);
    static const char *const layers[][2] = {{"window:budget=40,layers=0/3", "layers=0/3: must lie in 0-2"},
                                            {"window:budget=40,layers=2-3", "layers=2-3: must lie in 0-2"},
                                            {"full+snapkv:budget=40,skip_layers=3", "skip_layers=3: must be 0 to 2"},
                                            {"window:budget=40,layers=1,skip_layers=2", "no layer"}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        options.policy = layers[i][0];
        assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_USAGE);
        assert_non_null(strstr(error.text, layers[i][1]));
    }
    session = open_with(model, "full", KVC_F16, 0);
    assert_int_equal(kvc_decode(&session, tokens, 1, NULL, NULL, &error), KVC_USAGE);
    const int32_t bad[] = {1, (int32_t)vocab}, negative = -1;
    assert_int_equal(kvc_session_prompt(session, bad, 2, NULL, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "token 1"));
    assert_int_equal(kvc_session_prompt(session, &negative, 1, NULL, NULL, &error), KVC_USAGE);
    assert_int_equal(kvc_session_prompt(session, tokens, 0, NULL, NULL, &error), KVC_USAGE);
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error)); /* none of that spoilt it */
    twice[0] = twice[1] = session;
    assert_int_equal(kvc_decode(twice, tokens, 2, NULL, NULL, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "twice"));
    kvc_session_close(session);
}

static int stop_at(void *user, uint64_t row, const float *logits) {
    (void)logits;
    return row == *(uint64_t *)user;
}

static void test_stopped(void **state) {
    (void)state;
    struct kvc_session *session = open_with(model, "full", KVC_F16, 16);
    uint64_t last = 20;
    const struct kvc_prompt_options options = {.row = stop_at, .user = &last};
    assert_int_equal(kvc_session_prompt(session, tokens, 100, &options, NULL, &error), KVC_USAGE);
    assert_int_equal(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error), KVC_USAGE); /* must be closed */
    kvc_session_close(session);
}

static int set_up(void **state) {
    (void)state;
    const struct kvc_engine_options options = {NULL, 2, KVC_MATH_EXACT};
    uint64_t random = 1;
    if (whole_model(KVC_F32, "session", model_path, sizeof model_path, &error) != KVC_OK ||
        kvc_engine_open(&options, &engine, &error) != KVC_OK ||
        kvc_model_open(engine, model_path, &model, &error) != KVC_OK) {
        print_error("%s\n", error.text);
        return -1;
    }
    vocab = kvc_model_info(model)->vocab;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % vocab);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    whole_model_remove(model_path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), /* first: the engine's peaks are its own */
                                       cmocka_unit_test(test_blocks_go_back),
                                       cmocka_unit_test(test_steps_keep_their_memory),
                                       cmocka_unit_test(test_memory_is_freed),
                                       cmocka_unit_test(test_chunks),
                                       cmocka_unit_test(test_threads_and_backends),
                                       cmocka_unit_test(test_batch),
                                       cmocka_unit_test(test_whole_or_single),
                                       cmocka_unit_test(test_nothing_to_do),
                                       cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_bounds),
                                       cmocka_unit_test(test_estimate),
                                       cmocka_unit_test(test_one_without_memory),
                                       cmocka_unit_test(test_misuse),
                                       cmocka_unit_test(test_stopped)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
