/* longbench.c - LongBench and LongBench v2 (github.com/THUDM/LongBench): records, prompts from the folder, scores. */
#include "eval/metrics.h"
#include "eval/sets.h"

#include <stdlib.h>
#include <string.h>

/* {"input", "context", "answers": [text], "all_classes": [text] or null} */
enum kvc_status eval_longbench_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    double (*const score)(const struct eval_asked *, const char *) = set->task->score;
    const struct eval_field fields[] = {{"context", eval_row_words(row, "context")},
                                        {"input", eval_row_text(row, "input")}};
    const json_t *answers = eval_row_texts(row, "answers", 1, false);
    const bool chinese = score == eval_score_chinese_retrieval;
    if (score == eval_score_class)
        eval_row_texts(row, "all_classes", 1, false);
    for (size_t i = 0; (chinese || score == eval_score_retrieval) && i < eval_texts_count(answers); i++) {
        const char *text = eval_text_at(answers, i);
        if ((chinese ? eval_chinese_retrieval : eval_retrieval)(text, text) == 0) /* the truth must match itself */
            eval_row_wrong(row, "answers", "texts with a paragraph's number");
    }
    return eval_set_sample(set, row, set->prompt_text, false, fields, 2, "context", "", answers, sample);
}

/* {"question", "choice_A" ... "choice_D", "answer": "A" to "D", "context"} */
enum kvc_status eval_longbench2_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    static const char *const names[] = {"context", "question", "choice_A", "choice_B", "choice_C", "choice_D"};
    static const char *const marks[] = {"DOC", "Q", "C_A", "C_B", "C_C", "C_D"};
    enum { FIELDS = sizeof names / sizeof *names };
    struct eval_field fields[FIELDS];
    struct eval_pool pool = {0};
    const char *answer = eval_row_words(row, "answer");
    if (answer && (answer[0] < 'A' || answer[0] > 'D' || answer[1]))
        eval_row_wrong(row, "answer", "a letter from A to D");
    for (size_t i = 0; i < FIELDS; i++) {
        const char *text = eval_row_words(row, names[i]);
        fields[i] = (struct eval_field){marks[i], text ? eval_codes_strip_text(&pool, text) : ""};
    }
    enum kvc_status status = row->status;
    if (pool.lost)
        status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
    if (status == KVC_OK)
        status = eval_set_sample(set, row, set->prompt_text, true, fields, FIELDS, "DOC", "",
                                 json_object_get(row->object, "answer"), sample);
    eval_pool_free(&pool);
    return status;
}

/* ---- scores ---- */

static struct eval_list truths_of(const struct eval_asked *asked) {
    return (struct eval_list){(const char *const *)asked->answers, asked->answer_count};
}

static double longbench_best(eval_metric metric, const struct eval_asked *asked, const char *answer) {
    return eval_best_of(metric, answer, truths_of(asked));
}

/* Scores only the answer's first line. */
static double best_of_line(eval_metric metric, const struct eval_asked *asked, const char *answer) {
    char *line = eval_first_line(answer);
    const double score = line ? longbench_best(metric, asked, line) : -1;
    free(line);
    return score;
}

double eval_score_class(const struct eval_asked *asked, const char *answer) {
    const json_t *all = json_object_get(asked->row, "all_classes");
    const size_t count = json_array_size(all);
    const char **classes = malloc((count + 1) * sizeof *classes);
    char *line = eval_first_line(answer);
    double score = classes && line ? 0 : -1;
    for (size_t i = 0; i < count && classes; i++)
        classes[i] = json_string_value(json_array_get(all, i));
    for (size_t i = 0; i < asked->answer_count && score >= 0; i++) {
        const double one = eval_class(line, asked->answers[i], (struct eval_list){classes, count});
        score = one < 0 || one > score ? one : score;
    }
    free(line);
    free(classes);
    return score;
}

double eval_score_word_f1(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_word_f1, asked, answer);
}
double eval_score_line_f1(const struct eval_asked *asked, const char *answer) {
    return best_of_line(eval_word_f1, asked, answer);
}
double eval_score_chinese_f1(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_chinese_f1, asked, answer);
}
double eval_score_rouge(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_rouge, asked, answer);
}
double eval_score_line_rouge(const struct eval_asked *asked, const char *answer) {
    return best_of_line(eval_rouge, asked, answer);
}
double eval_score_chinese_rouge(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_chinese_rouge, asked, answer);
}
double eval_score_retrieval(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_retrieval, asked, answer);
}
double eval_score_chinese_retrieval(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_chinese_retrieval, asked, answer);
}
double eval_score_count(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_count, asked, answer);
}
double eval_score_code(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_code_similarity, asked, answer);
}
double eval_score_choice(const struct eval_asked *asked, const char *answer) {
    return longbench_best(eval_choice, asked, answer);
}
