/* fields.h - the fields of requests: one table says what each is, where it may stand, and its range. Reading requests,
 * refusals and the documentation follow it. */
#ifndef KVC_SERVE_FIELDS_H
#define KVC_SERVE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct serve_error;
struct serve_options;

/* cache_prompt: whether an answer goes on from a kept session; SERVE_FORK: from a copy, and its own is not kept. */
enum serve_reuse { SERVE_UNSAID = -1, SERVE_ANEW, SERVE_GO_ON, SERVE_FORK };

/* Where a field may stand, as bits. */
enum serve_where { SERVE_COMPLETIONS = 1, SERVE_CHAT = 2, SERVE_TOKENIZE = 4, SERVE_DETOKENIZE = 8 };

enum { SERVE_LENGTH_UNSAID = -2, SERVE_NO_LIMIT = -1 }; /* of max_tokens */

/* What a request says. JSON values belong to its body. */
struct serve_values {
    bool stream, echo, include_usage, return_token_ids, return_held, logits_hash, ignore_eos, chat_logprobs,
        add_special, pieces, special, special_content;
    int64_t max_tokens, n, seed, top_k, logprobs, top_logprobs, cache_prompt; /* -1: not given, where that is told */
    double temperature, top_p, min_p, repeat_penalty, frequency_penalty, presence_penalty;
    const char *model, *kv, *content, *reasoning_effort;
    json_t *prompt, *messages, *stop, *logit_bias, *stream_options, *template_values, *tokens;
};

/* Fills values with defaults and with what the body has, from which it removes members that are null. Standard error
 * names fields that are ignored. False: refused; the error names the field. */
bool serve_fields_read(json_t *body, enum serve_where where, const struct serve_options *options,
                       struct serve_values *values, struct serve_error *error);
/* The one of names [..., NULL] that an unknown name is a slip of; NULL: it is another word. */
const char *serve_meant(const char *name, const char *const *names);

#endif
