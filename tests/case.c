/* case.c - part of every test program: KVCULL_TEST_CASE, a name or a pattern with * and ?, chooses its cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void choose_cases(void) {
    const char *pattern = getenv("KVCULL_TEST_CASE");
    if (pattern && *pattern)
        cmocka_set_test_filter(pattern);
}
