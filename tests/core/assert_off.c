/* assert_off.c - code that is compiled without assertions, for test_assert.c. */
#undef KVC_ASSERTIONS
#include "core/base/assert.h"
#include "tests/core/assert_off.h"

void assert_without(int (*function)(int)) {
    (void)function;
    KVC_ASSERT(function(0));
    KVC_ASSERT(function(1));
}
