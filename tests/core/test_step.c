/* test_step.c - a decode step never waits for the host: between its first operation and its logits it copies nothing to
 * or from the device, waits for nothing, and creates or frees no buffer. Counted over every case of kvcull verify, on a
 * backend that wraps cpu with two threads and counts calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "tests/check.h"

/* ---- the backend ---- */

enum { UPLOADS, DOWNLOADS, WAITS, MADE, FREED, KINDS };
static const char *const kinds[KINDS] = {"uploads", "downloads", "waits", "buffers made", "buffers freed"};

static const struct kvc_ops *cpu;
static struct kvc_ops table;
static bool within;                                /* inside a step, before its logits */
static const float *logits_start, *logits_end;     /* the memory for the logits */
static bool expected;                              /* a violation that the test expects: nothing is printed */
static unsigned counted[KINDS], last_trips, steps; /* last_trips: downloads after the layers of the last step */

static void note(int kind) { counted[kind] += within; }

static void counting_embed(struct kvc_device *device, const struct kvc_embed *args) {
    if (logits_start) { /* a step, not a prompt */
        within = true;
        last_trips = 0;
        steps++;
    }
    cpu->embed(device, args);
}
static void counting_download(struct kvc_device *device, void *to, struct kvc_span from, size_t bytes) {
    if ((float *)to >= logits_start && (float *)to < logits_end)
        within = false;
    note(DOWNLOADS);
    last_trips += !within;
    cpu->download(device, to, from, bytes);
}
static void counting_upload(struct kvc_device *device, struct kvc_span to, const void *from, size_t bytes) {
    note(UPLOADS);
    cpu->upload(device, to, from, bytes);
}
static enum kvc_status counting_sync(struct kvc_device *device, struct kvc_error *error) {
    note(WAITS);
    return cpu->sync(device, error);
}
static enum kvc_status counting_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                       struct kvc_buffer **buffer, struct kvc_error *error) {
    note(MADE);
    return cpu->buffer_create(device, kind, bytes, buffer, error);
}
static void counting_free(struct kvc_device *device, struct kvc_buffer *buffer) {
    if (buffer)
        note(FREED);
    cpu->buffer_free(device, buffer);
}
static enum kvc_status counting_take(struct kvc_device *device, struct kvc_arena *arena, uint32_t count,
                                     uint32_t *blocks, struct kvc_error *error) {
    note(MADE);
    return cpu->arena_take(device, arena, count, blocks, error);
}
static void counting_give(struct kvc_device *device, struct kvc_arena *arena, uint32_t count, const uint32_t *blocks) {
    note(FREED);
    cpu->arena_return(device, arena, count, blocks);
}

static enum kvc_status counting_open(const char *path, unsigned index, int threads, enum kvc_math math,
                                     struct kvc_device **device, struct kvc_error *error) {
    const enum kvc_status status = kvc_backend_cpu.open(path, index, threads, math, device, error);
    if (status != KVC_OK)
        return status;
    cpu = (*device)->ops;
    table = *cpu;
    table.embed = counting_embed;
    table.download = counting_download;
    table.upload = counting_upload;
    table.sync = counting_sync;
    table.buffer_create = counting_create;
    table.buffer_free = counting_free;
    table.arena_take = counting_take;
    table.arena_return = counting_give;
    (*device)->ops = &table;
    return KVC_OK;
}

static bool always(char *detail, size_t capacity) {
    snprintf(detail, capacity, "cpu, counted");
    return true;
}

static const struct kvc_backend_class counting = {.name = "counting", .usable = always, .open = counting_open};

/* This program's backends, which replace the library's list. */
const struct kvc_backend_class *const kvc_backend_list[] = {&counting, NULL};

/* ---- the steps ---- */

static struct kvc_engine *engine;
static struct kvc_model *model;
static struct kvc_error error;

static void open_folder(const char *folder) {
    const char *source = getenv("top_srcdir");
    char path[512];
    snprintf(path, sizeof path, "%s/%s", source ? source : ".", folder);
    FINE(kvc_model_open(engine, path, &model, &error));
}

static int open_model(void **state) {
    const struct kvc_engine_options options = {.backend = "counting", .threads = 2, .math = KVC_MATH_EXACT};
    (void)state;
    FINE(kvc_engine_open(&options, &engine, &error));
    open_folder("data/demo");
    return 0;
}
static int close_model(void **state) {
    (void)state;
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}

enum { BATCH = 2 };

/* Runs a prompt and steps after it, and returns how many steps waited for data from the device. Two sessions take each
 * step. */
