/* test_signals.c - signal handlers find the files being written and the mapped files; unprintable text is
 * replaced. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "tests/check.h"

enum { VALUES = 1 << 18 };
static const char file_name[] = "test_signals.safetensors", part[] = "test_signals.plain";

static struct kvc_tensor_reader *open_tensor(const float **values) {
    const struct kvc_tensor tensor = {.name = "x", .dimensions = 1, .shape = {VALUES}};
    static float zeros[VALUES];
    struct kvc_tensor_writer *writer;
    struct kvc_tensor_reader *reader;
    struct kvc_tensor read;

    assert_int_equal(kvc_tensor_writer_open(file_name, &tensor, 1, &writer, NULL), KVC_OK);
    assert_int_equal(kvc_tensor_write(writer, 0, zeros, VALUES, NULL), KVC_OK);
    assert_int_equal(kvc_tensor_writer_commit(writer, NULL), KVC_OK);
    assert_int_equal(kvc_tensor_reader_open(file_name, &reader, NULL), KVC_OK);
    assert_int_equal(kvc_tensor_read(reader, "x", &read, NULL), KVC_OK);
    *values = read.values;
    return reader;
}

static void mappings_are_known(void **state) {
    const float *values;
    struct kvc_tensor_reader *reader = open_tensor(&values);

    (void)state;
    assert_string_equal(kvc_mapped_path(values), file_name);
    assert_string_equal(kvc_mapped_path((const char *)(values + VALUES) - 1), file_name);
    assert_null(kvc_mapped_path(values + VALUES));
    assert_null(kvc_mapped_path(&reader));
    assert_null(kvc_mapped_path(NULL));
    kvc_tensor_reader_close(reader);
    assert_null(kvc_mapped_path(values));
    unlink(file_name);
}

static void unfinished_files_go(void **state) {
    struct kvc_output *outputs[3];
    char name[3][64];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(kvc_output_open(part, 10, &outputs[i], NULL), KVC_OK);
        snprintf(name[i], sizeof name[i], "%s.part-%ld-%u", part, (long)getpid(), i);
        assert_int_equal(access(name[i], F_OK), 0);
    }
    kvc_output_abandon(outputs[1]);
    assert_int_equal(access(name[0], F_OK), 0);
    assert_int_equal(kvc_output_commit(outputs[0], NULL), KVC_OK);
    kvc_output_remove_all();
    kvc_output_remove_all();
    assert_int_not_equal(access(name[2], F_OK), 0);
    assert_int_equal(access(part, F_OK), 0); /* a complete file stays */
    kvc_output_abandon(outputs[2]);
    unlink(part);
}

static void folders_made_for_them_go(void **state) {
    static const char folder[] = "test_signals.folder", inside[] = "test_signals.folder/x";
    struct kvc_output *made, *file, *again;

    (void)state;
    rmdir(folder);
    for (int ends = 0; ends < 3; ends++) { /* ended by a signal, abandoned, committed */
        assert_int_equal(kvc_output_folder(folder, &made, NULL), KVC_OK);
        assert_non_null(made);
        assert_int_equal(kvc_output_folder(folder, &again, NULL), KVC_OK);
        assert_null(again); /* it existed before */
        assert_int_equal(kvc_output_open(inside, 0, &file, NULL), KVC_OK);
        if (ends == 0) {
            kvc_output_remove_all();
            assert_int_not_equal(access(folder, F_OK), 0);
        }
        kvc_output_abandon(file);
        if (ends == 2)
            assert_int_equal(kvc_output_commit(made, NULL), KVC_OK);
        else
            kvc_output_abandon(made);
        assert_int_equal(access(folder, F_OK) == 0, ends == 2);
    }
    kvc_output_remove_all(); /* does not remove committed files */
    assert_int_equal(access(folder, F_OK), 0);
    rmdir(folder);
    assert_int_equal(kvc_output_folder("test_signals.none/x", &made, NULL), KVC_RESOURCE);
    assert_null(made);
    assert_int_equal(kvc_output_folder("/dev/null", &made, NULL), KVC_RESOURCE);
}

