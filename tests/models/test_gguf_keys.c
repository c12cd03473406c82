/* test_gguf_keys.c - a GGUF file from convert has the keys that other programs expect: those of its family
 * (tests/data/gguf_keys.txt), those of its tokenizer, and the requested type. */
#include "tests/models/convert_checks.h"

#include "models/config/plan.h"
#include "models/files/gguf.h"

/* Checks one key of the list, with the file's architecture in place of ARCH. */
static void has_key(const struct kvc_gguf *file, const char *golden, const char *key) {
    char whole[200];
    const char *architecture;
    size_t bytes;
    assert_true(kvc_gguf_string(file, "general.architecture", &architecture, &bytes));
    snprintf(whole, sizeof whole, "%s", key);
    if (strncmp(key, "ARCH.", 5) == 0)
        snprintf(whole, sizeof whole, "%.*s%s", (int)bytes, architecture, key + 4);
    if (!kvc_gguf_has(file, whole))
        fail_msg("%s: %s is missing", golden, whole);
}

static void has_keys(const struct kvc_gguf *file, const char *golden, const char *keys) {
    char copy[2000], *rest;
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *key = strtok_r(copy, " \n", &rest); key; key = strtok_r(NULL, " \n", &rest))
        has_key(file, golden, key);
}

static void keys_of_every_family(void **state) {
    (void)state;
    char path[2600], line[2000], all[2000] = "";
    const char *top = getenv("top_srcdir");
    struct kvc_error error = {0};
    size_t tried = 0;
    snprintf(path, sizeof path, "%s/tests/data/gguf_keys.txt", top ? top : ".");
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list)) {
        struct kvc_gguf *file;
        char *keys = strchr(line, ':');
        if (line[0] == '#')
            continue;
        assert_non_null(keys);
        *keys++ = '\0';
        if (strcmp(line, "*") == 0) {
            snprintf(all, sizeof all, "%s", keys);
            continue;
        }
        snprintf(path, sizeof path, "%s/tests/data/golden/%s", top ? top : ".", line);
        must(kvc_convert(path, own_path("keys.gguf"), KVC_F16, &error), &error, path);
        must(kvc_gguf_open(own_path("keys.gguf"), &file, &error), &error, path);
        has_keys(file, line, all);
        has_keys(file, line, keys);
        kvc_gguf_close(file);
        tried++;
    }
    fclose(list);
    assert_true(tried >= 24 && all[0]);
}

static uint64_t file_type_of(const char *path) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    uint64_t number = UINT64_MAX;
    must(kvc_gguf_open(path, &file, &error), &error, path);
    assert_true(kvc_gguf_uint(file, "general.file_type", &number));
    has_keys(file, path, "general.type general.quantization_version");
    kvc_gguf_close(file);
    return number;
}

/* Every type has its own number; after a conversion from GGUF the number is the new type's. */
static void types_have_numbers(void **state) {
    (void)state;
    struct kvc_error error = {0};
    bool seen[64] = {false};
    for (unsigned type = 0; type < KVC_TYPES; type++) {
        const uint32_t number = kvc_plan_file_type((enum kvc_type)type);
        assert_true(number < 64 && !seen[number]);
        seen[number] = true;
    }
    must(kvc_make_model("small", KVC_F16, 1, own_path("f16.gguf"), &error), &error, "small");
    assert_int_equal(file_type_of(own_path("f16.gguf")), 1);
    must(kvc_convert(own_path("f16.gguf"), own_path("q4_k.gguf"), KVC_Q4_K, &error), &error, "q4_k");
    assert_int_equal(file_type_of(own_path("q4_k.gguf")), 14);
    must(kvc_convert(own_path("q4_k.gguf"), own_path("q8_0.gguf"), KVC_Q8_0, &error), &error, "q8_0");
    assert_int_equal(file_type_of(own_path("q8_0.gguf")), 7);
}

/* A folder with a byte-level tokenizer and one with a SentencePiece-style tokenizer; special tokens by text and by
 * number. */
static void keys_of_tokenizers(void **state) {
    (void)state;
    static const char about[] = "{\"pad_token\": \"<|endoftext|>\", \"mask_token\": {\"content\": \"!\"}, "
                                "\"sep_token\": \"no such token\", \"add_eos_token\": false}";
    char command[2000];
    struct kvc_error error = {0};
    struct kvc_gguf *file;
    uint64_t id = 0;
    bool flag = true;
    must(kvc_make_model("thin", KVC_F32, 1, own_path("thin.gguf"), &error), &error, "thin");
    must(kvc_convert(own_path("thin.gguf"), own_path("folder/"), KVC_F32, &error), &error, "thin");
    must(kvc_convert(own_path("folder"), own_path("plain.gguf"), KVC_F32, &error), &error, "thin");
    must(kvc_gguf_open(own_path("plain.gguf"), &file, &error), &error, "plain");
    has_keys(file, "thin",
             "tokenizer.ggml.model tokenizer.ggml.pre tokenizer.ggml.tokens tokenizer.ggml.token_type "
             "tokenizer.ggml.merges tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id "
             "tokenizer.ggml.add_bos_token");
    assert_false(kvc_gguf_has(file, "tokenizer.ggml.padding_token_id"));
    kvc_gguf_close(file);
    write_file("folder/tokenizer_config.json", about, strlen(about));
    snprintf(command, sizeof command, "sed -i 's/\"pad_token_id\": null/\"pad_token_id\": 7/' '%s'",
             own_path("folder/config.json"));
    assert_int_equal(system(command), 0);
    must(kvc_convert(own_path("folder"), own_path("special.gguf"), KVC_F32, &error), &error, "thin");
    must(kvc_gguf_open(own_path("special.gguf"), &file, &error), &error, "special");
    assert_true(kvc_gguf_uint(file, "tokenizer.ggml.mask_token_id", &id) && id < 256);
    assert_true(kvc_gguf_bool(file, "tokenizer.ggml.add_eos_token", &flag) && !flag);
    assert_false(kvc_gguf_has(file, "tokenizer.ggml.seperator_token_id"));
    assert_false(kvc_gguf_has(file, "tokenizer.ggml.padding_token_id")); /* the number of a text that is not a token */
    kvc_gguf_close(file);
    write_file("folder/tokenizer_config.json", "{}", 2);
    must(kvc_convert(own_path("folder"), own_path("number.gguf"), KVC_F32, &error), &error, "thin");
    must(kvc_gguf_open(own_path("number.gguf"), &file, &error), &error, "number");
    assert_true(kvc_gguf_uint(file, "tokenizer.ggml.padding_token_id", &id) && id == 7);
    kvc_gguf_close(file);
    /* And back again. */
    must(kvc_convert(own_path("number.gguf"), own_path("back/"), KVC_F32, &error), &error, "thin");
    must(kvc_convert(own_path("back"), own_path("again.gguf"), KVC_F32, &error), &error, "thin");
    must(kvc_gguf_open(own_path("again.gguf"), &file, &error), &error, "again");
    assert_true(kvc_gguf_uint(file, "tokenizer.ggml.padding_token_id", &id) && id == 7);
    kvc_gguf_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_of_every_family), cmocka_unit_test(types_have_numbers),
                                       cmocka_unit_test(keys_of_tokenizers)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
