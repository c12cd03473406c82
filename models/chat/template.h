/* template.h - conversations as text: a model's own chat template, or a named one. */
#ifndef KVC_MODELS_CHAT_TEMPLATE_H
#define KVC_MODELS_CHAT_TEMPLATE_H

#include "models/jinja/jinja.h"
#include "models/tokenizer/tokenizer.h"

/* As kvc_chat_text_with; free made->text. tokenizer NULL: a named template with its family's special tokens. */
enum kvc_status kvc_chat_render(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                const struct kvc_message *messages, size_t count, struct kvc_rendered *made,
                                struct kvc_error *error);

/* As kvc_chat_reads. */
bool kvc_chat_text_reads(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                         const char *variable);

/* Where the files name no end of an answer but eos, the token that the model's template writes there ends turns, too. A
 * template that cannot be rendered is no error here. */
enum kvc_status kvc_chat_find_turn_end(struct kvc_tokenizer *tokenizer, struct kvc_error *error);

/* Templates for models whose files have none. bos, eos: the family's, where there is no tokenizer to ask. */
struct kvc_named_template {
    const char *name, *summary, *bos, *eos, *text;
};
extern const struct kvc_named_template kvc_named_templates[]; /* ends with name NULL */

#endif
