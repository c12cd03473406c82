/* template.h - what one chat template is: a name and a function that writes a conversation in its form. */
#ifndef KVC_MODELS_CHAT_TEMPLATE_H
#define KVC_MODELS_CHAT_TEMPLATE_H

#include "models/tokenizer/parts.h"

struct kvc_chat {
    const struct kvc_message *messages;
    size_t count;
    bool answer;
    const char *bos, *eos; /* "" where the model has none */
    const char *jinja;     /* NULL: chosen by name */
    struct kvc_text *out;
    bool full; /* there was no memory */
    struct kvc_error *error;
};

struct kvc_chat_family {
    const char *name, *summary, *bos, *eos;
    enum kvc_status (*render)(struct kvc_chat *chat);
};

extern const struct kvc_chat_family kvc_chat_families[]; /* ends with name NULL */

#endif
