/* test_gguf.c - the GGUF reader: values and tensors of good files, and how every kind of bad file is refused. */
#include "tests/file_maker.h"

#include <inttypes.h>

#include "models/gguf.h"

/* ---- building files ---- */

static void start(struct maker *to, uint64_t tensors, uint64_t keys) {
    to->used = 0;
    put_bytes(to, "GGUF", 4);
    put_number(to, 3, 4);
    put_number(to, tensors, 8);
    put_number(to, keys, 8);
}

static void put_key(struct maker *to, const char *key, uint32_t type) {
    put_text(to, key);
    put_number(to, type, 4);
}

static void put_uint32(struct maker *to, const char *key, uint32_t value) {
    put_key(to, key, KVC_GGUF_U32);
    put_number(to, value, 4);
}

/* dimensions innermost first, as the format has them */
static void put_tensor(struct maker *to, const char *name, uint32_t count, const uint64_t *dimensions, uint32_t type,
                       uint64_t offset) {
    put_text(to, name);
    put_number(to, count, 4);
    for (uint32_t i = 0; i < count; i++) {
        put_number(to, dimensions[i], 8);
    }
    put_number(to, type, 4);
    put_number(to, offset, 8);
}

static void put_data(struct maker *to, size_t alignment, size_t bytes) {
    while (to->used % alignment != 0) {
        put_number(to, 0, 1);
    }
    for (size_t i = 0; i < bytes; i++) {
        put_number(to, i, 1);
    }
}

static struct maker made; /* cmocka runs one test at a time */

static void refuse(const char *says) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    const char *path = write_file("bad.gguf", made.data, made.used);
    check_refusal(kvc_gguf_open(path, &file, &error), KVC_INPUT, &error, says);
    assert_null(file);
}

static struct kvc_gguf *accept(void) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    if (kvc_gguf_open(write_file("good.gguf", made.data, made.used), &file, &error)) {
        print_error("%s\n", error.text);
        fail();
    }
    return file;
}

/* ---- good files ---- */

static void make_good(void) {
    start(&made, 2, 9);
    put_uint32(&made, "a.u32", 4000000000u);
    put_key(&made, "a.i8", KVC_GGUF_I8);
    put_number(&made, 0xfe, 1);
    put_key(&made, "a.i64", KVC_GGUF_I64);
    put_number(&made, UINT64_MAX, 8);
    put_key(&made, "a.f32", KVC_GGUF_F32);
    put_number(&made, 0x3fc00000, 4); /* 1.5 */
    put_key(&made, "a.f64", KVC_GGUF_F64);
    put_number(&made, UINT64_C(0xc004000000000000), 8); /* -2.5 */
    put_key(&made, "a.bool", KVC_GGUF_BOOL);
    put_number(&made, 1, 1);
    put_key(&made, "a.string", KVC_GGUF_STRING);
    put_text(&made, "text");
    put_key(&made, "a.strings", KVC_GGUF_ARRAY);
    put_number(&made, KVC_GGUF_STRING, 4);
    put_number(&made, 3, 8);
    put_text(&made, "one");
    put_text(&made, "");
    put_text(&made, "three");
    put_key(&made, "a.shorts", KVC_GGUF_ARRAY);
    put_number(&made, KVC_GGUF_I16, 4);
    put_number(&made, 2, 8);
    put_number(&made, 7, 2);
    put_number(&made, 0xfffe, 2);
    put_tensor(&made, "matrix", 2, (uint64_t[]){3, 2}, 0, 0);
    put_tensor(&made, "vector", 1, (uint64_t[]){32}, 8, 32);
    put_data(&made, 32, 32 + 34);
}

