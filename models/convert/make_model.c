/* make_model.c - kvc_make_model: writes a GGUF file with random weights, a real geometry and a byte-level
 * vocabulary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float.h"
#include "core/base/canon.h"
#include "core/engine/engine.h"
#include "models/config/plan.h"
#include "models/convert/convert.h"
#include "models/convert/random_row.h"
#include "models/config/shapes.h"

enum { CHUNK = 1 << 22 }; /* bytes per write */

/* ---- vocabulary: the 256 bytes, words of synthetic syllables, the special tokens ---- */

enum token_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };

struct vocabulary {
    struct kvc_gguf_writer *writer;
    int32_t *types;
    float *scores;
    uint32_t count;
};

static void add_token(struct vocabulary *vocabulary, const char *text, enum token_type type) {
    vocabulary->types[vocabulary->count] = (int32_t)type;
    vocabulary->scores[vocabulary->count] = type == NORMAL ? -(float)vocabulary->count : 0.0f;
    vocabulary->count++;
    kvc_gguf_add_string(vocabulary->writer, text, strlen(text));
}

/* Byte-level BPE writes bytes as characters: printable bytes as themselves, the others from U+0100 on. */
static void byte_character(unsigned byte, char *text) {
    unsigned code = byte, others = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        if (!printable) {
            others++;
        }
        code = printable ? b : 255 + others;
    }
    if (code < 128) {
        text[0] = (char)code;
        text[1] = '\0';
    } else {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 63));
        text[2] = '\0';
    }
}

/* Writes a number as syllables after the vocabulary's space character. Different numbers give different words. */
static void make_word(const char *space, uint32_t number, char *text, size_t capacity) {
    static const char consonants[] = "bdfghjklmnprstvwxzcq", vowels[] = "aeiou";
    size_t used = (size_t)snprintf(text, capacity, "%s", space);
    do {
        text[used++] = consonants[number % 100 / 5];
        text[used++] = vowels[number % 5];
        number /= 100;
    } while (number > 0 && used + 3 < capacity);
    text[used] = '\0';
}

static void add_words(struct vocabulary *vocabulary, const char *space, uint32_t end) {
    char text[24];
    for (uint32_t i = 0; vocabulary->count < end; i++) {
        make_word(space, i, text, sizeof text);
        add_token(vocabulary, text, NORMAL);
    }
}

static void put_tokens(struct vocabulary *vocabulary, uint32_t vocab, bool byte_level) {
    char text[16];
    kvc_gguf_put_strings(vocabulary->writer, "tokenizer.ggml.tokens", vocab);
    if (!byte_level) {
        add_token(vocabulary, "<unk>", UNKNOWN);
        add_token(vocabulary, "<s>", CONTROL);
        add_token(vocabulary, "</s>", CONTROL);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte_level) {
            byte_character(byte, text);
        } else {
            snprintf(text, sizeof text, "<0x%02X>", byte);
        }
        add_token(vocabulary, text, byte_level ? NORMAL : BYTE);
    }
    if (!byte_level) {
        add_token(vocabulary, "\u2581", NORMAL); /* the space alone */
    }
    add_words(vocabulary, byte_level ? "\u0120" : "\u2581", byte_level ? vocab - 2 : vocab);
    if (byte_level) {
        add_token(vocabulary, "<|begin_of_text|>", CONTROL);
        add_token(vocabulary, "<|end_of_text|>", CONTROL);
    }
}

static enum kvc_status put_vocabulary(const struct kvc_shape *shape, struct kvc_gguf_writer *writer,
                                      struct kvc_error *error) {
    const bool byte_level = shape->pre != NULL;
    const char *model = byte_level ? "gpt2" : "llama", *pre = byte_level ? shape->pre : "default";
    struct vocabulary vocabulary = {writer, malloc(shape->vocab * sizeof(int32_t)),
                                    malloc(shape->vocab * sizeof(float)), 0};
    if (!vocabulary.types || !vocabulary.scores) {
        free(vocabulary.types);
        free(vocabulary.scores);
        return kvc_fail(error, KVC_RESOURCE, "no memory for a vocabulary of %u tokens", (unsigned)shape->vocab);
    }
    kvc_gguf_put_string(writer, "tokenizer.ggml.model", model, strlen(model));
    kvc_gguf_put_string(writer, "tokenizer.ggml.pre", pre, strlen(pre));
    put_tokens(&vocabulary, shape->vocab, byte_level);
    kvc_gguf_put_int32s(writer, "tokenizer.ggml.token_type", vocabulary.types, shape->vocab);
    if (byte_level) {
        kvc_gguf_put_strings(writer, "tokenizer.ggml.merges", 0);
    } else {
        kvc_gguf_put_float32s(writer, "tokenizer.ggml.scores", vocabulary.scores, shape->vocab);
        kvc_gguf_put_uint32(writer, "tokenizer.ggml.unknown_token_id", 0);
    }
    kvc_gguf_put_uint32(writer, "tokenizer.ggml.bos_token_id", byte_level ? shape->vocab - 2 : 1);
    kvc_gguf_put_uint32(writer, "tokenizer.ggml.eos_token_id", byte_level ? shape->vocab - 1 : 2);
    kvc_gguf_put_bool(writer, "tokenizer.ggml.add_bos_token", true);
    free(vocabulary.types);
    free(vocabulary.scores);
    return KVC_OK;
}

/* ---- weights ---- */

static void norm_row(struct kvc_random *random, uint64_t count, float *values) {
    kvc_random_row(random, KVC_F32, 0.1f, count, values);
    for (uint64_t i = 0; i < count; i++) {
        values[i] += 1.0f;
    }
}

