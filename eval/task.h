/* task.h - the table of tasks, and what a standard task is made of: a text, a question about it, its answers. */
#ifndef KVC_EVAL_TASK_H
#define KVC_EVAL_TASK_H

#include "cli/cli.h"

/* ---- texts and random choices ------------------------------------------------------------------------------- */

struct eval_text { /* grows; a failed allocation is remembered until eval_text_take */
    char *bytes;
    size_t count, capacity;
    bool lost;
};
void eval_add(struct eval_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text as a string of its own (NULL: no memory), also where nothing was added; the other is empty then. */
char *eval_text_take(struct eval_text *text);

uint64_t eval_below(uint64_t *random, uint64_t count); /* 0 ... count - 1; count at least 1 */
/* `count` different numbers below `from` in the order in which they were drawn, malloc'ed; NULL: no memory. */
uint32_t *eval_draw(uint64_t *random, uint32_t from, uint32_t count);
void eval_sort(uint32_t *numbers, size_t count); /* ascending */
void eval_shuffle(uint64_t *random, uint32_t *numbers, size_t count);

/* The lists of words that tasks draw from: eval_word(i), i below eval_words; of these eval_nouns are nouns, followed by
 * eval_adjectives adjectives. */
extern const uint32_t eval_nouns, eval_adjectives, eval_words;
const char *eval_word(uint32_t i);

/* ---- what the user's files hold ------------------------------------------------------------------------------ */

struct eval_span { /* of a text */
    size_t start, bytes;
};
struct eval_essays {
    char *text; /* its blanks are single spaces */
    struct eval_span *words;
    size_t count; /* 0: none were given */
};

struct eval_question {
    const char *text;
    const char **answers;
    size_t answer_count;
    uint32_t *documents; /* those with the answer; then further ones that are near to them */
    size_t document_count, near_count;
};
struct eval_questions { /* texts belong to the JSON document and to `made` */
    json_t *document;
    char **made;
    size_t made_count;
    const char **documents; /* different ones, in ascending order */
    size_t document_count;
    struct eval_question *questions;
    size_t count; /* 0: none were given */
};

enum { EVAL_ESSAYS, EVAL_SQUAD, EVAL_HOTPOTQA, EVAL_FILES }; /* the files that tasks may need */
extern const char *const eval_file_options[EVAL_FILES];      /* "essays", ... */
struct eval_data {
    struct eval_essays essays;
    struct eval_questions questions[EVAL_FILES]; /* of EVAL_SQUAD and EVAL_HOTPOTQA */
};
enum kvc_status eval_essays_read(const char *path, const char *text, size_t bytes, struct eval_essays *essays,
                                 struct kvc_error *error);
/* SQuAD's official JSON, or HotpotQA's. */
enum kvc_status eval_squad_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                struct kvc_error *error);
enum kvc_status eval_hotpotqa_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                   struct kvc_error *error);
void eval_data_free(struct eval_data *data);

/* ---- tasks ----------------------------------------------------------------------------------------------------- */

struct eval_sample {
    char *context, *question; /* what is read, and what is asked after it; the prompt is both */
    char *opening;            /* what the answer begins with, given to the model; "": nothing */
    char **answers;
    size_t answer_count;
};
void eval_sample_free(struct eval_sample *sample);
/* Adds an answer; false: no memory. */
bool eval_sample_answer(struct eval_sample *sample, const char *answer);

struct eval_maker { /* what a sample is made for */
    const struct eval_task *task;
    const struct eval_data *data;
    uint64_t index;  /* of the sample */
    uint64_t size;   /* of its text, at least the task's `least`: lines, words or documents, whatever it is made of */
    uint64_t length; /* tokens asked for */
    uint64_t random; /* the state of its random numbers */
};

struct eval_task {
    const char *name, *summary;
    const char *way;  /* a task with options of its own: how it is run, "kvcull eval needle"; then nothing follows */
    int file;         /* what it needs; -1: nothing */
    uint32_t answer;  /* tokens of an answer at most */
    uint64_t least;   /* size of the smallest text */
    const void *form; /* of its generator */
    enum kvc_status (*make)(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
    double (*score)(const struct eval_sample *sample, const char *answer); /* 0 to 1 */
};
extern const struct eval_task eval_tasks[]; /* ends with name NULL */
const struct eval_task *eval_task_find(const char *name);

/* The share of the answers that the text has; 1 where it has any of them. Capital letters of ASCII count as small. */
double eval_score_all(const struct eval_sample *sample, const char *answer);
double eval_score_any(const struct eval_sample *sample, const char *answer);
/* Wilson's interval of 95 % around a share of `count` samples; 0 to 1 of none. */
void eval_wilson(double share, double count, double *low, double *high);

/* ---- generators (ruler_*.c) ------------------------------------------------------------------------------------ */

enum eval_hay { EVAL_NOISE, EVAL_ESSAY, EVAL_NEEDLES };
struct eval_niah {
    enum eval_hay hay;
    bool uuid_keys, uuid_values; /* otherwise words and numbers */
    uint32_t keys, values, queries;
};
enum kvc_status eval_make_niah(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_vt(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_cwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_fwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
/* form: the index of its file (int) */
enum kvc_status eval_make_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
extern const char eval_noise[]; /* a line of text that says nothing */

#endif
