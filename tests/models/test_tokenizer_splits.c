/* test_tokenizer_splits.c - every pre-tokenizer that tokenizer.ggml.pre can name, compared with the tokenizers library;
 * the vocabulary has merges across every possible split. */
#include "models/convert/to_folder.h"
#include "models/files/gguf_write.h"
#include "models/tokenizer/parts.h"
#include "tests/models/tokenizer_checks.h"

#include <unistd.h>

/* The shared vocabulary under a name: its file with this value of `pre`. */
static struct kvc_tokenizer *open_with(const char *pre, size_t bytes, struct kvc_error *error) {
    char from[1000], to[] = "/tmp/kvcull-splits-XXXXXX";
    struct kvc_gguf *file, *named;
    struct kvc_tokenizer *tokenizer = NULL;
    const char *key;
    enum kvc_gguf_type type;
    data_path(from, sizeof from, "tokenizers/splits/vocab.gguf");
    const int handle = mkstemp(to);
    assert_true(handle >= 0 && close(handle) == 0);
    assert_int_equal(kvc_gguf_open(from, &file, error), KVC_OK);
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t size;
        const unsigned char *data = kvc_gguf_value_data(file, i, &size);
        kvc_gguf_put_raw(writer, key, type, data, size);
    }
    kvc_gguf_put_string(writer, "tokenizer.ggml.pre", pre, bytes);
    assert_int_equal(kvc_gguf_writer_begin(writer, to, error), KVC_OK);
    assert_int_equal(kvc_gguf_writer_commit(writer, error), KVC_OK);
    kvc_gguf_close(file);
    assert_int_equal(kvc_gguf_open(to, &named, error), KVC_OK);
    if (kvc_tokenizer_from_gguf(named, to, UINT64_MAX, &tokenizer, error) != KVC_OK)
        assert_null(tokenizer);
    kvc_gguf_close(named);
    remove(to);
    return tokenizer;
}

struct golden {
    json_t *texts, *more, *expected;
};

static size_t compare(const struct golden *golden, const struct kvc_tokenizer *tokenizer, const char *name) {
    static int32_t ids[20000];
    const json_t *which = json_object_get(json_object_get(golden->expected, "which"), name);
    const json_t *lists = json_object_get(golden->expected, "ids");
    const size_t first = json_array_size(golden->texts) - 1; /* all but the last one, which is all texts together */
    size_t failures = 0;
    if (json_array_size(which) != json_array_size(lists) ||
        json_array_size(lists) != first + json_array_size(golden->more))
        fail_msg("%s has no golden; tests/golden/make_split_golden.py makes them", name);
    for (size_t i = 0; i < json_array_size(which); i++) {
        const json_t *text = i < first ? json_array_get(golden->texts, i) : json_array_get(golden->more, i - first);
        const json_t *list =
            json_array_get(json_array_get(lists, i), (size_t)json_integer_value(json_array_get(which, i)));
        const size_t count = take_ids(list, ids, 20000);
        if (!same_ids(tokenizer, json_string_value(text), json_string_length(text), ids, count, 0)) {
            fprintf(stderr, "%s: text %zu\n", name, i);
            failures++;
        }
    }
    return failures;
}

/* Written as tokenizer.json and read again: its patterns are recognized under the same name, which GGUF needs.
 * KVCULL_KEEP_SPLITS is a folder where these files are kept for other programs. */
static struct kvc_tokenizer *open_written(const struct kvc_tokenizer *tokenizer, const char *name) {
    const char *keep = getenv("KVCULL_KEEP_SPLITS");
    char folder[1000], command[1100];
    struct kvc_output_set *set;
    struct kvc_tokenizer *again = NULL;
    struct kvc_error error = {0};
    size_t bytes;
    snprintf(folder, sizeof folder, "%s/kvcull-split-%ld-%s", keep ? keep : "/tmp", keep ? 0L : (long)getpid(), name);
    if (kvc_output_set_open(folder, &set, &error) != KVC_OK ||
        kvc_write_tokenizer(set, name, tokenizer, &error) != KVC_OK || kvc_output_set_commit(set, &error) != KVC_OK ||
        kvc_tokenizer_from_folder(folder, UINT64_MAX, &again, &error) != KVC_OK)
        fail_msg("%s", error.text);
    const char *found = kvc_split_name(again, &bytes);
    if (!found || strncmp(found, name, strlen(name)) != 0)
        fail_msg("%s: is read as %.30s", name, found ? found : "no splitting with a name");
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_true(keep || system(command) == 0);
    return again;
}

static void test_every_splitting(void **state) {
    (void)state;
    const struct golden golden = {data_json("tokenizers/texts.json"), NULL,
                                  data_json("tokenizers/splits/expected.json")};
    struct golden all = golden;
    all.more = json_object_get(golden.expected, "more");
    const struct kvc_named_split *split;
    size_t failures = 0, count = 0;
    for (; (split = kvc_named_split_at(count)) != NULL; count++) {
        char name[100];
        struct kvc_error error = {0};
        snprintf(name, sizeof name, "%.*s", (int)strcspn(split->names, " "), split->names);
        struct kvc_tokenizer *tokenizer = open_with(name, strlen(name), &error);
        if (!tokenizer)
            fail_msg("%s", error.text);
        struct kvc_tokenizer *again = open_written(tokenizer, name);
        failures += compare(&all, tokenizer, name);
        failures += compare(&all, again, name);
        kvc_tokenizer_close(again);
        kvc_tokenizer_close(tokenizer);
    }
    assert_int_equal(failures, 0);
    assert_int_equal(count, json_object_size(json_object_get(golden.expected, "which")));
    json_decref(golden.texts);
    json_decref(golden.expected);
}

/* No name stands for two ways of splitting. */
static void test_names(void **state) {
    (void)state;
    const struct kvc_named_split *split;
    for (size_t i = 0; (split = kvc_named_split_at(i)) != NULL; i++) {
        for (const char *at = split->names; *at;) {
            const size_t bytes = strcspn(at, " ");
            assert_true(bytes > 0 && kvc_named_split(at, bytes) == split);
            at += bytes + (at[bytes] == ' ');
        }
    }
    assert_null(kvc_named_split("gpt", 3));
    assert_null(kvc_named_split("", 0));
}

static void test_unknown_names(void **state) {
    (void)state;
    struct kvc_error error = {0};
    assert_null(open_with("nonsense", 8, &error));
    assert_int_equal(error.status, KVC_INPUT);
    assert_non_null(strstr(error.text, "\"nonsense\" is not supported; gpt-2, mpt, "));
    assert_non_null(strstr(error.text, "minicpm5 and names of the same splittings are"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_splitting),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
