/* test_gguf_parts.c - models in several GGUF files: any part opens all of them; parts that do not belong together are
 * refused. */
#include "tests/models/gguf_maker.h"

#define NAME(number) "model-0000" #number "-of-00003.gguf"

/* What a part contains about itself; each part has one tensor of 8 numbers, f32. */
struct part {
    uint64_t number, count, tensors;
    const char *tensor, *key; /* `key`: a text key besides the keys that describe the parts; NULL: none */
    const char *value;
};

static const struct part sound[3] = {
    {0, 3, 3, "first", "general.name", "whole"}, {1, 3, 3, "second", NULL, NULL}, {2, 3, 3, "third", NULL, NULL}};

static void make_part(const struct part *part) {
    start(&made, 1, part->key ? 4 : 3);
    put_key(&made, "split.no", KVC_GGUF_U16);
    put_number(&made, part->number, 2);
    put_key(&made, "split.count", KVC_GGUF_U16);
    put_number(&made, part->count, 2);
    put_key(&made, "split.tensors.count", KVC_GGUF_I32);
    put_number(&made, part->tensors, 4);
    if (part->key) {
        put_key(&made, part->key, KVC_GGUF_STRING);
        put_text(&made, part->value);
    }
    put_tensor(&made, part->tensor, 1, (uint64_t[]){8}, 0, 0);
    while (made.used % 32 != 0) {
        put_number(&made, 0, 1);
    }
    for (uint64_t i = 0; i < 8; i++) {
        put_number(&made, part->number + 1, 4);
    }
}

static const char *const names[3] = {NAME(1), NAME(2), NAME(3)};

static void write_parts(const struct part *parts) {
    for (int i = 0; i < 3; i++) {
        make_part(&parts[i]);
        write_file(names[i], made.data, made.used);
    }
}

static void refuse_path(const char *path, const char *says) {
    struct kvc_gguf *file;
    struct kvc_error error = {0};
    check_refusal(kvc_gguf_open(path, &file, &error), KVC_INPUT, &error, says);
    assert_null(file);
}

/* One property of the parts is wrong; this is found whichever part is opened. */
static void refuse_parts(const struct part *parts, const char *says) {
    write_parts(parts);
    for (int i = 0; i < 3; i++) {
        refuse_path(own_path(names[i]), says);
    }
}

static void opens_all_from_any_part(void **state) {
    (void)state;
    static const char *const tensors[3] = {"first", "second", "third"};
    write_parts(sound);
    for (int given = 0; given < 3; given++) {
        struct kvc_gguf *file;
        struct kvc_error error = {0};
        const char *text;
        size_t bytes;
        if (kvc_gguf_open(own_path(names[given]), &file, &error)) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(kvc_gguf_tensor_count(file), 3);
        for (unsigned i = 0; i < 3; i++) {
            const struct kvc_file_tensor *tensor = kvc_gguf_tensor(file, tensors[i]);
            assert_non_null(tensor);
            assert_int_equal(tensor->bytes, 32);
            for (int k = 0; k < 8; k++) {
                assert_int_equal(((const uint32_t *)tensor->data)[k], i + 1);
            }
            /* The tensor lies in the mapping of its own file. */
            assert_non_null(strstr(kvc_mapped_path(tensor->data), names[i]));
        }
        assert_true(kvc_gguf_string(file, "general.name", &text, &bytes) && bytes == 5);
        kvc_gguf_close(file);
    }
}

static void opens_a_model_split_into_one(void **state) {
    (void)state;
    make_part(&(struct part){0, 1, 1, "only", NULL, NULL});
    struct kvc_gguf *file = accept();
    assert_int_equal(kvc_gguf_tensor_count(file), 1);
    kvc_gguf_close(file);
}

static void refuses_names_that_lie(void **state) {
    (void)state;
    write_parts(sound);
    make_part(&sound[1]);
    refuse("says that it is part 2 of 3; its name must end in -00002-of-00003.gguf");
    refuse_path(write_file("model-00001-of-00003.gguf", made.data, made.used), "says that it is part 2 of 3");
    refuse_path(write_file("other-00002-of-00004.gguf", made.data, made.used), "says that it is part 2 of 3");
    refuse_path(write_file("other-00002_of-00003.gguf", made.data, made.used), "its name must end");
    start(&made, 1, 0);
    put_tensor(&made, "a", 1, (uint64_t[]){8}, 0, 0);
    put_data(&made, 32, 32);
    refuse_path(write_file("named-00001-of-00002.gguf", made.data, made.used), "has no split.count above 1");
    struct kvc_gguf *file; /* a single part of one is a whole file, whatever it is named */
    struct kvc_error error;
    assert_int_equal(kvc_gguf_open(write_file("named-00001-of-00001.gguf", made.data, made.used), &file, &error), 0);
    kvc_gguf_close(file);
}

