/* test_assert.c - KVC_ASSERT: a false condition prints one line and ends the process; without assertions the condition
 * is never computed. The test switches assertions itself, whatever configure chose. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#undef KVC_ASSERTIONS
#define KVC_ASSERTIONS 1
#include "core/base/assert.h"
#include "tests/check.h"
#include "tests/core/assert_off.h"

static int computed;

static int counted(int value) {
    computed++;
    return value;
}

static void fails(int lists) { KVC_ASSERT(lists == 3); }

/* Calls `function` in a child process. Returns the child's status and its standard error. */
static int ended(void (*function)(int), int argument, char *text, size_t capacity) {
    int ends[2], status;
    size_t bytes = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        function(argument);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; bytes < capacity - 1 && (n = read(ends[0], text + bytes, capacity - 1 - bytes)) > 0;)
        bytes += (size_t)n;
    text[bytes] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_false_condition_ends_the_process(void **state) {
    (void)state;
    char text[400];
    const int status = ended(fails, 4, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    const char *newline = strchr(text, '\n');
    assert_non_null(newline);
    assert_int_equal(newline[1], 0);
    assert_non_null(strstr(text, "test_assert.c:"));
    assert_non_null(strstr(text, ": fails: assertion failed: lists == 3\n"));
}

static void a_true_condition_goes_on(void **state) {
    (void)state;
    char text[400];
    const int status = ended(fails, 3, text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(text, "");
    computed = 0;
    KVC_ASSERT(counted(1));
    assert_int_equal(computed, 1);
}

static void without_assertions_nothing_is_computed(void **state) {
    (void)state;
    computed = 0;
    assert_without(counted);
    assert_int_equal(computed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_false_condition_ends_the_process),
        cmocka_unit_test(a_true_condition_goes_on),
        cmocka_unit_test(without_assertions_nothing_is_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
