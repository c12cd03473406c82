/* safetensors.h - reads one safetensors file (mapped) and the folder's index over several. Uses jansson. */
#ifndef KVC_MODELS_FILES_SAFETENSORS_H
#define KVC_MODELS_FILES_SAFETENSORS_H

#include "models/files/gguf.h"

struct kvc_safetensors;

/* path: a .safetensors file, or a folder with model.safetensors or model.safetensors.index.json. */
enum kvc_status kvc_safetensors_open(const char *path, struct kvc_safetensors **file, struct kvc_error *error);
/* Of a folder whose experts are fused as gpt-oss's are: stacks of gate, up and down as GGUF files have them, and their
 * biases (split_experts.c). */
enum kvc_status kvc_safetensors_split(struct kvc_safetensors *file, const char *path, struct kvc_error *error);
void kvc_safetensors_close(struct kvc_safetensors *file);
size_t kvc_safetensors_count(const struct kvc_safetensors *file);
const struct kvc_file_tensor *kvc_safetensors_at(const struct kvc_safetensors *file, size_t i);
const struct kvc_file_tensor *kvc_safetensors_tensor(const struct kvc_safetensors *file, const char *name);
/* The same; "model.x" and "lm_head.x" also under the names that a model which reads images too gives them. */
const struct kvc_file_tensor *kvc_safetensors_text_tensor(const struct kvc_safetensors *file, const char *name);

#endif
