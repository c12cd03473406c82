/* test_dapq.c - dapq and take in a whole network: the pseudo rows after a prompt do not change its results and leave no
 * entry. Their tokens and positions, and those of probes, are as defined in docs/reference/methods/dapq.md and
 * docs/reference/methods/take.md. */
#include "core/stage/stage.h"
#include "kvcull/policy.h"
#include "kvcull/saved.h"
#include "tests/oracle/oracle.h"
#include "tests/core/whole_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPT = 300, BUDGET = 50 };

static int32_t tokens[PROMPT + 1];
static struct kvc_error error;

/* Reads the prompt in chunks of that many rows (0: the default); logits [vocab] of the last row. */
static struct kvc_session *read_prompt(const char *policy, uint32_t chunk, float *logits) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.chunk = chunk;
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, PROMPT, NULL, logits, &error));
    return session;
}

/* Checks that every list holds `count` entries in ascending order, the last one before position `end`. */
static void check_positions(const struct kvc_session *session, size_t count, int32_t end, const char *policy) {
    int32_t positions[PROMPT + 64];
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++)
        for (uint32_t h = 0; h < kvc_session_heads(session, l); h++) {
            size_t held = 0;
            FINE(kvc_session_positions(session, l, h, positions, PROMPT + 64, &held, &error));
            if (held != count)
                fail_msg("%s: layer %u list %u holds %zu entries, not %zu", policy, l, h, held, count);
            for (size_t i = 0; i < held; i++)
                if (positions[i] >= end || (i > 0 && positions[i] <= positions[i - 1]))
                    fail_msg("%s: layer %u list %u holds position %d", policy, l, h, (int)positions[i]);
        }
}

static void test_leaves_nothing(void **state) {
    static const char *const policies[] = {"dapq:budget=50",
                                           "dapq:budget=50,content=tail,offset=9",
                                           "dapq:budget=50,offset=-40",
                                           "dapq:budget=50,content=middle,pseudo=7",
                                           "dapq:budget=50,content=random,seed=3",
                                           "kvzip:budget=50,floor=1",
                                           "dapq:budget=50,content=ends,pseudo=1,head=0",
                                           "dapq:budget=50,content=draft,pseudo=6",
                                           "dapq:budget=50+hsa:budget=20"};
    const size_t bytes = kvc_model_info(model)->vocab * sizeof(float);
    float *full = malloc(bytes), *logits = malloc(bytes);
    (void)state;
    assert_true(full && logits);
    kvc_session_close(read_prompt("full", 0, full));
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p += kvc_test_thinned() ? 4 : 1)
        for (uint32_t chunk = 0; chunk <= (kvc_test_thinned() ? 0 : 7); chunk += 7) {
            struct kvc_session *session = read_prompt(policies[p], chunk, logits);
            assert_memory_equal(logits, full, bytes); /* the first token equals that of the full cache */
            check_positions(session, BUDGET, PROMPT, policies[p]);
            FINE(kvc_decode(&session, &tokens[PROMPT], 1, NULL, NULL, &error));
            check_positions(session, BUDGET + 1, PROMPT + 1,
                            policies[p]); /* and it has the position that it would have without the pseudo tokens */
            kvc_session_close(session);
        }
    free(full);
    free(logits);
}

/* ---- which tokens the added rows contain, and their positions ---- */

/* The entries of list h of layer l that are held after a prompt of these tokens. */
static size_t held_after(const char *policy, const int32_t *given, size_t count, uint32_t l, uint32_t h,
                         int32_t *positions) {
    struct kvc_session_options options;
    struct kvc_session *session;
    size_t held = 0;
    kvc_session_defaults(&options);
    options.policy = policy;
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, given, count, NULL, NULL, &error));
    FINE(kvc_session_positions(session, l, h, positions, PROMPT + 64, &held, &error));
    kvc_session_close(session);
    return held;
}

/* dapq keeps the same as snapkv does when the pseudo tokens are part of the prompt, at its end, and form snapkv's
 * window. */
