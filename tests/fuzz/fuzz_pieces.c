/* fuzz_pieces.c - input: a SentencePiece tokenizer.model. Its own bytes are also the text to encode. */
#include "models/tokenizer/sentencepiece.h"
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    enum kvc_status status =
        kvc_tokenizer_from_sentencepiece(data, bytes, "input", UINT64_MAX, bytes % 7, &tokenizer, &error);
    check(status == KVC_OK || (!tokenizer && error.text[0] && !strchr(error.text, '\n')));
    if (status != KVC_OK)
        return 0;
    if (kvc_added_sort(tokenizer, &error) != KVC_OK || kvc_vocab_finish(tokenizer, &error) != KVC_OK) {
        kvc_tokenizer_close(tokenizer);
        return 0;
    }
    use_tokenizer(tokenizer, (const char *)data, bytes, (int32_t)KVC_MOST_TOKENS);
    return 0;
}
