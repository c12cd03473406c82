/* test_no_memory.c - every allocation of a whole run fails once: the run ends with one line and status 4 (or does
 * without the memory), and leaks nothing (checked by sanitizers and valgrind). The linker wraps the allocation
 * functions. */
#include "models/model.h"
#include "tests/check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t calls, failing; /* the number of the call that fails; 0: none */
static char model_path[256];

static const char *demo_path(char *path, size_t capacity) {
    const char *source = getenv("top_srcdir");
    snprintf(path, capacity, "%s/data/demo", source ? source : ".");
    return path;
}

static bool fails(void) {
    const uint64_t call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED); /* worker threads allocate, too */
    if (call != failing)
        return false;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return fails() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return fails() ? NULL : __real_realloc(old, bytes); }
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
    return fails() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
}
char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    return fails() ? MAP_FAILED : __real_mmap(address, bytes, protection, flags, file, offset);
}

/* Opens everything, reads a prompt, takes decode steps of two sessions, converts text, uses a chat template, and closes
 * everything. */
static enum kvc_status whole_run(const char *path, float *logits, struct kvc_error *error) {
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_session *sessions[2] = {NULL, NULL};
    struct kvc_sampler *sampler = NULL;
    struct kvc_session_options options;
    struct kvc_sampler_options sampling;
    int32_t tokens[300], next[2] = {1, 2}, *made = NULL;
    char *text = NULL;
    const size_t rows = kvc_test_thinned() ? 60 : 255; /* 255: the steps begin another block */
    size_t count = 0, bytes;
    for (int i = 0; i < 300; i++)
        tokens[i] = 1 + i * 7 % 250;
    kvc_session_defaults(&options);
    kvc_sampler_defaults(&sampling);
    options.policy = "snapkv:budget=40+morphkv:budget=36,window=8";
    const struct kvc_engine_options with = {.backend = NULL, .threads = 2, .math = KVC_MATH_EXACT};
    const struct kvc_message message = {"user", "What is it?"};
    const struct kvc_chat_options chat = {
        .template_name = "qwen3",
        .earlier = "[{\"role\": \"user\", \"content\": \"It?\"}, {\"role\": \"assistant\", \"content\": \"It.\"}]",
        .variables = "{\"enable_thinking\": false}",
        .answer = true};
    enum kvc_status status = kvc_engine_open(&with, &engine, error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, path, &model, error);
    if (status == KVC_OK)
        status = kvc_sampler_open(&sampling, kvc_model_info(model)->vocab, &sampler, error);
    if (status == KVC_OK)
        status = kvc_session_open(model, &options, &sessions[0], error);
    options.policy = "full";
    options.record_reads = true;
    if (status == KVC_OK)
        status = kvc_session_open(model, &options, &sessions[1], error);
    if (status == KVC_OK)
        status = kvc_session_prompt_many(sessions, 2, tokens, rows, logits, NULL, error);
    for (int i = 0; i < 3 && status == KVC_OK; i++) {
        status = kvc_decode(sessions, next, 2, logits, NULL, error);
        if (status == KVC_OK)
            next[0] = kvc_sample(sampler, logits);
    }
    if (status == KVC_OK)
        status = kvc_session_prompt(sessions[0], tokens, 20, NULL, logits, error);
    if (status == KVC_OK)
        status = kvc_tokenize(model, "the old sailor", 14, KVC_TOKENIZE_BOS, &made, &count, error);
    if (status == KVC_OK)
        status = kvc_detokenize(model, made, count, true, &text, &bytes, error);
    free(text);
    text = NULL;
    if (status == KVC_OK)
        status = kvc_chat_text_with(model, &chat, &message, 1, &text, error);
    free(made);
    free(text);
    kvc_session_close(sessions[0]);
    kvc_session_close(sessions[1]);
    kvc_sampler_close(sampler);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return status;
}

static void fail_each(const char *path, uint64_t growth) {
    static float logits[2 * 100000];
    struct kvc_error error;
    calls = failing = 0;
    if (whole_run(path, logits, &error) != KVC_OK)
        fail_msg("%s: %s", path, error.text);
    const uint64_t all = calls;
    uint64_t refused = 0;
    for (uint64_t n = 1; n <= all; n += 1 + n / growth) {
        calls = 0;
        failing = n;
        error = (struct kvc_error){KVC_OK, ""};
        const enum kvc_status status = whole_run(path, logits, &error);
        failing = 0;
        if (status == KVC_OK)
            continue;
        if (status != KVC_RESOURCE || !error.text[0] || strchr(error.text, '\n'))
            fail_msg("allocation %d of %d: status %d, \"%s\"", (int)n, (int)all, (int)status, error.text);
        refused++;
    }
    print_message("%d allocations in a run of %s, %d made to fail\n", (int)all, path, (int)refused);
    assert_true(refused > 10);
}

