/* gbnf.c - translates grammars in llama.cpp's format into patterns. */
#include "models/grammar/grammar.h"

enum kvc_status kvc_gbnf_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error) {
    (void)text, (void)bytes, (void)regex;
    return kvc_fail(error, KVC_USAGE, "grammar: not yet");
}