static void same_as_written_with(const char *other, const char *options, const int32_t *pseudo, size_t m) {
    enum { N = 120, B = 30 };
    int32_t given[N + 64], kept[PROMPT + 64], expected[PROMPT + 64];
    char dapq[460], snapkv[80];
    snprintf(dapq, sizeof dapq, "dapq:budget=%d,kernel=3,pseudo=%zu,%s%s", B, m, options, other);
    snprintf(snapkv, sizeof snapkv, "snapkv:budget=%zu,kernel=3,window=%zu%s", B + m, m, other);
    memcpy(given, tokens, N * sizeof *given);
    memcpy(given + N, pseudo, m * sizeof *given);
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++) {
        assert_int_equal(held_after(dapq, tokens, N, l, 0, kept), B);
        assert_int_equal(held_after(snapkv, given, N + m, l, 0, expected), B + m);
        if (memcmp(kept, expected, B * sizeof *kept))
            fail_msg("%s, layer %u: other entries than with the tokens written after the prompt", dapq, l);
    }
}

static void same_as_written(const char *options, const int32_t *pseudo, size_t m) {
    same_as_written_with("", options, pseudo, m);
}

/* A policy whose layers above the first one compute every other one of a prompt's first 120 rows, and all rows after
 * these. */
static enum kvc_status thin_propagate(struct kvc_stage *stage, const struct kvc_values *values,
                                      struct kvc_error *failure) {
    const uint32_t turn = (uint32_t)kvc_stage_info(stage)->turn;
    uint32_t rows[PROMPT], count = 0;
    (void)values;
    if (kvc_stage_info(stage)->layer != 0)
        return KVC_OK;
    for (uint32_t row = 0; row < turn; row++)
        if (row % 2 == 0 || row >= 119)
            rows[count++] = row;
    return kvc_stage_prune_tokens(stage, rows, count, failure);
}
static const struct kvc_policy_class thin = {.name = "thin",
                                             .summary = "fewer rows above the first layer",
                                             .stages = KVC_STAGE_PROPAGATE,
                                             .propagate = thin_propagate};

/* Rows that a method leaves out in the layers above do not change what the pseudo tokens choose from the others. */
static void test_fewer_rows(void **state) {
    (void)state;
    same_as_written_with("+thin", "content=tail", tokens + 120 - 6, 6);
    same_as_written_with("+thin", "content=tail", tokens + 120 - 17, 17);
}

/* A policy that removes the tokens decoded after the first prompt. After a second prompt it keeps entries by the mass
 * from its AFAR added rows: pseudo tokens at larger positions. */
enum { AFAR = 6, FIRST = 120 };

static uint32_t afar_queries(const struct kvc_values *values) {
    (void)values;
    return AFAR;
}
static enum kvc_status afar_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                   struct kvc_error *failure) {
    struct kvc_scores *scores;
    (void)values;
    if (kvc_stage_info(stage)->now == FIRST)
        return KVC_OK;
    FINE(kvc_stage_scores(stage, &scores, failure));
    FINE(kvc_stage_window_mass(stage, AFAR, scores, failure));
    FINE(kvc_stage_pool(stage, scores, AFAR, 3, KVC_POOL_MAX, failure));
    const struct kvc_keep keep = {.tail = AFAR, .top = 30, .recent = INT64_MAX, .scores = scores};
    return kvc_stage_keep(stage, &keep, failure);
}
static enum kvc_status afar_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                   struct kvc_error *failure) {
    const struct kvc_keep keep = {.first = kvc_stage_info(stage)->entries - 1, .recent = INT64_MAX};
    (void)values;
    return kvc_stage_keep(stage, &keep, failure);
}
static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
static const struct kvc_policy_class afar = {.name = "afar",
                                             .summary = "pseudo tokens further away",
                                             .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
                                             .options = no_options,
                                             .queries = afar_queries,
                                             .prompt = afar_prompt,
                                             .decode = afar_decode};

static void test_offset(void **state) {
    enum { OFFSET = 11, B = 30 };
    int32_t kept[PROMPT + 64], expected[PROMPT + 64];
    struct kvc_session_options options;
    struct kvc_session *session;
    (void)state;
    kvc_session_defaults(&options);
    options.policy = "afar";
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, FIRST, NULL, NULL, &error));
    for (int i = 0; i < OFFSET; i++)
        FINE(kvc_decode(&session, &tokens[200 + i], 1, NULL, NULL, &error));
    FINE(kvc_session_prompt(session, tokens + FIRST - AFAR, AFAR, NULL, NULL, &error));
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++) {
        size_t held = 0;
        FINE(kvc_session_positions(session, l, 0, expected, PROMPT + 64, &held, &error));
        assert_int_equal(held, B + AFAR);
        assert_int_equal(expected[B], FIRST + OFFSET);
        assert_int_equal(
            held_after("dapq:budget=30,kernel=3,pseudo=6,content=tail,offset=11", tokens, FIRST, l, 0, kept), B);
        assert_memory_equal(kept, expected, B * sizeof *kept);
    }
    kvc_session_close(session);
}