/* Three steps, each of which may fail once; false: the policy itself failed and the session is lost. */
static bool three_steps(struct kvc_engine *engine, const char *policy, uint64_t fail_at, float *logits) {
    struct kvc_session_options options;
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_error error;
    int32_t tokens[40];
    bool alive = true;
    for (int i = 0; i < 40; i++)
        tokens[i] = 1 + i * 7 % 250;
    kvc_session_defaults(&options);
    options.policy = policy;
    assert_int_equal(kvc_model_open(engine, model_path, &model, &error),
                     KVC_OK); /* opened again, so that no buffers exist before */
    assert_int_equal(kvc_session_open(model, &options, &session, &error), KVC_OK);
    assert_int_equal(kvc_session_prompt(session, tokens, 40, NULL, NULL, &error), KVC_OK);
    calls = 0;
    failing = fail_at;
    for (int i = 0; i < 3 && alive; i++) {
        enum kvc_status status = kvc_decode(&session, &tokens[i], 1, logits, NULL, &error);
        failing = calls < failing ? failing : 0;
        if (status == KVC_RESOURCE) {
            status = kvc_decode(&session, &tokens[i], 1, logits, NULL, &error);
            alive = status != KVC_USAGE; /* the message says "close it" */
        }
        assert_true(status == KVC_OK || !alive);
    }
    failing = 0;
    kvc_session_close(session);
    kvc_model_close(model);
    return alive;
}

/* If a step fails for lack of memory, the session is the same as before. */
static void test_step_again(void **state) {
    (void)state;
    static float expected[100000], logits[100000];
    static const struct {
        const char *policy;
        uint64_t lost; /* allocations in the middle of a step, whose failure may lose the session */
    } cases[] = {{"morphkv:budget=20,window=8,every=2", 3}, /* the policy counts its steps */
                 {"streaming:budget=41,sinks=4,positions=cache", 22}};
    struct kvc_engine *engine;
    struct kvc_error error;
    const struct kvc_engine_options with = {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT};
    assert_int_equal(kvc_engine_open(&with, &engine, &error), KVC_OK);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_true(three_steps(engine, cases[c].policy, 0, expected));
        const uint64_t all = calls;
        uint64_t again = 0;
        for (uint64_t n = 1; n <= all; n++) {
            memset(logits, 0, sizeof logits);
            if (!three_steps(engine, cases[c].policy, n, logits))
                continue;
            assert_memory_equal(logits, expected, sizeof logits);
            again++;
        }
        print_message("%s: %d allocations, %d lose the session\n", cases[c].policy, (int)all, (int)(all - again));
        assert_true(again > 5 && all - again <= cases[c].lost);
    }
    kvc_engine_close(engine);
}

/* If an estimate cannot read how many heads of duo keep everything, it is not too low. */
static void test_estimate(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {4, 8, 4, 64};
    struct kvc_estimate all, found;
    struct kvc_engine *engine;
    struct kvc_error error;
    const struct kvc_engine_options with = {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT};
    assert_int_equal(kvc_engine_open(&with, &engine, &error), KVC_OK);
    uint64_t allocations = 1, done = 0;
    for (uint64_t n = 0; n <= allocations; n++) { /* 0: none fails */
        calls = 0;
        failing = n;
        const enum kvc_status status = kvc_estimate(engine, "duo:file=every-other,recent=20", &geometry, 8,
                                                    kvc_entry_types(KVC_F16), 2000, 10, n ? &found : &all, &error);
        failing = 0;
        allocations = n ? allocations : calls;
        if (status != KVC_OK && (!n || status != KVC_RESOURCE))
            fail_msg("allocation %d: status %d, %s", (int)n, (int)status, error.text);
        if (status != KVC_OK || !n)
            continue;
        assert_true(found.cache_bytes >= all.cache_bytes);
        done += found.cache_bytes > all.cache_bytes;
    }
    assert_true(done > 0);
    kvc_engine_close(engine);
}

/* The text of a token can be obtained without allocating memory. */
static void test_token_bytes(void **state) {
    (void)state;
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_error error;
    char path[512], text[64];
    size_t bytes, all = 0;
    const struct kvc_engine_options with = {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT};
    assert_int_equal(kvc_engine_open(&with, &engine, &error), KVC_OK);
    assert_int_equal(kvc_model_open(engine, demo_path(path, sizeof path), &model, &error), KVC_OK);
    calls = 0;
    for (uint32_t token = 0; token < kvc_model_info(model)->vocab; token++)
        for (int first = 0; first < 2; first++) {
            FINE(kvc_token_bytes(model, (int32_t)token, first, text, sizeof text, &bytes, &error));
            all += bytes;
        }
    assert_int_equal(calls, 0);
    assert_true(all > kvc_model_info(model)->vocab);
    kvc_model_close(model);
    kvc_engine_close(engine);
    const struct kvc_model none = {.info = {.path = "none"}};
    assert_int_equal(kvc_token_bytes(&none, 1, false, text, sizeof text, &bytes, &error), KVC_INPUT); /* no tokenizer */
}

static void test_gguf(void **state) {
    (void)state;
    fail_each(model_path, kvc_test_thinned() ? 3 : 150);
}

static void test_folder(void **state) {
    (void)state;
    char path[512];
    fail_each(demo_path(path, sizeof path), kvc_test_thinned() ? 2 : 60);
}

static int set_up(void **state) {
    (void)state;
    struct kvc_error error;
    const char *folder = getenv("TMPDIR");
    snprintf(model_path, sizeof model_path, "%s/kvcull-no-memory-%ld.gguf", folder ? folder : "/tmp", (long)getpid());
    if (kvc_make_model("tiny", KVC_Q8_0, 3, model_path, &error) == KVC_OK)
        return 0;
    print_error("%s\n", error.text);
    return -1;
}

static int tear_down(void **state) {
    (void)state;
    remove(model_path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step_again), cmocka_unit_test(test_estimate),
                                       cmocka_unit_test(test_token_bytes), cmocka_unit_test(test_gguf),
                                       cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
