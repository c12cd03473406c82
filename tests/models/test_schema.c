/* test_schema.c - JSON schemas as grammars: texts that are whole, begun or wrong, and schemas that are refused. And a
 * grammar whose comparison takes too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvcull/grammar.h"

static struct kvc_grammar *opened(const char *schema) {
    struct kvc_grammar *grammar;
    struct kvc_error error;
    if (kvc_grammar_open(KVC_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &grammar, &error) != KVC_OK)
        fail_msg("%s: %s", schema, error.text);
    return grammar;
}

static enum kvc_grammar_match compared(const struct kvc_grammar *grammar, const char *text, size_t bytes) {
    enum kvc_grammar_match match;
    assert_int_equal(kvc_grammar_check(grammar, text, bytes, &match, NULL), KVC_OK);
    return match;
}

/* Every beginning of a whole text is possible. */
static void check_whole(const char *schema, const char *text) {
    struct kvc_grammar *grammar = opened(schema);
    if (compared(grammar, text, strlen(text)) != KVC_GRAMMAR_WHOLE)
        fail_msg("%s: %s is not whole", schema, text);
    for (size_t bytes = 0; bytes < strlen(text); bytes++)
        if (compared(grammar, text, bytes) == KVC_GRAMMAR_WRONG)
            fail_msg("%s: the first %zu bytes of %s are wrong", schema, bytes, text);
    kvc_grammar_close(grammar);
}

static void check_wrong(const char *schema, const char *text) {
    struct kvc_grammar *grammar = opened(schema);
    if (compared(grammar, text, strlen(text)) != KVC_GRAMMAR_WRONG)
        fail_msg("%s: %s is possible", schema, text);
    kvc_grammar_close(grammar);
}

