/* test_stage.c - external policies that misuse a stage's functions, sessions that fail alone, memory limits, and
 * replays out of order: each is refused in one line and harms nothing else. */
#include "kvcull/check.h"
#include "kvcull/policy.h"
#include "tests/core/whole_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t vocab;
static int32_t tokens[600];
static struct kvc_error error;

/* ---- a policy that does what its option says; most cases are errors ---- */

static const struct kvc_option options[] = {{"do", KVC_OPTION_INT, "0", 0, 100, NULL, "which of the cases below"},
                                            {"at", KVC_OPTION_INT, "0", 0, 100, NULL, "decode step in which to do it"},
                                            {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

static uint32_t four(const struct kvc_values *values) {
    (void)values;
    return 4;
}

static enum kvc_status keep_tail(struct kvc_stage *stage, uint64_t tail, const struct kvc_scores *scores,
                                 struct kvc_error *e) {
    const struct kvc_keep keep = {.tail = tail, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, e);
}

/* Keeps every third entry and the last one, by index or by position, or lists that must be refused. */
static enum kvc_status keep_thirds(struct kvc_stage *stage, int how, struct kvc_error *e) {
    const uint32_t n = (uint32_t)kvc_stage_info(stage)->entries;
    static uint32_t indices[1000];
    static int32_t positions[1000];
    const int32_t *lists[8];
    size_t counts[8];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i % 3 == 0 || i + 1 == n)
            indices[count++] = i;
    if (how == 52)
        indices[count - 1] = indices[count - 2] - 1;
    if (how == 53)
        indices[count - 1] = indices[count - 2];
    if (how == 54)
        indices[count - 1] = n;
    if (how != 51)
        return kvc_stage_keep_indices(stage, indices, how == 55 ? 0 : count, e);
    for (uint32_t i = 0; i < count; i++) /* nothing has been evicted: positions are indices */
        positions[i] = (int32_t)indices[i];
    assert_true(kvc_stage_info(stage)->kv_heads <= 8);
    for (uint32_t h = 0; h < kvc_stage_info(stage)->kv_heads; h++) {
        lists[h] = positions;
        counts[h] = count;
    }
    return kvc_stage_keep_positions(stage, lists, counts, e);
}

/* Plans to keep every other entry of every head, and keeps them. */
static enum kvc_status keep_by_plan(struct kvc_stage *stage, struct kvc_error *e) {
    const uint32_t n = (uint32_t)kvc_stage_info(stage)->entries;
    static uint32_t indices[1000];
    for (uint32_t i = 0; i < n / 2; i++)
        indices[i] = 2 * i;
    for (uint32_t h = 0; h < kvc_stage_info(stage)->kv_heads; h++)
        FINE(kvc_stage_plan(stage, h, indices, n / 2, e));
    return kvc_stage_keep_planned(stage, e);
}

static enum kvc_status act(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct kvc_scores *scores = NULL, *more;
    static float host[2000];
    int32_t positions[8];
    size_t count;
    const struct kvc_keep no_scores = {.top = 3, .recent = INT64_MAX};
    enum kvc_status status = kvc_stage_scores(stage, &scores, e);
    if (status != KVC_OK)
        return status;
    switch (kvc_value_int(values, "do")) {
    case 1: /* there is no seventh array */
        for (int i = 0; i < 6 && status == KVC_OK; i++)
            status = kvc_stage_scores(stage, &more, e);
        return status;
    case 2:
        return kvc_stage_write_scores(stage, scores, info->kv_heads, host, 1, e);
    case 3:
        return kvc_stage_write_scores(stage, scores, 0, host, (size_t)info->entries + 1, e);
    case 4:
        return kvc_stage_pool(stage, scores, 0, 4, KVC_POOL_MAX, e);
    case 5:
        return kvc_stage_keep(stage, &no_scores, e);
    case 6:
        return kvc_stage_ring_write(stage, 0, 5, 5, KVC_ROW_PROBABILITIES, e);
    case 7:
        return kvc_stage_ring_fuse(stage, 0, 4, 5, KVC_ROW_PROBABILITIES, KVC_FUSE_SUM, 0, scores, e);
    case 8:
        return kvc_stage_ring_write(stage, 0, 0, 1, KVC_ROW_PROBABILITIES, e);
    case 9: /* The scores refer to old indices after an eviction. */
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
        FINE(keep_tail(stage, 10, NULL, e));
        assert_int_equal(info->entries, 10);
        if (kvc_value_int(values, "do") == 9)
            return kvc_stage_scores(stage, &more, e);
        if (kvc_value_int(values, "do") == 10)
            return kvc_stage_pool(stage, scores, 0, 3, KVC_POOL_MAX, e);
        if (kvc_value_int(values, "do") == 11)
            return keep_tail(stage, 5, scores, e);
        if (kvc_value_int(values, "do") == 12)
            return kvc_stage_window_mass(stage, 1, scores, e);
        if (kvc_value_int(values, "do") == 13)
            return kvc_stage_read_scores(stage, scores, 0, host, 10, &count, e);
        return kvc_stage_write_scores(stage, scores, 0, host, 1, e);
    case 15: /* All of this is valid: two evictions, a short array for positions, and a keep count above the number of
                entries. */
        FINE(keep_tail(stage, 20, NULL, e));
        FINE(keep_tail(stage, UINT64_MAX, NULL, e));
        assert_true(info->entries == 20 || info->turn == 2);
        FINE(keep_tail(stage, 7, NULL, e));
        FINE(kvc_stage_read_positions(stage, 1, positions, 2, &count, e));
        assert_int_equal(count, 7);
        assert_int_equal(positions[1], (int)info->now - 6);
        return KVC_OK;
    case 16: /* keeps nothing */
        return keep_tail(stage, 0, NULL, e);
    case 17:
        return kvc_fail(e, KVC_RESOURCE, "no memory for a wild idea");
    case 30: /* values that the enum does not have */
        return kvc_stage_pool(stage, scores, 0, 3, (enum kvc_pooling)99, e);
    case 31:
        return kvc_stage_ring_write(stage, 0, 2, 1, (enum kvc_row_kind)99, e);
    case 32:
        return kvc_stage_ring_fuse(stage, 0, 2, 1, (enum kvc_row_kind)99, KVC_FUSE_SUM, 0, scores, e);
    case 33:
        return kvc_stage_ring_fuse(stage, 0, 2, 1, KVC_ROW_PROBABILITIES, (enum kvc_fusion)99, 0, scores, e);
    case 34:
        return kvc_stage_select(stage, &(struct kvc_select){.kind = (enum kvc_select_kind)99, .top = 1}, e);
    case 40: /* scores computed before the stage reached this layer */
    case 41:
    case 42:
    case 43:
    case 44:
        FINE(kvc_stage_layer(stage, info->layer, e));
        if (kvc_value_int(values, "do") == 40)
            return keep_tail(stage, 5, scores, e);
        if (kvc_value_int(values, "do") == 41)
            return kvc_stage_pool(stage, scores, 0, 3, KVC_POOL_MAX, e);
        if (kvc_value_int(values, "do") == 42)
            return kvc_stage_window_mass(stage, 1, scores, e);
        if (kvc_value_int(values, "do") == 43)
            return kvc_stage_read_scores(stage, scores, 0, host, 10, &count, e);
        return kvc_stage_column_scores(stage, 0, 1, scores, e);
    case 45:
        FINE(kvc_stage_head_scores(stage, &more, e));
        return keep_tail(stage, 5, more, e);
    case 46: /* positions in descending order, or twice */
    case 47: {
        const int32_t wrong[2][3] = {{1, 5, 3}, {1, 3, 3}}, right[] = {1, 2};
        const int32_t *lists[8] = {right, wrong[kvc_value_int(values, "do") - 46]};
        const size_t counts[8] = {2, 3};
        assert_true(info->kv_heads >= 2 && info->kv_heads <= 8);
        return kvc_stage_keep_positions(stage, lists, counts, e);
    }
    case 50: /* every third entry and the last one, by index, and then all of those */
    case 51: /* the same by position */
    case 52: /* indices that descend */
    case 53: /* the same index twice */
    case 54: /* one beyond the head's entries */
    case 55: /* none */
        return keep_thirds(stage, (int)kvc_value_int(values, "do"), e);
    case 60: /* a plan as long as the prompt */
        return keep_by_plan(stage, e);
    default:
        return KVC_OK;
    }
}

static enum kvc_status decode(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    return info->step == (uint64_t)kvc_value_int(values, "at") && info->layer == 0 ? act(stage, values, e) : KVC_OK;
}

static enum kvc_status prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    return kvc_value_int(values, "at") == 0 ? act(stage, values, e) : KVC_OK;
}

