/* test_text_alone.c - models opened only for their tokenizer and templates: vocabularies without weights, folders with
 * only a tokenizer, models of unsupported families. */
#include "tests/models/convert_checks.h"

static const char *vocabulary(const char *name) {
    static char path[600];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s", top ? top : ".", name);
    return path;
}

static size_t count_tokens(const struct kvc_model *model, const char *text) {
    struct kvc_error error = {0};
    int32_t *tokens;
    size_t count;
    must(kvc_tokenize(model, text, strlen(text), 0, &tokens, &count, &error), &error, text);
    free(tokens);
    return count;
}

static void vocabularies(void **state) {
    (void)state;
    static const char *const paths[] = {"gpt2/vocab.gguf", "starcoder/vocab.gguf", "sentencepiece/vocab.gguf", "gpt2"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *path = vocabulary(paths[i]);
        struct kvc_model *model;
        struct kvc_session *session;
        struct kvc_error error = {0};
        must(kvc_model_open_text(engine, path, &model, &error), &error, path);
        const struct kvc_model_info *info = kvc_model_info(model);
        assert_true(info->vocab > 100 && info->layers == 0 && info->weight_bytes == 0);
        assert_string_equal(info->path, path);
        assert_true(info->name[0] && info->architecture[0]);
        assert_true(count_tokens(model, "the old sailor") > 0);
        check_refusal(kvc_session_open(model, NULL, &session, &error), KVC_USAGE, &error,
                      "was opened for its text only, without weights");
        kvc_model_close(model);
        if (strstr(path, ".gguf"))
            check_refusal(kvc_model_open(engine, path, &model, &error), KVC_INPUT, &error,
                          "is a vocabulary without weights");
    }
}

/* With weights: a model that can run, and one of an unknown family. */
static void models(void **state) {
    (void)state;
    static char bytes[1 << 20];
    struct kvc_error error = {0};
    struct kvc_model *model;
    must(kvc_make_model("thin", KVC_F16, 1, own_path("thin.gguf"), &error), &error, "thin");
    FILE *in = fopen(own_path("thin.gguf"), "rb");
    assert_non_null(in);
    const size_t bytes_read = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    char *at = memmem(bytes, bytes_read, "llama", 5);
    assert_non_null(at);
    memcpy(at, "other", 5);
    write_file("other.gguf", bytes, bytes_read);
    must(kvc_model_open(engine, own_path("thin.gguf"), &model, &error), &error, "thin");
    const size_t tokens = count_tokens(model, "some text");
    const int32_t eos = kvc_model_info(model)->eos;
    kvc_model_close(model);
    check_refusal(kvc_model_open(engine, own_path("other.gguf"), &model, &error), KVC_INPUT, &error, "not supported");
    must(kvc_model_open_text(engine, own_path("other.gguf"), &model, &error), &error, "other");
    assert_string_equal(kvc_model_info(model)->architecture, "other");
    assert_true(kvc_model_info(model)->weight_bytes > 0 && kvc_model_info(model)->eos == eos);
    assert_int_equal(count_tokens(model, "some text"), tokens);
    kvc_model_close(model);
}

static void refusals(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_model *model;
    char golden[600];
    const char *top = getenv("top_srcdir");
    snprintf(golden, sizeof golden, "%s/tests/data/golden/llama2", top ? top : ".");
    check_refusal(kvc_model_open_text(engine, golden, &model, &error), KVC_INPUT, &error, "has no tokenizer");
    assert_null(model);
    check_refusal(kvc_model_open_text(engine, own_path("nothing.gguf"), &model, &error), KVC_INPUT, &error, "nothing");
    assert_null(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vocabularies), cmocka_unit_test(models),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
