/* check.h - common checks of tests, and facts about the machine and the build. */
#ifndef KVC_TESTS_CHECK_H
#define KVC_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Valgrind runs code some fifty times slower and needs 40 ns for every fused multiply-add. There, and in tests that run
 * once more on another device, long loops take fewer cases, which together still cover everything. */
static inline bool kvc_test_thinned(void) { return getenv("KVCULL_VALGRIND") || getenv("KVCULL_TEST_THINNED"); }

/* Valgrind computes long double as double, so nothing can be compared with it there. */
static inline bool kvc_test_has_long_double(void) {
    volatile long double one = 1, small = 0x1p-60L;
    return one + small != one;
}

/* Anonymous resident bytes of this process; -1 if the system does not report them. */
static inline int64_t kvc_test_resident(void) {
    char line[256];
    long long kilobytes = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %lld kB", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes < 0 ? -1 : (int64_t)kilobytes * 1024;
}

/* Sanitizers, valgrind and similar tools keep memory of their own, so resident memory says nothing about kvcull. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_IS_MEANINGFUL 0
#else
#define RESIDENT_IS_MEANINGFUL (!kvc_test_thinned())
#endif

/* Skips a case and says why. A reason that begins with "elsewhere:" names the job that runs the case instead. */
#define SKIP_BECAUSE(reason)                                                                                           \
    do {                                                                                                               \
        print_message("%s\n", reason);                                                                                 \
        skip();                                                                                                        \
    } while (0)
#define SKIP_THINNED() SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case, with all its cases")

/* A call that must succeed; `error` is the caller's variable. */
#define FINE(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != KVC_OK)                                                                                          \
            fail_msg("%s: %s", #call, error.text);                                                                     \
    } while (0)

/* A call that must fail with the given status and a message that contains the text. */
#define REFUSED(call, status, text_part)                                                                               \
    do {                                                                                                               \
        error.text[0] = 0;                                                                                             \
        assert_int_equal(call, status);                                                                                \
        if (!strstr(error.text, text_part))                                                                            \
            fail_msg("%s: \"%s\" does not say \"%s\"", #call, error.text, text_part);                                  \
    } while (0)

#endif
