/* test_stage_arguments.c - every function of a stage refuses arguments that it cannot use, in one line that names them,
 * and the session can still be closed. Scores that the host writes can be read back. */
#include "kvcull/policy.h"
#include "tests/core/whole_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 40 };

static struct kvc_error error;
static int32_t tokens[ROWS];

/* What a call below gets: scores for each list and for each query head. */
struct arguments {
    struct kvc_stage *stage;
    const struct kvc_stage_info *info;
    struct kvc_scores *lists, *heads;
};

typedef enum kvc_status call_fn(const struct arguments *a, struct kvc_error *e);

static enum kvc_status layer(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_layer(a->stage, a->info->layer + 1, e);
}
static enum kvc_status probe(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_probe_mass(a->stage, &(struct kvc_probe_average){.alpha = 0.5f}, a->lists, e);
}
static enum kvc_status moments(const struct arguments *a, struct kvc_error *e) {
    float dispersion, variance;
    return kvc_stage_moments(a->stage, 4, 4, 1.0f, a->lists, &dispersion, &variance, e);
}
static enum kvc_status group(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_group(a->stage, a->heads, 1.0f, a->heads, e);
}
static enum kvc_status layer_sum(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_layer_sum(a->stage, a->heads, e);
}
static enum kvc_status shares(const struct arguments *a, struct kvc_error *e) {
    uint32_t numbers[64];
    return kvc_stage_shares(a->stage, a->heads, 4, 10, numbers, e);
}
static enum kvc_status draw(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_entry_scores(a->stage, KVC_ENTRY_DRAW, 1, a->heads, e);
}
static enum kvc_status kind(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_entry_scores(a->stage, (enum kvc_entry_kind)99, 1, a->lists, e);
}
static enum kvc_status share_kind(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_norm_shares(a->stage, (enum kvc_share_kind)99, 16, a->lists, e);
}
static enum kvc_status lag(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_lag_scores(a->stage, 0, 1, false, a->lists, e);
}
static enum kvc_status redundancy(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_mix_redundancy(a->stage, 0.5f, 0.5f, 1.0f, a->heads, e);
}
static enum kvc_status chunks(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_chunk_mass(a->stage, 0, 0, 0, 0, a->lists, e);
}
static enum kvc_status leverage(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_leverage(a->stage, 0, 0, a->heads, e);
}
static enum kvc_status mix(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_standard_mix(a->stage, 0, 0, 0.5f, a->lists, a->heads, e);
}
static enum kvc_status expected(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_expected_scores(a->stage, &(struct kvc_expectation){.future = 0}, a->lists, e);
}
static enum kvc_status expected_heads(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_expected_scores(a->stage, &(struct kvc_expectation){.future = 1}, a->heads, e);
}
static enum kvc_status weights_lists(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_mean_weights(a->stage, 0, 1, 2.5f, a->lists, e);
}
static enum kvc_status value_leverage(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_value_leverage(a->stage, 0, a->lists, a->lists, e);
}
static enum kvc_status norms(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_output_norms(a->stage, a->lists, e);
}
static enum kvc_status no_future(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_prepare_series(a->stage, &(struct kvc_series){.rotary = KVC_ANY_ROTARY}, e);
}
static enum kvc_status odd_series(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_series_scores(a->stage, &(struct kvc_series){.rotary = 3, .future = 1}, false, a->lists, e);
}
static enum kvc_status series_heads(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_series_scores(a->stage, &(struct kvc_series){.rotary = KVC_ANY_ROTARY}, false, a->heads, e);
}
static enum kvc_status no_series(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_series_scores(a->stage, &(struct kvc_series){.rotary = KVC_ANY_ROTARY}, false, a->lists, e);
}
static enum kvc_status weigh(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_weigh(a->stage, &(struct kvc_keep){.tail = 4, .recent = INT64_MAX}, 1.0f, a->heads, a->lists, e);
}
static enum kvc_status similar(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_merge_similar(a->stage, 0.0f, e);
}
static enum kvc_status following(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_merge_following(a->stage, 1, 0, a->lists, e);
}
static enum kvc_status channels(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_prune_channels(a->stage, 4, 4, 1, e);
}
static enum kvc_status plan_head(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_plan(a->stage, a->info->kv_heads, (const uint32_t[]){0}, 1, e);
}
static enum kvc_status plan_order(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_plan(a->stage, 0, (const uint32_t[]){3, 2}, 2, e);
}
static enum kvc_status no_plan(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_keep_planned(a->stage, e);
}
static enum kvc_status filled(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_ring_fuse(a->stage, 0, 2, 3, KVC_ROW_PROBABILITIES, KVC_FUSE_SUM, 0, a->lists, e);
}
static enum kvc_status view(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_view(a->stage, &(struct kvc_keep){.top = 3, .recent = INT64_MAX}, e);
}
static enum kvc_status no_filter(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_entry_scores(a->stage, KVC_ENTRY_FILTER, 1, a->lists, e);
}
static enum kvc_status no_predictor(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_predict(a->stage, 0, e);
}
static enum kvc_status select_kind(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_select(a->stage, &(struct kvc_select){.kind = (enum kvc_select_kind)99}, e);
}
static enum kvc_status select_entries(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_select(a->stage, &(struct kvc_select){.kind = KVC_SELECT_EXACT}, e);
}
static enum kvc_status select_pages(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_select(a->stage, &(struct kvc_select){.kind = KVC_SELECT_PAGE_BOUND, .top = 1}, e);
}
static enum kvc_status select_share(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_select(a->stage, &(struct kvc_select){.kind = KVC_SELECT_EXACT, .top = 1, .share = 0.5}, e);
}
static enum kvc_status select_channels(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_select(a->stage, &(struct kvc_select){.kind = KVC_SELECT_CHANNELS, .top = 1}, e);
}
static enum kvc_status threshold(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_merge_similar(a->stage, -1.0f, e);
}
static enum kvc_status span(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_merge_following(a->stage, 0, 1, a->lists, e);
}
static enum kvc_status prune(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_prune_tokens(a->stage, (const uint32_t[]){1, 0, ROWS - 1}, 3, e);
}
static enum kvc_status prune_last(const struct arguments *a, struct kvc_error *e) {
    return kvc_stage_prune_tokens(a->stage, (const uint32_t[]){0, 1}, 2, e);
}

