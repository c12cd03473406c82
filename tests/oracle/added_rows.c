/* added_rows.c - see added_rows.h. */
#include "tests/oracle/added_rows.h"

#include "tests/oracle/side_by_side.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const uint32_t rows_shapes[ROWS_SHAPES][2] = {{1, 1}, {4, 4}, {4, 1}, {7, 1}, {8, 2}, {8, 1}};
const enum kvc_type rows_types[ROWS_TYPES] = {KVC_F32, KVC_F16, KVC_Q8_0};
const struct plan rows_decodes[ROWS_DECODES] = {
    {.decode = FULL},
    {.decode = MORPHKV, .decode_budget = 9, .decode_window = 4, .every = 1},
    {.decode = MORPHKV, .decode_budget = 30, .decode_window = 20, .every = 3, .max_fusion = true},
    {.decode = MORPHKV, .decode_budget = 8, .decode_window = 7, .every = 2, .logits = true},
    {MORPHKV, MORPHKV, .budget = 9, .window = 4, .every = 1, .decode_budget = 9, .decode_window = 4}};

void rows_pool(float *score, uint32_t n, uint32_t kernel, bool average) {
    float *out = malloc(n * sizeof *out + 1);
    assert_non_null(out);
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0, most = -INFINITY;
        for (uint32_t j = 0; j < n; j++) {
            if (j + kernel / 2 < i || j > i + kernel / 2)
                continue;
            sum += score[j];
            most = score[j] > most ? score[j] : most;
        }
        out[i] = average ? sum / (float)kernel : most;
    }
    memcpy(score, out, n * sizeof *out);
    free(out);
}

void rows_keep_top(struct head *head, const float *score, uint32_t most) {
    const uint32_t n = head->count;
    bool *candidate = malloc(n), *kept = calloc(n, 1);
    assert_true(candidate && kept);
    memset(candidate, 1, n);
    if (n > most) {
        mark_top(score, candidate, n, most, kept);
        remove_unkept(head, kept);
    }
    free(candidate);
    free(kept);
}

void rows_compare(const struct kvc_session *session, const struct tensors *t, const struct head *heads,
                  const char *spec, const char *when) {
    int32_t *positions = malloc((t->rows + 64) * sizeof *positions);
    struct kvc_error error;
    assert_non_null(positions);
    for (uint32_t l = 0; l < t->layers; l++) {
        assert_int_equal(kvc_session_heads(session, l), t->lists);
        for (uint32_t h = 0; h < t->lists; h++) {
            const struct head *head = &heads[l * t->lists + h];
            size_t count = 0;
            SPEC_FINE(kvc_session_positions(session, l, h, positions, t->rows + 64, &count, &error));
            bool same = count == head->count;
            for (size_t j = 0; same && j < count; j++)
                same = positions[j] == head->entries[j].position;
            if (!same)
                fail_msg("%s, %s: layer %u list %u holds other entries (%zu, expected %u)", spec, when, l, h, count,
                         head->count);
        }
    }
    free(positions);
}

struct row_lists rows_lists(const struct tensors *t) {
    const size_t n = (size_t)t->layers * t->lists, capacity = t->rows + 64;
    struct row_lists lists = {calloc(n, sizeof(struct head)), calloc(n * capacity, sizeof(struct entry)),
                              malloc(2 * n * capacity * sizeof(float *)), 0, 2 * n * capacity}; /* pseudo rows, too */
    assert_true(lists.heads && lists.entries && lists.made);
    for (size_t i = 0; i < n; i++)
        lists.heads[i].entries = lists.entries + i * capacity;
    return lists;
}

void rows_free_lists(struct row_lists *lists) {
    for (size_t i = 0; i < lists->count; i++)
        free(lists->made[i]);
    free(lists->made);
    free(lists->entries);
    free(lists->heads);
}

void rows_append(struct row_lists *lists, const struct tensors *t, enum kvc_type type, uint32_t l, uint32_t h,
                 uint32_t row) {
    struct head *head = &lists->heads[l * t->lists + h];
    append(head, t, type, l, h, row);
    assert_true(lists->count < lists->capacity);
    lists->made[lists->count++] = head->entries[head->count - 1].k;
}

struct kvc_replay *rows_replay(struct kvc_engine *engine, const struct tensors *t, const char *spec, enum kvc_type type,
                               uint32_t chunk) {
    const struct kvc_geometry geometry = {t->layers, t->heads, t->kv_heads, t->d};
    struct kvc_session_options options;
    struct kvc_replay *replay;
    struct kvc_error error;
    kvc_session_defaults(&options);
    options.policy = spec;
    options.cache_type = kvc_entry_types(type);
    options.chunk = chunk;
    options.record_reads = true;
    SPEC_FINE(kvc_replay_open(engine, &geometry, &options, &replay, &error));
    return replay;
}

