/* prompt.c - samples as tokens: in the model's chat template or plain, as long as was asked for. */
#include "eval/prompt.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char mark[] = "@@the-question@@"; /* where the question begins, in a message that the template takes */

uint64_t eval_hash(uint64_t before, const void *bytes, size_t count) { return XXH64(bytes, count, before); }

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

/* The message in the template: what stands before the question, and from it on. */
static enum kvc_status chat_text(const struct eval_prompter *prompter, const char *context, const char *question,
                                 char **text, size_t *question_at, struct kvc_error *error) {
    struct eval_text message = {0};
    char *whole = NULL, *place = NULL;
    eval_add(&message, "%s%s%s", context, mark, question);
    char *content = eval_text_take(&message);
    *text = NULL;
    if (!content)
        return no_memory(error);
    const struct kvc_message messages[] = {{"user", content}};
    enum kvc_status status = kvc_chat_text_with(prompter->model, &prompter->chat, messages, 1, &whole, error);
    free(content);
    if (status != KVC_OK)
        return status;
    for (char *at = whole; (at = strstr(at, mark)) != NULL; at++)
        place = at;
    if (!place) {
        free(whole);
        return kvc_fail(error, KVC_INPUT,
                        "the chat template does not leave messages as they are; --raw asks without one, --template "
                        "NAME with another");
    }
    memmove(place, place + strlen(mark), strlen(place + strlen(mark)) + 1);
    *text = whole;
    *question_at = (size_t)(place - whole);
    return KVC_OK;
}

enum kvc_status eval_prompter_open(struct eval_prompter *prompter, struct kvc_error *error) {
    const int32_t bos = kvc_model_info(prompter->model)->bos;
    int32_t *tokens = NULL;
    char *text = NULL;
    size_t at, count;
    prompter->flags = KVC_TOKENIZE_BOS;
    if (prompter->raw)
        return KVC_OK;
    if (!prompter->chat.template_name && !kvc_model_info(prompter->model)->has_chat_template)
        return kvc_fail(error, KVC_USAGE,
                        "the model has no chat template; --raw asks without one, --template NAME uses one that `kvcull "
                        "info templates` lists");
    enum kvc_status status = chat_text(prompter, "hello", "?", &text, &at, error);
    prompter->flags = KVC_TOKENIZE_SPECIAL;
    if (status == KVC_OK)
        status = kvc_tokenize(prompter->model, text, strlen(text), prompter->flags, &tokens, &count, error);
    if (status == KVC_OK && bos >= 0 && (count == 0 || tokens[0] != bos))
        prompter->flags |= KVC_TOKENIZE_BOS; /* the template leaves it to the tokenizer */
    free(tokens);
    free(text);
    return status;
}

static enum kvc_status prompt_text(const struct eval_prompter *prompter, const struct eval_sample *sample, char **text,
                                   size_t *question_at, struct kvc_error *error) {
    struct eval_text whole = {0};
    char *chat = NULL;
    if (prompter->raw) {
        *question_at = strlen(sample->context);
        eval_add(&whole, "%s%s%s%s", sample->context, sample->question, sample->opening[0] ? " " : "", sample->opening);
    } else {
        const enum kvc_status status =
            chat_text(prompter, sample->context, sample->question, &chat, question_at, error);
        if (status != KVC_OK)
            return status;
        eval_add(&whole, "%s%s", chat, sample->opening);
        free(chat);
    }
    *text = eval_text_take(&whole);
    return *text ? KVC_OK : no_memory(error);
}

enum kvc_status eval_prompt_make(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 struct eval_prompt *prompt, struct kvc_error *error) {
    char *text = NULL;
    size_t at;
    *prompt = (struct eval_prompt){0};
    enum kvc_status status = prompt_text(prompter, sample, &text, &at, error);
    if (status == KVC_OK)
        status =
            kvc_tokenize(prompter->model, text, strlen(text), prompter->flags, &prompt->tokens, &prompt->count, error);
    free(text);
    return status;
}

void eval_prompt_free(struct eval_prompt *prompt) {
    free(prompt->tokens);
    *prompt = (struct eval_prompt){0};
}

/* Where the prompt is cut: as many of its tokens as the text in front of the question begins with, too. A token that
 * has bytes of both belongs to the question. */
static enum kvc_status find_context(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                    struct eval_prompt *prompt, struct kvc_error *error) {
    char *text = NULL;
    int32_t *tokens = NULL;
    size_t at, count = 0;
    enum kvc_status status = prompt_text(prompter, sample, &text, &at, error);
    if (status == KVC_OK)
        status = kvc_tokenize(prompter->model, text, at, prompter->flags, &tokens, &count, error);
    prompt->context = 0;
    while (status == KVC_OK && prompt->context < count && prompt->context + 1 < prompt->count &&
           tokens[prompt->context] == prompt->tokens[prompt->context])
        prompt->context++;
    free(tokens);
    free(text);
    if (status == KVC_OK && prompt->context == 0)
        status = kvc_fail(error, KVC_INPUT, "the tokenizer makes one token of the text and the question");
    prompt->hash = 0;
    for (size_t i = 0; status == KVC_OK && i < prompt->count; i++) {
        const uint32_t token = (uint32_t)prompt->tokens[i];
        const unsigned char bytes[] = {(unsigned char)token, (unsigned char)(token >> 8), (unsigned char)(token >> 16),
                                       (unsigned char)(token >> 24)};
        prompt->hash = eval_hash(prompt->hash, bytes, sizeof bytes);
    }
    return status;
}

