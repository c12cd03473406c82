/* template.c - renders a conversation with the family's template, told by name or by marks in the model's own text. */
#include "models/chat/template.h"

#include <stdlib.h>
#include <string.h>

bool kvc_chat_template(size_t i, const char **name, const char **summary) {
    size_t count = 0;
    while (kvc_chat_families[count].name && count < i)
        count++;
    *name = kvc_chat_families[count].name;
    *summary = kvc_chat_families[count].summary;
    return *name != NULL;
}

/* Marks of a template's text, looked for from top to bottom: all of `with`. Line ends are written \\n in all of them.
 */
static const struct mark {
    const char *name, *with[3];
} marks[] = {
    {"llama3.1", {"<|start_header_id|>", "Cutting Knowledge Date"}},
    {"llama3", {"<|start_header_id|>", "<|end_header_id|>"}},
    {"phi4", {"<|im_start|>", "<|im_sep|>"}},
    {"qwen3", {"<|im_start|>", "reasoning_content", "</think>"}},
    {"chatml", {"<|im_start|>", "<|im_end|>"}}, /* Qwen2's and Qwen2.5's system messages stand in their text */
    {"llama2", {"[INST]", "<<SYS>>"}},
    {"mistral-nemo", {"\"[INST]\" +"}},
    {"mistral-v0.3", {"[INST]", "\"[/INST]\""}},
    {"mistral-v0.2", {"[INST]", " [/INST]"}},
    {"phi3", {"<|end|>", "'<|end|>' + '\\n' + '<|assistant|>' + '\\n'"}},
    {"phi3", {"<|end|>", "<|end|>\\n<|assistant|>\\n"}},
    {"phi4-mini", {"<|end|>", "'|>' + message['content'] + '<|end|>'"}},
    {"phi3.5", {"<|end|>", "<|user|>", "<|assistant|>"}},
    {"vicuna", {"USER: ", "ASSISTANT:"}},
};

static const struct kvc_chat_family *by_name(const char *name) {
    for (size_t i = 0; kvc_chat_families[i].name; i++)
        if (!strcmp(name, kvc_chat_families[i].name))
            return &kvc_chat_families[i];
    return NULL;
}

/* *family NULL: none of them. */
static enum kvc_status by_text(const char *jinja, const struct kvc_chat_family **family, struct kvc_error *error) {
    struct kvc_text text = {0}; /* real line ends and \\n in the template's strings mean the same */
    bool fits = true;
    for (; *jinja && fits; jinja++)
        fits = *jinja == '\n' ? kvc_text_add(&text, "\\n", 2) : kvc_text_add(&text, jinja, 1);
    if (!fits || !kvc_text_add(&text, "", 1)) {
        kvc_text_free(&text);
        return kvc_no_memory(error);
    }
    *family = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !*family; i++) {
        bool all = true;
        for (int k = 0; k < 3 && all; k++)
            all = !marks[i].with[k] || strstr(text.data, marks[i].with[k]);
        if (all)
            *family = by_name(marks[i].name);
    }
    kvc_text_free(&text);
    return KVC_OK;
}

static enum kvc_status unknown(struct kvc_error *error, const char *what, const char *name) {
    char known[300] = "";
    size_t at = 0;
    for (size_t i = 0; kvc_chat_families[i].name; i++) {
        size_t bytes = strlen(kvc_chat_families[i].name);
        if (at + bytes + 3 > sizeof known)
            break;
        memcpy(known + at, kvc_chat_families[i].name, bytes);
        memcpy(known + at + bytes, ", ", 3);
        at += bytes + 2;
    }
    if (at)
        known[at - 2] = 0;
    return kvc_fail(error, KVC_USAGE, "%s%.40s; known templates: %s", what, name, known);
}

/* The text of a token as the template writes it; `defaults` where there is no tokenizer to ask. */
static enum kvc_status token_text(const struct kvc_tokenizer *tokenizer, int32_t token, const char *defaults,
                                  char **text, struct kvc_error *error) {
    size_t bytes = strlen(defaults);
    if (tokenizer) {
        const struct kvc_piece *piece = token >= 0 ? &tokenizer->pieces[token] : NULL;
        defaults = piece ? tokenizer->store.data + piece->spelling : "";
        bytes = piece ? piece->spelling_bytes : 0;
    }
    *text = malloc(bytes + 1);
    if (!*text)
        return kvc_no_memory(error);
    memcpy(*text, defaults, bytes);
    (*text)[bytes] = 0;
    return KVC_OK;
}

static enum kvc_status check_messages(const struct kvc_message *messages, size_t count, struct kvc_error *error) {
    if (!count)
        return kvc_fail(error, KVC_USAGE, "chat: no messages; there must be at least one");
    for (size_t i = 0; i < count; i++) {
        const char *role = messages[i].role;
        if (!role || !messages[i].content)
            return kvc_fail(error, KVC_USAGE, "chat: message %zu has no role or no content", i);
        if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
            return kvc_fail(error, KVC_USAGE,
                            "chat: message %zu has role \"%.40s\"; it must be system, user or assistant", i, role);
    }
    return KVC_OK;
}

enum kvc_status kvc_chat_render(const struct kvc_tokenizer *tokenizer, const char *name,
                                const struct kvc_message *messages, size_t count, bool answer, char **text,
                                struct kvc_error *error) {
    enum kvc_status status = check_messages(messages, count, error);
    if (status != KVC_OK)
        return status;
    const char *jinja = !name && tokenizer ? tokenizer->chat_template : NULL;
    if (!name && !jinja)
        return unknown(error, "the model has no chat template; name one", "");
    const struct kvc_chat_family *family = name ? by_name(name) : NULL;
    if (!name)
        status = by_text(jinja, &family, error);
    if (status != KVC_OK)
        return status;
    if (!family)
        return name ? unknown(error, "no chat template is called ", name)
                    : unknown(error, "the model's chat template is not one of the known families'; name one", "");
    char *bos = NULL, *eos = NULL;
    struct kvc_text out = {0};
    status = token_text(tokenizer, tokenizer ? tokenizer->bos : -1, family->bos, &bos, error);
    if (status == KVC_OK)
        status = token_text(tokenizer, tokenizer ? tokenizer->eos : -1, family->eos, &eos, error);
    if (status == KVC_OK) {
        struct kvc_chat chat = {.messages = messages,
                                .count = count,
                                .answer = answer,
                                .bos = bos,
                                .eos = eos,
                                .jinja = jinja,
                                .out = &out,
                                .error = error};
        status = family->render(&chat);
        if (status == KVC_OK && (chat.full || !kvc_text_add(&out, "", 1)))
            status = kvc_no_memory(error);
    }
    free(bos);
    free(eos);
    if (status != KVC_OK) {
        kvc_text_free(&out);
        return status;
    }
    *text = out.data;
    return KVC_OK;
}
