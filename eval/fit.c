/* fit.c - makes samples of a given length: as many lines, words or documents as fit. */
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

/* Returns the maximum number of tokens of all answers that share a context. */
static uint64_t answers_of(const struct eval_request *request) {
    const uint64_t answer = eval_task_answer(request->task, request->length);
    return request->task->manner == EVAL_TURNS ? answer * eval_task_questions(request->task) : answer;
}

/* Returns the number of tokens of all turns together or, for separate requests, of the longest one. */
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
    /* at another length, the sample has other words, which may be longer */
    uint64_t enough = whole + whole / 8;
    if (request->task->answer == 0) /* the answer takes a part of the length */
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

struct search { /* sizes whose token counts are known; if high is 0, no size is known to be too large */
    uint64_t low, low_tokens, high, high_tokens;
};

/* Returns the next size to try, by linear interpolation or, every third time, by bisection. */
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
        /* each line, word or document has at least one token */
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
    const enum kvc_status status = fit_made(request, sample, prompt, error);
    return status == KVC_OK ? eval_prompt_cut(request->prompter, sample, request->task->manner, prompt, error) : status;
}
