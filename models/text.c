/* text.c - the public functions on a model's text: tokens, their bytes, chat templates. */
#include "models/model.h"

#include <stdlib.h>

static enum kvc_status no_tokenizer(const struct kvc_model *model, struct kvc_error *error) {
    return kvc_fail(error, KVC_INPUT, "%s: the model has no tokenizer; give it token ids", model->info.path);
}

enum kvc_status kvc_tokenize(const struct kvc_model *model, const char *text, size_t bytes, unsigned flags,
                             int32_t **tokens, size_t *count, struct kvc_error *error) {
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    if (flags & ~(unsigned)(KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL))
        return kvc_fail(error, KVC_USAGE, "tokenize: flags %#x: there are KVC_TOKENIZE_BOS and KVC_TOKENIZE_SPECIAL",
                        flags);
    return kvc_tokenizer_encode(model->tokenizer, text, bytes, flags, tokens, count, error);
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

enum kvc_status kvc_chat_text(const struct kvc_model *model, const char *template_name,
                              const struct kvc_message *messages, size_t count, bool answer, char **text,
                              struct kvc_error *error) {
    if (!model->tokenizer)
        return no_tokenizer(model, error);
    return kvc_chat_render(model->tokenizer, template_name, messages, count, answer, text, error);
}
