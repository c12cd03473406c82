/* test_convert.c - convert and mkmodel: a lossless conversion is bit-identical, others differ little; random models are
 * equal everywhere; a failure leaves no incomplete file. */
#include "tests/models/file_maker.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/types.h"
#include "models/files/gguf.h"

enum { TOKENS = 40 }; /* 6 under valgrind */

static struct kvc_engine *engine;

static int open_engine(void **state) {
    (void)state;
    struct kvc_engine_options options = {.threads = 2};
    struct kvc_error error;
    return kvc_engine_open(&options, &engine, &error) ? -1 : 0;
}

static int close_engine(void **state) {
    kvc_engine_close(engine);
    return remove_own_folder(state);
}

static void must(enum kvc_status status, const struct kvc_error *error) {
    if (status) {
        print_error("status %d: %s\n", (int)status, error->text);
        fail();
    }
}

/* The last row of logits after some tokens, from malloc. */
static float *logits_of(const char *path, uint32_t *vocab) {
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_session_options options;
    struct kvc_error error = {0};
    int32_t tokens[TOKENS];
    const size_t count = kvc_test_thinned() ? 6 : TOKENS;
    must(kvc_model_open(engine, path, &model, &error), &error);
    *vocab = kvc_model_info(model)->vocab;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)((uint32_t)(7 * i + 3) % *vocab);
    }
    float *logits = malloc(*vocab * sizeof *logits);
    assert_non_null(logits);
    kvc_session_defaults(&options);
    options.cache_type = kvc_entry_types(KVC_F32);
    must(kvc_session_open(model, &options, &session, &error), &error);
    must(kvc_session_prompt(session, tokens, count, NULL, logits, &error), &error);
    kvc_session_close(session);
    kvc_model_close(model);
    return logits;
}

/* The relative root mean square difference between two models' logits. */
static double difference(const char *a, const char *b) {
    uint32_t vocab, other;
    float *x = logits_of(a, &vocab), *y = logits_of(b, &other);
    assert_int_equal(vocab, other);
    double off = 0, all = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        off += pow((double)x[i] - (double)y[i], 2);
        all += pow((double)x[i], 2);
        if (isnan(x[i]) || isnan(y[i])) {
            off = 1e30;
        }
    }
    bool same = memcmp(x, y, vocab * sizeof *x) == 0;
    free(x);
    free(y);
    return same ? 0 : sqrt(off / all);
}

static const char *source_path(const char *name) {
    static char paths[2][500];
    static unsigned next;
    const char *top = getenv("top_srcdir");
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", top ? top : ".", name);
    return path;
}

static void folders_keep_their_bits(void **state) {
    (void)state;
    static const char *const families[] = {
        "llama2",       "llama3",     "llama-linear",  "mistral", "mistral-window", "qwen2",     "qwen2-yarn",
        "qwen2-window", "qwen3",      "qwen3-yarn",    "phi3",    "phi3-longrope",  "phi4-mini", "gemma2",
        "gemma3",       "gemma3-new", "gemma3-images", "smollm3", "olmo2",          "granite",   "glm4",
        "cohere",       "phi2",       "stablelm",      "gpt-oss", "gpt-oss-plain"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i += kvc_test_thinned() ? 3 : 1) {
        char name[100];
        struct kvc_error error = {0};
        snprintf(name, sizeof name, "tests/data/golden/%s", families[i]);
        const char *from = source_path(name), *to = own_path("folder.gguf");
        must(kvc_convert(from, to, KVC_F32, &error), &error);
        assert_string_equal(error.text, "");
        if (difference(from, to) != 0) {
            fail_msg("%s: other logits after the conversion", families[i]);
        }
    }
}

static void gguf_files_keep_their_bits(void **state) {
    (void)state;
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_BF16};
    struct kvc_error error = {0};
    for (size_t i = 0; i < 3; i++) {
        must(kvc_make_model("tiny", types[i], 5, own_path("from.gguf"), &error), &error);
        must(kvc_convert(own_path("from.gguf"), own_path("same.gguf"), types[i], &error), &error);
        assert_true(difference(own_path("from.gguf"), own_path("same.gguf")) == 0);
        must(kvc_convert(own_path("from.gguf"), own_path("wide.gguf"), KVC_F32, &error), &error);
        assert_true(difference(own_path("from.gguf"), own_path("wide.gguf")) == 0);
    }
    /* In place: the source is still mapped when the new file takes its name. */
    must(kvc_convert(own_path("wide.gguf"), own_path("wide.gguf"), KVC_BF16, &error), &error);
    assert_true(difference(own_path("from.gguf"), own_path("wide.gguf")) == 0);
}