static enum kvc_status evicting_look(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    return keep_tail(stage, 1, NULL, e);
}

static const struct kvc_policy_class wild = {.name = "wild",
                                             .summary = "does wrong things",
                                             .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
                                             .options = options,
                                             .queries = four,
                                             .columns = four,
                                             .prompt = prompt,
                                             .decode = decode},
                                     peeping = {.name = "peeping",
                                                .summary = "evicts while it should look",
                                                .stages = KVC_STAGE_PROMPT,
                                                .observe_prompt = evicting_look,
                                                .prompt = evicting_look};

/* A policy with the requested number of state columns, in two classes that can be joined. */
static const struct kvc_option wide[] = {{"columns", KVC_OPTION_INT, "4", 0, 1 << 20, NULL, "state columns"},
                                         {NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};

static uint32_t wide_columns(const struct kvc_values *values) { return (uint32_t)kvc_value_int(values, "columns"); }

static enum kvc_status idle(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)stage, (void)values, (void)e;
    return KVC_OK;
}

static const struct kvc_policy_class broad = {.name = "broad",
                                              .summary = "has columns",
                                              .stages = KVC_STAGE_PROMPT,
                                              .options = wide,
                                              .columns = wide_columns,
                                              .prompt = idle},
                                     deep = {.name = "deep",
                                             .summary = "has columns",
                                             .stages = KVC_STAGE_DECODE,
                                             .options = wide,
                                             .columns = wide_columns,
                                             .decode = idle};