static enum kvc_status watch_decode(struct kvc_stage *stage, const struct kvc_values *values,
                                    struct kvc_error *failure) {
    (void)stage, (void)values, (void)failure;
    return KVC_OK;
}
/* An observer: in layer 0, the pseudo rows have the queries of the prompt's last rows, because they have their tokens
 * and positions. */
static unsigned watched;
static enum kvc_status watch_prompt(struct kvc_stage *stage, const struct kvc_values *values,
                                    struct kvc_error *failure) {
    const size_t bytes = AFAR * (size_t)stage->info.heads * stage->info.head_size * sizeof(float);
    float *rows = malloc(bytes), *pseudo = malloc(bytes);
    (void)values;
    if (stage->info.layer > 0) {
        free(rows);
        free(pseudo);
        return KVC_OK;
    }
    assert_true(rows && pseudo && stage->queries >= AFAR && stage->session->prompt.pseudo.rows == AFAR);
    struct kvc_device *device = kvc_stage_device(stage);
    struct kvc_span last = stage->q;
    last.offset += (stage->queries - AFAR) * bytes / AFAR;
    device->ops->download(device, rows, last, bytes);
    device->ops->download(device, pseudo, kvc_growable_at(&stage->session->prompt.pseudo.q, 0), bytes);
    FINE(device->ops->sync(device, failure));
    assert_memory_equal(rows, pseudo, bytes);
    watched++;
    free(rows);
    free(pseudo);
    return KVC_OK;
}
static const struct kvc_policy_class watch = {.name = "watch",
                                              .summary = "compares pseudo rows with the prompt's last rows",
                                              .stages = KVC_STAGE_DECODE,
                                              .options = no_options,
                                              .queries = afar_queries,
                                              .observe_prompt = watch_prompt,
                                              .decode = watch_decode};

/* Pseudo tokens before the prompt's end; positions below 0 become 0. */
static void test_negative_offset(void **state) {
    int32_t kept[PROMPT + 64], other[PROMPT + 64];
    (void)state;
    watched = 0;
    assert_int_equal(held_after("dapq:budget=30,pseudo=6,offset=-6+watch", tokens, FIRST, 0, 0, kept), 30);
    assert_int_equal(watched, 1);
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++) {
        assert_int_equal(held_after("dapq:budget=30,pseudo=6,offset=-120", tokens, FIRST, l, 0, kept), 30);
        assert_int_equal(held_after("dapq:budget=30,pseudo=6,offset=-1048576", tokens, FIRST, l, 0, other), 30);
        assert_memory_equal(kept, other, 30 * sizeof *kept);
    }
}

