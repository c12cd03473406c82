/* fuzz_tokenizer.c - a tokenizer.json up to the first NUL byte, after it a text to encode, decode and write out. */
#include "models/tokenizer/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(bool holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    const uint8_t *end = bytes ? memchr(data, 0, bytes) : NULL;
    size_t json = end ? (size_t)(end - data) : bytes;
    const char *text = end ? (const char *)end + 1 : "";
    size_t text_bytes = end ? bytes - json - 1 : 0;
    enum kvc_status status = kvc_tokenizer_from_bytes((const char *)data, json, "input", 4096, &tokenizer, &error);
    check(status == KVC_OK || (!tokenizer && error.text[0] && !strchr(error.text, '\n')));
    if (status != KVC_OK)
        return 0;
    for (unsigned flags = 0; flags < 4; flags++) {
        int32_t *ids;
        size_t count, out_bytes;
        char *out;
        if (kvc_tokenizer_encode(tokenizer, text, text_bytes, flags, &ids, &count, &error) != KVC_OK)
            continue;
        for (size_t i = 0; i < count; i++)
            check(ids[i] >= 0 && ids[i] < 4096);
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
    return 0;
}
