/* prompt.c - converts samples to tokens, with the model's chat template or without, and finds where the text ends. */
#include "eval/prompt.h"

#include "kvcull/chat.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char mark[] = "@@the-question@@"; /* marks the question's beginning in a rendered message */

uint64_t eval_hash(uint64_t before, const void *bytes, size_t count) { return XXH64(bytes, count, before); }

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

/* Renders the message with the template. *question_at receives the offset at which the question begins. The caller
 * frees made->text. */
static enum kvc_status chat_text(const struct eval_prompter *prompter, const char *context, const char *question,
                                 struct kvc_rendered *made, size_t *question_at, struct kvc_error *error) {
    struct eval_text message = {0};
    char *place = NULL;
    eval_add(&message, "%s%s%s", context, mark, question);
    char *content = eval_text_take(&message);
    if (!content)
        return no_memory(error);
    const struct kvc_message messages[] = {{"user", content}};
    enum kvc_status status = kvc_chat_rendered(prompter->model, &prompter->chat, messages, 1, made, error);
    free(content);
    if (status != KVC_OK)
        return status;
    for (char *at = made->text; (at = strstr(at, mark)) != NULL; at++)
        place = at;
    if (!place) {
        free(made->text);
        return kvc_fail(
            error, KVC_INPUT,
            "the chat template changes the text of messages; --raw uses no template, --template NAME another");
    }
    const size_t at = (size_t)(place - made->text), after = at + strlen(mark);
    memmove(place, made->text + after, made->bytes - after + 1);
    memmove(made->marks + at, made->marks + after, made->bytes - after);
    made->bytes -= strlen(mark);
    *question_at = at;
    return KVC_OK;
}

enum kvc_status eval_prompter_open(struct eval_prompter *prompter, struct kvc_error *error) {
    const int32_t bos = kvc_model_info(prompter->model)->bos;
    struct kvc_rendered chat;
    int32_t *tokens = NULL;
    size_t at, count;
    prompter->flags = KVC_TOKENIZE_BOS;
    if (prompter->raw)
        return KVC_OK;
    if (!prompter->chat.template_name && !kvc_model_info(prompter->model)->has_chat_template)
        return kvc_fail(error, KVC_USAGE,
                        "the model has no chat template; --raw uses none, --template NAME one that `kvcull info "
                        "templates` lists");
    enum kvc_status status = chat_text(prompter, "hello", "?", &chat, &at, error);
    if (status != KVC_OK)
        return status;
    prompter->flags = KVC_TOKENIZE_SPECIAL;
    status = kvc_tokenize_marked(prompter->model, chat.text, chat.marks, chat.bytes, prompter->flags, &tokens, &count,
                                 error);
    if (status == KVC_OK && bos >= 0 && (count == 0 || tokens[0] != bos))
        prompter->flags |= KVC_TOKENIZE_BOS; /* the template does not write BOS, so the tokenizer adds it */
    free(tokens);
    free(chat.text);
    return status;
}

/* Returns a conversation from byte `at` on, followed by the beginning of the answer (its opening). The opening is
 * trusted, so its control tokens are parsed. */
static enum kvc_status opened(const struct kvc_rendered *chat, size_t at, const char *opening,
                              struct kvc_rendered *made, struct kvc_error *error) {
    const size_t bytes = chat->bytes - at, all = bytes + strlen(opening);
    char *text = calloc(2, all + 1);
    if (!text)
        return no_memory(error);
    *made = (struct kvc_rendered){text, text + all + 1, all};
    memcpy(text, chat->text + at, bytes);
    memcpy(text + bytes, opening, strlen(opening));
    memcpy(made->marks, chat->marks + at, bytes);
    return KVC_OK;
}

static enum kvc_status raw(struct eval_text *text, struct kvc_rendered *made, struct kvc_error *error) {
    char *taken = eval_text_take(text);
    *made = (struct kvc_rendered){taken, NULL, taken ? strlen(taken) : 0};
    return taken ? KVC_OK : no_memory(error);
}

/* Returns the text of a prompt, with the opening of the answer. *question_at receives the offset at which the question
 * begins. */
static enum kvc_status prompt_text(const struct eval_prompter *prompter, const struct eval_sample *sample, size_t which,
                                   struct kvc_rendered *made, size_t *question_at, struct kvc_error *error) {
    const struct eval_asked *asked = &sample->asked[which];
    struct eval_text whole = {0};
    struct kvc_rendered chat;
    if (prompter->raw) {
        *question_at = strlen(sample->context);
        eval_add(&whole, "%s%s%s%s", sample->context, asked->question, asked->opening[0] ? " " : "", asked->opening);
        return raw(&whole, made, error);
    }
    enum kvc_status status = chat_text(prompter, sample->context, asked->question, &chat, question_at, error);
    if (status == KVC_OK) {
        status = opened(&chat, 0, asked->opening, made, error);
        free(chat.text);
    }
    return status;
}

