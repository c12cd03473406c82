/* sentencepiece.c - reads a tokenizer from tokenizer.model, a protobuf message written by SentencePiece. It contains
 * the pieces, the training settings and the normalization. Only BPE models are supported. */
#include "models/tokenizer/sentencepiece.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/protobuf.h"

#define MARK "\xe2\x96\x81" /* represents a space */

/* Field numbers of the message and of its nested messages. */
enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { MODEL_TYPE = 3, SUFFIX = 24, BYTE_FALLBACK = 35, UNKNOWN_PIECE = 45, BOS_PIECE = 46, EOS_PIECE = 47 };
enum { NORMALIZER_NAME = 1, CHARSMAP = 2, DUMMY_PREFIX = 3, REMOVE_SPACES = 4, ESCAPE_SPACES = 5 };
enum { UNIGRAM = 1, BPE = 2, WORD = 3, CHARACTERS = 4 };

struct text {
    const char *data;
    size_t bytes;
};

struct source {
    const char *path;
    struct kvc_error *error;
    struct kvc_wire_message pieces; /* the whole message */
    size_t count;                   /* number of pieces */
    uint64_t model_type;
    bool suffix, byte_fallback;
    struct text bos, eos; /* spellings */
    struct text normalizer;
    size_t charsmap, denormalizer; /* sizes in bytes */
    bool prefix, remove_spaces, escape;
};

static enum kvc_status damaged(const struct source *source) {
    return kvc_fail(source->error, KVC_INPUT, "%s: is not a SentencePiece model; it is cut short or damaged",
                    source->path);
}

static struct text text_of(const struct kvc_wire_field *field) {
    return (struct text){(const char *)field->data, field->bytes};
}

static struct kvc_wire_message within(const struct kvc_wire_field *field) {
    return (struct kvc_wire_message){field->data, field->bytes, 0, field->wire != KVC_WIRE_BYTES};
}

static bool read_trainer(struct source *source, const struct kvc_wire_field *from) {
    struct kvc_wire_message message = within(from);
    struct kvc_wire_field field;
    while (kvc_wire_next(&message, &field)) {
        const bool number = field.wire == KVC_WIRE_VARINT, text = field.wire == KVC_WIRE_BYTES;
        if (field.number == MODEL_TYPE && number)
            source->model_type = field.value;
        else if (field.number == SUFFIX && number)
            source->suffix = field.value != 0;
        else if (field.number == BYTE_FALLBACK && number)
            source->byte_fallback = field.value != 0;
        else if (field.number == BOS_PIECE && text)
            source->bos = text_of(&field);
        else if (field.number == EOS_PIECE && text)
            source->eos = text_of(&field);
    }
    return !message.broken;
}

static bool read_normalizer(struct source *source, const struct kvc_wire_field *from, bool back) {
    struct kvc_wire_message message = within(from);
    struct kvc_wire_field field;
    while (kvc_wire_next(&message, &field)) {
        const bool number = field.wire == KVC_WIRE_VARINT, text = field.wire == KVC_WIRE_BYTES;
        if (back) {
            source->denormalizer += field.number == CHARSMAP && text ? field.bytes : 0;
            continue;
        }
        if (field.number == NORMALIZER_NAME && text)
            source->normalizer = text_of(&field);
        else if (field.number == CHARSMAP && text)
            source->charsmap = field.bytes;
        else if (field.number == DUMMY_PREFIX && number)
            source->prefix = field.value != 0;
        else if (field.number == REMOVE_SPACES && number)
            source->remove_spaces = field.value != 0;
        else if (field.number == ESCAPE_SPACES && number)
            source->escape = field.value != 0;
    }
    return !message.broken;
}

/* Reads everything except the pieces, which are only counted. */
static bool read_specs(struct source *source) {
    struct kvc_wire_message message = source->pieces;
    struct kvc_wire_field field;
    bool fine = true;
    while (fine && kvc_wire_next(&message, &field)) {
        if (field.number == PIECES)
            source->count++;
        else if (field.number == TRAINER)
            fine = read_trainer(source, &field);
        else if (field.number == NORMALIZER || field.number == DENORMALIZER)
            fine = read_normalizer(source, &field, field.number == DENORMALIZER);
    }
    return fine && !message.broken;
}

static enum kvc_status check_specs(const struct source *source) {
    static const char *const types[] = {"none", "unigram", "bpe", "word", "char"};
    const char *path = source->path;
    if (source->model_type != BPE)
        return kvc_fail(source->error, KVC_INPUT, "%s: a SentencePiece model of type %s is not supported; bpe is", path,
                        source->model_type <= CHARACTERS ? types[source->model_type] : "unknown");
    if (source->charsmap || source->denormalizer) {
        char name[41] = "";
        memcpy(name, source->normalizer.data ? source->normalizer.data : "",
               source->normalizer.bytes < 40 ? source->normalizer.bytes : 40);
        for (char *c = name; *c; c++)
            *c = *c < ' ' || *c == 127 ? '?' : *c;
        return kvc_fail(source->error, KVC_INPUT,
                        "%s: normalizer \"%s\" (a character map of %zu bytes) is not supported; identity is", path,
                        name, source->charsmap ? source->charsmap : source->denormalizer);
    }
    if (source->suffix || !source->escape)
        return kvc_fail(source->error, KVC_INPUT, "%s: %s is not supported", path,
                        source->suffix ? "treat_whitespace_as_suffix" : "a normalizer without escape_whitespaces");
    return KVC_OK;
}

