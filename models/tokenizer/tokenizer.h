/* tokenizer.h - converts text to token ids and back: byte-level BPE, SentencePiece BPE with byte fallback,
 * WordLevel. */
#ifndef KVC_MODELS_TOKENIZER_TOKENIZER_H
#define KVC_MODELS_TOKENIZER_TOKENIZER_H

#include "models/files/gguf.h"

struct kvc_tokenizer;

/* Read a tokenizer from a GGUF file's tokenizer.ggml.* keys, or from a folder's tokenizer.json or tokenizer.model. A
 * folder may also have tokenizer_config.json, generation_config.json, special_tokens_map.json and chat_template.jinja.
 * vocab: rows of the embedding; larger ids are an error. */
enum kvc_status kvc_tokenizer_from_gguf(const struct kvc_gguf *file, const char *path, uint64_t vocab,
                                        struct kvc_tokenizer **tokenizer, struct kvc_error *error);
enum kvc_status kvc_tokenizer_from_folder(const char *folder, uint64_t vocab, struct kvc_tokenizer **tokenizer,
                                          struct kvc_error *error);
void kvc_tokenizer_close(struct kvc_tokenizer *tokenizer);

uint32_t kvc_tokenizer_count(const struct kvc_tokenizer *tokenizer); /* number of ids */
int32_t kvc_tokenizer_bos(const struct kvc_tokenizer *tokenizer);    /* -1: none */
int32_t kvc_tokenizer_eos(const struct kvc_tokenizer *tokenizer);
bool kvc_tokenizer_ends_turn(const struct kvc_tokenizer *tokenizer, int32_t token);
/* Returns the name [bytes] of a control token, without a NUL; NULL and 0 bytes for other tokens. */
const char *kvc_tokenizer_control(const struct kvc_tokenizer *tokenizer, int32_t token, size_t *bytes);
bool kvc_tokenizer_has_template(const struct kvc_tokenizer *tokenizer); /* a chat template under any name */

/* Implement kvc_tokenize_marked (without marks: kvc_tokenize), kvc_detokenize and kvc_token_bytes of kvcull.h. */
enum kvc_status kvc_tokenizer_encode(const struct kvc_tokenizer *tokenizer, const char *text, const char *marks,
                                     size_t bytes, unsigned flags, int32_t **tokens, size_t *count,
                                     struct kvc_error *error);
enum kvc_status kvc_tokenizer_decode(const struct kvc_tokenizer *tokenizer, const int32_t *tokens, size_t count,
                                     bool special, char **text, size_t *bytes, struct kvc_error *error);
enum kvc_status kvc_tokenizer_token_bytes(const struct kvc_tokenizer *tokenizer, int32_t token, bool first, char *text,
                                          size_t capacity, size_t *bytes, struct kvc_error *error);

#endif
