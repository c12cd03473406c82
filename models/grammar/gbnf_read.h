/* gbnf_read.h - the state of the reader of llama.cpp's grammars, and its functions that read characters. */
#ifndef KVC_MODELS_GRAMMAR_GBNF_READ_H
#define KVC_MODELS_GRAMMAR_GBNF_READ_H

#include "models/grammar/gbnf.h"

struct gbnf_reader {
    const char *text;
    size_t bytes, at;
    uint32_t line;
    unsigned depth; /* open parentheses */
    struct gbnf *gbnf;
    struct kvc_error *error;
    enum kvc_status status;
};

/* Returns the next byte, or -1 at the end. */
static inline int gbnf_peek(const struct gbnf_reader *reader) {
    return reader->at < reader->bytes ? (unsigned char)reader->text[reader->at] : -1;
}
/* Fail with "grammar, line N: ..." and return false. */
__attribute__((format(printf, 3, 4))) bool kvc_gbnf_fail(struct gbnf_reader *reader, uint32_t line, const char *format,
                                                         ...);
bool kvc_gbnf_no_room(struct gbnf_reader *reader); /* a node, a rule or a range could not be added */
/* Writes the next character, in quotes, for a message. */
#define GBNF_FOUND_BYTES 16
const char *kvc_gbnf_found(const struct gbnf_reader *reader, char text[GBNF_FOUND_BYTES]);
/* Skips blanks and comments, and line ends if `lines`. */
void kvc_gbnf_space(struct gbnf_reader *reader, bool lines);
/* Read "..." and [...], whose first character is the next one. They append the ranges and fill the node. */
bool kvc_gbnf_literal(struct gbnf_reader *reader, struct gbnf_node *node);
bool kvc_gbnf_class(struct gbnf_reader *reader, struct gbnf_node *node);

#endif
