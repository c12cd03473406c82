/* sentencepiece.h - a tokenizer from tokenizer.model, as SentencePiece writes it. */
#ifndef KVC_MODELS_TOKENIZER_SENTENCEPIECE_H
#define KVC_MODELS_TOKENIZER_SENTENCEPIECE_H

#include "models/tokenizer/parts.h"

/* The bytes of tokenizer.model. vocab: as kvc_tokenizer_from_folder has it; least: room for so many tokens, of which
 * those that are not in the file come later. Then kvc_added_sort and kvc_vocab_finish. */
enum kvc_status kvc_tokenizer_from_sentencepiece(const void *data, size_t bytes, const char *path, uint64_t vocab,
                                                 uint64_t least, struct kvc_tokenizer **tokenizer,
                                                 struct kvc_error *error);
/* A new tokenizer's normalizer and decoder. prefix: a space is put in front of a text; remove_spaces: at its ends and
 * in runs they go. */
enum kvc_status kvc_sentencepiece_steps(struct kvc_tokenizer *tokenizer, bool prefix, bool remove_spaces,
                                        const char *path, struct kvc_error *error);

#endif
