/* test_safetensors.c - the safetensors reader, folders with an index, the public tensor files, and how bad files are
 * refused. */
#include "tests/models/file_maker.h"

#include <signal.h>
#include <sys/resource.h>

#include "models/files/safetensors.h"

static struct maker made;

/* Writes a file with this header and so many bytes 0, 1, 2, ... of data. */
static void make(const char *header, size_t data) {
    made.used = 0;
    put_text(&made, header);
    for (size_t i = 0; i < data; i++) {
        put_number(&made, i, 1);
    }
}

static void refuse_made(const char *says) {
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    const char *path = write_file("bad.safetensors", made.data, made.used);
    check_refusal(kvc_safetensors_open(path, &file, &error), KVC_INPUT, &error, says);
    assert_null(file);
}

static void refuse(const char *header, size_t data, const char *says) {
    make(header, data);
    refuse_made(says);
}

static struct kvc_safetensors *accept(const char *path) {
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    if (kvc_safetensors_open(path, &file, &error)) {
        print_error("%s\n", error.text);
        fail();
    }
    return file;
}

#define GOOD                                                                                                           \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                                           \
    "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]},"                                                \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]},"                                             \
    "\"c\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[30,32]}}  "

static void reads_tensors(void **state) {
    (void)state;
    make(GOOD, 32);
    struct kvc_safetensors *file = accept(write_file("good.safetensors", made.data, made.used));
    assert_int_equal(kvc_safetensors_count(file), 3);
    const struct kvc_file_tensor *a = kvc_safetensors_tensor(file, "a"), *b = kvc_safetensors_tensor(file, "b"),
                                 *c = kvc_safetensors_tensor(file, "c");
    assert_true(a && b && c && !kvc_safetensors_tensor(file, "__metadata__") && !kvc_safetensors_at(file, 3));
    assert_true(a->type == KVC_F32 && a->dimensions == 3 && a->rows == 2 && a->cols == 3 && a->bytes == 24);
    assert_true(a->shape[0] == 1 && a->shape[1] == 2 && a->shape[2] == 3);
    assert_true(b->type == KVC_F16 && b->rows == 1 && b->cols == 3);
    assert_true(c->type == KVC_BF16 && c->dimensions == 1 && c->cols == 1);
    assert_int_equal(((const unsigned char *)b->data)[1], 25);
    kvc_safetensors_close(file);
}

/* Misaligned tensors are copied to aligned memory. */
static void reads_misaligned_tensors(void **state) {
    (void)state;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                         "\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[8,10]}}";
    for (size_t spaces = 0; spaces < 4; spaces++) {
        char padded[200];
        snprintf(padded, sizeof padded, "%s%.*s", header, (int)spaces, "    ");
        make(padded, 10);
        struct kvc_safetensors *file = accept(write_file("odd.safetensors", made.data, made.used));
        const struct kvc_file_tensor *a = kvc_safetensors_tensor(file, "a"), *b = kvc_safetensors_tensor(file, "b");
        assert_int_equal((uintptr_t)a->data % 4, 0);
        assert_int_equal((uintptr_t)b->data % 2, 0);
        assert_memory_equal(a->data, "\0\1\2\3\4\5\6\7", 8);
        assert_memory_equal(b->data, "\10\11", 2);
        kvc_safetensors_close(file);
    }
}

static void reads_real_folders(void **state) {
    (void)state;
    const char *path = shared_file("models/stories260k");
    if (!path) {
        print_message("skipped: no stories260k in ../shared/models\n");
        skip();
    }
    struct kvc_safetensors *file = accept(path);
    const struct kvc_file_tensor *tensor = kvc_safetensors_tensor(file, "model.layers.4.mlp.down_proj.weight");
    assert_true(tensor && tensor->rows == 64 && tensor->cols == 172 && tensor->type == KVC_F32);
    kvc_safetensors_close(file);
}

/* ---- bad files ---- */

static void refuses_a_header_longer_than_the_file(void **state) {
    (void)state;
    static const uint64_t lengths[] = {
        1000, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7, (UINT64_C(1) << 32) + 2, 100000001,
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        made.used = 0;
        put_number(&made, lengths[i], 8);
        put_bytes(&made, "{}", 2);
        refuse_made("its header claims");
    }
    made.used = 0;
    put_bytes(&made, "1234567", 7);
    refuse_made("not a safetensors file");
}

