/* test_session.c - sessions over a small random model: results do not depend on how rows are batched. Tests the rules
 * of docs/reference/methods.md about whole runs (2, 3, 5, 14, 15); test_session_memory.c tests the memory of sessions.
 */
#include "tests/core/turns.h"
#include "tests/core/session_fixture.h"

enum { PROMPT = 330, STEPS = 12 };

/* The hash of all logits of a prompt, some steps, a second turn and more steps. */
static uint64_t run_alone(struct kvc_model *m, const char *policy, enum kvc_type type, uint32_t chunk) {
    const struct turns turns = {tokens, {kvc_test_thinned() ? 70 : PROMPT, 40}, STEPS, vocab, true};
    return run_turns(&turns, open_with(m, policy, type, chunk));
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
    static const struct kvc_engine_options others[] = {{.backend = "cpu", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "cpu", .threads = 3, .math = KVC_MATH_EXACT},
                                                       {.backend = "ref", .threads = 1, .math = KVC_MATH_EXACT},
                                                       {.backend = "avx2", .threads = 2, .math = KVC_MATH_EXACT}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    const size_t count =
        sizeof others / sizeof *others - kvc_test_thinned(); /* in valgrind the cpu backend uses avx2 anyway */
    for (size_t o = 0; o < count; o++) {
        struct kvc_engine *other;
        struct kvc_model *same;
        if (kvc_engine_open(&others[o], &other, &error) != KVC_OK) {
            assert_int_equal(error.status, KVC_RESOURCE); /* this machine lacks the backend */
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

/* Sessions of all policies, each with another length, in one batch. */
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

/* With `full` a turn given whole, token by token, or in two prompts gives the same logits. */
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

/* Rule 5: within the budget a method equals `full`, bit for bit. Rule 14: the cache of a prompt-only method then grows.
 */
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

/* Rules 2, 3, 15: positions stay, in ascending order; a second turn chooses again among the held and the new entries.
 */
static void test_turns(void **state) {
    (void)state;
    int32_t first[64], second[64];
    struct kvc_session *session = open_with(model, "snapkv:budget=50", KVC_F16, 0);
    FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
    size_t count = 0;
    FINE(kvc_session_positions(session, 0, 0, first, 64, &count, &error));
    assert_int_equal(count, 50);
    for (size_t i = 0; i < 32; i++)
        assert_int_equal(first[18 + i], 268 + (int)i); /* the observation window */
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
    for (size_t i = 0; i < 40; i++) { /* entries evicted in an earlier turn do not return */
        bool held = second[i] >= 300;
        for (size_t j = 0; j < 50; j++)
            held = held || first[j] == second[i];
        assert_true(held);
    }
    kvc_session_close(session);
}

static void test_misuse(void **state) {
    (void)state;
    struct kvc_session_options options;
    struct kvc_session *session, *twice[2];
    kvc_session_defaults(&options);
    options.cache_type = kvc_entry_types(KVC_Q5_0);
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
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error)); /* the refused calls changed nothing */
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
    assert_int_equal(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error), KVC_USAGE); /* it can only be closed */
    kvc_session_close(session);
}

struct chunks {
    struct kvc_session *session;
    uint64_t tokens, calls, last; /* stops after so many tokens; 0: never */
};

/* After each chunk layer 0 holds at most the budget, chosen from all tokens read so far. */
static int after_chunk(void *user, uint64_t read) {
    struct chunks *chunks = user;
    int32_t positions[100];
    size_t count = 0;
    assert_int_equal(read, chunks->tokens + 30 < 100 ? chunks->tokens + 30 : 100);
    chunks->tokens = read;
    chunks->calls++;
    assert_int_equal(kvc_session_positions(chunks->session, 0, 0, positions, 100, &count, &error), KVC_OK);
    assert_int_equal(count, 20);
    assert_true(positions[count - 1] < (int32_t)read && positions[count - 1] >= (int32_t)read - 30);
    return read == chunks->last;
}

static void test_after_chunk(void **state) {
    (void)state;
    for (int stop = 0; stop < 2; stop++) {
        struct chunks chunks = {.session =
                                    open_with(model, "take:budget=20,chunk=30,probe=4,warmup_layers=0", KVC_F16, 7),
                                .last = stop ? 60 : 0};
        const struct kvc_prompt_options options = {.chunk = after_chunk, .user = &chunks};
        assert_int_equal(kvc_session_prompt(chunks.session, tokens, 100, &options, NULL, &error),
                         stop ? KVC_USAGE : KVC_OK);
        assert_int_equal(chunks.calls, stop ? 2 : 4);
        kvc_session_close(chunks.session);
    }
    struct chunks none = {.session = open_with(model, "snapkv:budget=20,window=4", KVC_F16, 7)};
    const struct kvc_prompt_options options = {.chunk = after_chunk, .user = &none};
    assert_int_equal(kvc_session_prompt(none.session, tokens, 100, &options, NULL, &error), KVC_OK);
    assert_int_equal(none.calls, 0); /* the method does not read in chunks */
    kvc_session_close(none.session);
}

/* take reads the prompt in chunks of its own. With a budget that evicts nothing, a second method keeps what it keeps
 * alone: it receives every chunk's queries with their rows in the prompt. */
static void test_after_take(void **state) {
    static const char *const second[] = {"expected:budget=50,sinks=9", "snapkv:budget=50", "h2o:budget=50",
                                         "cake:budget=50", "compactor:budget=50"};
    enum { LENGTH = 150 };
    (void)state;
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
        int32_t kept[2][LENGTH];
        size_t count[2];
        char both[100];
        struct kvc_session *session[2];
        snprintf(both, sizeof both, "take:budget=1000,chunk=37,probe=4+%s", second[i]);
        for (int k = 0; k < 2; k++) {
            session[k] = open_with(model, k ? both : second[i], KVC_F16, 0);
            FINE(kvc_session_prompt(session[k], tokens, LENGTH, NULL, NULL, &error));
        }
        for (uint32_t layer = 0; layer < kvc_model_info(model)->layers; layer++)
            for (uint32_t h = 0; h < kvc_model_info(model)->kv_heads; h++) {
                for (int k = 0; k < 2; k++)
                    FINE(kvc_session_positions(session[k], layer, h, kept[k], LENGTH, &count[k], &error));
                assert_true(count[0] > 0 && count[0] < LENGTH);
                assert_int_equal(count[0], count[1]);
                assert_memory_equal(kept[0], kept[1], count[0] * sizeof **kept);
            }
        for (int k = 0; k < 2; k++)
            kvc_session_close(session[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),        cmocka_unit_test(test_threads_and_backends),
        cmocka_unit_test(test_batch),         cmocka_unit_test(test_whole_or_single),
        cmocka_unit_test(test_nothing_to_do), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_misuse),        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_after_chunk),   cmocka_unit_test(test_after_take)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
