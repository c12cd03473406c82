/* ruler_qa.c - RULER's questions from data sets: the documents that hold the answer among others, as many as fit. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

/* `count` documents, malloc'ed: those of the question, then near ones, then any others. */
static uint32_t *choose(const struct eval_questions *from, const struct eval_question *question, uint32_t count,
                        uint64_t *random) {
    const uint32_t own = (uint32_t)question->document_count, near = (uint32_t)question->near_count;
    const uint32_t all = (uint32_t)from->document_count;
    uint32_t *chosen = malloc(((size_t)count + 1) * sizeof *chosen), held = 0;
    uint32_t *order = eval_draw(random, near, near), *others = eval_draw(random, all, all);
    bool *taken = calloc((size_t)all + 1, sizeof *taken);
    if (chosen && order && others && taken) {
        for (; held < own && held < count; held++)
            chosen[held] = question->documents[held];
        for (uint32_t i = 0; i < near && held < count; i++)
            chosen[held++] = question->documents[own + order[i]];
        for (uint32_t i = 0; i < own + near; i++)
            taken[question->documents[i]] = true;
        for (uint32_t i = 0; i < all && held < count; i++) {
            if (!taken[others[i]])
                chosen[held++] = others[i];
        }
        for (uint32_t i = 0; held < count; i++) /* more than there are: again from the start */
            chosen[held++] = others[i % all];
        eval_shuffle(random, chosen, count);
    } else {
        free(chosen);
        chosen = NULL;
    }
    free(order);
    free(others);
    free(taken);
    return chosen;
}

static const char instruction[] = "Answer the question from the documents given. Give the answer and no other words.";

enum kvc_status eval_make_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const int file = *(const int *)maker->task->form;
    const struct eval_questions *from = &maker->data->questions[file];
    struct eval_text context = {0}, asked = {0};
    if (maker->index >= from->count)
        return kvc_fail(error, KVC_USAGE, "--%s: has %zu questions; --samples takes no more of %s",
                        eval_file_options[file], from->count, maker->task->name);
    const struct eval_question *question = &from->questions[maker->index];
    const uint32_t count = (uint32_t)cli_max(maker->size, question->document_count);
    uint32_t *documents = choose(from, question, count, &maker->random);
    bool fine = documents != NULL;
    eval_add(&context, "%s\n\nThese are the documents.\n\n", instruction);
    for (uint32_t i = 0; i < count && documents; i++)
        eval_add(&context, "Document %u:\n%s\n\n", (unsigned)i + 1, from->documents[documents[i]]);
    free(documents);
    eval_add(&asked, "%s\n\nQuestion: %s", instruction, question->text);
    for (size_t i = 0; i < question->answer_count; i++)
        fine = fine && eval_sample_answer(sample, question->answers[i]);
    sample->context = eval_text_take(&context);
    sample->question = eval_text_take(&asked);
    sample->opening = strdup("Answer:");
    if (!fine || !sample->context || !sample->question || !sample->opening)
        return kvc_fail(error, KVC_RESOURCE, "no memory left");
    return KVC_OK;
}
