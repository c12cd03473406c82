/* safetensors.h - reads a memory-mapped safetensors file, or a folder with several files and an index. Uses jansson. */
#ifndef KVC_MODELS_FILES_SAFETENSORS_H
#define KVC_MODELS_FILES_SAFETENSORS_H

#include "models/files/gguf.h"

struct kvc_safetensors;

/* Opens path: a .safetensors file, or a folder with model.safetensors or model.safetensors.index.json. */
enum kvc_status kvc_safetensors_open(const char *path, struct kvc_safetensors **file, struct kvc_error *error);
/* Splits the fused experts of a gpt-oss folder, and their biases, into stacks of gate, up and down as in GGUF files
 * (split_experts.c). */
enum kvc_status kvc_safetensors_split(struct kvc_safetensors *file, const char *path, struct kvc_error *error);
void kvc_safetensors_let_go(const struct kvc_safetensors *file); /* calls kvc_map_let_go for every file */
void kvc_safetensors_close(struct kvc_safetensors *file);
size_t kvc_safetensors_count(const struct kvc_safetensors *file);
const struct kvc_file_tensor *kvc_safetensors_at(const struct kvc_safetensors *file, size_t i);
const struct kvc_file_tensor *kvc_safetensors_tensor(const struct kvc_safetensors *file, const char *name);
/* Also finds "model.x" and "lm_head.x" under the names that models with image input give them. */
const struct kvc_file_tensor *kvc_safetensors_text_tensor(const struct kvc_safetensors *file, const char *name);

#endif
