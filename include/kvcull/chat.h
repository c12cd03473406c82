/** @file kvcull/chat.h
 * Conversations as tokens. Only the chat template can write control tokens; the texts of messages cannot
 * (docs/reference/chat-templates.md). Installed as kvcull/chat.h.
 */
#ifndef KVCULL_CHAT_H
#define KVCULL_CHAT_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A conversation as text, and where each byte came from. */
struct kvc_rendered {
    char *text;   /**< ends in a NUL and contains no other; the caller frees it */
    char *marks;  /**< [bytes], freed with `text`: 1 if the byte came from a message, a tool, a document or a variable,
                       0 if it came from the template; always 0 with special_content */
    size_t bytes; /**< length of `text` */
};
/** Renders a conversation as kvc_chat_text_with does, and marks the bytes for kvc_tokenize_marked. */
enum kvc_status kvc_chat_rendered(const struct kvc_model *model, const struct kvc_chat_options *options,
                                  const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                  struct kvc_error *error);
/** Tokenizes a conversation: the tokens that the model puts in front of a text (unless the template writes BOS), then
 * those of kvc_chat_rendered. The caller frees `*tokens`; `*token_count` may be 0. Fails as kvc_chat_text_with does. */
enum kvc_status kvc_chat_tokens(const struct kvc_model *model, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, int32_t **tokens, size_t *token_count,
                                struct kvc_error *error);
/** Tokenizes a text as kvc_tokenize does, but recognizes a control token only if all its bytes have the mark 0. `marks`
 * [bytes] is the member of that name of struct kvc_rendered; NULL: all marks are 0. Added tokens that the model's files
 * do not call special are recognized everywhere, except those that end a turn. The caller frees `*tokens`. */
enum kvc_status kvc_tokenize_marked(const struct kvc_model *model, const char *text, const char *marks, size_t bytes,
                                    unsigned flags, int32_t **tokens, size_t *count, struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
