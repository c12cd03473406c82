/* test_gguf_refused.c - the GGUF reader refuses every kind of bad file. */
#include "tests/models/gguf_maker.h"

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
    if (geteuid() != 0) { /* root may read every file */
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

/* Readers that trust an array's declared type read past its end; here every element is read by its actual type. */
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
    refuse_tensor(1, (uint64_t[]){32}, 9, 0, "tensor weights is Q8_1; kvcull reads F32, F16, BF16, Q8_0, ");
    refuse_tensor(1, (uint64_t[]){32}, 16, 0, "tensor weights is IQ2_XXS; ");
    refuse_tensor(1, (uint64_t[]){32}, 31, 0, "tensor weights is Q4_0_4_4; ");
    refuse_tensor(1, (uint64_t[]){32}, 40, 0, "tensor weights is NVFP4; ");
    refuse_tensor(1, (uint64_t[]){32}, 43, 0, "tensor weights is of the unknown type 43; ");
    refuse_tensor(1, (uint64_t[]){32}, UINT32_MAX, 0, "of the unknown type 4294967295; ");
    for (uint32_t type = 0; type < 43; type++) { /* every number of the format is read or has a name */
        bool read = false;
        for (int t = 0; t < KVC_TYPES; t++)
            read = read || kvc_gguf_file_type((enum kvc_type)t) == type;
        if (!read)
            refuse_tensor(1, (uint64_t[]){32}, type, 0, "; kvcull reads F32, ");
        if (!read)
            refuse_tensor(1, (uint64_t[]){32}, type, 0, "tensor weights is ");
    }
    refuse_tensor(2, (uint64_t[]){31, 2}, 8, 0, "rows of 31 elements do not fit type q8_0");
    refuse_tensor(2, (uint64_t[]){32, 8}, 14, 0, "do not fit type q6_k (blocks of 256)");
}

static void refuses_offsets_outside_the_data(void **state) {
    (void)state;
    static const uint64_t past[] = {256, 288, UINT64_C(1) << 40, UINT64_MAX - 31, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
        refuse_tensor(1, (uint64_t[]){8}, 0, past[i], "does not lie inside");
    }
    refuse_tensor(1, (uint64_t[]){65}, 0, 0, "does not lie inside"); /* 260 bytes in a file with 256 */
    refuse_tensor(1, (uint64_t[]){8}, 0, 16, "not a multiple of the alignment");
    refuse_tensor(1, (uint64_t[]){8}, 0, 1, "not a multiple of the alignment");
}

static void refuses_offsets_over_the_header(void **state) {
    (void)state;
    for (uint64_t back = 32; back <= 96; back += 32) { /* start + offset would wrap around into the header */
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

int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
