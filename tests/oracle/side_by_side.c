/* side_by_side.c - see side_by_side.h. */
#include "tests/oracle/side_by_side.h"

#include "tests/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct kvc_engine *engine;

static void compare_lists(const struct kvc_session *session, const struct head *heads, const struct tensors *t,
                          uint32_t l, const char *what) {
    int32_t *positions = malloc(t->rows * sizeof *positions);
    assert_non_null(positions);
    for (uint32_t h = 0; h < t->lists; h++) {
        const struct head *head = &heads[l * t->lists + h];
        size_t count = 0;
        assert_int_equal(kvc_session_positions(session, l, h, positions, t->rows, &count, NULL), KVC_OK);
        bool same = count == head->count;
        for (uint32_t j = 0; same && j < count; j++)
            same = positions[j] == head->entries[j].position;
        if (!same) {
            print_error("%s: layer %u head %u keeps other entries (%zu, expected %u)\n", what, l, h, count,
                        head->count);
            fail();
        }
    }
    free(positions);
}

static void compare_output(const struct tensors *t, const struct head *head, uint32_t l, uint32_t h, uint32_t row,
                           uint32_t seen, const float *out, const char *what) {
    const uint32_t group = t->heads / t->lists;
    float *s = malloc(seen * sizeof *s), *a = malloc(seen * sizeof *a), *expected = malloc(t->d * sizeof *expected);
    assert_true(s && a && expected);
    for (uint32_t g = 0; g < group; g++) {
        const size_t at = (size_t)(h * group + g) * t->d;
        attend_within(head->entries, seen, oracle_window(t, l), q_row(t, l, row) + at, t->d, s, a, expected);
        if (memcmp(expected, out + at, t->d * sizeof(float))) {
            print_error("%s: layer %u head %u row %u: other output\n", what, l, h * group + g, row);
            fail();
        }
    }
    free(s);
    free(a);
    free(expected);
}

/* A session and the oracle's heads [layers, H_kv]. */
struct both {
    const struct tensors *t;
    const struct side *side;
    char what[300];
    struct kvc_replay *replay;
    struct head *heads;
    struct entry *entries; /* the entries of all heads */
    float **keys;
    float *out; /* [layers, rows, H, d] */
    size_t key_count;
    uint32_t before; /* entries of the layer's longest list before the turn */
};

static struct head *append_to(struct both *both, uint32_t l, uint32_t h, uint32_t row) {
    struct head *head = &both->heads[l * both->t->lists + h];
    append(head, both->t, both->side->type, l, h, row);
    both->keys[both->key_count++] = head->entries[head->count - 1].k;
    return head;
}

static bool reaches(const struct tensors *t, uint32_t l, uint32_t row) {
    return !t->kept_rows || t->kept_rows[(size_t)l * t->rows + row];
}

/* Calls the oracle's function that decides which entries a layer keeps. */
static void call(struct both *both, moment_fn *keep, uint32_t l, uint32_t now, uint32_t turn, uint32_t step) {
    const struct tensors *t = both->t;
    const struct moment moment = {t, both->heads + (size_t)l * t->lists, l, now, turn, step};
    uint32_t most = 0;
    for (uint32_t h = 0; h < t->lists; h++)
        most = moment.heads[h].count > most ? moment.heads[h].count : most;
    for (uint32_t row = now - turn; row < now; row++)
        most += !reaches(t, l, row);
    if (both->side->evict_after)
        most = both->before + turn;
    for (uint32_t h = 0; h < t->lists && turn; h++)
        moment.heads[h].held = seen_of(t, l, most);
    keep(&moment, both->side->plan);
    for (uint32_t below = 0; below <= l && turn; below++) { /* cake shrinks lower layers again */
        struct head *heads = both->heads + (size_t)below * t->lists;
        for (uint32_t h = most = 0; h < t->lists; h++)
            most = heads[h].count > most ? heads[h].count : most;
        for (uint32_t h = 0; h < t->lists; h++)
            heads[h].after = seen_of(t, below, most);
    }
}