/* Scores that the host writes are those that it reads. */
static enum kvc_status write_read(const struct arguments *a, struct kvc_error *e) {
    float to[ROWS], from[ROWS] = {0};
    size_t count = 0;
    for (int i = 0; i < ROWS; i++)
        to[i] = (float)(i * 7 % 11);
    assert_int_equal(kvc_stage_write_scores(a->stage, a->heads, a->info->heads - 1, to, ROWS, e), KVC_OK);
    assert_int_equal(kvc_stage_read_any_scores(a->stage, a->heads, a->info->heads - 1, from, ROWS, &count, e), KVC_OK);
    assert_int_equal(count, ROWS);
    assert_memory_equal(from, to, sizeof to);
    return kvc_stage_write_scores(a->stage, a->heads, a->info->heads, to, ROWS, e);
}

static const struct {
    call_fn *call;
    const char *says;
    enum { PROMPT, PROPAGATE, SELECT, EVICTS } where;
} calls[] = {{layer, "layer 1 was requested in layer 0: must not be higher", PROMPT},
             {probe, "there is no probe", PROMPT},
             {moments, "moments need scores per query head", PROMPT},
             {group, "a group's sum needs scores per list", PROMPT},
             {layer_sum, "a layer's sum needs scores per list", PROMPT},
             {shares, "shares need scores per list", PROMPT},
             {draw, "scores by keys and values are per list", PROMPT},
             {kind, "scores of kind 99", PROMPT},
             {share_kind, "shares of kind 99: must be a value of enum kvc_share_kind", PROMPT},
             {lag, "partitions of 1 entries: must be at least 2", PROMPT},
             {redundancy, "scores by keys and values are per list", PROMPT},
             {chunks, "chunks of 0 entries: must be at least 1", PROMPT},
             {leverage, "these scores are per list", PROMPT},
             {mix, "these scores are per list", PROMPT},
             {expected, "at least one future position", PROMPT},
             {expected_heads, "entries are scored per list", PROMPT},
             {weights_lists, "entries are weighed per query head", PROMPT},
             {value_leverage, "entries are weighed per query head", PROMPT},
             {norms, "need scores per query head", PROMPT},
             {no_future, "at least one future position", PROMPT},
             {odd_series, "3 rotated channels: must be even", PROMPT},
             {series_heads, "scores by query statistics are per list", PROMPT},
             {no_series, "none was prepared before the step", PROMPT},
             {weigh, "scores are weighed per list", PROMPT},
             {similar, "values are merged only before an eviction", PROMPT},
             {following, "values are merged only before an eviction", PROMPT},
             {channels, "channels are pruned only at the end of a prompt", PROMPT},
             {plan_head, "a plan of 1 indices for head", PROMPT},
             {plan_order, "planned indices must ascend, up to 39", PROMPT},
             {no_plan, "keep by a plan, but none was made", PROMPT},
             {filled, "3 rows of a ring of 2 after 40 tokens", PROMPT},
             {view, "by score", PROMPT},
             {write_read, "must be below", PROMPT},
             {no_filter, "keys are scored by filters, but none was prepared before", PROMPT},
             {no_predictor, "scores cannot be predicted: the class names no predictor", PROMPT},
             {select_kind, "a selection of kind 99: must be a value of enum kvc_select_kind", SELECT},
             {select_entries, "entries to read are chosen in a decode step only", PROMPT},
             {select_entries, "no entries to read", SELECT},
             {select_pages, "no pages to read", SELECT},
             {select_share, "a share of 0.5 of the weights: must be 0, or from 1/65536 to 1 with pages", SELECT},
             {select_channels, "0 channels to compare: must be 1 to", SELECT},
             {threshold, "merge above a cosine of -1: must be at least 0", EVICTS},
             {span, "merge into 0 entries: must be at least 1, by scores per list", EVICTS},
             {prune, "prune to 3 rows: must be some of the turn's 40", PROPAGATE},
             {prune_last, "prune to 2 rows: must be some of the turn's 40", PROPAGATE}};

