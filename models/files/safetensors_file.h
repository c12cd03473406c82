/* safetensors_file.h - the internals of an open safetensors file or folder. */
#ifndef KVC_MODELS_FILES_SAFETENSORS_FILE_H
#define KVC_MODELS_FILES_SAFETENSORS_FILE_H

#include "models/files/map.h"
#include "models/files/safetensors.h"

struct kvc_safetensors {
    struct kvc_map *maps; /* one per file */
    size_t map_count;
    struct kvc_file_tensor *tensors;
    size_t tensor_count;
    void **copies; /* [tensor_count] or NULL: copies of tensors that are not aligned for their element type */
    uint32_t *by_name;
};

/* Maps a file and adds its tensors. */
enum kvc_status kvc_safetensors_add(struct kvc_safetensors *file, const char *path, struct kvc_error *error);

#endif
