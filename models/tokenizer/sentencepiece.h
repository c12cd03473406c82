/* sentencepiece.h - reads a tokenizer from tokenizer.model, the format of SentencePiece. */
#ifndef KVC_MODELS_TOKENIZER_SENTENCEPIECE_H
#define KVC_MODELS_TOKENIZER_SENTENCEPIECE_H

#include "models/tokenizer/parts.h"

/* Reads the bytes of tokenizer.model. kvc_tokenizer_from_folder explains `vocab`. Makes room for at least `least`
 * tokens, because tokens missing from the file are added later. The caller then calls kvc_added_sort and
 * kvc_vocab_finish. */
enum kvc_status kvc_tokenizer_from_sentencepiece(const void *data, size_t bytes, const char *path, uint64_t vocab,
                                                 uint64_t least, struct kvc_tokenizer **tokenizer,
                                                 struct kvc_error *error);
/* Makes a new tokenizer's normalizer and decoder. `prefix` prepends a space to a text. `remove_spaces` removes spaces
 * at its ends and shortens runs of spaces to one. */
enum kvc_status kvc_sentencepiece_steps(struct kvc_tokenizer *tokenizer, bool prefix, bool remove_spaces,
                                        const char *path, struct kvc_error *error);

#endif
