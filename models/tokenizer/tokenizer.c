/* tokenizer.c - encodes text as tokens and decodes tokens to text. Encoding finds added tokens first, then normalizes,
 * splits and merges the text between them. */
#include "models/tokenizer/parts.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void kvc_tokenizer_close(struct kvc_tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    for (size_t i = 0; i < tokenizer->normalizer_count; i++) {
        kvc_pattern_free(&tokenizer->normalizer[i].pattern);
        free(tokenizer->normalizer[i].text);
    }
    for (size_t i = 0; i < tokenizer->splitter_count; i++)
        kvc_pattern_free(&tokenizer->splitter[i].pattern);
    kvc_text_free(&tokenizer->store);
    free(tokenizer->normalizer);
    free(tokenizer->splitter);
    free(tokenizer->pieces);
    free(tokenizer->lookup);
    free(tokenizer->merges);
    free(tokenizer->prefix.ids);
    free(tokenizer->added.tokens);
    free(tokenizer->added_normalized.tokens);
    free(tokenizer->decoder.replace[0]);
    free(tokenizer->decoder.replace[1]);
    free(tokenizer->decoder.join);
    kvc_templates_clear(tokenizer);
    json_decref(tokenizer->special_names);
    free(tokenizer);
}

int32_t kvc_tokenizer_bos(const struct kvc_tokenizer *tokenizer) { return tokenizer->bos; }

int32_t kvc_tokenizer_eos(const struct kvc_tokenizer *tokenizer) { return tokenizer->eos; }
uint32_t kvc_tokenizer_count(const struct kvc_tokenizer *tokenizer) { return (uint32_t)tokenizer->count; }

/* Returns NULL if the vocabulary has no such token or the token has no text. */
static const struct kvc_vocab_entry *piece_of(const struct kvc_tokenizer *tokenizer, int32_t token) {
    if (token < 0 || (size_t)token >= tokenizer->count)
        return NULL;
    const struct kvc_vocab_entry *piece = &tokenizer->pieces[token];
    return piece->kind == KVC_TOKEN_ABSENT || piece->kind == KVC_TOKEN_UNUSED ? NULL : piece;
}

bool kvc_tokenizer_ends_turn(const struct kvc_tokenizer *tokenizer, int32_t token) {
    const struct kvc_vocab_entry *piece = piece_of(tokenizer, token);
    return piece && piece->ends_turn;
}

const char *kvc_tokenizer_control(const struct kvc_tokenizer *tokenizer, int32_t token, size_t *bytes) {
    const struct kvc_vocab_entry *piece = piece_of(tokenizer, token);
    const bool is_control = piece && piece->kind == KVC_TOKEN_CONTROL;
    *bytes = is_control ? piece->spelling_bytes : 0;
    return is_control ? tokenizer->store.data + piece->spelling : NULL;
}

bool kvc_tokenizer_has_template(const struct kvc_tokenizer *tokenizer) { return tokenizer->template_count > 0; }

/* ---- encoding ---- */

struct work {
    const struct kvc_tokenizer *tokenizer;
    struct kvc_error *error;
    bool special;
    bool marks_matter; /* marks are needed in normalized text, because control tokens are searched for there */
    struct kvc_text normalized, normalized_marks;
    struct kvc_words words;
    struct kvc_bpe *bpe;
    struct kvc_id_list out;
};

/* Encodes normalized text that contains no added tokens. */
static enum kvc_status encode_plain(struct work *work, const char *text, size_t bytes, bool first) {
    const struct kvc_tokenizer *tokenizer = work->tokenizer;
    if (!bytes)
        return KVC_OK;
    enum kvc_status status =
        kvc_split(tokenizer->splitter, tokenizer->splitter_count, text, bytes, first, &work->words, work->error);
    for (size_t i = 0; i < work->words.count && status == KVC_OK; i++)
        status = kvc_bpe_word(tokenizer, work->bpe, work->words.text.data + work->words.spans[i].at,
                              work->words.spans[i].bytes, &work->out, work->error);
    return status;
}