static struct kvc_session *open_on(struct kvc_model *with, const char *policy, uint64_t limit) {
    struct kvc_session_options session_options;
    struct kvc_session *session;
    kvc_session_defaults(&session_options);
    session_options.policy = policy;
    session_options.memory_limit = limit;
    FINE(kvc_session_open(with, &session_options, &session, &error));
    return session;
}

static struct kvc_session *open_with(const char *policy, uint64_t limit) { return open_on(model, policy, limit); }

static void test_wrong_stages(void **state) {
    (void)state;
    static const char *const says[] = {"",
                                       "at most 6",
                                       "head",
                                       "entries",
                                       "odd",
                                       "by score",
                                       "state columns",
                                       "a ring of",
                                       "a ring of 0",
                                       "after an eviction",
                                       "after an eviction",
                                       "before an eviction",
                                       "after an eviction",
                                       "after an eviction",
                                       "after an eviction"};
    const size_t rows = kvc_test_thinned() ? 40 : 300;
    for (int i = 1; i < 15; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "wild:do=%d", i);
        struct kvc_session *session = open_with(spec, 0);
        REFUSED(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error), KVC_USAGE, says[i]);
        assert_non_null(strstr(error.text, "policy wild, layer 0"));
        kvc_session_close(session);
    }
    for (int i = 30; i < 35; i++) {
        static const char *const of[] = {"pooling 99", "kind 99", "kind 99", "fusion 99", "kind 99"};
        char spec[40];
        snprintf(spec, sizeof spec, "wild:do=%d", i);
        struct kvc_session *session = open_with(spec, 0);
        REFUSED(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error), KVC_USAGE, of[i - 30]);
        kvc_session_close(session);
    }
    for (int i = 40; i < 48; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "wild:do=%d", i);
        struct kvc_session *session = open_with(spec, 0);
        REFUSED(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error), KVC_USAGE,
                i < 45    ? "another stage or layer"
                : i == 45 ? "per query head"
                : i == 46 ? "position 3 after 5, of head 1"
                          : "position 3 after 3, of head 1");
        kvc_session_close(session);
    }
    struct kvc_session *session = open_with("peeping", 0);
    REFUSED(kvc_session_prompt(session, tokens, rows, NULL, NULL, &error), KVC_USAGE, "observes");
    kvc_session_close(session);
}

