/* families.c - the chat templates of the known families. There is no Jinja here: each is one function that
 * writes what the family's template would. */
#include "models/chat/template.h"

#include <stdlib.h>
#include <string.h>

static void put_bytes(struct kvc_chat *chat, const char *text, size_t bytes) {
    if (!chat->full && !kvc_text_add(chat->out, text, bytes))
        chat->full = true;
}

static void put(struct kvc_chat *chat, const char *text) { put_bytes(chat, text, strlen(text)); }

/* What Python's str.strip takes off. */
static bool python_space(uint32_t code) { return kvc_is_space(code) || (code >= 0x1c && code <= 0x1f); }

static void put_trimmed(struct kvc_chat *chat, const char *text) {
    size_t bytes = strlen(text), begin = 0, end = 0;
    bool seen = false;
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = kvc_utf8_next(text + at, bytes - at, &code);
        if (code == KVC_NOT_UTF8 || !python_space(code)) {
            begin = seen ? begin : at;
            seen = true;
            end = at + length;
        }
        at += length;
    }
    put_bytes(chat, text + begin, end - begin);
}

static bool is_role(const struct kvc_message *message, const char *role) { return !strcmp(message->role, role); }

/* The system message that opens the conversation, and the messages without it. */
static const char *take_system(const struct kvc_chat *chat, size_t *first) {
    bool there = is_role(&chat->messages[0], "system");
    *first = there;
    return there ? chat->messages[0].content : NULL;
}

static enum kvc_status check_turns(const struct kvc_chat *chat, size_t first, const char *name) {
    for (size_t i = first; i < chat->count; i++)
        if (!is_role(&chat->messages[i], (i - first) % 2 ? "assistant" : "user"))
            return kvc_fail(chat->error, KVC_USAGE,
                            "chat template %s: message %zu is the %s's; after an opening system message user and "
                            "assistant must take turns",
                            name, i, chat->messages[i].role);
    return KVC_OK;
}

/* ---- Llama ---- */

/* System message and first question are trimmed as one text. */
static void llama2_opening(struct kvc_chat *chat, const char *system, const char *question) {
    const char *const parts[4] = {"<<SYS>>\n", system, "\n<</SYS>>\n\n", question};
    struct kvc_text whole = {0};
    for (int i = 0; i < 4; i++)
        chat->full |= !kvc_text_add(&whole, parts[i], strlen(parts[i]));
    chat->full |= !kvc_text_add(&whole, "", 1);
    if (!chat->full)
        put_trimmed(chat, whole.data);
    kvc_text_free(&whole);
}

static enum kvc_status render_llama2(struct kvc_chat *chat) {
    size_t first;
    const char *system = take_system(chat, &first);
    enum kvc_status status = check_turns(chat, first, "llama2");
    for (size_t i = first; i < chat->count && status == KVC_OK; i++) {
        if (!is_role(&chat->messages[i], "user")) {
            put(chat, " ");
            put_trimmed(chat, chat->messages[i].content);
            put(chat, " ");
            put(chat, chat->eos);
            continue;
        }
        put(chat, chat->bos);
        put(chat, "[INST] ");
        if (i == first && system)
            llama2_opening(chat, system, chat->messages[i].content);
        else
            put_trimmed(chat, chat->messages[i].content);
        put(chat, " [/INST]");
    }
    return status;
}

static void llama3_message(struct kvc_chat *chat, const char *role, const char *content) {
    put(chat, "<|start_header_id|>");
    put(chat, role);
    put(chat, "<|end_header_id|>\n\n");
    put_trimmed(chat, content);
    put(chat, "<|eot_id|>");
}

static enum kvc_status render_llama3(struct kvc_chat *chat) {
    put(chat, chat->bos);
    for (size_t i = 0; i < chat->count; i++)
        llama3_message(chat, chat->messages[i].role, chat->messages[i].content);
    if (chat->answer)
        put(chat, "<|start_header_id|>assistant<|end_header_id|>\n\n");
    return KVC_OK;
}