static void refuses_json_10000_levels_deep(void **state) {
    (void)state;
    static char deep[60000];
    for (int kind = 0; kind < 3; kind++) {
        char *at = deep;
        at += sprintf(at, "{\"a\":");
        for (int i = 0; i < 10000; i++) {
            at += sprintf(at, kind == 1 ? "[" : kind == 2 && i % 2 ? "[" : "{");
            at += sprintf(at, kind == 0 || (kind == 2 && i % 2 == 0) ? "\"\":" : "");
        }
        *at = '\0';
        if (strlen(deep) > sizeof made.data - 8) {
            fail();
        }
        refuse(deep, 0, "nested more than 64 levels");
    }
}

static void refuses_bad_json(void **state) {
    (void)state;
    refuse("", 0, "not valid JSON");
    refuse("{", 0, "not valid JSON");
    refuse("{}}", 0, "not valid JSON");
    refuse("{\"a\":\"\xff\xfe\"}", 0, "not valid JSON");
    refuse("{\"a\":\"\n\"}", 0, "not valid JSON");
    refuse("[]", 0, "not a JSON object");
    refuse("null", 0, "not");
    refuse("{\"a\":1e999}", 0, "not valid JSON");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
           "dimension 0 is not a whole number above 0");
}

static void refuses_duplicate_names(void **state) {
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
           "\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[2,4]}}",
           4, "duplicate");
}

static void refuses_entries_that_describe_no_tensor(void **state) {
    (void)state;
    refuse("{\"a\":1}", 0, "does not describe a tensor");
    refuse("{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "does not describe a tensor");
    refuse("{\"a\\u000ab\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "does not describe a tensor");
    refuse("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype");
    refuse("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype");
    refuse("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "is F8_E4M3, but");
    refuse("{\"a\":{\"dtype\":\"F8_E5M2\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "has dtype F8_E5M2");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "has dtype U8");
    refuse("{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has dtype f32");
    refuse("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "a shape of at most 4");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "a shape of at most 4");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "a shape of at most 4");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a whole number above 0");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "not a whole number above 0");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "not a whole number above 0");
}

static void refuses_shapes_that_overflow(void **state) {
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4, "overflows");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,1],\"data_offsets\":[0,4]}}", 4, "overflows");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,4]}}", 4, "overflows");
    refuse("{\"a\":{\"dtype\":\"F16\",\"shape\":[9223372036854775807,2],\"data_offsets\":[0,4]}}", 4, "overflows");
}

static void refuses_offsets_that_do_not_fit(void **state) {
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not [begin, end]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not [begin, end]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "not [begin, end]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "not [begin, end]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "not [begin, end]");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "ends at byte 4 of 3");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}}", 3, "ends at byte");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "needs 8 bytes");
    refuse("{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "needs 2 bytes");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "the file has 8");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "overlap or leave a hole");
    refuse("{}", 8, "the file has 8");
}

static void refuses_overlaps(void **state) {
    (void)state;
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
           12, "overlap or leave a hole");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
           8, "overlap or leave a hole");
}

static void refuses_every_truncation(void **state) {
    (void)state;
    make(GOOD, 32);
    const size_t whole = made.used;
    for (made.used = 1; made.used < whole; made.used++) {
        refuse_made("");
    }
}

static void survives_flipped_bytes(void **state) {
    (void)state;
    uint64_t random = 99;
    for (unsigned i = 0; i < (kvc_test_thinned() ? 400 : 3000); i++) {
        make(GOOD, 32);
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            size_t at = (size_t)(random >> 33) % (made.used - 32);
            made.data[at] = (unsigned char)(i % 2 ? random >> 20 : made.data[at] ^ 1u << (random >> 20 & 7));
        }
        struct kvc_safetensors *file;
        struct kvc_error error = {0};
        enum kvc_status status =
            kvc_safetensors_open(write_file("flip.safetensors", made.data, made.used), &file, &error);
        assert_true(status == KVC_OK || status == KVC_INPUT);
        for (size_t t = 0; status == KVC_OK && t < kvc_safetensors_count(file); t++) {
            const struct kvc_file_tensor *tensor = kvc_safetensors_at(file, t);
            volatile unsigned char sum = 0;
            for (uint64_t b = 0; b < tensor->bytes; b++) {
                sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[b]);
            }
        }
        if (status == KVC_OK) {
            kvc_safetensors_close(file);
        }
    }
}

/* ---- folders ---- */

