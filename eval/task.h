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

/* What tasks may need: files, and folders of benchmarks (file_tasks.def). */
enum {
    EVAL_ESSAYS,
    EVAL_SQUAD,
    EVAL_HOTPOTQA,
    EVAL_TEXT,
    EVAL_WORDS,
    EVAL_LONGBENCH,
    EVAL_LONGBENCH2,
    EVAL_INFINITEBENCH,
    EVAL_HELMET,
    EVAL_LONGWRITER,
    EVAL_LONGGENBENCH,
    EVAL_LONGPROC,
    EVAL_FILES,
    EVAL_FOLDERS = EVAL_LONGBENCH
};
extern const char *const eval_file_options[EVAL_FILES]; /* "essays", ... */
struct needle_words;
struct eval_set;
struct eval_data {
    struct eval_essays essays;
    struct eval_set *sets; /* of the tasks that need folders (sets.h) */
    size_t set_count;
    struct eval_questions questions[EVAL_FILES]; /* of EVAL_SQUAD and EVAL_HOTPOTQA */
    char *text;                                  /* of EVAL_TEXT, as it is */
    size_t text_bytes;
    struct needle_words *words; /* of EVAL_WORDS */
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

/* A question about a sample's text. */
struct eval_asked {
    char *question; /* follows the text, or in a later turn the answer before */
    char *opening;  /* what the answer begins with, given to the model; "": nothing */
    char **answers;
    size_t answer_count;
    struct eval_span *spans; /* where the context has what is asked for: bytes, in no order; none where not known */
    size_t span_count;
    const void *row; /* of the user's file, for scores that need more than answers; NULL: none */
};
struct eval_sample {
    char *context;            /* what is read; a prompt is this and a question */
    struct eval_asked *asked; /* [count], at least 1 */
    size_t count;
};
void eval_sample_free(struct eval_sample *sample);
/* A further question, empty; NULL: no memory. Those before may move. */
struct eval_asked *eval_sample_ask(struct eval_sample *sample);
/* Adds an answer, or a span of the context; false: no memory. */
bool eval_asked_answer(struct eval_asked *asked, const char *answer);
bool eval_asked_span(struct eval_asked *asked, size_t start, size_t bytes);
/* Both take the texts; false or a failure: one of them, or what else belongs to the sample (fine), is lost. */
bool eval_asked_end(struct eval_asked *asked, struct eval_text *question, struct eval_text *opening);
enum kvc_status eval_sample_end(struct eval_sample *sample, struct eval_text *context, bool fine,
                                struct kvc_error *error);

struct eval_maker { /* what a sample is made for */
    const struct eval_task *task;
    const struct eval_data *data;
    uint64_t index;  /* of the sample */
    uint64_t size;   /* of its text, at least the task's `least`: lines, words or documents, whatever it is made of */
    uint64_t length; /* tokens asked for */
    uint64_t random; /* the state of its random numbers */
    double depth;    /* of tasks with depths: where in the text the answer is to stand, 0 to 1 */
};

/* How a sample with several questions asks them: one after another, each after the answer before; or each by itself
 * after the same text, as if several people had sent the same prompt. */
enum eval_manner { EVAL_TURNS, EVAL_REQUESTS };

/* What a score is. Only shares lie between 0 and 1, and have Wilson's interval; others have the normal one. */
enum eval_unit { EVAL_SHARE, EVAL_NATS, EVAL_UNITS };
extern const char *const eval_units[EVAL_UNITS]; /* "share", "nats/token" */

struct eval_window;
struct eval_task {
    const char *name, *summary;
    const char *group; /* a name that stands for all tasks of the group; NULL: none */
    const char *way;   /* a task with options of its own: how it is run, "kvcull eval needle"; then nothing follows */
    int file;          /* what it needs; -1: nothing */
    bool optional;     /* it does without the file, too */
    bool fixed;      /* the text is the file's: it is cut in the middle where it is too long, and `least` is its size */
    bool depths;     /* sample i has what it asks for at depth i modulo --depths */
    bool plain;      /* asked without the chat template in any case */
    bool memory;     /* what is held is told at some points of the answer */
    uint32_t answer; /* tokens of an answer at most; 0: three quarters of the length */
    uint64_t least;  /* size of the smallest text */
    uint32_t questions;      /* of a sample, always as many; 0: 1 */
    enum eval_manner manner; /* of several */
    enum eval_unit unit;
    const void *form; /* of its generator */
    enum kvc_status (*make)(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
    double (*score)(const struct eval_asked *asked, const char *answer); /* 0 to 1 */
    /* In place of both: a policy over a window of the user's text (windows.h). */
    enum kvc_status (*measure)(struct eval_window *window, struct kvc_error *error);
};
extern const struct eval_task eval_tasks[]; /* ends with name NULL */
const struct eval_task *eval_task_find(const char *name);
/* Tokens of an answer at most, in a sample of so many tokens. */
uint32_t eval_task_answer(const struct eval_task *task, uint64_t length);
static inline uint32_t eval_task_questions(const struct eval_task *task) {
    return task->questions ? task->questions : 1;
}

/* The share of the answers that the text has; 1 where it has any of them. Capital letters of ASCII count as small. */
double eval_score_all(const struct eval_asked *asked, const char *answer);
double eval_score_any(const struct eval_asked *asked, const char *answer);
/* 1 where the text, blanks and a full stop at its ends aside, is one of the answers. */
double eval_score_exact(const struct eval_asked *asked, const char *answer);
/* 1 where the first number in the text is the first answer's number. */
double eval_score_number(const struct eval_asked *asked, const char *answer);
/* 1 where the text, blanks aside, begins with an answer, word by word, and no digit follows. */
double eval_score_begins(const struct eval_asked *asked, const char *answer);
/* The share of the answers that stand in the line with their number: "3. ..." has the third. */
double eval_score_list(const struct eval_asked *asked, const char *answer);
/* Wilson's interval of 95 % around a share of `count` samples; 0 to 1 of none. */
void eval_wilson(double share, double count, double *low, double *high);
/* The normal one around a mean, of the sum and the sum of squares of `count` values; the mean itself of one alone. */
void eval_normal(double sum, double squares, double count, double *low, double *high);

/* ---- generators ------------------------------------------------------------------------------------------------- */

enum eval_hay { EVAL_NOISE, EVAL_ESSAY, EVAL_NEEDLES, EVAL_ANY /* essays where there are some, or noise */ };
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
enum kvc_status eval_make_shared_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_pairs(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_chains(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_numbers(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_needle_demo(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_list(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
extern const char eval_noise[]; /* a line of text that says nothing */
enum { EVAL_UUID = 64 };        /* bytes that there must be for one */
void eval_uuid(uint64_t *random, char text[EVAL_UUID]);

#endif
