/* test_converse.c - several questions about one text, against simple code. With the full cache, a later turn equals a
 * single prompt with the whole conversation, and a request equals a run of its own; and the recorded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "eval/eval.h"
#include "eval/singly.h"
#include "tests/check.h"

enum { MOST = 12, QUESTIONS = 3 };

static struct kvc_engine *engine;
static struct kvc_model *model;
static float *logits;
static struct eval_computed computed;

static int open_model(void **state) {
    struct kvc_engine_options options = {.backend = "ref"};
    struct kvc_error error;
    char path[] = "/tmp/kvcull-test-XXXXXX";
    const int descriptor = mkstemp(path);
    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    FINE(kvc_make_model("tiny", KVC_F32, 1, path, &error));
    FINE(kvc_engine_open(&options, &engine, &error));
    FINE(kvc_model_open(engine, path, &model, &error));
    unlink(path);
    logits = malloc(kvc_model_info(model)->vocab * sizeof *logits);
    assert_non_null(logits);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    free(logits);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}

/* The tokens of a text and of three questions. */
struct talk {
    int32_t first[64], later[QUESTIONS - 1][8];
    struct eval_part parts[QUESTIONS - 1];
    struct eval_prompt prompt;
};

static void make_talk(uint64_t seed, struct talk *talk) {
    uint64_t random = seed;
    const uint64_t vocab = kvc_model_info(model)->vocab;
    for (size_t i = 0; i < 64; i++)
        talk->first[i] = (int32_t)(3 + eval_below(&random, vocab - 3));
    for (size_t q = 0; q + 1 < QUESTIONS; q++) {
        for (size_t i = 0; i < 8; i++)
            talk->later[q][i] = (int32_t)(3 + eval_below(&random, vocab - 3));
        talk->parts[q] = (struct eval_part){talk->later[q], 8 - q, 0};
    }
    talk->prompt = (struct eval_prompt){talk->first, 64, 50, 0, talk->parts, QUESTIONS - 1};
}

/* The greedy answer to one prompt, in a session of its own. */
static char *plain(const int32_t *tokens, size_t count, int32_t made[MOST], size_t *made_count) {
    struct kvc_session_options options;
    struct kvc_session *session;
    struct kvc_error error;
    char *text;
    size_t bytes;
    kvc_session_defaults(&options);
    *made_count = 0;
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, count, NULL, logits, &error));
    while (*made_count < MOST) {
        const int32_t token = eval_likeliest(logits, kvc_model_info(model)->vocab);
        if (kvc_token_ends_turn(model, token))
            break;
        made[(*made_count)++] = token;
        FINE(kvc_decode(&session, &token, 1, logits, NULL, &error));
    }
    kvc_session_close(session);
    if (*made_count == 0)
        return strdup("");
    FINE(kvc_detokenize(model, made, *made_count, false, &text, &bytes, &error));
    return text;
}

static void full_turns_are_one_prompt(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 8; seed++) {
        for (int way = 0; way < 4; way++) {
            const struct eval_task task = {"t", "", .file = -1, .questions = QUESTIONS,
                                           .manner = way < 2 ? EVAL_TURNS : EVAL_REQUESTS};
            struct eval_reply replies[QUESTIONS];
            struct kvc_session_options options;
            struct kvc_error error;
            struct talk talk;
            int32_t all[64 + QUESTIONS * (MOST + 8)];
            size_t count = 64;
            make_talk(seed, &talk);
            kvc_session_defaults(&options);
            FINE(eval_converse(model, &options, &task, &talk.prompt, way % 2 == 0, MOST, logits, replies, &computed,
                               &error));
            memcpy(all, talk.first, sizeof talk.first);
            for (size_t q = 0; q < QUESTIONS; q++) {
                int32_t made[MOST];
                size_t made_count;
                if (q > 0) {
                    const size_t from = task.manner == EVAL_TURNS ? count : talk.prompt.context;
                    memcpy(all + from, talk.parts[q - 1].tokens, talk.parts[q - 1].count * sizeof *all);
                    count = from + talk.parts[q - 1].count;
                }
                char *text = plain(all, count, made, &made_count);
                assert_string_equal(text, replies[q].text);
                assert_int_equal(made_count, replies[q].tokens);
                assert_int_equal(replies[q].entries, count);
                assert_int_equal(replies[q].points, 0);
                memcpy(all + count, made, made_count * sizeof *all);
                count += made_count;
                free(text);
                free(replies[q].text);
            }
        }
    }
}

/* Requests about an unread text give the same answers in any order; a policy's turns continue from what it kept. */
static void policies_converse(void **state) {
    const struct eval_task turns = {"t", "", .file = -1, .questions = QUESTIONS};
    const struct eval_task requests = {"t", "", .file = -1, .questions = QUESTIONS, .manner = EVAL_REQUESTS};
    struct eval_reply first[QUESTIONS], second[QUESTIONS];
    struct kvc_session_options options;
    struct kvc_error error;
    struct talk talk;
    (void)state;
    make_talk(3, &talk);
    kvc_session_defaults(&options);
    options.policy = "streaming:budget=24";
    FINE(eval_converse(model, &options, &turns, &talk.prompt, false, MOST, logits, first, &computed, &error));
    FINE(eval_converse(model, &options, &requests, &talk.prompt, false, MOST, logits, second, &computed, &error));
    assert_string_equal(first[0].text, second[0].text);
    for (size_t q = 0; q < QUESTIONS; q++) {
        assert_int_equal(first[q].entries, 24);
        assert_int_equal(second[q].entries, 24);
        assert_true(first[q].steps <= MOST && first[q].peak_bytes >= first[q].held_bytes);
        assert_true(first[q].read_bytes <= 2 * first[0].read_bytes + 1); /* the bytes of this turn only */
        free(first[q].text);
        free(second[q].text);
    }
}

