/* json.c - reads tokenizer.json: vocabulary, merges, added tokens. steps.c reads the processing steps, and folder.c
 * reads the files next to tokenizer.json. Uses jansson. */
#include "models/tokenizer/json.h"

#include <stdlib.h>
#include <string.h>

static bool flag(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

/* Reads an id: an integer below count. */
static bool take_id(const json_t *value, uint64_t count, int32_t *id) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) >= count)
        return false;
    *id = (int32_t)json_integer_value(value);
    return true;
}

/* Computes the largest id plus one, or uses `limit` if that is known. */
static enum kvc_status count_ids(const json_t *vocab, const json_t *added, uint64_t limit, const char *path,
                                 uint64_t *count, struct kvc_error *error) {
    uint64_t most = limit < KVC_MOST_TOKENS ? limit : KVC_MOST_TOKENS;
    const char *key;
    json_t *value;
    int32_t id;
    *count = limit < KVC_MOST_TOKENS ? limit : 0;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        if (!take_id(value, most, &id))
            return kvc_fail(error, KVC_INPUT, "%s: the id of piece \"%.40s\" is not a whole number below %llu", path,
                            key, (unsigned long long)most);
        if ((uint64_t)id >= *count)
            *count = (uint64_t)id + 1;
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        if (!take_id(json_object_get(json_array_get(added, i), "id"), most, &id))
            return kvc_fail(error, KVC_INPUT, "%s: added token %zu has no id that is a whole number below %llu", path,
                            i, (unsigned long long)most);
        if ((uint64_t)id >= *count)
            *count = (uint64_t)id + 1;
    }
    return KVC_OK;
}

static enum kvc_status read_vocab(struct kvc_tokenizer *tokenizer, const json_t *vocab, const char *path,
                                  struct kvc_error *error) {
    const char *key;
    json_t *value;
    if (!kvc_vocab_reserve(tokenizer, json_object_size(vocab)))
        return kvc_no_memory(error);
    json_object_foreach((json_t *)(uintptr_t)vocab, key, value) {
        int32_t id = (int32_t)json_integer_value(value);
        if (tokenizer->pieces[id].kind != KVC_TOKEN_ABSENT)
            return kvc_fail(error, KVC_INPUT, "%s: id %d is given to two pieces, one of them \"%.40s\"", path, (int)id,
                            key);
        if (!kvc_vocab_set(tokenizer, id, key, strlen(key), KVC_TOKEN_NORMAL))
            return kvc_no_memory(error);
        kvc_vocab_insert(tokenizer, id);
    }
    return KVC_OK;
}

static enum kvc_status read_merges(struct kvc_tokenizer *tokenizer, const json_t *merges, const char *path,
                                   struct kvc_error *error) {
    size_t count = json_array_size(merges);
    if (!json_is_array(merges) || count > UINT32_MAX)
        return kvc_fail(error, KVC_INPUT, "%s: model.merges is missing or not a list", path);
    if (!kvc_merges_reserve(tokenizer, count))
        return kvc_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *left = NULL, *right = NULL;
        size_t left_bytes = 0, right_bytes = 0;
        if (json_is_string(merge)) { /* "a b" */
            left = json_string_value(merge);
            const char *space = strchr(left, ' ');
            if (space) {
                left_bytes = (size_t)(space - left);
                right = space + 1;
                right_bytes = json_string_length(merge) - left_bytes - 1;
            }
        } else if (json_array_size(merge) == 2 && json_is_string(json_array_get(merge, 0)) &&
                   json_is_string(json_array_get(merge, 1))) { /* ["a", "b"] */
            left = json_string_value(json_array_get(merge, 0));
            left_bytes = json_string_length(json_array_get(merge, 0));
            right = json_string_value(json_array_get(merge, 1));
            right_bytes = json_string_length(json_array_get(merge, 1));
        }
        if (!right)
            return kvc_fail(error, KVC_INPUT, "%s: merge %zu is not a pair of pieces", path, i);
        enum kvc_status status =
            kvc_merges_insert(tokenizer, left, left_bytes, right, right_bytes, (uint32_t)i, path, error);
        if (status != KVC_OK)
            return status;
    }
    return KVC_OK;
}

