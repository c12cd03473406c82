/* embedded.c - reads a tokenizer from the whole tokenizer.json that a GGUF file may contain, and from a few other keys.
 * models/convert/text.c writes them. */
#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/json.h"

#define KEY(name) "tokenizer.ggml." name

static enum kvc_status read_ids(const struct kvc_gguf *file, const char *path, struct kvc_tokenizer *tokenizer,
                                struct kvc_error *error) {
    static const char *const keys[] = {KEY("bos_token_id"), KEY("eos_token_id"), KEY("eot_token_id"),
                                       KEY("eom_token_id"), KEY("eog_token_id")};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t id;
        if (!kvc_gguf_has(file, keys[i])) {
            continue;
        }
        if (!kvc_gguf_uint(file, keys[i], &id) || id >= tokenizer->count) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is not a token id below %zu", path, keys[i], tokenizer->count);
        }
        if (i == 0) {
            tokenizer->bos = (int32_t)id;
        } else {
            tokenizer->pieces[id].ends_turn = true;
        }
        if (i == 1) {
            tokenizer->eos = (int32_t)id;
        }
    }
    return KVC_OK;
}

/* Adds or removes the beginning-of-sequence token in the prefix, according to add_bos_token. */
static enum kvc_status set_prefix(const struct kvc_gguf *file, struct kvc_tokenizer *tokenizer,
                                  struct kvc_error *error) {
    struct kvc_id_list *prefix = &tokenizer->prefix;
    bool wanted, there = prefix->count > 0 && prefix->ids[0] == tokenizer->bos;
    if (!kvc_gguf_bool(file, KEY("add_bos_token"), &wanted) || tokenizer->bos < 0 || wanted == there) {
        return KVC_OK;
    }
    if (there) {
        prefix->count--;
        memmove(prefix->ids, prefix->ids + 1, prefix->count * sizeof *prefix->ids);
        return KVC_OK;
    }
    if (!kvc_id_list_add(prefix, tokenizer->bos)) {
        return kvc_no_memory(error);
    }
    memmove(prefix->ids + 1, prefix->ids, (prefix->count - 1) * sizeof *prefix->ids);
    prefix->ids[0] = tokenizer->bos;
    return KVC_OK;
}

enum kvc_status kvc_tokenizer_embedded(const struct kvc_gguf *file, const char *path, uint64_t vocab,
                                       struct kvc_tokenizer **tokenizer, struct kvc_error *error) {
    const char *json;
    size_t bytes;
    *tokenizer = NULL;
    if (!kvc_gguf_string(file, "tokenizer.huggingface.json", &json, &bytes)) {
        return kvc_fail(error, KVC_INPUT, "%s: tokenizer.huggingface.json is not a string", path);
    }
    enum kvc_status status = kvc_tokenizer_from_bytes(json, bytes, path, vocab, tokenizer, error);
    if (!status) {
        status = read_ids(file, path, *tokenizer, error);
    }
    if (!status) {
        status = set_prefix(file, *tokenizer, error);
    }
    if (!status) {
        status = kvc_special_names_from_gguf(*tokenizer, file, error);
    }
    if (!status) {
        status = kvc_templates_from_gguf(*tokenizer, file, error);
    }
    if (status) {
        kvc_tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}
