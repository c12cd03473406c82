/* schema.c - translates JSON schemas into patterns. */
#include "models/grammar/grammar.h"

enum kvc_status kvc_schema_regex(const char *text, size_t bytes, struct kvc_regex *regex, struct kvc_error *error) {
    (void)text, (void)bytes, (void)regex;
    return kvc_fail(error, KVC_USAGE, "schema: not yet");
}
