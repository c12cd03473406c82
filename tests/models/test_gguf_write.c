/* test_gguf_write.c - the GGUF writer: the reader gets the same values back; misuse is an error and writes nothing. */
#include "tests/models/file_maker.h"

#include "models/files/gguf_write.h"

static void must(enum kvc_status status, const struct kvc_error *error) {
    if (status) {
        print_error("status %d: %s\n", (int)status, error->text);
        fail();
    }
}

static struct kvc_gguf_writer *new_writer(void) {
    struct kvc_gguf_writer *writer = kvc_gguf_writer_new();
    assert_non_null(writer);
    return writer;
}

static void put_everything(struct kvc_gguf_writer *writer) {
    kvc_gguf_put_uint32(writer, "integer", 4000000000u);
    kvc_gguf_put_float32(writer, "real", -1.5f);
    kvc_gguf_put_bool(writer, "bool", true);
    kvc_gguf_put_string(writer, "string", "a\0b", 3);
    kvc_gguf_put_int32s(writer, "integers", (const int32_t[]){1, -2, INT32_MIN}, 3);
    kvc_gguf_put_float32s(writer, "reals", (const float[]){0.25f, -8.0f}, 2);
    kvc_gguf_put_bools(writer, "bools", (const unsigned char[]){1, 0, 7}, 3);
    kvc_gguf_put_strings(writer, "strings", 2);
    kvc_gguf_add_string(writer, "", 0);
    kvc_gguf_add_string(writer, "\xe2\x96\x81x", 4);
    kvc_gguf_put_strings(writer, "none", 0);
}

static void check_everything(const struct kvc_gguf *file) {
    uint64_t u;
    int64_t i;
    double real;
    bool flag;
    const char *text;
    size_t bytes;
    enum kvc_gguf_type type;
    assert_true(kvc_gguf_uint(file, "integer", &u) && u == 4000000000u);
    assert_true(kvc_gguf_real(file, "real", &real) && real == -1.5);
    assert_true(kvc_gguf_bool(file, "bool", &flag) && flag);
    assert_true(kvc_gguf_string(file, "string", &text, &bytes) && bytes == 3 && memcmp(text, "a\0b", 3) == 0);
    assert_true(kvc_gguf_array_int(file, "integers", 2, &i) && i == INT32_MIN);
    assert_true(kvc_gguf_array_real(file, "reals", 1, &real) && real == -8.0);
    assert_true(kvc_gguf_array(file, "bools", &type, &u) && type == KVC_GGUF_BOOL && u == 3);
    assert_true(kvc_gguf_array_string(file, "strings", 0, &text, &bytes) && bytes == 0);
    assert_true(kvc_gguf_array_string(file, "strings", 1, &text, &bytes) && bytes == 4 && text[3] == 'x');
    assert_true(kvc_gguf_array(file, "none", &type, &u) && u == 0);
}

static void reads_what_it_wrote(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_gguf *file;
    unsigned char data[340];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)i;
    }
    struct kvc_gguf_writer *writer = new_writer();
    put_everything(writer);
    size_t a = kvc_gguf_add_tensor(writer, "a", KVC_F16, 1, (const uint64_t[]){3});
    size_t b = kvc_gguf_add_tensor(writer, "b", KVC_Q8_0, 3, (const uint64_t[]){2, 5, 32});
    size_t c = kvc_gguf_add_tensor(writer, "c", KVC_F32, 2, (const uint64_t[]){1, 1});
    must(kvc_gguf_writer_begin(writer, own_path("all.gguf"), &error), &error);
    must(kvc_gguf_write(writer, c, data, 4, &error), &error); /* in any order, in parts */
    must(kvc_gguf_write(writer, b, data, 100, &error), &error);
    must(kvc_gguf_write(writer, a, data, 6, &error), &error);
    must(kvc_gguf_write(writer, b, data + 100, 240, &error), &error);
    must(kvc_gguf_writer_commit(writer, &error), &error);
    must(kvc_gguf_open(own_path("all.gguf"), &file, &error), &error);
    check_everything(file);
    const struct kvc_file_tensor *tensor = kvc_gguf_tensor(file, "b");
    assert_true(tensor->type == KVC_Q8_0 && tensor->dimensions == 3 && tensor->rows == 10 && tensor->cols == 32);
    assert_true(tensor->shape[0] == 2 && tensor->shape[1] == 5 && tensor->shape[2] == 32);
    assert_memory_equal(tensor->data, data, 340);
    assert_memory_equal(kvc_gguf_tensor(file, "a")->data, data, 6);
    assert_memory_equal(kvc_gguf_tensor(file, "c")->data, data, 4);
    kvc_gguf_close(file);
}

