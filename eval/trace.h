/* trace.h - traces which entries a policy holds during one sample: which tokens each head holds after the prompt, and
 * when the tokens of some spans were evicted. */
#ifndef KVC_EVAL_TRACE_H
#define KVC_EVAL_TRACE_H

#include "eval/prompt.h"

struct eval_prompt_text { /* the bytes of a prompt's tokens; control tokens have no bytes */
    char *bytes;          /* the caller frees them; a NUL follows, which count does not include */
    size_t count;
    size_t *ends; /* [tokens]: end of each token's bytes */
    size_t tokens;
};
enum kvc_status eval_prompt_text_open(const struct kvc_model *model, const struct eval_prompt *prompt,
                                      struct eval_prompt_text *text, struct kvc_error *error);
void eval_prompt_text_free(struct eval_prompt_text *text);
/* Returns the texts of the tokens, as an array of strings. A character that several tokens share belongs to the last of
 * them. */
json_t *eval_prompt_text_json(const struct eval_prompt_text *text);

struct eval_traced_span { /* some of the prompt's tokens */
    char *what;           /* text of these tokens, which the caller frees */
    size_t first, count;
};
struct eval_spans {
    struct eval_traced_span *items;
    size_t count;
};
/* Finds occurrence number `skip` (from 0) of `what` in the prompt's text, and adds the tokens that contain its bytes.
 * If there is no such occurrence, sets *there to false. Returns KVC_RESOURCE if memory runs out. */
enum kvc_status eval_spans_add(struct eval_spans *spans, const struct eval_prompt_text *text, const char *what,
                               size_t skip, bool *there, struct kvc_error *error);
void eval_spans_free(struct eval_spans *spans);

/* Input of a trace of one policy. */
struct eval_trace_request {
    struct kvc_model *model;
    const struct kvc_session_options *options;
    const struct eval_prompt *prompt;
    const struct eval_spans *spans;
    bool seen;     /* true: question-aware, as in eval_ask */
    uint32_t most; /* maximum number of tokens of an answer */
    float *logits; /* [vocab], scratch */
};
/* Runs the sample again, and inspects the lists after every chunk, prompt and step. *trace receives a JSON object,
 * described below, which the caller frees. */
enum kvc_status eval_trace(const struct eval_trace_request *request, json_t **trace, struct kvc_error *error);

/* Members of a trace:
 *
 *     answer   the answer's text
 *     context  tokens of the text; the question follows
 *     entries  [layer][list] entries held after the prompt, the question included
 *     held     for each prompt token, the number of lists that hold it after the prompt,
 *              run-length encoded: value, count, value, count ...
 *     text     the tokens' texts; absent if an earlier trace of the same prompt has them
 *     moments  names of the moments at which span tokens were evicted: "chunk 2", "prompt", "question", "step 17"
 *     spans    [] of objects
 *       what, first, count    the span's text and tokens
 *       prompt, end           [layer][list] number of its tokens held after the prompt, and at the answer's end
 *       broken, gone          [layer][list] the moment at which its first and last token were evicted; -1: never
 *       lost                  [moment] number of its tokens evicted then, over all lists
 *
 * Returns the name of the first missing or wrong member, or NULL if there is none. The prompt has `tokens` tokens. */
const char *eval_trace_wrong(const json_t *trace, json_int_t tokens);

/* Returns a member that is a string; "" if there is none. */
const char *eval_member(const json_t *object, const char *name);
/* eval_same_prompt returns true if two records have the same prompt and the same settings except the policy.
 * eval_same_span also compares a span of each. */
bool eval_same_prompt(const json_t *a, const json_t *b);
bool eval_same_span(const json_t *a, const json_t *span_a, const json_t *b, const json_t *span_b);

/* Sums over a valid trace, for tables and pictures. */
struct eval_span_sums {
    uint64_t lists;                  /* number of lists: layers times heads */
    uint64_t prompt_all, prompt_any; /* number of lists that hold all, or any, of the span's tokens after the prompt */
    uint64_t end_all, end_any;       /* the same counts at the end of the answer */
    const char *moment;              /* name of the moment with the most evictions; NULL: there was none */
    uint64_t moment_lost, entries; /* `moment_lost`: number of entries evicted at that moment; `entries`: all entries of
                                    * the span */
    /* layers that hold the smallest and the largest fraction of the entries at the end */
    size_t worst[3], best[3], worst_count, best_count;
};
void eval_span_sum(const json_t *trace, const json_t *span, struct eval_span_sums *sums);
json_int_t eval_matrix_at(const json_t *matrix, size_t layer, size_t list);

#endif