/* A write-protected file stays unchanged for every command, even as the target of its own conversion. */
static void write_protected_files_stay(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct stat before, after;
    must(kvc_make_model("tiny", KVC_F32, 5, own_path("kept.gguf"), &error), &error);
    assert_int_equal(chmod(own_path("kept.gguf"), 0444), 0);
    assert_int_equal(stat(own_path("kept.gguf"), &before), 0);
    assert_int_equal(kvc_convert(own_path("kept.gguf"), own_path("kept.gguf"), KVC_F16, &error), KVC_RESOURCE);
    assert_non_null(strstr(error.text, "write-protected"));
    assert_int_equal(kvc_make_model("tiny", KVC_F32, 6, own_path("kept.gguf"), &error), KVC_RESOURCE);
    assert_int_equal(stat(own_path("kept.gguf"), &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size && before.st_mode == after.st_mode);
}

/* Stored weights are dequantized exactly before use: a file with the dequantized values gives bit-identical results. */
static void dequantized_models_keep_their_bits(void **state) {
    (void)state;
    struct kvc_error error = {0};
    for (int type = 0; type < KVC_TYPES; type += kvc_test_thinned() ? 4 : 1) {
        must(kvc_make_model("small", (enum kvc_type)type, 9, own_path("stored.gguf"), &error), &error);
        assert_string_equal(error.text, "");
        must(kvc_convert(own_path("stored.gguf"), own_path("wide.gguf"), KVC_F32, &error), &error);
        if (difference(own_path("stored.gguf"), own_path("wide.gguf")) != 0) {
            fail_msg("%s: other logits from the widened weights", kvc_type_name((enum kvc_type)type));
        }
    }
}

static void quantised_models_stay_close(void **state) {
    (void)state;
    struct kvc_error error = {0};
    must(kvc_make_model("small", KVC_F32, 3, own_path("from.gguf"), &error), &error);
    for (int type = KVC_F16, count = 0; type < KVC_TYPES; type++) {
        const struct kvc_type_block block = kvc_type_block((enum kvc_type)type);
        const bool large = block.elements > 32; /* only rows of "small" are whole blocks of these types */
        const double bits =
            (8.0 * block.bytes - 8.0 * block.wide * block.scales) / block.elements; /* bits of quants and sub-scales */
        if (!large && count++ % 2 && kvc_test_thinned())
            continue;
        const char *from = large ? own_path("from.gguf") : source_path("data/demo");
        must(kvc_convert(from, own_path("small.gguf"), (enum kvc_type)type, &error), &error);
        assert_string_equal(error.text, "");
        double off = difference(from, own_path("small.gguf"));
        /* Each additional bit halves the error; 16-bit floats use 5 or 8 bits for the exponent. */
        double most = type == KVC_F16 ? 0.002 : type == KVC_BF16 ? 0.02 : 9 * pow(2, -bits);
        if (off < most / (large ? 10 : 1000) || off > most) {
            fail_msg("%s: logits differ by %g, at most %g was expected", kvc_type_name((enum kvc_type)type), off, most);
        }
    }
}

/* Rows that do not fit a type become q8_0 or f16, and the caller is informed. */
static void rows_that_do_not_fit_are_told(void **state) {
    (void)state;
    struct kvc_error error = {0};
    must(kvc_convert(source_path("data/demo"), own_path("mixed.gguf"), KVC_Q4_K, &error), &error);
    assert_non_null(strstr(error.text, "rows that do not fit q4_k"));
    assert_true(difference(source_path("data/demo"), own_path("mixed.gguf")) < 0.2);
    must(kvc_make_model("tiny", KVC_Q6_K, 1, own_path("tiny.gguf"), &error), &error);
    assert_string_equal(error.text, "22 matrices have rows that do not fit q6_k: they are f16");
}

static void text_is_carried_over(void **state) {
    (void)state;
    static const char text[] = "the magic number for lantern 48 21 . unknownword <s>";
    const char *const paths[] = {source_path("data/demo"), own_path("text.gguf"), own_path("text2.gguf")};
    struct kvc_error error = {0};
    int32_t *ids[3];
    size_t counts[3];
    must(kvc_convert(paths[0], paths[1], KVC_F16, &error), &error);
    must(kvc_convert(paths[1], paths[2], KVC_Q8_0, &error), &error);
    for (int i = 0; i < 3; i++) {
        struct kvc_model *model;
        must(kvc_model_open(engine, paths[i], &model, &error), &error);
        must(kvc_tokenize(model, text, strlen(text), KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL, &ids[i], &counts[i],
                          &error),
             &error);
        assert_true(counts[i] > 8 && counts[i] == counts[0]);
        assert_memory_equal(ids[i], ids[0], counts[0] * sizeof **ids);
        assert_true(kvc_model_info(model)->bos == ids[0][0]);
        assert_true(kvc_token_ends_turn(model, kvc_model_info(model)->eos));
        kvc_model_close(model);
    }
    free(ids[0]);
    free(ids[1]);
    free(ids[2]);
}

/* ---- mkmodel ---- */

static void shapes_are_listed(void **state) {
    (void)state;
    const char *name, *summary;
    size_t count = 0;
    while (kvc_shape(count, &name, &summary)) {
        assert_true(strlen(name) > 0 && strlen(summary) > 10);
        count++;
    }
    assert_true(count >= 8);
    assert_false(kvc_shape(SIZE_MAX, &name, &summary));
}

static uint64_t sum_file(const char *path) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;) {
        sum = (sum ^ (unsigned)c) * UINT64_C(0x100000001b3);
    }
    fclose(file);
    return sum;
}

