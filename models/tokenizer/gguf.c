/* gguf.c - reads a tokenizer from the tokenizer.ggml.* keys of a GGUF file. */
#include "models/tokenizer/sentencepiece.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define KVC_SPLIT_LIST 300 /* bytes for the list of names in a message */

struct source {
    const struct kvc_gguf *file;
    const char *path;
    uint64_t count; /* number of tokens in the file */
    bool types, scores;
    struct kvc_error *error;
};

static bool text_is(const char *text, size_t bytes, const char *wanted) {
    return bytes == strlen(wanted) && !memcmp(text, wanted, bytes);
}

static enum kvc_status check_arrays(struct source *source, uint64_t vocab) {
    enum kvc_gguf_type type;
    uint64_t count;
    const char *path = source->path;
    if (!kvc_gguf_array(source->file, KEY("tokens"), &type, &source->count) || type != KVC_GGUF_STRING)
        return kvc_fail(source->error, KVC_INPUT, "%s: " KEY("tokens") " is missing or not a list of strings", path);
    if (source->count > vocab || source->count > KVC_MOST_TOKENS)
        return kvc_fail(
            source->error, KVC_INPUT, "%s: %llu tokens; the embedding has %llu rows and at most %llu are taken", path,
            (unsigned long long)source->count, (unsigned long long)vocab, (unsigned long long)KVC_MOST_TOKENS);
    source->types = kvc_gguf_array(source->file, KEY("token_type"), &type, &count);
    if (source->types && count != source->count)
        return kvc_fail(source->error, KVC_INPUT, "%s: %llu token types for %llu tokens; there must be as many", path,
                        (unsigned long long)count, (unsigned long long)source->count);
    source->scores = kvc_gguf_array(source->file, KEY("scores"), &type, &count);
    if (source->scores && count != source->count)
        return kvc_fail(source->error, KVC_INPUT, "%s: %llu scores for %llu tokens; there must be as many", path,
                        (unsigned long long)count, (unsigned long long)source->count);
    return KVC_OK;
}

static enum kvc_status read_pieces(struct source *source, struct kvc_tokenizer *tokenizer) {
    struct kvc_error *error = source->error;
    if (!kvc_vocab_reserve(tokenizer, (size_t)source->count))
        return kvc_no_memory(error);
    for (uint64_t i = 0; i < source->count; i++) {
        const char *text;
        size_t bytes;
        int64_t kind = KVC_TOKEN_NORMAL;
        double score = 0;
        if (!kvc_gguf_array_string(source->file, KEY("tokens"), i, &text, &bytes) || bytes > 1 << 20)
            return kvc_fail(error, KVC_INPUT, "%s: token %llu is not a string of at most 1 MB", source->path,
                            (unsigned long long)i);
        if (source->types && (!kvc_gguf_array_int(source->file, KEY("token_type"), i, &kind) ||
                              kind < KVC_TOKEN_NORMAL || kind > KVC_TOKEN_BYTE))
            return kvc_fail(error, KVC_INPUT, "%s: the type of token %llu is not one of 1 to 6", source->path,
                            (unsigned long long)i);
        if (source->scores && (!kvc_gguf_array_real(source->file, KEY("scores"), i, &score) || isnan(score)))
            return kvc_fail(error, KVC_INPUT, "%s: the score of token %llu is not a number", source->path,
                            (unsigned long long)i);
        if (kind == KVC_TOKEN_BYTE && kvc_byte_piece(text, bytes) < 0)
            return kvc_fail(error, KVC_INPUT, "%s: byte token %llu is spelled \"%.*s\"; it must be <0x00> to <0xFF>",
                            source->path, (unsigned long long)i, bytes > 20 ? 20 : (int)bytes, text);
        if (!kvc_vocab_set(tokenizer, (int32_t)i, text, bytes, (enum kvc_token_kind)kind))
            return kvc_no_memory(error);
        tokenizer->pieces[i].score = (float)score;
        if (kind == KVC_TOKEN_NORMAL)
            kvc_vocab_insert(tokenizer, (int32_t)i);
    }
    return KVC_OK;
}

