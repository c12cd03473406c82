/* grammar.h - grammars as patterns of PCRE2: what the translators of schemas and of GBNF share. */
#ifndef KVC_MODELS_GRAMMAR_GRAMMAR_H
#define KVC_MODELS_GRAMMAR_GRAMMAR_H

#include "kvcull/grammar.h"

/* A growable pattern. `failed` is true after an allocation has failed or the pattern became too long. */
struct kvc_regex {
    char *text; /* terminated by a NUL, which `bytes` does not count */
    size_t bytes, capacity;
    bool failed;
};
void kvc_regex_add(struct kvc_regex *regex, const char *text, size_t bytes);
void kvc_regex_put(struct kvc_regex *regex, const char *text);
__attribute__((format(printf, 2, 3))) void kvc_regex_print(struct kvc_regex *regex, const char *format, ...);
/* Appends text [bytes] so that the pattern matches just this text, which is UTF-8. */
void kvc_regex_literal(struct kvc_regex *regex, const char *text, size_t bytes);
/* Appends one code point, usable inside a class, too. */
void kvc_regex_code_point(struct kvc_regex *regex, uint32_t code);
void kvc_regex_free(struct kvc_regex *regex);

/* Translate a schema, a GBNF grammar or a sequence. Fail as kvc_grammar_open does. */
enum kvc_status kvc_schema_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error);
enum kvc_status kvc_gbnf_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error);
enum kvc_status kvc_sequence_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error);
/* Returns true if the grammar matches control tokens by their names. */
bool kvc_grammar_names(const struct kvc_grammar *grammar);

/* Boundary code points, ascending, perhaps repeated: between two of them, a pattern treats all characters alike. */
struct kvc_points {
    uint32_t *items; /* [count] */
    size_t count;
    bool exact; /* false: there may be others */
};
/* Finds the points of a valid pattern. Returns false if there is no memory. The caller frees points->items. */
bool kvc_points_find(struct kvc_points *points, const char *regex, size_t bytes);

/* The memory of a series of matches; one thread uses it at a time. */
struct kvc_matcher {
    const struct kvc_grammar *grammar;
    void *data, *context, *stack; /* pcre2_match_data, pcre2_match_context, pcre2_jit_stack (NULL: none) */
    uint64_t steps_left;          /* steps left for matches that need more than the usual steps */
    bool exhausted; /* since the last kvc_matcher_possible began, a match took too many steps or too much memory */
    bool no_memory; /* an allocation has failed */
};
bool kvc_matcher_open(struct kvc_matcher *matcher, const struct kvc_grammar *grammar); /* false: no memory */
void kvc_matcher_close(struct kvc_matcher *matcher);
void kvc_matcher_refill(struct kvc_matcher *matcher); /* sets steps_left to its maximum */
/* Returns true if text [bytes] is a text of the grammar, or the beginning of such a text. The text has room for three
 * more bytes, and the function overwrites them. */
bool kvc_matcher_possible(struct kvc_matcher *matcher, char *text, size_t bytes);
bool kvc_matcher_whole(struct kvc_matcher *matcher, const char *text, size_t bytes); /* whether it is a text of the
                                                                                      * grammar */

#endif
