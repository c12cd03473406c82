/* memory_file.h - for fuzz targets of readers that need a path: makes a file in memory from bytes. */
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

/* A path to a file of these bytes; the same file each time. */
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

/* What parts of the program print between two calls is not looked at; what sanitizers find is written otherwise. */
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

/* A refusal is a bad input or, for what is too large here, a lack of memory: one line, and nothing opened. */
static inline void check_refusal(enum kvc_status status, const void *opened, const struct kvc_error *error) {
    check(status == KVC_INPUT || status == KVC_RESOURCE);
    check(!opened && error->text[0] && !strchr(error->text, '\n') && error->status == status);
}

/* Reads every byte, so that one outside its memory is seen. */
static inline void touch(const void *data, uint64_t bytes) {
    static volatile unsigned char sum;
    for (uint64_t i = 0; i < bytes; i++) {
        sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
    }
}

#endif