/* The date is the one the template falls back on: the same text every day. */
static enum kvc_status render_llama31(struct kvc_chat *chat) {
    size_t first;
    const char *system = take_system(chat, &first);
    put(chat, chat->bos);
    put(chat, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
              "Today Date: 26 Jul 2024\n\n");
    if (system)
        put_trimmed(chat, system);
    put(chat, "<|eot_id|>");
    for (size_t i = first; i < chat->count; i++)
        llama3_message(chat, chat->messages[i].role, chat->messages[i].content);
    if (chat->answer)
        put(chat, "<|start_header_id|>assistant<|end_header_id|>\n\n");
    return KVC_OK;
}

/* ---- Mistral ---- */

struct mistral {
    const char *name, *open, *close, *before_answer;
    bool system_last; /* the system message goes in front of the last question, not the first */
    bool trim;        /* answers are trimmed */
};

static enum kvc_status render_mistral_as(struct kvc_chat *chat, const struct mistral *form) {
    size_t first;
    const char *system = take_system(chat, &first);
    enum kvc_status status = check_turns(chat, first, form->name);
    put(chat, chat->bos);
    for (size_t i = first; i < chat->count && status == KVC_OK; i++) {
        const char *content = chat->messages[i].content;
        if (is_role(&chat->messages[i], "user")) {
            put(chat, form->open);
            if (system && i == (form->system_last ? chat->count - 1 : first)) {
                put(chat, system);
                put(chat, "\n\n");
            }
            put(chat, content);
            put(chat, form->close);
            continue;
        }
        put(chat, form->before_answer);
        if (form->trim)
            put_trimmed(chat, content);
        else
            put(chat, content);
        put(chat, chat->eos);
    }
    return status;
}

static enum kvc_status render_mistral(struct kvc_chat *chat) {
    /* Two templates of v0.2 are about: the later one has a space in front of turns. */
    bool spaced = chat->jinja && strstr(chat->jinja, " [INST] ");
    return render_mistral_as(chat, &(struct mistral){.name = "mistral-v0.2",
                                                     .open = spaced ? " [INST] " : "[INST] ",
                                                     .close = " [/INST]",
                                                     .before_answer = spaced ? " " : ""});
}

static enum kvc_status render_mistral3(struct kvc_chat *chat) {
    bool trim = !chat->jinja || strstr(chat->jinja, "|trim") || strstr(chat->jinja, "| trim");
    return render_mistral_as(chat, &(struct mistral){.name = "mistral-v0.3",
                                                     .open = "[INST] ",
                                                     .close = "[/INST]",
                                                     .before_answer = " ",
                                                     .system_last = true,
                                                     .trim = trim});
}

static enum kvc_status render_nemo(struct kvc_chat *chat) {
    return render_mistral_as(
        chat,
        &(struct mistral){
            .name = "mistral-nemo", .open = "[INST]", .close = "[/INST]", .before_answer = "", .system_last = true});
}

/* ---- ChatML: Qwen and others ---- */

static void chatml_message(struct kvc_chat *chat, const char *role, const char *content, size_t bytes) {
    put(chat, "<|im_start|>");
    put(chat, role);
    put(chat, "\n");
    put_bytes(chat, content, bytes);
    put(chat, "<|im_end|>\n");
}

static enum kvc_status render_chatml_with(struct kvc_chat *chat, const char *defaults, size_t bytes) {
    if (defaults && !is_role(&chat->messages[0], "system"))
        chatml_message(chat, "system", defaults, bytes);
    for (size_t i = 0; i < chat->count; i++)
        chatml_message(chat, chat->messages[i].role, chat->messages[i].content, strlen(chat->messages[i].content));
    if (chat->answer)
        put(chat, "<|im_start|>assistant\n");
    return KVC_OK;
}

/* The system message that a ChatML template writes when there is none: what stands between "<|im_start|>system\n" and
 * "<|im_end|>" in one quoted string of it. */
