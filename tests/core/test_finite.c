/* test_finite.c - NaN and infinities in a model's weights: every run that reads logits ends with one line that names
 * the first layer with such values, on every backend and with every policy. Other sessions continue. */
#include "core/engine/finite.h"
#include "models/files/gguf.h"
#include "tests/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT = 70, ODD = 7 }; /* ODD: a token that is not in the prompt */

static char sound_path[512], path[] = "/tmp/kvcull-finite-XXXXXX";
static struct kvc_engine *engine;
static struct kvc_model *model;
static struct kvc_error error;
static int32_t tokens[PROMPT];
static float *logits; /* logits of three rows; the model's vocabulary is 61 */

static void test_scan(void **state) {
    const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    float values[200];
    (void)state;
    for (size_t i = 0; i < 200; i++)
        values[i] = i % 3 ? 3.4028235e38f : -1e-45f;
    for (size_t n = 0; n <= 200; n++)
        assert_true(kvc_finite(values, n));
    for (size_t at = 0; at < 200; at++) {
        const float old = values[at];
        values[at] = odd[at % 4];
        assert_true(kvc_finite(values, at));
        assert_false(kvc_finite(values, at + 1));
        assert_false(kvc_finite(values, 200));
        values[at] = old;
    }
}

/* Opens the valid model with one weight changed on a backend; false: there is no such device. */
static bool open_changed(const char *backend, const char *tensor, size_t row, float value) {
    const struct kvc_engine_options options = {.backend = backend, .threads = 2};
    struct kvc_gguf *gguf;
    FILE *file = fopen(sound_path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const size_t bytes = (size_t)ftell(file);
    char *copy = malloc(bytes);
    rewind(file);
    assert_true(copy && fread(copy, bytes, 1, file) == 1);
    fclose(file);
    FINE(kvc_gguf_open(sound_path, &gguf, &error));
    const struct kvc_file_tensor *found = kvc_gguf_tensor(gguf, tensor);
    assert_non_null(found);
    assert_int_equal(found->type, KVC_F32);
    char *at = memmem(copy, bytes, found->data, found->bytes);
    assert_non_null(at);
    const size_t width = found->shape[found->dimensions - 1];
    memcpy(at + (row * width + width / 2) * sizeof value, &value, sizeof value);
    kvc_gguf_close(gguf);
    file = fopen(path, "wb");
    assert_true(file && fwrite(copy, bytes, 1, file) == 1 && fclose(file) == 0);
    free(copy);
    if (kvc_engine_open(&options, &engine, &error) != KVC_OK) {
        print_message("%s: %s\n", backend, error.text);
        return false;
    }
    FINE(kvc_model_open(engine, path, &model, &error));
    return true;
}

static void close_changed(void) {
    kvc_model_close(model);
    kvc_engine_close(engine);
}

static struct kvc_session *open_session(const char *policy) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    FINE(kvc_session_open(model, &options, &session, &error));
    return session;
}

static void refused(enum kvc_status status, const char *where, const char *what) {
    if (status != KVC_INPUT || error.status != KVC_INPUT || !strstr(error.text, where) ||
        !strstr(error.text, "not finite"))
        fail_msg("%s: status %d, not %d with '%s': %s", what, (int)status, KVC_INPUT, where, error.text);
}

static int ignore(void *user, uint64_t row, const float *values) {
    *(uint64_t *)user = row;
    return !kvc_finite(values, kvc_model_info(model)->vocab);
}

static const char *const backends[] = {"ref", "cpu", "opencl"};
#define BACKENDS (sizeof backends / sizeof *backends)
static const char *const policies[] = {"full",
                                       "streaming:budget=20,positions=cache",
                                       "snapkv:budget=20,window=8",
                                       "take:budget=20,chunk=30,probe=4",
                                       "quest:budget=20",
                                       "morphkv:budget=30,window=8+sparq:budget=20"};
#define POLICIES (sizeof policies / sizeof *policies)

/* The NaN appears in a prompt for which the last logits are computed, every row's, or none; and in a step after a
 * synthetic prompt. */
