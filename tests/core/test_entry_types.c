/* test_entry_types.c - the types of cache entries: their texts and sizes, how far stored values are from the values
 * given, and sessions with every type: the same bits for any chunk and thread count, on ref, alone and in a batch. */
#include <math.h>

#include "tests/core/session_fixture.h"

#include "core/base/canon.h"
#include "core/base/entry_types.h"
#include "core/base/types.h"
#include "core/engine/session.h"

static const enum kvc_type types[] = {KVC_F32,  KVC_F16,    KVC_BF16, KVC_Q8_0, KVC_Q4_0,
                                      KVC_Q4_1, KVC_IQ4_NL, KVC_Q4H,  KVC_Q5H,  KVC_Q6H};
enum { TYPES = sizeof types / sizeof *types };

static void test_texts(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "f64",
                                        "q3_k",
                                        "q8_k",
                                        "k=f16",
                                        "v=q8_0",
                                        "k=f16,k=f16",
                                        "k=f16,v=",
                                        "=f16,v=f16",
                                        "k=f16,v=q5_0",
                                        "k=f16,",
                                        ",",
                                        "k=f16,v=f16,",
                                        "kv=f16",
                                        "k=f16, v=f16",
                                        "f16,q4h",
                                        "k=f16 v=q8_0",
                                        "x=f16,v=f16",
                                        "k=q4h,v=q4h ",
                                        "any"};
    struct kvc_entry_types found, kept = {KVC_Q6H, KVC_F32};
    char text[KVC_ENTRY_TYPES_NAME];
    for (size_t k = 0; k < TYPES; k++)
        for (size_t v = 0; v < TYPES; v++) {
            const struct kvc_entry_types pair = {types[k], types[v]};
            assert_true(kvc_entry_types_valid(pair));
            assert_true(kvc_entry_types_from_name(kvc_entry_types_name(pair, text), &found));
            assert_true(kvc_entry_types_equal(pair, found));
            assert_int_equal(strchr(text, ',') != NULL, k != v);
        }
    assert_true(kvc_entry_types_from_name("V=q4H", &found) == false);
    assert_true(kvc_entry_types_from_name("v=Q4H,k=q8_0", &found));
    assert_true(found.key == KVC_Q8_0 && found.value == KVC_Q4H);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        found = kept;
        if (kvc_entry_types_from_name(wrong[i], &found))
            fail_msg("%s is accepted", wrong[i]);
        assert_true(kvc_entry_types_equal(found, kept));
    }
    for (int type = 0; type <= KVC_ANY_TYPE; type++) {
        bool listed = false;
        for (size_t i = 0; i < TYPES; i++)
            listed = listed || (int)types[i] == type;
        assert_int_equal(kvc_entry_types_valid(kvc_entry_types((enum kvc_type)type)), listed);
        assert_int_equal(kvc_entry_row_bytes((enum kvc_type)type, 64) != 0, listed);
    }
}

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        enum kvc_type type;
        uint32_t bytes[5]; /* of 1, 20, 33, 64 and 80 channels */
    } rows[] = {{KVC_F32, {4, 80, 132, 256, 320}}, {KVC_F16, {2, 40, 66, 128, 160}}, {KVC_BF16, {2, 40, 66, 128, 160}},
                {KVC_Q8_0, {3, 22, 37, 68, 86}},   {KVC_Q4_0, {3, 18, 21, 36, 54}},  {KVC_Q4H, {3, 18, 21, 36, 54}},
                {KVC_IQ4_NL, {3, 18, 21, 36, 54}}, {KVC_Q4_1, {5, 20, 25, 40, 60}},  {KVC_Q5H, {7, 22, 29, 44, 66}},
                {KVC_Q6H, {11, 26, 37, 52, 78}}};
    static const uint32_t sizes[] = {1, 20, 33, 64, 80};
    for (size_t i = 0; i < TYPES; i++)
        for (size_t s = 0; s < 5; s++)
            assert_int_equal(kvc_entry_row_bytes(rows[i].type, sizes[s]), rows[i].bytes[s]);
}

