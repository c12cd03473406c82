/* fuzz_tokenizer.c - input: a tokenizer.json up to the first NUL byte, then a text to encode, decode and write. */
#include "models/tokenizer/json.h"
#include "tests/fuzz/use_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    const uint8_t *end = bytes ? memchr(data, 0, bytes) : NULL;
    size_t json = end ? (size_t)(end - data) : bytes;
    const char *text = end ? (const char *)end + 1 : "";
    size_t text_bytes = end ? bytes - json - 1 : 0;
    enum kvc_status status = kvc_tokenizer_from_bytes((const char *)data, json, "input", 4096, &tokenizer, &error);
    check(status == KVC_OK || (!tokenizer && error.text[0] && !strchr(error.text, '\n')));
    if (status == KVC_OK)
        use_tokenizer(tokenizer, text, text_bytes, 4096);
    return 0;
}
