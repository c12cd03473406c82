/* safetensors_file.h - the inside of an opened safetensors file or folder. */
#ifndef KVC_MODELS_FILES_SAFETENSORS_FILE_H
#define KVC_MODELS_FILES_SAFETENSORS_FILE_H

#include "models/files/map.h"
#include "models/files/safetensors.h"

struct kvc_safetensors {
    struct kvc_map *maps; /* one per file */
    size_t map_count;
    struct kvc_file_tensor *tensors;
    size_t tensor_count;
    void **copies; /* of tensors that lie where their element type cannot be read; [tensor_count] or NULL */
    uint32_t *by_name;
};

/* Maps one file and adds its tensors. */
enum kvc_status kvc_safetensors_add(struct kvc_safetensors *file, const char *path, struct kvc_error *error);

#endif
