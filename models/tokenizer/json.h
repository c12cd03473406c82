/* json.h - the parts of reading a tokenizer from JSON. */
#ifndef KVC_MODELS_TOKENIZER_JSON_H
#define KVC_MODELS_TOKENIZER_JSON_H

#include "models/tokenizer/parts.h"

#include <jansson.h>

/* tokenizer.json parsed; path names it in errors. */
enum kvc_status kvc_tokenizer_from_json(const json_t *root, const char *path, uint64_t vocab,
                                        struct kvc_tokenizer **tokenizer, struct kvc_error *error);
/* tokenizer.json as bytes. */
enum kvc_status kvc_tokenizer_from_bytes(const char *data, size_t bytes, const char *path, uint64_t vocab,
                                         struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* folder/name, with a NUL; false: no memory. */
bool kvc_folder_path(const char *folder, const char *name, struct kvc_text *path);
/* A JSON file of a folder; *root NULL: there is no such file. */
enum kvc_status kvc_folder_json(const char *folder, const char *name, json_t **root, struct kvc_error *error);
/* tokenizer.model (its path) and the tokens that files beside it add. */
enum kvc_status kvc_tokenizer_from_pieces(const char *path, const char *folder, uint64_t vocab,
                                          struct kvc_tokenizer **tokenizer, struct kvc_error *error);

/* "normalizer", "pre_tokenizer" and "decoder" of the file (steps.c). */
enum kvc_status kvc_json_steps(struct kvc_tokenizer *tokenizer, const json_t *root, const char *path,
                               struct kvc_error *error);
/* What a TemplateProcessing puts in front of a single text (steps.c). */
enum kvc_status kvc_json_prefix(struct kvc_tokenizer *tokenizer, const json_t *processor, const char *path,
                                struct kvc_error *error);

#endif
