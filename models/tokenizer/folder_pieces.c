/* folder_pieces.c - reads a tokenizer from a folder with tokenizer.model but without tokenizer.json. Reads the pieces,
 * and the tokens that added_tokens.json and tokenizer_config.json add. */
#include <stdlib.h>
#include <string.h>

#include "models/files/map.h"
#include "models/tokenizer/json.h"
#include "models/tokenizer/sentencepiece.h"

struct added_files {
    json_t *names; /* added_tokens.json: {"text": id} */
    json_t *about; /* tokenizer_config.json's added_tokens_decoder: {"id": {"content": "text", ...}} */
};

static bool flag(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

/* Parses an id written as a JSON key. Returns -1 if the key is not an id. */
static int64_t id_of(const char *key) {
    uint64_t id = 0;
    for (const char *c = key; *c; c++) {
        if (*c < '0' || *c > '9' || id >= KVC_MOST_TOKENS)
            return -1;
        id = 10 * id + (uint64_t)(*c - '0');
    }
    return *key ? (int64_t)id : -1;
}

/* Computes the largest id in the two files plus one. */
static enum kvc_status count_added(const struct added_files *files, const char *folder, uint64_t *least,
                                   struct kvc_error *error) {
    const char *key;
    json_t *value;
    *least = 0;
    json_object_foreach(files->names, key, value) {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || (uint64_t)id >= KVC_MOST_TOKENS)
            return kvc_fail(error, KVC_INPUT, "%s/added_tokens.json: \"%.40s\" has no id below %llu", folder, key,
                            (unsigned long long)KVC_MOST_TOKENS);
        *least = (uint64_t)id >= *least ? (uint64_t)id + 1 : *least;
    }
    json_object_foreach(files->about, key, value) {
        const int64_t id = id_of(key);
        if (id < 0 || (uint64_t)id >= KVC_MOST_TOKENS || !json_string_length(json_object_get(value, "content")))
            return kvc_fail(error, KVC_INPUT,
                            "%s/tokenizer_config.json: added_tokens_decoder: \"%.40s\" is not an id with a content",
                            folder, key);
        *least = (uint64_t)id >= *least ? (uint64_t)id + 1 : *least;
    }
    return KVC_OK;
}

static enum kvc_status add_token(struct kvc_tokenizer *tokenizer, const struct kvc_added *token, const char *text,
                                 size_t bytes, const char *folder, struct kvc_error *error) {
    struct kvc_vocab_entry *piece = &tokenizer->pieces[token->id];
    if (piece->kind != KVC_TOKEN_ABSENT &&
        (piece->spelling_bytes != bytes || memcmp(tokenizer->store.data + piece->spelling, text, bytes) != 0))
        return kvc_fail(error, KVC_INPUT, "%s: the added token \"%.40s\" has id %d, which is another piece's", folder,
                        text, (int)token->id);
    if (piece->kind != KVC_TOKEN_ABSENT && piece->kind != KVC_TOKEN_NORMAL)
        return KVC_OK; /* already in the model */
    if (piece->kind == KVC_TOKEN_ABSENT && !kvc_vocab_set(tokenizer, token->id, text, bytes, KVC_TOKEN_USER))
        return kvc_no_memory(error);
    piece->kind = token->special ? KVC_TOKEN_CONTROL : KVC_TOKEN_USER;
    return kvc_added_insert(tokenizer, token, text, bytes, error);
}

/* Adds the tokens of both files. Properties in tokenizer_config.json take precedence. */
static enum kvc_status add_tokens(struct kvc_tokenizer *tokenizer, const struct added_files *files, const char *folder,
                                  struct kvc_error *error) {
    const char *key;
    json_t *value;
    enum kvc_status status = KVC_OK;
    json_object_foreach(files->about, key, value) {
        const json_t *content = json_object_get(value, "content");
        const struct kvc_added token = {.id = (int32_t)id_of(key),
                                        .special = flag(value, "special"),
                                        .single_word = flag(value, "single_word"),
                                        .strip_left = flag(value, "lstrip"),
                                        .strip_right = flag(value, "rstrip")};
        if (status == KVC_OK)
            status =
                add_token(tokenizer, &token, json_string_value(content), json_string_length(content), folder, error);
    }
    json_object_foreach(files->names, key, value) {
        const struct kvc_added token = {.id = (int32_t)json_integer_value(value)};
        if (status == KVC_OK && *key)
            status = add_token(tokenizer, &token, key, strlen(key), folder, error);
    }
    return status;
}

static enum kvc_status read_pieces(const char *path, const char *folder, const struct added_files *files,
                                   uint64_t vocab, struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    struct kvc_map map;
    uint64_t least;
    enum kvc_status status = count_added(files, folder, &least, error);
    if (status == KVC_OK)
        status = kvc_map_open(path, &map, error);
    if (status != KVC_OK)
        return status;
    status = kvc_tokenizer_from_sentencepiece(map.data, map.bytes, path, vocab, least, tokenizer, error);
    if (status == KVC_OK)
        status = add_tokens(*tokenizer, files, folder, error);
    if (status == KVC_OK)
        status = kvc_added_sort(*tokenizer, error);
    if (status == KVC_OK)
        status = kvc_vocab_finish(*tokenizer, error);
    kvc_map_close(&map);
    return status;
}

enum kvc_status kvc_tokenizer_from_pieces(const char *path, const char *folder, uint64_t vocab,
                                          struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    json_t *config = NULL;
    struct added_files files = {NULL, NULL};
    *tokenizer = NULL;
    enum kvc_status status = kvc_folder_json(folder, "added_tokens.json", &files.names, error);
    if (status == KVC_OK)
        status = kvc_folder_json(folder, "tokenizer_config.json", &config, error);
    if (status == KVC_OK) {
        files.about = json_object_get(config, "added_tokens_decoder");
        status = read_pieces(path, folder, &files, vocab, tokenizer, error);
    }
    json_decref(files.names);
    json_decref(config);
    return status;
}
