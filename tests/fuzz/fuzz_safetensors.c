/* fuzz_safetensors.c - input: a safetensors file or, if it begins with '{', the index of a folder with two files. */
#include <sys/stat.h>

#include "models/files/scaled.h"
#include "tests/fuzz/memory_file.h"

static void put_file(const char *folder, const char *name, const void *data, size_t bytes) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path); /* On some file systems, truncating an existing file waits for the disk. */
    FILE *file = fopen(path, "wb");
    check(file && (bytes == 0 || fwrite(data, bytes, 1, file) == 1) && fclose(file) == 0);
}

static char folder[] = "/tmp/kvcull-fuzz-XXXXXX";

static void remove_folder(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    check(system(command) == 0);
}

static const char *index_folder(const uint8_t *data, size_t bytes) {
    static bool made;
    if (!made) {
        static const char header[] = "{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
        char one[100] = {(char)(sizeof header - 1)};
        memcpy(one + 8, header, sizeof header - 1);
        check(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        put_file(folder, "one.safetensors", one, 8 + sizeof header - 1 + 4);
        one[8 + 2] = 'b';
        put_file(folder, "two.safetensors", one, 8 + sizeof header - 1 + 4);
        made = true;
    }
    put_file(folder, "model.safetensors.index.json", data, bytes);
    return folder;
}

static void touch_all(const struct kvc_safetensors *file) {
    struct kvc_error error = {0};
    for (size_t i = 0; i < kvc_safetensors_count(file); i++) {
        const struct kvc_file_tensor *tensor = kvc_safetensors_at(file, i);
        check(kvc_safetensors_tensor(file, tensor->name) == tensor);
        check(kvc_tensor_make(tensor, "made", &error) == KVC_OK);
        check((uintptr_t)kvc_tensor_data(tensor) % (tensor->type == KVC_F32 ? 4 : 2) == 0);
        touch(kvc_tensor_data(tensor), tensor->bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_safetensors *file = NULL;
    struct kvc_error error = {0};
    const bool index = bytes > 0 && data[0] == '{';
    enum kvc_status status =
        kvc_safetensors_open(index ? index_folder(data, bytes) : memory_file(data, bytes), &file, &error);
    if (status) {
        check_refusal(status, file, &error);
        return 0;
    }
    touch_all(file);
    status = kvc_safetensors_split(file, "split", &error); /* refused data leave the file unchanged */
    check(status == KVC_OK || error.text[0]);
    if (status == KVC_OK)
        touch_all(file);
    kvc_safetensors_close(file);
    return 0;
}