static void reads_values(void **state) {
    (void)state;
    make_good();
    struct kvc_gguf *file = accept();
    uint64_t u;
    int64_t i;
    double real;
    bool flag;
    const char *text;
    size_t bytes;
    enum kvc_gguf_type type;
    assert_true(kvc_gguf_uint(file, "a.u32", &u) && u == 4000000000u);
    assert_false(kvc_gguf_uint(file, "a.i8", &u)); /* negative */
    assert_false(kvc_gguf_uint(file, "a.f32", &u));
    assert_false(kvc_gguf_uint(file, "a.none", &u));
    assert_true(kvc_gguf_real(file, "a.i8", &real) && real == -2.0);
    assert_true(kvc_gguf_real(file, "a.i64", &real) && real == -1.0);
    assert_true(kvc_gguf_real(file, "a.f32", &real) && real == 1.5);
    assert_true(kvc_gguf_real(file, "a.f64", &real) && real == -2.5);
    assert_false(kvc_gguf_real(file, "a.bool", &real));
    assert_true(kvc_gguf_bool(file, "a.bool", &flag) && flag);
    assert_false(kvc_gguf_bool(file, "a.u32", &flag));
    assert_true(kvc_gguf_string(file, "a.string", &text, &bytes) && bytes == 4 && memcmp(text, "text", 4) == 0);
    assert_false(kvc_gguf_string(file, "a.strings", &text, &bytes));
    assert_true(kvc_gguf_array(file, "a.strings", &type, &u) && type == KVC_GGUF_STRING && u == 3);
    assert_true(kvc_gguf_array_string(file, "a.strings", 1, &text, &bytes) && bytes == 0);
    assert_true(kvc_gguf_array_string(file, "a.strings", 2, &text, &bytes) && bytes == 5 && text[0] == 't');
    assert_false(kvc_gguf_array_string(file, "a.strings", 3, &text, &bytes));
    assert_false(kvc_gguf_array_string(file, "a.shorts", 0, &text, &bytes));
    assert_true(kvc_gguf_array_int(file, "a.shorts", 1, &i) && i == -2);
    assert_true(kvc_gguf_array_uint(file, "a.shorts", 0, &u) && u == 7);
    assert_false(kvc_gguf_array_uint(file, "a.shorts", 1, &u));
    assert_false(kvc_gguf_array_int(file, "a.shorts", 2, &i));
    assert_false(kvc_gguf_array_int(file, "a.shorts", UINT64_MAX, &i));
    assert_false(kvc_gguf_array_real(file, "a.shorts", 0, &real));
    assert_false(kvc_gguf_array_int(file, "a.u32", 0, &i));
    kvc_gguf_close(file);
}

static void reads_tensors(void **state) {
    (void)state;
    make_good();
    struct kvc_gguf *file = accept();
    assert_int_equal(kvc_gguf_tensor_count(file), 2);
    const struct kvc_file_tensor *matrix = kvc_gguf_tensor(file, "matrix"), *vector = kvc_gguf_tensor(file, "vector");
    assert_non_null(matrix);
    assert_non_null(vector);
    assert_null(kvc_gguf_tensor(file, "tensor"));
    assert_null(kvc_gguf_tensor_at(file, 2));
    assert_ptr_equal(kvc_gguf_tensor_at(file, 0), matrix);
    assert_true(matrix->type == KVC_F32 && matrix->dimensions == 2 && matrix->rows == 2 && matrix->cols == 3);
    assert_true(matrix->shape[0] == 2 && matrix->shape[1] == 3 && matrix->bytes == 24);
    assert_true(vector->type == KVC_Q8_0 && vector->rows == 1 && vector->cols == 32 && vector->bytes == 34);
    assert_int_equal(((const unsigned char *)vector->data)[1], 33);
    kvc_gguf_close(file);
}

static void reads_version_2(void **state) {
    (void)state;
    make_good();
    made.data[4] = 2;
    kvc_gguf_close(accept());
}