static const char *standard_system(const char *jinja, size_t *bytes) {
    static const char open[] = "<|im_start|>system";
    for (const char *at = jinja; at && (at = strstr(at, open)) != NULL; at++) {
        const char *text = at + sizeof open - 1;
        if (text[0] == '\n')
            text += 1;
        else if (text[0] == '\\' && text[1] == 'n')
            text += 2;
        else
            continue;
        size_t length = strcspn(text, "'\"{}\\<");
        if (length && !strncmp(text + length, "<|im_end|>", 10)) {
            *bytes = length;
            return text;
        }
    }
    return NULL;
}

static enum kvc_status render_chatml(struct kvc_chat *chat) {
    size_t bytes = 0;
    const char *defaults = standard_system(chat->jinja, &bytes);
    return render_chatml_with(chat, defaults, bytes);
}

static enum kvc_status render_qwen2(struct kvc_chat *chat) {
    static const char defaults[] = "You are a helpful assistant.";
    return render_chatml_with(chat, defaults, sizeof defaults - 1);
}

static enum kvc_status render_qwen25(struct kvc_chat *chat) {
    static const char defaults[] = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
    return render_chatml_with(chat, defaults, sizeof defaults - 1);
}

static const char *last_of(const char *text, const char *part) {
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        last = at;
    return last;
}

static size_t skip_newlines(const char *text) { return strspn(text, "\n"); }

static bool begins_and_ends(const char *text, const char *begin, const char *end) {
    size_t bytes = strlen(text);
    return !strncmp(text, begin, strlen(begin)) && bytes >= strlen(end) && !strcmp(text + bytes - strlen(end), end);
}

/* An answer of Qwen3: its thinking is kept only after the last question. */
static void qwen3_answer(struct kvc_chat *chat, const char *content, bool after_question, bool last) {
    static const char open[] = "<think>", close[] = "</think>";
    const char *thought = "", *end = strstr(content, close);
    size_t thought_bytes = 0;
    if (end) {
        const char *begin = content;
        for (const char *at = content; (at = strstr(at, open)) != NULL && at < end; at++)
            begin = at + sizeof open - 1;
        while (end > content && end[-1] == '\n')
            end--;
        if (begin > end)
            begin = end;
        while (begin < end && *begin == '\n')
            begin++;
        thought = begin;
        thought_bytes = (size_t)(end - begin);
        content = last_of(content, close) + sizeof close - 1;
        content += skip_newlines(content);
    }
    put(chat, "<|im_start|>assistant\n");
    if (after_question && (last || thought_bytes)) {
        put(chat, "<think>\n");
        put_bytes(chat, thought, thought_bytes);
        put(chat, "\n</think>\n\n");
        content += skip_newlines(content);
    }
    put(chat, content);
    put(chat, "<|im_end|>\n");
}

static enum kvc_status render_qwen3(struct kvc_chat *chat) {
    size_t question = chat->count - 1;
    for (size_t i = chat->count; i-- > 0;) {
        const struct kvc_message *message = &chat->messages[i];
        if (is_role(message, "user") && !begins_and_ends(message->content, "<tool_response>", "</tool_response>")) {
            question = i;
            break;
        }
    }
    for (size_t i = 0; i < chat->count; i++) {
        const struct kvc_message *message = &chat->messages[i];
        if (is_role(message, "assistant"))
            qwen3_answer(chat, message->content, i > question, i + 1 == chat->count);
        else
            chatml_message(chat, message->role, message->content, strlen(message->content));
    }
    if (chat->answer)
        put(chat, "<|im_start|>assistant\n");
    return KVC_OK;
}

/* ---- Phi ---- */

/* Phi-3 writes the opening of the answer after every question; its first template knew no system message, and gets
 * the later ones' form of it. */
static enum kvc_status render_phi3(struct kvc_chat *chat) {
    put(chat, chat->bos);
    for (size_t i = 0; i < chat->count; i++) {
        bool user = is_role(&chat->messages[i], "user");
        if (is_role(&chat->messages[i], "system"))
            put(chat, "<|system|>\n");
        if (user)
            put(chat, "<|user|>\n");
        put(chat, chat->messages[i].content);
        put(chat, user ? "<|end|>\n<|assistant|>\n" : "<|end|>\n");
    }
    return KVC_OK;
}

