/* fuzz_vocabulary.c - input: a GGUF file. Opens its tokenizer and uses it on a fixed text. */
#include "models/chat/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(bool holds) {
    if (!holds)
        abort();
}

static void use(const struct kvc_tokenizer *tokenizer) {
    static const char text[] = " Hello  h\xc3\xa9llo 123\n<s>ab</s> <|x|>\xff\xe2\x96\x81 <0x0A>";
    struct kvc_error error = {0};
    for (unsigned flags = 0; flags < 4; flags++) {
        int32_t *ids;
        size_t count, out_bytes;
        char *out, part[16];
        if (kvc_tokenizer_encode(tokenizer, text, NULL, sizeof text - 1, flags, &ids, &count, &error) != KVC_OK)
            continue;
        check(kvc_tokenizer_decode(tokenizer, ids, count, flags & 1, &out, &out_bytes, &error) == KVC_OK);
        free(out);
        for (size_t i = 0; i < count; i++) {
            check(kvc_tokenizer_token_bytes(tokenizer, ids[i], i == 0, part, sizeof part, &out_bytes, &error) ==
                  KVC_OK);
            kvc_tokenizer_ends_turn(tokenizer, ids[i]);
        }
        free(ids);
    }
    const struct kvc_message message = {"user", "Hi"};
    struct kvc_rendered rendered;
    const struct kvc_chat_options chat = {.answer = true};
    if (kvc_chat_render(tokenizer, &chat, &message, 1, &rendered, &error) == KVC_OK)
        free(rendered.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct kvc_gguf *file;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    char path[64];
    int handle = memfd_create("input", 0);
    check(handle >= 0 && write(handle, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
    enum kvc_status status = kvc_gguf_open(path, &file, &error);
    close(handle);
    if (status != KVC_OK)
        return 0;
    status = kvc_tokenizer_from_gguf(file, "input", 4096, &tokenizer, &error);
    check(status == KVC_OK || (!tokenizer && error.text[0] && !strchr(error.text, '\n')));
    if (status == KVC_OK)
        use(tokenizer);
    kvc_tokenizer_close(tokenizer);
    kvc_gguf_close(file);
    return 0;
}
