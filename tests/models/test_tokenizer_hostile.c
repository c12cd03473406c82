/* test_tokenizer_hostile.c - hostile tokenizer files: one line of error, or the ids of the file, never anything else.
 */
#include "tests/models/tokenizer_checks.h"

#include <unistd.h>

#define BPE(vocab, merges) "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
#define STEP(part, value) "{\"" part "\":" value ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"decoders\":[" steps "]}"
static const struct {
    const char *json, *says;
} hostile[] = {
    {"", "JSON"},
    {"[]", "vocab"},
    {"{\"model\":", "JSON"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", "BPE"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece"},
    {BPE("{\"a\":-1}", "[]"), "id"},
    {BPE("{\"a\":1e300}", "[]"), "id"},
    {BPE("{\"a\":9223372036854775807}", "[]"), "id"},
    {BPE("{\"a\":4000000000}", "[]"), "id"},
    {BPE("{\"a\":1000}", "[]"), "below 1000"},
    {BPE("{\"a\":\"x\"}", "[]"), "id"},
    {BPE("{\"a\":0,\"b\":0}", "[]"), "two pieces"},
    {BPE("{\"a\":0,\"a\":1}", "[]"), "JSON"},
    {BPE("{\"a\":0,\"b\":1}", "[\"a b\"]"), "merge 0"},
    {BPE("{\"a\":0,\"b\":1}", "[\"a c\"]"), "merge 0"},
    {BPE("{\"a\":0}", "[\"aa\"]"), "merge 0"},
    {BPE("{\"a\":0}", "[[\"a\"]]"), "merge 0"},
    {BPE("{\"a\":0}", "[5]"), "merge 0"},
    {BPE("{\"a\":0}", "{}"), "merges"},
    {BPE("[]", "[]"), "vocab"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"type\":\"BPE\"}}", "merges"},
    {"{\"added_tokens\":[{\"id\":0,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "another"},
    {"{\"added_tokens\":[{\"id\":-5,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"
     "}",
     "id"},
    {"{\"added_tokens\":[{\"id\":5}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "content"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"},\"model\":{"
     "\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "compile"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&[^b]]\"},\"behavior\":\"Isolated\"},"
     "\"model\":{"
     "\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "a class within a class"},
    {"{\"pre_tokenizer\":{\"type\":\"Nonsense\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "Nonsense"},
    {"{\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "Precompiled"},
    {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "CTC"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_"
     "tokens\":{\"x\":{\"ids\":[7000]}}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "outside"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}}", "merge 0"}, /* without a type it is BPE */
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}",
     "model.end_of_word_suffix is not supported"},
    {STEP("normalizer", "{\"type\":\"Prepend\"}"), "normalizer \"Prepend\" has no text"},
    {STEP("normalizer", "{\"type\":\"Replace\",\"content\":\"b\",\"pattern\":\"a\"}"), "a pattern must be {\"String\""},
    {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}"), "\"Split\" has no known behavior"},
    {STEP("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Kept\"}"),
     "\"Split\" has no known behavior"},
    {STEP("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"), "\"Metaspace\" is not one character"},
    {STEP("decoder", "{\"type\":\"Metaspace\",\"replacement\":\"\"}"), "\"Metaspace\" is not one character"},
    {STEP("decoder", SEQUENCE("{\"type\":\"Metaspace\"},{\"type\":\"Metaspace\"}")), "a decoder with two replacements"},
    {STEP("decoder", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"b\"}"), "or one of nothing"},
    {STEP("decoder", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"}"),
     "Replace without plain text"},
    {STEP("decoder", "{\"type\":\"Strip\",\"content\":\" \",\"start\":1}"),
     "Strip other than of leading spaces after Fuse"},
    {STEP("decoder", SEQUENCE("{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":1}")),
     "Strip other than of leading spaces after Fuse"},
    {STEP("post_processor", "{\"type\":\"BertProcessing\"}"), "post_processor \"BertProcessing\" is not supported"},
    {STEP("post_processor", "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}"),
     "post_processor has no ids for \"x\""},
};

static void test_hostile_json(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        enum kvc_status status =
            kvc_tokenizer_from_bytes(hostile[i].json, strlen(hostile[i].json), "file", 1000, &tokenizer, &error);
        if (status != KVC_INPUT || !strstr(error.text, hostile[i].says) || strchr(error.text, '\n'))
            fail_msg("case %zu: status %d, \"%s\", wanted \"%s\"", i, (int)status, error.text, hostile[i].says);
        assert_null(tokenizer);
    }
    enum { DEEP = 10000 };
    char *deep = malloc(2 * DEEP);
    assert_non_null(deep);
    memset(deep, '[', DEEP);
    memset(deep + DEEP, ']', DEEP);
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_bytes(deep, 2 * DEEP, "file", 1000, &tokenizer, &error), KVC_INPUT);
    free(deep);
}