/* Returns the largest permitted difference between x and its stored value, in a group from `least` to `largest`. */
static double bound(enum kvc_type type, double x, double least, double largest) {
    const double amax = fmax(fabs(least), fabs(largest)), half = 0.5 + 1e-3 * 16;
    switch (type) {
    case KVC_F32:
        return 0.0;
    case KVC_F16:
        return fabs(x) * 0x1p-11;
    case KVC_BF16:
        return fabs(x) * 0x1p-8;
    case KVC_Q8_0:
        return amax / 127 * (half + 0.05);
    case KVC_Q4_1:
        return (largest - least) / 15 * (half + 0.02);
    case KVC_IQ4_NL: /* half the widest gap of the table, 24 of 127, or the missing end above 113 */
        return amax / 127 * 14.1;
    case KVC_Q5H:
        return amax / 16 * (half + 0.5);
    case KVC_Q6H:
        return amax / 32 * (half + 0.5);
    case KVC_Q4H: /* the largest value is 140 scales at most, and 113 may be stored for it */
        return amax / 140 * 27.1;
    default: /* a step, because there is no quant 8 */
        return amax / 8 * (half + 0.5);
    }
}

/* Stores rows of each type through a session's device and compares what is read with what was given. */
static void test_values(void **state) {
    (void)state;
    enum { D = 80, ROWS = 40 };
    struct kvc_session *session = open_with(model, "full", KVC_F16, 0);
    struct kvc_device *device = session->runner->device;
    const struct kvc_ops *ops = device->ops;
    for (size_t t = 0; t < TYPES; t++) {
        struct kvc_entry_format format = kvc_entry_format((struct kvc_entry_types){types[t], types[TYPES - 1 - t]}, D);
        uint32_t host_base[] = {0, 2 * KVC_BLOCK}, zero = 0, blocks[3];
        int32_t positions[ROWS];
        float given[2 * ROWS * D], read[2 * ROWS * D];
        struct kvc_lists lists = {.kv_heads = 1, .format = format, .host_base = host_base};
        struct kvc_buffer *rows, *where;
        FINE(ops->arena_create(device, &format, &lists.arena, &error));
        FINE(ops->arena_take(device, lists.arena, 2, blocks, &error));
        FINE(ops->buffer_create(device, KVC_MEMORY_STATE, sizeof host_base, &lists.base, &error));
        FINE(ops->buffer_create(device, KVC_MEMORY_STATE, sizeof zero, &lists.count, &error));
        FINE(ops->buffer_create(device, KVC_MEMORY_STATE, sizeof blocks, &lists.blocks, &error));
        FINE(ops->buffer_create(device, KVC_MEMORY_SCRATCH, sizeof given, &rows, &error));
        FINE(ops->buffer_create(device, KVC_MEMORY_SCRATCH, sizeof positions, &where, &error));
        for (int i = 0; i < 2 * ROWS * D; i++) /* some groups hold one large value or are zero */
            given[i] = i % 97 == 0 ? 50.0f : i / D % 7 == 3 ? 0.0f : sinf((float)i * 0.37f) * (float)(1 + i % 5);
        for (int i = 0; i < ROWS; i++)
            positions[i] = i;
        ops->upload(device, (struct kvc_span){lists.base, 0}, host_base, sizeof host_base);
        ops->upload(device, (struct kvc_span){lists.count, 0}, &zero, sizeof zero);
        ops->upload(device, (struct kvc_span){lists.blocks, 0}, blocks, 2 * sizeof *blocks);
        ops->upload(device, (struct kvc_span){rows, 0}, given, sizeof given);
        ops->upload(device, (struct kvc_span){where, 0}, positions, sizeof positions);
        const struct kvc_segment segment = {.lists = &lists, .rows = ROWS, .stored = ROWS};
        ops->append(device, &(struct kvc_append){.segments = &segment,
                                                 .segment_count = 1,
                                                 .k = {rows, 0},
                                                 .v = {rows, sizeof given / 2},
                                                 .positions = {where, 0}});
        ops->entries(device,
                     &(struct kvc_entries){.lists = &lists, .keys = {rows, 0}, .values = {rows, sizeof given / 2}});
        ops->download(device, read, (struct kvc_span){rows, 0}, sizeof read);
        FINE(ops->sync(device, &error));
        for (size_t side = 0; side < 2; side++)
            for (size_t i = 0; i < ROWS * D; i++) {
                const size_t first = (side * ROWS + i / D) * D + i % D / 32 * 32, n = i % D / 32 == 2 ? 16 : 32;
                double least = (double)given[first], largest = least;
                for (size_t e = 0; e < n; e++) {
                    least = fmin(least, (double)given[first + e]);
                    largest = fmax(largest, (double)given[first + e]);
                }
                const enum kvc_type type = side ? format.value.type : format.key.type;
                const size_t at = side * ROWS * D + i;
                const double x = (double)given[at], off = fabs((double)read[at] - x);
                if (!(off <= bound(type, x, least, largest)))
                    fail_msg("%s: %g is read as %g", kvc_type_name(type), x, (double)read[at]);
            }
        ops->arena_return(device, lists.arena, 2, blocks);
        ops->arena_free(device, lists.arena);
        struct kvc_buffer *const buffers[] = {lists.base, lists.count, lists.blocks, rows, where};
        for (size_t i = 0; i < 5; i++)
            ops->buffer_free(device, buffers[i]);
    }
    kvc_session_close(session);
}