static void test_content(void **state) {
    enum { N = 120 };
    const int32_t listed[] = {tokens[5], tokens[17], tokens[3], tokens[3], tokens[200]};
    const char *folder = getenv("TMPDIR");
    int32_t ends[12];
    char path[300], options[360];
    (void)state;
    for (int i = 0; i < 12; i++)
        ends[i] = i < 4 ? tokens[i] : tokens[N - 12 + i];
    same_as_written("content=ends", ends, 12);
    for (int i = 0; i < 12; i++)
        ends[i] = i < 9 ? tokens[i] : tokens[N - 12 + i];
    same_as_written("content=ends,head=9", ends, 12);
    for (int i = 0; i < 12; i++)
        ends[i] = i < 5 ? tokens[30 + i] : tokens[N - 12 + i];
    same_as_written("content=ends,head=5,skip=30", ends, 12);
    for (int i = 0; i < 12; i++)
        ends[i] = tokens[i < 5 ? N - 5 + i : N - 12 + i]; /* as far to the end as possible */
    same_as_written("content=ends,head=5,skip=1048576", ends, 12);
    same_as_written("content=tail", tokens + N - 9, 9);
    same_as_written("content=middle", tokens + (N - 7) / 2, 7);
    snprintf(path, sizeof path, "%.200s/kvcull-dapq-%ld.tokens", folder ? folder : "/tmp", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%d %d,%d\n%d , %d\n", listed[0], listed[1], listed[2], listed[3], listed[4]);
    assert_int_equal(fclose(file), 0);
    snprintf(options, sizeof options, "content=file,file=\"%s\"", path);
    same_as_written(options, listed, 5);
    remove(path);
}

/* content=draft: the pseudo tokens equal the answer of a session with content=tail, and the draft leaves no trace in
 * the session. */
static void test_draft(void **state) {
    enum { N = 120, M = 9 };
    const uint32_t vocab = kvc_model_info(model)->vocab;
    struct kvc_session_options options;
    struct kvc_session_stats stats;
    struct kvc_session *session;
    float *logits = malloc(vocab * sizeof *logits);
    int32_t draft[M], kept[PROMPT + 64], expected[PROMPT + 64];
    size_t held[2];
    (void)state;
    assert_non_null(logits);
    kvc_session_defaults(&options);
    options.policy = "dapq:budget=30,kernel=3,pseudo=9,content=tail";
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, N, NULL, logits, &error));
    for (uint32_t i = 0; i < M; i++) {
        draft[i] = 0;
        for (uint32_t t = 1; t < vocab; t++)
            draft[i] = logits[t] > logits[draft[i]] ? (int32_t)t : draft[i];
        FINE(kvc_decode(&session, &draft[i], 1, logits, NULL, &error));
    }
    kvc_session_close(session);
    same_as_written("content=draft", draft, M);

    /* a second turn, whose draft continues from the entries held; and the same by kvc_session_prompt_many */
    options.policy = "dapq:budget=30,kernel=3,pseudo=9,content=draft";
    FINE(kvc_session_open(model, &options, &session, &error));
    FINE(kvc_session_prompt(session, tokens, N, NULL, NULL, &error));
    struct kvc_session *alike;
    FINE(kvc_session_fork(session, &alike, &error));
    FINE(kvc_session_prompt(session, tokens + N, 50, NULL, logits, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.tokens, N + 50);
    assert_int_equal(stats.decode_steps, 0);
    FINE(kvc_session_prompt_many(&alike, 1, tokens + N, 50, NULL, NULL, &error));
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++) {
        FINE(kvc_session_positions(session, l, 0, kept, PROMPT + 64, &held[0], &error));
        FINE(kvc_session_positions(alike, l, 0, expected, PROMPT + 64, &held[1], &error));
        assert_int_equal(held[0], 30);
        assert_int_equal(held[1], 30);
        assert_memory_equal(kept, expected, 30 * sizeof *kept);
    }
    kvc_session_close(alike);
    kvc_session_close(session);
    free(logits);
}

/* Estimates for a policy whose file determines the number of added rows. */
static void test_estimate(void **state) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    struct kvc_estimate estimate;
    struct kvc_session_stats stats;
    char path[] = "/tmp/kvcull-dapq-XXXXXX", policy[100];
    (void)state;
    const int handle = mkstemp(path);
    assert_true(handle >= 0 && write(handle, "1 2 3 4 5", 9) == 9 && close(handle) == 0);
    snprintf(policy, sizeof policy, "dapq:budget=50,content=file,file=%s", path);
    struct kvc_session *session = read_prompt(policy, 0, NULL);
    kvc_session_stats(session, &stats);
    kvc_session_close(session);
    FINE(kvc_estimate(engine, policy, &geometry, info->hidden, kvc_entry_types(KVC_F16), PROMPT, 0, &estimate, &error));
    assert_int_equal(estimate.cache_bytes, stats.cache_bytes);
    assert_int_equal(estimate.entries, stats.entries_most);
    assert_true(estimate.peak_bytes >= stats.peak_bytes);
    remove(path);
    assert_int_equal(
        kvc_estimate(engine, policy, &geometry, info->hidden, kvc_entry_types(KVC_F16), PROMPT, 0, &estimate, &error),
        KVC_INPUT);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(mkfifo(path, 0600), 0); /* no process ever writes into it */
    assert_int_equal(
        kvc_estimate(engine, policy, &geometry, info->hidden, kvc_entry_types(KVC_F16), PROMPT, 0, &estimate, &error),
        KVC_INPUT);
    assert_non_null(strstr(error.text, "regular file"));
    remove(path);
}

