/* test_extra_slots.c - a decode method whose budget fills whole blocks: the entry that a step adds uses an extra slot
 * instead of a new block, and results are bit-identical. */
#include "core/engine/cache.h"
#include "core/engine/session.h"
#include "tests/core/whole_fixture.h"
#include "tests/method_spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t vocab;
static int32_t tokens[2048];
static struct kvc_error error;

#define B "%u"
/* open_model adds a policy for each decode method that is missing here, with the trial options of its class. */
enum { METHODS_MOST = 64 };
static const char *methods[METHODS_MOST] = {"window:budget=" B,
                                            "streaming:budget=" B,
                                            "streaming:budget=" B ",positions=cache",
                                            "h2o:budget=" B,
                                            "h2o:budget=" B ",per=head",
                                            "scissorhands:budget=" B ",history=9",
                                            "keyformer:budget=" B,
                                            "tova:budget=" B,
                                            "keydiff:budget=" B,
                                            "snapkv:budget=100+snapkv-decode:budget=" B ",every=1",
                                            "morphkv:budget=" B,
                                            "morphkv:budget=" B ",scores=logits",
                                            "lacache:budget=" B ",span=2,sinks=8",
                                            "snapkv:budget=100+tova:budget=" B,
                                            "snapkv:budget=230+h2o:budget=" B,
                                            "quest:budget=60+streaming:budget=" B,
                                            "sparq:budget=60+h2o:budget=" B,
                                            "rocketkv-mt:budget=60+tova:budget=" B,
                                            "duo:file=every-other,sinks=6,recent=" B,
                                            "expected:budget=100+rkv:budget=" B ",every=1",
                                            "snapkv:budget=254+triattention:stats=drawn,every=1,budget=" B};
static size_t method_count;
enum { PROMPT = 300, STEPS = 170 };
static size_t after(size_t i) { return i + (kvc_test_thinned() ? 5 : 1); } /* returns the next case to try */
/* After the prompt, a single superfluous block is returned; in a decode step, two are. */
static size_t prompt_of(size_t method) { return strstr(methods[method], "rocketkv-mt") ? 600 : PROMPT; }
static int steps(void) { return kvc_test_thinned() ? 5 : STEPS; }

/* duo's option does not count its 6 sinks. */
static void write_spec(char *spec, size_t capacity, size_t method, uint32_t budget) {
    snprintf(spec, capacity, methods[method], (unsigned)(strstr(methods[method], "duo") ? budget - 6 : budget));
}

static struct kvc_session *open_prompted(const char *policy, enum kvc_type type, size_t prompt) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = kvc_entry_types(type);
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, prompt, NULL, NULL, &error));
    return session;
}

static uint64_t cache_now(void) {
    struct kvc_memory memory;
    kvc_engine_memory(engine, &memory);
    return memory.now[KVC_MEMORY_CACHE];
}