/* Returns the text of a later turn: from the end of the previous answer to the opening of the next. */
static enum kvc_status turn_text(const struct eval_prompter *prompter, const struct eval_asked *asked,
                                 struct kvc_rendered *made, struct kvc_error *error) {
    const struct kvc_message messages[] = {{"user", "hello"}, {"assistant", mark}, {"user", asked->question}};
    struct eval_text turn = {0};
    struct kvc_rendered chat;
    const char *place = NULL;
    if (prompter->raw) {
        eval_add(&turn, "\n%s%s%s", asked->question, asked->opening[0] ? " " : "", asked->opening);
        return raw(&turn, made, error);
    }
    enum kvc_status status = kvc_chat_rendered(prompter->model, &prompter->chat, messages, 3, &chat, error);
    if (status != KVC_OK)
        return status;
    for (const char *at = chat.text; (at = strstr(at, mark)) != NULL; at++)
        place = at;
    status = place ? opened(&chat, (size_t)(place - chat.text) + strlen(mark), asked->opening, made, error)
                   : kvc_fail(error, KVC_INPUT,
                              "the chat template leaves out earlier answers; --raw asks without one, --template NAME "
                              "with another");
    free(chat.text);
    return status;
}

static enum kvc_status make_part(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 enum eval_manner manner, size_t which, struct eval_part *part,
                                 struct kvc_error *error) {
    const bool turn = which > 0 && manner == EVAL_TURNS;
    const unsigned flags = turn ? prompter->flags & ~(unsigned)KVC_TOKENIZE_BOS : prompter->flags;
    struct kvc_rendered made = {0};
    size_t at;
    *part = (struct eval_part){0};
    enum kvc_status status = turn ? turn_text(prompter, &sample->asked[which], &made, error)
                                  : prompt_text(prompter, sample, which, &made, &at, error);
    if (status == KVC_OK)
        status = kvc_tokenize_marked(prompter->model, made.text, made.marks, made.bytes, flags, &part->tokens,
                                     &part->count, error);
    free(made.text);
    if (status == KVC_OK && part->count == 0)
        status = kvc_fail(error, KVC_INPUT, "the tokenizer makes no tokens from a question");
    return status;
}

enum kvc_status eval_prompt_make(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error) {
    struct eval_part first;
    *prompt = (struct eval_prompt){0};
    enum kvc_status status = make_part(prompter, sample, manner, 0, &first, error);
    prompt->tokens = first.tokens;
    prompt->count = first.count;
    if (status != KVC_OK || sample->count <= 1)
        return status;
    prompt->later = calloc(sample->count - 1, sizeof *prompt->later);
    if (!prompt->later)
        return no_memory(error);
    while (prompt->later_count + 1 < sample->count && status == KVC_OK) {
        struct eval_part *part = &prompt->later[prompt->later_count++];
        status = make_part(prompter, sample, manner, prompt->later_count, part, error);
    }
    return status;
}

void eval_prompt_free(struct eval_prompt *prompt) {
    for (size_t i = 0; i < prompt->later_count; i++)
        free(prompt->later[i].tokens);
    free(prompt->later);
    free(prompt->tokens);
    *prompt = (struct eval_prompt){0};
}

uint64_t eval_hash_tokens(uint64_t before, const int32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t token = (uint32_t)tokens[i];
        const unsigned char bytes[] = {(unsigned char)token, (unsigned char)(token >> 8), (unsigned char)(token >> 16),
                                       (unsigned char)(token >> 24)};
        before = eval_hash(before, bytes, sizeof bytes);
    }
    return before;
}

/* Finds where the prompt's tokens are cut between text and question: at the end of the common prefix with the tokens of
 * the text alone. A token with bytes of both belongs to the question. */
enum kvc_status eval_prompt_cut(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error) {
    struct kvc_rendered made = {0};
    int32_t *tokens = NULL;
    size_t at, count = 0;
    enum kvc_status status = prompt_text(prompter, sample, 0, &made, &at, error);
    if (status == KVC_OK)
        status =
            kvc_tokenize_marked(prompter->model, made.text, made.marks, at, prompter->flags, &tokens, &count, error);
    prompt->context = 0;
    while (status == KVC_OK && prompt->context < count && prompt->context + 1 < prompt->count &&
           tokens[prompt->context] == prompt->tokens[prompt->context])
        prompt->context++;
    free(tokens);
    free(made.text);
    for (size_t i = 0; manner == EVAL_REQUESTS && i < prompt->later_count; i++) { /* the common prefix of all prompts */
        const struct eval_part *part = &prompt->later[i];
        size_t same = 0;
        while (same < prompt->context && same + 1 < part->count && part->tokens[same] == prompt->tokens[same])
            same++;
        prompt->context = same;
    }
    if (status == KVC_OK && prompt->context == 0)
        status = kvc_fail(error, KVC_INPUT, "the tokenizer merges text and question into one token");
    prompt->hash = status == KVC_OK ? eval_hash_tokens(0, prompt->tokens, prompt->count) : 0;
    for (size_t i = 0; status == KVC_OK && i < prompt->later_count; i++) {
        struct eval_part *part = &prompt->later[i];
        const uint64_t before = i ? part[-1].hash : prompt->hash;
        part->hash = eval_hash_tokens(manner == EVAL_TURNS ? before : 0, part->tokens, part->count);
        if (manner == EVAL_REQUESTS) {
            part->count -= prompt->context;
            memmove(part->tokens, part->tokens + prompt->context, part->count * sizeof *part->tokens);
        }
    }
    return status;
}
