/* test_turn_end.c - the tokens that end an answer: those that a model's files name, number or list, and no others. */
#include "models/files/gguf_write.h"
#include "models/tokenizer/tokenizer.h"
#include "tests/models/file_maker.h"

enum { TOKENS = 8 };
static const char tokens_json[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<|im_end|>\":1,\"</s>\":2,\"<|eot_id|>\":3,\"e4\":4,\"e5\":5,"
    "\"e6\":6,\"<s>\":7},\"merges\":[]}}";

/* `ends`: a digit for each token that ends a turn. */
static void check_ends(const struct kvc_tokenizer *tokenizer, int32_t eos, const char *ends, const char *what) {
    char found[TOKENS + 1] = "";
    size_t n = 0;
    for (int32_t i = 0; i < TOKENS; i++)
        if (kvc_tokenizer_ends_turn(tokenizer, i))
            found[n++] = (char)('0' + i);
    if (strcmp(found, ends) != 0 || kvc_tokenizer_eos(tokenizer) != eos)
        fail_msg("%s: tokens %s end a turn, eos is %d; %s and %d were wanted", what, found,
                 (int)kvc_tokenizer_eos(tokenizer), ends, (int)eos);
}

static void test_folder(void **state) {
    (void)state;
    static const struct {
        const char *generation, *config, *tokenizer; /* NULL: no such file */
        int32_t eos;
        const char *ends; /* NULL: refused */
    } all[] = {
        {NULL, NULL, NULL, -1, ""}, /* names without other evidence mean nothing */
        {"{\"eos_token_id\": 4}", NULL, NULL, 4, "4"},
        {"{\"eos_token_id\": [5, 4]}", NULL, NULL, 5, "45"},
        {"{\"eos_token_id\": []}", NULL, NULL, -1, ""},
        {"{\"eos_token_id\": null}", "{\"eos_token_id\": [3, 6]}", NULL, 3, "36"},
        {"{\"eos_token_id\": [4, 5]}", "{\"eos_token_id\": 6}", NULL, 4, "456"},
        {NULL, NULL, "{\"eos_token\": \"</s>\"}", 2, "2"},
        {"{\"eos_token_id\": [4, 5]}", "{\"eos_token_id\": 6}", "{\"eos_token\": {\"content\": \"<|im_end|>\"}}", 1,
         "1456"},
        {"{\"eos_token_id\": 8}", NULL, NULL, 0, NULL},
        {"{\"eos_token_id\": [4, -1]}", NULL, NULL, 0, NULL},
        {"{\"eos_token_id\": [4, \"x\"]}", NULL, NULL, 0, NULL},
        {NULL, "{\"eos_token_id\": 4294967299}", NULL, 0, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *const names[] = {"generation_config.json", "config.json", "tokenizer_config.json"},
                          *const texts[] = {all[i].generation, all[i].config, all[i].tokenizer};
        char folder[700];
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        write_file("tokenizer.json", tokens_json, sizeof tokens_json - 1);
        for (int k = 0; k < 3; k++) {
            if (texts[k])
                write_file(names[k], texts[k], strlen(texts[k]));
            else
                unlink(own_path(names[k]));
        }
        snprintf(folder, sizeof folder, "%s", own_folder());
        enum kvc_status status = kvc_tokenizer_from_folder(folder, TOKENS, &tokenizer, &error);
        assert_int_equal(status, all[i].ends ? KVC_OK : KVC_INPUT);
        if (all[i].ends)
            check_ends(tokenizer, all[i].eos, all[i].ends, texts[0] ? texts[0] : "folder");
        kvc_tokenizer_close(tokenizer);
    }
}

static void test_gguf(void **state) {
    (void)state;
    static const char *const names[TOKENS] = {"a", "<|im_end|>", "</s>", "<|eot_id|>", "e4", "e5", "e6", "<s>"},
                             *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                              "tokenizer.ggml.eom_token_id", "tokenizer.ggml.eog_token_id"};
    static const struct {
        int ids[4]; /* the keys' ids; -1: missing */
        const char *ends;
    } all[] = {
        {{-1, -1, -1, -1}, ""}, {{2, -1, -1, -1}, "2"}, {{2, 4, -1, -1}, "24"},  {{4, 5, 6, 3}, "3456"},
        {{-1, 4, -1, -1}, "4"}, {{2, 8, -1, -1}, NULL}, {{2, -1, 99, -1}, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
        static const int32_t types[TOKENS] = {1, 3, 3, 3, 3, 3, 3, 3};
        struct kvc_error error = {0};
        struct kvc_tokenizer *tokenizer;
        struct kvc_gguf *file;
        assert_non_null(writer);
        kvc_gguf_put_string(writer, "tokenizer.ggml.model", "gpt2", 4);
        kvc_gguf_put_strings(writer, "tokenizer.ggml.tokens", TOKENS);
        for (size_t k = 0; k < TOKENS; k++)
            kvc_gguf_add_string(writer, names[k], strlen(names[k]));
        kvc_gguf_put_int32s(writer, "tokenizer.ggml.token_type", types, TOKENS);
        kvc_gguf_put_strings(writer, "tokenizer.ggml.merges", 0);
        for (int k = 0; k < 4; k++)
            if (all[i].ids[k] >= 0)
                kvc_gguf_put_uint32(writer, keys[k], (uint32_t)all[i].ids[k]);
        if (kvc_gguf_writer_begin(writer, own_path("ends.gguf"), &error) || kvc_gguf_writer_commit(writer, &error) ||
            kvc_gguf_open(own_path("ends.gguf"), &file, &error))
            fail_msg("%s", error.text);
        enum kvc_status status = kvc_tokenizer_from_gguf(file, "ends.gguf", TOKENS, &tokenizer, &error);
        if (status != (all[i].ends ? KVC_OK : KVC_INPUT))
            fail_msg("case %zu: status %d, %s", i, (int)status, error.text);
        if (all[i].ends)
            check_ends(tokenizer, all[i].ids[0], all[i].ends, "GGUF");
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folder), cmocka_unit_test(test_gguf)};
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