/* Returns a normal random number. */
static double draw_normal(uint64_t *state) {
    double u[2];
    for (int i = 0; i < 2; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        u[i] = ((double)(*state >> 11) + 0.5) * 0x1p-53;
    }
    return sqrt(-2.0 * log(u[0])) * cos(2.0 * acos(-1.0) * u[1]);
}

/* Returns the squared error of x [n] if each value is stored as the nearest of `count` levels, times the scale. */
static double squared_error(const float *x, int n, double scale, const int *level, int count) {
    double sum = 0.0;
    for (int e = 0; e < n; e++) {
        double least = INFINITY;
        for (int c = 0; c < count; c++)
            least = fmin(least, fabs((double)x[e] - scale * level[c]));
        sum += least * least;
    }
    return sum;
}

/* Q4H takes the best of its scales, has less error than integers of four bits, and stores its own values without loss.
 */
static void test_scales(void **state) {
    (void)state;
    static const int tops[] = {-127, 113, -104, -134, -121, 118, -131, -140};
    int level[16], integers[16];
    double stored_error = 0.0, integer_error = 0.0;
    uint64_t random = 7;
    for (int c = 0; c < 16; c++) {
        level[c] = kvc_iq4_value(c);
        integers[c] = c - 8;
    }
    for (int round = 0; round < 3000; round++) {
        const int n = round % 5 ? 32 : 1 + round % 31;
        float x[32], stored[32], again[32];
        double top = 0.0, best = INFINITY, error_here = 0.0;
        for (int e = 0; e < n; e++) {
            x[e] = stored[e] = (float)(draw_normal(&random) * pow(10.0, round % 7 - 1.0));
            top = fabs((double)x[e]) > fabs(top) ? (double)x[e] : top;
        }
        kvc_round_group(stored, n, 8.0f);
        for (int i = 0; i < KVC_Q4H_SCALES; i++) {
            const double scale = (double)kvc_f16_to_f32(kvc_f32_to_f16((float)top / (float)tops[i]));
            best = fmin(best, squared_error(x, n, scale, level, 16));
        }
        for (int e = 0; e < n; e++)
            error_here += ((double)x[e] - (double)stored[e]) * ((double)x[e] - (double)stored[e]);
        if (!(error_here <= best * 1.0001 + top * top * 1e-9))
            fail_msg("round %d: the squared error is %g, with the best scale %g", round, error_here, best);
        memcpy(again, stored, sizeof again);
        kvc_round_group(again, n, 8.0f);
        for (int e = 0; e < n; e++)
            assert_true(again[e] == stored[e]);
        if (n == 32 && round % 7 == 1) {
            stored_error += error_here;
            integer_error += squared_error(x, n, top / -8.0, integers, 16);
        }
    }
    assert_true(stored_error < 0.8 * integer_error);
}

/* ---- sessions ---- */

enum { ROWS = 150, STEPS = 6 };

