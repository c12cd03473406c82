/* gguf_maker.h - builds GGUF files byte by byte, and checks whether the reader accepts them. */
#ifndef KVC_TESTS_MODELS_GGUF_MAKER_H
#define KVC_TESTS_MODELS_GGUF_MAKER_H

#include "tests/models/file_maker.h"

#include <inttypes.h>

#include "models/files/gguf.h"

static inline void start(struct maker *to, uint64_t tensors, uint64_t keys) {
    to->used = 0;
    put_bytes(to, "GGUF", 4);
    put_number(to, 3, 4);
    put_number(to, tensors, 8);
    put_number(to, keys, 8);
}

static inline void put_key(struct maker *to, const char *key, uint32_t type) {
    put_text(to, key);
    put_number(to, type, 4);
}

static inline void put_uint32(struct maker *to, const char *key, uint32_t value) {
    put_key(to, key, KVC_GGUF_U32);
    put_number(to, value, 4);
}

/* dimensions innermost first, as the format has them */
static inline void put_tensor(struct maker *to, const char *name, uint32_t count, const uint64_t *dimensions,
                              uint32_t type, uint64_t offset) {
    put_text(to, name);
    put_number(to, count, 4);
    for (uint32_t i = 0; i < count; i++) {
        put_number(to, dimensions[i], 8);
    }
    put_number(to, type, 4);
    put_number(to, offset, 8);
}

static inline void put_data(struct maker *to, size_t alignment, size_t bytes) {
    while (to->used % alignment != 0) {
        put_number(to, 0, 1);
    }
    for (size_t i = 0; i < bytes; i++) {
        put_number(to, i, 1);
    }
}

static struct maker made; /* cmocka runs one test at a time */

static inline void refuse(const char *says) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    const char *path = write_file("bad.gguf", made.data, made.used);
    check_refusal(kvc_gguf_open(path, &file, &error), KVC_INPUT, &error, says);
    assert_null(file);
}

static inline struct kvc_gguf *accept(void) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    if (kvc_gguf_open(write_file("good.gguf", made.data, made.used), &file, &error)) {
        print_error("%s\n", error.text);
        fail();
    }
    return file;
}

#endif