/* A method reaches its own columns only, and all methods together have a limit. */
static void test_columns(void **state) {
    (void)state;
    struct kvc_session_options with;
    struct kvc_session *session = open_with("wild:do=6+deep:columns=4", 0);
    REFUSED(kvc_session_prompt(session, tokens, 40, NULL, NULL, &error), KVC_USAGE,
            "state columns 0 to 4; its class asked for 4");
    kvc_session_close(session);
    kvc_session_defaults(&with);
    with.policy = "broad:columns=65537";
    REFUSED(kvc_session_open(model, &with, &session, &error), KVC_USAGE, "broad: 65537 state columns; at most 65536");
    with.policy = "broad:columns=40000+deep:columns=40000";
    REFUSED(kvc_session_open(model, &with, &session, &error), KVC_USAGE, "more than 65535 values of state per entry");
}

static void test_odd_stages(void **state) {
    (void)state;
    struct kvc_session_stats stats;
    float *logits = malloc(vocab * sizeof *logits);
    assert_non_null(logits);
    for (int i = 15; i < 17; i++) { /* seven entries; none at all */
        char spec[40];
        snprintf(spec, sizeof spec, "wild:do=%d", i);
        struct kvc_session *session = open_with(spec, 0);
        FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
        kvc_session_stats(session, &stats);
        assert_int_equal(stats.entries_most, i == 15 ? 7 : 0);
        FINE(kvc_decode(&session, tokens, 1, logits, NULL, &error));
        FINE(kvc_session_prompt(session, tokens, 2, NULL, NULL, &error));
        kvc_session_stats(session, &stats);
        assert_int_equal(stats.entries_most, i == 15 ? 7 : 0);
        kvc_session_close(session);
    }
    free(logits);
}

/* Entries kept by index and by position are the same ones; lists that do not ascend or go too far are refused. */
static void test_keep_indices(void **state) {
    (void)state;
    static const char *const says[] = {"ascend", "ascend", "keep index 300 of a head with 300 entries"};
    int32_t kept[2][400];
    size_t counts[2];
    for (int way = 0; way < 2; way++) {
        struct kvc_session *session = open_with(way ? "wild:do=51" : "wild:do=50", 0);
        FINE(kvc_session_prompt(session, tokens, 301, NULL, NULL, &error));
        for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++)
            for (uint32_t h = 0; h < kvc_model_info(model)->kv_heads; h++) {
                FINE(kvc_session_positions(session, l, h, kept[way], 400, &counts[way], &error));
                assert_int_equal(counts[way], 101);
                for (int32_t i = 0; i < 101; i++)
                    assert_int_equal(kept[way][i], 3 * i);
            }
        kvc_session_close(session);
    }
    for (int i = 52; i < 55; i++) {
        char spec[40];
        snprintf(spec, sizeof spec, "wild:do=%d", i);
        struct kvc_session *session = open_with(spec, 0);
        REFUSED(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error), KVC_USAGE, says[i - 52]);
        kvc_session_close(session);
    }
    struct kvc_session_stats stats;
    struct kvc_session *session = open_with("wild:do=55", 0);
    FINE(kvc_session_prompt(session, tokens, 300, NULL, NULL, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.entries_most, 0);
    kvc_session_close(session);
}

/* A prompt's plan is as long as the prompt; its memory is freed once the plan has been kept. With one thread, the
 * threads' own scratch memory does not depend on the division of the work among them. */