static void test_texts(void **state) {
    (void)state;
    static const struct {
        const char *schema;
        const char *whole[6], *wrong[8]; /* end with NULL */
    } all[] = {
        {"{}",
         {"{}", "[1, {\"a\":\n  null}]", "\"\"", "-1.5e-3", "true"},
         {"tru e", " 1", "01", "[1,]", "\"\x01", "+", "[ ,"}},
        {"{\"type\":\"boolean\"}", {"true", "false"}, {"null", "t ", "1"}},
        {"{\"type\":\"string\"}",
         {"\"\\\"\\u00e9\\ud83d\\ude00\xc3\xa9\""},
         {"\"\\x", "\"\\ud83dx", "\"\\ude00", "\"\n"}},
        {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
         {"\"ab\"", "\"\xc3\xa9\xe4\xb8\xad\\n\""},
         {"\"a\"", "\"abcd", "\"\\ud83d\\ude00\""}},
        {"{\"type\":\"integer\",\"minimum\":-12,\"maximum\":305}",
         {"-12", "-7", "0", "9", "99", "305"},
         {"-13", "306", "400", "1.", "00", "-0", "1e"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":99}", {"100", "123456"}, {"99 ", "0", "-"}},
        {"{\"type\":\"number\",\"minimum\":0,\"exclusiveMaximum\":1}", {"0", "0.25"}, {"1", "-", "0e"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":-2,\"maximum\":-1}", {"-1", "-1.5", "-1.0"}, {"-2", "-0", "0"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}",
         {"[null]", "[ null, null]"},
         {"[]", "[null,null,", "[1"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":1}",
         {"[1]", "[1,2]", "[1,2,3,3]"},
         {"[]", "[2", "[1,3"}},
        {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},\"required\":[\"b\"]}",
         {"{\"b\":2}", "{\"a\":1, \"b\":2}", "{ \"b\": 2,\"c\": 3 }"},
         {"{}", "{\"c\"", "{\"a\":1}", "{\"b\":2,\"a\"", "{\"b\":2,}", "{\"d\""}},
        {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}}}",
         {"{}", "{\"a\":1,\"c\":3}", "{\"b\":2}", "{\"a\":1,\"b\":2,\"c\":3}"},
         {"{,", "{\"c\":3,", "{\"a\":1 ,"}},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"minProperties\":1,\"maxProperties\":2}",
         {"{\"x\":null}", "{\"\":null,\"y\":null}"},
         {"{}", "{\"x\":1", "{\"x\":null,\"y\":null,"}},
        {"{\"type\":\"object\",\"required\":[\"k\"]}", {"{\"k\":[]}"}, {"{}", "{\"l\""}},
        {"{\"type\":[\"null\",\"integer\"]}", {"null", "7"}, {"\""}},
        {"{\"enum\":[\"a\\\"b\",12,null,[1,\"\xc3\xa9\"]]}",
         {"\"a\\\"b\"", "12", "null", "[1,\"\xc3\xa9\"]"},
         {"13", "\"b", "[1, "}},
        {"{\"type\":\"string\",\"enum\":[\"a\",1]}", {"\"a\""}, {"1"}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", {"1", "1.5"}, {"\""}},
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", {"1", "\"x\""}, {"1.5", "n"}},
        {"{\"oneOf\":[{\"const\":1},{\"enum\":[\"a\",\"b\"]},{\"type\":[\"null\",\"boolean\"]}]}",
         {"1", "\"b\"", "null", "true"},
         {"2", "\"c"}},
        {"{\"allOf\":[{\"$ref\":\"#/$defs/a~1b%25\"}],\"$defs\":{\"a/b%\":{\"const\":5}}}", {"5"}, {"6"}},
        {"{\"type\":\"object\",\"required\":[\"v\"],\"properties\":{\"v\":{\"type\":\"null\"},\"next\":{\"$ref\":\"#\"}"
         "}}",
         {"{\"v\":null,\"next\":{\"v\":null,\"next\":{\"v\":null}}}"},
         {"{\"v\":null,\"next\":null", "{\"v\":null,\"next\":{}"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-c]{2}\\\\d$\"}", {"\"ab1\""}, {"\"ad", "\"ab1 ", "\"abc"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a\\\\b]$\"}",
         {"\"a\""},
         {"\"b", "\"\\b"}}, /* of the members of a class, plain ones match */
        {"{\"type\":\"string\",\"pattern\":\"x\"}", {"\"x\"", "\"axb\\n\""}, {"\"a\""}},
        {"{\"type\":\"string\",\"pattern\":\"^\\\"\\\\\\\\(?:q|.)$\"}",
         {"\"\\\"\\\\q\"", "\"\\\"\\\\z\""},
         {"\"q", "\"\\\"\\\\\\\\"}},
        {"{\"type\":\"string\",\"pattern\":\"^[^a]{2,3}$\"}",
         {"\"bc\"", "\"bcd\""},
         {"\"ba", "\"b\"", "\"b\\", "\"b\n"}},
        {"{\"type\":\"string\",\"pattern\":\"^[a-z]*$\"}", {"\"\"", "\"ab\""}, {"\"A"}},
        {"{\"type\":\"string\",\"pattern\":\"^\\\\x41\\\\u00e9\\\\t[\\\\s\\\\-]$\"}",
         {"\"A\xc3\xa9"
          "\\t-\"",
          "\"A\xc3\xa9"
          "\\t \""},
         {"\"B",
          "\"A\xc3\xa9"
          "-",
          "\"A\xc3\xa9"
          "\\tx"}},
        {"{\"type\":\"string\",\"pattern\":\"^(?<two>a+?){2,}[\\\\D]$\"}", {"\"aaax\""}, {"\"b", "\"aa1"}},
        {"{\"type\":\"string\",\"minLength\":2}", {"\"ab\"", "\"abcd\""}, {"\"a\""}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":1,\"maximum\":3}",
         {"1.5", "2", "2.25", "3", "3.0"},
         {"0", "-1", "3.1", "4", "11"}},
        {"{\"type\":\"number\",\"minimum\":-1}", {"-0.5", "-1", "0", "5.5"}, {"-2", "-1.5", "-10"}},
        {"{\"const\":1,\"enum\":[2,1]}", {"1"}, {"2"}},
        {"{\"enum\":[true,1.5,{\"a\":[]}],\"type\":[\"boolean\",\"number\",\"object\"]}",
         {"true", "1.5", "{\"a\":[]}"},
         {"false"}},
        {"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
         {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
         {"{}", "{\"a\":1,\"b\":2,"}},
        {"{\"type\":\"object\",\"maxProperties\":0}", {"{}"}, {"{\"a"}},
        {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"a\"}},\"required\":[\"kind\"]},{"
         "\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"b\"},\"n\":{\"type\":\"integer\"}},\"required\":["
         "\"kind\",\"n\"]}]}",
         {"{\"kind\":\"a\"}", "{\"kind\":\"b\",\"n\":1}"},
         {"{\"kind\":\"c", "{\"kind\":\"b\"}"}},
        {"{\"multipleOf\":1,\"minimum\":0}", {"5"}, {"5."}},
        {"{\"type\":\"string\",\"format\":\"date\"}",
         {"\"2026-11-27\"", "\"2026-02-28\""},
         {"\"2026-02-29", "\"2026-13", "\"x"}},
        {"{\"type\":\"string\",\"format\":\"uuid\"}", {"\"01234567-89ab-cdef-0123-456789abcdef\""}, {"\"0123456g"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t j = 0; j < 6 && all[i].whole[j]; j++)
            check_whole(all[i].schema, all[i].whole[j]);
        for (size_t j = 0; j < 8 && all[i].wrong[j]; j++)
            check_wrong(all[i].schema, all[i].wrong[j]);
    }
}

