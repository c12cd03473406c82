/* test_real.c - real models against other software: tokens, logits, answers, chat texts, perplexity; and answers in
 * every type that convert writes. The models are those of tests/real/models.txt, downloaded by ./dev model; without
 * them the tests skip. tests/golden/make_real_golden.py makes the goldens. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/types.h"
#include "kvcull.h"
#include "models/tokenizer/tokenizer.h"
#include "tests/check.h"
#include "tests/models/tokenizer_checks.h"

/* The largest accepted relative error of a row of logits, and of the perplexity. */
static const double LOGITS_LIMIT = 2e-5, PERPLEXITY_LIMIT = 5e-5;

struct witness {
    const char *name;
    bool small; /* enough for every type and for 20,000 tokens */
    json_t *golden;
    char path[500];
    struct kvc_model *model; /* opened once, closed at the end */
};

static struct witness witnesses[] = {{.name = "smollm2", .small = true}, {.name = "gemma3"}};
static struct kvc_engine *engine;

static const char *source_folder(void) {
    const char *folder = getenv("top_srcdir");
    return folder ? folder : ".";
}

/* Finds the golden data and the model's file; skips the test if either is missing or if computing takes too long. */
static struct witness *find(void **state) {
    struct witness *witness = *state;
    char path[500];
    json_error_t reason;
    if (!witness->golden) {
        snprintf(path, sizeof path, "%s/tests/real/golden/%s.json", source_folder(), witness->name);
        witness->golden = json_load_file(path, 0, &reason);
        if (!witness->golden)
            fail_msg("%s: line %d: %s", path, reason.line, reason.text);
    }
    const char *folder = getenv("KVCULL_MODELS"), *file = json_string_value(json_object_get(witness->golden, "file"));
    if (folder)
        snprintf(witness->path, sizeof witness->path, "%s/%s", folder, file);
    else
        snprintf(witness->path, sizeof witness->path, "%s/models-local/%s", source_folder(), file);
    if (access(witness->path, R_OK) != 0) {
        print_message("%s is not there (./dev model %s brings it): skipped\n", witness->path, witness->name);
        skip();
    }
    return witness;
}

static struct witness *find_model(void **state) {
    struct witness *witness = find(state);
    struct kvc_error error;
#ifdef __SANITIZE_ADDRESS__
    print_message("elsewhere: ./dev check --plain runs real models; with sanitizers they take too long\n");
    skip();
#endif
    if (kvc_test_thinned()) {
        print_message("elsewhere: ./dev check --plain runs real models; thinned tests and valgrind do not\n");
        skip();
    }
    if (!witness->model)
        FINE(kvc_model_open(engine, witness->path, &witness->model, &error));
    return witness;
}

static int32_t *ids_of(const json_t *list, size_t *count) {
    *count = json_array_size(list);
    int32_t *ids = malloc((*count + 1) * sizeof *ids);
    assert_non_null(ids);
    take_ids(list, ids, *count);
    return ids;
}

static char *read_prose(size_t *bytes) {
    char path[500];
    snprintf(path, sizeof path, "%s/tests/real/prose.txt", source_folder());
    char *prose = read_whole(path, bytes);
    if (!prose)
        fail_msg("%s: %s", path, strerror(errno));
    return prose;
}

/* ---- text ---- */

static void test_tokens(void **state) {
    const struct witness *witness = find(state);
    struct kvc_gguf *file;
    struct kvc_tokenizer *tokenizer = open_gguf(witness->path, &file);
    json_t *texts = data_json("tokenizers/texts.json");
    const json_t *rows = json_object_get(witness->golden, "tokens");
    size_t failures = 0;
    assert_int_equal(json_array_size(rows) + 1, json_array_size(texts));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *text = json_array_get(texts, i);
        size_t count;
        int32_t *ids = ids_of(json_array_get(rows, i), &count);
        if (!same_ids(tokenizer, json_string_value(text), json_string_length(text), ids, count, 0)) {
            fprintf(stderr, "%s: text %zu\n", witness->name, i);
            failures++;
        }
        free(ids);
    }
    json_decref(texts);
    kvc_tokenizer_close(tokenizer);
    kvc_gguf_close(file);
    assert_int_equal(failures, 0);
}

