/* helmet.c - the HELMET data sets that are files and have automatic scores (github.com/princeton-nlp/HELMET): values of
 * a JSON object, questions about KILT passages, re-ranking of MS MARCO, and RULER. HELMET's prompts are part of its
 * program; the prompts here are new, with the same structure: two examples, the text, the question. */
#include "eval/metrics.h"
#include "eval/sets.h"

#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 2 };

static enum kvc_status no_memory(struct eval_row *row) {
    row->status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
    return row->status;
}

/* ---- {"context", "question", "answer", "demos": [[key, value], ...]} ---- */

enum kvc_status eval_helmet_json_kv(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    const json_t *demos = eval_row_list(row, "demos", EXAMPLES), *answers = eval_row_texts(row, "answer", 1, true);
    struct eval_text text = {0};
    for (size_t i = 0; i < EXAMPLES && demos; i++) {
        const char *key = json_string_value(json_array_get(json_array_get(demos, i), 0));
        const char *value = json_string_value(json_array_get(json_array_get(demos, i), 1));
        if (!key || !value)
            eval_row_wrong(row, "demos", "pairs of a key and its value");
        else
            eval_add(&text, "Key: %s\nCorresponding value: %s\n\n", key, value);
    }
    char *examples = eval_text_take(&text);
    const struct eval_field fields[] = {{"context", eval_row_words(row, "context")},
                                        {"question", eval_row_words(row, "question")},
                                        {"demos", examples}};
    if (!examples && row->status == KVC_OK)
        no_memory(row);
    const enum kvc_status status = eval_set_sample(
        set, row, "{context}\n\nFind the value of the key in the JSON object above.\n\n{demos}Key: {question}", false,
        fields, 3, "context", "Corresponding value:", answers, sample);
    free(examples);
    return status;
}

/* ---- documents ---- */

/* Writes "Document (Title: ...): ..." for each {"title", "text"} in "ctxs". */
static void add_passages(struct eval_row *row, const json_t *passages, bool ids, struct eval_text *text) {
    const json_t *passage;
    size_t i;
    json_array_foreach(passages, i, passage) {
        const json_t *title = json_object_get(passage, "title"), *words = json_object_get(passage, "text");
        const json_t *id = json_object_get(passage, "id");
        if (!json_is_string(words) || (title && !json_is_string(title)) || (ids && json_string_length(id) == 0)) {
            eval_row_wrong(row, "ctxs",
                           ids ? "objects with texts \"id\" and \"text\""
                               : "objects with texts \"title\" and \"text\"");
            return;
        }
        eval_add(text, "%s", i ? "\n\n" : "");
        if (ids)
            eval_add(text, "[ID: %s] ", json_string_value(id));
        eval_add(text, "Document");
        if (title)
            eval_add(text, " (Title: %s)", json_string_value(title));
        eval_add(text, ": %s", json_string_value(words));
    }
}

/* Appends a few-shot example from one of the demo records. */
typedef void (*add_example)(struct eval_row *demo, struct eval_text *text);

/* Adds two examples with other questions: the demo records from number 2 * index on, wrapping around. */
static enum kvc_status add_examples(const struct eval_set *set, struct eval_row *row, const char *key,
                                    add_example example, struct eval_text *text) {
    const struct eval_records *demos = &set->demos;
    const char *own = eval_row_words(row, key);
    size_t shown = 0;
    for (size_t i = 0; i < demos->count && shown < EXAMPLES && row->status == KVC_OK; i++) {
        struct eval_row demo = {demos, (EXAMPLES * row->index + i) % demos->count, NULL, row->error, KVC_OK};
        demo.status = eval_records_read(demos, demo.index, &demo.object, row->error);
        const char *other = demo.status == KVC_OK ? eval_row_words(&demo, key) : NULL;
        if (other && strcmp(own, other) != 0) {
            example(&demo, text);
            shown++;
        }
        row->status = demo.status;
        json_decref(demo.object);
    }
    return row->status;
}

/* ---- KILT: {"question", "answers": [text], "ctxs": [{"title", "text"}]} ---- */