static unsigned run(const char *spec, enum kvc_type type, uint32_t prompt, uint32_t count) {
    const uint32_t vocab = kvc_model_info(model)->vocab;
    struct kvc_session *session[BATCH];
    float *logits = malloc(BATCH * vocab * sizeof *logits);
    int32_t *tokens = malloc(prompt * sizeof *tokens), next[BATCH];
    unsigned bad = 0;
    assert_true(logits && tokens);
    for (uint32_t i = 0; i < prompt; i++)
        tokens[i] = (int32_t)(i * 7919u % vocab);
    for (int i = 0; i < BATCH; i++) {
        struct kvc_session_options options;
        kvc_session_defaults(&options);
        options.policy = spec;
        options.cache_type = kvc_entry_types(type);
        FINE(kvc_session_open(model, &options, &session[i], &error));
        FINE(kvc_session_prompt(session[i], tokens, prompt - (unsigned)i, NULL, logits, &error));
    }
    memset(counted, 0, sizeof counted);
    steps = 0;
    logits_start = logits;
    logits_end = logits + BATCH * vocab;
    for (uint32_t step = 0; step < count; step++) {
        for (int i = 0; i < BATCH; i++)
            next[i] = (int32_t)((step * 31 + (unsigned)i * 5) % vocab);
        FINE(kvc_decode(session, next, BATCH, logits, NULL, &error));
        assert_false(within); /* the logits arrived */
        if (last_trips > 2)   /* logits, and the contents of the lists */
            print_error("%s, step %u: %u downloads at its end\n", spec, step + 1, last_trips);
        bad += last_trips > 2;
        for (int k = 0; k < KINDS; k++) {
            if (counted[k] && !expected)
                print_error("%s, %u tokens, step %u: %u %s within it\n", spec, prompt, step + 1, counted[k], kinds[k]);
            bad += counted[k] > 0;
            counted[k] = 0;
        }
    }
    assert_int_equal(steps, count);
    logits_start = logits_end = NULL;
    for (int i = 0; i < BATCH; i++)
        kvc_session_close(session[i]);
    free(logits);
    free(tokens);
    return bad;
}

/* Every row "method SPEC HASHES" of the stored hashes; "int8:SPEC" is the same method with int8 activations. */
static void every_case(void **state) {
    const char *source = getenv("top_srcdir");
    char path[512], line[512], kind[16], spec[400];
    unsigned cases = 0;
    FILE *file;
    (void)state;
    snprintf(path, sizeof path, "%s/data/hashes.txt", source ? source : ".");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %399s", kind, spec) != 2 || strcmp(kind, "method") != 0 ||
            strncmp(spec, "int8:", 5) == 0 || strncmp(spec, "int16:", 6) == 0)
            continue;
        cases++;
        if (!kvc_test_thinned() || cases % 16 == 0)
            assert_int_equal(run(spec, KVC_F16, 90, 5), 0);
    }
    fclose(file);
    assert_true(cases >= 50);
}

/* Steps in which blocks fill up, budgets are reached, and pages grow. */
static void growing(void **state) {
    static const char *const specs[] = {
        "full",
        "window:budget=40",
        "streaming:budget=40",
        "streaming:budget=40,positions=cache",
        "tova:budget=40",
        "random:budget=40",
        "knorm:budget=40",
        "keydiff:budget=40,recent=4",
        "qfilter:budget=40,file=drawn",
        "dms:file=drawn,window=20",
        "dms:file=drawn,window=20,scorer=kvzap",
        "kvzap:budget=40,file=drawn",
        "fastkvzip:budget=40,file=drawn",
        "snapkv-decode:budget=40,window=8,every=4",
        "expected:budget=40+rkv:budget=40,window=8,every=4",
        "triattention:budget=40,stats=drawn,every=4",
        "h2o:budget=40",
        "h2o:budget=40,per=head",
        "keyformer:budget=40",
        "scissorhands:budget=40,history=8",
        "morphkv:budget=40,window=8,every=4",
        "morphkv:budget=40,window=8,scores=logits",
        "lacache:budget=40,span=2,sinks=4",
        "duo:file=every-other,sinks=4,recent=36",
        "quest:budget=40",
        "sparq:budget=40",
        "topk:budget=40",
        "hsa:budget=40",
        "h2o:budget=40,stages=decode",
        "rocketkv-mt:budget=16,window=4+h2o:budget=40",
        "rocketkv-mt:budget=80,window=4+morphkv:budget=40,window=8",
        "rocketkv-mt:budget=40,window=4+window:budget=24",
    };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        if (kvc_test_thinned() && i % 6)
            continue;
        assert_int_equal(run(specs[i], KVC_F16, 30, 15), 0);
        assert_int_equal(run(specs[i], KVC_Q8_0, 250, 10), 0);
    }
}

/* The host is never asked which experts a step reads. */
static void of_experts(void **state) {
    (void)state;
    kvc_model_close(model);
    open_folder("tests/data/golden/qwen3-moe");
    assert_int_equal(run("full", KVC_F16, 30, 10), 0);
    assert_int_equal(run("streaming:budget=20", KVC_F16, 30, 10), 0);
    kvc_model_close(model);
    open_folder("data/demo");
}

/* A method that reads positions within the step is detected. */
static enum kvc_status look(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *cause) {
    int32_t positions[1];
    size_t count;
    const struct kvc_keep keep = {.tail = 40, .recent = INT64_MAX};
    enum kvc_status status = kvc_stage_keep(stage, &keep, cause);
    (void)values;
    if (status == KVC_OK)
        status = kvc_stage_read_positions(stage, 0, positions, 1, &count, cause);
    assert_true(status != KVC_OK || count == 40); /* the remaining entries, though the step is not over */
    return status;
}

static void found_out(void **state) {
    static const struct kvc_option none[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
    static const struct kvc_policy_class looks = {
        .name = "looks", .summary = "looks", .stages = KVC_STAGE_DECODE, .options = none, .decode = look};
    (void)state;
    FINE(kvc_engine_register(engine, &looks, &error));
    expected = true;
    assert_true(run("looks", KVC_F16, 50, 1) >= 1);
    expected = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case), cmocka_unit_test(growing),
                                       cmocka_unit_test(of_experts), cmocka_unit_test(found_out)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
