/* questions.c - reads questions and documents from SQuAD's and HotpotQA's official JSON. */
#include "eval/task.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    const char *option, *path;
    struct eval_questions *into;
    size_t capacity, document_capacity; /* capacity for questions and for documents */
    struct kvc_error *error;
};

static enum kvc_status no_memory(struct reader *reader) {
    return kvc_fail(reader->error, KVC_RESOURCE, "no memory left");
}

static enum kvc_status questions_wrong(struct reader *reader, const char *where, const char *what) {
    return kvc_fail(reader->error, KVC_INPUT, "--%s %s: %s: %s", reader->option, reader->path, where, what);
}

/* ---- documents: collected, then sorted, without duplicates ---- */

static bool add_document(struct reader *reader, const char *text) {
    struct eval_questions *into = reader->into;
    if (into->document_count == reader->document_capacity) {
        const size_t capacity = cli_max(64, 2 * reader->document_capacity);
        const char **documents = realloc(into->documents, capacity * sizeof *documents);
        if (!documents)
            return false;
        into->documents = documents;
        reader->document_capacity = capacity;
    }
    into->documents[into->document_count++] = text;
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void sort_documents(struct eval_questions *into) {
    size_t count = 0;
    if (into->document_count > 0)
        qsort(into->documents, into->document_count, sizeof *into->documents, by_text);
    for (size_t i = 0; i < into->document_count; i++) {
        if (count == 0 || strcmp(into->documents[count - 1], into->documents[i]) != 0)
            into->documents[count++] = into->documents[i];
    }
    into->document_count = count;
}

static uint32_t document_index(const struct eval_questions *from, const char *text) {
    const char *const *found = bsearch(&text, from->documents, from->document_count, sizeof *from->documents, by_text);
    return found ? (uint32_t)(found - (const char *const *)from->documents) : 0;
}

/* ---- questions ---- */

/* Adds a question with room for this many answers and documents. */
static struct eval_question *add_question(struct reader *reader, const char *text, size_t answers, size_t documents) {
    struct eval_questions *into = reader->into;
    if (into->count == reader->capacity) {
        const size_t capacity = cli_max(64, 2 * reader->capacity);
        struct eval_question *questions = realloc(into->questions, capacity * sizeof *questions);
        if (!questions)
            return NULL;
        into->questions = questions;
        reader->capacity = capacity;
    }
    struct eval_question *question = &into->questions[into->count++];
    *question = (struct eval_question){.text = text,
                                       .answers = calloc(answers + 1, sizeof *question->answers),
                                       .documents = calloc(documents + 1, sizeof *question->documents)};
    return question->answers && question->documents ? question : NULL;
}

static enum kvc_status questions_parse(struct reader *reader, const char *text, size_t bytes) {
    json_error_t where;
    *reader->into = (struct eval_questions){0};
    reader->into->document = json_loadb(text, bytes, 0, &where);
    if (cli_json_lost()) /* jansson may have lost characters of a text without reporting an error */
        return no_memory(reader);
    if (reader->into->document)
        return KVC_OK;
    return kvc_fail(reader->error, KVC_INPUT, "--%s %s: line %d: not JSON: %s", reader->option, reader->path,
                    where.line, where.text);
}

static enum kvc_status none(struct reader *reader) {
    return kvc_fail(reader->error, KVC_INPUT, "--%s %s: no question with an answer and a document", reader->option,
                    reader->path);
}

/* ---- SQuAD: {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers": [{"text"}], ...}]}]}]} ---- */

static enum kvc_status squad_question(struct reader *reader, const char *where, json_t *paragraphs, size_t own,
                                      json_t *asked) {
    json_t *text = json_object_get(asked, "question"), *answers = json_object_get(asked, "answers"), *other, *answer;
    struct eval_question *question;
    size_t i;
    if (json_is_true(json_object_get(asked, "is_impossible")) || json_array_size(answers) == 0)
        return json_is_string(text) ? KVC_OK : questions_wrong(reader, where, "a question without a text \"question\"");
    if (!json_is_string(text))
        return questions_wrong(reader, where, "a question without a text \"question\"");
    question = add_question(reader, json_string_value(text), json_array_size(answers), json_array_size(paragraphs));
    if (!question)
        return no_memory(reader);
    json_array_foreach(answers, i, answer) {
        const json_t *words = json_object_get(answer, "text");
        if (!json_is_string(words) || json_string_length(words) == 0)
            return questions_wrong(reader, where, "an answer without a text \"text\"");
        question->answers[question->answer_count++] = json_string_value(words);
    }
    const uint32_t mine =
        document_index(reader->into, json_string_value(json_object_get(json_array_get(paragraphs, own), "context")));
    question->documents[question->document_count++] = mine;
    json_array_foreach(paragraphs, i, other) {
        const uint32_t document = document_index(reader->into, json_string_value(json_object_get(other, "context")));
        if (document != mine)
            question->documents[question->document_count + question->near_count++] = document;
    }
    return KVC_OK;
}

static enum kvc_status squad_documents(struct reader *reader, json_t *articles) {
    json_t *article, *paragraph;
    size_t a, p;
    char where[128];
    json_array_foreach(articles, a, article) {
        json_t *paragraphs = json_object_get(article, "paragraphs");
        snprintf(where, sizeof where, "data[%zu]", a);
        if (!json_is_array(paragraphs))
            return questions_wrong(reader, where, "no array \"paragraphs\"");
        json_array_foreach(paragraphs, p, paragraph) {
            json_t *context = json_object_get(paragraph, "context");
            snprintf(where, sizeof where, "data[%zu].paragraphs[%zu]", a, p);
            if (!json_is_string(context) || !json_is_array(json_object_get(paragraph, "qas")))
                return questions_wrong(reader, where, "no text \"context\" or no array \"qas\"");
            if (!add_document(reader, json_string_value(context)))
                return no_memory(reader);
        }
    }
    sort_documents(reader->into);
    return KVC_OK;
}

enum kvc_status eval_squad_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                struct kvc_error *error) {
    struct reader reader = {"squad", path, questions, 0, 0, error};
    json_t *article, *paragraph, *asked;
    size_t a, p, q;
    char where[128];
    enum kvc_status status = questions_parse(&reader, text, bytes);
    if (status != KVC_OK)
        return status;
    json_t *articles = json_object_get(questions->document, "data");
    if (!json_is_array(articles))
        return questions_wrong(&reader, "the file", "not SQuAD's JSON, because there is no array \"data\"");
    status = squad_documents(&reader, articles);
    if (status != KVC_OK)
        return status;
    json_array_foreach(articles, a, article) {
        json_t *paragraphs = json_object_get(article, "paragraphs");
        json_array_foreach(paragraphs, p, paragraph) {
            json_array_foreach(json_object_get(paragraph, "qas"), q, asked) {
                snprintf(where, sizeof where, "data[%zu].paragraphs[%zu].qas[%zu]", a, p, q);
                status = squad_question(&reader, where, paragraphs, p, asked);
                if (status != KVC_OK)
                    return status;
            }
        }
    }
    return questions->count ? KVC_OK : none(&reader);
}