/* ---- pieces ---- */

static bool read_piece(const struct kvc_wire_field *from, struct text *text, float *score, uint64_t *type) {
    struct kvc_wire_message message = within(from);
    struct kvc_wire_field field;
    *text = (struct text){"", 0};
    *score = 0;
    *type = KVC_TOKEN_NORMAL;
    while (kvc_wire_next(&message, &field)) {
        if (field.number == PIECE_TEXT && field.wire == KVC_WIRE_BYTES) {
            *text = text_of(&field);
        } else if (field.number == PIECE_SCORE && field.wire == KVC_WIRE_32) {
            const uint32_t bits = (uint32_t)field.value;
            memcpy(score, &bits, sizeof *score);
        } else if (field.number == PIECE_TYPE && field.wire == KVC_WIRE_VARINT) {
            *type = field.value;
        }
    }
    return !message.broken;
}

static enum kvc_status bad_piece(const struct source *source, size_t i, const char *what) {
    return kvc_fail(source->error, KVC_INPUT, "%s: piece %zu %s", source->path, i, what);
}

static enum kvc_status add_piece(const struct source *source, struct kvc_tokenizer *tokenizer, size_t i,
                                 const struct kvc_wire_field *field) {
    struct text text;
    float score;
    uint64_t type;
    if (!read_piece(field, &text, &score, &type))
        return damaged(source);
    if (!text.bytes || text.bytes > 1 << 20 || memchr(text.data, 0, text.bytes))
        return bad_piece(source, i, "is empty, longer than 1 MB or holds a NUL");
    if (type == KVC_TOKEN_UNUSED || type < KVC_TOKEN_NORMAL || type > KVC_TOKEN_BYTE)
        return bad_piece(source, i, "is of a type other than normal, unknown, control, user-defined and byte");
    if (isnan(score))
        return bad_piece(source, i, "has a score that is not a number");
    if (type == KVC_TOKEN_BYTE && (!source->byte_fallback || kvc_byte_piece(text.data, text.bytes) < 0))
        return bad_piece(source, i, "is a byte, but not spelled <0x00> to <0xFF> or there is no byte_fallback");
    if (type == KVC_TOKEN_UNKNOWN && tokenizer->unknown >= 0)
        return bad_piece(source, i, "is a second unknown piece; there must be one");
    const int32_t id = (int32_t)i;
    KVC_ASSERT(i < tokenizer->count);
    if (!kvc_vocab_set(tokenizer, id, text.data, text.bytes, (enum kvc_token_kind)type))
        return kvc_no_memory(source->error);
    tokenizer->pieces[i].score = score;
    if (type == KVC_TOKEN_UNKNOWN)
        tokenizer->unknown = id;
    if (type == KVC_TOKEN_NORMAL || type == KVC_TOKEN_USER) {
        if (kvc_vocab_find(tokenizer, text.data, text.bytes) >= 0)
            return bad_piece(source, i, "comes twice");
        kvc_vocab_insert(tokenizer, id);
    }
    /* User-defined pieces are spelled as normalized text and are searched for in normalized text. kvc_added_insert does
     * not normalize them again, because the normalizer does not exist yet. SentencePiece never finds control pieces in
     * a text; kvcull does on request. */
    const struct kvc_added token = {.id = id, .special = type != KVC_TOKEN_USER, .normalized = type == KVC_TOKEN_USER};
    if (type != KVC_TOKEN_NORMAL && type != KVC_TOKEN_BYTE)
        return kvc_added_insert(tokenizer, &token, text.data, text.bytes, source->error);
    return KVC_OK;
}

static enum kvc_status add_pieces(const struct source *source, struct kvc_tokenizer *tokenizer) {
    struct kvc_wire_message message = source->pieces;
    struct kvc_wire_field field;
    enum kvc_status status = KVC_OK;
    if (!kvc_vocab_reserve(tokenizer, source->count))
        return kvc_no_memory(source->error);
    for (size_t i = 0; status == KVC_OK && kvc_wire_next(&message, &field);)
        if (field.number == PIECES)
            status = add_piece(source, tokenizer, i++, &field);
    if (status == KVC_OK && tokenizer->unknown < 0)
        status = kvc_fail(source->error, KVC_INPUT, "%s: has no unknown piece", source->path);
    return status;
}

/* ---- normalizer and decoder ---- */

static char *sentencepiece_copy(const char *text) {
    const size_t bytes = strlen(text);
    char *made = malloc(bytes + 1);
    if (made)
        memcpy(made, text, bytes + 1);
    return made;
}

