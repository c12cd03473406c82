/* infinitebench.c - InfiniteBench (github.com/OpenBMB/InfiniteBench): records, prompts, scores. InfiniteBench's prompts
 * are part of its program; the prompts here are new, with the structure of its prompts for base models: the parts have
 * the same order, and the answer's first words are given. */
#include "eval/metrics.h"
#include "eval/sets.h"

#include <stdlib.h>
#include <string.h>

enum kind { PLAIN, OPTIONS, LIST, CALL };
struct eval_infinite {
    const char *template, *opening;
    enum kind kind; /* members of a record besides context and input */
};

#define OPTION_LINES "A. {A}\nB. {B}\nC. {C}\nD. {D}"
const struct eval_infinite eval_infinite_passkey = {"A key is hidden somewhere in a text that is of no use otherwise. "
                                                    "Remember it: it will be asked for.\n\n{context}\n\n"
                                                    "{input}",
                                                    "The pass key is", PLAIN};
const struct eval_infinite eval_infinite_number_string = {
    "A sequence of digits is hidden somewhere in a text that is of no use otherwise. Find it: it will be asked "
    "for.\n\n{context}\n\n{input}",
    "The sequence of digits is", PLAIN};
const struct eval_infinite eval_infinite_kv = {
    "Find the value that belongs to the key asked for in this JSON object.\n\n{context}\n\n{input}", "", PLAIN};
const struct eval_infinite eval_infinite_sum = {"Write a summary of this book.\n\n{context}\n\n", "Summary:", PLAIN};
const struct eval_infinite eval_infinite_choice = {
    "Read this book, then answer a question about it.\n\n{context}\n\nQuestion: {input}\n" OPTION_LINES,
    "The letter of the correct answer is", OPTIONS};
const struct eval_infinite eval_infinite_qa = {
    "Read this book, then answer a question about it in as few words as you can.\n\n{context}\n\nQuestion: {input}",
    "Answer:", PLAIN};
const struct eval_infinite eval_infinite_qa_chinese = {
    "请先阅读下面这本书，再回答关于它的问题。\n\n{context}\n\n问题：{input}", "答案：", PLAIN};
const struct eval_infinite eval_infinite_dialogue = {"In this script of a dialogue the name of one character has been "
                                                     "replaced by \"$$MASK$$\" at one place. Guess who it "
                                                     "is.\n\n{context}\n\nWhose name stands at $$MASK$$?",
                                                     "The name behind $$MASK$$ is likely", PLAIN};
const struct eval_infinite eval_infinite_math_find = {"{ahead}\n\n{context}\n\n{input}", "", LIST};
const struct eval_infinite eval_infinite_math_calc = {
    "Compute what an expression is after each of its numbers.\n\nExpression: 2 + 5 - 1\nValues: [2, 7, 6]\n\n"
    "Expression: 9 - 4 + 3 - 6\nValues: [9, 5, 8, 2]\n\nExpression: {context}\n",
    "Values:", PLAIN};
const struct eval_infinite eval_infinite_code_run = {
    "One of the functions in this Python code is called {function}.\n\n{context}\n\nCompute what {call} returns.",
    "The value of the call is", CALL};
const struct eval_infinite eval_infinite_code_debug = {
    "Exactly one function or method in this Python code was given an obvious error that makes it "
    "crash.\n\n{context}\n\nWhich one?\n" OPTION_LINES,
    "The correct option is:", OPTIONS};

/* ---- records: {"context", "input", "answer": text, number or list of them, "options": [text] x 4} ---- */

static bool add_number(json_t *texts, const json_t *value) {
    char text[64];
    if (json_is_real(value)) {
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
        if (!strpbrk(text, ".en"))
            strcat(text, ".0");
    } else {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    }
    return json_array_append_new(texts, json_string(text)) == 0;
}

/* Returns the answers as texts (new reference). On failure, returns NULL; `row` has the error. */
static json_t *read_answers(struct eval_row *row) {
    static const char takes[] = "a text or a number, or a list of them";
    json_t *answer = json_object_get(row->object, "answer"), *texts = json_array(), *value;
    if (json_is_array(answer) && json_is_array(json_array_get(answer, 0)))
        answer = json_array_get(answer, 0);
    const size_t count = json_is_array(answer) ? json_array_size(answer) : 1;
    bool fine = texts != NULL;
    for (size_t i = 0; i < count && fine && row->status == KVC_OK; i++) {
        value = json_is_array(answer) ? json_array_get(answer, i) : answer;
        if (json_is_number(value))
            fine = add_number(texts, value);
        else if (json_string_length(value) > 0)
            fine = json_array_append(texts, value) == 0;
        else
            eval_row_wrong(row, "answer", takes);
    }
    if (count == 0)
        eval_row_wrong(row, "answer", takes);
    if (!fine && row->status == KVC_OK)
        row->status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
    if (row->status == KVC_OK)
        return texts;
    json_decref(texts);
    return NULL;
}

