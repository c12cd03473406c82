/* grammar_answers.c - writes random answers for tests/models/test_schemas.py. MODEL gives the tokenizer. Reads JSON
 * lines, each an object with "schema" (JSON text), "seed", "answers" (how many to write) and "texts" to compare, and
 * writes a line for each: {"error": ...} or {"answers": [...], "matches": "WBN..."}; an answer that did not end is
 * null, and one that could not go on is false.
 *
 * The logits are random. They favour more and more what ends strings, arrays and objects, so that answers end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kvcull/grammar.h"

#define TOKENS_MOST 1000u

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct writer {
    const struct kvc_model *model;
    uint32_t vocab;
    float *ending; /* [vocab]: 1 for tokens that end a value */
    float *logits;
};

static bool writer_open(struct writer *writer, const struct kvc_model *model) {
    *writer = (struct writer){.model = model, .vocab = kvc_model_info(model)->vocab};
    writer->ending = calloc(writer->vocab, sizeof(float));
    writer->logits = calloc(writer->vocab, sizeof(float));
    for (uint32_t t = 0; writer->ending && t < writer->vocab; t++) {
        char text[4];
        size_t bytes = 0;
        if (kvc_token_bytes(model, (int32_t)t, false, text, sizeof text, &bytes, NULL) == KVC_OK && bytes == 1)
            writer->ending[t] = strchr("\"}]", text[0]) && text[0]                 ? 1.0f
                                : strchr(",:{[\\.-0123456789", text[0]) && text[0] ? 0.6f
                                                                                   : 0.0f;
        if (kvc_token_ends_turn(model, (int32_t)t))
            writer->ending[t] = 1.0f;
    }
    return writer->ending && writer->logits;
}

static json_t *answer(struct writer *writer, const struct kvc_grammar *grammar, uint64_t seed, bool greedy) {
    struct kvc_sampler_options options;
    struct kvc_sampler *sampler;
    struct kvc_error error;
    char text[TOKENS_MOST * 8];
    size_t bytes = 0;
    json_t *result = json_null();
    kvc_sampler_defaults(&options);
    options.seed = seed;
    options.temperature = greedy ? 0 : 1;
    if (kvc_sampler_open(&options, writer->vocab, &sampler, &error) != KVC_OK ||
        kvc_sampler_grammar(sampler, writer->model, grammar, true, &error) != KVC_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(4);
    }
    for (uint32_t n = 0; n < TOKENS_MOST && bytes + 300 < sizeof text; n++) {
        for (uint32_t t = 0; t < writer->vocab; t++)
            writer->logits[t] = (float)(next(&seed) % 1000) / 200.0f + writer->ending[t] * (1.0f + (float)n / 60.0f);
        const int32_t token = kvc_sample(sampler, writer->logits);
        if (token < 0 && !kvc_sampler_whole(sampler)) {
            result = json_false();
            break;
        }
        if (token < 0 || kvc_token_ends_turn(writer->model, token)) {
            result = json_stringn(text, bytes);
            break;
        }
        size_t added;
        if (kvc_token_bytes(writer->model, token, bytes == 0, text + bytes, 300, &added, &error) != KVC_OK)
            exit(4);
        bytes += added;
    }
    kvc_sampler_close(sampler);
    return result;
}

static json_t *one(struct writer *writer, const json_t *line) {
    const json_t *schema = json_object_get(line, "schema"), *texts = json_object_get(line, "texts");
    struct kvc_grammar *grammar;
    struct kvc_error error;
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(line, "seed"));
    if (kvc_grammar_open(KVC_GRAMMAR_JSON_SCHEMA, json_string_value(schema), json_string_length(schema), &grammar,
                         &error) != KVC_OK)
        return json_pack("{s:s}", "error", error.text);
    char *matches = calloc(json_array_size(texts) + 1, 1);
    json_t *answers = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        enum kvc_grammar_match match = KVC_GRAMMAR_WRONG;
        if (!matches ||
            kvc_grammar_check(grammar, json_string_value(text), json_string_length(text), &match, &error) != KVC_OK)
            exit(4);
        matches[i] = "NBW"[match];
    }
    for (json_int_t i = 0; i < json_integer_value(json_object_get(line, "answers")); i++)
        json_array_append_new(answers, answer(writer, grammar, seed + (uint64_t)i * 1000003, i % 2 == 1));
    kvc_grammar_close(grammar);
    json_t *result = json_pack("{s:o, s:s}", "answers", answers, "matches", matches);
    free(matches);
    return result;
}

int main(int argc, char **argv) {
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_error error;
    struct writer writer;
    char *line = NULL;
    size_t capacity = 0;
    if (argc != 2 || kvc_engine_open(NULL, &engine, &error) != KVC_OK ||
        kvc_model_open_text(engine, argv[1], &model, &error) != KVC_OK || !writer_open(&writer, model)) {
        fprintf(stderr, "grammar_answers MODEL: cannot open the model\n");
        return 4;
    }
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *read = json_loads(line, 0, NULL), *result = read ? one(&writer, read) : NULL;
        if (!result || json_dumpf(result, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF)
            return 4;
        json_decref(result);
        json_decref(read);
    }
    free(line);
    free(writer.ending);
    free(writer.logits);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return 0;
}
