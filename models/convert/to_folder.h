/* to_folder.h - the parts of writing a Hugging Face folder. Uses jansson. */
#ifndef KVC_MODELS_CONVERT_TO_FOLDER_H
#define KVC_MODELS_CONVERT_TO_FOLDER_H

#include "models/files/output_folder.h"

struct json_t;
struct kvc_config;
struct kvc_gguf;
struct kvc_tokenizer;

/* config.json. dtype: of the matrices. It is read again: what it cannot say of the model is KVC_INPUT. from: the model,
 * for errors. */
enum kvc_status kvc_write_config(struct kvc_output_set *set, const char *from, const struct kvc_config *config,
                                 enum kvc_type dtype, struct kvc_error *error);

/* tokenizer.json, tokenizer_config.json and generation_config.json, as a GGUF file's keys say; nothing where it has no
 * tokenizer. */
enum kvc_status kvc_write_text(struct kvc_output_set *set, const char *from, const struct kvc_gguf *file,
                               uint64_t vocab, struct kvc_error *error);
/* The same files of a folder, as they are. */
enum kvc_status kvc_copy_text_files(struct kvc_output_set *set, const char *from, struct kvc_error *error);

/* tokenizer.json of a tokenizer that was read from a GGUF file's keys. */
enum kvc_status kvc_write_tokenizer(struct kvc_output_set *set, const char *from, const struct kvc_tokenizer *tokenizer,
                                    struct kvc_error *error);

/* Writes JSON, indented. The root is given up; NULL, or a part that could not be made: no memory. */
enum kvc_status kvc_output_set_json(struct kvc_output_set *set, const char *name, struct json_t *root, bool whole,
                                    struct kvc_error *error);

#endif
