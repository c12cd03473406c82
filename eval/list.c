/* list.c - a task with a long answer that a program can check: a numbered list with a given word in every line. */
#include "eval/task.h"

#include <stdlib.h>

enum kvc_status eval_make_list(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const uint32_t lines = (uint32_t)maker->size;
    struct eval_text context = {0}, question = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    uint32_t *words = eval_draw(&maker->random, eval_nouns, eval_nouns);
    bool fine = asked && words;
    eval_add(&context,
             "A list of %u lines is to be written. Every line begins with its number and a full stop, and is one short "
             "sentence, of twelve words at most, in which the word stands that is given for this line. These are the "
             "lines' words:\n",
             (unsigned)lines);
    for (uint32_t i = 0; i < lines && fine; i++) {
        const char *word = eval_word(words[i % eval_nouns]); /* if there are too few words, they repeat */
        const size_t start = context.count;
        eval_add(&context, "%u. %s", (unsigned)i + 1, word);
        fine = eval_asked_answer(asked, word) && eval_asked_span(asked, start, context.count - start);
        eval_add(&context, "\n");
    }
    free(words);
    eval_add(&question,
             "\nWrite the list now: all lines from 1 to %u, in order, each on a line of its own, and nothing "
             "else.",
             (unsigned)lines);
    eval_add(&opening, "%s", "");
    fine = eval_asked_end(asked, &question, &opening) && fine;
    return eval_sample_end(sample, &context, fine, error);
}
