/* text.c - the public functions for a model's text: tokens, their bytes, chat templates. */
#include "models/chat/template.h"
#include "models/model.h"

#include <stdlib.h>

static enum kvc_status no_tokenizer(const struct kvc_model *model, struct kvc_error *error) {
    return kvc_fail(error, KVC_INPUT, "%s: the model has no tokenizer; give it token ids", model->info.path);
}

enum kvc_status kvc_tokenize(const struct kvc_model *model, const char *text, size_t bytes, unsigned flags,
                             int32_t **tokens, size_t *count, struct kvc_error *error) {
    return kvc_tokenize_marked(model, text, NULL, bytes, flags, tokens, count, error);
}

enum kvc_status kvc_tokenize_marked(const struct kvc_model *model, const char *text, const char *marks, size_t bytes,
                                    unsigned flags, int32_t **tokens, size_t *count, struct kvc_error *error) {
    if (flags & ~(unsigned)(KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL))
        return kvc_fail(error, KVC_USAGE, "tokenize: flags %#x: there are KVC_TOKENIZE_BOS and KVC_TOKENIZE_SPECIAL",
                        flags);
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    return kvc_tokenizer_encode(model->tokenizer, text, marks, bytes, flags, tokens, count, error);
}

enum kvc_status kvc_detokenize(const struct kvc_model *model, const int32_t *tokens, size_t count, bool special,
                               char **text, size_t *bytes, struct kvc_error *error) {
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    return kvc_tokenizer_decode(model->tokenizer, tokens, count, special, text, bytes, error);
}

enum kvc_status kvc_token_bytes(const struct kvc_model *model, int32_t token, bool first, char *text, size_t capacity,
                                size_t *bytes, struct kvc_error *error) {
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    return kvc_tokenizer_token_bytes(model->tokenizer, token, first, text, capacity, bytes, error);
}

bool kvc_token_ends_turn(const struct kvc_model *model, int32_t token) {
    return model->tokenizer ? kvc_tokenizer_ends_turn(model->tokenizer, token) : token >= 0 && token == model->info.eos;
}

void kvc_chat_defaults(struct kvc_chat_options *options) { *options = (struct kvc_chat_options){.answer = true}; }

enum kvc_status kvc_chat_rendered(const struct kvc_model *model, const struct kvc_chat_options *options,
                                  const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                  struct kvc_error *error) {
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    return kvc_chat_render(model->tokenizer, options, messages, count, made, error);
}

enum kvc_status kvc_chat_tokens(const struct kvc_model *model, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, int32_t **tokens, size_t *token_count,
                                struct kvc_error *error) {
    const int32_t bos = model->info.bos;
    struct kvc_rendered made;
    enum kvc_status status = kvc_chat_rendered(model, options, messages, count, &made, error);
    if (status != KVC_OK)
        return status;
    status =
        kvc_tokenize_marked(model, made.text, made.marks, made.bytes, KVC_TOKENIZE_SPECIAL, tokens, token_count, error);
    if (status == KVC_OK && bos >= 0 && (*token_count == 0 || (*tokens)[0] != bos)) {
        free(*tokens);
        *tokens = NULL;
        *token_count = 0;
        status = kvc_tokenize_marked(model, made.text, made.marks, made.bytes, KVC_TOKENIZE_SPECIAL | KVC_TOKENIZE_BOS,
                                     tokens, token_count, error);
    }
    free(made.text);
    return status;
}

enum kvc_status kvc_chat_text_with(const struct kvc_model *model, const struct kvc_chat_options *options,
                                   const struct kvc_message *messages, size_t count, char **text,
                                   struct kvc_error *error) {
    struct kvc_rendered made;
    const enum kvc_status status = kvc_chat_rendered(model, options, messages, count, &made, error);
    if (status == KVC_OK)
        *text = made.text;
    return status;
}

bool kvc_chat_reads(const struct kvc_model *model, const struct kvc_chat_options *options, const char *variable) {
    return !model->tokenizer || kvc_chat_text_reads(model->tokenizer, options, variable);
}

enum kvc_status kvc_chat_text(const struct kvc_model *model, const char *template_name,
                              const struct kvc_message *messages, size_t count, bool answer, char **text,
                              struct kvc_error *error) {
    const struct kvc_chat_options options = {.template_name = template_name, .answer = answer};
    return kvc_chat_text_with(model, &options, messages, count, text, error);
}
