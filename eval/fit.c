/* fit.c - makes samples of a given length. Generated texts get as many lines, words or documents as fit. Texts from
 * files are cut in the middle. */
#include "eval/prompt.h"
#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

double eval_depth(uint64_t depths, uint64_t index) {
    if (depths == 0)
        depths = EVAL_DEPTHS;
    return depths > 1 ? (double)(index % depths) / (double)(depths - 1) : 0.5;
}

uint32_t eval_task_answer(const struct eval_task *task, uint64_t length) {
    return task->answer ? task->answer : (uint32_t)(length / 4 * 3);
}

/* Returns the maximum tokens of all answers that share a context. */
static uint64_t answers_of(const struct eval_request *request) {
    const uint64_t answer = eval_task_answer(request->task, request->length);
    return request->task->manner == EVAL_TURNS ? answer * eval_task_questions(request->task) : answer;
}

/* Returns the tokens of all turns, or of the longest request. */
static uint64_t tokens_of(const struct eval_request *request, const struct eval_prompt *prompt) {
    uint64_t tokens = prompt->count;
    for (size_t i = 0; i < prompt->later_count; i++) {
        const uint64_t count = prompt->later[i].count;
        tokens = request->task->manner == EVAL_TURNS ? tokens + count : cli_max(tokens, count);
    }
    return tokens;
}

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
                               .random = random,
                               .depth = eval_depth(request->depths, request->index)};
    *sample = (struct eval_sample){0};
    *prompt = (struct eval_prompt){0};
    enum kvc_status status = request->task->make(&maker, sample, error);
    if (status == KVC_OK)
        status = eval_prompt_make(request->prompter, sample, request->task->manner, prompt, error);
    return status;
}

static enum kvc_status too_short(const struct eval_request *request, uint64_t tokens, struct kvc_error *error) {
    const uint64_t answers = answers_of(request), whole = tokens + answers;
    const char *several = request->task->manner == EVAL_TURNS && eval_task_questions(request->task) > 1 ? "s" : "";
    /* At another length the sample is different, and its words can be longer. */
    uint64_t enough = whole + whole / 8;
    if (request->task->answer == 0) /* the answer takes part of the length */
        enough = cli_max(enough, 4 * tokens + tokens / 2);
    return kvc_fail(
        error, KVC_USAGE,
        "--length %llu: the shortest prompt%s of %s ha%s %llu tokens, %s answer%s up to %llu; give at least "
        "%llu",
        (unsigned long long)request->length, several, request->task->name, *several ? "ve" : "s",
        (unsigned long long)tokens, *several ? "their" : "its", several, (unsigned long long)answers,
        (unsigned long long)enough);
}

/* Makes the smallest sample. */
static enum kvc_status fit_least(const struct eval_request *request, struct eval_sample *sample,
                                 struct eval_prompt *prompt, struct kvc_error *error) {
    const enum kvc_status status = try_size(request, request->task->least, sample, prompt, error);
    if (status != KVC_OK || tokens_of(request, prompt) + answers_of(request) <= request->length)
        return status;
    return too_short(request, tokens_of(request, prompt), error);
}

/* ---- texts of fixed length ---- */

/* Decodes some of the tokens. The first and last character may be incomplete. */
static enum kvc_status text_of(const struct kvc_model *model, const int32_t *tokens, size_t count, char **text,
                               size_t *bytes, struct kvc_error *error) {
    *bytes = 0;
    if (count > 0)
        return kvc_detokenize(model, tokens, count, false, text, bytes, error);
    *text = calloc(1, 1);
    return *text ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory left");
}

/* Adjusts the spans to a cut text, which has the first `head` and the last `tail` bytes of the old one (length
 * `before`). Removes spans that touch the cut. */
static void move_spans(struct eval_sample *sample, size_t before, size_t head, size_t tail) {
    for (size_t q = 0; q < sample->count; q++) {
        struct eval_asked *asked = &sample->asked[q];
        size_t count = 0;
        for (size_t i = 0; i < asked->span_count; i++) {
            struct eval_span span = asked->spans[i];
            KVC_ASSERT(head + tail <= before && span.start + span.bytes <= before);
            if (span.start >= before - tail)
                span.start -= before - tail - head;
            else if (span.start + span.bytes > head)
                continue;
            asked->spans[count++] = span;
        }
        asked->span_count = count;
    }
}

/* Keeps `keep` of the context's tokens: half of them from its start and half from its end. */
static enum kvc_status cut_context(const struct kvc_model *model, struct eval_sample *sample, const int32_t *tokens,
                                   size_t count, size_t keep, struct kvc_error *error) {
    const size_t before = strlen(sample->context);
    KVC_ASSERT(keep <= count);
    char *head = NULL, *tail = NULL;
    size_t head_bytes = 0, tail_bytes = 0, skip = 0;
    enum kvc_status status = text_of(model, tokens, keep / 2, &head, &head_bytes, error);
    if (status == KVC_OK)
        status = text_of(model, tokens + count - (keep - keep / 2), keep - keep / 2, &tail, &tail_bytes, error);
    if (status == KVC_OK) {
        struct eval_text whole = {0};
        head_bytes -= cli_begun(head, head_bytes);
        while (skip < tail_bytes && ((unsigned char)tail[skip] & 0xc0) == 0x80)
            skip++;
        tail_bytes -= skip;
        eval_add(&whole, "%.*s%s", (int)head_bytes, head, tail + skip);
        const bool parts = head_bytes + tail_bytes <= before && memcmp(sample->context, head, head_bytes) == 0 &&
                           memcmp(sample->context + before - tail_bytes, tail + skip, tail_bytes) == 0;
        free(sample->context);
        sample->context = eval_text_take(&whole);
        if (parts)
            move_spans(sample, before, head_bytes, tail_bytes);
        for (size_t q = 0; !parts && q < sample->count;
             q++) /* the tokenizer changes the text, so the spans are unknown */
            sample->asked[q].span_count = 0;
        if (!sample->context)
            status = kvc_fail(error, KVC_RESOURCE, "no memory left");
    }
    free(head);
    free(tail);
    return status;
}