static void test_plans_are_freed(void **state) {
    (void)state;
    const struct kvc_engine_options options_of_one = {.threads = 1, .math = KVC_MATH_EXACT};
    struct kvc_engine *single;
    struct kvc_model *same;
    uint64_t scratch[2];
    FINE(kvc_engine_open(&options_of_one, &single, &error));
    FINE(kvc_engine_register(single, &wild, &error));
    FINE(kvc_model_open(single, model_path, &same, &error));
    for (int plans = 0; plans < 2; plans++) {
        struct kvc_memory memory;
        struct kvc_session *session = open_on(same, plans ? "wild:do=60" : "wild:do=50", 0);
        FINE(kvc_session_prompt(session, tokens, 600, NULL, NULL, &error));
        kvc_engine_memory(single, &memory);
        scratch[plans] = memory.now[KVC_MEMORY_SCRATCH];
        kvc_session_close(session);
    }
    kvc_model_close(same);
    kvc_engine_close(single);
    assert_int_equal(scratch[0], scratch[1]);
}

static void test_register(void **state) {
    (void)state;
    static const struct kvc_option common[] = {{"layers", KVC_OPTION_INT, "0", 0, 1, NULL, "h"},
                                               {NULL, 0, NULL, 0, 0, NULL, NULL}},
                                   twice[] = {{"a", KVC_OPTION_INT, "0", 0, 1, NULL, "h"},
                                              {"a", KVC_OPTION_INT, "0", 0, 1, NULL, "h"},
                                              {NULL, 0, NULL, 0, 0, NULL, NULL}},
                                   no_choice[] = {{"a", KVC_OPTION_CHOICE, "x", 0, 0, NULL, "h"},
                                                  {NULL, 0, NULL, 0, 0, NULL, NULL}};
    static const struct kvc_option comma[] = {{"a,b", KVC_OPTION_INT, "0", 0, 1, NULL, "h"},
                                              {NULL, 0, NULL, 0, 0, NULL, NULL}};
    static const struct kvc_option no_kind[] = {{"a", (enum kvc_option_kind)99, "x", 0, 0, NULL, "h"},
                                                {NULL, 0, NULL, 0, 0, NULL, NULL}};
    struct kvc_policy_class other = wild;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "already");
    other.name = "a:b";
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "name");
    other.name = "other";
    other.stages |= KVC_STAGE_SELECT;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "stage");
    other.stages = KVC_STAGE_PROMPT;
    other.options = common;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "layers");
    other.options = twice;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "two options");
    other.options = no_choice;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "choices");
    other.options = comma;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "an option's name is letters");
    other.options = no_kind;
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "kind 99");
    other.options = NULL;
    other.forecast = &(const struct kvc_forecast){.ragged = (enum kvc_ragged)99};
    REFUSED(kvc_engine_register(engine, &other, &error), KVC_USAGE, "ragged 99");
}

/* A policy lacks memory in the middle of a step: its session ends, and the others' logits are the same as alone. */
static void test_fails_alone(void **state) {
    (void)state;
    static const char *const policies[] = {"full", "wild:do=17,at=2", "morphkv:budget=40", "wild"};
    struct kvc_session *sessions[4], *alone;
    enum kvc_status statuses[4];
    float *logits = malloc(4 * vocab * sizeof *logits), *single = malloc(vocab * sizeof *single);
    const int32_t next[4] = {5, 6, 7, 8};
    assert_true(logits && single);
    for (int i = 0; i < 4; i++) {
        sessions[i] = open_with(policies[i], 0);
        FINE(kvc_session_prompt(sessions[i], tokens, 100, NULL, NULL, &error));
    }
    FINE(kvc_decode(sessions, next, 4, logits, statuses, &error));
    logits[vocab] = 12345;
    REFUSED(kvc_decode(sessions, next, 4, logits, statuses, &error), KVC_RESOURCE, "session 1: policy wild, layer 0");
    assert_true(logits[vocab] == 12345);
    for (int i = 0; i < 4; i++)
        assert_int_equal(statuses[i], i == 1 ? KVC_RESOURCE : KVC_OK);
    REFUSED(kvc_decode(&sessions[1], next, 1, logits, NULL, &error), KVC_USAGE, "close it");
    for (int i = 0; i < 4; i++) {
        if (i == 1)
            continue;
        alone = open_with(policies[i], 0);
        FINE(kvc_session_prompt(alone, tokens, 100, NULL, NULL, &error));
        FINE(kvc_decode(&alone, &next[i], 1, NULL, NULL, &error));
        FINE(kvc_decode(&alone, &next[i], 1, single, NULL, &error));
        assert_memory_equal(single, logits + (size_t)i * vocab, vocab * sizeof *single);
        kvc_session_close(alone);
    }
    for (int i = 0; i < 4; i++)
        kvc_session_close(sessions[i]);
    free(logits);
    free(single);
}

