/* text.c - helpers for the generators of tasks: growable texts, random choices, and samples. */
#include "eval/task.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool text_reserve(struct eval_text *text, size_t more) {
    if (text->lost)
        return false;
    if (text->capacity - text->count > more)
        return true;
    size_t capacity = cli_max(2 * text->capacity, 256);
    while (capacity - text->count <= more)
        capacity *= 2;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes) {
        text->lost = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void eval_add(struct eval_text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int bytes = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (bytes < 0 || !text_reserve(text, (size_t)bytes)) {
        text->lost = true;
        return;
    }
    va_start(list, format);
    vsnprintf(text->bytes + text->count, (size_t)bytes + 1, format, list);
    va_end(list);
    text->count += (size_t)bytes;
}

char *eval_text_take(struct eval_text *text) {
    char *bytes = NULL;
    eval_add(text, "%s", "");
    if (text->lost)
        free(text->bytes);
    else
        bytes = text->bytes;
    *text = (struct eval_text){0};
    return bytes;
}

uint64_t eval_below(uint64_t *random, uint64_t count) { return (cli_random(random) >> 1) % count; }

uint32_t *eval_draw(uint64_t *random, uint32_t from, uint32_t count) {
    uint32_t *numbers = malloc(((size_t)from + 1) * sizeof *numbers);
    for (uint32_t i = 0; numbers && i < from; i++)
        numbers[i] = i;
    for (uint32_t i = 0; numbers && i < count; i++) {
        const uint32_t other = i + (uint32_t)eval_below(random, from - i), drawn = numbers[other];
        numbers[other] = numbers[i];
        numbers[i] = drawn;
    }
    return numbers;
}

static int text_ascending(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void eval_sort(uint32_t *numbers, size_t count) { qsort(numbers, count, sizeof *numbers, text_ascending); }

void eval_shuffle(uint64_t *random, uint32_t *numbers, size_t count) {
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)eval_below(random, i);
        const uint32_t number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

struct eval_asked *eval_sample_ask(struct eval_sample *sample) {
    struct eval_asked *asked = realloc(sample->asked, (sample->count + 1) * sizeof *asked);
    if (!asked)
        return NULL;
    sample->asked = asked;
    asked[sample->count] = (struct eval_asked){0};
    return &asked[sample->count++];
}

bool eval_asked_answer(struct eval_asked *asked, const char *answer) {
    char **answers = realloc(asked->answers, (asked->answer_count + 1) * sizeof *answers);
    if (!answers)
        return false;
    asked->answers = answers;
    answers[asked->answer_count] = strdup(answer);
    if (!answers[asked->answer_count])
        return false;
    asked->answer_count++;
    return true;
}

bool eval_asked_span(struct eval_asked *asked, size_t start, size_t bytes) {
    struct eval_span *spans = realloc(asked->spans, (asked->span_count + 1) * sizeof *spans);
    if (!spans)
        return false;
    asked->spans = spans;
    spans[asked->span_count++] = (struct eval_span){start, bytes};
    return true;
}

bool eval_asked_end(struct eval_asked *asked, struct eval_text *question, struct eval_text *opening) {
    char *const texts[] = {eval_text_take(question), eval_text_take(opening)};
    if (asked && texts[0] && texts[1]) {
        asked->question = texts[0];
        asked->opening = texts[1];
        return true;
    }
    free(texts[0]);
    free(texts[1]);
    return false;
}

enum kvc_status eval_sample_end(struct eval_sample *sample, struct eval_text *context, bool fine,
                                struct kvc_error *error) {
    sample->context = eval_text_take(context);
    return fine && sample->context ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "no memory left");
}

void eval_sample_free(struct eval_sample *sample) {
    for (size_t q = 0; q < sample->count; q++) {
        struct eval_asked *asked = &sample->asked[q];
        for (size_t i = 0; i < asked->answer_count; i++)
            free(asked->answers[i]);
        free(asked->answers);
        free(asked->spans);
        free(asked->question);
        free(asked->opening);
    }
    free(sample->asked);
    free(sample->context);
    *sample = (struct eval_sample){0};
}