/* Matrices have variance 1/inputs, so that normalized inputs give outputs and logits with a variance near 1. */
static enum kvc_status write_matrix(const struct kvc_planned_tensor *tensor, struct kvc_random *random,
                                    struct kvc_gguf_writer *writer, size_t index, unsigned char *chunk,
                                    struct kvc_error *error) {
    const bool stack = tensor->kind == KVC_PLAN_EXPERTS;
    const uint64_t rows = tensor->shape[0] * (stack ? tensor->shape[1] : 1), cols = tensor->shape[stack ? 2 : 1];
    const size_t row_bytes = kvc_type_row_bytes(tensor->type, cols);
    const uint64_t at_once = row_bytes < CHUNK ? CHUNK / row_bytes : 1;
    const float reach = kvc_sqrt(3.0f / (float)cols);
    enum kvc_status status = KVC_OK;
    for (uint64_t first = 0; !status && first < rows; first += at_once) {
        const uint64_t count = rows - first < at_once ? rows - first : at_once;
        for (uint64_t i = 0; i < count; i++) {
            kvc_random_row(random, tensor->type, reach, cols, chunk + i * row_bytes);
        }
        status = kvc_gguf_write(writer, index, chunk, (size_t)count * row_bytes, error);
    }
    return status;
}

static enum kvc_status write_tensor(const struct kvc_planned_tensor *tensor, uint64_t seed,
                                    struct kvc_gguf_writer *writer, size_t index, unsigned char *chunk,
                                    struct kvc_error *error) {
    struct kvc_random random = kvc_random_start(seed, index);
    float *values = (float *)(void *)chunk;
    const uint64_t count = tensor->shape[0] * (tensor->dimensions == 2 ? tensor->shape[1] : 1);
    const size_t bytes = (size_t)count * sizeof *values;
    switch (tensor->kind) {
    case KVC_PLAN_MATRIX:
    case KVC_PLAN_EXPERTS:
        return write_matrix(tensor, &random, writer, index, chunk, error);
    case KVC_PLAN_FACTORS:
        return kvc_gguf_write(writer, index, tensor->factors, bytes, error);
    case KVC_PLAN_NORM:
        norm_row(&random, tensor->shape[0], values);
        break;
    case KVC_PLAN_BIAS:
        kvc_random_row(&random, KVC_F32, 0.1f, count, values);
        break;
    }
    return kvc_gguf_write(writer, index, values, bytes, error);
}

static enum kvc_status write_model(const struct kvc_shape *shape, const struct kvc_config *config,
                                   const struct kvc_plan *plan, enum kvc_type type, uint64_t seed, const char *to,
                                   struct kvc_gguf_writer *writer, struct kvc_error *error) {
    char name[100];
    snprintf(name, sizeof name, "random %s", shape->name);
    enum kvc_status status = kvc_plan_metadata(config, plan, type, name, writer, error);
    if (!status) {
        status = put_vocabulary(shape, writer, error);
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct kvc_planned_tensor *tensor = &plan->tensors[i];
        kvc_gguf_add_tensor(writer, tensor->name, tensor->type, tensor->dimensions, tensor->shape);
    }
    if (!status) {
        status = kvc_gguf_writer_begin(writer, to, error);
    }
    unsigned char *chunk = malloc(CHUNK); /* enough for the longest row, norm or bias of any shape */
    if (!status && !chunk) {
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", to);
    }
    for (size_t i = 0; !status && i < plan->count; i++) {
        status = write_tensor(&plan->tensors[i], seed, writer, i, chunk, error);
    }
    free(chunk);
    return status;
}

static enum kvc_status no_such_shape(const char *name, struct kvc_error *error) {
    struct kvc_nearest nearest = kvc_nearest(name, strlen(name));
    char known[400] = "", hint[KVC_NEAREST_HINT];
    const char *next, *summary;
    for (size_t i = 0; kvc_shape(i, &next, &summary); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", next);
        kvc_nearest_try(&nearest, next, strlen(next));
    }
    return kvc_fail(error, KVC_USAGE, "there is no shape %.60s; known are %s%s", name, known,
                    kvc_nearest_hint(&nearest, hint));
}

enum kvc_status kvc_make_model(const char *name, enum kvc_type type, uint64_t seed, const char *to,
                               struct kvc_error *error) {
    const struct kvc_shape *shape = kvc_shape_find(name);
    struct kvc_config config;
    struct kvc_plan plan;
    if ((unsigned)type >= KVC_TYPES) {
        return kvc_fail(error, KVC_USAGE, "%s: type %u: must be a value of enum kvc_type", to, (unsigned)type);
    }
    if (!shape) {
        return no_such_shape(name, error);
    }
    enum kvc_status status = kvc_gguf_check_output(to, error);
    status = status ? status : kvc_shape_config(shape, &config, error);
    if (status) {
        return status;
    }
    status = kvc_plan_build(&config, type, &plan, error);
    if (!status) {
        const uint64_t environment = kvc_float_open();
        struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
        status = writer ? write_model(shape, &config, &plan, type, seed, to, writer, error)
                        : kvc_fail(error, KVC_RESOURCE, "%s: no memory", to);
        kvc_float_close(environment);
        if (status) {
            kvc_gguf_writer_abandon(writer);
        } else {
            status = kvc_gguf_writer_commit(writer, error);
        }
        if (!status) {
            kvc_plan_note(&plan.replaced, type, error);
        }
        kvc_plan_free(&plan);
    }
    kvc_config_free(&config);
    return status;
}
