/* memory_file.h - makes a file in memory from bytes, for fuzz targets of readers that need a path. */
#ifndef KVC_TESTS_FUZZ_MEMORY_FILE_H
#define KVC_TESTS_FUZZ_MEMORY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvcull/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void check(bool holds) {
    if (!holds) {
        abort();
    }
}

/* Writes the bytes to a file in memory and returns its path. All calls use the same file. */
static inline const char *memory_file(const uint8_t *data, size_t bytes) {
    static int file = -1;
    static char path[40];
    if (file < 0) {
        file = memfd_create("input", 0);
        check(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    check(ftruncate(file, 0) == 0);
    check(pwrite(file, data, bytes, 0) == (ssize_t)bytes);
    return path;
}

/* Discards the output of the program until the call with `false`. The sanitizers do not use this output for their
 * reports. */
static inline void silence(bool on) {
#ifdef __GLIBC__
    static FILE *nowhere, *out, *err;
    if (!nowhere) {
        nowhere = fopen("/dev/null", "w");
        check(nowhere != NULL);
        out = stdout;
        err = stderr;
    }
    stdout = on ? nowhere : out;
    stderr = on ? nowhere : err;
#else
    (void)on;
#endif
}

/* Checks a refusal: its status is KVC_INPUT or, for excessive sizes, KVC_RESOURCE, its message is one line, and nothing
 * was opened. */
static inline void check_refusal(enum kvc_status status, const void *opened, const struct kvc_error *error) {
    check(status == KVC_INPUT || status == KVC_RESOURCE);
    check(!opened && error->text[0] && !strchr(error->text, '\n') && error->status == status);
}

/* Reads every byte, so that a sanitizer notices bytes outside allocated memory. */
static inline void touch(const void *data, uint64_t bytes) {
    static volatile unsigned char sum;
    for (uint64_t i = 0; i < bytes; i++) {
        sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
    }
}

#endif
