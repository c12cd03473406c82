/* template.h - renders conversations as text with a model's own chat template or a named one. */
#ifndef KVC_MODELS_CHAT_TEMPLATE_H
#define KVC_MODELS_CHAT_TEMPLATE_H

#include "models/jinja/jinja.h"
#include "models/tokenizer/tokenizer.h"

/* Implements kvc_chat_text_with. The caller frees made->text. If `tokenizer` is NULL, uses a named template with the
 * special tokens of its family. */
enum kvc_status kvc_chat_render(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                struct kvc_error *error);

/* Implements kvc_chat_reads. */
bool kvc_chat_text_reads(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                         const char *variable);

/* If the files name only eos as the end of an answer, finds the token that the model's template writes there, and marks
 * it as a token that ends turns. A template that cannot be rendered is not an error here. */
enum kvc_status kvc_chat_find_turn_end(struct kvc_tokenizer *tokenizer, struct kvc_error *error);

/* Templates for models whose files have none. bos, eos: the family's special tokens, used if there is no tokenizer. */
struct kvc_named_template {
    const char *name, *summary, *bos, *eos, *text;
};
extern const struct kvc_named_template kvc_named_templates[]; /* the last row's name is NULL */

#endif