/* memory_limit bounds cache and state at every moment; a run's peak is enough for the same run, one byte less is not.
 */
static void test_limit(void **state) {
    (void)state;
    static const char *const policies[] = {"full", "morphkv:budget=40,window=8", "snapkv:budget=40"};
    for (size_t p = 0; p < 3; p++) {
        struct kvc_session_stats stats = {0};
        for (int run = 0; run < 3; run++) {
            struct kvc_session *session = open_with(policies[p], stats.peak_bytes - (run == 2));
            enum kvc_status status =
                kvc_session_prompt(session, tokens, kvc_test_thinned() ? 270 : 600, NULL, NULL, &error);
            for (int i = 0; i < 4 && status == KVC_OK; i++)
                status = kvc_decode(&session, &tokens[i], 1, NULL, NULL, &error);
            assert_int_equal(status, run == 2 ? KVC_RESOURCE : KVC_OK);
            if (run == 2)
                assert_non_null(strstr(error.text, "limit"));
            if (run == 0)
                kvc_session_stats(session, &stats);
            kvc_session_close(session);
        }
    }
}

/* The interrupt callback is called before every part of a layer, and its answer can end the library call. A small part
 * asks once. */
static int count_down(void *left) { return (*(int *)left)-- == 0; }

static void test_interrupt(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {2, 2, 1, 8};
    const int layers = (int)kvc_model_info(model)->layers;
    struct kvc_session_options options_of;
    struct kvc_session *sessions[2];
    struct kvc_replay *replay;
    static float zeros[40 * 2 * 8];
    int left = 1000;
    kvc_session_defaults(&options_of);
    options_of.chunk = 10;
    FINE(kvc_engine_on_interrupt(engine, count_down, &left, &error));
    FINE(kvc_session_open(model, &options_of, &sessions[0], &error));
    FINE(kvc_session_prompt(sessions[0], tokens, 40, NULL, NULL, &error));
    assert_int_equal(left, 1000 - 4 * layers);
    left = 4 * layers - 1; /* in the last part of the last layer */
    REFUSED(kvc_session_prompt(sessions[0], tokens, 40, NULL, NULL, &error), KVC_USAGE, "interrupted");
    REFUSED(kvc_session_prompt(sessions[0], tokens, 40, NULL, NULL, &error), KVC_USAGE, "close it");
    REFUSED(kvc_decode(sessions, tokens, 1, NULL, NULL, &error), KVC_USAGE, "close it");
    kvc_session_close(sessions[0]);
    for (int i = 0; i < 2; i++)
        FINE(kvc_session_open(model, &options_of, &sessions[i], &error));
    left = 0;
    REFUSED(kvc_session_prompt_many(sessions, 2, tokens, 40, NULL, NULL, &error), KVC_USAGE, "interrupted");
    for (int i = 0; i < 2; i++) {
        REFUSED(kvc_session_prompt(sessions[i], tokens, 40, NULL, NULL, &error), KVC_USAGE, "close it");
        kvc_session_close(sessions[i]);
    }
    FINE(kvc_replay_open(engine, &geometry, &options_of, &replay, &error));
    left = 4;
    FINE(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 40, NULL, &error));
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 40, NULL, &error), KVC_USAGE, "interrupted");
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 40, NULL, &error), KVC_USAGE, "close it");
    kvc_replay_close(replay);
    FINE(kvc_engine_on_interrupt(engine, NULL, NULL, &error));
}