static void reads_a_real_model(void **state) {
    (void)state;
    const char *path = shared_file("models/stories260k.gguf");
    if (!path) {
        print_message("skipped: no stories260k.gguf in ../shared/models\n");
        skip();
    }
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    assert_int_equal(kvc_gguf_open(path, &file, &error), KVC_OK);
    uint64_t value;
    const char *text;
    size_t bytes;
    assert_true(kvc_gguf_uint(file, "llama.block_count", &value) && value == 5);
    assert_int_equal(kvc_gguf_tensor_count(file), 47);
    assert_true(kvc_gguf_tensor(file, "token_embd.weight")->rows == 512);
    assert_true(kvc_gguf_array_string(file, "tokenizer.ggml.tokens", 3, &text, &bytes) && bytes == 6);
    assert_memory_equal(text, "<0x00>", 6);
    kvc_gguf_close(file);
}

/* ---- headers ---- */

static void refuses_what_is_no_gguf_file(void **state) {
    (void)state;
    made.used = 0;
    put_bytes(&made, "GGU", 3);
    refuse("not a GGUF file");
    made.used = 0;
    put_bytes(&made, "gguf", 4);
    put_data(&made, 32, 64);
    refuse("not a GGUF file");
    made.used = 0;
    put_bytes(&made, "GGUF", 4);
    refuse("cut short");
    start(&made, 0, 0);
    made.data[4] = 1;
    refuse("version 1; versions 2 and 3");
    made.data[4] = 4;
    refuse("version 4");
    memcpy(made.data + 4, "\0\0\0\3", 4);
    refuse("big-endian");
}

static void refuses_files_that_cannot_be_read(void **state) {
    (void)state;
    struct kvc_gguf *file;
    struct kvc_error error;
    check_refusal(kvc_gguf_open(own_folder(), &file, &error), KVC_INPUT, &error, "is a directory");
    check_refusal(kvc_gguf_open(own_path("none"), &file, &error), KVC_INPUT, &error, "No such file");
    check_refusal(kvc_gguf_open(write_file("empty", "", 0), &file, &error), KVC_INPUT, &error, "empty");
    check_refusal(kvc_gguf_open("/dev/null", &file, &error), KVC_INPUT, &error, "not a regular file");
    const char *pipe_path = own_path("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    check_refusal(kvc_gguf_open(pipe_path, &file, &error), KVC_INPUT, &error, "not a regular file");
    if (geteuid() != 0) { /* root may read everything */
        const char *path = write_file("secret", "GGUF", 4);
        assert_int_equal(chmod(path, 0), 0);
        check_refusal(kvc_gguf_open(path, &file, &error), KVC_INPUT, &error, "Permission denied");
    }
}

static void refuses_counts_beyond_the_file(void **state) {
    (void)state;
    static const uint64_t counts[] = {UINT64_C(1) << 63, UINT64_MAX, 1000, UINT64_C(1) << 58};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        start(&made, counts[i], 0);
        refuse("tensors cannot fit");
        start(&made, 0, counts[i]);
        refuse("metadata keys cannot fit");
    }
}

/* ---- metadata ---- */

static void refuses_string_length_2_63(void **state) {
    (void)state;
    static const uint64_t lengths[] = {UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        start(&made, 0, 1); /* a value */
        put_key(&made, "key", KVC_GGUF_STRING);
        put_number(&made, lengths[i], 8);
        put_bytes(&made, "0123456789", 10);
        refuse("key: a string of");
        start(&made, 0, 1); /* an element */
        put_key(&made, "key", KVC_GGUF_ARRAY);
        put_number(&made, KVC_GGUF_STRING, 4);
        put_number(&made, 1, 8);
        put_number(&made, lengths[i], 8);
        refuse("key: a string of");
        start(&made, 0, 1); /* a key */
        put_number(&made, lengths[i], 8);
        put_data(&made, 1, 20);
        refuse(lengths[i] == 100 ? "cut short" : "bytes long");
        start(&made, 1, 0); /* a tensor's name */
        put_number(&made, lengths[i], 8);
        put_data(&made, 1, 40);
        refuse(lengths[i] == 100 ? "cut short" : "bytes long");
    }
}

