/* ruler_qa.c - RULER's questions from data sets. The text has the documents with the answer, among as many others as
 * fit. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

/* Chooses `count` documents: the question's own first, then similar ones, then any others. The caller frees the
 * result. */
static uint32_t *ruler_qa_choose(const struct eval_questions *from, const struct eval_question *question,
                                 uint32_t count, uint64_t *random) {
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
        for (uint32_t i = 0; held < count; i++) /* if there are too few documents, repeats them */
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

/* Adds a span for the first answer that occurs in the document. `start` is the offset of the document in the context.
 */
static bool add_span(const struct eval_question *question, const char *document, size_t start,
                     struct eval_asked *asked) {
    for (size_t i = 0; i < question->answer_count; i++) {
        const char *at = strstr(document, question->answers[i]);
        if (at)
            return eval_asked_span(asked, start + (size_t)(at - document), strlen(question->answers[i]));
    }
    return true;
}

static bool is_own(const struct eval_question *question, uint32_t document) {
    for (size_t i = 0; i < question->document_count; i++) {
        if (question->documents[i] == document)
            return true;
    }
    return false;
}

/* Moves the question's first document to the given depth. */
static void place_own(const struct eval_question *question, uint32_t *documents, uint32_t count, double depth) {
    const uint32_t place = (uint32_t)(depth * (count - 1) + 0.5);
    uint32_t at = 0;
    while (at + 1 < count && !is_own(question, documents[at]))
        at++;
    const uint32_t own = documents[at];
    documents[at] = documents[place];
    documents[place] = own;
}

static const char instruction[] = "Answer the question from the documents given. Give the answer and no other words.";

enum kvc_status eval_make_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const int file = *(const int *)maker->task->form;
    const struct eval_questions *from = &maker->data->questions[file];
    struct eval_text context = {0}, asked = {0}, opening = {0};
    struct eval_asked *mine = eval_sample_ask(sample);
    if (maker->index >= from->count)
        return kvc_fail(error, KVC_USAGE, "--%s: the file has %zu questions, the maximum of --samples for %s",
                        eval_file_options[file], from->count, maker->task->name);
    const struct eval_question *question = &from->questions[maker->index];
    const uint32_t count = (uint32_t)cli_max(maker->size, question->document_count);
    uint32_t *documents = ruler_qa_choose(from, question, count, &maker->random);
    bool fine = documents != NULL;
    eval_add(&context, "%s\n\nThese are the documents.\n\n", instruction);
    if (documents && maker->task->depths)
        place_own(question, documents, count, maker->depth);
    for (uint32_t i = 0; i < count && documents; i++) {
        eval_add(&context, "Document %u:\n", (unsigned)i + 1);
        if (is_own(question, documents[i]))
            fine = fine && mine && add_span(question, from->documents[documents[i]], context.count, mine);
        eval_add(&context, "%s\n\n", from->documents[documents[i]]);
    }
    free(documents);
    eval_add(&asked, "%s\n\nQuestion: %s", instruction, question->text);
    for (size_t i = 0; i < question->answer_count; i++)
        fine = fine && mine && eval_asked_answer(mine, question->answers[i]);
    eval_add(&opening, "Answer:");
    fine = eval_asked_end(mine, &asked, &opening) && fine;
    return eval_sample_end(sample, &context, fine, error);
}

/* ---- several questions about the same documents ---- */

static bool has_document(const struct eval_question *question, uint32_t document) {
    for (size_t i = 0; i < question->document_count + question->near_count; i++) {
        if (question->documents[i] == document)
            return true;
    }
    return false;
}

/* Merges the documents of questions [count] into one question. The caller frees its `documents`, which is NULL if
 * memory runs out. */
static struct eval_question ruler_qa_join(const struct eval_question *questions, size_t count) {
    struct eval_question all = {0};
    size_t most = 1;
    for (size_t q = 0; q < count; q++)
        most += questions[q].document_count + questions[q].near_count;
    all.documents = malloc(most * sizeof *all.documents);
    for (int near = 0; near < 2 && all.documents; near++) {
        for (size_t q = 0; q < count; q++) {
            const size_t from = near ? questions[q].document_count : 0;
            const size_t to = questions[q].document_count + (near ? questions[q].near_count : 0);
            for (size_t i = from; i < to; i++) {
                if (has_document(&all, questions[q].documents[i]))
                    continue;
                all.documents[all.document_count + all.near_count] = questions[q].documents[i];
                all.document_count += !near;
                all.near_count += near != 0;
            }
        }
    }
    return all;
}

static bool ruler_qa_ask(const struct eval_questions *from, const struct eval_question *question,
                         const uint32_t *documents, const size_t *starts, uint32_t count, struct eval_sample *sample) {
    struct eval_text text = {0}, opening = {0};
    struct eval_asked *asked = eval_sample_ask(sample);
    eval_add(&text, "\n%s\n\nQuestion: %s", instruction, question->text);
    eval_add(&opening, "Answer:");
    bool fine = eval_asked_end(asked, &text, &opening);
    for (size_t i = 0; i < question->answer_count && fine; i++)
        fine = eval_asked_answer(asked, question->answers[i]);
    for (uint32_t i = 0; i < count && fine; i++) {
        if (is_own(question, documents[i]))
            fine = add_span(question, from->documents[documents[i]], starts[i], asked);
    }
    return fine;
}

enum kvc_status eval_make_shared_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const int file = *(const int *)maker->task->form;
    const struct eval_questions *from = &maker->data->questions[file];
    const uint32_t asked = eval_task_questions(maker->task);
    struct eval_text context = {0};
    if (maker->index >= from->count / asked)
        return kvc_fail(error, KVC_USAGE,
                        "--%s: the file has %zu questions, and each sample of %s needs %u; --samples is too large",
                        eval_file_options[file], from->count, maker->task->name, (unsigned)asked);
    const struct eval_question *questions = &from->questions[maker->index * asked];
    struct eval_question all = ruler_qa_join(questions, asked);
    const uint32_t count = (uint32_t)cli_max(maker->size, all.document_count);
    uint32_t *documents = all.documents ? ruler_qa_choose(from, &all, count, &maker->random) : NULL;
    size_t *starts = malloc(count * sizeof *starts + 1);
    bool fine = documents && starts;
    eval_add(&context, "Read these documents: you will be asked about them.\n\n");
    for (uint32_t i = 0; i < count && fine; i++) {
        eval_add(&context, "Document %u:\n", (unsigned)i + 1);
        starts[i] = context.count;
        eval_add(&context, "%s\n\n", from->documents[documents[i]]);
    }
    for (uint32_t q = 0; q < asked && fine; q++)
        fine = ruler_qa_ask(from, &questions[q], documents, starts, count, sample);
    free(all.documents);
    free(documents);
    free(starts);
    return eval_sample_end(sample, &context, fine, error);
}
