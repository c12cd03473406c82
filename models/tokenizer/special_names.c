/* special_names.c - the special tokens that a chat template uses by name, such as pad_token. The names come from
 * tokenizer_config.json and special_tokens_map.json, or from the ids in a GGUF file. */
#include "models/tokenizer/json.h"

#include <string.h>

static bool ends_in(const char *text, const char *end) {
    const size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes > end_bytes && !strcmp(text + bytes - end_bytes, end);
}

/* Returns the text of "<s>" or {"content": "<s>"}, or NULL for any other value. */
static const json_t *text_of(const json_t *value) {
    const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
    return json_is_string(text) ? text : NULL;
}

/* Adds a name unless it is already known. null is stored, too, so that a file read later does not override it. */
static bool special_names_add(struct kvc_tokenizer *tokenizer, const char *name, const json_t *value) {
    const json_t *text = text_of(value);
    if ((!text && !json_is_null(value)) || json_object_get(tokenizer->special_names, name))
        return true;
    json_t *made = text ? json_stringn_nocheck(json_string_value(text), json_string_length(text)) : json_null();
    return json_object_set_new_nocheck(tokenizer->special_names, name, made) == 0;
}

static bool add_all(struct kvc_tokenizer *tokenizer, const json_t *names, const char *end) {
    void *object = json_is_object(names) ? (void *)(uintptr_t)names : NULL; /* jansson does not change the object */
    bool fits = true;
    for (void *at = json_object_iter(object); at && fits; at = json_object_iter_next(object, at))
        if (ends_in(json_object_iter_key(at), end))
            fits = special_names_add(tokenizer, json_object_iter_key(at), json_object_iter_value(at));
    return fits;
}

static bool open_names(struct kvc_tokenizer *tokenizer) {
    if (!tokenizer->special_names)
        tokenizer->special_names = json_object();
    return tokenizer->special_names != NULL;
}

enum kvc_status kvc_special_names_from_json(struct kvc_tokenizer *tokenizer, const json_t *config,
                                            struct kvc_error *error) {
    const bool fits = open_names(tokenizer) && add_all(tokenizer, config, "_token") &&
                      add_all(tokenizer, json_object_get(config, "extra_special_tokens"), "") &&
                      add_all(tokenizer, json_object_get(config, "model_specific_special_tokens"), "");
    return fits ? KVC_OK : kvc_no_memory(error);
}

struct special_key { /* a special token's name in templates, and the key of its id in GGUF */
    const char *name, *key;
};
static const struct special_key special_keys[] = {
    {"unk_token", "tokenizer.ggml.unknown_token_id"}, {"sep_token", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"}, {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},   {NULL, NULL}};

enum kvc_status kvc_special_names_from_gguf(struct kvc_tokenizer *tokenizer, const struct kvc_gguf *file,
                                            struct kvc_error *error) {
    bool fits = open_names(tokenizer);
    for (const struct special_key *row = special_keys; row->name && fits; row++) {
        uint64_t id;
        if (!kvc_gguf_uint(file, row->key, &id) || id >= tokenizer->count ||
            tokenizer->pieces[id].kind == KVC_TOKEN_ABSENT)
            continue;
        const struct kvc_vocab_entry *piece = &tokenizer->pieces[id];
        json_t *text = json_stringn_nocheck(tokenizer->store.data + piece->spelling, piece->spelling_bytes);
        fits = json_object_set_new_nocheck(tokenizer->special_names, row->name, text) == 0;
    }
    return fits ? KVC_OK : kvc_no_memory(error);
}