/* ---- as long as was asked for ---- */

static enum kvc_status try_size(const struct eval_request *request, uint64_t size, struct eval_sample *sample,
                                struct eval_prompt *prompt, struct kvc_error *error) {
    const char *name = request->task->name;
    uint64_t random = request->seed ^ eval_hash(0, name, strlen(name));
    random = cli_random(&random) ^ request->length;
    random = cli_random(&random) ^ request->index;
    struct eval_maker maker = {.task = request->task,
                               .data = request->data,
                               .index = request->index,
                               .size = size,
                               .length = request->length,
                               .random = random};
    *sample = (struct eval_sample){0};
    *prompt = (struct eval_prompt){0};
    enum kvc_status status = request->task->make(&maker, sample, error);
    if (status == KVC_OK)
        status = eval_prompt_make(request->prompter, sample, prompt, error);
    return status;
}

struct search { /* sizes and their tokens; high 0: none is known that is too large */
    uint64_t low, low_tokens, high, high_tokens;
};

/* The next size to try: where a straight line through what is known meets the room, or every third time the middle. */
static uint64_t next_size(const struct search *search, uint64_t before, uint64_t before_tokens, uint64_t room,
                          unsigned tries) {
    const double left = (double)(room - search->low_tokens);
    double step;
    if (!search->high) {
        const double grown = (double)search->low_tokens - (double)before_tokens;
        if (grown <= 0)
            return 2 * search->low + 8;
        step = left * (double)(search->low - before) / grown + 1;
        return search->low + (uint64_t)cli_min(cli_max(1, (uint64_t)step), 16 * search->low + 64);
    }
    const uint64_t wide = search->high - search->low;
    if (tries % 3 == 2)
        return search->low + wide / 2;
    step = left * (double)wide / ((double)search->high_tokens - (double)search->low_tokens);
    return search->low + cli_min(cli_max(1, (uint64_t)step), wide - 1);
}

/* The smallest sample. */
static enum kvc_status fit_least(const struct eval_request *request, struct eval_sample *sample,
                                 struct eval_prompt *prompt, struct kvc_error *error) {
    const uint64_t answer = request->task->answer, length = request->length;
    const enum kvc_status status = try_size(request, request->task->least, sample, prompt, error);
    if (status != KVC_OK || prompt->count + answer <= length)
        return status;
    /* Another length makes another sample, whose words may be a little longer. */
    return kvc_fail(error, KVC_USAGE,
                    "--length %llu: the shortest prompt of %s has %zu tokens, its answer up to %llu; give at least "
                    "%llu",
                    (unsigned long long)length, request->task->name, prompt->count, (unsigned long long)answer,
                    (unsigned long long)(prompt->count + answer + (prompt->count + answer) / 8));
}

enum kvc_status eval_fits(const struct eval_request *request, struct kvc_error *error) {
    struct eval_sample sample;
    struct eval_prompt prompt;
    const enum kvc_status status = fit_least(request, &sample, &prompt, error);
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}

enum kvc_status eval_fit(const struct eval_request *request, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error) {
    enum { TRIES = 48 };
    enum kvc_status status = fit_least(request, sample, prompt, error);
    if (status != KVC_OK)
        return status;
    const uint64_t length = request->length, room = length - request->task->answer;
    struct search search = {.low = request->task->least, .low_tokens = prompt->count};
    uint64_t before = search.low, before_tokens = search.low_tokens;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct eval_sample other;
        struct eval_prompt tokens;
        if ((search.high && search.high - search.low <= 1) || room - search.low_tokens <= room / 256)
            break;
        /* A line, word or document is a token at least. */
        const uint64_t size =
            cli_min(next_size(&search, before, before_tokens, room, tries), request->task->least + length);
        if (size <= search.low)
            break;
        status = try_size(request, size, &other, &tokens, error);
        if (status == KVC_OK && tokens.count <= room) {
            struct eval_sample last = *sample;
            struct eval_prompt last_prompt = *prompt;
            before = search.low;
            before_tokens = search.low_tokens;
            search.low = size;
            search.low_tokens = tokens.count;
            *sample = other;
            *prompt = tokens;
            other = last;
            tokens = last_prompt;
        } else if (status == KVC_OK) {
            search.high = size;
            search.high_tokens = tokens.count;
        }
        eval_sample_free(&other);
        eval_prompt_free(&tokens);
        if (status != KVC_OK)
            return status;
    }
    return find_context(request->prompter, sample, prompt, error);
}
