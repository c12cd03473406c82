/* chat.h - conversations as tokens: control tokens are the template's, not those of who writes messages. Installed as
 * kvcull/chat.h; docs/reference/chat-templates.md. */
#ifndef KVCULL_CHAT_H
#define KVCULL_CHAT_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A conversation as text, and who wrote which byte of it. */
struct kvc_rendered {
    char *text;  /* malloc'ed; ends in a NUL, and no other is in it */
    char *marks; /* [bytes], freed with text: 1 where the byte came from a message, a tool, a document or a variable,
                    else 0; all are 0 with special_content */
    size_t bytes;
};
/* As kvc_chat_text_with, for kvc_tokenize_marked. */
enum kvc_status kvc_chat_rendered(const struct kvc_model *model, const struct kvc_chat_options *options,
                                  const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                  struct kvc_error *error);
/* The tokens of a conversation: those of kvc_chat_rendered, behind what the model puts in front of a text where the
 * template writes no BOS. *tokens is malloc'ed; *count may be 0. */
enum kvc_status kvc_chat_tokens(const struct kvc_model *model, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, int32_t **tokens, size_t *token_count,
                                struct kvc_error *error);
/* The tokens of a text that several wrote, as kvc_tokenize makes them, but no control token is recognised that has a
 * byte in it whose mark is not 0. marks [bytes]; NULL: none is marked. Tokens that the model's files add without
 * calling them special are recognised everywhere, but for those that end a turn (docs/reference/chat-templates.md). */
enum kvc_status kvc_tokenize_marked(const struct kvc_model *model, const char *text, const char *marks, size_t bytes,
                                    unsigned flags, int32_t **tokens, size_t *count, struct kvc_error *error);

#ifdef __cplusplus
}
#endif
#endif