/* Removes hidden entries between rows; the next row has the position `next`. */
static void forget_hidden(struct both *both, uint32_t l, uint32_t next, bool after_prompt) {
    struct head *heads = both->heads + (size_t)l * both->t->lists;
    if (!heads[0].thinned)
        remove_hidden_tiles(heads, both->t, l);
    else if (after_prompt || next % 256 == 0)
        remove_hidden(heads, both->t, l, next);
}

/* Runs the turn of the rows `from` .. from + rows - 1. */
static void prompt_both(struct both *both, uint32_t from, uint32_t rows) {
    const struct tensors *t = both->t;
    struct kvc_error error;
    const size_t wide = (size_t)t->heads * t->d;
    uint32_t given = 0;
    for (uint32_t l = 0; l < t->layers; l++) {
        float *out = both->out + l * t->rows * wide;
        for (; given < t->layers && (given == l || both->side->evict_after); given++) { /* chunks need all layers */
            const size_t kv = kv_at(t, given, from, 0);
            if (kvc_replay_prompt(both->replay, given, q_row(t, given, from), t->k + kv, t->v + kv, rows,
                                  both->out + given * t->rows * wide, &error) != KVC_OK)
                fail_msg("%s: %s", both->what, error.text);
        }
        both->before = 0;
        for (uint32_t h = 0; h < t->lists; h++)
            if (both->heads[l * t->lists + h].count > both->before)
                both->before = both->heads[l * t->lists + h].count;
        for (uint32_t i = 0; i < rows; i++) {
            for (uint32_t h = 0; h < t->lists && reaches(t, l, from + i); h++) {
                const struct head *head = append_to(both, l, h, from + i);
                if (i % (1 + rows / 5) == 0)
                    compare_output(t, head, l, h, from + i, head->count, out + i * wide, both->what);
            }
            if (i + 1 == rows || (both->side->evict_after && (i + 1) % both->side->evict_after == 0))
                call(both, both->side->prompt, l, from + i + 1, rows, 0);
        }
        forget_hidden(both, l, from + rows, true);
        for (uint32_t below = 0; below <= l; below++)
            compare_lists(kvc_replay_session(both->replay), both->heads, t, below, both->what);
    }
}

void side_compare_choice(const struct kvc_session *session, const struct moment *m, uint32_t h, select_fn *select,
                         const void *plan, const float *all_out, const char *what) {
    const struct tensors *t = m->t;
    struct head *head = &m->heads[h];
    const uint32_t group = t->heads / t->lists, n = head->count;
    struct head chosen = {.entries = calloc(n, sizeof(struct entry))};
    bool *read = calloc(n, sizeof *read);
    int32_t *positions = malloc(t->rows * sizeof *positions);
    float alpha[64], *s = malloc(n * sizeof *s), *a = malloc(n * sizeof *a), *out = malloc(t->d * sizeof *out);
    size_t count = 0;
    assert_true(chosen.entries && read && positions && s && a && out && group <= 64);
    const bool mixed = select(m, h, read, alpha, plan);
    for (uint32_t j = 0; j < n; j++)
        if (read[j])
            chosen.entries[chosen.count++] = head->entries[j];
    assert_int_equal(kvc_session_reads(session, m->layer, h, positions, t->rows, &count, NULL), KVC_OK);
    bool same = count == chosen.count;
    for (uint32_t j = 0; same && j < count; j++)
        same = positions[j] == chosen.entries[j].position;
    if (!same)
        fail_msg("%s: layer %u head %u step %u reads other entries (%zu, expected %u)", what, m->layer, h, m->step,
                 count, chosen.count);
    for (uint32_t g = 0; g < group; g++) {
        const size_t at = (size_t)(h * group + g) * t->d;
        attend(chosen.entries, chosen.count, q_row(t, m->layer, m->now - 1) + at, t->d, s, a, out);
        for (uint32_t c = 0; c < t->d && mixed; c++) {
            float sum = 0, many = 0;
            for (uint32_t j = 0; j < n; j++) {
                sum += head->entries[j].hidden ? 0 : head->entries[j].v[c];
                many += head->entries[j].hidden ? 0 : 1;
            }
            out[c] = fmaf(alpha[g], out[c], (1 - alpha[g]) * (sum / many));
        }
        if (memcmp(out, all_out + at, t->d * sizeof *out))
            fail_msg("%s: layer %u head %u step %u: other output", what, m->layer, h * group + g, m->step);
    }
    for (uint32_t j = 0; j < n; j++)
        head->entries[j].unread = !read[j];
    free(chosen.entries);
    free(read);
    free(positions);
    free(s);
    free(a);
    free(out);
}