/* With options, the answers are the option's text and its letter. */
static void add_letter(struct eval_row *row, const json_t *options, json_t *answers) {
    const char *text = eval_text_at(answers, 0), *letter = eval_text_at(answers, 1);
    if (letter && (letter[0] < 'A' || letter[0] > 'D' || letter[1]))
        eval_row_wrong(row, "answer", "one of the options, optionally with its letter");
    for (size_t i = 0; i < EVAL_OPTIONS && !letter && text; i++) {
        if (strcmp(eval_text_at(options, i), text) != 0)
            continue;
        if (json_array_append_new(answers, json_stringn((char[]){(char)('A' + i)}, 1)))
            row->status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
        return;
    }
    if (!letter)
        eval_row_wrong(row, "answer", "one of the options");
}

/* Makes the question that precedes the list from "The LARGEST of ...", in lower case. Returns it malloc'ed, or NULL if
 * there is no such text. */
static char *ahead_of_list(const char *input) {
    struct eval_text text = {0};
    const char *start = strstr(input, "The "), *end = NULL;
    const size_t line = start ? strcspn(start, "\n") : 0;
    for (size_t i = 4; i + 3 <= line; i++) {
        if (i > 4 && strncmp(start + i, " of", 3) == 0)
            end = start + i;
    }
    eval_add(&text, "Which number in this list is ");
    for (const char *c = start; end && c < end; c++)
        eval_add(&text, "%c", *c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    eval_add(&text, "?");
    if (end)
        return eval_text_take(&text);
    free(text.bytes);
    return NULL;
}

/* Finds a call like "func_12(-3)" in the input: *name is the length of the function's name, *bytes of the whole call.
 */
static bool find_call(const char *input, size_t *name, size_t *bytes, const char **call) {
    static const char digits[] = "0123456789", front[] = "func_";
    for (const char *at = strstr(input, front); at; at = strstr(at + 1, front)) {
        size_t n = sizeof front - 1 + strspn(at + sizeof front - 1, digits);
        *name = n;
        if (n == sizeof front - 1 || at[n] != '(')
            continue;
        n += at[n + 1] == '-' ? 2 : 1;
        const size_t number = strspn(at + n, digits);
        if (number == 0 || at[n + number] != ')')
            continue;
        *bytes = n + number + 1;
        *call = at;
        return true;
    }
    return false;
}

enum kvc_status eval_infinite_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample) {
    static const char *const letters[] = {"A", "B", "C", "D"};
    const struct eval_infinite *one = ((const struct eval_set_form *)set->task->form)->more;
    struct eval_field fields[4 + EVAL_OPTIONS] = {{"context", eval_row_words(row, "context")},
                                                  {"input", eval_row_text(row, "input")}};
    size_t count = 2, name = 0, bytes = 0;
    const char *call = NULL;
    char *made[2] = {NULL, NULL};
    json_t *answers = read_answers(row);
    if (one->kind == OPTIONS) {
        const json_t *options = eval_row_texts(row, "options", EVAL_OPTIONS, false);
        for (size_t i = 0; i < EVAL_OPTIONS && options; i++)
            fields[count++] = (struct eval_field){letters[i], eval_text_at(options, i)};
        if (options && answers)
            add_letter(row, options, answers);
    } else if (one->kind == LIST && row->status == KVC_OK) {
        made[0] = ahead_of_list(fields[1].text);
        if (!made[0])
            eval_row_wrong(row, "input", "a question with \"The ... of\" in it");
        fields[count++] = (struct eval_field){"ahead", made[0]};
    } else if (one->kind == CALL && row->status == KVC_OK) {
        if (find_call(fields[1].text, &name, &bytes, &call)) {
            made[0] = strndup(call, name);
            made[1] = strndup(call, bytes);
            if (!made[0] || !made[1])
                row->status = kvc_fail(row->error, KVC_RESOURCE, "no memory left");
        } else {
            eval_row_wrong(row, "input", "a text with a call like func_12(3) in it");
        }
        fields[count++] = (struct eval_field){"function", made[0]};
        fields[count++] = (struct eval_field){"call", made[1]};
    }
    const enum kvc_status status =
        eval_set_sample(set, row, one->template, false, fields, count, "context", one->opening, answers, sample);
    free(made[0]);
    free(made[1]);
    json_decref(answers);
    return status;
}

/* ---- scores ---- */

static struct eval_list truths_of(const struct eval_asked *asked) {
    return (struct eval_list){(const char *const *)asked->answers, asked->answer_count};
}

double eval_score_infinite_value(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_value(answer, asked->answers[0]);
}
double eval_score_infinite_number(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_number(answer, asked->answers[0]);
}
double eval_score_infinite_speaker(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_speaker(answer, asked->answers[0]);
}
double eval_score_infinite_run(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_run(answer, asked->answers[0]);
}
double eval_score_infinite_find(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_find(answer, asked->answers[0]);
}
double eval_score_infinite_option(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_option(answer, truths_of(asked));
}
double eval_score_infinite_bug(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_bug(answer, truths_of(asked));
}
double eval_score_infinite_steps(const struct eval_asked *asked, const char *answer) {
    return eval_infinite_steps(answer, truths_of(asked));
}
double eval_score_character_f1(const struct eval_asked *asked, const char *answer) {
    return eval_best_of(eval_character_f1, answer, truths_of(asked));
}
double eval_score_rouge_sum(const struct eval_asked *asked, const char *answer) {
    return eval_best_of(eval_rouge_sum, answer, truths_of(asked));
}
