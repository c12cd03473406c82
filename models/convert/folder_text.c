/* folder_text.c - what a Hugging Face folder says of text, beside tokenizer.json: names of special tokens, the chat
 * template, which tokens end an answer. A folder's files are copied as they are. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/convert/to_folder.h"
#include "models/files/map.h"
#include "models/tokenizer/parts.h"

/* ---- from a folder ---- */

enum kvc_status kvc_copy_text_files(struct kvc_output_set *set, const char *from, struct kvc_error *error) {
    static const char *const names[] = {"tokenizer.json",          "tokenizer.model",   "tokenizer_config.json",
                                        "special_tokens_map.json", "added_tokens.json", "generation_config.json",
                                        "chat_template.jinja"};
    const size_t capacity = strlen(from) + 40;
    char *path = malloc(capacity);
    enum kvc_status status = path ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "%s: no memory", from);
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++) {
        struct kvc_map map = {0};
        struct stat about;
        snprintf(path, capacity, "%s/%s", from, names[i]);
        if (stat(path, &about) != 0)
            continue;
        status = kvc_map_open(path, &map, error);
        if (!status)
            status = kvc_output_set_write(set, names[i], map.data, map.bytes, error);
        kvc_map_close(&map);
    }
    free(path);
    return status;
}

/* ---- from a GGUF file ---- */

struct made {
    json_t *root;
    bool whole; /* nothing failed so far */
};

static void put(struct made *made, const char *key, json_t *value) {
    made->whole = json_object_set_new(made->root, key, value) == 0 && made->whole;
}

static void put_token(struct made *made, const struct kvc_tokenizer *t, const char *key, int32_t id) {
    if (id >= 0)
        put(made, key, json_stringn(t->store.data + t->pieces[id].spelling, t->pieces[id].spelling_bytes));
}

/* A token that only the file knows of, not its tokenizer. */
static void put_other(struct made *made, const struct kvc_tokenizer *t, const struct kvc_gguf *file, const char *gguf,
                      const char *key) {
    uint64_t id;
    if (!json_object_get(made->root, key) && kvc_gguf_uint(file, gguf, &id) && id < t->count &&
        t->pieces[id].kind != KVC_TOKEN_ABSENT)
        put_token(made, t, key, (int32_t)id);
}

static enum kvc_status write_about(struct kvc_output_set *set, const char *from, const struct kvc_gguf *file,
                                   const struct kvc_tokenizer *t, struct kvc_error *error) {
    struct made made = {json_object(), true};
    const char *chat = t->chat_template;
    if (chat && !kvc_is_utf8(chat, strlen(chat))) {
        json_decref(made.root);
        return kvc_fail(error, KVC_INPUT, "%s: tokenizer.chat_template is not text in UTF-8", from);
    }
    put(&made, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
    put(&made, "clean_up_tokenization_spaces", json_false());
    put(&made, "add_bos_token", json_boolean(t->prefix.count > 0));
    put_token(&made, t, "bos_token", t->bos);
    put_token(&made, t, "eos_token", t->eos);
    put_token(&made, t, "unk_token", t->unknown);
    put_other(&made, t, file, "tokenizer.ggml.unknown_token_id", "unk_token");
    put_other(&made, t, file, "tokenizer.ggml.padding_token_id", "pad_token");
    put_other(&made, t, file, "tokenizer.ggml.seperator_token_id", "sep_token");
    put_other(&made, t, file, "tokenizer.ggml.mask_token_id", "mask_token");
    if (chat)
        put(&made, "chat_template", json_string(chat));
    return kvc_output_set_json(set, "tokenizer_config.json", made.root, made.whole, error);
}

static enum kvc_status write_generation(struct kvc_output_set *set, const struct kvc_tokenizer *t,
                                        struct kvc_error *error) {
    struct made made = {json_object(), true};
    json_t *ends = json_array();
    if (t->bos >= 0)
        put(&made, "bos_token_id", json_integer(t->bos));
    if (t->eos >= 0) /* the first is the one that ends a text */
        made.whole = json_array_append_new(ends, json_integer(t->eos)) == 0 && made.whole;
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].ends_turn && (int32_t)i != t->eos)
            made.whole = json_array_append_new(ends, json_integer((json_int_t)i)) == 0 && made.whole;
    if (json_array_size(ends))
        put(&made, "eos_token_id", ends);
    else
        json_decref(ends);
    return kvc_output_set_json(set, "generation_config.json", made.root, made.whole, error);
}

enum kvc_status kvc_write_text(struct kvc_output_set *set, const char *from, const struct kvc_gguf *file,
                               uint64_t vocab, struct kvc_error *error) {
    struct kvc_tokenizer *tokenizer;
    const char *whole;
    size_t bytes;
    if (!kvc_gguf_has(file, "tokenizer.ggml.model"))
        return KVC_OK;
    enum kvc_status status = kvc_tokenizer_from_gguf(file, from, vocab, &tokenizer, error);
    if (status)
        return status;
    if (kvc_gguf_string(file, "tokenizer.huggingface.json", &whole, &bytes))
        status = kvc_output_set_write(set, "tokenizer.json", whole, bytes, error);
    else
        status = kvc_write_tokenizer(set, from, tokenizer, error);
    if (!status)
        status = write_about(set, from, file, tokenizer, error);
    if (!status)
        status = write_generation(set, tokenizer, error);
    kvc_tokenizer_close(tokenizer);
    return status;
}
