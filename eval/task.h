/* task.h - the table of tasks, and what a standard task consists of: a text, questions about it, and their answers. */
#ifndef KVC_EVAL_TASK_H
#define KVC_EVAL_TASK_H

#include "cli/cli.h"

/* ---- texts and random choices ---- */

struct eval_text { /* a growable text; after an allocation has failed, `lost` is true until eval_text_take */
    char *bytes;
    size_t count, capacity;
    bool lost;
};
void eval_add(struct eval_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the text as a string that the caller frees, even if it is empty, and resets the eval_text. Returns NULL if
 * memory runs out. */
char *eval_text_take(struct eval_text *text);

/* Returns a random number from 0 to count - 1; count is at least 1. */
uint64_t eval_below(uint64_t *random, uint64_t count);
/* Draws `count` different numbers below `from`, in random order. The caller frees them. Returns NULL if memory runs
 * out. */
uint32_t *eval_draw(uint64_t *random, uint32_t from, uint32_t count);
void eval_sort(uint32_t *numbers, size_t count); /* sorts in ascending order */
void eval_shuffle(uint64_t *random, uint32_t *numbers, size_t count);

/* The word lists of the tasks: eval_word(i) for i < eval_words. The first eval_nouns words are nouns, the next
 * eval_adjectives words are adjectives. */
extern const uint32_t eval_nouns, eval_adjectives, eval_words;
const char *eval_word(uint32_t i);

/* ---- contents of the user's files ---- */

struct eval_span { /* a part of a text */
    size_t start, bytes;
};
struct eval_essays {
    char *text; /* in this text, each run of whitespace has become one space */
    struct eval_span *words;
    size_t count; /* 0: there is no file */
};

struct eval_question {
    const char *text;
    const char **answers;
    size_t answer_count;
    uint32_t *documents; /* first the documents with the answer, then similar documents */
    size_t document_count, near_count;
};
struct eval_questions { /* the JSON document and `made` own the texts */
    json_t *document;
    char **made;
    size_t made_count;
    const char **documents; /* distinct, in ascending order */
    size_t document_count;
    struct eval_question *questions;
    size_t count; /* 0: there is no file */
};

/* Files that tasks need. */
enum { EVAL_ESSAYS, EVAL_SQUAD, EVAL_HOTPOTQA, EVAL_TEXT, EVAL_WORDS, EVAL_FILES };
extern const char *const eval_file_options[EVAL_FILES]; /* "essays" and so on */
struct needle_words;
struct eval_data {
    struct eval_essays essays;
    struct eval_questions questions[EVAL_FILES]; /* used for EVAL_SQUAD and EVAL_HOTPOTQA */
    char *text;                                  /* the file of EVAL_TEXT, unchanged */
    size_t text_bytes;
    struct needle_words *words; /* the word lists of EVAL_WORDS */
};
enum kvc_status eval_essays_read(const char *path, const char *text, size_t bytes, struct eval_essays *essays,
                                 struct kvc_error *error);
/* Reads SQuAD's or HotpotQA's official JSON. */
enum kvc_status eval_squad_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                struct kvc_error *error);
enum kvc_status eval_hotpotqa_read(const char *path, const char *text, size_t bytes, struct eval_questions *questions,
                                   struct kvc_error *error);
void eval_data_free(struct eval_data *data);

/* ---- tasks ---- */

/* A question about a sample's text. */
struct eval_asked {
    char *question; /* the text that follows the context or, in a later turn, the previous answer */
    char *opening;  /* the beginning of the answer, which the model is given; "": none */
    char **answers;
    size_t answer_count;
    struct eval_span *spans; /* byte ranges of the evidence in the context, in any order; empty: unknown */
    size_t span_count;
};
struct eval_sample {
    char *context;            /* the text; a prompt is this text and a question */
    struct eval_asked *asked; /* [count], at least 1 */
    size_t count;
};
void eval_sample_free(struct eval_sample *sample);
/* Adds an empty question. Returns NULL if memory runs out. Earlier questions may move. */
struct eval_asked *eval_sample_ask(struct eval_sample *sample);
/* Add an answer, or a span of the context. Return false if memory runs out. */
bool eval_asked_answer(struct eval_asked *asked, const char *answer);
bool eval_asked_span(struct eval_asked *asked, size_t start, size_t bytes);
/* Complete a question, and a sample. Both take ownership of the texts. They fail if memory has run out, now or while a
 * text was written. `fine` is false if another part of the sample is incomplete. */
bool eval_asked_end(struct eval_asked *asked, struct eval_text *question, struct eval_text *opening);
enum kvc_status eval_sample_end(struct eval_sample *sample, struct eval_text *context, bool fine,
                                struct kvc_error *error);