static void *touch(void *address) {
    const volatile char *byte = address;

    return *byte ? address : NULL;
}

/* Starts a process in which a second thread reads the last byte. Returns how the process ends, and its message. */
static int end_of(bool known, char message[600]) {
    int ends[2], status;
    ssize_t got, all = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        const float *values;
        pthread_t thread;
        char *address;

        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], 2);
        open_tensor(&values);
        address = (char *)(uintptr_t)(values + VALUES - 1);
        if (!known) { /* mapped by other code */
            FILE *stream = fopen(file_name, "rb");
            address = mmap(NULL, VALUES, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
            address += VALUES - 1;
        }
        for (int i = 1; i < 32; i++) /* remove a sanitizer's own handlers */
            signal(i, SIG_DFL);
        cli_signals();
        if (truncate(file_name, 0) != 0 || pthread_create(&thread, NULL, touch, address) != 0)
            _exit(99);
        pthread_join(thread, NULL);
        _exit(98);
    }
    close(ends[1]);
    while ((got = read(ends[0], message + all, (size_t)(599 - all))) > 0)
        all += got;
    message[all] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(file_name);
    return status;
}

static void a_file_cut_short_is_told(void **state) {
    char message[600];
    int status;

    (void)state;
    if (getenv("KVCULL_VALGRIND")) /* valgrind has its own exit status for a process that frees nothing at its end */
        SKIP_BECAUSE("elsewhere: ./dev check --plain runs this case, without valgrind");
    status = end_of(true, message);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), KVC_INPUT);
    assert_string_equal(message, "kvcull: test_signals.safetensors: cut short while it was in use, or its disk fails; "
                                 "give a file that nothing changes\n");
    status = end_of(false, message);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    assert_string_equal(message, "");
}

static void lines_are_printable(void **state) {
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"a\tb\nc\r\033[31m\177", "a?b?c??[31m?"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b\xc2\xa0", "??\xc2\xa0"},                    /* a control character of the range 0x80 to 0x9f */
        {"\xff\xc3", "??"},                                    /* invalid UTF-8, and a truncated character */
        {"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", "?????????"}, /* overlong encodings */
        {"\xed\xa0\x80\xf4\x90\x80\x80", "???????"}}; /* half a surrogate pair, and a code point above U+10FFFF */
    char line[64], *text = malloc(5000);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kvc_printable(cases[i].text, strlen(cases[i].text), line, sizeof line);
        assert_string_equal(line, cases[i].line);
    }
    kvc_printable("0123456789abcdef", 16, line, 11); /* 2 characters, the gap, 5 characters */
    assert_string_equal(line, "01...bcdef");
    kvc_printable("0123456789", 10, line, 11);
    assert_string_equal(line, "0123456789");
    kvc_printable("0123456789", 10, line, 1);
    assert_string_equal(line, "");
    for (size_t n = 0; n < 40; n++) { /* characters stay whole wherever the text is cut */
        for (size_t i = 0; i < n; i++)
            memcpy(text + 3 * i, "\xe2\x82\xac", 3);
        for (size_t capacity = 1; capacity < 64; capacity++) {
            kvc_printable(text, 3 * n, line, capacity);
            assert_true(strlen(line) < capacity);
            assert_null(strchr(line, '?'));
            for (char *c = line; *c; c += *c == '.' ? 1 : 3)
                assert_true(*c == '.' || memcmp(c, "\xe2\x82\xac", 3) == 0);
        }
    }
    memset(text, 'p', 4999);
    text[4999] = '\0';
    struct kvc_error error;
    kvc_fail(&error, KVC_INPUT, "%s: the reason", text);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_string_equal(error.text + strlen(error.text) - 12, ": the reason");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mappings_are_known), cmocka_unit_test(unfinished_files_go),
                                       cmocka_unit_test(folders_made_for_them_go),
                                       cmocka_unit_test(a_file_cut_short_is_told),
                                       cmocka_unit_test(lines_are_printable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
