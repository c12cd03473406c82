/* test_tokenizer_pieces.c - folders with only tokenizer.model: against the sentencepiece library, with the files that
 * add tokens, through convert, and how a bad file is refused. */
#include "models/convert/text.h"
#include "models/convert/to_folder.h"
#include "models/tokenizer/sentencepiece.h"
#include "tests/models/file_maker.h"
#include "tests/models/tokenizer_checks.h"

static const char *const names[] = {"pieces-llama", "pieces-gemma", "pieces-plain"};

/* Compares ids in texts without unknown characters. Leaves out control tokens, which the library does not search
 * for. */
static size_t compare(const struct kvc_tokenizer *tokenizer, const char *name, const json_t *expected) {
    static int32_t ids[20000];
    json_t *texts = data_json("tokenizers/texts.json");
    const json_t *rows = json_object_get(expected, "texts"), *more = json_object_get(expected, "more");
    const size_t first = json_array_size(texts) - 1; /* all but the last one, which is all texts together */
    size_t failures = 0, compared = 0;
    assert_int_equal(json_array_size(rows), first + json_array_size(more));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_t *text = i < first ? json_array_get(texts, i) : json_array_get(more, i - first);
        if (json_is_null(row))
            continue;
        const size_t count = take_ids(json_array_get(row, 0), ids, 20000);
        const json_t *decoded = json_array_size(row) > 1 ? json_array_get(row, 1) : text;
        bool same = same_ids(tokenizer, json_string_value(text), json_string_length(text), ids, count, 0);
        if (!json_is_null(decoded))
            same &= same_text(tokenizer, ids, count, true, json_string_value(decoded), json_string_length(decoded));
        if (!same)
            fprintf(stderr, "%s: text %zu\n", name, i);
        failures += !same;
        compared++;
    }
    json_decref(texts);
    assert_true(compared > 100);
    return failures;
}

static json_t *expected_of(const char *name) {
    char part[200];
    snprintf(part, sizeof part, "tokenizers/%s/expected.json", name);
    json_t *expected = data_json(part);
    assert_non_null(expected);
    return expected;
}

static void test_against_sentencepiece(void **state) {
    (void)state;
    size_t failures = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *expected = expected_of(names[i]);
        struct kvc_tokenizer *tokenizer = open_folder(names[i]);
        failures += compare(tokenizer, names[i], expected);
        assert_int_equal(tokenizer->count, json_integer_value(json_object_get(expected, "count")));
        assert_int_equal(tokenizer->unknown, json_integer_value(json_object_get(expected, "unknown")));
        assert_int_equal(kvc_tokenizer_bos(tokenizer), json_integer_value(json_object_get(expected, "bos")));
        assert_int_equal(kvc_tokenizer_eos(tokenizer), json_integer_value(json_object_get(expected, "eos")));
        assert_true(kvc_tokenizer_ends_turn(tokenizer, kvc_tokenizer_eos(tokenizer)));
        kvc_tokenizer_close(tokenizer);
        json_decref(expected);
    }
    assert_int_equal(failures, 0);
}

/* Written as tokenizer.json, with merges made from the scores. */
static size_t compare_written(const struct kvc_tokenizer *tokenizer, const char *name, const json_t *expected) {
    struct kvc_output_set *set;
    struct kvc_error error = {0};
    struct kvc_tokenizer *again = NULL;
    char folder[700];
    snprintf(folder, sizeof folder, "%s", own_path(name));
    if (kvc_output_set_open(folder, &set, &error) != KVC_OK ||
        kvc_write_tokenizer(set, name, tokenizer, &error) != KVC_OK || kvc_output_set_commit(set, &error) != KVC_OK ||
        kvc_tokenizer_from_folder(folder, UINT64_MAX, &again, &error) != KVC_OK)
        fail_msg("%s", error.text);
    const size_t failures = compare(again, name, expected);
    kvc_tokenizer_close(again);
    return failures;
}

/* Files written by convert give the same ids. Where readers of GGUF put a space before the text they also put one after
 * user-defined pieces, but SentencePiece does not; so the third model is left out. */
static void test_converted_equals_folder(void **state) {
    (void)state;
    size_t failures = 0;
    for (size_t i = 0; i < 2; i++) {
        char folder[1000], part[200];
        struct kvc_error error = {0};
        struct kvc_gguf *file;
        const char *path = own_path("converted.gguf");
        snprintf(part, sizeof part, "tokenizers/%s", names[i]);
        data_path(folder, sizeof folder, part);
        json_t *expected = expected_of(names[i]);
        struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
        if (kvc_convert_text(folder, 900, writer, &error) != KVC_OK ||
            kvc_gguf_writer_begin(writer, path, &error) != KVC_OK || kvc_gguf_writer_commit(writer, &error) != KVC_OK)
            fail_msg("%s", error.text);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        failures += compare(tokenizer, names[i], expected);
        failures += compare_written(tokenizer, names[i], expected);
        assert_int_equal(kvc_tokenizer_bos(tokenizer), json_integer_value(json_object_get(expected, "bos")));
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
        json_decref(expected);
    }
    assert_int_equal(failures, 0);
}

