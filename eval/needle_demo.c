/* needle_demo.c - a task with texts like those of `kvcull eval needle`: facts at four depths among filler sentences, in
 * the vocabulary of the bundled model's training data. */
#include "eval/needle_text.h"
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

/* Adds one question, with the span of the fact that answers it. */
static bool needle_demo_ask(const struct needle_fact *fact, const char *text, struct eval_sample *sample) {
    struct eval_text question = {0}, opening = {0}, sentence = {0}, answer = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    eval_add(&question, " question : the magic number for %s", fact->key);
    eval_add(&opening, "%s", "");
    eval_add(&answer, "%s %s", fact->number[0], fact->number[1]);
    eval_add(&sentence, "the magic number for %s %s %s .", fact->key, fact->number[0], fact->number[1]);
    char *words[] = {eval_text_take(&sentence), eval_text_take(&answer)};
    const char *at = words[0] ? strstr(text, words[0]) : NULL;
    const bool fine = eval_asked_end(asked, &question, &opening) && words[1] && at &&
                      eval_asked_answer(asked, words[1]) &&
                      eval_asked_span(asked, (size_t)(at - text), strlen(words[0]));
    free(words[0]);
    free(words[1]);
    return fine;
}

enum kvc_status eval_make_needle_demo(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    enum { MOST = 8 };
    const uint32_t questions = (uint32_t)cli_min(MOST, eval_task_questions(maker->task));
    double depths[MOST];
    struct needle_text made;
    struct eval_text context = {0};
    for (uint32_t q = 0; q < questions; q++)
        depths[q] = ((double)q + 0.5) / questions;
    const enum kvc_status status =
        needle_text_sentences(maker->data->words, maker->size, depths, questions, &maker->random, &made, error);
    if (status != KVC_OK)
        return status;
    bool fine = true;
    eval_add(&context, "%s", made.text);
    for (uint32_t q = 0; q < questions && fine; q++)
        fine = needle_demo_ask(&made.facts[q], made.text, sample);
    needle_text_free(&made);
    return eval_sample_end(sample, &context, fine, error);
}