static enum kvc_status read_merges(struct source *source, struct kvc_tokenizer *tokenizer) {
    enum kvc_gguf_type type;
    uint64_t count;
    if (!kvc_gguf_array(source->file, KEY("merges"), &type, &count) || type != KVC_GGUF_STRING || count > UINT32_MAX)
        return kvc_fail(source->error, KVC_INPUT, "%s: " KEY("merges") " is missing or not a list of strings",
                        source->path);
    if (!kvc_merges_reserve(tokenizer, (size_t)count))
        return kvc_no_memory(source->error);
    for (uint64_t i = 0; i < count; i++) {
        const char *text, *space = NULL;
        size_t bytes;
        if (kvc_gguf_array_string(source->file, KEY("merges"), i, &text, &bytes) && bytes > 1)
            space = memchr(text + 1, ' ', bytes - 1);
        if (!space)
            return kvc_fail(source->error, KVC_INPUT, "%s: merge %llu is not two pieces with a space between",
                            source->path, (unsigned long long)i);
        size_t left = (size_t)(space - text);
        enum kvc_status status = kvc_merges_insert(tokenizer, text, left, space + 1, bytes - left - 1, (uint32_t)i,
                                                   source->path, source->error);
        if (status != KVC_OK)
            return status;
    }
    return KVC_OK;
}

/* Allocates zeroed arrays for the steps. */
static bool make_steps(struct kvc_tokenizer *tokenizer, size_t normalize, size_t split) {
    tokenizer->normalizer = calloc(normalize + 1, sizeof *tokenizer->normalizer);
    tokenizer->splitter = calloc(split + 1, sizeof *tokenizer->splitter);
    return tokenizer->normalizer && tokenizer->splitter;
}

/* Guesses the pre-tokenizer of a file that predates tokenizer.ggml.pre. Uses other contents of the file. */
static const char *guess_split(const struct source *source, const struct kvc_tokenizer *tokenizer) {
    const char *architecture;
    size_t bytes;
    if (kvc_gguf_string(source->file, "general.architecture", &architecture, &bytes) && bytes >= 4 &&
        !memcmp(architecture, "qwen", 4))
        return "qwen2";
    return kvc_vocab_search(tokenizer, "<|begin_of_text|>", 17) >= 0 ? "llama-bpe" : "gpt-2";
}

/* Fails with a message that lists one name of each pre-tokenizer. */
static enum kvc_status unknown_split(const struct source *source, const char *pre, size_t bytes) {
    char known[KVC_SPLIT_LIST] = "";
    size_t used = 0;
    const struct kvc_named_split *split;
    for (size_t i = 0; (split = kvc_named_split_at(i)) != NULL; i++) {
        const int length = (int)strcspn(split->names, " ");
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%.*s", i ? ", " : "", length, split->names);
        if (used >= sizeof known)
            break;
    }
    return kvc_fail(source->error, KVC_INPUT,
                    "%s: " KEY("pre") " \"%.*s\" is not supported; %s and names of the same splittings are",
                    source->path, bytes > 40 ? 40 : (int)bytes, pre, known);
}

static enum kvc_status set_byte_level(struct source *source, struct kvc_tokenizer *tokenizer, bool *bos) {
    const char *pre;
    size_t bytes;
    enum kvc_status status = read_merges(source, tokenizer);
    if (status != KVC_OK)
        return status;
    if (!kvc_gguf_string(source->file, KEY("pre"), &pre, &bytes) || text_is(pre, bytes, "default")) {
        pre = guess_split(source, tokenizer);
        bytes = strlen(pre);
    }
    const struct kvc_named_split *split = kvc_named_split(pre, bytes);
    if (!split)
        return unknown_split(source, pre, bytes);
    if (!make_steps(tokenizer, 1, KVC_SPLIT_PATTERNS + 1))
        return kvc_no_memory(source->error);
    if (split->compose)
        tokenizer->normalizer[tokenizer->normalizer_count++].kind = KVC_NORMALIZE_NFC;
    for (int i = 0; i < KVC_SPLIT_PATTERNS && split->patterns[i] && status == KVC_OK; i++) {
        struct kvc_split_step *step = &tokenizer->splitter[tokenizer->splitter_count++];
        step->kind = KVC_STEP_SPLIT;
        step->behavior = KVC_SPLIT_ISOLATED;
        status = kvc_pattern_compile(split->patterns[i], strlen(split->patterns[i]), source->path, &step->pattern,
                                     source->error);
    }
    tokenizer->splitter[tokenizer->splitter_count++].kind = KVC_STEP_BYTES;
    tokenizer->model = KVC_VOCAB_RANKS;
    tokenizer->ignore_merges = split->ignore_merges;
    tokenizer->decoder.byte_level = true;
    *bos = split->bos;
    return status;
}