static enum kvc_status normalize(struct work *work, const char *text, const char *marks, size_t bytes) {
    const struct kvc_tokenizer *tokenizer = work->tokenizer;
    work->normalized.bytes = work->normalized_marks.bytes = 0;
    return marks && work->marks_matter
               ? kvc_normalize_marked(tokenizer->normalizer, tokenizer->normalizer_count, text, marks, bytes,
                                      &work->normalized, &work->normalized_marks, work->error)
               : kvc_normalize(tokenizer->normalizer, tokenizer->normalizer_count, text, bytes, &work->normalized,
                               work->error);
}

/* Encodes text that contains none of the added tokens that are found before normalization. */
static enum kvc_status encode_part(struct work *work, const char *text, const char *marks, size_t bytes, bool first) {
    const struct kvc_tokenizer *tokenizer = work->tokenizer;
    if (!bytes)
        return KVC_OK;
    enum kvc_status status = normalize(work, text, marks, bytes);
    const char *after = work->normalized_marks.bytes ? work->normalized_marks.data : NULL;
    size_t done = 0, start, end;
    const struct kvc_added *token;
    while (status == KVC_OK &&
           (token = kvc_added_find(tokenizer, &tokenizer->added_normalized, work->normalized.data, after,
                                   work->normalized.bytes, done, work->special, &start, &end)) != NULL) {
        status = encode_plain(work, work->normalized.data + done, start - done, first && done == 0);
        if (status == KVC_OK && !kvc_id_list_add(&work->out, token->id))
            status = kvc_no_memory(work->error);
        done = end;
    }
    if (status == KVC_OK)
        status = encode_plain(work, work->normalized.data + done, work->normalized.bytes - done, first && done == 0);
    return status;
}

static enum kvc_status encode(struct work *work, const char *text, const char *marks, size_t bytes, bool prefix) {
    const struct kvc_tokenizer *tokenizer = work->tokenizer;
    work->bpe = kvc_bpe_open();
    if (!work->bpe)
        return kvc_no_memory(work->error);
    for (size_t i = 0; marks && i < tokenizer->added_normalized.count && !work->marks_matter; i++)
        work->marks_matter = kvc_added_controls(tokenizer, &tokenizer->added_normalized.tokens[i]);
    for (size_t i = 0; prefix && i < tokenizer->prefix.count; i++)
        if (!kvc_id_list_add(&work->out, tokenizer->prefix.ids[i]))
            return kvc_no_memory(work->error);
    size_t done = 0, start, end;
    const struct kvc_added *token;
    while ((token = kvc_added_find(tokenizer, &tokenizer->added, text, marks, bytes, done, work->special, &start,
                                   &end)) != NULL) {
        enum kvc_status status = encode_part(work, text + done, marks ? marks + done : NULL, start - done, done == 0);
        if (status != KVC_OK)
            return status;
        if (!kvc_id_list_add(&work->out, token->id))
            return kvc_no_memory(work->error);
        done = end;
    }
    return encode_part(work, text + done, marks ? marks + done : NULL, bytes - done, done == 0);
}

enum kvc_status kvc_tokenizer_encode(const struct kvc_tokenizer *tokenizer, const char *text, const char *marks,
                                     size_t bytes, unsigned flags, int32_t **tokens, size_t *count,
                                     struct kvc_error *error) {
    struct work work = {.tokenizer = tokenizer, .error = error, .special = (flags & KVC_TOKENIZE_SPECIAL) != 0};
    enum kvc_status status =
        encode(&work, text ? text : "", text ? marks : NULL, text ? bytes : 0, (flags & KVC_TOKENIZE_BOS) != 0);
    kvc_text_free(&work.normalized);
    kvc_text_free(&work.normalized_marks);
    kvc_words_free(&work.words);
    kvc_bpe_close(work.bpe);
    if (status == KVC_OK && !work.out.ids) { /* return a pointer to free even if there are no tokens */
        work.out.ids = malloc(sizeof *work.out.ids);
        if (!work.out.ids)
            status = kvc_no_memory(error);
    }
    if (status != KVC_OK) {
        free(work.out.ids);
        return status;
    }
    *tokens = work.out.ids;
    *count = work.out.count;
    return KVC_OK;
}

