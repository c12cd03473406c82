/* text.c - copies a folder's tokenizer into a GGUF file. If the tokenizer.ggml.* keys cannot express everything in
 * tokenizer.json, the whole file is also stored under the format's key tokenizer.huggingface.json, from which kvcull
 * reads it back. Other programs use the other keys. */
#include "models/convert/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/files/map.h"
#include "models/tokenizer/json.h"

/* Templates with names other than "default" get their own keys and are listed. */
static enum kvc_status put_templates(const struct kvc_tokenizer *tokenizer, struct kvc_gguf_writer *writer,
                                     struct kvc_error *error) {
    const char *standard = kvc_template_named(tokenizer, "default");
    const size_t others = tokenizer->template_count - (standard != NULL);
    if (standard) {
        kvc_gguf_put_string(writer, "tokenizer.chat_template", standard, strlen(standard));
    }
    if (others) {
        kvc_gguf_put_strings(writer, "tokenizer.chat_templates", others);
    }
    for (size_t i = 0; i < tokenizer->template_count && others; i++) {
        const struct kvc_template *one = &tokenizer->templates[i];
        if (one->text != standard) {
            kvc_gguf_add_string(writer, one->name, strlen(one->name));
        }
    }
    for (size_t i = 0; i < tokenizer->template_count && others; i++) {
        const struct kvc_template *one = &tokenizer->templates[i];
        struct kvc_text key = {0};
        const bool fits = kvc_text_add(&key, "tokenizer.chat_template.", strlen("tokenizer.chat_template.")) &&
                          kvc_text_add(&key, one->name, strlen(one->name) + 1);
        if (fits && one->text != standard) {
            kvc_gguf_put_string(writer, key.data, one->text, strlen(one->text));
        }
        kvc_text_free(&key);
        if (!fits) {
            return kvc_no_memory(error);
        }
    }
    return KVC_OK;
}

/* json: the folder's tokenizer.json; NULL: it has tokenizer.model. */
static enum kvc_status put_tokenizer(const struct kvc_tokenizer *tokenizer, const struct kvc_map *json,
                                     struct kvc_gguf_writer *writer, struct kvc_error *error) {
    bool whole;
    if (!kvc_convert_vocab(tokenizer, writer, &whole)) {
        return kvc_no_memory(error);
    }
    if (!whole && json) {
        kvc_gguf_put_string(writer, "tokenizer.huggingface.json", (const char *)json->data, json->bytes);
    }
    return put_templates(tokenizer, writer, error);
}

/* Returns a special token's id, from its text in tokenizer_config.json or its number in config.json. Returns -1 if
 * there is none. */
static int32_t special_id(const struct kvc_tokenizer *tokenizer, const json_t *about, const json_t *model,
                          const char *name) {
    char key[32];
    snprintf(key, sizeof key, "%s_token", name);
    const json_t *text = json_object_get(about, key), *content = json_object_get(text, "content");
    text = content ? content : text;
    if (json_is_string(text)) {
        return kvc_vocab_search(tokenizer, json_string_value(text), json_string_length(text));
    }
    snprintf(key, sizeof key, "%s_token_id", name);
    const json_t *id = json_object_get(model, key);
    id = id ? id : json_object_get(json_object_get(model, "text_config"), key);
    const json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    return number >= 0 && (uint64_t)number < tokenizer->count ? (int32_t)number : -1;
}

/* Writes special tokens that kvcull does not need but other programs do. */
static enum kvc_status put_others(const char *folder, const struct kvc_tokenizer *tokenizer,
                                  struct kvc_gguf_writer *writer, struct kvc_error *error) {
    static const char *const ids[][2] = {{"unk", "tokenizer.ggml.unknown_token_id"},
                                         {"sep", "tokenizer.ggml.seperator_token_id"}, /* the format misspells it */
                                         {"pad", "tokenizer.ggml.padding_token_id"},
                                         {"cls", "tokenizer.ggml.cls_token_id"},
                                         {"mask", "tokenizer.ggml.mask_token_id"}};
    static const char *const flags[][2] = {{"add_eos_token", "tokenizer.ggml.add_eos_token"},
                                           {"add_sep_token", "tokenizer.ggml.add_sep_token"}};
    json_t *about = NULL, *model = NULL;
    enum kvc_status status = kvc_folder_json(folder, "tokenizer_config.json", &about, error);
    status = status ? status : kvc_folder_json(folder, "config.json", &model, error);
    for (size_t i = tokenizer->unknown >= 0; !status && i < sizeof ids / sizeof *ids; i++) {
        const int32_t id = special_id(tokenizer, about, model, ids[i][0]);
        if (id >= 0) {
            kvc_gguf_put_uint32(writer, ids[i][1], (uint32_t)id);
        }
    }
    for (size_t i = 0; !status && i < sizeof flags / sizeof *flags; i++) {
        const json_t *flag = json_object_get(about, flags[i][0]);
        if (json_is_boolean(flag)) {
            kvc_gguf_put_bool(writer, flags[i][1], json_is_true(flag));
        }
    }
    json_decref(about);
    json_decref(model);
    return status;
}

static bool is_there(const char *folder, const char *name, char *path, size_t capacity) {
    struct stat about;
    snprintf(path, capacity, "%s/%s", folder, name);
    return stat(path, &about) == 0;
}

enum kvc_status kvc_convert_text(const char *folder, uint64_t vocab, struct kvc_gguf_writer *writer,
                                 struct kvc_error *error) {
    struct kvc_map json = {0};
    struct kvc_tokenizer *tokenizer = NULL;
    const size_t capacity = strlen(folder) + sizeof "/tokenizer.model";
    char *path = malloc(capacity);
    if (!path) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    }
    const bool pieces = is_there(folder, "tokenizer.model", path, capacity),
               whole = is_there(folder, "tokenizer.json", path, capacity);
    enum kvc_status status = whole ? kvc_map_open(path, &json, error) : KVC_OK;
    free(path);
    if (!status && (whole || pieces)) {
        status = kvc_tokenizer_from_folder(folder, vocab, &tokenizer, error);
        if (!status) {
            status = put_tokenizer(tokenizer, whole ? &json : NULL, writer, error);
            status = status ? status : put_others(folder, tokenizer, writer, error);
            kvc_tokenizer_close(tokenizer);
        }
    }
    kvc_map_close(&json);
    return status;
}