/* Takes that many steps and returns the session's statistics. */
static struct kvc_session_stats stats_after(struct kvc_session *session, int count) {
    struct kvc_session_stats stats;
    for (int i = 0; i < count; i++)
        FINE(kvc_decode(&session, &tokens[PROMPT + i], 1, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    return stats;
}

/* 256 entries need the blocks of 255 and one extra slot per list. Estimates know all of this memory, and it is freed.
 */
static void test_blocks(void **state) {
    (void)state;
    static const enum kvc_type types[] = {KVC_F16, KVC_Q8_0, KVC_F32};
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    for (size_t m = 0; m < method_count; m = after(m)) {
        const enum kvc_type type = types[m % 3];
        const uint64_t entry = 2ull * kvc_entry_row_bytes(type, info->head_size), block = KVC_BLOCK * entry;
        char spec[2][100];
        struct kvc_session_stats stats[2];
        struct kvc_estimate expected;
        for (uint32_t i = 0; i < 2; i++) {
            write_spec(spec[i], sizeof spec[i], m, KVC_TILE - 1 + i);
            struct kvc_session *session = open_prompted(spec[i], type, prompt_of(m));
            stats[i] = stats_after(session, steps());
            const uint64_t shared = cache_now() - stats[i].cache_bytes; /* the rest of the block with the extra slots */
            if (stats[i].cache_bytes % block == 0 ? shared != 0 : shared != block - stats[i].cache_bytes % block)
                fail_msg("%s: %llu bytes held beside the session's", spec[i], (unsigned long long)shared);
            kvc_session_close(session);
            assert_int_equal(cache_now(), 0);
        }
        const uint64_t extra_slot = stats[1].cache_bytes - stats[0].cache_bytes;
        if (stats[0].cache_bytes % block != 0 || extra_slot == 0 || extra_slot % entry != 0 ||
            extra_slot > (uint64_t)info->layers * info->heads * entry ||
            stats[1].state_bytes > stats[0].state_bytes * 5 / 4)
            fail_msg("%s holds %llu + %llu bytes, %s %llu + %llu", spec[1], (unsigned long long)stats[1].cache_bytes,
                     (unsigned long long)stats[1].state_bytes, spec[0], (unsigned long long)stats[0].cache_bytes,
                     (unsigned long long)stats[0].state_bytes);
        FINE(kvc_estimate(engine, spec[1], &geometry, info->hidden, kvc_entry_types(type), prompt_of(m),
                          (uint64_t)steps(), &expected, &error));
        if (stats[1].cache_bytes != expected.cache_bytes || stats[1].peak_bytes > expected.peak_bytes ||
            stats[1].peak_bytes < expected.peak_bytes * 99 / 100)
            if (expected.kind == KVC_EXPECTED_EXACT)
                fail_msg("%s: %llu bytes, peak %llu; estimated %llu, %llu", spec[1],
                         (unsigned long long)stats[1].cache_bytes, (unsigned long long)stats[1].peak_bytes,
                         (unsigned long long)expected.cache_bytes, (unsigned long long)expected.peak_bytes);
    }
}

/* The layout without extra slots: a whole block for any additional entry. */
static void take_blocks(struct kvc_session *session) {
    struct kvc_cache *cache = &session->cache;
    for (uint32_t l = 0; l < cache->layers; l++) {
        cache->layer[l].step_most = 0;
        FINE(kvc_cache_reserve(cache, l, 200, cache->layer[l].lists.columns, &error));
    }
}

/* Logits, turn by turn, against those of a session that has whole blocks; turns of one token and of more than a block.
 */
static void test_bits(void **state) {
    (void)state;
    static const struct {
        size_t prompt;
        int steps;
    } turns[] = {{0, 40}, {1, 12}, {2, 3}, {290, 30}};
    float *logits[2] = {malloc(vocab * sizeof(float)), malloc(vocab * sizeof(float))};
    assert_true(logits[0] && logits[1]);
    for (size_t m = 0; m < method_count; m = after(m)) {
        char spec[100];
        struct kvc_session *session[2];
        write_spec(spec, sizeof spec, m, KVC_TILE);
        for (int i = 0; i < 2; i++)
            session[i] = open_prompted(spec, KVC_F16, PROMPT);
        const int32_t *next = tokens + PROMPT;
        for (size_t t = 0; t < (kvc_test_thinned() ? 2 : sizeof turns / sizeof *turns); t++) {
            for (int i = 0; i < 2 && turns[t].prompt; i++)
                FINE(kvc_session_prompt(session[i], next, turns[t].prompt, NULL, NULL, &error));
            next += turns[t].prompt;
            take_blocks(session[1]);
            for (int s = 0; s < (kvc_test_thinned() ? 3 : turns[t].steps); s++, next++) {
                for (int i = 0; i < 2; i++)
                    FINE(kvc_decode(&session[i], next, 1, logits[i], NULL, &error));
                if (memcmp(logits[0], logits[1], vocab * sizeof(float)) != 0)
                    fail_msg("%s: turn %zu, step %d: other bits in a spare slot", spec, t, s);
            }
        }
        kvc_session_close(session[0]);
        kvc_session_close(session[1]);
    }
    free(logits[0]);
    free(logits[1]);
}

/* Returns how many blocks the lists of that many sessions take, each with 256 entries and an extra slot. */
static uint64_t blocks_of(uint64_t lists, uint64_t sessions) {
    return sessions * lists * KVC_TILE / KVC_BLOCK + (sessions * lists + KVC_BLOCK - 1) / KVC_BLOCK;
}

/* Sessions share a block: each has its own slots, and the last session returns the block. */
static void test_shared(void **state) {
    (void)state;
    const uint64_t block = KVC_BLOCK * 2ull * kvc_entry_row_bytes(KVC_F16, kvc_model_info(model)->head_size);
    struct kvc_session *both[2], *alone = open_prompted("tova:budget=256", KVC_F16, PROMPT);
    float *logits = malloc(3 * vocab * sizeof *logits);
    assert_non_null(logits);
    both[0] = open_prompted("tova:budget=256", KVC_F16, PROMPT);
    both[1] = open_prompted("h2o:budget=256", KVC_F16, PROMPT);
    const uint64_t lists = kvc_cache_lists(&alone->cache), blocks = alone->cache.cache_bytes / block;
    assert_int_equal(blocks, lists * KVC_TILE / KVC_BLOCK + lists / KVC_BLOCK);
    assert_int_equal(cache_now(), blocks_of(lists, 3) * block);
    for (int s = 0; s < steps() / 5; s++) {
        const int32_t next[2] = {tokens[PROMPT + s], tokens[PROMPT + s]};
        FINE(kvc_decode(both, next, 2, logits, NULL, &error));
        FINE(kvc_decode(&alone, next, 1, logits + 2 * vocab, NULL, &error));
        assert_memory_equal(logits, logits + 2 * vocab, vocab * sizeof *logits);
    }
    kvc_session_close(both[1]);
    kvc_session_close(alone);
    assert_int_equal(cache_now(), blocks_of(lists, 1) * block);
    kvc_session_close(both[0]);
    assert_int_equal(cache_now(), 0);
    free(logits);
}

/* More extra slots than a block has: each place is used once, and a block is returned with its last slot. */
static void test_places(void **state) {
    (void)state;
    enum { COUNT = 2 * KVC_BLOCK + 9 };
    struct kvc_extra_slots extra_slots = {.device = engine->device};
    const struct kvc_entry_format format = kvc_entry_format(kvc_entry_types(KVC_F16), 64);
    uint32_t names[COUNT], again;
    FINE(engine->device->ops->arena_create(engine->device, &format, &extra_slots.arena, &error));
    FINE(kvc_extra_slots_take(&extra_slots, COUNT, names, &error));
    for (uint32_t i = 0; i < COUNT; i++)
        for (uint32_t j = 0; j <= i; j++)
            assert_true(i == j ? (names[i] & KVC_EXTRA_SLOT) != 0 : names[i] != names[j]);
    assert_int_equal(cache_now(), 3 * KVC_BLOCK * 256);
    kvc_extra_slots_free(&extra_slots, 1, &names[40]);
    FINE(kvc_extra_slots_take(&extra_slots, 1, &again, &error));
    assert_int_equal(again, names[40]);
    kvc_extra_slots_free(&extra_slots, KVC_BLOCK, names);
    assert_int_equal(cache_now(), 2 * KVC_BLOCK * 256);
    kvc_extra_slots_free(&extra_slots, COUNT - KVC_BLOCK, names + KVC_BLOCK);
    assert_int_equal(cache_now(), 0);
    engine->device->ops->arena_free(engine->device, extra_slots.arena);
    free(extra_slots.block);
}

/* A policy of the class with "%u" for its budget; it is never freed. */
static const char *trial(const struct kvc_policy_class *policy) {
    char spec[100], *made = malloc(sizeof spec);
    assert_non_null(made);
    kvc_test_method_spec(policy, 256, spec, sizeof spec);
    const char *budget = strstr(spec, "=256");
    assert_non_null(budget);
    snprintf(made, sizeof spec, "%.*s=%%u%s", (int)(budget - spec), spec, budget + 4);
    return made;
}

/* The methods that are joined to the first one. */
static const char *next_method(const char *spec) {
    const char *plus = strchr(spec, '+');
    return plus ? plus + 1 : NULL;
}

static void add_methods(void) {
    while (methods[method_count])
        method_count++;
    const size_t written = method_count;
    for (size_t i = 0; kvc_policy(engine, i); i++) {
        const struct kvc_policy_class *policy = kvc_policy(engine, i);
        bool found = !(policy->stages & KVC_STAGE_DECODE) || /* without a budget no list needs an extra slot */
                     (policy->forecast && policy->forecast->ragged == KVC_RAGGED_ANY);
        for (size_t m = 0; m < written; m++)
            for (const char *spec = methods[m]; spec && !found; spec = next_method(spec))
                found = kvc_test_is_of(spec, policy);
        if (!found && method_count < METHODS_MOST)
            methods[method_count++] = trial(policy);
    }
}

static int open_model(void **state) {
    (void)state;
    if (open_whole(getenv("KVCULL_TEST_BACKEND"), KVC_F32, "spares") != 0)
        return -1;
    vocab = kvc_model_info(model)->vocab;
    add_methods();
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)((uint32_t)i * 2654435761u % vocab);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_shared), cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, open_model, close_whole);
}
