/* assert_off.h - code that is compiled without assertions, for test_assert.c. */
#ifndef KVC_TESTS_CORE_ASSERT_OFF_H
#define KVC_TESTS_CORE_ASSERT_OFF_H

/* Asserts that `function` returns nonzero, for a false and a true argument. */
void assert_without(int (*function)(int));

#endif