static void test_layers(void **state) {
    static const struct {
        const char *tensor;
        float value;
        const char *where;
    } cases[] = {{"token_embd.weight", NAN, "the token's embedding is not"},
                 {"blk.0.attn_q.weight", NAN, "layer 0, of 0 to "},
                 {"blk.1.ffn_down.weight", NAN, "layer 1, of 0 to "},
                 {"blk.1.attn_output.weight", -INFINITY, "layer 1, of 0 to "},
                 {"blk.1.attn_norm.weight", 3e38f, "layer 1, of 0 to "},
                 {"output_norm.weight", -INFINITY, "the output matrix"}};
    (void)state;
    for (size_t b = 0; b < BACKENDS; b++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const size_t row = c == 0 ? (size_t)tokens[0] : 0; /* the last tokens differ */
            if (!open_changed(backends[b], cases[c].tensor, row, cases[c].value))
                break;
            for (size_t p = b == 0 ? 0 : c % 3; p < POLICIES; p += b == 0 ? 1 : 3) {
                char what[200];
                snprintf(what, sizeof what, "%s, %s, %s", backends[b], cases[c].tensor, policies[p]);
                uint64_t seen = 0;
                const struct kvc_prompt_options rows = {.row = ignore, .user = &seen}, synthetic = {.synthetic = true};
                for (int i = 0; i < 3; i++) {
                    struct kvc_session *session = open_session(policies[p]);
                    const enum kvc_status status =
                        kvc_session_prompt(session, tokens, i == 1 && c == 0 ? 1 : PROMPT, i == 1 ? &rows : NULL,
                                           i == 0 ? logits : NULL, &error);
                    if (i < 2 || c < 5) /* the output matrix is not used without logits */
                        refused(status, cases[c].where, what);
                    assert_int_equal(seen, 0);
                    kvc_session_close(session);
                }
                struct kvc_session *session = open_session(policies[p]);
                enum kvc_status status;
                FINE(kvc_session_prompt(session, tokens, PROMPT, &synthetic, NULL, &error));
                refused(kvc_decode(&session, tokens, 1, logits, &status, &error), cases[c].where, what);
                assert_int_equal(status, KVC_INPUT);
                assert_int_equal(kvc_decode(&session, tokens, 1, logits, NULL, &error), KVC_USAGE);
                kvc_session_close(session);
            }
            close_changed();
        }
}

/* Of three sessions in one step the one whose token has a NaN fails; the others compute the same as alone. */
static void test_neighbours(void **state) {
    (void)state;
    for (size_t b = 0; b < BACKENDS; b++) {
        struct kvc_session *session[3], *alone;
        enum kvc_status statuses[3];
        const int32_t next[] = {1, ODD, 2};
        if (!open_changed(backends[b], "token_embd.weight", ODD, NAN))
            continue;
        const size_t vocab = kvc_model_info(model)->vocab;
        for (size_t i = 0; i < 3; i++) {
            session[i] = open_session(policies[i]);
            FINE(kvc_session_prompt(session[i], tokens, PROMPT, NULL, NULL, &error));
        }
        refused(kvc_decode(session, next, 3, logits, statuses, &error), "session 1: position 70: ", backends[b]);
        assert_int_equal(statuses[0], KVC_OK);
        assert_int_equal(statuses[1], KVC_INPUT);
        assert_int_equal(statuses[2], KVC_OK);
        alone = open_session(policies[2]);
        FINE(kvc_session_prompt(alone, tokens, PROMPT, NULL, NULL, &error));
        for (int32_t token = 2; token < 4; token++) {
            if (token == 3)
                FINE(kvc_decode(&session[2], &token, 1, logits + 2 * vocab, NULL, &error));
            FINE(kvc_decode(&alone, &token, 1, logits, NULL, &error));
            assert_memory_equal(logits, logits + 2 * vocab, vocab * sizeof *logits);
        }
        kvc_session_close(alone);
        for (size_t i = 0; i < 3; i++)
            kvc_session_close(session[i]);
        close_changed();
    }
}

static int set_up(void **state) {
    (void)state;
    const int handle = mkstemp(path);
    const char *source = getenv("top_srcdir");
    snprintf(sound_path, sizeof sound_path, "%s/tests/data/golden/llama2/model.gguf", source ? source : ".");
    if (handle < 0 || close(handle) != 0)
        return -1;
    for (size_t i = 0; i < PROMPT; i++)
        tokens[i] = (int32_t)(8 + i * 5 % 47);
    logits = malloc(3 * 64 * sizeof *logits);
    return logits ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    free(logits);
    remove(path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scan), cmocka_unit_test(test_layers),
                                       cmocka_unit_test(test_neighbours)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