static const char *make_folder(const char *name, const char *index) {
    static char path[700];
    char file[300];
    snprintf(path, sizeof path, "%s", own_path(name));
    mkdir(path, 0700);
    if (index) {
        snprintf(file, sizeof file, "%s/model.safetensors.index.json", name);
        write_file(file, index, strlen(index));
    }
    make("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    snprintf(file, sizeof file, "%s/one.safetensors", name);
    write_file(file, made.data, made.used);
    make("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    snprintf(file, sizeof file, "%s/two.safetensors", name);
    write_file(file, made.data, made.used);
    snprintf(file, sizeof file, "%s/copy.safetensors", name);
    write_file(file, made.data, made.used);
    return path;
}

static void refuse_index(const char *index, const char *says) {
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    check_refusal(kvc_safetensors_open(make_folder("shards", index), &file, &error), KVC_INPUT, &error, says);
}

static void reads_an_index(void **state) {
    (void)state;
    struct kvc_safetensors *file =
        accept(make_folder("shards", "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}"));
    assert_int_equal(kvc_safetensors_count(file), 2);
    assert_non_null(kvc_safetensors_tensor(file, "a"));
    assert_non_null(kvc_safetensors_tensor(file, "b"));
    kvc_safetensors_close(file);
}

static void refuses_bad_folders(void **state) {
    (void)state;
    struct kvc_safetensors *file;
    struct kvc_error error = {0};
    check_refusal(kvc_safetensors_open(make_folder("nothing", NULL), &file, &error), KVC_INPUT, &error,
                  "neither model.safetensors nor model.safetensors.index.json");
    check_refusal(kvc_safetensors_open(own_path("not here"), &file, &error), KVC_INPUT, &error, "No such file");
    refuse_index("{}", "has no weight_map");
    refuse_index("[1]", "has no weight_map");
    refuse_index("{\"weight_map\":{}}", "has no weight_map");
    refuse_index("{\"weight_map\":", "not valid JSON");
    refuse_index("{\"weight_map\":{\"a\":7}}", "plain name");
    refuse_index("{\"weight_map\":{\"a\":\"three.safetensors\"}}", "three.safetensors: cannot be opened");
    refuse_index("{\"weight_map\":{\"a\":\"one.safetensors\",\"x\":\"one.safetensors\"}}", "one.safetensors: x");
    refuse_index("{\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"copy.safetensors\"}}", "tensor b comes twice");
}

static void refuses_paths_out_of_the_folder(void **state) {
    (void)state;
    static const char *const names[] = {
        "../good.safetensors", "/etc/passwd", "..", ".", "", ".hidden", "a/b", "a\\\\b", "a\\u0001"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[200];
        snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        refuse_index(index, "plain name of a file in this folder");
    }
}

/* ---- the public tensor files ---- */

static void writes_and_reads_tensor_files(void **state) {
    (void)state;
    const struct kvc_tensor tensors[] = {{"logits", 2, {2, 3}, NULL}, {"layers.0.out \"q\" \xc3\xa9", 1, {5}, NULL}};
    const float values[] = {1, 2, 3, 4, 5, 6};
    struct kvc_tensor_writer *writer;
    struct kvc_tensor_reader *reader;
    struct kvc_tensor found;
    struct kvc_error error = {0};
    const char *path = own_path("tensors.safetensors");
    for (int again = 0; again < 2; again++) { /* the second file replaces the first */
        assert_int_equal(kvc_tensor_writer_open(path, tensors, 2, &writer, &error), KVC_OK);
        assert_int_equal(kvc_tensor_write(writer, 1, values, 5, &error), KVC_OK);
        assert_int_equal(kvc_tensor_write(writer, 0, values, 2, &error), KVC_OK);
        assert_int_equal(kvc_tensor_write(writer, 0, values + 2, 4, &error), KVC_OK);
        check_refusal(kvc_tensor_write(writer, 0, values, 1, &error), KVC_USAGE, &error, "more than its 6 values");
        assert_int_equal(kvc_tensor_writer_commit(writer, &error), KVC_OK);
    }
    assert_int_equal(kvc_tensor_reader_open(path, &reader, &error), KVC_OK);
    assert_int_equal(kvc_tensor_read(reader, "logits", &found, &error), KVC_OK);
    assert_true(found.dimensions == 2 && found.shape[0] == 2 && found.shape[1] == 3);
    assert_memory_equal(found.values, values, 24);
    assert_int_equal(kvc_tensor_read(reader, tensors[1].name, &found, &error), KVC_OK);
    assert_memory_equal(found.values, values, 20);
    assert_true(kvc_tensor_has(reader, "logits") && !kvc_tensor_has(reader, "logit"));
    assert_string_equal(kvc_tensor_name(reader, 0), "logits");
    assert_null(kvc_tensor_name(reader, 2));
    check_refusal(kvc_tensor_read(reader, "none", &found, &error), KVC_INPUT, &error, "has no tensor none");
    kvc_tensor_reader_close(reader);
    make(GOOD, 32);
    assert_int_equal(kvc_tensor_reader_open(write_file("good.safetensors", made.data, made.used), &reader, &error),
                     KVC_OK);
    check_refusal(kvc_tensor_read(reader, "b", &found, &error), KVC_INPUT, &error, "has type f16, f32 was expected");
    kvc_tensor_reader_close(reader);
    kvc_tensor_reader_close(NULL);
}

static void leaves_no_half_written_file(void **state) {
    (void)state;
    const struct kvc_tensor tensors[] = {{"a", 1, {100000}, NULL},
                                         {"a", 1, {1}, NULL},
                                         {"b", 0, {0}, NULL},
                                         {"c", 2, {0, 1}, NULL},
                                         {"d", 1, {UINT64_MAX / 2}, NULL}};
    static const float values[50000];
    struct kvc_tensor_writer *writer;
    struct kvc_error error = {0};
    char path[700];
    snprintf(path, sizeof path, "%s", own_path("half.safetensors"));
    assert_int_equal(kvc_tensor_writer_open(path, tensors, 1, &writer, &error), KVC_OK);
    assert_int_equal(kvc_tensor_write(writer, 0, values, 50000, &error), KVC_OK);
    assert_int_equal(access(path, F_OK), -1); /* it gets its name only when it is complete */
    check_refusal(kvc_tensor_writer_commit(writer, &error), KVC_USAGE, &error, "got 50000 of its 100000 values");
    assert_int_equal(kvc_tensor_writer_open(path, tensors, 1, &writer, &error), KVC_OK);
    kvc_tensor_writer_abandon(writer);
    kvc_tensor_writer_abandon(NULL);
    check_refusal(kvc_tensor_writer_open(path, tensors, 2, &writer, &error), KVC_USAGE, &error, "differ");
    for (size_t i = 2; i < 5; i++) {
        check_refusal(kvc_tensor_writer_open(path, tensors + i, 1, &writer, &error), KVC_USAGE, &error, "dimensions");
    }
    check_refusal(kvc_tensor_writer_open("/dev/null", tensors, 1, &writer, &error), KVC_RESOURCE, &error,
                  "not a regular file");
    check_refusal(kvc_tensor_writer_open(own_path("no/such/folder"), tensors, 1, &writer, &error), KVC_RESOURCE, &error,
                  "cannot be written");
    assert_int_equal(count_files("half"), 0);
}

static void reports_a_full_disk(void **state) {
    (void)state;
    const struct kvc_tensor tensor = {"a", 1, {100000}, NULL};
    struct kvc_tensor_writer *writer;
    struct kvc_error error = {0};
    struct rlimit before, limit;
    char path[700];
    snprintf(path, sizeof path, "%s", own_path("full.safetensors"));
    write_file("full.safetensors", "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 300000; /* a size limit, which acts like a full disk */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum kvc_status status = kvc_tensor_writer_open(path, &tensor, 1, &writer, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    check_refusal(status, KVC_RESOURCE, &error, "no space");
    assert_int_equal(count_files("full"), 1); /* the old file, unchanged */
    struct stat about;
    assert_true(stat(path, &about) == 0 && about.st_size == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(reads_misaligned_tensors),
        cmocka_unit_test(reads_real_folders),
        cmocka_unit_test(refuses_a_header_longer_than_the_file),
        cmocka_unit_test(refuses_json_10000_levels_deep),
        cmocka_unit_test(refuses_bad_json),
        cmocka_unit_test(refuses_duplicate_names),
        cmocka_unit_test(refuses_entries_that_describe_no_tensor),
        cmocka_unit_test(refuses_shapes_that_overflow),
        cmocka_unit_test(refuses_offsets_that_do_not_fit),
        cmocka_unit_test(refuses_overlaps),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_flipped_bytes),
        cmocka_unit_test(reads_an_index),
        cmocka_unit_test(refuses_bad_folders),
        cmocka_unit_test(refuses_paths_out_of_the_folder),
        cmocka_unit_test(writes_and_reads_tensor_files),
        cmocka_unit_test(leaves_no_half_written_file),
        cmocka_unit_test(reports_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