static void refuses_parts_that_are_not_there(void **state) {
    (void)state;
    write_parts(sound);
    unlink(own_path(names[2]));
    refuse_path(own_path(names[0]), NAME(3) ": cannot be opened");
    refuse_path(own_path(names[1]), NAME(3) ": cannot be opened");
    write_file(names[2], "GGUF", 4);
    refuse_path(own_path(names[0]), "cut short");
}

static void refuses_parts_of_other_models(void **state) {
    (void)state;
    struct part parts[3];
    memcpy(parts, sound, sizeof parts);
    parts[2].number = 1;
    write_parts(parts);
    refuse_path(own_path(names[0]), "says that it is part 2 of 3 with 3 tensors in all; part 3 of 3 with 3");
    parts[2].number = 3;
    write_parts(parts);
    refuse_path(own_path(names[0]), "split.no is missing or not below split.count, 3");
    memcpy(parts, sound, sizeof parts);
    parts[1].count = 2;
    write_parts(parts);
    refuse_path(own_path(names[0]), "says that it is part 2 of 2");
    memcpy(parts, sound, sizeof parts);
    parts[1].count = 0;
    write_parts(parts);
    refuse_path(own_path(names[2]), "says that it is part 2 of 0");
    memcpy(parts, sound, sizeof parts);
    parts[2].tensors = 4;
    write_parts(parts);
    refuse_path(own_path(names[0]), "with 4 tensors in all; part 3 of 3 with 3 was expected");
    refuse_path(own_path(names[2]), "with 3 tensors in all; part 1 of 3 with 4 was expected");
}

static void refuses_tensors_that_are_too_many(void **state) {
    (void)state;
    struct part parts[3];
    memcpy(parts, sound, sizeof parts);
    for (int i = 0; i < 3; i++) {
        parts[i].tensors = 4;
    }
    refuse_parts(parts, "its 3 parts have 3 tensors; split.tensors.count says 4");
    for (int i = 0; i < 3; i++) {
        parts[i].tensors = 2;
    }
    refuse_parts(parts, "its 3 parts have 3 tensors; split.tensors.count says 2");
    memcpy(parts, sound, sizeof parts);
    parts[2].tensor = "first";
    refuse_parts(parts, "tensor first comes twice");
}

static void refuses_metadata_elsewhere(void **state) {
    (void)state;
    struct part parts[3];
    memcpy(parts, sound, sizeof parts);
    parts[1].key = "llama.block_count";
    parts[1].value = "2";
    refuse_parts(parts, NAME(2) ": has the key llama.block_count");
    parts[1].key = "general.name";
    refuse_parts(parts, "has the key general.name");
    parts[1].value = "whole"; /* the same key again */
    write_parts(parts);
    struct kvc_gguf *file;
    struct kvc_error error;
    assert_int_equal(kvc_gguf_open(own_path(names[1]), &file, &error), KVC_OK);
    kvc_gguf_close(file);
}

static void refuses_keys_of_another_kind(void **state) {
    (void)state;
    start(&made, 0, 1);
    put_key(&made, "split.count", KVC_GGUF_STRING);
    put_text(&made, "3");
    refuse("split.count is not a whole number");
    start(&made, 0, 1);
    put_uint32(&made, "split.count", 65536);
    refuse("split.count is not a whole number of at most 65535");
    start(&made, 0, 1);
    put_uint32(&made, "split.count", 2);
    refuse("split.no is missing");
    start(&made, 0, 2);
    put_uint32(&made, "split.count", 2);
    put_uint32(&made, "split.no", 0);
    refuse("split.tensors.count is missing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_all_from_any_part),       cmocka_unit_test(opens_a_model_split_into_one),
        cmocka_unit_test(refuses_names_that_lie),        cmocka_unit_test(refuses_parts_that_are_not_there),
        cmocka_unit_test(refuses_parts_of_other_models), cmocka_unit_test(refuses_tensors_that_are_too_many),
        cmocka_unit_test(refuses_metadata_elsewhere),    cmocka_unit_test(refuses_keys_of_another_kind),
    };
    return cmocka_run_group_tests(tests, NULL, remove_own_folder);
}