static void kilt_example(struct eval_row *demo, struct eval_text *text) {
    const char *question = eval_row_words(demo, "question");
    const json_t *answers = eval_row_texts(demo, "answers", 1, false);
    add_passages(demo, eval_row_list(demo, "ctxs", 1), false, text);
    if (demo->status == KVC_OK)
        eval_add(text, "\n\nQuestion: %s\nAnswer: %s\n\n", question, eval_text_at(answers, 0));
}

enum kvc_status eval_helmet_kilt(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    static const char template[] =
        "Answer the question from the documents given, in a few words and in this form:\nAnswer: [answer]\n\n"
        "{demos}{context}\n\nQuestion: {question}";
    struct eval_text demos = {0}, passages = {0};
    const json_t *answers = eval_row_texts(row, "answers", 1, false);
    add_passages(row, eval_row_list(row, "ctxs", 1), false, &passages);
    add_examples(set, row, "question", kilt_example, &demos);
    char *texts[] = {eval_text_take(&demos), eval_text_take(&passages)};
    const struct eval_field fields[] = {
        {"demos", texts[0]}, {"context", texts[1]}, {"question", eval_row_words(row, "question")}};
    if ((!texts[0] || !texts[1]) && row->status == KVC_OK)
        no_memory(row);
    const enum kvc_status status =
        eval_set_sample(set, row, template, false, fields, 3, "context", "Answer:", answers, sample);
    free(texts[0]);
    free(texts[1]);
    json_object_del(row->object, "ctxs");
    return status;
}

/* ---- MS MARCO: {"qid", "query", "ctxs": [{"id", "text", "label": relevance}]} ---- */

static bool label_of(const json_t *passage, int *label) {
    const json_t *value = json_object_get(passage, "label");
    const char *text = json_string_value(value);
    char *end = NULL;
    const long long number = text ? strtoll(text, &end, 10) : json_integer_value(value);
    *label = (int)(number < -1 ? -1 : number > 1000 ? 1000 : number);
    return text ? end != text && *end == '\0' : json_is_integer(value);
}

/* Writes the ids in descending order of their labels; equal labels keep their order. */
static void add_ranking(struct eval_row *row, const json_t *passages, struct eval_text *text) {
    const size_t count = json_array_size(passages);
    int least = 1001, label;
    bool first = true;
    for (int high = 1000; high >= -1 && count > 0; high = least) { /* one label after the other, in descending order */
        least = -2;
        for (size_t i = 0; i < count; i++) {
            const json_t *passage = json_array_get(passages, i);
            if (!label_of(passage, &label)) {
                eval_row_wrong(row, "ctxs", "objects with a whole number \"label\"");
                return;
            }
            if (label == high) {
                eval_add(text, "%s%s", first ? "" : " > ", json_string_value(json_object_get(passage, "id")));
                first = false;
            }
            least = label < high && label > least ? label : least;
        }
    }
}

static void rerank_example(struct eval_row *demo, struct eval_text *text) {
    const json_t *passages = eval_row_list(demo, "ctxs", 1);
    const char *query = eval_row_words(demo, "query");
    add_passages(demo, passages, true, text);
    if (demo->status != KVC_OK)
        return;
    eval_add(text, "\n\nQuery: %s\nRanking: ", query);
    add_ranking(demo, passages, text);
    eval_add(text, "\n\n");
}

enum kvc_status eval_helmet_rerank(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    static const char template[] =
        "Here are documents, each with an ID. Rank all of them by how relevant they are to the query, the most "
        "relevant "
        "first, by their IDs and in this form:\nRanking: ID3 > ID1 > ID2\n\n{demos}{context}\n\nQuery: {question}";
    struct eval_text demos = {0}, documents = {0}, order = {0};
    const json_t *passages = eval_row_list(row, "ctxs", 1);
    add_passages(row, passages, true, &documents);
    add_examples(set, row, "qid", rerank_example, &demos);
    if (row->status == KVC_OK)
        add_ranking(row, passages, &order);
    char *texts[] = {eval_text_take(&demos), eval_text_take(&documents), eval_text_take(&order)};
    json_t *answer = texts[2] ? json_string(texts[2]) : NULL;
    const struct eval_field fields[] = {
        {"demos", texts[0]}, {"context", texts[1]}, {"question", eval_row_words(row, "query")}};
    if ((!texts[0] || !texts[1] || !answer) && row->status == KVC_OK)
        no_memory(row);
    const enum kvc_status status =
        eval_set_sample(set, row, template, false, fields, 3, "context", "Ranking:", answer, sample);
    for (size_t i = 0; i < json_array_size(passages); i++) /* scoring needs only ids and labels */
        json_object_del(json_array_get(passages, i), "text");
    for (size_t t = 0; t < 3; t++)
        free(texts[t]);
    json_decref(answer);
    return status;
}