/* Ranges of whole numbers, compared with all numbers near the bounds. */
static void test_ranges(void **state) {
    (void)state;
    static const int ends[] = {-1010, -101, -100, -99, -10, -9, -1, 0, 1, 8, 9, 10, 11, 99, 100, 105, 999, 1000, 1234};
    const size_t count = sizeof ends / sizeof *ends;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count; j += 3) {
            char schema[100], text[20];
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", ends[i], ends[j]);
            struct kvc_grammar *grammar = opened(schema);
            for (int n = -1100; n <= 1300; n++) {
                const int bytes = snprintf(text, sizeof text, "%d", n);
                const bool inside = n >= ends[i] && n <= ends[j];
                if ((compared(grammar, text, (size_t)bytes) == KVC_GRAMMAR_WHOLE) != inside)
                    fail_msg("%s: %s", schema, text);
            }
            kvc_grammar_close(grammar);
        }
}

/* Lengths of strings, with and without escapes, around the sizes of the pattern's parts. */
static void test_lengths(void **state) {
    (void)state;
    static const unsigned most[] = {0, 1, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8300};
    char *text = malloc(2 * 8400 + 2);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        for (unsigned least = 0; least <= most[i]; least += most[i] / 2 + 1) {
            char schema[100];
            snprintf(schema, sizeof schema, "{\"type\":\"string\",\"minLength\":%u,\"maxLength\":%u}", least, most[i]);
            struct kvc_grammar *grammar = opened(schema);
            const unsigned lengths[] = {0, least - (least > 0), least, most[i], most[i] + 1};
            for (size_t j = 0; j < 5; j++) {
                size_t bytes = 0;
                text[bytes++] = '"';
                for (unsigned c = 0; c < lengths[j]; c++) {
                    if (c % 7 == 3)
                        text[bytes++] = '\\';
                    text[bytes++] = 'n';
                }
                text[bytes++] = '"';
                const bool inside = lengths[j] >= least && lengths[j] <= most[i];
                if ((compared(grammar, text, bytes) == KVC_GRAMMAR_WHOLE) != inside)
                    fail_msg("%s: %u characters", schema, lengths[j]);
            }
            kvc_grammar_close(grammar);
        }
    free(text);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"{", "schema: not valid JSON"},
        {"[]", "schema: #: must be an object or true"},
        {"{\"type\":\"text\"}", "schema: #/type: must be null"},
        {"{\"type\":[]}", "schema: #/type: must be null"},
        {"{\"properties\":{\"a\":{\"not\":{}}}}", "schema: #/properties/a/not: is not supported"},
        {"{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "schema: #/properties/a: allows no value"},
        {"{\"uniqueItems\":true}", "schema: #/uniqueItems: is not supported"},
        {"{\"patternProperties\":{\"a\":{}}}", "schema: #/patternProperties: is not supported"},
        {"{\"multipleOf\":2}", "schema: #/multipleOf: only 1"},
        {"{\"$ref\":\"other.json\"}", "schema: #/$ref: other.json: only references"},
        {"{\"$ref\":\"#/$defs/a\"}", "schema: #/$ref: there is no such schema"},
        {"{\"$ref\":\"#\"}", "schema: #/$ref: refers to itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{}]}", "schema: #/anyOf/0/$ref: refers to itself"},
        {"{\"$ref\":\"#/$defs/a\",\"type\":\"null\",\"$defs\":{\"a\":{}}}", "schema: #: type beside $ref"},
        {"{\"anyOf\":[]}", "schema: #/anyOf: must be an array of schemas"},
        {"{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", "schema: #/oneOf: schemas 0 and 1 may overlap"},
        {"{\"allOf\":[{},{}]}", "schema: #/allOf: only one schema"},
        {"{\"enum\":[]}", "schema: #/enum: allows no value"},
        {"{\"enum\":[1],\"type\":\"string\"}", "schema: #/enum: allows no value"},
        {"{\"enum\":[1],\"minimum\":0}", "schema: #: minimum beside enum"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "schema: #: minLength is above"},
        {"{\"type\":\"string\",\"maxLength\":-1}", "schema: #/maxLength: must be a whole number"},
        {"{\"type\":\"string\",\"maxLength\":1000000}", "schema: #/maxLength: 1000000: at most"},
        {"{\"type\":\"string\",\"pattern\":\"a(?=b)\"}", "schema: #/pattern: a group that begins with (?"},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", "schema: #/pattern: a ( without"},
        {"{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "schema: #/pattern: this range"},
        {"{\"type\":\"string\",\"pattern\":\"a{3,2}\"}", "schema: #/pattern: a quantifier whose first"},
        {"{\"type\":\"string\",\"pattern\":\"a**\"}", "schema: #/pattern: a quantifier with nothing"},
        {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}", "schema: #/pattern: ^ or $ beside |"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\1\"}", "schema: #/pattern: this escape"},
        {"{\"type\":\"string\",\"pattern\":\"a\",\"maxLength\":3}", "schema: #/pattern: beside minLength"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "schema: #: the bounds leave no number"},
        {"{\"type\":\"number\",\"minimum\":0.5}", "schema: #/minimum: 0.5: bounds of numbers must be whole"},
        {"{\"type\":\"number\",\"minimum\":\"1\"}", "schema: #/minimum: must be a number"},
        {"{\"type\":\"object\",\"minProperties\":2}", "schema: #: minProperties 2"},
        {"{\"required\":[\"a\"],\"additionalProperties\":false}", "schema: #/required/0: has no schema"},
        {"{\"type\":\"array\",\"minItems\":2,\"items\":false}", "schema: #: minItems is above"},
        {"{\"type\":\"array\",\"maxItems\":1e300}", "schema: #/maxItems: 1"},
        {"{\"prefixItems\":[{}],\"items\":[{}]}", "schema: #/items: must be a schema"},
        {"{\"prefixItems\":{}}", "schema: #/prefixItems: must be an array"},
        {"{\"prefixItems\":[{\"type\":\"text\"}]}", "schema: #/prefixItems/0/type: must be null"},
        {"{\"items\":{\"type\":\"text\"}}", "schema: #/items/type: must be null"},
        {"{\"additionalProperties\":{\"type\":\"text\"}}", "schema: #/additionalProperties/type: must be null"},
        {"{\"type\":[\"text\"]}", "schema: #/type: must be null"},
        {"{\"properties\":[]}", "schema: #/properties: must be an object"},
        {"{\"required\":{}}", "schema: #/required: must be an array"},
        {"{\"required\":[1]}", "schema: #/required: must have strings"},
        {"{\"maxProperties\":\"1\"}", "schema: #/maxProperties: must be a whole number"},
        {"{\"minProperties\":1,\"maxProperties\":0}", "schema: #: allows no member, and needs 1"},
        {"{\"properties\":{\"a\":{}},\"maxProperties\":0}", "schema: #: minProperties and maxProperties must follow"},
        {"{\"properties\":{\"a\":{\"$id\":\"x\"}}}", "schema: #/properties/a/$id: is supported only at the root"},
        {"{\"$ref\":1}", "schema: #/$ref: must be a string"},
        {"{\"$ref\":\"#/%zz\"}", "schema: #/$ref: there is no such schema"},
        {"{\"const\":1,\"enum\":[2]}", "schema: #/const: is not among the values of enum"},
        {"{\"enum\":1}", "schema: #/enum: must be an array"},
        {"{\"minimum\":1e+300}", "schema: #/minimum: must be from"},
        {"{\"type\":\"string\",\"pattern\":1}", "schema: #/pattern: must be a string"},
        {"{\"oneOf\":[{\"properties\":{\"kind\":{\"const\":\"a\"}},\"type\":\"object\"},{\"properties\":{\"kind\":{"
         "\"const\":\"b\"}},\"type\":\"object\"}]}",
         "schema: #/oneOf: schemas 0 and 1 may overlap"},
        {"{\"type\":\"string\",\"pattern\":\"a\\\\\"}", "schema: #/pattern: a backslash at the end"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\x4\"}", "schema: #/pattern: an escape without its digits"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\u00zz\"}", "schema: #/pattern: an escape without its digits"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\ud800\"}", "schema: #/pattern: this character"},
        {"{\"type\":\"string\",\"pattern\":\"[a\"}", "schema: #/pattern: an empty class, or one without its end"},
        {"{\"type\":\"string\",\"pattern\":\"[]\"}", "schema: #/pattern: an empty class, or one without its end"},
        {"{\"type\":\"string\",\"pattern\":\"a{,2}\"}", "schema: #/pattern: a brace that is not"},
        {"{\"type\":\"string\",\"pattern\":\"a^b\"}", "schema: #/pattern: ^ or $, other than"},
        {"{\"type\":\"string\",\"pattern\":\"a)b(\"}", "schema: #/pattern: a ) without its ("},
        {"{\"type\":\"array\",\"maxItems\":50000,\"items\":{\"maxItems\":50000}}", "grammar: too large"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct kvc_grammar *grammar = NULL;
        struct kvc_error error = {0};
        const enum kvc_status status =
            kvc_grammar_open(KVC_GRAMMAR_JSON_SCHEMA, all[i][0], strlen(all[i][0]), &grammar, &error);
        if (status != KVC_USAGE || strncmp(error.text, all[i][1], strlen(all[i][1])) != 0)
            fail_msg("%s: status %d, %s; wanted %s", all[i][0], (int)status, error.text, all[i][1]);
        assert_null(grammar);
    }
}

/* Expects that a schema is refused: begin, then `count` times the middle with its number, then end. */
static void refused_many(const char *begin, const char *middle, int count, const char *end, const char *says) {
    char *schema = malloc(strlen(begin) + strlen(end) + (size_t)count * (strlen(middle) + 8) + 1);
    assert_non_null(schema);
    char *at = schema + sprintf(schema, "%s", begin);
    for (int i = 0; i < count; i++)
        for (const char *c = middle; *c; c++)
            at += *c == '#' ? sprintf(at, "%d", i) : sprintf(at, "%c", *c);
    strcpy(at, end);
    struct kvc_grammar *grammar = NULL;
    struct kvc_error error = {0};
    assert_int_equal(kvc_grammar_open(KVC_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &grammar, &error), KVC_USAGE);
    if (!strstr(error.text, says))
        fail_msg("%s; wanted %s", error.text, says);
    free(schema);
}

static void test_limits(void **state) {
    (void)state;
    refused_many("{\"properties\":{\"a\":{}", ",\"m#\":{}", 1000, "}}", "schema: #: 1001 members; at most 1000");
    refused_many("{\"anyOf\":[{}", ",{\"items\":{}}", 5000, "]}", "the schema has too many parts");
    char chain[5000], *at = chain + sprintf(chain, "{\"$ref\":\"#/$defs/m0\",\"$defs\":{\"m100\":{}");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, ",\"m%d\":{\"items\":{\"$ref\":\"#/$defs/m%d\"}}", i, i + 1);
    refused_many(chain, "", 0, "}}", "schemas are nested too deeply");
    refused_many("{\"type\":\"string\",\"pattern\":\"", "(", 101, "\"}", "#/pattern: such a deep nesting of groups");
    refused_many("{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"enum\":[\"a\"",
                 ",\"m#\"", 1000, "]}}}", "schema: #/oneOf: too many values to compare; use anyOf");
}

