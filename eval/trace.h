/* trace.h - what a policy holds of one sample, looked at again and again: which tokens each head keeps after the
 * prompt, and where the tokens of some spans were lost. */
#ifndef KVC_EVAL_TRACE_H
#define KVC_EVAL_TRACE_H

#include "eval/prompt.h"

struct eval_prompt_text { /* the bytes of a prompt's tokens; control tokens have none */
    char *bytes;          /* malloc'ed, ends in a NUL that is not counted */
    size_t count;
    size_t *ends; /* [tokens] where each token's bytes end */
    size_t tokens;
};
enum kvc_status eval_prompt_text_open(const struct kvc_model *model, const struct eval_prompt *prompt,
                                      struct eval_prompt_text *text, struct kvc_error *error);
void eval_prompt_text_free(struct eval_prompt_text *text);
/* Its tokens' texts, an array of strings; the bytes of a character stand in the last of its tokens. */
json_t *eval_prompt_text_json(const struct eval_prompt_text *text);

struct eval_traced_span { /* some of the prompt's tokens */
    char *what;           /* their text, malloc'ed */
    size_t first, count;
};
struct eval_spans {
    struct eval_traced_span *items;
    size_t count;
};
/* Adds the tokens that have a byte of `what`, which the prompt's text has: the occurrence after `skip` others. *there
 * is false where there is none. KVC_RESOURCE: no memory. */
enum kvc_status eval_spans_add(struct eval_spans *spans, const struct eval_prompt_text *text, const char *what,
                               size_t skip, bool *there, struct kvc_error *error);
void eval_spans_free(struct eval_spans *spans);

/* What one policy is traced on. */
struct eval_trace_request {
    struct kvc_model *model;
    const struct kvc_session_options *options;
    const struct eval_prompt *prompt;
    const struct eval_spans *spans;
    bool seen;     /* text and question are one prompt, as eval_ask has it */
    uint32_t most; /* tokens of an answer */
    float *logits; /* [vocab], for its use */
};
/* Runs the sample once more, looking at what is held after every chunk, prompt and step. *trace: a JSON object (below),
 * which the caller gives back. */
enum kvc_status eval_trace(const struct eval_trace_request *request, json_t **trace, struct kvc_error *error);

/* A trace:
 *   answer   what was answered
 *   context  tokens of the text; the question follows
 *   entries  [layer][list] entries held after the prompt, the question included
 *   held     value, count, value, count ...: by how many lists each token of the prompt is held then, in runs
 *   text     the tokens' texts; left out where an earlier trace of the same prompt has them
 *   moments  names of the moments at which tokens of spans were lost: "chunk 2", "prompt", "question", "step 17"
 *   spans    [] of objects
 *     what, first, count    its text, its tokens
 *     prompt, end           [layer][list] how many of them are held after the prompt, and at the answer's end
 *     broken, gone          [layer][list] the moment at which the first of them went, and the last; -1: never
 *     lost                  [moment] how many were lost then, of all lists
 * The name of the first member that is missing or wrong; NULL: none. tokens: of the prompt. */
const char *eval_trace_wrong(const json_t *trace, json_int_t tokens);

const char *eval_member(const json_t *object, const char *name); /* a string member; "" where there is none */
/* Whether two records are of the same prompt with the same settings, whatever the policy; and two spans of these. */
bool eval_same_prompt(const json_t *a, const json_t *b);
bool eval_same_span(const json_t *a, const json_t *span_a, const json_t *b, const json_t *span_b);

/* What the members of a trace that passed eval_trace_wrong come to, for tables and pictures. */
struct eval_span_sums {
    uint64_t lists;                  /* layers times heads */
    uint64_t prompt_all, prompt_any; /* of these, those that hold all of its tokens after the prompt, any */
    uint64_t end_all, end_any;       /* at the answer's end */
    const char *moment;              /* at which most entries were lost; NULL: none was */
    uint64_t moment_lost, entries;   /* how many then, of so many */
    size_t worst[3], best[3], worst_count, best_count; /* layers by the share of entries held at the end */
};
void eval_span_sum(const json_t *trace, const json_t *span, struct eval_span_sums *sums);
json_int_t eval_matrix_at(const json_t *matrix, size_t layer, size_t list);

#endif