/* content=random: token i is the prompt's token floor(N x / 2^32), with x drawn for i. */
static void test_random(void **state) {
    static const uint64_t seeds[] = {0, 3, 0x000123456789abcdull, 1ull << 53};
    enum { N = 120, M = 32 };
    int32_t drawn[M];
    char options[80];
    (void)state;
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
        for (uint32_t i = 0; i < M; i++) {
            const uint32_t counter[4] = {i, 0, 0, 0};
            drawn[i] = tokens[(uint32_t)floor(N * (oracle_philox(counter, seeds[s]) / 4294967296.0))];
        }
        snprintf(options, sizeof options, "content=random,seed=%llu", (unsigned long long)seeds[s]);
        same_as_written(options, drawn, s % 2 ? 7 : M);
    }
}

/* With alpha=1 a probe of one token always uses the query of its first chunk. In layer 0 that is the query of the
 * prompt's last token, at the position after the chunk or at its own. This equals snapkv with a window of one query
 * (for a single head: a query that does not see itself gives other probabilities, but in the same order). */
static void test_probe_position(void **state) {
    enum { Z = 80, N = 97 };
    int32_t kept[PROMPT + 64], other[PROMPT + 64], given[N];
    (void)state;
    for (int at_end = 0; at_end < 2; at_end++) {
        char policy[140];
        const size_t count = at_end ? N : Z + 1;
        bool found = false;
        snprintf(policy, sizeof policy,
                 "take:budget=20,warmup_layers=0,chunk=%d,probe=1,alpha=1,kernel=1,per=head,probe_pos=%s", Z,
                 at_end ? "end" : "chunk");
        memcpy(given, tokens, sizeof given);
        given[count - 1] = tokens[N - 1];
        size_t early = 0;
        for (size_t held = held_after(policy, tokens, N, 0, 0, kept); early < held && kept[early] < Z;)
            early++;
        assert_true(early > 2);
        for (int budget = 2; budget < 60 && !found; budget++) {
            char snapkv[70];
            size_t same = 0;
            snprintf(snapkv, sizeof snapkv, "snapkv:budget=%d,window=1,kernel=1,per=head", budget);
            for (size_t held = held_after(snapkv, given, count, 0, 0, other); same < held && other[same] < Z;)
                same++;
            found = same == early && !memcmp(kept, other, early * sizeof *kept);
        }
        if (!found)
            fail_msg("%s: keeps other entries of the first chunk than the last token's query there says", policy);
    }
}

/* average=unrotated: in layer 0 a token's query before its rotation is the same in every chunk. So is its average, and
 * alpha has no effect. */
static void test_unrotated(void **state) {
    static const char *const options[] = {"alpha=0", "alpha=0.6,average=unrotated", "alpha=1,average=unrotated",
                                          "alpha=0.6"};
    int32_t kept[4][PROMPT + 64];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char policy[120];
        snprintf(policy, sizeof policy, "take:budget=40,warmup_layers=0,chunk=64,probe=8,%s", options[i]);
        assert_int_equal(held_after(policy, tokens, PROMPT, 0, 0, kept[i]), 40);
    }
    assert_memory_equal(kept[0], kept[1], 40 * sizeof **kept);
    assert_memory_equal(kept[0], kept[2], 40 * sizeof **kept);
    assert_memory_not_equal(kept[0], kept[3], 40 * sizeof **kept);
}

static int set_up(void **state) {
    (void)state;
    uint64_t random = 5;
    if (open_whole(NULL, KVC_F32, "dapq") != 0)
        return -1;
    FINE(kvc_engine_register(engine, &afar, &error));
    FINE(kvc_engine_register(engine, &thin, &error));
    FINE(kvc_engine_register(engine, &watch, &error));
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((random >> 33) % kvc_model_info(model)->vocab);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_leaves_nothing),  cmocka_unit_test(test_content),
                                       cmocka_unit_test(test_draft),           cmocka_unit_test(test_estimate),
                                       cmocka_unit_test(test_random),          cmocka_unit_test(test_offset),
                                       cmocka_unit_test(test_negative_offset), cmocka_unit_test(test_probe_position),
                                       cmocka_unit_test(test_unrotated),       cmocka_unit_test(test_fewer_rows)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
