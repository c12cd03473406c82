/* json.h - the steps of reading a tokenizer from JSON. */
#ifndef KVC_MODELS_TOKENIZER_JSON_H
#define KVC_MODELS_TOKENIZER_JSON_H

#include "models/tokenizer/parts.h"

#include <jansson.h>

/* Reads a parsed tokenizer.json. `path` is the file's name in errors. */
enum kvc_status kvc_tokenizer_from_json(const json_t *root, const char *path, uint64_t vocab,
                                        struct kvc_tokenizer **tokenizer, struct kvc_error *error);
/* Parses and reads tokenizer.json. */
enum kvc_status kvc_tokenizer_from_bytes(const char *data, size_t bytes, const char *path, uint64_t vocab,
                                         struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* Makes the path folder/name, NUL-terminated. Returns false if out of memory. */
bool kvc_folder_path(const char *folder, const char *name, struct kvc_text *path);
/* Loads a JSON file of a folder. *root is NULL if there is no such file. */
enum kvc_status kvc_folder_json(const char *folder, const char *name, json_t **root, struct kvc_error *error);
/* Reads tokenizer.model at `path`, and the tokens that files next to it add. */
enum kvc_status kvc_tokenizer_from_pieces(const char *path, const char *folder, uint64_t vocab,
                                          struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* Reads "normalizer", "pre_tokenizer" and "decoder" (steps.c). */
enum kvc_status kvc_json_steps(struct kvc_tokenizer *tokenizer, const json_t *root, const char *path,
                               struct kvc_error *error);
/* Reads the tokens that a TemplateProcessing puts in front of a single text (steps.c). */
enum kvc_status kvc_json_prefix(struct kvc_tokenizer *tokenizer, const json_t *processor, const char *path,
                                struct kvc_error *error);

#endif