static void random_models_are_the_same_everywhere(void **state) {
    (void)state;
    static const uint64_t expected[] = {0xa093ad19b2edf2b8, 0x1d0a403ff52938aa, 0x10e6d5248501504a};
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_BF16};
    struct kvc_error error = {0};
    bool differ = false;
    for (size_t i = 0; i < 3; i++) {
        const char *path = own_path("random.gguf");
        must(kvc_make_model("tiny", types[i], 42, path, &error), &error);
        uint64_t sum = sum_file(path);
        if (sum != expected[i]) {
            print_error("%s: 0x%016llx\n", kvc_type_name(types[i]), (unsigned long long)sum);
            differ = true;
        }
        must(kvc_make_model("tiny", types[i], 43, path, &error), &error);
        assert_true(sum_file(path) != sum);
    }
    assert_false(differ);
}

static void random_models_work(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_model *model;
    uint32_t vocab;
    const char *path = own_path("works.gguf");
    must(kvc_make_model("tiny", KVC_F32, 1, path, &error), &error);
    float *logits = logits_of(path, &vocab);
    double mean = 0, square = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        mean += (double)logits[i] / vocab;
        square += (double)logits[i] * (double)logits[i] / vocab;
    }
    free(logits);
    assert_true(vocab == 300 && fabs(mean) < 0.3 && square > 0.3 && square < 3);
    must(kvc_model_open(engine, path, &model, &error), &error);
    static const char text[] = "Every byte: \x01 \xff \xc3\xa9.";
    int32_t *ids;
    size_t count, bytes;
    char *back;
    must(kvc_tokenize(model, text, strlen(text), 0, &ids, &count, &error), &error);
    must(kvc_detokenize(model, ids, count, false, &back, &bytes, &error), &error);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(back, text, bytes);
    free(ids);
    free(back);
    kvc_model_close(model);
}

/* ---- failures ---- */

static void failures_leave_nothing(void **state) {
    (void)state;
    struct kvc_error error = {0};
    const char *to = own_path("failed.gguf");
    check_refusal(kvc_make_model("huge", KVC_F16, 1, to, &error), KVC_USAGE, &error, "there is no shape huge");
    check_refusal(kvc_make_model("tiny", KVC_F16, 1, own_path("no/folder.gguf"), &error), KVC_RESOURCE, &error,
                  "cannot be written");
    check_refusal(kvc_make_model("tiny", KVC_F16, 1, "/dev/null", &error), KVC_RESOURCE, &error, "not a regular file");
    check_refusal(kvc_make_model("tiny", KVC_F16, 1, own_folder(), &error), KVC_RESOURCE, &error, "not a regular file");
    check_refusal(kvc_convert(own_path("none"), to, KVC_F16, &error), KVC_INPUT, &error, "No such file");
    check_refusal(kvc_convert(own_folder(), to, KVC_F16, &error), KVC_INPUT, &error, "config.json");
    check_refusal(kvc_convert(write_file("text", "hello, this is text", 19), to, KVC_F16, &error), KVC_INPUT, &error,
                  "not a GGUF file");
    assert_int_equal(count_files("failed"), 0);
}