/* A long part asks before each block of its attention. */
static void test_interrupt_within_a_part(void **state) {
    (void)state;
    enum { ROWS = 4096, HEADS = 8, SIZE = 128, BLOCKS = 2 };
    const struct kvc_geometry geometry = {1, HEADS, 1, SIZE};
    struct kvc_session_options options_of;
    struct kvc_replay *replay;
    float *zeros = calloc((size_t)ROWS * HEADS * SIZE, sizeof *zeros);
    int left = BLOCKS; /* the first question comes before the part, the others before its blocks */
    assert_non_null(zeros);
    kvc_session_defaults(&options_of);
    options_of.chunk = ROWS;
    FINE(kvc_engine_on_interrupt(engine, count_down, &left, &error));
    FINE(kvc_replay_open(engine, &geometry, &options_of, &replay, &error));
    REFUSED(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, ROWS, NULL, &error), KVC_USAGE, "interrupted");
    assert_int_equal(left, -1);
    kvc_replay_close(replay);
    FINE(kvc_engine_on_interrupt(engine, NULL, NULL, &error));
    free(zeros);
}

/* Stops a replay's prompt after its second chunk. */
static int stop_second(void *user, uint32_t chunk) {
    ++*(int *)user;
    return chunk == 1;
}

static void test_replay(void **state) {
    (void)state;
    const struct kvc_geometry geometry = {2, 2, 1, 8}, odd = {2, 3, 2, 8};
    struct kvc_session_options session_options;
    struct kvc_replay *replay;
    struct kvc_session_stats stats;
    static float zeros[200 * 2 * 8];
    kvc_session_defaults(&session_options);
    REFUSED(kvc_replay_open(engine, &odd, &session_options, &replay, &error), KVC_USAGE, "dividing");
    FINE(kvc_replay_open(engine, &geometry, &session_options, &replay, &error));
    const float sinks[4] = {1, 2, INFINITY, 4};
    REFUSED(kvc_replay_scores(replay, -1, NULL, &error), KVC_USAGE, "cap -1");
    REFUSED(kvc_replay_scores(replay, INFINITY, NULL, &error), KVC_USAGE, "cap inf");
    REFUSED(kvc_replay_scores(replay, 2, sinks, &error), KVC_USAGE, "sink 0 of layer 1");
    FINE(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 9, NULL, &error));
    REFUSED(kvc_replay_scores(replay, 2, NULL, &error), KVC_USAGE, "before the first prompt");
    REFUSED(kvc_replay_windows(replay, (const uint32_t[]){4, 4}, &error), KVC_USAGE, "before the first prompt");
    REFUSED(kvc_replay_pseudo(replay, 2, zeros, zeros, 3, &error), KVC_USAGE, "3 rows of layer 2: there are 2 layers");
    REFUSED(kvc_replay_probe(replay, 0, INT32_MAX, zeros, 3, &error), KVC_USAGE, "probe of chunk 2147483647");
    kvc_replay_close(replay);
    session_options.policy = "take:budget=8,chunk=20,probe_from=chunk";
    FINE(kvc_replay_open(engine, &geometry, &session_options, &replay, &error));
    int chunks = 0;
    kvc_replay_on_chunk(replay, stop_second, &chunks);
    FINE(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 100, NULL, &error));
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 100, NULL, &error), KVC_USAGE, "stopped by the caller");
    assert_int_equal(chunks, 2);
    REFUSED(kvc_replay_pseudo(replay, 0, zeros, zeros, 3, &error), KVC_USAGE, "close it and open another");
    kvc_replay_close(replay);
    session_options.policy = "wild:do=17,at=2";
    FINE(kvc_replay_open(engine, &geometry, &session_options, &replay, &error));
    REFUSED(kvc_replay_step(replay, 0, zeros, zeros, zeros, NULL, &error), KVC_USAGE, "before the prompt");
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 9, NULL, &error), KVC_USAGE, "layer 1");
    REFUSED(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 0, NULL, &error), KVC_USAGE, "0 prompt rows");
    FINE(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 100, NULL, &error));
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 99, NULL, &error), KVC_USAGE, "99 prompt rows");
    REFUSED(kvc_replay_step(replay, 1, zeros, zeros, zeros, NULL, &error), KVC_USAGE, "before the prompt");
    FINE(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 100, NULL, &error));
    FINE(kvc_replay_step(replay, 0, zeros, zeros, zeros, NULL, &error));
    REFUSED(kvc_replay_step(replay, 0, zeros, zeros, zeros, NULL, &error), KVC_USAGE, "layer 0");
    REFUSED(kvc_replay_prompt(replay, 1, zeros, zeros, zeros, 100, NULL, &error), KVC_USAGE, "prompt rows");
    FINE(kvc_replay_step(replay, 1, zeros, zeros, zeros, NULL, &error));
    kvc_session_stats(kvc_replay_session(replay), &stats);
    assert_int_equal(stats.tokens, 101);
    assert_true(stats.prompt_peak_bytes > 0 && stats.prompt_peak_bytes <= stats.peak_bytes);
    REFUSED(kvc_replay_step(replay, 0, zeros, zeros, zeros, NULL, &error), KVC_RESOURCE, "wild idea");
    REFUSED(kvc_replay_step(replay, 0, zeros, zeros, zeros, NULL, &error), KVC_USAGE, "close it");
    REFUSED(kvc_replay_prompt(replay, 0, zeros, zeros, zeros, 5, NULL, &error), KVC_USAGE, "close it");
    kvc_replay_close(replay);
}

