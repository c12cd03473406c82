/* test_saved_file.c - files of saved sessions: the caller's own data in them; and wrong files (another model, policy or
 * arithmetic, damaged, cut short), each of which is refused in one line with the reason. */
#include "core/base/bytes_hash.h"
#include "core/engine/archive.h"
#include "models/model.h"
#include "tests/core/same_sessions.h"

#include <sys/stat.h>

static char file_path[300];

enum { LAYER_SLOTS = 48 }; /* offset of the lists' slots in a layer's section, before their counts and those of views */

/* ---- what a file holds in addition to the session ---- */

static void test_beside(void **state) {
    (void)state;
    struct kvc_sampler_options options;
    struct kvc_session *session = open_with(model, "streaming:budget=20", KVC_F16, 0), *loaded;
    struct kvc_saved saved = {.tokens = tokens, .token_count = 30}, read = {.tokens = NULL};
    struct kvc_sampler *sampler, *again;
    float *logits = malloc(vocab * sizeof *logits);
    char note[] = "a note\0with a zero";
    assert_non_null(logits);
    kvc_sampler_defaults(&options);
    options.repeat_penalty = 1.3f;
    FINE(kvc_sampler_open(&options, vocab, &sampler, &error));
    FINE(kvc_sampler_open(&options, vocab, &again, &error));
    FINE(kvc_session_prompt(session, tokens, 30, NULL, logits, &error));
    for (size_t i = 0; i < 5; i++)
        kvc_sample(sampler, logits);
    saved.note = note;
    saved.note_bytes = sizeof note;
    saved.logits = logits;
    saved.logit_count = vocab;
    saved.sampler = sampler;
    read.sampler = again;
    FINE(kvc_session_save(session, file_path, &saved, &error));
    FINE(kvc_session_load(model, NULL, file_path, &read, &loaded, &error));
    assert_int_equal(read.token_count, 30);
    assert_memory_equal(read.tokens, tokens, 30 * sizeof *tokens);
    assert_int_equal(read.note_bytes, sizeof note);
    assert_memory_equal(read.note, note, sizeof note);
    assert_int_equal(read.logit_count, vocab);
    assert_memory_equal(read.logits, logits, vocab * sizeof *logits);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(kvc_sample(sampler, logits), kvc_sample(again, logits));
    kvc_saved_free(&read);
    kvc_session_close(loaded);
    FINE(kvc_session_load(model, NULL, file_path, NULL, &loaded, &error)); /* whoever does not need it may pass NULL */
    kvc_session_close(loaded);
    kvc_session_close(session);
    session = open_with(model, "h2o:budget=20", KVC_F16, 0); /* no tokens yet */
    FINE(kvc_session_save(session, file_path, NULL, &error));
    FINE(kvc_session_load(model, NULL, file_path, &read, &loaded, &error));
    assert_null(read.tokens);
    assert_null(read.logits);
    kvc_saved_free(&read);
    FINE(kvc_session_prompt(loaded, tokens, 30, NULL, NULL, &error));
    FINE(kvc_session_prompt(session, tokens, 30, NULL, NULL, &error));
    same(session, loaded, "h2o", "saved before its first token");
    kvc_session_close(loaded);
    kvc_session_close(session);
    kvc_sampler_close(sampler);
    kvc_sampler_close(again);
    free(logits);
}

/* ---- refusals ---- */

static void refused(const char *text, enum kvc_status status) {
    struct kvc_session *session;
    enum kvc_status got = kvc_session_load(model, NULL, file_path, NULL, &session, &error);
    if (got != status || session || !strstr(error.text, text) || strchr(error.text, '\n') ||
        !strstr(error.text, file_path))
        fail_msg("status %d, \"%s\": must be %d, \"%s\"", got, error.text, status, text);
}

