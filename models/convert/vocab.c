/* vocab.c - writes a tokenizer under the tokenizer.ggml.* keys of a GGUF file, which other programs read, too. */
#include "models/convert/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/parts.h"

#define KEY(name) "tokenizer.ggml." name

enum kind { OTHER, BYTE_LEVEL, SENTENCE_PIECES, SCORED_PIECES };

static enum kind kind_of(const struct kvc_tokenizer *t) {
    if (t->model != KVC_VOCAB_RANKS)
        return t->model == KVC_VOCAB_SCORES ? SCORED_PIECES : OTHER;
    if (t->decoder.byte_level && t->splitter_count && t->splitter[t->splitter_count - 1].kind == KVC_STEP_BYTES)
        return BYTE_LEVEL;
    return t->byte_fallback && t->decoder.replace[0] ? SENTENCE_PIECES : OTHER;
}

static int by_priority(const void *a, const void *b) {
    const struct kvc_merge *x = a, *y = b;
    return x->priority < y->priority ? -1 : x->priority > y->priority;
}

struct kvc_merge *kvc_sorted_merges(const struct kvc_tokenizer *t, size_t *count) {
    struct kvc_merge *list = malloc((t->merges_size + 1) * sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < t->merges_size; i++)
        if (t->merges[i].left >= 0)
            list[(*count)++] = t->merges[i];
    if (list)
        qsort(list, *count, sizeof *list, by_priority);
    return list;
}

static void put_tokens(const struct kvc_tokenizer *t, struct kvc_gguf_writer *writer) {
    kvc_gguf_put_strings(writer, KEY("tokens"), t->count);
    for (size_t i = 0; i < t->count; i++) {
        const struct kvc_vocab_entry *piece = &t->pieces[i];
        char name[32];
        if (piece->kind == KVC_TOKEN_ABSENT)
            kvc_gguf_add_string(writer, name, (size_t)snprintf(name, sizeof name, "[PAD%zu]", i));
        else
            kvc_gguf_add_string(writer, t->store.data + piece->spelling, piece->spelling_bytes);
    }
}

static bool put_types(const struct kvc_tokenizer *t, bool bytes, struct kvc_gguf_writer *writer) {
    int32_t *types = malloc((t->count + 1) * sizeof *types);
    if (!types)
        return false;
    for (size_t i = 0; i < t->count; i++)
        types[i] = t->pieces[i].kind == KVC_TOKEN_ABSENT ? KVC_TOKEN_UNUSED : t->pieces[i].kind;
    for (int i = 0; bytes && i < 256; i++)
        if (t->byte_ids[i] >= 0)
            types[t->byte_ids[i]] = KVC_TOKEN_BYTE;
    if (bytes && t->unknown >= 0)
        types[t->unknown] = KVC_TOKEN_UNKNOWN;
    kvc_gguf_put_int32s(writer, KEY("token_type"), types, t->count);
    free(types);
    return true;
}

static bool put_merges(const struct kvc_tokenizer *t, const struct kvc_merge *merges, size_t count,
                       struct kvc_gguf_writer *writer) {
    struct kvc_text text = {0};
    bool fits = true;
    kvc_gguf_put_strings(writer, KEY("merges"), count);
    for (size_t i = 0; i < count && fits; i++) {
        const struct kvc_vocab_entry *left = &t->pieces[merges[i].left], *right = &t->pieces[merges[i].right];
        text.bytes = 0;
        fits = kvc_text_add(&text, t->store.data + left->spelling, left->spelling_bytes) &&
               kvc_text_add(&text, " ", 1) &&
               kvc_text_add(&text, t->store.data + right->spelling, right->spelling_bytes);
        kvc_gguf_add_string(writer, text.data, text.bytes);
    }
    kvc_text_free(&text);
    return fits;
}

/* Derives scores from merge priorities: pieces made earlier get higher scores, and single characters get the lowest. */
static bool put_scores(const struct kvc_tokenizer *t, const struct kvc_merge *merges, size_t count,
                       struct kvc_gguf_writer *writer) {
    float *scores = malloc((t->count + 1) * sizeof *scores);
    if (!scores)
        return false;
    for (size_t i = 0; i < t->count; i++)
        scores[i] = t->pieces[i].kind == KVC_TOKEN_NORMAL ? -(float)count : 0;
    for (size_t i = count; i-- > 0;)
        scores[merges[i].made] = -(float)i;
    kvc_gguf_put_float32s(writer, KEY("scores"), scores, t->count);
    free(scores);
    return true;
}