/* ---- window mass, as a policy outside the library reads it ---- */

static int checked_layers;

/* Each row of the window's probabilities sums to 1 over the entries that its query sees, its own included. There are
 * four rows per head. */
static enum kvc_status add_up(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    static float mass[2000];
    struct kvc_scores *scores;
    size_t count;
    enum kvc_status status = kvc_stage_scores(stage, &scores, e);
    if (status == KVC_OK)
        status = kvc_stage_window_mass(stage, 4, scores, e);
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        status = kvc_stage_read_scores(stage, scores, h, mass, 2000, &count, e);
        double sum = 0;
        for (size_t j = 0; j < count; j++)
            sum += (double)mass[j];
        assert_true(count == info->entries && mass[count - 1] > 0);
        const double expected = 4.0 * info->heads / info->kv_heads;
        if (sum < expected * (1 - 1e-4) || sum > expected * (1 + 1e-4))
            fail_msg("layer %u head %u: the window's mass is %g, not %g", info->layer, h, sum, expected);
    }
    checked_layers++;
    return status;
}

static const struct kvc_policy_class mass_class = {.name = "mass",
                                                   .summary = "adds up",
                                                   .options = options,
                                                   .stages = KVC_STAGE_PROMPT,
                                                   .queries = four,
                                                   .prompt = add_up};

static void test_window_mass(void **state) {
    (void)state;
    struct kvc_session_options with;
    struct kvc_session *session;
    FINE(kvc_engine_register(engine, &mass_class, &error));
    for (uint32_t chunk = 1; chunk <= 300; chunk += 99) {
        kvc_session_defaults(&with);
        with.policy = "mass";
        with.chunk = chunk;
        checked_layers = 0;
        FINE(kvc_session_open(model, &with, &session, &error));
        FINE(kvc_session_prompt(session, tokens, 290, NULL, NULL, &error));
        assert_int_equal(checked_layers, kvc_model_info(model)->layers);
        kvc_session_close(session);
    }
}

static int set_up(void **state) {
    (void)state;
    if (open_whole(NULL, KVC_F16, "stage") != 0)
        return -1;
    FINE(kvc_engine_register(engine, &wild, &error));
    FINE(kvc_engine_register(engine, &peeping, &error));
    FINE(kvc_engine_register(engine, &broad, &error));
    FINE(kvc_engine_register(engine, &deep, &error));
    vocab = kvc_model_info(model)->vocab;
    for (uint32_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)(i * 7919 % vocab);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_stages),
                                       cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_odd_stages),
                                       cmocka_unit_test(test_keep_indices),
                                       cmocka_unit_test(test_plans_are_freed),
                                       cmocka_unit_test(test_register),
                                       cmocka_unit_test(test_fails_alone),
                                       cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_replay),
                                       cmocka_unit_test(test_interrupt),
                                       cmocka_unit_test(test_interrupt_within_a_part),
                                       cmocka_unit_test(test_window_mass)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
