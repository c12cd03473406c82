/* jinja.h - renders chat templates. Supports the part of Jinja2 that published templates use, with transformers'
 * settings, and limits steps, depth and memory. docs/reference/chat-templates.md lists the supported features. */
#ifndef KVC_MODELS_JINJA_JINJA_H
#define KVC_MODELS_JINJA_JINJA_H

#include <jansson.h>

#include "kvcull/chat.h"

struct kvc_jinja_job {
    const char *where; /* the template's name in errors */
    const char *source;
    size_t bytes;
    const json_t *own;       /* the model's variables, an object: bos_token, eos_token; NULL: none */
    const json_t *variables; /* the caller's variables, an object; its strings need not be valid UTF-8 */
    const char *date;        /* "2025-06-30" or "2025-06-30 14:05:09"; NULL: strftime_now is undefined */
};

/* Renders a template. Returns KVC_USAGE if the template rejects its input (raise_exception), KVC_INPUT if the template
 * is broken, exceeds a limit or needs an unsupported feature. */
enum kvc_status kvc_jinja_render(const struct kvc_jinja_job *job, struct kvc_rendered *made, struct kvc_error *error);

/* Returns true if an expression of the template uses this variable, or if the template cannot be parsed. */
bool kvc_jinja_reads(const char *source, size_t bytes, const char *variable);

#endif
