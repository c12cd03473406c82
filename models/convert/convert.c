/* convert.c - kvc_convert: writes a GGUF file or a Hugging Face folder with a model's weights in another type. From
 * GGUF to GGUF it keeps all metadata and changes matrices only. */
#include "models/convert/convert.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/float.h"
#include "core/base/types.h"
#include "core/engine/engine.h"
#include "models/config/plan.h"

bool kvc_stays(const struct kvc_file_tensor *tensor, enum kvc_type asked) {
    return tensor->dimensions == 3 && tensor->type == KVC_MXFP4 && kvc_type_block(asked).elements > 1;
}

/* Returns the tensor's new type. Norms, biases, rotary factors and routers keep their types. */
static enum kvc_type new_type(const struct kvc_file_tensor *tensor, enum kvc_type asked,
                              struct kvc_replaced *replaced) {
    const size_t length = strlen(tensor->name);
    const bool bias = length > 5 && strcmp(tensor->name + length - 5, ".bias") == 0;
    if (tensor->dimensions < 2 || bias || strstr(tensor->name, ".ffn_gate_inp") || kvc_stays(tensor, asked)) {
        return tensor->type;
    }
    return kvc_plan_type(asked, tensor->cols, replaced);
}

static void copy_metadata(const struct kvc_gguf *file, enum kvc_type asked, struct kvc_gguf_writer *writer) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        /* The writer sets the new file's alignment, file type and number of parts. */
        if (strcmp(key, "general.alignment") != 0 && strcmp(key, "general.file_type") != 0 &&
            strncmp(key, "split.", 6) != 0) {
            uint64_t bytes;
            const unsigned char *data = kvc_gguf_value_data(file, i, &bytes);
            kvc_gguf_put_raw(writer, key, type, data, bytes);
        }
    }
    kvc_gguf_put_uint32(writer, "general.file_type", kvc_plan_file_type(asked));
    if (!kvc_gguf_has(file, "general.type")) {
        kvc_gguf_put_string(writer, "general.type", "model", strlen("model"));
    }
    if (!kvc_gguf_has(file, "general.quantization_version")) {
        kvc_gguf_put_uint32(writer, "general.quantization_version", 2);
    }
}

static enum kvc_status convert_file(struct kvc_converter *converter, const struct kvc_gguf *file, const char *to,
                                    enum kvc_type type, struct kvc_replaced *replaced, struct kvc_error *error) {
    const size_t count = kvc_gguf_tensor_count(file);
    enum kvc_type *types = malloc((count + 1) * sizeof *types);
    if (!types) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", converter->from);
    }
    copy_metadata(file, type, converter->writer);
    for (size_t i = 0; i < count; i++) {
        const struct kvc_file_tensor *tensor = kvc_gguf_tensor_at(file, i);
        types[i] = new_type(tensor, type, replaced);
        kvc_gguf_add_tensor(converter->writer, tensor->name, types[i], tensor->dimensions, tensor->shape);
    }
    enum kvc_status status = kvc_gguf_writer_begin(converter->writer, to, error);
    for (size_t i = 0; !status && i < count; i++) {
        status = kvc_convert_tensor(converter, kvc_gguf_tensor_at(file, i), types[i], 0, 0, i, error);
    }
    free(types);
    return status;
}

enum kvc_status kvc_convert_gguf(struct kvc_converter *converter, const char *to, enum kvc_type type,
                                 struct kvc_replaced *replaced, struct kvc_error *error) {
    struct kvc_gguf *file;
    struct kvc_config config;
    enum kvc_status status = kvc_gguf_open(converter->from, &file, error);
    if (status) {
        return status;
    }
    /* Before writing anything, refuses a model that kvcull could not open. Folders are checked in the same way. */
    status = kvc_config_from_gguf(file, converter->from, &config, error);
    if (!status) {
        status = kvc_config_convertible(&config, converter->from, error);
        kvc_config_free(&config);
    }
    if (!status) {
        status = convert_file(converter, file, to, type, replaced, error);
    }
    kvc_gguf_close(file);
    return status;
}

/* Reads the complete file back, then renames it to its final name. */
static enum kvc_status name_file(struct kvc_converter *converter, const char *to, struct kvc_error *error) {
    const char *written;
    enum kvc_status status = kvc_gguf_writer_finish(converter->writer, &written, error);
    if (!status) {
        status = kvc_convert_read_back(written, to, error);
    }
    if (!status) {
        struct kvc_gguf_writer *writer = converter->writer;
        converter->writer = NULL;
        status = kvc_gguf_writer_commit(writer, error);
    }
    return status;
}

static bool ends_in_slash(const char *path) {
    const size_t length = strlen(path);
    return length > 0 && path[length - 1] == '/';
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

enum kvc_status kvc_convert_type(const char *from, const char *to, enum kvc_type *type, struct kvc_error *error) {
    *type = KVC_Q8_0;
    return ends_in_slash(to) ? kvc_convert_folder_type(from, is_folder(from), type, error) : KVC_OK;
}

enum kvc_status kvc_convert(const char *from, const char *to, enum kvc_type type, struct kvc_error *error) {
    struct kvc_converter converter;
    struct kvc_replaced replaced = {0, 0};
    if ((unsigned)type >= KVC_TYPES) {
        return kvc_fail(error, KVC_USAGE, "%s: type %u: must be a value of enum kvc_type", to, (unsigned)type);
    }
    enum kvc_status status = kvc_gguf_check_output(to, error);
    if (!status) {
        status = kvc_converter_open(from, &converter, error);
    }
    if (status) {
        return status;
    }
    const bool folder = is_folder(from), to_folder = ends_in_slash(to);
    const uint64_t environment = kvc_float_open();
    if (to_folder) {
        status = kvc_convert_to_folder(&converter, folder, to, type, error);
    } else {
        status = (folder ? kvc_convert_folder : kvc_convert_gguf)(&converter, to, type, &replaced, error);
    }
    kvc_float_close(environment);
    if (!status && !to_folder) {
        status = name_file(&converter, to, error);
    }
    if (!status) {
        kvc_plan_note(&replaced, type, error);
    }
    kvc_converter_close(&converter);
    return status;
}
