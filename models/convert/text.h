/* text.h - carries a folder's tokenizer over into a GGUF file. */
#ifndef KVC_MODELS_CONVERT_TEXT_H
#define KVC_MODELS_CONVERT_TEXT_H

#include "models/files/gguf_write.h"

struct kvc_merge;
struct kvc_tokenizer;

/* Puts the tokenizer under the usual keys, and tokenizer.json as it is beside them where they cannot say all of it. A
 * folder without tokenizer.json gives a file without a tokenizer. */
enum kvc_status kvc_convert_text(const char *folder, uint64_t vocab, struct kvc_gguf_writer *writer,
                                 struct kvc_error *error);

/* The keys that say which tokens there are and how a text is cut into them. *whole: they say everything. Returns false
 * where there is no memory. */
bool kvc_convert_vocab(const struct kvc_tokenizer *tokenizer, struct kvc_gguf_writer *writer, bool *whole);

/* The merges by rank; malloc'ed, NULL: no memory. */
struct kvc_merge *kvc_sorted_merges(const struct kvc_tokenizer *tokenizer, size_t *count);

#endif
