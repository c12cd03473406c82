/* use_tokenizer.h - encodes a text with every option, decodes it and writes it, for fuzz targets of tokenizers. */
#ifndef KVC_TESTS_FUZZ_USE_TOKENIZER_H
#define KVC_TESTS_FUZZ_USE_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static inline void check(bool holds) {
    if (!holds)
        abort();
}

/* Uses a tokenizer of at most `most` tokens and closes it. */
static inline void use_tokenizer(struct kvc_tokenizer *tokenizer, const char *text, size_t text_bytes, int32_t most) {
    struct kvc_error error = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        int32_t *ids;
        size_t count, out_bytes;
        char *out;
        if (kvc_tokenizer_encode(tokenizer, text, NULL, text_bytes, flags, &ids, &count, &error) != KVC_OK)
            continue;
        for (size_t i = 0; i < count; i++)
            check(ids[i] >= 0 && ids[i] < most);
        check(kvc_tokenizer_decode(tokenizer, ids, count, flags & 1, &out, &out_bytes, &error) == KVC_OK);
        free(out);
        for (size_t i = 0; i < count; i++) {
            char part[16];
            check(kvc_tokenizer_token_bytes(tokenizer, ids[i], i == 0, part, sizeof part, &out_bytes, &error) ==
                  KVC_OK);
            kvc_tokenizer_ends_turn(tokenizer, ids[i]);
        }
        free(ids);
    }
    kvc_tokenizer_close(tokenizer);
}

#endif
