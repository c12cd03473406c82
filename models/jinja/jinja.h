/* jinja.h - evaluates chat templates: the part of Jinja2 that released templates use, as transformers compiles it,
 * bounded in steps, depth and memory. docs/reference/chat-templates.md says what is there. */
#ifndef KVC_MODELS_JINJA_JINJA_H
#define KVC_MODELS_JINJA_JINJA_H

#include <jansson.h>

#include "kvcull/chat.h"

struct kvc_jinja_job {
    const char *where; /* names the template in errors */
    const char *source;
    size_t bytes;
    const json_t *own;       /* variables of the model's, an object: bos_token, eos_token; NULL: none */
    const json_t *variables; /* the caller's, an object; strings in it need not be valid UTF-8 */
    const char *date;        /* "2025-06-30" or "2025-06-30 14:05:09"; NULL: there is no strftime_now */
};

/* KVC_USAGE where the template refuses what it is given (raise_exception), KVC_INPUT where it is broken, goes too far
 * or needs what is not there. */
enum kvc_status kvc_jinja_render(const struct kvc_jinja_job *job, struct kvc_rendered *made, struct kvc_error *error);

/* Whether an expression of the template has a variable of this name; true where the template cannot be parsed. */
bool kvc_jinja_reads(const char *source, size_t bytes, const char *variable);

#endif