static void write_bytes(const char *bytes, size_t count) {
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Damage to any byte is found: every byte at the beginning is tried, and a selection of the others. */
static void test_damaged(void **state) {
    (void)state;
    struct kvc_session *session = open_with(model, "h2o:budget=8+quest:budget=4,page=2", KVC_Q8_0, 0);
    size_t count;
    FINE(kvc_session_prompt(session, tokens, 12, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    kvc_session_close(session);
    char *bytes = bytes_of(file_path, &count), *more = malloc(count + 1);
    assert_non_null(more);
    const size_t stride = kvc_test_thinned() ? count / 20 : count / 300;
    for (size_t i = 0; i < count; i += i < 100 && !kvc_test_thinned() ? 1 : stride) {
        bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
        write_bytes(bytes, count);
        refused("", KVC_INPUT);
        bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
    }
    for (size_t i = 0; i < count; i += i < 100 && !kvc_test_thinned() ? 1 : 2 * stride) {
        write_bytes(bytes, i);
        refused(i < 16 ? "not a saved session" : "ends too early", KVC_INPUT);
    }
    memcpy(more, bytes, count);
    more[count] = 0;
    write_bytes(more, count + 1);
    refused("1 bytes follow its end", KVC_INPUT);
    more[8] = 5;
    write_bytes(more, count);
    refused("version 5.0; this program reads version 4.0", KVC_INPUT);
    more[8] = 1;
    write_bytes(more, count);
    refused("version 1.0; this program reads version 4.0; give the model its text again", KVC_INPUT);
    remove(file_path);
    refused("No such file", KVC_INPUT);
    assert_int_equal(mkfifo(file_path, 0600), 0);
    refused("not a regular file", KVC_INPUT);
    remove(file_path);
    free(bytes);
    free(more);
}

/* Two valid files exchange sections of the same kind, index and length: neither is a valid file afterwards. */
static void test_of_another_file(void **state) {
    char *bytes[2];
    uint64_t length;
    size_t count[2], tried = 0;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kvc_session *session = open_with(model, "full", KVC_F16, 0);
        FINE(kvc_session_prompt(session, tokens + i, 6, NULL, NULL, &error));
        FINE(kvc_session_save(session, file_path, NULL, &error));
        kvc_session_close(session);
        bytes[i] = bytes_of(file_path, &count[i]);
    }
    assert_int_equal(count[0], count[1]);
    for (size_t at = 16; at < count[0]; at += 24 + (size_t)length) {
        memcpy(&length, bytes[0] + at + 8, sizeof length);
        const size_t all = 24 + (size_t)length;
        char *whole = malloc(count[0]);
        assert_non_null(whole);
        assert_memory_equal(bytes[0] + at, bytes[1] + at, 16);
        memcpy(whole, bytes[0], count[0]);
        memcpy(whole + at, bytes[1] + at, all);
        if (memcmp(bytes[0] + at + 24, bytes[1] + at + 24, (size_t)length) != 0) {
            write_bytes(whole, count[0]);
            refused("has parts of another file", KVC_INPUT);
            memcpy(whole + at, bytes[1] + at, count[1] - at); /* with everything that follows */
            write_bytes(whole, count[0]);
            if (tried++ > 0)
                refused("has parts of another file", KVC_INPUT);
        }
        free(whole);
    }
    assert_true(tried > 1);
    free(bytes[0]);
    free(bytes[1]);
}

/* An existing file that is not a saved session is not replaced. */
static void test_not_replaced(void **state) {
    struct kvc_session *session = open_with(model, "full", KVC_F16, 0);
    const char *const others[] = {"KVC", "a text that somebody wrote\n"};
    (void)state;
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error));
    for (size_t i = 0; i < 2; i++) {
        size_t count;
        write_bytes(others[i], strlen(others[i]));
        assert_int_equal(kvc_session_save_check(file_path, &error), KVC_INPUT);
        assert_int_equal(kvc_session_save(session, file_path, NULL, &error), KVC_INPUT);
        assert_non_null(strstr(error.text, "is not a saved session and is not replaced"));
        char *bytes = bytes_of(file_path, &count);
        assert_int_equal(count, strlen(others[i]));
        assert_memory_equal(bytes, others[i], count);
        free(bytes);
    }
    write_bytes("", 0);
    FINE(kvc_session_save_check(file_path, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    FINE(kvc_session_save_check(file_path, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    remove(file_path);
    FINE(kvc_session_save_check(file_path, &error));
    assert_int_equal(access(file_path, F_OK), -1);
    kvc_session_close(session);
}

/* Returns the body of a section. */
static char *section_of(char *bytes, size_t count, enum kvc_section wanted, uint64_t *length) {
    uint32_t section;
    for (size_t at = 16; at < count; at += 24 + (size_t)*length) {
        memcpy(&section, bytes + at, sizeof section);
        memcpy(length, bytes + at + 8, sizeof *length);
        if (section == wanted)
            return bytes + at + 24;
    }
    fail_msg("the file has no section of kind %d", (int)wanted);
    return NULL;
}

/* Writes a changed file, with the checksums of its sections corrected up to one whose length is wrong. */
static void write_changed(char *bytes, size_t count) {
    uint64_t length, hash = kvc_bytes_hash(0, bytes, 16);
    for (size_t at = 16; at < count; at += 24 + (size_t)length) {
        memcpy(&length, bytes + at + 8, sizeof length);
        if (length > count - at - 24)
            break;
        hash = kvc_bytes_hash(hash, bytes + at, 16);
        if (length)
            hash = kvc_bytes_hash(hash, bytes + at + 24, (size_t)length);
        memcpy(bytes + at + 16, &hash, sizeof hash);
    }
    write_bytes(bytes, count);
}

/* A small file with correct checksums that requests many slots gets only as many as its entries need. */
static void test_hungry(void **state) {
    struct kvc_session *session = open_with(model, "full", KVC_F16, 0);
    struct kvc_session_stats wanted, stats;
    const uint32_t slots = 65536;
    uint64_t length = 0;
    size_t count;
    (void)state;
    FINE(kvc_session_prompt(session, tokens, 3, NULL, NULL, &error));
    kvc_session_stats(session, &wanted);
    FINE(kvc_session_save(session, file_path, NULL, &error));
    kvc_session_close(session);
    char *bytes = bytes_of(file_path, &count), *body = section_of(bytes, count, KVC_SECTION_LAYER, &length);
    for (uint32_t l = 0; l < kvc_model_info(model)->layers; l++, body += 24 + length) /* the layers are in sequence */
        for (uint32_t h = 0; h < kvc_model_info(model)->kv_heads; h++)
            memcpy(body + LAYER_SLOTS + 4 * (size_t)h, &slots, sizeof slots);
    write_changed(bytes, count);
    free(bytes);
    FINE(kvc_session_load(model, NULL, file_path, NULL, &session, &error));
    kvc_session_stats(session, &stats);
    assert_int_equal(stats.cache_bytes, wanted.cache_bytes);
    kvc_session_close(session);
}

/* Files with correct checksums whose contents cannot be. Each change replaces the number at an offset of a section's
 * body (negative: in its head, or at the end of the section before). */
static void test_impossible(void **state) {
    (void)state;
    const uint32_t lists = kvc_model_info(model)->kv_heads;
    enum { BEFORE_HEAD = -28, HEAD_KIND = -24, HEAD_BYTES = -16, PROMPT = 200, TOKENS = PROMPT + 1 /* and a step */ };
    const struct {
        enum kvc_section section;
        long at;
        size_t bytes;
        uint64_t number;
        const char *says;
    } changes[] = {
        {KVC_SECTION_IDENTITY, 9, 1, 0, "its policy is not text"},
        {KVC_SECTION_IDENTITY, 8, 1, 'x', "policy 'x2o' is unknown"},
        {KVC_SECTION_SESSION, 0, 8, UINT64_C(1) << 31, "tokens: 2147483648: must be at most 2147483647"},
        {KVC_SECTION_SESSION, 8, 8, TOKENS + 1, "rows of the last prompt: 202: must be at most 201"},
        {KVC_SECTION_SESSION, 16, 8, TOKENS + 1, "steps since the last prompt: 202: must be at most 201"},
        {KVC_SECTION_SESSION, 48, 4, 1, "long factors of a model that has none"},
        {KVC_SECTION_SESSION, 52, 4, 2, "2 was read: must be 0 or 1"},
        {KVC_SECTION_METHOD, 0, 8, 8, "policy h2o: 8 bytes of state: must be 0"},
        {KVC_SECTION_LAYER, 0, 4, lists + 1, "lists: must be "},
        {KVC_SECTION_LAYER, 4, 8, UINT64_MAX, "entries with the prompt in: 18446744073709551615: must be at most"},
        {KVC_SECTION_LAYER, 12, 8, UINT64_MAX, "entries after the prompt: 18446744073709551615: must be at most"},
        {KVC_SECTION_LAYER, 28, 4, UINT32_MAX, "layer 0: a mean of 4294967295 keys: must be at most"},
        {KVC_SECTION_LAYER, LAYER_SLOTS, 4, UINT32_MAX,
         "layer 0, head 0: 8 entries in 4294967295 slots, of 201 tokens"},
        {KVC_SECTION_LAYER, LAYER_SLOTS, 4, 1, "layer 0, head 0: 8 entries in 1 slots: no list has this size"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 4 * lists, 4, TOKENS + 1, "layer 0, head 0: 202 entries in"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 4 * lists, 4, TOKENS, "it ends too early: the lists up to layer 0, head 0"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 4 * lists, 4, 7, "layer 0, head 0: position "},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 4 * lists, 4, 9, "a section has"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 8 * lists, 4, TOKENS, "pages or a view that cannot be"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 8 * lists, 4, 1, "section 5.0 has 12 bytes too many"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 12 * lists, 4, 1, "pages or a view that cannot be"},
        {KVC_SECTION_LAYER, LAYER_SLOTS + 12 * lists + 8, 4, 65, "pages or a view that cannot be"},
        {KVC_SECTION_LIST, HEAD_BYTES, 8, UINT64_MAX, "it ends too early: section 5.0 at byte"},
        {KVC_SECTION_LIST, HEAD_KIND, 4, 77, "section 77.0 is at byte"},
        {KVC_SECTION_BESIDE, BEFORE_HEAD, 4, UINT32_MAX, "a view whose indices do not ascend"},
        {KVC_SECTION_BESIDE, 0, 8, 5, "5 bytes of tokens: must be a multiple of 4"},
        {KVC_SECTION_BESIDE, 8, 4, vocab, "token 0 is"},
    };
    struct kvc_session *session = open_with(model, "h2o:budget=8+rocketkv-mt:budget=4", KVC_F16, 0);
    struct kvc_saved saved = {.tokens = tokens, .token_count = TOKENS};
    uint64_t length;
    size_t count;
    FINE(kvc_session_prompt(session, tokens, PROMPT, NULL, NULL, &error));
    FINE(kvc_decode(&session, tokens + PROMPT, 1, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, &saved, &error));
    kvc_session_close(session);
    char *right = bytes_of(file_path, &count), *bytes = malloc(count);
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(bytes, right, count);
        memcpy(section_of(bytes, count, changes[i].section, &length) + changes[i].at, &changes[i].number,
               changes[i].bytes);
        write_changed(bytes, count);
        refused(changes[i].says, KVC_INPUT);
    }
    free(right);
    free(bytes);
}

static void try_options(struct kvc_model *m, const char *policy, enum kvc_type type, enum kvc_status status,
                        const char *text) {
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.policy = policy;
    options.cache_type = kvc_entry_types(type);
    REFUSED(kvc_session_load(m, &options, file_path, NULL, &session, &error), status, text);
    assert_null(session);
    assert_null(strchr(error.text, '\n'));
}

static void test_another(void **state) {
    (void)state;
    const char *source = getenv("top_srcdir");
    struct kvc_session_options options;
    struct kvc_session *session = open_with(model, "snapkv:budget=20,window=8", KVC_F16, 0), *loaded;
    struct kvc_model *other;
    char path[512];
    FINE(kvc_session_prompt(session, tokens, 60, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    try_options(model, "snapkv:budget=21,window=8", KVC_F16, KVC_INPUT, "policy: it was saved with snapkv:budget=20,");
    try_options(model, "snapkv:nonsense=1", KVC_F16, KVC_USAGE, "nonsense");
    try_options(model, NULL, KVC_Q8_0, KVC_INPUT, "kv-type: it was saved with f16, but q8_0 is in use");
    kvc_session_defaults(&options); /* equal options, written differently */
    options.policy = "snapkv:kernel=7,budget=20,window=8";
    options.cache_type = kvc_entry_types(KVC_ANY_TYPE);
    options.chunk = 9;
    FINE(kvc_session_load(model, &options, file_path, NULL, &loaded, &error));
    same(session, loaded, "snapkv", "said otherwise");
    kvc_session_close(loaded);
    options.memory_limit = 100;
    REFUSED(kvc_session_load(model, &options, file_path, NULL, &loaded, &error), KVC_RESOURCE, "limit");
    kvc_session_close(session);
    snprintf(path, sizeof path, "%s/tests/data/golden/%s/model.gguf", source ? source : ".",
             kvc_test_thinned() ? "llama3" : "qwen3");
    FINE(kvc_model_open(engine, path, &other, &error));
    try_options(other, NULL, KVC_ANY_TYPE, KVC_INPUT, "model: it was saved with ");
    kvc_model_close(other);
}

/* Another weight or another arithmetic. */
static void test_weights(void **state) {
    (void)state;
    struct {
        struct kvc_engine *engine;
        struct kvc_model *model;
    } places[3];
    static const struct kvc_engine_options with[] = {{.backend = NULL, .threads = 1, .math = KVC_MATH_INT8},
                                                     {.backend = NULL, .threads = 1, .math = KVC_MATH_FLOAT},
                                                     {.backend = NULL, .threads = 1, .math = KVC_MATH_INT8}};
    char path[3][320];
    struct kvc_session *session, *loaded;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s.%d.gguf", file_path, (int)i);
        FINE(kvc_make_model("small", KVC_Q8_0, i == 2 ? 9 : 3, path[i], &error));
        FINE(kvc_engine_open(&with[i], &places[i].engine, &error));
        FINE(kvc_model_open(places[i].engine, path[i], &places[i].model, &error));
        remove(path[i]);
    }
    session = open_with(places[0].model, "full", KVC_F16, 0);
    FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
    FINE(kvc_session_save(session, file_path, NULL, &error));
    kvc_session_close(session);
    REFUSED(kvc_session_load(places[1].model, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
            "arithmetic: it was saved with int8 ");
    REFUSED(kvc_session_load(places[2].model, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
            "model: it was saved with ");
    FINE(kvc_session_load(places[0].model, NULL, file_path, NULL, &loaded, &error));
    kvc_session_close(loaded);
    for (size_t i = 0; i < 3; i++) {
        kvc_model_close(places[i].model);
        kvc_engine_close(places[i].engine);
    }
}

/* Methods that a program adds: one whose state changes and may not come from a file, and one whose state may, within
 * limits. */
static size_t counter_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return geometry->layers * sizeof(uint64_t);
}

static enum kvc_status count_steps(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *e) {
    (void)values, (void)e;
    ((uint64_t *)kvc_stage_state(stage))[kvc_stage_info(stage)->layer]++;
    return KVC_OK;
}

static bool few(const struct kvc_values *values, const struct kvc_geometry *geometry, const void *counts) {
    (void)values, (void)geometry;
    return ((const uint64_t *)counts)[0] < 4;
}

static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
static const struct kvc_policy_class forgets = {.name = "forgets",
                                                .summary = "counts",
                                                .stages = KVC_STAGE_DECODE,
                                                .options = no_options,
                                                .state_bytes = counter_bytes,
                                                .decode = count_steps};
static const struct kvc_policy_class counts = {.name = "counts",
                                               .summary = "counts",
                                               .stages = KVC_STAGE_DECODE,
                                               .options = no_options,
                                               .state_bytes = counter_bytes,
                                               .state_fits = few,
                                               .decode = count_steps};

static void test_own_state(void **state) {
    (void)state;
    const struct kvc_engine_options with = {.backend = NULL, .threads = 1, .math = KVC_MATH_EXACT};
    static const char *const names[] = {"forgets", "counts"};
    struct kvc_session *session, *loaded;
    struct kvc_engine *e;
    struct kvc_model *m;
    FINE(kvc_engine_open(&with, &e, &error));
    FINE(kvc_engine_register(e, &forgets, &error));
    FINE(kvc_engine_register(e, &counts, &error));
    FINE(kvc_model_open(e, model_path, &m, &error));
    for (size_t i = 0; i < 2; i++) {
        session = open_with(m, names[i], KVC_F16, 0);
        FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
        for (uint64_t step = 1; step < 6; step++) {
            FINE(kvc_decode(&session, tokens, 1, NULL, NULL, &error));
            FINE(kvc_session_fork(session, &loaded, &error));
            assert_int_equal(*(uint64_t *)loaded->use[0].state, step);
            kvc_session_close(loaded);
            FINE(kvc_session_save(session, file_path, NULL, &error));
            if (i == 1 && step < 4) {
                FINE(kvc_session_load(m, NULL, file_path, NULL, &loaded, &error));
                assert_int_equal(*(uint64_t *)loaded->use[0].state, step);
                kvc_session_close(loaded);
            } else {
                REFUSED(kvc_session_load(m, NULL, file_path, NULL, &loaded, &error), KVC_INPUT,
                        i ? "policy counts: its state cannot be"
                          : "policy forgets: its saved state differs from that of a new session");
            }
        }
        kvc_session_close(session);
    }
    kvc_model_close(m);
    kvc_engine_close(e);
}

/* Sessions that cannot be saved or forked, and paths where files cannot be written. */
static int within(void *user, uint64_t done, uint64_t total) {
    struct kvc_session *session = *(struct kvc_session **)user, *copy;
    (void)done, (void)total;
    REFUSED(kvc_session_save(session, file_path, NULL, &error), KVC_USAGE, "failed");
    REFUSED(kvc_session_fork(session, &copy, &error), KVC_USAGE, "fork: ");
    return 1;
}

static void test_refused(void **state) {
    (void)state;
    struct kvc_session *session = open_with(model, "full", KVC_F16, 0), *copy;
    const struct kvc_prompt_options options = {.progress = within, .user = &session};
    int32_t none = -1;
    float logit = 0;
    const struct kvc_saved strange[] = {{.tokens = &none, .token_count = 1}, {.logits = &logit, .logit_count = 1}};
    remove(file_path);
    FINE(kvc_session_prompt(session, tokens, 5, NULL, NULL, &error));
    REFUSED(kvc_session_save(session, "/no/such/folder/file", NULL, &error), KVC_RESOURCE, "/no/such/folder/file");
    REFUSED(kvc_session_save(session, file_path, &strange[0], &error), KVC_USAGE, "token 0 is -1");
    REFUSED(kvc_session_save(session, file_path, &strange[1], &error), KVC_USAGE, "1 logits: must be none or");
    REFUSED(kvc_session_prompt(session, tokens, 5, &options, NULL, &error), KVC_USAGE, "stopped");
    REFUSED(kvc_session_fork(session, &copy, &error), KVC_USAGE, "failed");
    assert_null(copy);
    REFUSED(kvc_session_save(session, file_path, NULL, &error), KVC_USAGE, "failed");
    assert_int_not_equal(access(file_path, F_OK), 0);
    kvc_session_close(session);
}

static int set_up_all(void **state) {
    const char *folder = getenv("TMPDIR");
    snprintf(file_path, sizeof file_path, "%s/kvcull-saved-file-%ld", folder ? folder : "/tmp", (long)getpid());
    return set_up(state);
}

static int tear_down_all(void **state) {
    remove(file_path);
    return close_whole(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside),          cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_of_another_file), cmocka_unit_test(test_not_replaced),
                                       cmocka_unit_test(test_hungry),          cmocka_unit_test(test_impossible),
                                       cmocka_unit_test(test_another),         cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_own_state),       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