/* A key that was copied raw has the same bytes. */
static void copies_values_raw(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct kvc_gguf *file, *copy;
    struct kvc_gguf_writer *writer = new_writer();
    put_everything(writer);
    must(kvc_gguf_writer_begin(writer, own_path("one.gguf"), &error), &error);
    must(kvc_gguf_writer_commit(writer, &error), &error);
    must(kvc_gguf_open(own_path("one.gguf"), &file, &error), &error);
    writer = new_writer();
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(file, i, &bytes);
        kvc_gguf_put_raw(writer, key, type, data, bytes);
    }
    must(kvc_gguf_writer_begin(writer, own_path("two.gguf"), &error), &error);
    must(kvc_gguf_writer_commit(writer, &error), &error);
    must(kvc_gguf_open(own_path("two.gguf"), &copy, &error), &error);
    check_everything(copy);
    kvc_gguf_close(copy);
    kvc_gguf_close(file);
}

static void refuses_misuse(void **state) {
    (void)state;
    static const struct {
        enum kvc_type type;
        uint32_t dimensions;
        uint64_t shape[3];
    } wrong[] = {{KVC_Q8_0, 1, {33}},
                 {KVC_F32, 2, {0, 4}},
                 {KVC_F32, 1, {0}},
                 {KVC_F32, 2, {UINT64_MAX / 2, 4}},
                 {KVC_F16, 3, {UINT64_C(1) << 40, UINT64_C(1) << 40, 4}},
                 {KVC_F16, 1, {UINT64_MAX}}};
    struct kvc_error error = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct kvc_gguf_writer *writer = new_writer();
        kvc_gguf_add_tensor(writer, "wrong", wrong[i].type, wrong[i].dimensions, wrong[i].shape);
        check_refusal(kvc_gguf_writer_begin(writer, own_path("wrong.gguf"), &error), KVC_USAGE, &error, "do not fit");
        kvc_gguf_writer_abandon(writer);
    }
    struct kvc_gguf_writer *writer = new_writer();
    const float values[3] = {1, 2, 3};
    size_t tensor = kvc_gguf_add_tensor(writer, "short", KVC_F32, 1, (const uint64_t[]){2});
    must(kvc_gguf_writer_begin(writer, own_path("wrong.gguf"), &error), &error);
    check_refusal(kvc_gguf_write(writer, tensor, values, 12, &error), KVC_USAGE, &error, "more than its 8 bytes");
    must(kvc_gguf_write(writer, tensor, values, 4, &error), &error);
    check_refusal(kvc_gguf_writer_commit(writer, &error), KVC_USAGE, &error, "got 4 of its 8 bytes");
    kvc_gguf_writer_abandon(NULL);
    assert_int_equal(count_files("wrong"), 0);
}

/* A link stays a link: the new file replaces its target, and keeps the permissions of the older file. */
static void writes_through_links(void **state) {
    (void)state;
    struct kvc_error error = {0};
    struct stat about;
    write_file("target.gguf", "old", 3);
    assert_int_equal(chmod(own_path("target.gguf"), 0640), 0);
    assert_int_equal(symlink(own_path("target.gguf"), own_path("link.gguf")), 0);
    struct kvc_gguf_writer *writer = new_writer();
    must(kvc_gguf_writer_begin(writer, own_path("link.gguf"), &error), &error);
    must(kvc_gguf_writer_commit(writer, &error), &error);
    assert_true(lstat(own_path("link.gguf"), &about) == 0 && S_ISLNK(about.st_mode));
    assert_true(stat(own_path("target.gguf"), &about) == 0 && about.st_size == 32);
    assert_int_equal(about.st_mode & 0777, 0640);
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(remove(own_path("target.gguf")), 0);
    writer = new_writer();
    must(kvc_gguf_writer_begin(writer, own_path("link.gguf"), &error), &error);
    must(kvc_gguf_writer_commit(writer, &error), &error);
    assert_true(stat(own_path("target.gguf"), &about) == 0 && about.st_size == 32);
    assert_int_equal(about.st_mode & 0777, 0666 & ~mask);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_wrote),
        cmocka_unit_test(copies_values_raw),
        cmocka_unit_test(refuses_misuse),
        cmocka_unit_test(writes_through_links),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
