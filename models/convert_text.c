/* convert_text.c - a folder's tokenizer in a GGUF file. Its own keys cannot say all that tokenizer.json says, so the
 * whole file goes under tokenizer.huggingface.json, the key the format has for it, and is read again from there. */
#include "models/convert_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/map.h"
#include "models/tokenizer_parts.h"

static void put_id(struct kvc_gguf_writer *writer, const char *key, int32_t id) {
    if (id >= 0) {
        kvc_gguf_put_uint32(writer, key, (uint32_t)id);
    }
}

/* A model may end its turn with several tokens; the format has keys for a few. */
static void put_ends(const struct kvc_tokenizer *tokenizer, struct kvc_gguf_writer *writer) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.eog_token_id"};
    size_t used = 0;
    for (size_t i = 0; i < tokenizer->count && used < sizeof keys / sizeof *keys; i++) {
        if (tokenizer->pieces[i].ends_turn && (int32_t)i != tokenizer->eos) {
            put_id(writer, keys[used++], (int32_t)i);
        }
    }
}

static void put_tokenizer(const struct kvc_tokenizer *tokenizer, const struct kvc_map *json,
                          struct kvc_gguf_writer *writer) {
    const char *chat = kvc_tokenizer_chat_template(tokenizer);
    kvc_gguf_put_string(writer, "tokenizer.ggml.model", "huggingface", strlen("huggingface"));
    kvc_gguf_put_string(writer, "tokenizer.huggingface.json", (const char *)json->data, json->bytes);
    put_id(writer, "tokenizer.ggml.bos_token_id", tokenizer->bos);
    put_id(writer, "tokenizer.ggml.eos_token_id", tokenizer->eos);
    put_ends(tokenizer, writer);
    kvc_gguf_put_bool(writer, "tokenizer.ggml.add_bos_token",
                      tokenizer->prefix.count > 0 && tokenizer->prefix.ids[0] == tokenizer->bos);
    if (chat) {
        kvc_gguf_put_string(writer, "tokenizer.chat_template", chat, strlen(chat));
    }
}

enum kvc_status kvc_convert_text(const char *folder, uint64_t vocab, struct kvc_gguf_writer *writer,
                                 struct kvc_error *error) {
    struct stat about;
    struct kvc_map json;
    struct kvc_tokenizer *tokenizer = NULL;
    const size_t room = strlen(folder) + sizeof "/tokenizer.json";
    char *path = malloc(room);
    if (!path) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", folder);
    }
    snprintf(path, room, "%s/tokenizer.json", folder);
    if (stat(path, &about) != 0) {
        free(path);
        return KVC_OK;
    }
    enum kvc_status status = kvc_map_open(path, &json, error);
    free(path);
    if (!status) {
        status = kvc_tokenizer_from_folder(folder, vocab, &tokenizer, error);
        if (!status) {
            put_tokenizer(tokenizer, &json, writer);
            kvc_tokenizer_close(tokenizer);
        }
        kvc_map_close(&json);
    }
    return status;
}
