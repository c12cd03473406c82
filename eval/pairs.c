/* pairs.c - a task with random key-value pairs as JSON. Asks for the value of one key at a given depth, as in "Lost in
 * the Middle", or of several keys in sequence. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

void eval_uuid(uint64_t *random, char text[EVAL_UUID]) {
    const uint64_t high = cli_random(random), low = cli_random(random);
    snprintf(text, EVAL_UUID, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xffff),
             (unsigned)(high & 0xfff), (unsigned)(0x8000 | (low >> 48 & 0x3fff)),
             (unsigned long long)(low & 0xffffffffffff));
}

struct pair {
    uint32_t place; /* index in the list */
    char key[EVAL_UUID], value[EVAL_UUID];
    struct eval_span span; /* the bytes of its line */
};

/* Writes the list of `count` pairs. Stores the pairs for which the questions ask in pairs [asked]. */
static void add_pairs(uint32_t count, struct pair *pairs, uint32_t asked, uint64_t *random, struct eval_text *text) {
    char key[EVAL_UUID], value[EVAL_UUID];
    eval_add(text, "The JSON object below has keys and values. Memorize them: you will be asked after it.\n\n{\n");
    for (uint32_t i = 0; i < count; i++) {
        const size_t start = text->count;
        eval_uuid(random, key);
        eval_uuid(random, value);
        eval_add(text, " \"%s\": \"%s\"", key, value);
        for (uint32_t p = 0; p < asked; p++) {
            if (pairs[p].place != i)
                continue;
            memcpy(pairs[p].key, key, EVAL_UUID);
            memcpy(pairs[p].value, value, EVAL_UUID);
            pairs[p].span = (struct eval_span){start + 1, text->count - start - 1};
        }
        eval_add(text, "%s\n", i + 1 < count ? "," : "");
    }
    eval_add(text, "}\n");
}

static bool pairs_ask(const struct pair *pair, struct eval_sample *sample) {
    struct eval_text question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    eval_add(&question, "\nWhich value has the key %s in the JSON object above?", pair->key);
    eval_add(&opening, "The value of the key %s is:", pair->key);
    return eval_asked_end(asked, &question, &opening) && eval_asked_answer(asked, pair->value) &&
           eval_asked_span(asked, pair->span.start, pair->span.bytes);
}

enum kvc_status eval_make_pairs(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const uint32_t count = (uint32_t)maker->size, asked = eval_task_questions(maker->task);
    uint64_t *random = &maker->random;
    struct eval_text context = {0};
    struct pair *pairs = calloc(asked, sizeof *pairs);
    uint32_t *places = eval_draw(random, count, (uint32_t)cli_min(asked, count));
    bool fine = pairs && places;
    for (uint32_t p = 0; p < asked && fine; p++)
        pairs[p].place = maker->task->depths ? (uint32_t)(maker->depth * (count - 1) + 0.5) : places[p];
    if (fine)
        add_pairs(count, pairs, asked, random, &context);
    for (uint32_t p = 0; p < asked && fine; p++)
        fine = pairs_ask(&pairs[p], sample);
    free(pairs);
    free(places);
    return eval_sample_end(sample, &context, fine, error);
}
