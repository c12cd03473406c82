/* file_maker.h - builds files byte by byte in a temporary folder, and checks how readers refuse them, for tests of file
 * formats. */
#ifndef KVC_TESTS_MODELS_FILE_MAKER_H
#define KVC_TESTS_MODELS_FILE_MAKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvcull.h"
#include "tests/check.h"

struct maker {
    unsigned char data[1 << 18];
    size_t used;
};

static inline void put_bytes(struct maker *to, const void *data, size_t count) {
    assert_true(count <= sizeof to->data - to->used);
    if (count > 0) {
        memcpy(to->data + to->used, data, count);
        to->used += count;
    }
}

static inline void put_number(struct maker *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(value >> (8 * i));
        put_bytes(to, &byte, 1);
    }
}

static inline void put_text(struct maker *to, const char *text) {
    put_number(to, strlen(text), 8);
    put_bytes(to, text, strlen(text));
}

/* Returns the path of this process's folder, which is always the same. */
static inline const char *own_folder(void) {
    static char folder[200];
    if (!folder[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/kvcull-test-XXXXXX", base ? base : "/tmp");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

/* Returns a path in that folder. The result is valid until the fourth later call. */
static inline const char *own_path(const char *name) {
    static char paths[4][700];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", own_folder(), name);
    return path;
}

static inline const char *write_file(const char *name, const void *data, size_t bytes) {
    const char *path = own_path(name);
    unlink(path); /* On some file systems, truncating an existing file waits for the disk. */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(bytes == 0 || fwrite(data, bytes, 1, file) == 1);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline int remove_own_folder(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", own_folder());
    return system(command) == 0 ? 0 : -1;
}

/* Returns the number of files in the process's folder whose names begin with `begin`. */
static inline int count_files(const char *begin) {
    char command[400];
    snprintf(command, sizeof command, "ls -A '%s' | grep -c '^%s'", own_folder(), begin);
    FILE *out = popen(command, "r");
    int count = -1;
    assert_non_null(out);
    assert_int_equal(fscanf(out, "%d", &count), 1);
    pclose(out);
    return count;
}

/* Checks that the error is one line that contains `says`. KVCULL_SHOW_ERRORS=1 prints all of these lines, so that
 * people can judge their wording. */
static inline void check_refusal(enum kvc_status status, enum kvc_status expected, const struct kvc_error *error,
                                 const char *says) {
    if (status != expected || !strstr(error->text, says) || strchr(error->text, '\n')) {
        print_error("status %d, expected %d; \"%s\" should say \"%s\"\n", (int)status, (int)expected, error->text,
                    says);
        fail();
    }
    assert_int_equal(error->status, status);
    if (getenv("KVCULL_SHOW_ERRORS")) {
        print_message("%s\n", error->text);
    }
}

/* Returns the path of a file in ../shared of the source tree or in $KVCULL_SHARED, or NULL if the file does not exist.
 */
static inline const char *shared_file(const char *name) {
    static char path[400];
    const char *shared = getenv("KVCULL_SHARED"), *top = getenv("top_srcdir");
    if (shared) {
        snprintf(path, sizeof path, "%s/%s", shared, name);
    } else {
        snprintf(path, sizeof path, "%s/../shared/%s", top ? top : ".", name);
    }
    return access(path, R_OK) == 0 ? path : NULL;
}

#endif