static size_t called;

static enum kvc_status call(struct kvc_stage *stage, struct kvc_error *e) {
    struct arguments a = {.stage = stage, .info = kvc_stage_info(stage)};
    enum kvc_status status = kvc_stage_scores(stage, &a.lists, e);
    if (status == KVC_OK)
        status = kvc_stage_head_scores(stage, &a.heads, e);
    return status == KVC_OK ? calls[called].call(&a, e) : status;
}

static enum kvc_status prompt(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    if (calls[called].where == EVICTS)
        return kvc_stage_keep(stage, &(struct kvc_keep){.tail = 4, .recent = INT64_MAX}, e);
    return calls[called].where == PROMPT ? call(stage, e) : KVC_OK;
}

static enum kvc_status propagate(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    return calls[called].where == PROPAGATE ? call(stage, e) : KVC_OK;
}

static enum kvc_status step(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    return call(stage, e);
}

static uint32_t four(const struct kvc_values *values) {
    (void)values;
    return 4;
}

static const struct kvc_policy_class wrong = {.name = "wrong",
                                              .summary = "calls functions of a stage with wrong arguments",
                                              .stages = KVC_STAGE_PROMPT | KVC_STAGE_PROPAGATE | KVC_STAGE_SELECT,
                                              .queries = four,
                                              .columns = four,
                                              .prompt = prompt,
                                              .propagate = propagate,
                                              .evicts = step,
                                              .select = step};

static void test_refused(void **state) {
    (void)state;
    struct kvc_session_options options;
    kvc_session_defaults(&options);
    options.policy = "wrong";
    for (called = 0; called < sizeof calls / sizeof *calls; called++) {
        struct kvc_session *session;
        FINE(kvc_session_open(model, &options, &session, &error));
        if (calls[called].where == SELECT) {
            FINE(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error));
            REFUSED(kvc_decode(&session, tokens, 1, NULL, NULL, &error), KVC_USAGE, calls[called].says);
        } else
            REFUSED(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error), KVC_USAGE, calls[called].says);
        assert_non_null(strstr(error.text, "policy wrong, layer 0"));
        kvc_session_close(session);
    }
}

/* Channels of keys are set to 0 at the end of a prompt: at most as many as a head has, and only in keys of a type that
 * stores zeros, which a class with `zeroes` requires. They are chosen by queries, which the class must request. */
static uint32_t channels_to_prune;

static enum kvc_status prune_at_end(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values;
    return kvc_stage_prune_channels(stage, 4, 4, channels_to_prune, e);
}

static const struct kvc_policy_class pruner = {.name = "pruner",
                                               .summary = "sets channels of keys to 0",
                                               .zeroes = true,
                                               .queries = four,
                                               .prompt_end = prune_at_end},
                                     undeclared = {.name = "undeclared",
                                                   .summary = "does the same without zeroes",
                                                   .queries = four,
                                                   .prompt_end = prune_at_end},
                                     blind = {.name = "blind",
                                              .summary = "does the same without queries",
                                              .zeroes = true,
                                              .prompt_end = prune_at_end};

static void test_channels(void **state) {
    (void)state;
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    for (int fine = 1; fine >= 0; fine--) {
        channels_to_prune = kvc_model_info(model)->head_size + !fine;
        options.policy = "pruner";
        options.cache_type = kvc_entry_types(KVC_F16);
        FINE(kvc_session_open(model, &options, &session, &error));
        if (fine)
            FINE(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error));
        else
            REFUSED(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error), KVC_USAGE,
                    "channels to prune: must be at most ");
        kvc_session_close(session);
    }
    channels_to_prune = 1;
    options.cache_type = kvc_entry_types(KVC_Q4_1);
    REFUSED(kvc_session_open(model, &options, &session, &error), KVC_USAGE, "sets channels of keys to 0");
    options.policy = "undeclared";
    FINE(kvc_session_open(model, &options, &session, &error));
    REFUSED(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error), KVC_USAGE,
            "the method's class must have zeroes = true");
    kvc_session_close(session);
    options.policy = "blind";
    options.cache_type = kvc_entry_types(KVC_F16);
    FINE(kvc_session_open(model, &options, &session, &error));
    REFUSED(kvc_session_prompt(session, tokens, ROWS, NULL, NULL, &error), KVC_USAGE,
            "the class's function queries must request some");
    kvc_session_close(session);
}

static int set_up(void **state) {
    (void)state;
    if (open_whole(NULL, KVC_F16, "stage-arguments") != 0)
        return -1;
    FINE(kvc_engine_register(engine, &wrong, &error));
    FINE(kvc_engine_register(engine, &pruner, &error));
    FINE(kvc_engine_register(engine, &undeclared, &error));
    FINE(kvc_engine_register(engine, &blind, &error));
    for (int i = 0; i < ROWS; i++)
        tokens[i] = (int32_t)(i * 7919 % (int)kvc_model_info(model)->vocab);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_channels)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