/* Patterns with endless backtracking are stopped; those that match nothing or a reversed range are harmless. */
static void test_hostile_patterns(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        enum kvc_status wanted;
    } cases[] = {{"(a|a)+[^a]", KVC_INPUT}, {"", KVC_OK}, {"x*", KVC_OK}, {"(?=a)", KVC_OK}, {"(?<=a)", KVC_OK}};
    char text[61];
    memset(text, 'a', 60);
    text[60] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[500];
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
                 cases[i].pattern);
        assert_int_equal(kvc_tokenizer_from_bytes(json, strlen(json), "file", 1000, &tokenizer, &error), KVC_OK);
        int32_t *ids = NULL;
        size_t count;
        enum kvc_status status = kvc_tokenizer_encode(tokenizer, text, NULL, 60, 0, &ids, &count, &error);
        assert_int_equal(status, cases[i].wanted);
        if (status == KVC_OK) {
            assert_int_equal(count, 60);
            free(ids);
        }
        kvc_tokenizer_close(tokenizer);
    }
}

/* ---- steps that no golden has ---- */

#define WITH(parts, vocab, merges) "{" parts ",\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
#define BYTES "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false}"
#define SPLIT "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:alpha:]_]\"},\"behavior\":\"Removed\"}"
#define EMPTY "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"s*\"},\"content\":\"b\"}"
#define TOKEN "\"added_tokens\":[{\"id\":2,\"content\":\"<s>\",\"special\":true,\"normalized\":true}]"
#define LETTERS "{\"a\":0,\"_\":1,\"<s>\":2,\"<\":3,\"s\":4,\">\":5,\"b\":6}"
#define STRIP WITH(TOKEN ",\"normalizer\":{\"type\":\"Strip\"}", LETTERS, "[]")
#define PREPEND WITH(TOKEN ",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"}", LETTERS, "[]")
#define PREFIX WITH(BYTES, "{\"\u0120a\":0,\"a\":1,\"\u0120\":2}", "[\"\u0120 a\"]")
#define COMPOSE WITH("\"normalizer\":{\"type\":\"NFC\"}," BYTES, "{\"a\":0,\"\u0120\":1,\"\u00ff\":2}", "[]")

