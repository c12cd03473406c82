/* text.c - a folder's tokenizer in a GGUF file. Where the tokenizer.ggml.* keys cannot say all that
 * tokenizer.json says, the whole file goes under tokenizer.huggingface.json, the key the format has for it, and is read
 * again from there; other programs have the other keys. */
#include "models/convert/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/files/map.h"
#include "models/tokenizer/parts.h"

/* json: tokenizer.json, NULL: the folder has tokenizer.model. */
static enum kvc_status put_tokenizer(const struct kvc_tokenizer *tokenizer, const struct kvc_map *json,
                                     struct kvc_gguf_writer *writer, struct kvc_error *error) {
    const char *chat = kvc_tokenizer_chat_template(tokenizer);
    bool whole;
    if (!kvc_convert_vocab(tokenizer, writer, &whole)) {
        return kvc_no_memory(error);
    }
    if (!whole && json) {
        kvc_gguf_put_string(writer, "tokenizer.huggingface.json", (const char *)json->data, json->bytes);
    }
    if (chat) {
        kvc_gguf_put_string(writer, "tokenizer.chat_template", chat, strlen(chat));
    }
    return KVC_OK;
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
            kvc_tokenizer_close(tokenizer);
        }
    }
    kvc_map_close(&json);
    return status;
}
