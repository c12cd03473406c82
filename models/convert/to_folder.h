/* to_folder.h - the steps of writing a Hugging Face folder. Uses jansson. */
#ifndef KVC_MODELS_CONVERT_TO_FOLDER_H
#define KVC_MODELS_CONVERT_TO_FOLDER_H

#include "models/files/output_folder.h"

struct json_t;
struct kvc_config;
struct kvc_gguf;
struct kvc_tokenizer;

/* Writes config.json. `dtype` is the type of the matrices. Reads it back and returns KVC_INPUT if it cannot express the
 * model. `from` is the model's path, for errors. */
enum kvc_status kvc_write_config(struct kvc_output_set *set, const char *from, const struct kvc_config *config,
                                 enum kvc_type dtype, struct kvc_error *error);

/* Writes tokenizer.json, tokenizer_config.json and generation_config.json from a GGUF file's keys. Writes nothing if
 * the file has no tokenizer. */
enum kvc_status kvc_write_text(struct kvc_output_set *set, const char *from, const struct kvc_gguf *file,
                               uint64_t vocab, struct kvc_error *error);
/* Copies the same files from a folder unchanged. */
enum kvc_status kvc_copy_text_files(struct kvc_output_set *set, const char *from, struct kvc_error *error);

/* Writes tokenizer.json for a tokenizer that was read from GGUF keys. */
enum kvc_status kvc_write_tokenizer(struct kvc_output_set *set, const char *from, const struct kvc_tokenizer *tokenizer,
                                    struct kvc_error *error);

/* Writes indented JSON and releases root. Returns KVC_RESOURCE if root is NULL or `whole` is false. */
enum kvc_status kvc_output_set_json(struct kvc_output_set *set, const char *name, struct json_t *root, bool whole,
                                    struct kvc_error *error);

#endif
