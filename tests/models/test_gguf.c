/* test_gguf.c - the GGUF reader: values and tensors of good files, and of the same files with damage anywhere. */
#include "tests/models/gguf_maker.h"

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

/* ---- damage everywhere ---- */

/* Reads everything, so that a sanitizer notices any read outside the file. */
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
    assert_true(opened > 20); /* some bit flips are harmless */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(reads_a_real_model),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_flipped_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
