/* text.h - copies a folder's tokenizer into a GGUF file. */
#ifndef KVC_MODELS_CONVERT_TEXT_H
#define KVC_MODELS_CONVERT_TEXT_H

#include "models/files/gguf_write.h"

struct kvc_merge;
struct kvc_tokenizer;

/* Writes the tokenizer under the usual keys. If these cannot express everything, also stores tokenizer.json itself. A
 * folder without tokenizer.json gives a file without a tokenizer. */
enum kvc_status kvc_convert_text(const char *folder, uint64_t vocab, struct kvc_gguf_writer *writer,
                                 struct kvc_error *error);

/* Writes the keys for the tokens and for splitting a text into them. Sets *whole to true if they describe the tokenizer
 * completely. Returns false if out of memory. */
bool kvc_convert_vocab(const struct kvc_tokenizer *tokenizer, struct kvc_gguf_writer *writer, bool *whole);

/* Returns the merges sorted by priority, or NULL if out of memory. The caller frees them. */
struct kvc_merge *kvc_sorted_merges(const struct kvc_tokenizer *tokenizer, size_t *count);

#endif
