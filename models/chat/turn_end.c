/* turn_end.c - finds the token that ends an answer if a model's files name only eos but the chat template ends answers
 * with another token. Phi-3 is an example: its eos is <|endoftext|>, but its answers end with <|end|>. gpt-oss is
 * another. */
#include "models/chat/template.h"

#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/parts.h"

static const char mark[] = "@@answer@@";

/* Returns the added token at text[at], after skipping whitespace, or NULL if there is none. */
static const struct kvc_added *token_at(const struct kvc_tokenizer *tokenizer, const char *text, size_t at) {
    const size_t bytes = strlen(text);
    size_t start, end;
    at += strspn(text + at, " \n\t");
    const struct kvc_added *token =
        kvc_added_find(tokenizer, &tokenizer->added, text, NULL, bytes, at, true, &start, &end);
    return token && start <= at ? token : NULL;
}

/* Returns true if a token other than eos is known to end a turn, or if the template itself contains the text of eos. */
static bool is_known(const struct kvc_tokenizer *tokenizer, const char *chat) {
    size_t ends = 0;
    for (size_t i = 0; i < tokenizer->count; i++)
        ends += tokenizer->pieces[i].ends_turn;
    if (ends != 1 || tokenizer->eos < 0)
        return ends > 1;
    const struct kvc_vocab_entry *eos = &tokenizer->pieces[tokenizer->eos];
    return memmem(chat, strlen(chat), tokenizer->store.data + eos->spelling, eos->spelling_bytes) != NULL;
}

/* gpt-oss ends each of its messages with <|end|>. An answer has several messages; the last one ends with <|return|> or,
 * if it is a call of a function, with <|call|>. GGUF files of gpt-oss name only <|return|>, or <|end|> as well. */
static void find_channel_ends(struct kvc_tokenizer *tokenizer) {
    static const char *const names[] = {"<|end|>", "<|call|>", "<|return|>", "<|channel|>", "<|message|>"};
    enum { NAMES = sizeof names / sizeof *names };
    struct kvc_vocab_entry *found[NAMES] = {0};
    size_t count = 0;
    for (size_t i = 0; i < tokenizer->count; i++) {
        size_t bytes;
        const char *name = kvc_tokenizer_control(tokenizer, (int32_t)i, &bytes);
        for (size_t k = 0; name && k < NAMES; k++)
            if (!found[k] && bytes == strlen(names[k]) && memcmp(name, names[k], bytes) == 0) {
                found[k] = &tokenizer->pieces[i];
                count++;
            }
    }
    for (size_t k = 0; count == NAMES && k < 3; k++)
        found[k]->ends_turn = k > 0;
}

enum kvc_status kvc_chat_find_turn_end(struct kvc_tokenizer *tokenizer, struct kvc_error *error) {
    const struct kvc_message messages[] = {{"user", "Hello"}, {"assistant", mark}, {"user", "Hello"}};
    const struct kvc_chat_options options = {.date = "2025-01-01", .answer = true};
    struct kvc_error why = {0};
    struct kvc_rendered made = {0};
    const char *chat = kvc_template_for(tokenizer, false);
    find_channel_ends(tokenizer);
    if (!chat || is_known(tokenizer, chat))
        return KVC_OK;
    enum kvc_status status = kvc_chat_render(tokenizer, &options, messages, 3, &made, &why);
    if (status == KVC_RESOURCE)
        return kvc_fail(error, status, "%s", why.text);
    const char *text = made.text;
    /* if the template fails, the error is reported when the template is used */
    const char *found = text ? strstr(text, mark) : NULL;
    const struct kvc_added *token = found ? token_at(tokenizer, text, (size_t)(found - text) + strlen(mark)) : NULL;
    if (token)
        tokenizer->pieces[token->id].ends_turn = true;
    free(made.text);
    return KVC_OK;
}