/* ---- decoding ---- */

static bool is_control(const struct kvc_vocab_entry *piece) {
    return piece->kind == KVC_TOKEN_CONTROL || piece->kind == KVC_TOKEN_UNKNOWN;
}

/* Receives decoded bytes: stores those that fit in `capacity` and counts all. It allocates nothing, so decoding works
 * even when memory is short. */
struct decoded {
    char *text;
    size_t capacity, bytes;
    size_t strip; /* spaces still to be removed from the beginning */
};

static void tokenizer_put(struct decoded *out, const char *data, size_t bytes) {
    for (; bytes && out->strip && *data == ' '; data++, bytes--)
        out->strip--;
    if (bytes)
        out->strip = 0;
    if (out->bytes < out->capacity)
        memcpy(out->text + out->bytes, data, bytes < out->capacity - out->bytes ? bytes : out->capacity - out->bytes);
    out->bytes += bytes;
}

/* Decodes one token. */
static void decode_token(const struct kvc_tokenizer *tokenizer, const struct kvc_vocab_entry *piece, bool first,
                         struct decoded *out) {
    const struct kvc_decoder *decoder = &tokenizer->decoder;
    if (!first && decoder->join)
        tokenizer_put(out, decoder->join, strlen(decoder->join));
    if (!(first && decoder->first_plain)) {
        tokenizer_put(out, tokenizer->store.data + piece->text, piece->text_bytes);
        return;
    }
    const char *spelling = tokenizer->store.data + piece->spelling;
    size_t mark = strlen(decoder->replace[0]);
    for (size_t at = 0; at < piece->spelling_bytes;) {
        if (piece->spelling_bytes - at >= mark && !memcmp(spelling + at, decoder->replace[0], mark))
            at += mark;
        else
            tokenizer_put(out, spelling + at++, 1);
    }
}

static void tokenizer_decode(const struct kvc_tokenizer *tokenizer, const int32_t *tokens, size_t count, bool special,
                             struct decoded *out) {
    bool first = true;
    out->bytes = 0;
    out->strip = tokenizer->decoder.strip;
    for (size_t i = 0; i < count; i++) {
        const struct kvc_vocab_entry *piece = piece_of(tokenizer, tokens[i]);
        if (!piece || (!special && is_control(piece)))
            continue; /* embedding rows without text decode to nothing */
        decode_token(tokenizer, piece, first, out);
        first = false;
    }
}

enum kvc_status kvc_tokenizer_decode(const struct kvc_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                     bool special, char **text, size_t *bytes, struct kvc_error *error) {
    struct decoded out = {NULL, 0, 0, 0};
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= tokenizer->count)
            return kvc_fail(error, KVC_USAGE, "token %d at index %zu is outside the vocabulary of %zu", (int)tokens[i],
                            i, tokenizer->count);
    tokenizer_decode(tokenizer, tokens, count, special, &out);
    out.capacity = out.bytes;
    out.text = malloc(out.capacity + 1);
    if (!out.text)
        return kvc_no_memory(error);
    tokenizer_decode(tokenizer, tokens, count, special, &out);
    out.text[out.bytes] = '\0';
    *text = out.text;
    *bytes = out.bytes;
    return KVC_OK;
}

enum kvc_status kvc_tokenizer_token_bytes(const struct kvc_tokenizer *tokenizer, int32_t token, bool first, char *text,
                                          size_t capacity, size_t *bytes, struct kvc_error *error) {
    const struct kvc_vocab_entry *piece = piece_of(tokenizer, token);
    struct decoded out = {text, capacity, 0, first ? tokenizer->decoder.strip : 0};
    if (token < 0 || (size_t)token >= tokenizer->count)
        return kvc_fail(error, KVC_USAGE, "token %d is outside the vocabulary of %zu", (int)token, tokenizer->count);
    if (piece && !is_control(piece))
        decode_token(tokenizer, piece, first, &out);
    *bytes = out.bytes;
    return KVC_OK;
}