static void step_both(struct both *both, uint32_t row, uint32_t step) {
    const struct tensors *t = both->t;
    struct kvc_error error;
    for (uint32_t l = 0; l < t->layers; l++)
        forget_hidden(both, l, row, false);
    for (uint32_t l = 0; l < t->layers; l++) {
        const size_t kv = kv_at(t, l, row, 0);
        if (kvc_replay_step(both->replay, l, q_row(t, l, row), t->k + kv, t->v + kv, both->out, &error) != KVC_OK)
            fail_msg("%s: %s", both->what, error.text);
        for (uint32_t h = 0; h < t->lists; h++) {
            struct head *head = append_to(both, l, h, row);
            if (!both->side->select)
                compare_output(t, head, l, h, row, head->count, both->out, both->what);
        }
        const struct moment moment = {t, both->heads + (size_t)l * t->lists, l, row + 1, 0, step};
        for (uint32_t h = 0; h < t->lists && both->side->select; h++)
            side_compare_choice(kvc_replay_session(both->replay), &moment, h, both->side->select, both->side->plan,
                                both->out, both->what);
        call(both, both->side->step, l, row + 1, 0, step);
        for (uint32_t h = 0; h < t->lists; h++)
            for (uint32_t j = 0; j < both->heads[l * t->lists + h].count; j++)
                both->heads[l * t->lists + h].entries[j].unread = false;
        compare_lists(kvc_replay_session(both->replay), both->heads, t, l, both->what);
    }
}

void side_run_turns(const struct tensors *t, const struct turn *turns, size_t turn_count, const struct side *side) {
    const size_t heads = (size_t)t->layers * t->lists;
    const struct kvc_geometry geometry = {t->layers, t->heads, t->kv_heads, t->d};
    struct kvc_error error;
    struct kvc_session_options options;
    struct both both = {.t = t, .side = side};
    snprintf(both.what, sizeof both.what, "%s, H %u/%u, d %u, prompt %u of %u, %s, %zu turns", side->spec, t->heads,
             t->kv_heads, t->d, turns[0].prompt, t->rows, kvc_type_name(side->type), turn_count);
    kvc_session_defaults(&options);
    options.policy = side->spec;
    options.cache_type = kvc_entry_types(side->type);
    options.chunk = side->chunk;
    options.record_reads = side->select != NULL;
    if (kvc_replay_open(engine, &geometry, &options, &both.replay, &error) != KVC_OK)
        fail_msg("%s: %s", both.what, error.text);
    if (t->windows && kvc_replay_windows(both.replay, t->windows, &error) != KVC_OK)
        fail_msg("%s: %s", both.what, error.text);
    both.heads = calloc(heads, sizeof *both.heads);
    both.out = malloc((size_t)t->layers * t->rows * t->heads * t->d * sizeof *both.out);
    both.entries = calloc(heads * t->rows, sizeof *both.entries);
    both.keys = malloc(heads * t->rows * sizeof *both.keys);
    assert_true(both.heads && both.out && both.entries && both.keys);
    for (size_t i = 0; i < heads; i++)
        both.heads[i].entries = both.entries + i * t->rows;
    uint32_t row = 0;
    for (size_t i = 0; i < turn_count; i++) {
        prompt_both(&both, row, turns[i].prompt);
        row += turns[i].prompt;
        for (uint32_t step = 1; step <= turns[i].steps; step++)
            step_both(&both, row++, step);
    }
    assert_int_equal(row, t->rows);
    for (size_t i = 0; i < both.key_count; i++)
        free(both.keys[i]);
    free(both.keys);
    free(both.entries);
    free(both.heads);
    free(both.out);
    kvc_replay_close(both.replay);
}

void side_run(const struct tensors *t, uint32_t prompt, const struct side *side) {
    const struct turn turn = {prompt, t->rows - prompt};
    side_run_turns(t, &turn, 1, side);
}

