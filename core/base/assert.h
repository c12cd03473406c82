/* assert.h - KVC_ASSERT(condition) states an invariant: a condition that holds unless kvcull itself has an error.
 * KVC_ASSERT never replaces a check of user input, which ends in an error message.
 *
 * With ./configure --enable-assertions a condition that is false prints one line to standard error and ends the process
 * by SIGABRT. Otherwise the compiler only checks that the condition is valid; no code remains. A condition must
 * therefore have no side effects. It should not cost more than the code around it. */
#ifndef KVC_CORE_BASE_ASSERT_H
#define KVC_CORE_BASE_ASSERT_H

#ifdef KVC_ASSERTIONS

/* Prints "FILE:LINE: FUNCTION: assertion failed: CONDITION" and aborts. */
_Noreturn void kvc_assert_failed(const char *file, int line, const char *function, const char *condition);

#define KVC_ASSERT(condition) ((condition) ? (void)0 : kvc_assert_failed(__FILE__, __LINE__, __func__, #condition))

#else

#define KVC_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))

#endif

#endif