/* Fits a file's text: cuts its middle, several times if necessary, because the shorter text can tokenize differently.
 */
static enum kvc_status fit_fixed(const struct eval_request *request, struct eval_sample *sample,
                                 struct eval_prompt *prompt, struct kvc_error *error) {
    enum { TRIES = 8 };
    const struct kvc_model *model = request->prompter->model;
    enum kvc_status status = try_size(request, request->task->least, sample, prompt, error);
    for (unsigned tries = 0; status == KVC_OK; tries++) {
        const uint64_t whole = tokens_of(request, prompt) + answers_of(request);
        int32_t *tokens = NULL;
        size_t count = 0;
        if (whole <= request->length)
            break;
        status = kvc_tokenize(model, sample->context, strlen(sample->context), 0, &tokens, &count, error);
        if (status == KVC_OK && (whole - request->length >= count || tries == TRIES))
            status = too_short(request, tokens_of(request, prompt) - cli_min(count, tokens_of(request, prompt)), error);
        if (status == KVC_OK) {
            status = cut_context(model, sample, tokens, count, count - (size_t)(whole - request->length), error);
            eval_prompt_free(prompt);
        }
        free(tokens);
        if (status == KVC_OK)
            status = eval_prompt_make(request->prompter, sample, request->task->manner, prompt, error);
    }
    return status;
}

/* ---- generated texts ---- */

struct search { /* known sizes and their token counts; high 0: no size is known to be too large */
    uint64_t low, low_tokens, high, high_tokens;
};

/* Returns the next size to try: by linear interpolation, or, every third time, by bisection. */
static uint64_t next_size(const struct search *search, uint64_t before, uint64_t before_tokens, uint64_t room,
                          unsigned tries) {
    KVC_ASSERT(search->low_tokens <= room && (!search->high || search->high_tokens > room));
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

static enum kvc_status fit_made(const struct eval_request *request, struct eval_sample *sample,
                                struct eval_prompt *prompt, struct kvc_error *error) {
    enum { TRIES = 48 };
    enum kvc_status status = fit_least(request, sample, prompt, error);
    if (status != KVC_OK)
        return status;
    const uint64_t length = request->length, room = length - answers_of(request);
    struct search search = {.low = request->task->least, .low_tokens = tokens_of(request, prompt)};
    uint64_t before = search.low, before_tokens = search.low_tokens;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct eval_sample other;
        struct eval_prompt tokens;
        if ((search.high && search.high - search.low <= 1) || room - search.low_tokens <= room / 256)
            break;
        /* Each line, word or document has at least one token. */
        const uint64_t size =
            cli_min(next_size(&search, before, before_tokens, room, tries), request->task->least + length);
        if (size <= search.low)
            break;
        status = try_size(request, size, &other, &tokens, error);
        const uint64_t count = tokens_of(request, &tokens);
        if (status == KVC_OK && count <= room) {
            struct eval_sample last = *sample;
            struct eval_prompt last_prompt = *prompt;
            before = search.low;
            before_tokens = search.low_tokens;
            search.low = size;
            search.low_tokens = count;
            *sample = other;
            *prompt = tokens;
            other = last;
            tokens = last_prompt;
        } else if (status == KVC_OK) {
            search.high = size;
            search.high_tokens = count;
        }
        eval_sample_free(&other);
        eval_prompt_free(&tokens);
        if (status != KVC_OK)
            return status;
    }
    return KVC_OK;
}

/* Returns the request with a prompter without template if the task is plain. */
static struct eval_request as_asked(const struct eval_request *request, struct eval_prompter *plain) {
    struct eval_request asked = *request;
    if (request->task->plain) {
        *plain = *request->prompter;
        plain->raw = true;
        plain->flags = KVC_TOKENIZE_BOS;
        asked.prompter = plain;
    }
    return asked;
}

enum kvc_status eval_fits(const struct eval_request *given, struct kvc_error *error) {
    struct eval_prompter plain;
    const struct eval_request asked = as_asked(given, &plain), *request = &asked;
    struct eval_sample sample;
    struct eval_prompt prompt;
    const enum kvc_status status = request->task->fixed ? fit_fixed(request, &sample, &prompt, error)
                                                        : fit_least(request, &sample, &prompt, error);
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}

enum kvc_status eval_fit(const struct eval_request *given, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error) {
    struct eval_prompter plain;
    const struct eval_request asked = as_asked(given, &plain), *request = &asked;
    const enum kvc_status status =
        request->task->fixed ? fit_fixed(request, sample, prompt, error) : fit_made(request, sample, prompt, error);
    return status == KVC_OK ? eval_prompt_cut(request->prompter, sample, request->task->manner, prompt, error) : status;
}