struct shape {
    uint32_t heads, kv_heads, d, prompt, rows;
};
static const struct shape shapes[] = {
    {4, 4, 8, 60, 75},   /* as many KV heads as heads */
    {8, 2, 16, 90, 100}, /* G = 4 */
    {8, 1, 40, 47, 60},  /* G = 8, one KV head, channels not a multiple of 32 */
    {7, 1, 32, 41, 50},  /* G = 7; the prompt is the budget + 1 */
    {1, 1, 8, 40, 50},   /* one head; the prompt is the budget */
    {2, 1, 8, 1, 50},    /* a prompt of one token */
    {2, 2, 64, 300, 310} /* more than one tile */
};

void side_run_all(const struct side *side, uint32_t layers) {
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const uint32_t chunks[] = {0, 7, 1, 33};
    uint64_t n = 0;
    for (enum kind kind = RANDOM; kind < KINDS; kind++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, n++) {
            const struct shape *shape = &shapes[s];
            if (kvc_test_thinned() && (n + strlen(side->spec)) % 11 != 0) /* each method leaves out other cases */
                continue;
            struct tensors t =
                make_tensors(kind, 1000 * n + 7, layers, shape->heads, shape->kv_heads, shape->d, shape->rows);
            struct side one = *side;
            one.type = types[n % 3];
            one.chunk = chunks[n % 4];
            t.lists = side->per_head ? t.heads : t.kv_heads;
            side_run(&t, shape->prompt, &one);
            free_tensors(&t);
        }
    }
}

static enum kvc_status try(const char *spec, const struct kvc_geometry *geometry, struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_replay *replay = NULL;
    kvc_session_defaults(&options);
    options.policy = spec;
    const enum kvc_status status = kvc_replay_open(engine, geometry, &options, &replay, error);
    if (status == KVC_OK)
        kvc_replay_close(replay);
    return status;
}

void side_accepted(const char *spec, const struct kvc_geometry *geometry) {
    struct kvc_error error;
    if (try(spec, geometry, &error) != KVC_OK)
        fail_msg("%s: %s", spec, error.text);
}

void side_refused(const char *spec, const struct kvc_geometry *geometry, const char *says, const char *too) {
    struct kvc_error error;
    if (try(spec, geometry, &error) == KVC_OK)
        fail_msg("%s: not refused", spec);
    if ((says && !strstr(error.text, says)) || (too && !strstr(error.text, too)))
        fail_msg("%s: '%s' does not say '%s' and '%s'", spec, error.text, says, too);
}

void side_run_kinds(const struct side *side, uint32_t layers, const struct turn *turns, size_t turn_count) {
    static const uint32_t some[][3] = {{4, 4, 8}, {8, 2, 16}, {8, 1, 40}, {7, 1, 32}, {1, 1, 8}};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_Q8_0};
    static const uint32_t chunks[] = {0, 7, 1, 33};
    uint32_t rows = 0;
    for (size_t i = 0; i < turn_count; i++)
        rows += turns[i].prompt + turns[i].steps;
    for (enum kind kind = RANDOM; kind < KINDS; kind++)
        for (uint32_t i = 0; i < 5; i++) {
            if (kvc_test_thinned() && (5 * kind + i + strlen(side->spec)) % 11 != 0)
                continue;
            struct tensors t = make_tensors(kind, 17 * i + 3, layers, some[i][0], some[i][1], some[i][2], rows);
            struct side one = *side;
            t.kept_rows = malloc((size_t)layers * rows);
            assert_non_null(t.kept_rows);
            memset(t.kept_rows, true, (size_t)layers * rows);
            one.type = types[i % 3];
            one.chunk = chunks[(i + (uint32_t)kind) % 4];
            side_run_turns(&t, turns, turn_count, &one);
            free(t.kept_rows);
            free_tensors(&t);
        }
}

int side_open(void **state) {
    (void)state;
    struct kvc_error error;
    const struct kvc_engine_options options = {
        .backend = getenv("KVCULL_TEST_BACKEND"), .threads = 2, .math = KVC_MATH_EXACT};
    return kvc_engine_open(&options, &engine, &error) == KVC_OK ? 0 : -1;
}

int side_close(void **state) {
    (void)state;
    kvc_engine_close(engine);
    return 0;
}

struct kvc_engine *side_engine(void) {
    return engine;
}