void rows_add_layers(char *spec, size_t capacity, uint32_t left_out, uint32_t layers) {
    const char *between = ",layers=";
    for (uint32_t l = 0; l < layers && left_out; l++)
        if (oracle_acts(left_out, l)) {
            const size_t used = strlen(spec);
            snprintf(spec + used, capacity - used, "%s%u", between, l);
            between = "/";
        }
}

void rows_add_decode(char *spec, size_t capacity, const struct plan *decode) {
    const size_t used = strlen(spec);
    if (decode->decode == MORPHKV)
        snprintf(spec + used, capacity - used, "+morphkv:budget=%u,window=%u,every=%u,fusion=%s,scores=%s",
                 decode->decode_budget, decode->decode_window, decode->every, decode->max_fusion ? "max" : "sum",
                 decode->logits ? "logits" : "weights");
}

void rows_add_select(char *spec, size_t capacity, const struct select_plan *plan) {
    const size_t used = strlen(spec);
    spec += used;
    capacity -= used;
    switch (plan->method) {
    case TOPK:
        snprintf(spec, capacity, "+topk:budget=%u", plan->budget);
        break;
    case QUEST:
        snprintf(spec, capacity, "+quest:budget=%u,page=%u", plan->budget, plan->page);
        break;
    case SPARQ:
        snprintf(spec, capacity, "+sparq:dims=%u,topk=%u", plan->dims, plan->topk);
        break;
    case HSA:
        snprintf(spec, capacity, "+hsa:page=%u,dims=%u,topk=%u", plan->page, plan->dims, plan->topk);
        break;
    case ROCKET:
    case ROCKET_MT:
        snprintf(spec, capacity, "+rocketkv%s:budget=%u,window=%u,kernel=%u", plan->method == ROCKET ? "" : "-mt",
                 plan->budget, plan->window, plan->kernel);
    }
}

void rows_observe(const struct tensors *t, struct row_lists *lists, uint32_t l, uint32_t now, uint32_t rows,
                  const struct plan *decode) {
    const struct moment moment = {t, lists->heads + (size_t)l * t->lists, l, now, rows, 0};
    oracle_look(&moment, decode);
}

uint32_t rows_longest(const struct tensors *t, const struct row_lists *lists, uint32_t l) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < t->lists; h++)
        most = lists->heads[l * t->lists + h].count > most ? lists->heads[l * t->lists + h].count : most;
    return most;
}

void rows_note_after(const struct tensors *t, struct row_lists *lists) {
    for (uint32_t l = 0; l < t->layers; l++)
        for (uint32_t h = 0; h < t->lists; h++)
            lists->heads[l * t->lists + h].after = rows_longest(t, lists, l);
}

uint32_t rows_share(uint32_t held, uint32_t share) {
    const uint32_t tokens = (held * share + 50) / 100;
    return tokens ? tokens : 1;
}

void rows_run_steps(struct kvc_replay *replay, const struct tensors *t, struct row_lists *lists,
                    const struct row_steps *steps, enum kvc_type type, uint32_t prompt, uint32_t end, float *out,
                    const char *spec) {
    struct kvc_error error;
    for (uint32_t row = prompt; row < end; row++) {
        for (uint32_t l = 0; l < t->layers; l++) {
            const struct moment moment = {t, lists->heads + (size_t)l * t->lists, l, row + 1, 0, row + 1 - prompt};
            const size_t kv = kv_at(t, l, row, 0);
            SPEC_FINE(kvc_replay_step(replay, l, q_row(t, l, row), t->k + kv, t->v + kv, out, &error));
            for (uint32_t h = 0; h < t->lists; h++)
                rows_append(lists, t, type, l, h, row);
            for (uint32_t h = 0; h < t->lists && steps->select; h++)
                side_compare_choice(kvc_replay_session(replay), &moment, h, oracle_select, steps->select, out, spec);
            oracle_step(&moment, steps->decode);
            for (uint32_t h = 0; h < t->lists; h++)
                for (uint32_t j = 0; j < moment.heads[h].count; j++)
                    moment.heads[h].entries[j].unread = false;
        }
        rows_compare(kvc_replay_session(replay), t, lists->heads, spec, "a step");
    }
}

void rows_add_probabilities(const struct tensors *t, const struct head *head, uint32_t h, const float *q, uint32_t n,
                            uint32_t counted, float *score) {
    const uint32_t group = t->heads / t->lists;
    float *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a), *sum = calloc(n, sizeof *sum);
    assert_true(s && a && sum);
    for (uint32_t g = 0; g < group; g++) {
        attend(head->entries, n, q + (size_t)(h * group + g) * t->d, t->d, s, a, NULL);
        for (uint32_t j = 0; j < n; j++)
            sum[j] += a[j];
    }
    for (uint32_t j = 0; j < counted; j++)
        score[j] += sum[j];
    free(s);
    free(a);
    free(sum);
}