/* Conversion refuses a model that could not be opened afterwards. */
static void unknown_families_are_refused(void **state) {
    (void)state;
    struct kvc_error error = {0};
    static char bytes[1 << 20]; /* the file, or its beginning */
    char path[700];
    snprintf(path, sizeof path, "%s", own_path("family.gguf"));
    must(kvc_make_model("tiny", KVC_F16, 1, path, &error), &error);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, sizeof bytes, file);
    char *key = memmem(bytes, count, "general.architecture", 20);
    assert_non_null(key);
    char *name = key + 20 + 4 + 8; /* after the value's type and length */
    assert_memory_equal(name, "llama", 5);
    fseek(file, (long)(name - bytes), SEEK_SET);
    assert_int_equal(fwrite("mamba", 5, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    check_refusal(
        kvc_convert(path, own_path("failed.gguf"), KVC_Q8_0, &error), KVC_INPUT, &error,
        "architecture \"mamba\" is not supported; llama, qwen2, qwen2moe, qwen3, qwen3moe, qwen35, qwen3next, olmoe, ");
    assert_int_equal(count_files("failed"), 0);
}

/* Values that the requested type cannot hold. */
static void values_too_large_are_refused(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_gguf *file;
    char path[700];
    snprintf(path, sizeof path, "%s", own_path("large.gguf"));
    must(kvc_make_model("tiny", KVC_F32, 1, path, &error), &error);
    must(kvc_gguf_open(path, &file, &error), &error);
    const struct kvc_file_tensor *tensor = kvc_gguf_tensor(file, "blk.1.ffn_up.weight");
    const unsigned char *first = kvc_gguf_tensor_at(file, 0)->data;
    long offset = -1;
    FILE *out = fopen(path, "r+b");
    assert_non_null(out);
    /* The data begins with the first tensor; determine where that is in the file. */
    fseek(out, 0, SEEK_END);
    long size = ftell(out);
    uint64_t data = 0;
    for (size_t i = 0; i < kvc_gguf_tensor_count(file); i++) {
        const struct kvc_file_tensor *one = kvc_gguf_tensor_at(file, i);
        uint64_t end = (uint64_t)((const unsigned char *)one->data - first) + (one->bytes + 31) / 32 * 32;
        data = end > data ? end : data;
    }
    offset = size - (long)data + (long)((const unsigned char *)tensor->data - first);
    kvc_gguf_close(file);
    fseek(out, offset, SEEK_SET);
    const float large = 1e6f;
    assert_int_equal(fwrite(&large, sizeof large, 1, out), 1);
    assert_int_equal(fclose(out), 0);
    check_refusal(kvc_convert(path, own_path("failed.gguf"), KVC_F16, &error), KVC_INPUT, &error,
                  "tensor blk.1.ffn_up.weight holds a value");
    must(kvc_convert(path, own_path("wide.gguf"), KVC_BF16, &error), &error);
    assert_int_equal(count_files("failed"), 0);
}

static void a_full_disk_is_reported(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct rlimit before, limit;
    const char *from = own_path("from.gguf"), *to = own_path("failed.gguf");
    must(kvc_make_model("tiny", KVC_F32, 1, from, &error), &error);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 200000; /* a size limit, which acts like a full disk */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum kvc_status made = kvc_make_model("tiny", KVC_F32, 1, to, &error);
    struct kvc_error second = {0};
    enum kvc_status converted = kvc_convert(from, to, KVC_F16, &second);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_refusal(made, KVC_RESOURCE, &error, "no space");
    check_refusal(converted, KVC_RESOURCE, &second, "no space");
    assert_int_equal(count_files("failed"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_keep_their_bits),
        cmocka_unit_test(gguf_files_keep_their_bits),
        cmocka_unit_test(write_protected_files_stay),
        cmocka_unit_test(dequantized_models_keep_their_bits),
        cmocka_unit_test(quantised_models_stay_close),
        cmocka_unit_test(rows_that_do_not_fit_are_told),
        cmocka_unit_test(text_is_carried_over),
        cmocka_unit_test(shapes_are_listed),
        cmocka_unit_test(random_models_are_the_same_everywhere),
        cmocka_unit_test(random_models_work),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(unknown_families_are_refused),
        cmocka_unit_test(values_too_large_are_refused),
        cmocka_unit_test(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
