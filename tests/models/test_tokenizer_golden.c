/* test_tokenizer_golden.c - tokenizers against the tokenizers library and the lists of real vocabularies, read from a
 * folder, from a GGUF file, and from a converted file. */
#include "models/convert/text.h"
#include "tests/models/tokenizer_checks.h"

#include <unistd.h>

static void test_against_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2",
                                        "starcoder",
                                        "llama3",
                                        "qwen2",
                                        "gpt4o",
                                        "tekken",
                                        "words",
                                        "sentencepiece",
                                        "metaspace-first",
                                        "metaspace-always",
                                        "odd-splits",
                                        "words-punctuation"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvc_tokenizer *tokenizer = open_folder(names[i]);
        compare_expected(tokenizer, names[i], true);
        kvc_tokenizer_close(tokenizer);
    }
}

/* The same vocabularies written as GGUF give the same ids. */
static void test_gguf_equals_json(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "starcoder", "llama3", "qwen2", "tekken", "sentencepiece"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1000], part[200];
        struct kvc_gguf *file;
        snprintf(part, sizeof part, "tokenizers/%s/vocab.gguf", names[i]);
        data_path(path, sizeof path, part);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        compare_expected(tokenizer, names[i], true);
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
    }
}

/* Files written by convert give the same ids, also if there are more rows than tokens. They contain the keys that other
 * programs read, and tokenizer.json where the keys cannot express everything. */
static void test_converted_equals_folder(void **state) {
    (void)state;
    static const struct {
        const char *name, *model, *pre;
        bool whole;
    } cases[] = {{"gpt2", "gpt2", "gpt-2", true},
                 {"starcoder", "gpt2", "starcoder", true},
                 {"llama3", "gpt2", "llama-bpe", true},
                 {"qwen2", "gpt2", "qwen2", true},
                 {"tekken", "gpt2", "tekken", true},
                 {"gpt4o", "gpt2", "gpt-4o", false},              /* a token that includes the spaces around it */
                 {"odd-splits", "huggingface", NULL, false},      /* not byte-level */
                 {"sentencepiece", "llama", NULL, false},         /* merges by rank, not by score */
                 {"metaspace-first", "huggingface", NULL, false}, /* no byte tokens */
                 {"words", "huggingface", NULL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[1000], part[200], path[] = "/tmp/kvcull-tokenizer-XXXXXX";
        struct kvc_error error = {0};
        struct kvc_gguf *file;
        enum kvc_gguf_type type;
        const char *text;
        size_t bytes;
        uint64_t count = 0, types = 0;
        const int handle = mkstemp(path);
        assert_true(handle >= 0 && close(handle) == 0);
        snprintf(part, sizeof part, "tokenizers/%s", cases[i].name);
        data_path(folder, sizeof folder, part);
        struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
        if (kvc_convert_text(folder, 800, writer, &error) != KVC_OK ||
            kvc_gguf_writer_begin(writer, path, &error) != KVC_OK || kvc_gguf_writer_commit(writer, &error) != KVC_OK)
            fail_msg("%s", error.text);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        compare_expected(tokenizer, cases[i].name, true);
        assert_true(kvc_gguf_string(file, "tokenizer.ggml.model", &text, &bytes));
        assert_true(bytes == strlen(cases[i].model) && !memcmp(text, cases[i].model, bytes));
        if (kvc_gguf_has(file, "tokenizer.huggingface.json") == cases[i].whole)
            fail_msg("%s: tokenizer.json %s", cases[i].name, cases[i].whole ? "went along" : "is missing");
        if (strcmp(cases[i].model, "huggingface") != 0) {
            assert_true(kvc_gguf_array(file, "tokenizer.ggml.tokens", &type, &count) && count == 800);
            assert_true(kvc_gguf_array(file, "tokenizer.ggml.token_type", &type, &types) && types == 800);
            assert_true(kvc_gguf_has(file, cases[i].pre ? "tokenizer.ggml.merges" : "tokenizer.ggml.scores"));
        }
        if (cases[i].pre) {
            assert_true(kvc_gguf_string(file, "tokenizer.ggml.pre", &text, &bytes));
            assert_true(bytes == strlen(cases[i].pre) && !memcmp(text, cases[i].pre, bytes));
        }
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
        remove(path);
    }
}

/* Real vocabularies, if the shared files exist. */
static void test_shared_vocabularies(void **state) {
    (void)state;
    static const char *const names[] = {"gpt-2", "starcoder", "llama-spm", "phi-3"};
    const char *shared = getenv("KVCULL_SHARED");
    char path[1000];
    snprintf(path, sizeof path, "%s/vocab", shared ? shared : "../shared");
    FILE *there = fopen(path, "r");
    if (!there) {
        print_message("%s is not there: real vocabularies are not compared\n", path);
        skip();
    }
    fclose(there);
    size_t compared = 0, failures = 0;
    for (size_t i = 0; i < 4; i++) {
        struct kvc_gguf *file;
        size_t bytes;
        snprintf(path, sizeof path, "%s/vocab/ggml-vocab-%s.gguf", shared ? shared : "../shared", names[i]);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        strcat(path, ".inp");
        char *texts = read_whole(path, &bytes);
        strcpy(strrchr(path, '.'), ".out");
        char *lists = read_whole(path, &bytes);
        assert_true(texts && lists);
        static const char divider[] = "\n__ggml_vocab_test__\n";
        char *line = lists;
        for (char *text = texts; text && *line;) {
            char *end = strstr(text, divider), *line_end = strchr(line, '\n');
            static int32_t ids[2000];
            size_t count = 0;
            if (end)
                *end = 0;
            if (line_end)
                *line_end = 0;
            for (char *at = strtok(line, " "); at; at = strtok(NULL, " "))
                ids[count++] = (int32_t)strtol(at, NULL, 10);
            size_t text_bytes = strlen(text);
            bool same = same_ids(tokenizer, text, text_bytes, ids, count, 0);
            same = same && same_text(tokenizer, ids, count, false, text, text_bytes);
            if (!same)
                fprintf(stderr, "%s: text %zu\n", names[i], compared);
            failures += !same;
            compared++;
            text = end ? end + sizeof divider - 1 : NULL;
            line = line_end ? line_end + 1 : line + strlen(line);
        }
        free(texts);
        free(lists);
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
    }
    assert_int_equal(failures, 0);
    assert_true(compared >= 4 * 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_tokenizers),
        cmocka_unit_test(test_gguf_equals_json),
        cmocka_unit_test(test_converted_equals_folder),
        cmocka_unit_test(test_shared_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
