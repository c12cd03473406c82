/* test_beside.c - decode steps taken while another session's prompt is computed: the results of both are bit-identical
 * to separate runs, whatever their policies. */
#include "tests/core/session_fixture.h"

enum { LONG = 300, SHORT = 40, STEPS = 60 };

struct beside { /* A session that takes a decode step whenever the prompt of another session allows it. */
    struct kvc_session *session;
    struct kvc_hash *hash;
    float *logits; /* [vocab] */
    size_t steps;
};

static void take_step(struct beside *beside) {
    if (beside->steps >= STEPS)
        return;
    FINE(kvc_decode(&beside->session, &tokens[1000 + beside->steps++], 1, beside->logits, NULL, &error));
    kvc_hash_add(beside->hash, beside->logits, vocab);
}

static int on_progress(void *user, uint64_t done, uint64_t total) {
    assert_true(done <= total);
    take_step(user);
    return 0;
}

static void beside_open(struct beside *beside, const char *policy) {
    *beside = (struct beside){open_with(model, policy, KVC_F16, 0), kvc_hash_open(), malloc(vocab * sizeof(float)), 0};
    assert_true(beside->hash && beside->logits);
    FINE(kvc_session_prompt(beside->session, tokens, SHORT, NULL, beside->logits, &error));
}

static uint64_t beside_close(struct beside *beside) {
    while (beside->steps < STEPS)
        take_step(beside);
    const uint64_t hash = kvc_hash_value(beside->hash);
    kvc_session_close(beside->session);
    kvc_hash_close(beside->hash);
    free(beside->logits);
    return hash;
}

/* The logits of a prompt and of some steps after it. */
static uint64_t prompt_hash(const char *policy, struct beside *beside) {
    const struct kvc_prompt_options options = {.progress = beside ? on_progress : NULL, .user = beside};
    struct kvc_session *session = open_with(model, policy, KVC_F16, 32);
    struct kvc_hash *hash = kvc_hash_open();
    float *logits = malloc(vocab * sizeof *logits);
    assert_true(hash && logits);
    FINE(kvc_session_prompt(session, tokens + 100, LONG, &options, logits, &error));
    kvc_hash_add(hash, logits, vocab);
    for (size_t i = 0; i < 5; i++) {
        FINE(kvc_decode(&session, &tokens[2000 + i], 1, logits, NULL, &error));
        kvc_hash_add(hash, logits, vocab);
    }
    const uint64_t value = kvc_hash_value(hash);
    kvc_session_close(session);
    kvc_hash_close(hash);
    free(logits);
    return value;
}

static void test_beside(void **state) {
    (void)state;
    static const char *const more[] = {"take:budget=40,chunk=48,warmup_layers=1", "h2o:budget=40,per=head",
                                       "snapkv:budget=40+quest:budget=24,page=8", "fastkv:budget=40"};
    const char *specs[POLICIES + sizeof more / sizeof *more];
    size_t count = 0;
    for (size_t p = 0; p < POLICIES; p = after(p))
        specs[count++] = policies[p];
    for (size_t p = 0; p < sizeof more / sizeof *more; p++)
        if (kvc_policy_check(engine, more[p], &error) == KVC_OK)
            specs[count++] = more[p];
    for (size_t p = 0; p < count; p++) {
        const char *policy = specs[p], *other = specs[(p * 5 + 3) % count];
        struct beside alone, together;
        beside_open(&alone, other);
        const uint64_t alone_steps = beside_close(&alone), alone_prompt = prompt_hash(policy, NULL);
        beside_open(&together, other);
        const uint64_t prompt = prompt_hash(policy, &together);
        assert_true(together.steps > 5); /* the other session's steps were taken between the prompt's parts */
        if (prompt != alone_prompt || beside_close(&together) != alone_steps)
            fail_msg("%s beside %s: other bits than alone", policy, other);
    }
}

/* The other session may also be closed during the prompt. */
static int close_other(void *user, uint64_t done, uint64_t total) {
    struct kvc_session **other = user;
    (void)done;
    (void)total;
    kvc_session_close(*other);
    *other = NULL;
    return 0;
}

static void test_close(void **state) {
    (void)state;
    struct kvc_session *other = open_with(model, "full", KVC_F16, 0), *session = open_with(model, "full", KVC_F16, 32);
    const struct kvc_prompt_options options = {.progress = close_other, .user = &other};
    float *logits = malloc(2 * vocab * sizeof *logits);
    assert_non_null(logits);
    FINE(kvc_session_prompt(other, tokens, LONG, NULL, logits, &error));
    FINE(kvc_session_prompt(session, tokens, LONG, &options, logits + vocab, &error));
    assert_null(other);
    assert_memory_equal(logits, logits + vocab, vocab * sizeof *logits);
    kvc_session_close(session);
    free(logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside), cmocka_unit_test(test_close)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
