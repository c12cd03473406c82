/* folder.c - reads a tokenizer from a Hugging Face folder: tokenizer.json or tokenizer.model, and the small files next
 * to it. */
#include "models/files/json.h"
#include "models/files/map.h"
#include "models/tokenizer/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool folder_missing(const char *path) {
    struct stat info;
    return stat(path, &info) != 0 && errno == ENOENT;
}

bool kvc_folder_path(const char *folder, const char *name, struct kvc_text *path) {
    *path = (struct kvc_text){0};
    return kvc_text_add(path, folder, strlen(folder)) && kvc_text_add(path, "/", 1) &&
           kvc_text_add(path, name, strlen(name) + 1);
}

enum kvc_status kvc_folder_json(const char *folder, const char *name, json_t **root, struct kvc_error *error) {
    struct kvc_text path;
    *root = NULL;
    enum kvc_status status = kvc_folder_path(folder, name, &path) ? KVC_OK : kvc_no_memory(error);
    if (status == KVC_OK && !folder_missing(path.data))
        status = kvc_json_load(path.data, root, error);
    kvc_text_free(&path);
    return status;
}

/* Reads a special token of tokenizer_config.json: its text, or an object with the text as "content". */
static void find_token(const struct kvc_tokenizer *tokenizer, const json_t *config, const char *key, int32_t *id) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (*id < 0 && json_is_string(value))
        *id = kvc_vocab_search(tokenizer, json_string_value(value), json_string_length(value));
}

/* Reads an id or a list of ids. The first one sets *id if that is -1. */
static enum kvc_status take_ids(struct kvc_tokenizer *tokenizer, const json_t *value, const char *name, int32_t *id,
                                bool ends_turn, struct kvc_error *error) {
    size_t count = json_is_array(value) ? json_array_size(value) : json_is_integer(value) ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            (uint64_t)json_integer_value(one) >= tokenizer->count)
            return kvc_fail(error, KVC_INPUT, "%s: a token id is not a whole number below %zu", name, tokenizer->count);
        int32_t token = (int32_t)json_integer_value(one);
        if (*id < 0)
            *id = token;
        if (ends_turn)
            tokenizer->pieces[token].ends_turn = true;
    }
    return KVC_OK;
}

/* Adds or removes the beginning-of-sequence token: tokenizer_config.json may override the prefix of tokenizer.json. */
static enum kvc_status set_prefix(struct kvc_tokenizer *tokenizer, const json_t *config, struct kvc_error *error) {
    const json_t *add = json_object_get(config, "add_bos_token");
    bool there = tokenizer->prefix.count > 0 && tokenizer->prefix.ids[0] == tokenizer->bos;
    if (!json_is_boolean(add) || tokenizer->bos < 0 || json_is_true(add) == there)
        return KVC_OK;
    if (there) {
        tokenizer->prefix.count--;
        memmove(tokenizer->prefix.ids, tokenizer->prefix.ids + 1,
                tokenizer->prefix.count * sizeof *tokenizer->prefix.ids);
        return KVC_OK;
    }
    if (!kvc_id_list_add(&tokenizer->prefix, tokenizer->bos))
        return kvc_no_memory(error);
    memmove(tokenizer->prefix.ids + 1, tokenizer->prefix.ids,
            (tokenizer->prefix.count - 1) * sizeof *tokenizer->prefix.ids);
    tokenizer->prefix.ids[0] = tokenizer->bos;
    return KVC_OK;
}

static enum kvc_status read_beside(struct kvc_tokenizer *tokenizer, const char *folder, struct kvc_error *error) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
                                        "config.json"};
    const int32_t eos = tokenizer->eos; /* from tokenizer.model; the files in `names` may override it */
    enum kvc_status status = KVC_OK;
    tokenizer->eos = -1;
    for (size_t i = 0; i < 4 && status == KVC_OK; i++) {
        json_t *config;
        status = kvc_folder_json(folder, names[i], &config, error);
        if (status != KVC_OK || !config)
            continue;
        if (i < 2) {
            find_token(tokenizer, config, "bos_token", &tokenizer->bos);
            find_token(tokenizer, config, "eos_token", &tokenizer->eos);
            status = kvc_special_names_from_json(tokenizer, config, error);
        } else {
            status =
                take_ids(tokenizer, json_object_get(config, "eos_token_id"), names[i], &tokenizer->eos, true, error);
            if (status == KVC_OK)
                status = take_ids(tokenizer, json_object_get(config, "bos_token_id"), names[i], &tokenizer->bos, false,
                                  error);
        }
        if (status == KVC_OK && i == 0)
            status = set_prefix(tokenizer, config, error);
        if (status == KVC_OK && i == 0)
            status = kvc_templates_from_json(tokenizer, json_object_get(config, "chat_template"), error);
        json_decref(config);
    }
    if (tokenizer->eos < 0)
        tokenizer->eos = eos;
    if (tokenizer->eos >= 0)
        tokenizer->pieces[tokenizer->eos].ends_turn = true;
    return status;
}

enum kvc_status kvc_tokenizer_from_bytes(const char *data, size_t bytes, const char *path, uint64_t vocab,
                                         struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    json_t *root;
    *tokenizer = NULL;
    enum kvc_status status = kvc_json_parse(path, data, bytes, &root, error);
    if (status == KVC_OK) {
        status = kvc_tokenizer_from_json(root, path, vocab, tokenizer, error);
        json_decref(root);
    }
    return status;
}

/* Reads tokenizer.json, which is more complete, or else tokenizer.model. */
static enum kvc_status read_tokenizer(const char *folder, uint64_t vocab, struct kvc_tokenizer **tokenizer,
                                      struct kvc_error *error) {
    struct kvc_text path, pieces = {0};
    struct kvc_map map = {0};
    enum kvc_status status =
        kvc_folder_path(folder, "tokenizer.json", &path) && kvc_folder_path(folder, "tokenizer.model", &pieces)
            ? KVC_OK
            : kvc_no_memory(error);
    if (status == KVC_OK && folder_missing(path.data) && !folder_missing(pieces.data)) {
        status = kvc_tokenizer_from_pieces(pieces.data, folder, vocab, tokenizer, error);
    } else if (status == KVC_OK) {
        status = kvc_map_open(path.data, &map, error);
        if (status == KVC_OK)
            status = kvc_tokenizer_from_bytes((const char *)map.data, map.bytes, path.data, vocab, tokenizer, error);
        kvc_map_close(&map);
    }
    kvc_text_free(&path);
    kvc_text_free(&pieces);
    return status;
}

enum kvc_status kvc_tokenizer_from_folder(const char *folder, uint64_t vocab, struct kvc_tokenizer **tokenizer,
                                          struct kvc_error *error) {
    *tokenizer = NULL;
    enum kvc_status status = read_tokenizer(folder, vocab, tokenizer, error);
    if (status == KVC_OK)
        status = read_beside(*tokenizer, folder, error);
    if (status == KVC_OK)
        status = kvc_templates_from_folder(*tokenizer, folder, error);
    if (status != KVC_OK) {
        kvc_tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
