/* fields.h - the fields of requests. One table defines each field's type, paths and range. The parser, the error
 * messages and the documentation use it. */
#ifndef KVC_SERVE_FIELDS_H
#define KVC_SERVE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct serve_error;
struct serve_options;

/* cache_prompt: whether an answer continues a cached session. SERVE_FORK: the answer continues a copy, and its own
 * session is not cached. */
enum serve_reuse { SERVE_UNSAID = -1, SERVE_ANEW, SERVE_GO_ON, SERVE_FORK };

/* The paths that accept a field, as bits. */
enum serve_where {
    SERVE_COMPLETIONS = 1,
    SERVE_CHAT = 2,
    SERVE_TOKENIZE = 4,
    SERVE_DETOKENIZE = 8,
    SERVE_FORECAST = 16
};

enum { SERVE_LENGTH_UNSAID = -2, SERVE_NO_LIMIT = -1 }; /* special values of max_tokens */

/* The values of a request. JSON values belong to its body. */
struct serve_values {
    bool stream, echo, include_usage, return_token_ids, return_held, return_lost, return_progress, logits_hash,
        ignore_eos, chat_logprobs, add_special, pieces, special, special_content, parallel_tool_calls;
    int64_t prompt_tokens, max_tokens, n, seed, top_k, logprobs, top_logprobs,
        cache_prompt; /* -1 if absent; this holds for prompt_tokens, seed, top_k, logprobs and cache_prompt */
    double temperature, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty;
    const char *model, *kv, *content, *reasoning_effort, *reasoning_format, *regex, *guided_regex, *grammar,
        *guided_grammar;
    json_t *prompt, *messages, *kvs, *stop, *logit_bias, *stream_options, *template_values, *tokens, *response_format,
        *tools, *tool_choice, *json_schema, *guided_json, *guided_choice, *structured_outputs;
};

/* Sets `values` to the defaults, then to the body's members. Removes null members from the body. Prints the names of
 * ignored fields on standard error. Returns false if the body is refused; the error names the field. */
bool serve_fields_read(json_t *body, enum serve_where where, const struct serve_options *options,
                       struct serve_values *values, struct serve_error *error);
/* Returns the element of names [..., NULL] that an unknown name probably misspells, or NULL. */
const char *serve_meant(const char *name, const char *const *names);

#endif