/* Makes user-defined pieces available to merging. Pieces such as Gemma's runs of spaces are spelled with space marks,
 * so they are not found in the original text. */
static void merge_user_pieces(struct kvc_tokenizer *tokenizer) {
    for (size_t i = 0; i < tokenizer->count; i++)
        if (tokenizer->pieces[i].kind == KVC_TOKEN_USER)
            kvc_vocab_insert(tokenizer, (int32_t)i);
}

static enum kvc_status set_sentence_pieces(struct source *source, struct kvc_tokenizer *tokenizer, bool *bos) {
    bool prefix = true, remove_spaces = false;
    kvc_gguf_bool(source->file, KEY("add_space_prefix"), &prefix);
    kvc_gguf_bool(source->file, KEY("remove_extra_whitespaces"), &remove_spaces);
    if (!source->scores)
        return kvc_fail(source->error, KVC_INPUT, "%s: " KEY("scores") " is missing", source->path);
    merge_user_pieces(tokenizer);
    tokenizer->model = KVC_VOCAB_SCORES;
    tokenizer->fuse_unknown = true;
    *bos = true;
    return kvc_sentencepiece_steps(tokenizer, prefix, remove_spaces, source->path, source->error);
}

/* Gemma 4: SentencePiece pieces with merges by priority. */
static enum kvc_status set_merged_pieces(struct source *source, struct kvc_tokenizer *tokenizer, bool *bos) {
    merge_user_pieces(tokenizer);
    enum kvc_status status = read_merges(source, tokenizer);
    if (status != KVC_OK)
        return status;
    tokenizer->model = KVC_VOCAB_RANKS;
    tokenizer->byte_fallback = tokenizer->fuse_unknown = tokenizer->decoder.byte_fallback = true;
    *bos = true;
    return kvc_sentencepiece_steps(tokenizer, false, false, source->path, source->error);
}

static enum kvc_status read_id(struct source *source, const char *key, int32_t *id) {
    uint64_t value;
    if (!kvc_gguf_uint(source->file, key, &value))
        return KVC_OK;
    if (value >= source->count)
        return kvc_fail(source->error, KVC_INPUT, "%s: %s is %llu; there are %llu tokens", source->path, key,
                        (unsigned long long)value, (unsigned long long)source->count);
    *id = (int32_t)value;
    return KVC_OK;
}

static enum kvc_status read_special_ids(struct source *source, struct kvc_tokenizer *tokenizer) {
    int32_t ends[4] = {-1, -1, -1, -1}, unknown = -1;
    static const char *const keys[4] = {KEY("eos_token_id"), KEY("eot_token_id"), KEY("eom_token_id"),
                                        KEY("eog_token_id")};
    enum kvc_status status = read_id(source, KEY("bos_token_id"), &tokenizer->bos);
    if (status == KVC_OK)
        status = read_id(source, KEY("unknown_token_id"), &unknown);
    if (!tokenizer->decoder.byte_level) /* byte-level models drop bytes for which they have no piece */
        tokenizer->unknown = unknown;
    for (int i = 0; i < 4 && status == KVC_OK; i++) {
        status = read_id(source, keys[i], &ends[i]);
        if (ends[i] >= 0)
            tokenizer->pieces[ends[i]].ends_turn = true;
    }
    tokenizer->eos = ends[0];
    return status;
}

/* Adds control and user-defined tokens, which are searched for in the original text. If the normalizer only replaces
 * spaces by marks, user-defined pieces are searched for in the normalized text, as in SentencePiece; Gemma's runs of
 * spaces need this. Phi-3's tokens strip the whitespace after them, which GGUF files do not record. */
