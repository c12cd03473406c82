/* assert.c - reports a failed assertion and ends the process. */
#undef KVC_ASSERTIONS
#define KVC_ASSERTIONS 1 /* a test uses this function in every build */
#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void kvc_assert_failed(const char *file, int line, const char *function, const char *condition) {
    fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
    abort();
}