/* Runs a prompt and steps, and writes the last logits of both to `logits` [2, vocab]. */
static bool run(struct kvc_model *on, const char *policy, struct kvc_entry_types pair, uint32_t chunk, float *logits) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = pair;
    options.chunk = chunk;
    if (kvc_session_open(on, &options, &session, &error) != KVC_OK) {
        assert_non_null(strstr(error.text, "reads single channels of keys"));
        assert_true(kvc_type_is_rotated(pair.key));
        return false;
    }
    FINE(kvc_session_prompt(session, tokens, ROWS, NULL, logits, &error));
    for (size_t i = 0; i < STEPS; i++)
        FINE(kvc_decode(&session, &tokens[ROWS + i], 1, logits + vocab, NULL, &error));
    kvc_session_close(session);
    return true;
}

static struct kvc_model *open_other(struct kvc_engine **other, const char *backend, enum kvc_math math, int threads) {
    const struct kvc_engine_options options = {.backend = backend, .threads = threads, .math = math};
    struct kvc_model *opened;
    FINE(kvc_engine_open(&options, other, &error));
    FINE(kvc_model_open(*other, model_path, &opened, &error));
    return opened;
}

/* Every type under methods of every stage: ref, one thread and small chunks give the same bits. */
static void test_sessions(void **state) {
    (void)state;
    static const char *const specs[] = {"full",
                                        "snapkv:budget=40",
                                        "morphkv:budget=40,every=4,fusion=max",
                                        "topk:budget=24",
                                        "quest:budget=24,page=8",
                                        "streaming:budget=40,positions=cache",
                                        "criticalkv:budget=40",
                                        "knorm:budget=40",
                                        "expected:budget=40",
                                        "snapkv:budget=40,per=head+quest:budget=24,page=8"};
    struct kvc_engine *engines[2];
    struct kvc_model *const models[] = {open_other(&engines[0], "ref", KVC_MATH_EXACT, 1),
                                        open_other(&engines[1], NULL, KVC_MATH_EXACT, 1)};
    float *logits = malloc(2 * 2 * vocab * sizeof *logits);
    size_t refused = 0, ran = 0;
    assert_non_null(logits);
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = t % 3; s < sizeof specs / sizeof *specs; s += kvc_test_thinned() ? 9 : 3) {
            const struct kvc_entry_types pair = {types[t], types[(t + s) % TYPES]};
            char text[KVC_ENTRY_TYPES_NAME];
            if (!run(model, specs[s], pair, 0, logits)) {
                refused++;
                continue;
            }
            ran++;
            for (size_t i = 0; i < 2; i++) {
                assert_true(run(models[i], specs[s], pair, i ? 17 : 64, logits + 2 * vocab));
                if (memcmp(logits, logits + 2 * vocab, 2 * vocab * sizeof *logits) != 0)
                    fail_msg("%s, %s: %s gives other logits", specs[s], kvc_entry_types_name(pair, text),
                             i ? "one thread with chunks of 17" : "ref");
            }
        }
    assert_true(kvc_test_thinned() || (refused >= 2 && ran >= 25));
    for (size_t i = 0; i < 2; i++) {
        kvc_model_close(models[i]);
        kvc_engine_close(engines[i]);
    }
    free(logits);
}

/* The rotation changes a session with exact entries only by rounding: if it were wrong, the logits would be far off.
 * Six bits are nearer to float32 than four. */
static void test_rotation(void **state) {
    (void)state;
    static const struct kvc_entry_types pairs[] = {
        {KVC_F32, KVC_F32}, {KVC_Q6H, KVC_F32}, {KVC_F32, KVC_Q6H}, {KVC_Q6H, KVC_Q6H}, {KVC_Q4H, KVC_Q4H}};
    float *logits = malloc(4 * vocab * sizeof *logits);
    double off[5] = {0}, size = 0.0;
    assert_non_null(logits);
    assert_true(run(model, "full", pairs[0], 0, logits));
    for (size_t p = 1; p < 5; p++) {
        assert_true(run(model, "full", pairs[p], 0, logits + 2 * vocab));
        for (size_t i = 0; i < 2 * vocab; i++) {
            const double d = (double)logits[i] - (double)logits[2 * vocab + i];
            off[p] += d * d;
            size += p == 1 ? (double)logits[i] * (double)logits[i] : 0.0;
        }
        assert_true(off[p] > 0.0);
        if (!(off[p] < size * (p == 4 ? 0.1 : 0.006)))
            fail_msg("pair %zu: the logits are off by %g of %g", p, off[p], size);
    }
    assert_true(off[3] < off[4] / 4);
    free(logits);
}