static enum kvc_status read_added(struct kvc_tokenizer *tokenizer, const json_t *added, const char *path,
                                  struct kvc_error *error) {
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i), *content = json_object_get(entry, "content");
        int32_t id = (int32_t)json_integer_value(json_object_get(entry, "id"));
        if (!json_is_string(content))
            return kvc_fail(error, KVC_INPUT, "%s: added token %zu has no content", path, i);
        const char *text = json_string_value(content);
        size_t bytes = json_string_length(content);
        struct kvc_vocab_entry *piece = &tokenizer->pieces[id];
        struct kvc_added token = {.id = id,
                                  .special = flag(entry, "special"),
                                  .normalized = flag(entry, "normalized"),
                                  .single_word = flag(entry, "single_word"),
                                  .strip_left = flag(entry, "lstrip"),
                                  .strip_right = flag(entry, "rstrip")};
        if (piece->kind != KVC_TOKEN_ABSENT &&
            (piece->spelling_bytes != bytes || memcmp(tokenizer->store.data + piece->spelling, text, bytes) != 0))
            return kvc_fail(error, KVC_INPUT, "%s: added token \"%.40s\" has id %d, which is another piece's", path,
                            text, (int)id);
        if (piece->kind == KVC_TOKEN_ABSENT && !kvc_vocab_set(tokenizer, id, text, bytes, KVC_TOKEN_USER))
            return kvc_no_memory(error);
        piece->kind = token.special ? KVC_TOKEN_CONTROL : KVC_TOKEN_USER;
        enum kvc_status status = kvc_added_insert(tokenizer, &token, text, bytes, error);
        if (status != KVC_OK)
            return status;
    }
    return kvc_added_sort(tokenizer, error);
}

/* Reads the model: {"type": "BPE" | "WordLevel", ...}. */
static enum kvc_status read_model(struct kvc_tokenizer *tokenizer, const json_t *model, const char *path,
                                  struct kvc_error *error) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type)
        type = json_object_get(model, "merges") ? "BPE" : "";
    bool words = !strcmp(type, "WordLevel");
    if (!words && strcmp(type, "BPE") != 0)
        return kvc_fail(error, KVC_INPUT, "%s: model type \"%.40s\" is not supported; BPE and WordLevel are", path,
                        type);
    static const char *const unsupported[] = {"continuing_subword_prefix", "end_of_word_suffix", NULL};
    for (size_t i = 0; unsupported[i]; i++)
        if (json_string_length(json_object_get(model, unsupported[i])))
            return kvc_fail(error, KVC_INPUT, "%s: model.%s is not supported", path, unsupported[i]);
    tokenizer->model = words ? KVC_VOCAB_WORDS : KVC_VOCAB_RANKS;
    tokenizer->byte_fallback = flag(model, "byte_fallback");
    tokenizer->fuse_unknown = flag(model, "fuse_unk");
    tokenizer->ignore_merges = flag(model, "ignore_merges");
    enum kvc_status status = read_vocab(tokenizer, json_object_get(model, "vocab"), path, error);
    if (status == KVC_OK && !words)
        status = read_merges(tokenizer, json_object_get(model, "merges"), path, error);
    const json_t *unknown = json_object_get(model, "unk_token");
    if (json_is_string(unknown))
        tokenizer->unknown = kvc_vocab_find(tokenizer, json_string_value(unknown), json_string_length(unknown));
    return status;
}

enum kvc_status kvc_tokenizer_from_json(const json_t *root, const char *path, uint64_t vocab,
                                        struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    const json_t *pieces = json_object_get(model, "vocab");
    uint64_t count;
    if (!json_is_object(model) || !json_is_object(pieces))
        return kvc_fail(error, KVC_INPUT, "%s: model.vocab is missing or not an object; BPE and WordLevel have one",
                        path);
    enum kvc_status status = count_ids(pieces, added, vocab, path, &count, error);
    if (status == KVC_OK)
        status = kvc_vocab_open((size_t)count, tokenizer, error);
    if (status != KVC_OK)
        return status;
    struct kvc_tokenizer *made = *tokenizer;
    status = read_model(made, model, path, error);
    if (status == KVC_OK)
        status = kvc_json_steps(made, root, path, error);
    if (status == KVC_OK) /* after the normalizer, which is applied to some added tokens */
        status = read_added(made, added, path, error);
    if (status == KVC_OK)
        status = kvc_vocab_finish(made, error);
    if (status == KVC_OK)
        status = kvc_json_prefix(made, json_object_get(root, "post_processor"), path, error);
    if (status != KVC_OK) {
        kvc_tokenizer_close(made);
        *tokenizer = NULL;
    }
    return status;
}