/* Writes the scores of SentencePiece pieces and how spaces are treated. */
static bool put_pieces(const struct kvc_tokenizer *t, struct kvc_gguf_writer *writer) {
    float *scores = malloc((t->count + 1) * sizeof *scores);
    bool prefix = false;
    if (!scores)
        return false;
    for (size_t i = 0; i < t->count; i++)
        scores[i] = t->pieces[i].score;
    for (size_t i = 0; i < t->normalizer_count; i++)
        prefix |= t->normalizer[i].kind == KVC_NORMALIZE_PREPEND;
    kvc_gguf_put_float32s(writer, KEY("scores"), scores, t->count);
    kvc_gguf_put_bool(writer, KEY("add_space_prefix"), prefix);
    kvc_gguf_put_bool(writer, KEY("remove_extra_whitespaces"), t->decoder.strip == SIZE_MAX);
    free(scores);
    return true;
}

static void put_id(struct kvc_gguf_writer *writer, const char *key, int32_t id) {
    if (id >= 0)
        kvc_gguf_put_uint32(writer, key, (uint32_t)id);
}

/* Returns the token that begins a text. Some folders define it only by the prefix of a text. */
static int32_t beginning(const struct kvc_tokenizer *t) {
    return t->bos < 0 && t->prefix.count ? t->prefix.ids[0] : t->bos;
}

/* Several tokens may end a model's turn; the format has keys for a few of them. */
static void put_ids(const struct kvc_tokenizer *t, struct kvc_gguf_writer *writer) {
    static const char *const keys[] = {KEY("eot_token_id"), KEY("eom_token_id"), KEY("eog_token_id")};
    size_t used = 0;
    put_id(writer, KEY("bos_token_id"), beginning(t));
    put_id(writer, KEY("eos_token_id"), t->eos);
    put_id(writer, KEY("unknown_token_id"), t->unknown);
    for (size_t i = 0; i < t->count && used < sizeof keys / sizeof *keys; i++)
        if (t->pieces[i].ends_turn && (int32_t)i != t->eos)
            put_id(writer, keys[used++], (int32_t)i);
    kvc_gguf_put_bool(writer, KEY("add_bos_token"), t->prefix.count > 0 && t->prefix.ids[0] == beginning(t));
}

/* Returns true if the keys describe a byte-level tokenizer completely. They cannot express how added tokens treat the
 * spaces around them, merges of such tokens, an unknown token, or a prefix of several tokens. */
static bool says_everything(const struct kvc_tokenizer *t, const struct kvc_merge *merges, size_t count) {
    const struct kvc_decoder *decoder = &t->decoder;
    bool all = t->unknown < 0 && !t->byte_fallback && !t->added_normalized.count && !decoder->replace[0] &&
               !decoder->join && !decoder->strip && t->prefix.count <= 1 &&
               (!t->prefix.count || t->prefix.ids[0] == beginning(t));
    for (size_t i = 0; i < t->added.count && all; i++) {
        const struct kvc_added *token = &t->added.tokens[i];
        const struct kvc_vocab_entry *piece = &t->pieces[token->id];
        all = !token->single_word && !token->strip_left && !token->strip_right &&
              !(t->ignore_merges &&
                kvc_vocab_find(t, t->store.data + piece->spelling, piece->spelling_bytes) == token->id);
    }
    for (size_t i = 0; i < count && all; i++)
        all = t->pieces[merges[i].left].kind == KVC_TOKEN_NORMAL &&
              t->pieces[merges[i].right].kind == KVC_TOKEN_NORMAL && t->pieces[merges[i].made].kind == KVC_TOKEN_NORMAL;
    return all;
}

bool kvc_convert_vocab(const struct kvc_tokenizer *tokenizer, struct kvc_gguf_writer *writer, bool *whole) {
    const enum kind kind = kind_of(tokenizer);
    const char *const models[] = {"huggingface", "gpt2", "llama", "llama"}, *name = NULL;
    kvc_gguf_put_string(writer, KEY("model"), models[kind], strlen(models[kind]));
    put_ids(tokenizer, writer);
    *whole = false;
    if (kind == OTHER)
        return true;
    size_t count, bytes = 0; /* count of merges; length of name */
    struct kvc_merge *merges = kvc_sorted_merges(tokenizer, &count);
    bool fits = merges && put_types(tokenizer, kind == SENTENCE_PIECES, writer);
    put_tokens(tokenizer, writer);
    if (fits && kind == SCORED_PIECES) {
        fits = put_pieces(tokenizer, writer);
    } else if (fits && kind == SENTENCE_PIECES) {
        const struct kvc_split_step *first = tokenizer->splitter;
        fits = put_scores(tokenizer, merges, count, writer);
        kvc_gguf_put_bool(writer, KEY("add_space_prefix"),
                          (tokenizer->normalizer_count && tokenizer->normalizer->kind == KVC_NORMALIZE_PREPEND) ||
                              (tokenizer->splitter_count && first->prefix != KVC_PREFIX_NEVER));
    } else if (fits) {
        name = kvc_split_name(tokenizer, &bytes);
        fits = put_merges(tokenizer, merges, count, writer);
        *whole = name && says_everything(tokenizer, merges, count);
    }
    kvc_gguf_put_string(writer, KEY("pre"), name ? name : "default", name ? bytes : strlen("default"));
    free(merges);
    return fits;
}