static int32_t token_of(const struct kvc_model *model, const char *text) {
    int32_t *tokens;
    size_t count;
    assert_int_equal(kvc_tokenize(model, text, strlen(text), 0, &tokens, &count, NULL), KVC_OK);
    assert_int_equal(count, 1);
    const int32_t token = tokens[0];
    free(tokens);
    return token;
}

/* A token whose match takes too many steps is struck out like a wrong one, and the answer goes on. */
static void test_costly(void **state) {
    (void)state;
    const char *source = getenv("top_srcdir"), *regex = "(?:a|aa)+b?";
    char path[1000];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_grammar *grammar;
    struct kvc_sampler *sampler;
    struct kvc_sampler_options options;
    struct kvc_error error;
    snprintf(path, sizeof path, "%s/tests/data/tokenizers/gpt2/vocab.gguf", source ? source : ".");
    assert_int_equal(kvc_engine_open(NULL, &engine, &error), KVC_OK);
    assert_int_equal(kvc_model_open_text(engine, path, &model, &error), KVC_OK);
    assert_int_equal(kvc_grammar_open(KVC_GRAMMAR_REGEX, regex, strlen(regex), &grammar, &error), KVC_OK);
    kvc_sampler_defaults(&options);
    options.temperature = 0;
    const uint32_t vocab = kvc_model_info(model)->vocab;
    float *logits = calloc(vocab, sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(kvc_sampler_open(&options, vocab - 1, &sampler, &error), KVC_OK);
    assert_int_equal(kvc_sampler_grammar(sampler, model, grammar, true, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "grammar: the sampler is for "));
    kvc_sampler_close(sampler);
    assert_int_equal(kvc_sampler_open(&options, vocab, &sampler, &error), KVC_OK);
    assert_int_equal(kvc_sampler_grammar(sampler, model, grammar, true, &error), KVC_OK);
    const int32_t a = token_of(model, "a"), b = token_of(model, "b"), other = token_of(model, "!");
    logits[a] = 1;
    for (int i = 0; i < 40; i++)
        assert_int_equal(kvc_sample(sampler, logits), a);
    logits[other] = 3;
    logits[b] = 2;
    assert_int_equal(kvc_sample(sampler, logits), b);
    assert_true(kvc_sampler_whole(sampler));
    kvc_sampler_close(sampler);
    kvc_grammar_close(grammar);
    kvc_model_close(model);
    kvc_engine_close(engine);
    free(logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts),   cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_lengths), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_limits),  cmocka_unit_test(test_costly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
