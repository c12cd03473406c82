/* convert_text.h - carries a folder's tokenizer over into a GGUF file. */
#ifndef KVC_MODELS_CONVERT_TEXT_H
#define KVC_MODELS_CONVERT_TEXT_H

#include "models/gguf_write.h"

/* Puts tokenizer.json as it is under the format's key for it, and what lies in the files beside it under the usual
 * keys. A folder without tokenizer.json gives a file without a tokenizer. */
enum kvc_status kvc_convert_text(const char *folder, uint64_t vocab, struct kvc_gguf_writer *writer,
                                 struct kvc_error *error);

#endif
