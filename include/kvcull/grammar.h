/** @file kvcull/grammar.h
 * Grammars: answers that must match a regular expression, a JSON schema or a GBNF grammar (docs/how-to/structured.md).
 * Installed as kvcull/grammar.h.
 */
#ifndef KVCULL_GRAMMAR_H
#define KVCULL_GRAMMAR_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The languages in which a grammar can be written. */
enum kvc_grammar_kind {
    KVC_GRAMMAR_REGEX,       /**< a regular expression of PCRE2; the whole answer must match */
    KVC_GRAMMAR_JSON_SCHEMA, /**< a JSON schema; the answer is one JSON value that is valid */
    KVC_GRAMMAR_GBNF,        /**< a grammar in llama.cpp's format, whose rule `root` is the answer */
    KVC_GRAMMAR_SEQUENCE     /**< texts and JSON values in turn, as in function calls. JSON:
                                  {"before": TEXT, "items": [[PART, ...], ...], "between": TEXT, "after": TEXT}; a PART
                                  is a TEXT or a JSON schema. The answer is `before`, one of the items, and `after`.
                                  With `between`, any number of further items may follow the first item, each after the
                                  text `between`. A TEXT may contain names of control tokens, such as "[TOOL_CALLS]" */
};
/** A set of texts. It does not change once it is open, so several threads and samplers may share it. */
struct kvc_grammar;
/** Reads a grammar from text [bytes]. Fails with KVC_USAGE if the text is wrong or uses a feature that is not
 * supported; the message names the place. Close the grammar with kvc_grammar_close after all samplers that use it. */
enum kvc_status kvc_grammar_open(enum kvc_grammar_kind kind, const char *text, size_t bytes,
                                 struct kvc_grammar **grammar, struct kvc_error *error);
/** Frees a grammar. NULL is allowed. */
void kvc_grammar_close(struct kvc_grammar *grammar);

/** What a grammar says of a text. */
enum kvc_grammar_match {
    KVC_GRAMMAR_WRONG, /**< no text of the grammar begins with it */
    KVC_GRAMMAR_BEGUN, /**< it is the beginning of a text of the grammar, but not a whole text */
    KVC_GRAMMAR_WHOLE  /**< it is a text of the grammar; it may also be the beginning of longer texts */
};
/** Compares text [bytes] with a grammar. The text may end within a character. KVC_GRAMMAR_WRONG may
 * also mean that the comparison takes too many steps, or that the text ends within a rare character. Fails with
 * KVC_RESOURCE if there is no memory. */
enum kvc_status kvc_grammar_check(const struct kvc_grammar *grammar, const char *text, size_t bytes,
                                  enum kvc_grammar_match *match, struct kvc_error *error);

/** Lets kvc_sample draw only tokens that keep the answer within a grammar. If a token would leave the grammar, the
 * sampler draws another token. This restricts each draw, not the distribution of whole answers. Call the function at
 * the start of each answer; a NULL grammar removes the restriction. `first` is the argument of kvc_token_bytes for the
 * first token. A token that ends the turn can be drawn only if the answer is whole. kvc_sample returns -1 if no token
 * is possible. A saved session does not contain the grammar. The model and the grammar must stay open until the sampler
 * is closed or this function is called again. Fails with KVC_INPUT if the model has no tokenizer, with KVC_USAGE if the
 * sampler is for another vocabulary, and with KVC_RESOURCE if there is no memory. */
enum kvc_status kvc_sampler_grammar(struct kvc_sampler *sampler, const struct kvc_model *model,
                                    const struct kvc_grammar *grammar, bool first, struct kvc_error *error);
/** Returns true if the answer so far is a text of the sampler's grammar, or if the sampler has none. */
bool kvc_sampler_whole(const struct kvc_sampler *sampler);

#ifdef __cplusplus
}
#endif

#endif