static void refuses_array_length_2_63(void **state) {
    (void)state;
    static const uint64_t counts[] = {UINT64_C(1) << 63, UINT64_MAX, UINT64_C(1) << 61, UINT64_C(1) << 62, 100};
    static const uint32_t types[] = {KVC_GGUF_U8, KVC_GGUF_F32, KVC_GGUF_STRING, KVC_GGUF_F64, KVC_GGUF_BOOL};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            start(&made, 0, 1);
            put_key(&made, "key", KVC_GGUF_ARRAY);
            put_number(&made, types[k], 4);
            put_number(&made, counts[i], 8);
            put_data(&made, 1, 16);
            refuse("key: an array of");
        }
    }
}

static void refuses_unknown_value_types(void **state) {
    (void)state;
    start(&made, 0, 1);
    put_key(&made, "key", 13);
    put_data(&made, 1, 16);
    refuse("unknown value type 13");
    start(&made, 0, 1);
    put_key(&made, "key", KVC_GGUF_ARRAY);
    put_number(&made, KVC_GGUF_ARRAY, 4);
    put_data(&made, 1, 16);
    refuse("arrays of type 9 (array)");
    start(&made, 0, 1);
    put_key(&made, "key", KVC_GGUF_ARRAY);
    put_number(&made, UINT32_MAX, 4);
    put_data(&made, 1, 16);
    refuse("arrays of type 4294967295");
    start(&made, 0, 1);
    put_key(&made, "key", KVC_GGUF_BOOL);
    put_number(&made, 2, 1);
    refuse("0 or 1");
}

/* Readers that trust the name of an array run over its end; here every element is read by its own type. */
static void reads_arrays_declared_with_a_narrower_type(void **state) {
    (void)state;
    start(&made, 0, 1);
    put_key(&made, "tokenizer.ggml.scores", KVC_GGUF_ARRAY);
    put_number(&made, KVC_GGUF_U8, 4);
    put_number(&made, 4, 8);
    put_data(&made, 1, 4);
    struct kvc_gguf *file = accept();
    double real;
    uint64_t value;
    assert_false(kvc_gguf_array_real(file, "tokenizer.ggml.scores", 3, &real));
    assert_true(kvc_gguf_array_uint(file, "tokenizer.ggml.scores", 3, &value));
    assert_false(kvc_gguf_array_uint(file, "tokenizer.ggml.scores", 4, &value));
    kvc_gguf_close(file);
}

static void refuses_bad_keys(void **state) {
    (void)state;
    start(&made, 0, 2);
    put_uint32(&made, "same.key", 1);
    put_uint32(&made, "same.key", 2);
    refuse("metadata key same.key comes twice");
    start(&made, 0, 1);
    put_uint32(&made, "line\nbreak", 1);
    refuse("control byte 0x0a");
    start(&made, 0, 1);
    put_uint32(&made, "", 1);
    put_data(&made, 1, 8);
    refuse("0 bytes long");
}

/* ---- tensors ---- */

static void refuse_tensor(uint32_t count, const uint64_t *dimensions, uint32_t type, uint64_t offset,
                          const char *says) {
    start(&made, 1, 0);
    put_tensor(&made, "weights", count, dimensions, type, offset);
    put_data(&made, 32, 256);
    refuse(says);
}

static void refuses_dimensions_whose_product_wraps(void **state) {
    (void)state;
    const uint64_t high = UINT64_C(1) << 32;
    refuse_tensor(2, (uint64_t[]){high, high}, 0, 0, "weights");
    refuse_tensor(2, (uint64_t[]){UINT64_C(1) << 62, 4}, 0, 0, "weights");
    refuse_tensor(3, (uint64_t[]){4, high, high}, 0, 0, "product of its dimensions overflows");
    refuse_tensor(4, (uint64_t[]){1, 1 << 16, 1 << 16, high}, 0, 0, "product of its dimensions overflows");
    refuse_tensor(1, (uint64_t[]){UINT64_C(1) << 62}, 0, 0, "weights");
    refuse_tensor(1, (uint64_t[]){UINT64_MAX}, 0, 0, "weights");
    refuse_tensor(2, (uint64_t[]){256, UINT64_C(1) << 57}, 12, 0, "weights"); /* q4_k: 144 * 2^57 wraps */
    refuse_tensor(2, (uint64_t[]){0, 5}, 0, 0, "dimension 0 is 0");
    refuse_tensor(2, (uint64_t[]){5, 0}, 0, 0, "dimension 1 is 0");
    refuse_tensor(0, NULL, 0, 0, "0 dimensions");
    refuse_tensor(5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0, "5 dimensions");
}