/* In texts with marks, only bytes marked '.' can become a control token; the caller wrote the others. */
static void test_steps(void **state) {
    (void)state;
    static const struct {
        const char *json, *text, *marks;
        size_t count;
        int32_t ids[8];
    } cases[] = {
        {PREFIX, "a", NULL, 1, {0}},
        {PREFIX, " a", NULL, 1, {0}},
        {COMPOSE, "a\377\377a", NULL, 5, {1, 0, 2, 2, 0}}, /* bytes that are no character */
        {WITH(SPLIT, LETTERS, "[]"), "a<_b>", NULL, 2, {3, 5}},
        {WITH(EMPTY, LETTERS, "[]"), "assa", NULL, 3, {0, 6, 0}}, /* an empty match replaces nothing */
        {STRIP, "  <s>a ", ".......", 2, {2, 0}},
        {STRIP, "  <s>a ", "cc...cc", 2, {2, 0}},
        {STRIP, "  <s>a ", "..c....", 4, {3, 4, 5, 0}},
        {PREPEND, "<s>a", "....", 2, {2, 0}},
        {PREPEND, "<s>a", "...c", 2, {2, 0}},
        {PREPEND, "<s>a", "..c.", 5, {1, 3, 4, 5, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        char marks[8] = "";
        int32_t *ids;
        size_t count;
        for (size_t k = 0; cases[i].marks && cases[i].marks[k]; k++)
            marks[k] = cases[i].marks[k] == 'c';
        if (kvc_tokenizer_from_bytes(cases[i].json, strlen(cases[i].json), "file", 100, &tokenizer, &error) ||
            kvc_tokenizer_encode(tokenizer, cases[i].text, cases[i].marks ? marks : NULL, strlen(cases[i].text),
                                 KVC_TOKENIZE_SPECIAL, &ids, &count, &error))
            fail_msg("case %zu: %s", i, error.text);
        if (count != cases[i].count || memcmp(ids, cases[i].ids, count * sizeof *ids) != 0) {
            show("wanted", cases[i].ids, cases[i].count);
            show("got", ids, count);
            fail_msg("case %zu", i);
        }
        free(ids);
        kvc_tokenizer_close(tokenizer);
    }
}

/* ---- hostile GGUF files, written by this test ---- */

struct image {
    unsigned char bytes[4000];
    size_t count;
    uint64_t keys;
};

static void add(struct image *image, const void *data, size_t bytes) {
    assert_true(bytes <= sizeof image->bytes - image->count);
    memcpy(image->bytes + image->count, data, bytes);
    image->count += bytes;
}

static void add_number(struct image *image, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, value >>= 8)
        add(image, &(unsigned char){(unsigned char)value}, 1);
}

static void add_text(struct image *image, const char *text) {
    add_number(image, strlen(text), 8);
    add(image, text, strlen(text));
}

static void add_key(struct image *image, const char *key, uint32_t type) {
    char name[100];
    snprintf(name, sizeof name, "tokenizer.%s%s", strchr(key, '.') ? "" : "ggml.", key);
    add_text(image, name);
    add_number(image, type, 4);
    image->keys++;
}

/* Adds an array of words that are separated by spaces. */
static void add_texts(struct image *image, const char *key, const char *words) {
    char copy[1000];
    uint64_t count = 0;
    add_key(image, key, KVC_GGUF_ARRAY);
    add_number(image, KVC_GGUF_STRING, 4);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        count++;
    add_number(image, count, 8);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            if (*c == '~') /* stands for a space */
                *c = ' ';
        add_text(image, word);
    }
}

static void add_list(struct image *image, const char *key, enum kvc_gguf_type type, const uint32_t *values,
                     size_t count) {
    add_key(image, key, KVC_GGUF_ARRAY);
    add_number(image, type, 4);
    add_number(image, count, 8);
    for (size_t i = 0; i < count; i++)
        add_number(image, values[i], 4);
}

static enum kvc_status open_image(const struct image *image, uint64_t vocab, struct kvc_tokenizer **tokenizer,
                                  struct kvc_error *error) {
    struct image whole = {.count = 0};
    struct kvc_gguf *file;
    char path[] = "/tmp/kvcull-tokenizer-XXXXXX";
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    FILE *out = fdopen(handle, "wb");
    assert_non_null(out);
    add(&whole, "GGUF", 4);
    add_number(&whole, 3, 4);
    add_number(&whole, 0, 8);
    add_number(&whole, image->keys, 8);
    add(&whole, image->bytes, image->count);
    assert_int_equal(fwrite(whole.bytes, 1, whole.count, out), whole.count);
    assert_int_equal(fclose(out), 0);
    enum kvc_status status = kvc_gguf_open(path, &file, error);
    remove(path);
    if (status != KVC_OK)
        fail_msg("%s", error->text);
    status = kvc_tokenizer_from_gguf(file, "file", vocab, tokenizer, error);
    kvc_gguf_close(file);
    return status;
}