/* ---- RULER in HELMET's form: {"context", "query" or "question", "answer" or "outputs": [text], ...} ---- */

enum kvc_status eval_helmet_ruler(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    static const char template[] =
        "Something is hidden in the following text: special magic {type}. Remember them, they will be asked "
        "for.\n{context}\nWhich special magic {type} for {query} does the text mention?";
    const bool outputs = json_object_get(row->object, "outputs") && !json_object_get(row->object, "answer");
    const json_t *answers = eval_row_texts(row, outputs ? "outputs" : "answer", 1, true);
    const struct eval_field fields[] = {{"context", eval_row_words(row, "context")},
                                        {"query", eval_row_words(row, "query")},
                                        {"type", eval_row_words(row, "type_needle_v")}};
    struct eval_text begun = {0};
    eval_add(&begun, "The special magic %s for %s:", fields[2].text ? fields[2].text : "",
             fields[1].text ? fields[1].text : "");
    char *opening = eval_text_take(&begun);
    if (!opening && row->status == KVC_OK)
        no_memory(row);
    const enum kvc_status status =
        eval_set_sample(set, row, template, false, fields, 3, "context", opening ? opening : "", answers, sample);
    free(opening);
    return status;
}

/* ---- scores: as in HELMET, the opening belongs to the answer ---- */

static struct eval_list truths_of(const struct eval_asked *asked) {
    return (struct eval_list){(const char *const *)asked->answers, asked->answer_count};
}

/* Returns the opening and the answer (with `line`, only its first line), malloc'ed. */
static char *whole_answer(const struct eval_asked *asked, const char *answer, bool line) {
    struct eval_text text = {0};
    eval_add(&text, "%s%.*s", asked->opening, (int)cli_min(line ? strcspn(answer, "\n") : strlen(answer), 1 << 24),
             answer);
    return eval_text_take(&text);
}

double eval_score_helmet_json_kv(const struct eval_asked *asked, const char *answer) {
    char *text = whole_answer(asked, answer, false);
    const double score = text ? eval_helmet(EVAL_HELMET_PART, text, "corresponding value:", truths_of(asked)) : -1;
    free(text);
    return score;
}

double eval_score_helmet_part(const struct eval_asked *asked, const char *answer) {
    char *text = whole_answer(asked, answer, true);
    const double score = text ? eval_helmet(EVAL_HELMET_PART, text, "Answer:", truths_of(asked)) : -1;
    free(text);
    return score;
}

double eval_score_recall(const struct eval_asked *asked, const char *answer) {
    return eval_recall(answer, truths_of(asked));
}

double eval_score_helmet_rerank(const struct eval_asked *asked, const char *answer) {
    const json_t *passages = json_object_get(asked->row, "ctxs");
    const size_t count = json_array_size(passages);
    const char **ids = malloc((count + 1) * sizeof *ids);
    int *gains = malloc((count + 1) * sizeof *gains);
    char *text = whole_answer(asked, answer, true);
    double score = -1;
    for (size_t i = 0; i < count && ids && gains; i++) {
        const json_t *passage = json_array_get(passages, i);
        ids[i] = json_string_value(json_object_get(passage, "id"));
        label_of(passage, &gains[i]);
    }
    if (ids && gains && text)
        score = eval_ndcg(text, (struct eval_list){ids, count}, gains);
    free(text);
    free(gains);
    free(ids);
    return score;
}
