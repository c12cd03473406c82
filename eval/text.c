/* text.c - texts that grow, random choices, and samples: what generators of tasks share. */
#include "eval/task.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct eval_text *text, size_t more) {
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
    if (bytes < 0 || !reserve(text, (size_t)bytes)) {
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

static int ascending(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void eval_sort(uint32_t *numbers, size_t count) { qsort(numbers, count, sizeof *numbers, ascending); }

void eval_shuffle(uint64_t *random, uint32_t *numbers, size_t count) {
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)eval_below(random, i);
        const uint32_t number = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = number;
    }
}

bool eval_sample_answer(struct eval_sample *sample, const char *answer) {
    char **answers = realloc(sample->answers, (sample->answer_count + 1) * sizeof *answers);
    if (!answers)
        return false;
    sample->answers = answers;
    answers[sample->answer_count] = strdup(answer);
    if (!answers[sample->answer_count])
        return false;
    sample->answer_count++;
    return true;
}

void eval_sample_free(struct eval_sample *sample) {
    for (size_t i = 0; i < sample->answer_count; i++)
        free(sample->answers[i]);
    free(sample->answers);
    free(sample->context);
    free(sample->question);
    free(sample->opening);
    *sample = (struct eval_sample){0};
}