/* ---- models put together by hand ---- */

static void put_varint(struct maker *to, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        put_number(to, (value & 0x7f) | 0x80, 1);
    put_number(to, value, 1);
}

static void put_flag(struct maker *to, unsigned field, uint64_t value) {
    put_varint(to, field << 3);
    put_varint(to, value);
}

static void put_within(struct maker *to, unsigned field, const void *data, size_t bytes) {
    put_varint(to, field << 3 | 2);
    put_varint(to, bytes);
    put_bytes(to, data, bytes);
}

static void put_piece(struct maker *to, const char *text, uint64_t type, uint32_t score) {
    static struct maker piece;
    piece.used = 0;
    put_within(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    put_number(&piece, score, 4);
    put_flag(&piece, 3, type);
    put_within(to, 1, piece.data, piece.used);
}

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

/* <unk>, <s>, </s>, "a", "b", "ab" and the requested pieces, then the fields of the trainer and the normalizer. */
static struct maker model, trainer, normalizer;

static void begin_model(void) {
    model.used = trainer.used = normalizer.used = 0;
    put_piece(&model, "<unk>", UNKNOWN, 0);
    put_piece(&model, "<s>", CONTROL, 0);
    put_piece(&model, "</s>", CONTROL, 0);
    put_piece(&model, "a", NORMAL, 0xc0000000u);
    put_piece(&model, "b", NORMAL, 0xc0000000u);
    put_piece(&model, "ab", NORMAL, 0xbf800000u);
    put_flag(&trainer, 3, 2);
    put_within(&normalizer, 1, "identity", 8);
}

static void end_model(void) {
    put_within(&model, 2, trainer.data, trainer.used);
    put_within(&model, 3, normalizer.data, normalizer.used);
}

static enum kvc_status open_bytes(uint64_t vocab, struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    return kvc_tokenizer_from_sentencepiece(model.data, model.used, "made", vocab, 0, tokenizer, error);
}

static void refuse_model(const char *says) {
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    check_refusal(open_bytes(100, &tokenizer, &error), KVC_INPUT, &error, says);
    assert_null(tokenizer);
}

static void test_refusals(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    begin_model();
    end_model();
    assert_int_equal(open_bytes(100, &tokenizer, &error), KVC_OK);
    assert_int_equal(tokenizer->count, 100);
    kvc_tokenizer_close(tokenizer);
    check_refusal(open_bytes(5, &tokenizer, &error), KVC_INPUT, &error, "6 tokens; the embedding has 5 rows");
    static const struct {
        const char *text;
        uint64_t type;
        uint32_t score;
        const char *says;
    } pieces[] = {{"c", UNUSED, 0, "piece 6 is of a type other than"},
                  {"c", 0, 0, "piece 6 is of a type other than"},
                  {"c", 7, 0, "piece 6 is of a type other than"},
                  {"c", UINT64_MAX, 0, "piece 6 is of a type other than"},
                  {"", NORMAL, 0, "piece 6 is empty"},
                  {"c", NORMAL, 0x7fc00000u, "piece 6 has a score that is not a number"},
                  {"<0x41>", BYTE, 0, "piece 6 is a byte"},
                  {"<0xGG>", BYTE, 0, "piece 6 is a byte"},
                  {"<u>", UNKNOWN, 0, "piece 6 is a second unknown piece"},
                  {"ab", NORMAL, 0, "piece 6 comes twice"},
                  {"ab", USER, 0, "piece 6 comes twice"}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        begin_model();
        put_piece(&model, pieces[i].text, pieces[i].type, pieces[i].score);
        end_model();
        refuse_model(pieces[i].says);
    }
    static const struct {
        bool trained;
        unsigned field;
        uint64_t value;
        const char *says;
    } flags[] = {{true, 3, 1, "type unigram is not supported; bpe is"},
                 {true, 3, 3, "type word"},
                 {true, 3, 4, "type char"},
                 {true, 3, 77, "type unknown"},
                 {true, 24, 1, "treat_whitespace_as_suffix is not supported"},
                 {false, 5, 0, "without escape_whitespaces"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        begin_model();
        put_flag(flags[i].trained ? &trainer : &normalizer, flags[i].field, flags[i].value);
        end_model();
        refuse_model(flags[i].says);
    }
    begin_model();
    put_within(&normalizer, 1, "nmt_nfkc\n", 9);
    put_within(&normalizer, 2, "0123456789", 10);
    end_model();
    refuse_model("normalizer \"nmt_nfkc?\" (a character map of 10 bytes) is not supported; identity is");
    begin_model();
    end_model();
    normalizer.used = 0;
    put_within(&normalizer, 2, "0123456789", 10);
    put_within(&model, 5, normalizer.data, normalizer.used); /* the denormalizer */
    refuse_model("normalizer \"identity\" (a character map of 10 bytes) is not supported");
    begin_model();
    model.used = 0;
    put_piece(&model, "a", NORMAL, 0);
    end_model();
    refuse_model("made: has no unknown piece");
}

/* The trainer's fields may name other pieces than <s> and </s>. */
static void test_special_names(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    begin_model();
    put_piece(&model, "<begin>", CONTROL, 0);
    put_piece(&model, "<end>", CONTROL, 0);
    put_within(&trainer, 46, "<begin>", 7);
    put_within(&trainer, 47, "<end>", 5);
    put_varint(&trainer, 1000 << 3 | 1); /* an unknown field of 64 bits */
    put_number(&trainer, 7, 8);
    end_model();
    assert_int_equal(open_bytes(100, &tokenizer, &error), KVC_OK);
    assert_int_equal(kvc_tokenizer_bos(tokenizer), 6);
    assert_int_equal(kvc_tokenizer_eos(tokenizer), 7);
    kvc_tokenizer_close(tokenizer);
}

static void test_damaged(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    begin_model();
    end_model();
    const size_t whole = model.used, normalized = 2 + normalizer.used; /* the last field */
    for (model.used = 0; model.used < whole; model.used++) {
        if (model.used != whole - normalized) /* without that field the defaults apply */
            check_refusal(open_bytes(100, &tokenizer, &error), KVC_INPUT, &error, "made: ");
    }
    model.used = 0;
    refuse_model("is not a SentencePiece model");
    put_bytes(&model, "{\"model\": 1}", 12);
    refuse_model("is not a SentencePiece model");
    model.used = 0;
    put_within(&model, 1, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11); /* a piece of 2^64 - 1 bytes */
    refuse_model("type unigram");
    put_flag(&trainer, 3, 2);
    put_within(&model, 2, trainer.data, trainer.used);
    refuse_model("is not a SentencePiece model");
    begin_model();
    model.data[3] = 0x7f; /* the first piece's text is longer than the piece */
    end_model();
    refuse_model("is not a SentencePiece model");
}

/* ---- files beside ---- */

static void write_text(const char *name, const char *text) { write_file(name, text, strlen(text)); }

static void test_added_tokens(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    begin_model();
    put_flag(&normalizer, 3, 0);
    end_model();
    write_file("tokenizer.model", model.data, model.used);
    write_text("added_tokens.json", "{\"<|im_start|>\": 6, \"<|im_end|>\": 8}");
    write_text(
        "tokenizer_config.json",
        "{\"add_bos_token\": false, \"eos_token\": \"<|im_end|>\", \"chat_template\": \"x\", \"added_tokens_decoder\": "
        "{\"1\": {\"content\": \"<s>\", \"special\": true}, \"8\": {\"content\": \"<|im_end|>\", \"special\": true, "
        "\"rstrip\": true}}}");
    if (kvc_tokenizer_from_folder(own_folder(), 20, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    static const int32_t plain[] = {6, 5, 5}, special[] = {6, 5, 8, 5};
    assert_true(same_ids(tokenizer, "<|im_start|>abab", 16, plain, 3, KVC_TOKENIZE_BOS));
    assert_true(
        same_ids(tokenizer, "<|im_start|>ab<|im_end|>  ab", 28, special, 4, KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL));
    assert_int_equal(kvc_tokenizer_bos(tokenizer), 1);
    assert_true(kvc_tokenizer_ends_turn(tokenizer, 8));
    assert_string_equal(kvc_template_for(tokenizer, false), "x");
    kvc_tokenizer_close(tokenizer);
    static const struct {
        const char *added, *config, *says;
    } cases[] = {
        {"{\"x\": 20}", "{}", "21 tokens; the embedding has 20 rows"},
        {"{\"x\": -1}", "{}", "\"x\" has no id"},
        {"{\"x\": \"6\"}", "{}", "\"x\" has no id"},
        {"{\"x\": 99999999999}", "{}", "\"x\" has no id"},
        {"{\"x\": 3}", "{}", "\"x\" has id 3, which is another piece's"},
        {"{}", "{\"added_tokens_decoder\": {\"6x\": {\"content\": \"y\"}}}", "\"6x\" is not an id with a content"},
        {"{}", "{\"added_tokens_decoder\": {\"99999999999999999999\": {\"content\": \"y\"}}}", "is not an id"},
        {"{}", "{\"added_tokens_decoder\": {\"6\": {}}}", "\"6\" is not an id with a content"},
        {"{}", "{\"added_tokens_decoder\": {\"1\": {\"content\": \"y\"}}}", "another piece's"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("added_tokens.json", cases[i].added);
        write_text("tokenizer_config.json", cases[i].config);
        check_refusal(kvc_tokenizer_from_folder(own_folder(), 20, &tokenizer, &error), KVC_INPUT, &error,
                      cases[i].says);
        assert_null(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_sentencepiece),
        cmocka_unit_test(test_converted_equals_folder),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_special_names),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_added_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