static void test_chat(void **state) {
    const struct witness *witness = find_model(state);
    const json_t *chats = json_object_get(witness->golden, "chat");
    assert_int_equal(kvc_model_info(witness->model)->has_chat_template, json_array_size(chats) > 0);
    for (size_t i = 0; i < json_array_size(chats); i++) {
        const json_t *chat = json_array_get(chats, i), *list = json_object_get(chat, "messages");
        struct kvc_message messages[8];
        const size_t count = json_array_size(list);
        struct kvc_error error;
        char *text;
        assert_true(count <= 8);
        for (size_t k = 0; k < count; k++)
            messages[k] = (struct kvc_message){json_string_value(json_object_get(json_array_get(list, k), "role")),
                                               json_string_value(json_object_get(json_array_get(list, k), "content"))};
        FINE(kvc_chat_text(witness->model, NULL, messages, count, true, &text, &error));
        assert_string_equal(text, json_string_value(json_object_get(chat, "text")));
        free(text);
    }
}

/* ---- logits ---- */

static struct kvc_session *open_session(struct kvc_model *model) {
    struct kvc_error error;
    struct kvc_session_options options;
    struct kvc_session *session;
    kvc_session_defaults(&options);
    options.cache_type = kvc_entry_types(KVC_F32);
    FINE(kvc_session_open(model, &options, &session, &error));
    return session;
}

struct rows {
    const json_t *wanted;
    const struct witness *witness;
    size_t seen;
    double worst;
};

/* The relative error of a row for the logits that the golden data has: every 101st logit and the largest ones. */
static double row_error(const json_t *row, const float *logits, uint32_t vocab) {
    const json_t *some = json_object_get(row, "logits"), *best = json_object_get(row, "best");
    const json_t *best_logits = json_object_get(row, "best_logits");
    const size_t every = (size_t)json_integer_value(json_object_get(row, "every"));
    double distance = 0, size = 0, most = 0;
    assert_true(every > 0 && json_array_size(some) == (vocab + every - 1) / every);
    for (size_t i = 0; i < json_array_size(some); i++) {
        const double truth = json_number_value(json_array_get(some, i)), d = (double)logits[i * every] - truth;
        distance += d * d;
        size += truth * truth;
    }
    const double norm = json_number_value(json_object_get(row, "norm"));
    for (size_t i = 0; i < json_array_size(best); i++) {
        const json_int_t id = json_integer_value(json_array_get(best, i));
        assert_true(id >= 0 && id < vocab);
        const double d = fabs((double)logits[id] - json_number_value(json_array_get(best_logits, i)));
        most = d / norm > most ? d / norm : most;
    }
    double whole = 0;
    for (uint32_t i = 0; i < vocab; i++)
        whole += (double)logits[i] * (double)logits[i];
    const double length = fabs(sqrt(whole) / norm - 1), sampled = sqrt(distance / size);
    return fmax(fmax(sampled, most), length);
}

static int take_row(void *user, uint64_t at, const float *logits) {
    struct rows *rows = user;
    for (size_t i = 0; i < json_array_size(rows->wanted); i++) {
        const json_t *row = json_array_get(rows->wanted, i);
        if ((uint64_t)json_integer_value(json_object_get(row, "row")) != at)
            continue;
        const double error = row_error(row, logits, kvc_model_info(rows->witness->model)->vocab);
        print_message("%s: row %u: relative error %.2g\n", rows->witness->name, (unsigned)at, error);
        rows->worst = !(error <= rows->worst) ? error : rows->worst;
        rows->seen++;
    }
    return 0;
}

static void test_logits(void **state) {
    const struct witness *witness = find_model(state);
    struct kvc_error error;
    struct kvc_session *session = open_session(witness->model);
    size_t count, bytes, own_count;
    int32_t *ids = ids_of(json_object_get(witness->golden, "prose"), &count), *own;
    char *prose = read_prose(&bytes);
    FINE(kvc_tokenize(witness->model, prose, bytes, KVC_TOKENIZE_BOS, &own, &own_count, &error));
    assert_true(own_count > count && !memcmp(ids, own, count * sizeof *ids));
    struct rows rows = {json_object_get(witness->golden, "rows"), witness, 0, 0};
    const struct kvc_prompt_options prompt = {.row = take_row, .user = &rows};
    FINE(kvc_session_prompt(session, ids, count, &prompt, NULL, &error));
    assert_int_equal(rows.seen, json_array_size(rows.wanted));
    assert_true(rows.seen > 0 && rows.worst < LOGITS_LIMIT);
    kvc_session_close(session);
    free(prose);
    free(own);
    free(ids);
}

