/* fuzz_gguf.c - input: a GGUF file. Tests the reader, all values, and the whole model if it is one. */
#include "models/files/gguf.h"
#include "tests/fuzz/memory_file.h"

static void read_key(const struct kvc_gguf *file, const char *key) {
    enum kvc_gguf_type type;
    uint64_t count, value;
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    size_t bytes;
    check(kvc_gguf_has(file, key));
    kvc_gguf_uint(file, key, &value);
    kvc_gguf_real(file, key, &real);
    kvc_gguf_bool(file, key, &flag);
    if (kvc_gguf_string(file, key, &text, &bytes)) {
        touch(text, bytes);
    }
    if (!kvc_gguf_array(file, key, &type, &count)) {
        return;
    }
    for (uint64_t i = 0; i <= count && i < 1000; i++) {
        check(!kvc_gguf_array_uint(file, key, i, &value) || i < count);
        check(!kvc_gguf_array_int(file, key, i, &integer) || i < count);
        check(!kvc_gguf_array_real(file, key, i, &real) || i < count);
        if (kvc_gguf_array_string(file, key, i, &text, &bytes)) {
            check(i < count);
            touch(text, bytes);
        }
    }
}

static void read_file(const struct kvc_gguf *file) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        uint64_t bytes;
        const unsigned char *data = kvc_gguf_value_data(file, i, &bytes);
        touch(data, bytes);
        read_key(file, key);
    }
    for (size_t i = 0; i < kvc_gguf_tensor_count(file); i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        check(kvc_gguf_tensor(file, tensor->name) == tensor);
        touch(tensor->data, tensor->bytes);
    }
}

static void open_model(const char *path) {
    static struct kvc_engine *engine;
    struct kvc_error error = {0};
    struct kvc_model *model = NULL;
    if (!engine) {
        const struct kvc_engine_options options = {.backend = "ref", .threads = 1};
        check(kvc_engine_open(&options, &engine, &error) == KVC_OK);
    }
    enum kvc_status status = kvc_model_open(engine, path, &model, &error);
    if (status) {
        check_refusal(status, model, &error);
        return;
    }
    int32_t *ids;
    size_t count;
    if (kvc_tokenize(model, "a text \xff\n12", 11, 3, &ids, &count, &error) == KVC_OK) {
        for (size_t i = 0; i < count; i++) {
            check(ids[i] >= 0 && (uint32_t)ids[i] < kvc_model_info(model)->vocab);
        }
        free(ids);
    }
    kvc_model_close(model);
}

static char (*part_paths)[60]; /* the paths of two parts, once two parts were tested */

static void remove_parts(void) {
    unlink(part_paths[0]);
    unlink(part_paths[1]);
    *strrchr(part_paths[0], '/') = '\0';
    rmdir(part_paths[0]);
}

/* Two parts of a model: "PART", 4 bytes with the length of the first part, both parts. They are written into a folder
 * of this process; the result is the path of the second part. */
static const char *write_parts(const uint8_t *data, size_t bytes) {
    static char paths[2][60];
    if (!paths[0][0]) {
        char folder[] = "/tmp/kvcull-fuzz-XXXXXX";
        check(mkdtemp(folder) != NULL);
        for (int i = 0; i < 2; i++) {
            snprintf(paths[i], sizeof paths[i], "%s/m-0000%d-of-00002.gguf", folder, i + 1);
        }
        atexit(remove_parts);
    }
    uint32_t first;
    memcpy(&first, data + 4, 4);
    first = first < bytes - 8 ? first : (uint32_t)(bytes - 8);
    const size_t starts[3] = {8, 8 + first, bytes};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "wb");
        check(file != NULL);
        check(fwrite(data + starts[i], 1, starts[i + 1] - starts[i], file) == starts[i + 1] - starts[i]);
        check(fclose(file) == 0);
    }
    part_paths = paths;
    return paths[1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const bool parts = bytes >= 8 && !memcmp(data, "PART", 4);
    const char *path = parts ? write_parts(data, bytes) : memory_file(data, bytes);
    struct kvc_gguf *file = NULL;
    struct kvc_error error = {0};
    enum kvc_status status = kvc_gguf_open(path, &file, &error);
    if (status) {
        check_refusal(status, file, &error);
        return 0;
    }
    read_file(file);
    kvc_gguf_close(file);
    open_model(path);
    return 0;
}