static void refuses_types_it_does_not_have(void **state) {
    (void)state;
    refuse_tensor(1, (uint64_t[]){32}, 3, 0, "tensor weights has type 3 (q4_1)");
    refuse_tensor(1, (uint64_t[]){32}, 16, 0, "(iq2_xxs)");
    refuse_tensor(1, (uint64_t[]){32}, 31, 0, "type 31 (unknown)");
    refuse_tensor(1, (uint64_t[]){32}, UINT32_MAX, 0, "(unknown)");
    refuse_tensor(2, (uint64_t[]){31, 2}, 8, 0, "rows of 31 elements do not fit type q8_0");
    refuse_tensor(2, (uint64_t[]){32, 8}, 14, 0, "do not fit type q6_k (blocks of 256)");
}

static void refuses_offsets_outside_the_data(void **state) {
    (void)state;
    static const uint64_t past[] = {256, 288, UINT64_C(1) << 40, UINT64_MAX - 31, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
        refuse_tensor(1, (uint64_t[]){8}, 0, past[i], "does not lie inside");
    }
    refuse_tensor(1, (uint64_t[]){65}, 0, 0, "does not lie inside"); /* 260 of 256 bytes */
    refuse_tensor(1, (uint64_t[]){8}, 0, 16, "not a multiple of the alignment");
    refuse_tensor(1, (uint64_t[]){8}, 0, 1, "not a multiple of the alignment");
}

static void refuses_offsets_over_the_header(void **state) {
    (void)state;
    for (uint64_t back = 32; back <= 96; back += 32) { /* start + offset would wrap into the header */
        refuse_tensor(1, (uint64_t[]){8}, 0, UINT64_MAX - back + 1, "does not lie inside");
    }
}

static void refuses_overlapping_tensors(void **state) {
    (void)state;
    start(&made, 2, 0);
    put_tensor(&made, "one", 1, (uint64_t[]){9}, 0, 0);
    put_tensor(&made, "two", 1, (uint64_t[]){9}, 0, 32);
    put_data(&made, 32, 256);
    refuse("tensors one and two overlap");
    start(&made, 2, 0);
    put_tensor(&made, "one", 1, (uint64_t[]){8}, 0, 64);
    put_tensor(&made, "two", 1, (uint64_t[]){8}, 0, 64);
    put_data(&made, 32, 256);
    refuse("overlap");
}

static void refuses_duplicate_tensor_names(void **state) {
    (void)state;
    start(&made, 3, 0);
    put_tensor(&made, "weights", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&made, "other", 1, (uint64_t[]){8}, 0, 32);
    put_tensor(&made, "weights", 1, (uint64_t[]){8}, 0, 64);
    put_data(&made, 32, 256);
    refuse("tensor weights comes twice");
}

static void refuses_alignments(void **state) {
    (void)state;
    static const uint32_t wrong[] = {0, 1, 3, 4, 24, 33, 1u << 17, 1u << 30, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        start(&made, 1, 1);
        put_uint32(&made, "general.alignment", wrong[i]);
        put_tensor(&made, "weights", 1, (uint64_t[]){8}, 0, 0);
        put_data(&made, 32, 256);
        refuse("a power of two from 8 to 65536");
    }
    start(&made, 0, 1);
    put_key(&made, "general.alignment", KVC_GGUF_STRING);
    put_text(&made, "32");
    refuse("a power of two from 8 to 65536");
    start(&made, 1, 1);
    put_uint32(&made, "general.alignment", 64);
    put_tensor(&made, "weights", 1, (uint64_t[]){8}, 0, 64);
    put_data(&made, 64, 128);
    struct kvc_gguf *file = accept();
    assert_int_equal(((const unsigned char *)kvc_gguf_tensor(file, "weights")->data)[0], 64);
    kvc_gguf_close(file);
}