static int32_t likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static void test_greedy(void **state) {
    const struct witness *witness = find_model(state);
    const json_t *list = json_object_get(witness->golden, "greedy");
    const uint32_t vocab = kvc_model_info(witness->model)->vocab;
    float *logits = malloc(vocab * sizeof *logits);
    struct kvc_error error;
    assert_non_null(logits);
    assert_int_equal(json_array_size(list), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *one = json_array_get(list, i), *prompt = json_object_get(one, "prompt");
        size_t given, wanted, own_count;
        int32_t *ids = ids_of(json_object_get(one, "ids"), &given), *own;
        int32_t *out = ids_of(json_object_get(one, "out"), &wanted);
        FINE(kvc_tokenize(witness->model, json_string_value(prompt), json_string_length(prompt),
                          KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL, &own, &own_count, &error));
        assert_true(own_count == given && !memcmp(ids, own, given * sizeof *ids));
        struct kvc_session *session = open_session(witness->model);
        FINE(kvc_session_prompt(session, ids, given, NULL, logits, &error));
        for (size_t k = 0; k < wanted; k++) {
            const int32_t token = likeliest(logits, vocab);
            if (token != out[k])
                fail_msg("%s: prompt %zu: token %zu is %d, not %d", witness->name, i, k, (int)token, (int)out[k]);
            FINE(kvc_decode(&session, &token, 1, logits, NULL, &error));
        }
        assert_int_equal(wanted, 100);
        kvc_session_close(session);
        free(own);
        free(out);
        free(ids);
    }
    free(logits);
}

/* The last row of logits after these tokens, from malloc; `prompt` receives the other rows. */
static float *last_row(struct kvc_model *model, const int32_t *ids, size_t count,
                       const struct kvc_prompt_options *prompt) {
    float *logits = malloc(kvc_model_info(model)->vocab * sizeof *logits);
    struct kvc_session *session = open_session(model);
    struct kvc_error error;
    assert_non_null(logits);
    FINE(kvc_session_prompt(session, ids, count, prompt, logits, &error));
    kvc_session_close(session);
    return logits;
}

/* Written as a Hugging Face folder and read from there: the same tokens, and bit-identical results in float32. The
 * large model is written in bf16, which takes half the disk space. */
static void test_folder(void **state) {
    const struct witness *witness = find_model(state);
    struct witness other = {.name = witness->name};
    const bool exact = witness->small;
    char command[600];
    struct kvc_error error = {0};
    size_t count, bytes, own_count;
    snprintf(other.path, sizeof other.path, "/tmp/kvcull-real-XXXXXX");
    assert_non_null(mkdtemp(other.path));
    strcat(other.path, "/");
    const enum kvc_status status = kvc_convert(witness->path, other.path, exact ? KVC_F32 : KVC_BF16, &error);
    if (status)
        fail_msg("%s", error.text);
    FINE(kvc_model_open(engine, other.path, &other.model, &error));
    int32_t *ids = ids_of(json_object_get(witness->golden, "prose"), &count), *own;
    char *prose = read_prose(&bytes);
    FINE(kvc_tokenize(other.model, prose, bytes, KVC_TOKENIZE_BOS, &own, &own_count, &error));
    assert_true(own_count > count && !memcmp(ids, own, count * sizeof *ids));
    struct rows rows = {json_object_get(witness->golden, "rows"), &other, 0, 0};
    const struct kvc_prompt_options prompt = {.row = take_row, .user = &rows};
    float *theirs = last_row(other.model, ids, count, &prompt), *ours = last_row(witness->model, ids, count, NULL);
    assert_true(rows.seen == json_array_size(rows.wanted) && rows.worst < (exact ? LOGITS_LIMIT : 0.05));
    if (exact)
        assert_memory_equal(ours, theirs, kvc_model_info(other.model)->vocab * sizeof *ours);
    assert_int_equal(kvc_model_info(other.model)->has_chat_template, kvc_model_info(witness->model)->has_chat_template);
    kvc_model_close(other.model);
    snprintf(command, sizeof command, "rm -rf '%s'", other.path);
    assert_int_equal(system(command), 0);
    free(ours);
    free(theirs);
    free(prose);
    free(own);
    free(ids);
}

/* ---- perplexity ---- */

struct score {
    const int32_t *tokens;
    size_t count;
    uint32_t vocab;
    double loss;
    size_t scored;
};

static int score_row(void *user, uint64_t at, const float *logits) {
    struct score *score = user;
    if (at + 1 >= score->count)
        return 0;
    double sum = 0;
    const double most = (double)logits[likeliest(logits, score->vocab)];
    for (uint32_t i = 0; i < score->vocab; i++)
        sum += exp((double)logits[i] - most);
    score->loss += log(sum) + most - (double)logits[score->tokens[at + 1]];
    score->scored++;
    return 0;
}