enum { NORMAL = 1, CONTROL = 3, BYTE = 6 };
#define ONE 0x3f800000u /* 1.0f */

static void test_hostile_gguf(void **state) {
    (void)state;
    static const struct {
        const char *model, *pre, *tokens, *merges;
        uint32_t types[6], scores[6];
        size_t type_count, score_count;
        uint64_t eos, vocab;
        const char *says; /* NULL: it loads */
    } cases[] = {
        {"llama", "default", "a b ab", NULL, {1, 1, 1}, {ONE, ONE, ONE}, 3, 3, 0, 3, NULL},
        {"llama", "default", "a b a", NULL, {1, 1, 1}, {ONE, ONE, ONE}, 3, 3, 0, 30, NULL},
        {"llama", "default", "a <0x-1>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0x-1>"},
        {"llama", "default", "a <0xZZ>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0xZZ>"},
        {"llama", "default", "a <0x100>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0x100>"},
        {"llama", "default", "a <0xZZ>", NULL, {1, 1}, {ONE, ONE}, 2, 2, 0, 2, NULL},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE}, 2, 1, 0, 2, "scores"},
        {"llama", "default", "a b", NULL, {1}, {ONE, ONE}, 1, 2, 0, 2, "types"},
        {"llama", "default", "a b", NULL, {1, 7}, {ONE, ONE}, 2, 2, 0, 2, "type"},
        {"llama", "default", "a b", NULL, {1, 0xffffffffu}, {ONE, ONE}, 2, 2, 0, 2, "type"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, 0x7fc00000u}, 2, 2, 0, 2, "score"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, ONE}, 2, 2, 2, 2, "eos_token_id"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, ONE}, 2, 2, 0, 1, "2 tokens"},
        {"llama", "default", "a b", NULL, {1, 1}, {0}, 2, 0, 0, 2, "scores"},
        {"gpt2", "gpt-2", "a b ab", "a~b", {1, 1, 1}, {0}, 3, 0, 0, 3, NULL},
        {"gpt2", "gpt-2", "a b ab", "a~c", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 0"},
        {"gpt2", "gpt-2", "a b ab", "b~a", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 0"},
        {"gpt2", "gpt-2", "a b ab", "a~b ab", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 1"},
        {"gpt2", "gpt-2", "a b ab", NULL, {1, 1, 1}, {0}, 3, 0, 0, 3, "merges"},
        {"gpt2", "unheard-of", "a b ab", "a~b", {1, 1, 1}, {0}, 3, 0, 0, 3, "unheard-of"},
        {"gemma4", "default", "a b ab", "a~b", {1, 1, 1}, {0}, 3, 0, 0, 3, NULL},
        {"gemma4", "default", "a b ab", "a~c", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 0"},
        {"gemma4", "default", "a b ab", NULL, {1, 1, 1}, {0}, 3, 0, 0, 3, "merges"},
        {"bert", "default", "a b", NULL, {1, 1}, {0}, 2, 0, 0, 2, "bert"},
        {NULL, "default", "a b", NULL, {1, 1}, {0}, 2, 0, 0, 2, "tokenizer.ggml.model is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image image = {.count = 0};
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        if (cases[i].model) {
            add_key(&image, "model", KVC_GGUF_STRING);
            add_text(&image, cases[i].model);
        }
        add_key(&image, "pre", KVC_GGUF_STRING);
        add_text(&image, cases[i].pre);
        add_texts(&image, "tokens", cases[i].tokens);
        if (cases[i].merges)
            add_texts(&image, "merges", cases[i].merges);
        add_list(&image, "token_type", KVC_GGUF_I32, cases[i].types, cases[i].type_count);
        if (cases[i].score_count)
            add_list(&image, "scores", KVC_GGUF_F32, cases[i].scores, cases[i].score_count);
        add_key(&image, "eos_token_id", KVC_GGUF_U32);
        add_number(&image, cases[i].eos, 4);
        enum kvc_status status = open_image(&image, cases[i].vocab, &tokenizer, &error);
        if (cases[i].says ? status != KVC_INPUT || !strstr(error.text, cases[i].says) || strchr(error.text, '\n')
                          : status != KVC_OK)
            fail_msg("case %zu: status %d, \"%s\", wanted \"%s\"", i, (int)status, error.text,
                     cases[i].says ? cases[i].says : "success");
        kvc_tokenizer_close(tokenizer);
    }
}

/* Files that predate tokenizer.ggml.pre: the architecture tells whether digits stay together. */
static void test_guessed(void **state) {
    (void)state;
    for (int qwen = 0; qwen < 2; qwen++) {
        struct image image = {.count = 0};
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        add_text(&image, "general.architecture");
        add_number(&image, KVC_GGUF_STRING, 4);
        add_text(&image, qwen ? "qwen2" : "llama");
        image.keys++;
        add_key(&image, "model", KVC_GGUF_STRING);
        add_text(&image, "gpt2");
        add_texts(&image, "tokens", "1 11");
        add_texts(&image, "merges", "1~1");
        if (open_image(&image, 2, &tokenizer, &error) != KVC_OK)
            fail_msg("%s", error.text);
        assert_true(
            same_ids(tokenizer, "11", 2, qwen ? (const int32_t[]){0, 0} : (const int32_t[]){1}, 1 + (size_t)qwen, 0));
        kvc_tokenizer_close(tokenizer);
    }
}

/* A GGUF file that contains a whole tokenizer.json: other keys name the special tokens, and say whether a text begins
 * with one. */
static void test_embedded(void **state) {
    (void)state;
    static const char plain[] = BPE("{\"a\":0,\"b\":1}", "[]");
    static const char begins[] =
        "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
        "\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[1]}}},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    static const struct {
        const char *json;
        uint32_t bos;
        bool add_bos;
        const char *says; /* NULL: it loads */
    } cases[] = {{plain, 1, false, NULL},
                 {plain, 1, true, NULL},
                 {begins, 1, false, NULL},
                 {begins, 1, true, NULL},
                 {plain, 2, true, "tokenizer.ggml.bos_token_id is not a token id below 2"},
                 {"{}", 1, true, "vocab"},
                 {NULL, 1, true, "tokenizer.huggingface.json is not a string"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image image = {.count = 0};
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        add_key(&image, "huggingface.json", cases[i].json ? KVC_GGUF_STRING : KVC_GGUF_BOOL);
        if (cases[i].json)
            add_text(&image, cases[i].json);
        else
            add_number(&image, 1, 1);
        add_key(&image, "bos_token_id", KVC_GGUF_U32);
        add_number(&image, cases[i].bos, 4);
        add_key(&image, "add_bos_token", KVC_GGUF_BOOL);
        add_number(&image, cases[i].add_bos, 1);
        const enum kvc_status status = open_image(&image, 2, &tokenizer, &error);
        if (cases[i].says ? status != KVC_INPUT || !strstr(error.text, cases[i].says) : status != KVC_OK)
            fail_msg("case %zu: status %d, \"%s\"", i, (int)status, error.text);
        const bool add_bos = cases[i].add_bos;
        if (!cases[i].says)
            assert_true(same_ids(tokenizer, "a", 1, (const int32_t[]){1, 0} + !add_bos, 1 + add_bos, KVC_TOKENIZE_BOS));
        kvc_tokenizer_close(tokenizer);
    }
}

/* Pieces merge by score, then from the left; plain text never becomes control tokens. */
static void test_scores(void **state) {
    (void)state;
    struct image image = {.count = 0};
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    static const uint32_t types[] = {CONTROL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, BYTE};
    static const uint32_t scores[] = {0x41200000u /* 10 */, 0, 0, 0, ONE, 0x40000000u /* 2 */, ONE, 0};
    add_key(&image, "model", KVC_GGUF_STRING);
    add_text(&image, "llama");
    add_texts(&image, "tokens", "abc a b c ab bc aa <0x64>");
    add_list(&image, "token_type", KVC_GGUF_I32, types, 8);
    add_list(&image, "scores", KVC_GGUF_F32, scores, 8);
    add_key(&image, "add_space_prefix", KVC_GGUF_BOOL);
    add_number(&image, 0, 1);
    if (open_image(&image, 8, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_true(same_ids(tokenizer, "abc", 3, (const int32_t[]){1, 5}, 2, 0));
    assert_true(same_ids(tokenizer, "abc", 3, (const int32_t[]){0}, 1, KVC_TOKENIZE_SPECIAL));
    assert_true(same_ids(tokenizer, "ab", 2, (const int32_t[]){4}, 1, 0));
    assert_true(same_ids(tokenizer, "aaa", 3, (const int32_t[]){6, 1}, 2, 0));
    assert_true(same_ids(tokenizer, "ad", 2, (const int32_t[]){1, 7}, 2, 0));
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "az", NULL, 2, 0, &ids, &count, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "7a"));
    kvc_tokenizer_close(tokenizer);
}

/* Forty replacements that each double the text end in an error, not in 2^40 bytes. */
static void test_growing_normalizer(void **state) {
    (void)state;
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}";
    char json[4000] = "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[";
    for (int i = 0; i < 40; i++) {
        strcat(json, i ? "," : "");
        strcat(json, step);
    }
    strcat(json, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    int32_t *ids;
    size_t count;
    if (kvc_tokenizer_from_bytes(json, strlen(json), "file", 10, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "a", NULL, 1, 0, &ids, &count, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "normalizer"));
    kvc_tokenizer_close(tokenizer);
}

/* Texts of files that are longer than any model needs: a pattern, and a text in front of every text. */
static void test_long_texts(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        const char *begin, *end, *says;
    } cases[] = {{100001, "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"",
                  "\"}}", "a pattern of 100001 bytes; at most 100000 are taken"},
                 {1 << 21, "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"", "\"}",
                  "the normalizer makes more than 1048640 bytes of this text"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = malloc(cases[i].bytes + 200), *at = json + sprintf(json, "{%s", cases[i].begin);
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        int32_t *ids;
        size_t count;
        memset(at, 'a', cases[i].bytes);
        sprintf(at + cases[i].bytes, "%s,%s", cases[i].end, &BPE("{\"a\":0}", "[]")[1]);
        enum kvc_status status = kvc_tokenizer_from_bytes(json, strlen(json), "file", 10, &tokenizer, &error);
        if (status == KVC_OK)
            status = kvc_tokenizer_encode(tokenizer, "a", NULL, 1, 0, &ids, &count, &error);
        if (status != KVC_INPUT || !strstr(error.text, cases[i].says))
            fail_msg("status %d, \"%s\", wanted \"%s\"", (int)status, error.text, cases[i].says);
        kvc_tokenizer_close(tokenizer);
        free(json);
    }
}

/* A vocabulary of whole words without an unknown token. */
static void test_unknown_word(void **state) {
    (void)state;
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}";
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_from_bytes(json, strlen(json), "file", 10, &tokenizer, &error), KVC_OK);
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "b", NULL, 1, 0, &ids, &count, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "the vocabulary has no piece for the bytes 62 and no unknown token"));
    kvc_tokenizer_close(tokenizer);
}

static void test_missing_folder(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_folder("/nonexistent", 10, &tokenizer, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "/nonexistent/tokenizer.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_json),
        cmocka_unit_test(test_hostile_patterns),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_unknown_word),
        cmocka_unit_test(test_hostile_gguf),
        cmocka_unit_test(test_guessed),
        cmocka_unit_test(test_embedded),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_growing_normalizer),
        cmocka_unit_test(test_missing_folder),
        cmocka_unit_test(test_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