/* ---- HotpotQA: [{"question", "answer", "context": [[title, [sentence, ...]], ...]}, ...] ---- */

/* Writes a document as "TITLE\n" followed by its sentences. Returns KVC_INPUT if the pair is invalid. */
static enum kvc_status hotpotqa_document(struct reader *reader, const char *where, json_t *pair, char **out) {
    json_t *title = json_array_get(pair, 0), *sentences = json_array_get(pair, 1), *sentence;
    struct eval_text text = {0};
    bool fine = json_is_string(title) && json_is_array(sentences);
    size_t i;
    *out = NULL;
    if (fine)
        eval_add(&text, "%s\n", json_string_value(title));
    json_array_foreach(sentences, i, sentence) {
        fine = fine && json_is_string(sentence);
        if (fine)
            eval_add(&text, "%s", json_string_value(sentence));
    }
    *out = eval_text_take(&text);
    if (*out && fine)
        return KVC_OK;
    free(*out);
    *out = NULL;
    return fine ? no_memory(reader) : questions_wrong(reader, where, "not a title with an array of sentences");
}

/* Makes the texts of the documents, in the order of the file. */
static enum kvc_status hotpotqa_documents(struct reader *reader, json_t *items) {
    struct eval_questions *into = reader->into;
    size_t i, c, count = 0;
    json_t *item, *pair;
    char where[128];
    json_array_foreach(items, i, item) {
        json_t *context = json_object_get(item, "context");
        snprintf(where, sizeof where, "[%zu]", i);
        if (!json_is_string(json_object_get(item, "question")) || !json_is_string(json_object_get(item, "answer")) ||
            json_array_size(context) == 0)
            return questions_wrong(reader, where, "needs texts \"question\" and \"answer\" and an array \"context\"");
        count += json_array_size(context);
    }
    into->made = calloc(count + 1, sizeof *into->made);
    if (!into->made)
        return no_memory(reader);
    json_array_foreach(items, i, item) {
        json_array_foreach(json_object_get(item, "context"), c, pair) {
            snprintf(where, sizeof where, "[%zu].context[%zu]", i, c);
            const enum kvc_status status = hotpotqa_document(reader, where, pair, &into->made[into->made_count]);
            if (status != KVC_OK)
                return status;
            if (!add_document(reader, into->made[into->made_count++]))
                return no_memory(reader);
        }
    }
    sort_documents(into);
    return KVC_OK;
}

enum kvc_status eval_hotpotqa_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                   struct kvc_error *error) {
    struct reader reader = {"hotpotqa", path, questions, 0, 0, error};
    size_t i, made = 0;
    json_t *item;
    char where[128];
    enum kvc_status status = questions_parse(&reader, text, bytes);
    if (status != KVC_OK)
        return status;
    if (!json_is_array(questions->document))
        return questions_wrong(&reader, "the file", "not HotpotQA's JSON, because it is not an array");
    status = hotpotqa_documents(&reader, questions->document);
    if (status != KVC_OK)
        return status;
    json_array_foreach(questions->document, i, item) {
        const size_t count = json_array_size(json_object_get(item, "context"));
        const json_t *answer = json_object_get(item, "answer");
        snprintf(where, sizeof where, "[%zu]", i);
        if (json_string_length(answer) == 0)
            return questions_wrong(&reader, where, "an empty answer");
        struct eval_question *question =
            add_question(&reader, json_string_value(json_object_get(item, "question")), 1, count);
        if (!question)
            return no_memory(&reader);
        question->answers[question->answer_count++] = json_string_value(answer);
        for (size_t c = 0; c < count; c++)
            question->documents[question->document_count++] = document_index(questions, questions->made[made++]);
    }
    return questions->count ? KVC_OK : none(&reader);
}