/* The perplexity of `windows` separate windows of `length` tokens of the prose. */
static double perplexity(struct kvc_model *model, size_t length, size_t windows) {
    struct kvc_error error;
    size_t bytes, count;
    int32_t *tokens;
    char *prose = read_prose(&bytes);
    struct score score = {.vocab = kvc_model_info(model)->vocab};
    FINE(kvc_tokenize(model, prose, bytes, KVC_TOKENIZE_BOS, &tokens, &count, &error));
    assert_true(count >= length * windows);
    for (size_t i = 0; i < windows; i++) {
        struct kvc_session *session = open_session(model);
        const struct kvc_prompt_options prompt = {.row = score_row, .user = &score};
        score.tokens = tokens + i * length;
        score.count = length;
        FINE(kvc_session_prompt(session, score.tokens, length, &prompt, NULL, &error));
        kvc_session_close(session);
    }
    free(tokens);
    free(prose);
    return exp(score.loss / (double)score.scored);
}

static void test_perplexity(void **state) {
    const struct witness *witness = find_model(state);
    if (!witness->small && !getenv("KVCULL_TEST_WHOLE"))
        SKIP_BECAUSE("elsewhere: ./dev check --all measures the perplexity of this model");
    const double truth = json_number_value(json_object_get(witness->golden, "perplexity"));
    const size_t length = (size_t)json_integer_value(json_object_get(witness->golden, "window"));
    const size_t windows = (size_t)json_integer_value(json_object_get(witness->golden, "windows"));
    assert_int_equal(length * windows, 20000);
    const double value = perplexity(witness->model, length, windows);
    print_message("%s: perplexity %.6f, transformers' is %.6f\n", witness->name, value, truth);
    assert_true(fabs(value / truth - 1) < PERPLEXITY_LIMIT);
}

/* ---- types ---- */

/* The highest perplexity that a conversion may have: that of ggml's own quantization plus a margin for chance. For
 * types without blocks: the model's own. */
static double most_perplexity(const struct witness *witness, enum kvc_type type, double own) {
    const json_t *truth = json_object_get(json_object_get(witness->golden, "types"), kvc_type_name(type));
    if (kvc_type_block(type).elements == 1)
        return own * 1.002;
    if (!truth)
        fail_msg("%s: the golden has no type %s (tests/golden/make_real_golden.py --types)", witness->name,
                 kvc_type_name(type));
    return json_number_value(truth) * 1.05;
}

/* For equality a hash of a few tokens' logits would be enough; a perplexity shows the size of a type's error. */
static void test_types(void **state) {
    const struct witness *witness = find_model(state);
    static const enum kvc_type some[] = {KVC_Q8_0, KVC_Q4_K, KVC_F16, KVC_Q5_0};
    const double own = perplexity(witness->model, 200, 1);
    char path[] = "/tmp/kvcull-real-XXXXXX";
    const int handle = mkstemp(path);
    size_t tried = 0;
    assert_true(handle >= 0 && close(handle) == 0);
    /* All types take minutes of conversion; ./dev check --all tries them. */
    const bool all = witness->small && getenv("KVCULL_TEST_WHOLE");
    const size_t count = all ? KVC_TYPES : witness->small ? sizeof some / sizeof *some : 2;
    for (size_t i = 0; i < count; i++) {
        const enum kvc_type type = all ? (enum kvc_type)i : some[i];
        struct kvc_error error = {0};
        struct kvc_model *model;
        const enum kvc_status status = kvc_convert(witness->path, path, type, &error);
        if (status)
            fail_msg("%s", error.text);
        FINE(kvc_model_open(engine, path, &model, &error));
        const double value = perplexity(model, 200, 1);
        const double most = most_perplexity(witness, type, own);
        print_message("%s: %s: perplexity %.4f, at most %.4f\n", witness->name, kvc_type_name(type), value, most);
        kvc_model_close(model);
        assert_true(value > 0.9 * own && value <= most);
        if (type == KVC_F32) /* holds every value of the other types */
            assert_true(value == own);
        tried++;
    }
    remove(path);
    assert_true(tried >= 2);
}

/* ---- running ---- */

static int open_engine(void **state) {
    (void)state;
    const struct kvc_engine_options options = {.backend = "cpu"};
    struct kvc_error error;
    return kvc_engine_open(&options, &engine, &error) == KVC_OK ? 0 : -1;
}

static int close_all(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof witnesses / sizeof *witnesses; i++) {
        json_decref(witnesses[i].golden);
        if (witnesses[i].model)
            kvc_model_close(witnesses[i].model);
    }
    kvc_engine_close(engine);
    return 0;
}

#define OF(number, name)                                                                                               \
    { #name " of " #number, test_##name, NULL, NULL, &witnesses[number] }
#define ALL_OF(number)                                                                                                 \
    OF(number, tokens), OF(number, chat), OF(number, logits), OF(number, greedy), OF(number, folder),                  \
        OF(number, perplexity), OF(number, types)

int main(void) {
    const struct CMUnitTest tests[] = {ALL_OF(0), ALL_OF(1)};
    return cmocka_run_group_tests(tests, open_engine, close_all);
}