struct eval_maker { /* input of a generator */
    const struct eval_task *task;
    const struct eval_data *data;
    uint64_t index;  /* index of the sample */
    uint64_t size;   /* size of the text in lines, words or documents; at least the task's `least` */
    uint64_t length; /* number of tokens that was requested */
    uint64_t random; /* state of the random generator */
    double depth;    /* for tasks with depths: position of the answer in the text, 0 to 1 */
};

/* How a sample asks several questions. EVAL_TURNS asks them in turns of one conversation. EVAL_REQUESTS asks each
 * question alone after the same text, as if several users had sent the same text. */
enum eval_manner { EVAL_TURNS, EVAL_REQUESTS };

/* The unit of a score. Only EVAL_SHARE is between 0 and 1 and has Wilson's interval; other units have the normal
 * interval. */
enum eval_unit { EVAL_SHARE, EVAL_NATS, EVAL_UNITS };
extern const char *const eval_units[EVAL_UNITS]; /* "share" and "nats/token" */

struct eval_window;
struct eval_task {
    const char *name, *summary;
    const char *group; /* name of the group; a user who names the group runs all its tasks; NULL: none */
    const char
        *way; /* a task with its own options: its command line, "kvcull eval needle"; the members below are unused */
    int file; /* the file that it needs; -1: none */
    bool optional;           /* true if the task can run without the file */
    bool depths;             /* true if the answer of sample i is at depth i modulo --depths */
    bool memory;             /* true if the memory is recorded at some points of the answer */
    uint32_t answer;         /* maximum number of tokens of an answer; 0: three quarters of the length */
    uint64_t least;          /* size of the smallest text */
    uint32_t questions;      /* number of questions of each sample; 0 means 1 */
    enum eval_manner manner; /* how several questions are asked */
    enum eval_unit unit;
    const void *form; /* data for the generator `make` */
    enum kvc_status (*make)(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
    double (*score)(const struct eval_asked *asked, const char *answer); /* returns a score from 0 to 1 */
    /* In place of make and score: measures a policy on a window of the user's text (windows.h). */
    enum kvc_status (*measure)(struct eval_window *window, struct kvc_error *error);
};
extern const struct eval_task eval_tasks[]; /* the last element has a NULL name */
const struct eval_task *eval_task_find(const char *name);
/* Returns the maximum number of tokens of an answer in a sample of `length` tokens. */
uint32_t eval_task_answer(const struct eval_task *task, uint64_t length);
static inline uint32_t eval_task_questions(const struct eval_task *task) {
    return task->questions ? task->questions : 1;
}

/* eval_score_all returns the fraction of the answers that the text contains; eval_score_any returns 1 if the text
 * contains one of them. Both ignore the case of ASCII letters. */
double eval_score_all(const struct eval_asked *asked, const char *answer);
double eval_score_any(const struct eval_asked *asked, const char *answer);
/* Returns 1 if the first number in the text equals the first answer. */
double eval_score_number(const struct eval_asked *asked, const char *answer);
/* Returns 1 if the text begins with an answer, after any whitespace, and no digit follows the answer. */
double eval_score_begins(const struct eval_asked *asked, const char *answer);
/* Returns the fraction of the answers that are in the line with their number: the line "3. ..." must have the third
 * answer. */
double eval_score_list(const struct eval_asked *asked, const char *answer);
/* Returns the repetition rate of a text (MorphKV, arXiv:2503.00979, section 7.2): the fraction of its runs of `n` words
 * that are equal to an earlier run. Words are separated by whitespace. Returns 0 for a text of fewer than n words, and
 * -1 if memory runs out. */
double eval_repetition(const char *text, size_t n);
enum { EVAL_REPEATED = 10 }; /* the paper's n */
/* Computes Wilson's 95 % interval of a share of `count` samples; 0 to 1 if there are no samples. */
void eval_wilson(double share, double count, double *low, double *high);
/* Computes the normal 95 % interval of a mean, from the sum and the sum of squares of `count` values. With one value,
 * both bounds are the mean. */
void eval_normal(double sum, double squares, double count, double *low, double *high);

/* ---- generators ---- */

enum eval_hay { EVAL_NOISE, EVAL_ESSAY, EVAL_NEEDLES, EVAL_ANY /* essays if there are any, otherwise noise */ };
struct eval_niah {
    enum eval_hay hay;
    bool uuid_keys, uuid_values; /* true: UUIDs; false: words as keys, numbers as values */
    uint32_t keys, values, queries;
};
enum kvc_status eval_make_niah(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_vt(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_cwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_fwe(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
/* `form` points to the index of the task's file (int) */
enum kvc_status eval_make_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_shared_qa(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_pairs(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_chains(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_numbers(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_needle_demo(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
enum kvc_status eval_make_list(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);
extern const char eval_noise[]; /* a meaningless filler line */
enum { EVAL_UUID = 64 };        /* size of a buffer for a UUID */
void eval_uuid(uint64_t *random, char text[EVAL_UUID]);

#endif