static enum kvc_status render_phi35(struct kvc_chat *chat) {
    for (size_t i = 0; i < chat->count; i++) {
        if (is_role(&chat->messages[i], "system") && !*chat->messages[i].content)
            continue;
        put(chat, "<|");
        put(chat, chat->messages[i].role);
        put(chat, "|>\n");
        put(chat, chat->messages[i].content);
        put(chat, "<|end|>\n");
    }
    put(chat, chat->answer ? "<|assistant|>\n" : chat->eos);
    return KVC_OK;
}

static enum kvc_status render_phi4(struct kvc_chat *chat) {
    for (size_t i = 0; i < chat->count; i++) {
        put(chat, "<|im_start|>");
        put(chat, chat->messages[i].role);
        put(chat, "<|im_sep|>");
        put(chat, chat->messages[i].content);
        put(chat, "<|im_end|>");
    }
    if (chat->answer)
        put(chat, "<|im_start|>assistant<|im_sep|>");
    return KVC_OK;
}

static enum kvc_status render_phi4_mini(struct kvc_chat *chat) {
    for (size_t i = 0; i < chat->count; i++) {
        put(chat, "<|");
        put(chat, chat->messages[i].role);
        put(chat, "|>");
        put(chat, chat->messages[i].content);
        put(chat, "<|end|>");
    }
    put(chat, chat->answer ? "<|assistant|>" : chat->eos);
    return KVC_OK;
}

/* ---- Vicuna, LongChat ---- */

static enum kvc_status render_vicuna(struct kvc_chat *chat) {
    size_t first;
    const char *system = take_system(chat, &first);
    enum kvc_status status = check_turns(chat, first, "vicuna");
    put(chat, chat->bos);
    put(chat, system ? system
                     : "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
                       "helpful, detailed, and polite answers to the user's questions.");
    put(chat, " ");
    for (size_t i = first; i < chat->count && status == KVC_OK; i++) {
        bool user = is_role(&chat->messages[i], "user");
        put(chat, user ? "USER: " : "ASSISTANT: ");
        put(chat, chat->messages[i].content);
        put(chat, user ? " " : chat->eos);
    }
    if (chat->answer)
        put(chat, "ASSISTANT:");
    return status;
}

const struct kvc_chat_family kvc_chat_families[] = {
    {"llama2", "Llama 2: [INST] <<SYS>> ... [/INST]", "<s>", "</s>", render_llama2},
    {"llama3", "Llama 3", "<|begin_of_text|>", "<|eot_id|>", render_llama3},
    {"llama3.1", "Llama 3.1, 3.2 and 3.3, with the date their template falls back on", "<|begin_of_text|>",
     "<|eot_id|>", render_llama31},
    {"mistral-v0.2", "Mistral 7B v0.1 and v0.2", "<s>", "</s>", render_mistral},
    {"mistral-v0.3", "Mistral 7B v0.3", "<s>", "</s>", render_mistral3},
    {"mistral-nemo", "Mistral Nemo", "<s>", "</s>", render_nemo},
    {"chatml", "ChatML without a system message of its own", "", "", render_chatml},
    {"qwen2", "Qwen2: ChatML, \"You are a helpful assistant.\"", "", "", render_qwen2},
    {"qwen2.5", "Qwen2.5: ChatML, \"You are Qwen, created by Alibaba Cloud. ...\"", "", "", render_qwen25},
    {"qwen3", "Qwen3: ChatML with thinking", "", "", render_qwen3},
    {"phi3", "Phi-3, first template: <|user|> ... <|end|> <|assistant|>", "<s>", "<|endoftext|>", render_phi3},
    {"phi3.5", "Phi-3.5 and later Phi-3", "<s>", "<|endoftext|>", render_phi35},
    {"phi4", "Phi-4: <|im_start|>user<|im_sep|> ...", "", "", render_phi4},
    {"phi4-mini", "Phi-4-mini: <|user|> ... <|end|>, no newlines", "", "<|endoftext|>", render_phi4_mini},
    {"vicuna", "Vicuna and LongChat: USER: ... ASSISTANT: ...", "<s>", "</s>", render_vicuna},
    {NULL, NULL, NULL, NULL, NULL},
};