/* ---- damage everywhere ---- */

/* Reads all there is, so that a sanitizer sees any place outside the file. */
static uint64_t read_all(const struct kvc_gguf *file) {
    uint64_t sum = 0, count, value, bytes64;
    const char *key, *text;
    size_t bytes;
    double real;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        const unsigned char *data = kvc_gguf_value_data(file, i, &bytes64);
        for (uint64_t k = 0; k < bytes64; k++) {
            sum += data[k];
        }
        sum += kvc_gguf_uint(file, key, &value) ? value : 0;
        sum += kvc_gguf_real(file, key, &real) ? 1 : 0;
        sum += kvc_gguf_string(file, key, &text, &bytes) && bytes > 0 ? (unsigned char)text[bytes - 1] : 0;
        if (kvc_gguf_array(file, key, &type, &count)) {
            for (uint64_t k = 0; k <= count; k++) {
                sum += kvc_gguf_array_uint(file, key, k, &value) ? value : 0;
                sum += kvc_gguf_array_real(file, key, k, &real) ? 1 : 0;
                sum += kvc_gguf_array_string(file, key, k, &text, &bytes) && bytes ? (unsigned char)text[0] : 0;
            }
        }
    }
    for (size_t i = 0; i < kvc_gguf_tensor_count(file); i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        for (uint64_t k = 0; k < tensor->bytes; k++) {
            sum += ((const unsigned char *)tensor->data)[k];
        }
    }
    return sum;
}

static void refuses_every_truncation(void **state) {
    (void)state;
    make_good();
    const size_t whole = made.used;
    for (made.used = 1; made.used < whole; made.used++) {
        refuse("");
    }
    made.used = whole;
    struct kvc_gguf *file = accept();
    assert_true(read_all(file) > 0);
    kvc_gguf_close(file);
}

static void survives_flipped_bytes(void **state) {
    (void)state;
    uint64_t random = 12345;
    unsigned opened = 0;
    for (unsigned i = 0; i < (kvc_test_thinned() ? 500 : 4000); i++) {
        make_good();
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            size_t at = 4 + (size_t)(random >> 33) % (made.used - 4);
            made.data[at] = (unsigned char)(i % 2 ? random >> 20 : made.data[at] ^ 1u << (random >> 20 & 7));
        }
        struct kvc_gguf *file;
        struct kvc_error error = {0};
        enum kvc_status status = kvc_gguf_open(write_file("flip.gguf", made.data, made.used), &file, &error);
        assert_true(status == KVC_OK || status == KVC_INPUT);
        if (status == KVC_OK) {
            opened += read_all(file) > 0;
            kvc_gguf_close(file);
        }
    }
    assert_true(opened > 20); /* some flips do no harm */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(reads_a_real_model),
        cmocka_unit_test(refuses_what_is_no_gguf_file),
        cmocka_unit_test(refuses_files_that_cannot_be_read),
        cmocka_unit_test(refuses_counts_beyond_the_file),
        cmocka_unit_test(refuses_string_length_2_63),
        cmocka_unit_test(refuses_array_length_2_63),
        cmocka_unit_test(refuses_unknown_value_types),
        cmocka_unit_test(reads_arrays_declared_with_a_narrower_type),
        cmocka_unit_test(refuses_bad_keys),
        cmocka_unit_test(refuses_dimensions_whose_product_wraps),
        cmocka_unit_test(refuses_types_it_does_not_have),
        cmocka_unit_test(refuses_offsets_outside_the_data),
        cmocka_unit_test(refuses_offsets_over_the_header),
        cmocka_unit_test(refuses_overlapping_tensors),
        cmocka_unit_test(refuses_duplicate_tensor_names),
        cmocka_unit_test(refuses_alignments),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_flipped_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