/* Adds a step to the normalizer. The step's pattern is `expression`, or a space if `expression` is NULL. */
static enum kvc_status add_step(const struct source *source, struct kvc_tokenizer *tokenizer,
                                enum kvc_normalize_kind kind, const char *expression, const char *text) {
    struct kvc_normalize_step *step = &tokenizer->normalizer[tokenizer->normalizer_count++];
    KVC_ASSERT(tokenizer->normalizer_count <= 5 && !step->text);
    step->kind = kind;
    step->text = sentencepiece_copy(text);
    step->text_bytes = strlen(text);
    if (!step->text)
        return kvc_no_memory(source->error);
    if (kind == KVC_NORMALIZE_PREPEND)
        return KVC_OK;
    return expression ? kvc_pattern_compile(expression, strlen(expression), source->path, &step->pattern, source->error)
                      : kvc_pattern_literal(" ", 1, &step->pattern, source->error);
}

enum kvc_status kvc_sentencepiece_steps(struct kvc_tokenizer *tokenizer, bool prefix, bool remove_spaces,
                                        const char *path, struct kvc_error *error) {
    const struct source source = {.path = path, .error = error};
    enum kvc_status status = KVC_OK;
    tokenizer->normalizer = calloc(5, sizeof *tokenizer->normalizer);
    tokenizer->decoder.replace[0] = sentencepiece_copy(MARK);
    tokenizer->decoder.replace[1] = sentencepiece_copy(" ");
    if (!tokenizer->normalizer || !tokenizer->decoder.replace[0] || !tokenizer->decoder.replace[1])
        return kvc_no_memory(error);
    if (remove_spaces)
        status = add_step(&source, tokenizer, KVC_NORMALIZE_REPLACE, "\\A +| +\\z", "");
    if (remove_spaces && status == KVC_OK)
        status = add_step(&source, tokenizer, KVC_NORMALIZE_REPLACE, " {2,}", " ");
    if (prefix && status == KVC_OK)
        status = add_step(&source, tokenizer, KVC_NORMALIZE_PREPEND, NULL, MARK);
    if (status == KVC_OK)
        status = add_step(&source, tokenizer, KVC_NORMALIZE_REPLACE, NULL, MARK);
    if (remove_spaces && status == KVC_OK) /* removes marks at the end, and the prefix of an empty text */
        status = add_step(&source, tokenizer, KVC_NORMALIZE_REPLACE, "(?:" MARK ")+\\z", "");
    tokenizer->decoder.strip = remove_spaces ? SIZE_MAX : prefix ? 1 : 0;
    return status;
}

/* Finds a control piece by its spelling. Returns -1 if there is none. */
static int32_t find_control(const struct kvc_tokenizer *tokenizer, struct text text) {
    const int32_t id = kvc_vocab_search(tokenizer, text.data, text.bytes);
    return id >= 0 && tokenizer->pieces[id].kind == KVC_TOKEN_CONTROL ? id : -1;
}

static enum kvc_status sentencepiece_fill(const struct source *source, struct kvc_tokenizer *tokenizer) {
    tokenizer->model = KVC_VOCAB_SCORES;
    tokenizer->byte_fallback = tokenizer->decoder.byte_fallback = source->byte_fallback;
    tokenizer->fuse_unknown = true;
    enum kvc_status status = add_pieces(source, tokenizer);
    if (status == KVC_OK)
        status = kvc_sentencepiece_steps(tokenizer, source->prefix, source->remove_spaces, source->path, source->error);
    if (status != KVC_OK)
        return status;
    tokenizer->bos = find_control(tokenizer, source->bos);
    tokenizer->eos = find_control(tokenizer, source->eos);
    if (tokenizer->bos >= 0 && !kvc_id_list_add(&tokenizer->prefix, tokenizer->bos))
        return kvc_no_memory(source->error);
    return KVC_OK;
}

enum kvc_status kvc_tokenizer_from_sentencepiece(const void *data, size_t bytes, const char *path, uint64_t vocab,
                                                 uint64_t least, struct kvc_tokenizer **tokenizer,
                                                 struct kvc_error *error) {
    struct source source = {.path = path,
                            .error = error,
                            .pieces = {data, bytes, 0, false},
                            .model_type = UNIGRAM, /* the format's defaults */
                            .bos = {"<s>", 3},
                            .eos = {"</s>", 4},
                            .prefix = true,
                            .remove_spaces = true,
                            .escape = true};
    *tokenizer = NULL;
    if (!read_specs(&source) || !source.count)
        return damaged(&source);
    enum kvc_status status = check_specs(&source);
    if (status != KVC_OK)
        return status;
    const uint64_t most = source.count > least ? source.count : least;
    if (most > vocab || most > KVC_MOST_TOKENS)
        return kvc_fail(error, KVC_INPUT,
                        "%s: %" PRIu64 " tokens; the embedding has %" PRIu64 " rows and at most %" PRIu64 " are taken",
                        path, most, vocab, KVC_MOST_TOKENS);
    status = kvc_vocab_open((size_t)(vocab <= KVC_MOST_TOKENS ? vocab : most), tokenizer, error);
    if (status == KVC_OK)
        status = sentencepiece_fill(&source, *tokenizer);
    if (status != KVC_OK) {
        kvc_tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