/* One request in a session of its own, with the text read first. */
static char *plain_request(const struct kvc_session_options *options, const struct talk *talk, size_t q,
                           struct kvc_session_stats *stats, uint64_t *entries) {
    const struct eval_prompt *prompt = &talk->prompt;
    const int32_t *rest = q ? talk->parts[q - 1].tokens : prompt->tokens + prompt->context;
    const size_t count = q ? talk->parts[q - 1].count : prompt->count - prompt->context;
    int32_t made[MOST];
    size_t made_count = 0, bytes;
    struct kvc_session *session;
    struct kvc_error error;
    char *text = NULL;
    FINE(kvc_session_open(model, options, &session, &error));
    FINE(kvc_session_prompt(session, prompt->tokens, prompt->context, NULL, NULL, &error));
    FINE(kvc_session_prompt(session, rest, count, NULL, logits, &error));
    kvc_session_stats(session, stats);
    *entries = stats->entries_most;
    while (made_count < MOST) {
        const int32_t token = eval_likeliest(logits, kvc_model_info(model)->vocab);
        if (kvc_token_ends_turn(model, token))
            break;
        made[made_count++] = token;
        if (made_count < MOST)
            FINE(kvc_decode(&session, &token, 1, logits, NULL, &error));
    }
    kvc_session_stats(session, stats);
    kvc_session_close(session);
    if (made_count == 0)
        return strdup("");
    FINE(kvc_detokenize(model, made, made_count, false, &text, &bytes, &error));
    return text;
}

/* Requests whose text was read only once give the same answers, entries and bytes as each request alone; the count of
 * computed tokens is correct. */
static void requests_share_the_text(void **state) {
    static const char *const policies[] = {"full",
                                           "streaming:budget=24",
                                           "snapkv:budget=24,window=4+quest:budget=8,page=4",
                                           "h2o:budget=24",
                                           "morphkv:budget=24,window=4",
                                           "take:budget=24,chunk=16,probe=4",
                                           "rocketkv-mt:budget=16"};
    const struct eval_task requests = {"t", "", .file = -1, .questions = QUESTIONS, .manner = EVAL_REQUESTS};
    (void)state;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct eval_computed counted = {0, 0};
        struct eval_reply replies[QUESTIONS];
        struct kvc_session_options options;
        struct kvc_session_stats stats;
        struct kvc_error error;
        struct talk talk;
        uint64_t entries, asked = 0;
        make_talk(11 + p, &talk);
        kvc_session_defaults(&options);
        options.policy = policies[p];
        FINE(eval_converse(model, &options, &requests, &talk.prompt, false, MOST, logits, replies, &counted, &error));
        for (size_t q = 0; q < QUESTIONS; q++) {
            char *text = plain_request(&options, &talk, q, &stats, &entries);
            assert_string_equal(text, replies[q].text);
            assert_int_equal(entries, replies[q].entries);
            assert_int_equal(stats.read_bytes, replies[q].read_bytes);
            assert_int_equal(stats.decode_steps, replies[q].steps);
            assert_int_equal(stats.peak_bytes, replies[q].peak_bytes);
            asked += q ? talk.parts[q - 1].count : talk.prompt.count - talk.prompt.context;
            free(text);
            free(replies[q].text);
        }
        assert_int_equal(counted.computed_tokens, talk.prompt.context + asked);
        assert_int_equal(counted.prompt_tokens, QUESTIONS * talk.prompt.context + asked);
    }
}

static void memory_is_told(void **state) {
    static const char *const policies[] = {"full", "streaming:budget=24"};
    const struct eval_task task = {"t", "", .file = -1, .memory = true};
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        struct kvc_session_options options;
        struct eval_reply reply;
        struct kvc_error error;
        struct talk talk;
        make_talk(5, &talk);
        talk.prompt.later_count = 0;
        kvc_session_defaults(&options);
        options.policy = policies[p];
        FINE(eval_converse(model, &options, &task, &talk.prompt, true, 40, logits, &reply, &computed, &error));
        assert_true(reply.points >= 2 && reply.points <= EVAL_POINTS);
        assert_int_equal(reply.memory[0][0], 0);
        assert_int_equal(reply.memory[0][1], reply.held_bytes);
        assert_int_equal(reply.memory[reply.points - 1][0], reply.tokens);
        for (size_t i = 0; i < reply.points; i++) {
            assert_true(reply.memory[i][1] <= reply.answer_peak_bytes);
            assert_true(i == 0 || reply.memory[i][0] > reply.memory[i - 1][0]);
            assert_true(i == 0 || reply.memory[i][0] - reply.memory[i - 1][0] <= 10);
        }
        assert_true(reply.answer_peak_bytes <= reply.peak_bytes);
        free(reply.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(full_turns_are_one_prompt), cmocka_unit_test(policies_converse),
                                       cmocka_unit_test(requests_share_the_text), cmocka_unit_test(memory_is_told)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