static enum kvc_status add_tokens(struct source *source, struct kvc_tokenizer *tokenizer) {
    const char *architecture;
    size_t architecture_bytes;
    bool phi3 = tokenizer->model == KVC_VOCAB_SCORES &&
                kvc_gguf_string(source->file, "general.architecture", &architecture, &architecture_bytes) &&
                text_is(architecture, architecture_bytes, "phi3");
    for (uint64_t i = 0; i < source->count; i++) {
        const struct kvc_vocab_entry *piece = &tokenizer->pieces[i];
        bool unknown = piece->kind == KVC_TOKEN_UNKNOWN && (int32_t)i == tokenizer->unknown;
        if (piece->kind != KVC_TOKEN_CONTROL && piece->kind != KVC_TOKEN_USER && !unknown)
            continue;
        const char *text;
        size_t bytes;
        if (!kvc_gguf_array_string(source->file, KEY("tokens"), i, &text, &bytes))
            continue;
        const bool marked = tokenizer->model != KVC_VOCAB_RANKS && tokenizer->normalizer_count == 1;
        struct kvc_added token = {.id = (int32_t)i,
                                  .special = piece->kind != KVC_TOKEN_USER,
                                  .normalized = marked && piece->kind == KVC_TOKEN_USER};
        token.strip_right = phi3 && bytes > 3 && !memcmp(text, "<|", 2) && !text_is(text, bytes, "<|endoftext|>");
        token.strip_right |= phi3 && text_is(text, bytes, "</s>");
        enum kvc_status status = kvc_added_insert(tokenizer, &token, text, bytes, source->error);
        if (status != KVC_OK)
            return status;
    }
    return kvc_added_sort(tokenizer, source->error);
}

static enum kvc_status gguf_fill(struct source *source, struct kvc_tokenizer *tokenizer) {
    const char *model;
    size_t bytes;
    bool bos = false;
    enum kvc_status status = read_pieces(source, tokenizer);
    if (status != KVC_OK)
        return status;
    if (!kvc_gguf_string(source->file, KEY("model"), &model, &bytes))
        return kvc_fail(source->error, KVC_INPUT, "%s: " KEY("model") " is missing", source->path);
    if (text_is(model, bytes, "gpt2"))
        status = set_byte_level(source, tokenizer, &bos);
    else if (text_is(model, bytes, "llama"))
        status = set_sentence_pieces(source, tokenizer, &bos);
    else if (text_is(model, bytes, "gemma4"))
        status = set_merged_pieces(source, tokenizer, &bos);
    else
        return kvc_fail(source->error, KVC_INPUT,
                        "%s: tokenizer model \"%.*s\" is not supported; gpt2, llama and gemma4 are", source->path,
                        bytes > 40 ? 40 : (int)bytes, model);
    if (status == KVC_OK)
        status = read_special_ids(source, tokenizer);
    if (status == KVC_OK)
        status = add_tokens(source, tokenizer);
    if (status == KVC_OK)
        status = kvc_vocab_finish(tokenizer, source->error);
    if (status != KVC_OK)
        return status;
    kvc_gguf_bool(source->file, KEY("add_bos_token"), &bos);
    if (bos && tokenizer->bos >= 0 && !kvc_id_list_add(&tokenizer->prefix, tokenizer->bos))
        return kvc_no_memory(source->error);
    status = kvc_special_names_from_gguf(tokenizer, source->file, source->error);
    return status == KVC_OK ? kvc_templates_from_gguf(tokenizer, source->file, source->error) : status;
}

enum kvc_status kvc_tokenizer_from_gguf(const struct kvc_gguf *file, const char *path, uint64_t vocab,
                                        struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    struct source source = {.file = file, .path = path, .error = error};
    *tokenizer = NULL;
    if (kvc_gguf_has(file, "tokenizer.huggingface.json"))
        return kvc_tokenizer_embedded(file, path, vocab, tokenizer, error);
    enum kvc_status status = check_arrays(&source, vocab);
    if (status == KVC_OK)
        status = kvc_vocab_open((size_t)(vocab <= KVC_MOST_TOKENS ? vocab : source.count), tokenizer, error);
    if (status == KVC_OK)
        status = gguf_fill(&source, *tokenizer);
    if (status != KVC_OK) {
        kvc_tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