/* Reads the positions in a list of a session with this policy and type after the prompt. */
static size_t kept_in(struct kvc_session *session, uint32_t layer, uint32_t head, bool *kept) {
    int32_t positions[ROWS];
    size_t count;
    FINE(kvc_session_positions(session, layer, head, positions, ROWS, &count, &error));
    memset(kept, 0, ROWS * sizeof *kept);
    for (size_t i = 0; i < count; i++)
        kept[positions[i]] = true;
    return count;
}

/* Methods that score stored keys or values by vectors of their own rotate these vectors, too: they keep nearly the same
 * entries of rotated types. Two random choices of 40 of 150 entries have 27 % in common. */
static void test_rotated_scores(void **state) {
    (void)state;
    static const char *const specs[] = {"qfilter:budget=40,file=drawn", "criticalkv:budget=40,window=4"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        struct kvc_session *sessions[2];
        size_t all = 0, common = 0;
        for (int i = 0; i < 2; i++) {
            struct kvc_session_options options;
            kvc_session_defaults(&options);
            options.policy = specs[s];
            options.cache_type = kvc_entry_types(i ? KVC_Q6H : KVC_F32);
            FINE(kvc_session_open(model, &options, &sessions[i], &error));
            FINE(kvc_session_prompt(sessions[i], tokens, ROWS, NULL, NULL, &error));
        }
        for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++)
            for (uint32_t h = 0; h < kvc_session_heads(sessions[0], l); h++) {
                bool kept[2][ROWS];
                const size_t count = kept_in(sessions[0], l, h, kept[0]);
                assert_int_equal(kept_in(sessions[1], l, h, kept[1]), count);
                all += count;
                for (size_t r = 0; r < ROWS; r++)
                    common += kept[0][r] && kept[1][r];
            }
        if (common < all * 93 / 100)
            fail_msg("%s: %zu of %zu entries are the same", specs[s], common, all);
        kvc_session_close(sessions[0]);
        kvc_session_close(sessions[1]);
    }
}

/* Sessions of different types in one batch get what each gets alone. */
static void test_batch(void **state) {
    (void)state;
    enum { MANY = 5 };
    static const struct kvc_entry_types pairs[MANY] = {
        {KVC_Q4H, KVC_Q4H}, {KVC_F16, KVC_F16}, {KVC_Q8_0, KVC_Q4H}, {KVC_Q8_0, KVC_Q4H}, {KVC_BF16, KVC_Q4_1}};
    struct kvc_session *sessions[MANY];
    int32_t next[MANY];
    float *alone = malloc(2 * vocab * sizeof *alone), *together = malloc(MANY * vocab * sizeof *together);
    assert_true(alone && together);
    for (size_t i = 0; i < MANY; i++) {
        struct kvc_session_options options;
        kvc_session_defaults(&options);
        options.cache_type = pairs[i];
        FINE(kvc_session_open(model, &options, &sessions[i], &error));
        FINE(kvc_session_prompt(sessions[i], tokens, ROWS, NULL, NULL, &error));
    }
    for (size_t s = 0; s < STEPS; s++) {
        for (size_t i = 0; i < MANY; i++)
            next[i] = tokens[ROWS + s];
        FINE(kvc_decode(sessions, next, MANY, together, NULL, &error));
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_true(run(model, "full", pairs[i], 0, alone));
        if (memcmp(alone + vocab, together + i * vocab, vocab * sizeof *alone) != 0)
            fail_msg("session %zu gets other logits in the batch", i);
        kvc_session_close(sessions[i]);
    }
    free(alone);
    free(together);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts),          cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_values),         cmocka_unit_test(test_scales),
                                       cmocka_unit_test(test_sessions),       cmocka_unit_test(test_rotation),
                                       cmocka_unit_test(test_rotated_scores), cmocka_unit_test(test_batch)};
    return cmocka_run_group_tests(tests, set_up, close_whole);
}
