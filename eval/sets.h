/* sets.h - benchmark data sets, read from the user's folder. Each record of a task's file is a sample. */
#ifndef KVC_EVAL_SETS_H
#define KVC_EVAL_SETS_H

#include "eval/records.h"

struct eval_set;
struct eval_set_form {   /* form of a task whose generator is eval_make_record */
    const char *name;    /* the benchmark's name for the set */
    const char *files;   /* possible paths in the folder, separated by '|' */
    const char *sizes;   /* "50|105|...": replacements for # in files, for 8192 tokens, 16384 and so on; NULL: no # */
    const char *demos;   /* a file of records for few-shot examples; NULL: none */
    const char *prompts; /* the benchmark's file of prompts, as `files`; NULL: none */
    /* Converts the row to a sample with context, question and answers. Calls eval_row_wrong for a bad field. */
    enum kvc_status (*make)(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
    const void *more; /* further data for `make` */
};

struct eval_set { /* the data set of one task of the run */
    const struct eval_task *task;
    uint64_t length; /* with sizes: length of the samples */
    struct eval_records records, demos;
    const char *folder; /* the option's value */
    json_t *prompts;    /* content of a .json prompt file */
    char *prompt_text;  /* content of another prompt file, or the prompt as text */
    json_t **rows;      /* [records.count]: the samples' records without long texts; NULL: not made yet */
    char hash[20];      /* hash of the records and the prompts */
};
/* Opens the task's file for texts of `length` tokens in the folder, and checks every record. */
enum kvc_status eval_set_open(const struct eval_task *task, const char *folder, uint64_t length, struct eval_set *set,
                              struct kvc_error *error);
void eval_set_close(struct eval_set *set);
/* Returns true if the folder has the task's file. */
bool eval_set_there(const struct eval_task *task, const char *folder, uint64_t length);
/* Returns the path of the first existing file of the list, malloc'ed; NULL: none, or no memory. */
char *eval_set_find(const char *folder, const char *files);
/* Returns the task's set; NULL: the task needs none. */
const struct eval_set *eval_set_of(const struct eval_data *data, const struct eval_task *task, uint64_t length);
enum kvc_status eval_make_record(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);

/* ---- for `make` ---- */

/* Completes the sample: the template up to the field `split` becomes the context, the rest the question. The answers
 * are the texts of the list (or the one text). Takes ownership of nothing. */
enum kvc_status eval_set_sample(const struct eval_set *set, struct eval_row *row, const char *template, bool dollars,
                                const struct eval_field *fields, size_t count, const char *split, const char *opening,
                                const json_t *answers, struct eval_sample *sample);
enum { EVAL_OPTIONS = 4 }; /* A to D */

/* ---- the benchmarks ---- */

enum kvc_status eval_longbench_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longbench2_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);

double eval_score_word_f1(const struct eval_asked *asked, const char *answer);
double eval_score_line_f1(const struct eval_asked *asked, const char *answer);
double eval_score_chinese_f1(const struct eval_asked *asked, const char *answer);
double eval_score_rouge(const struct eval_asked *asked, const char *answer);
double eval_score_line_rouge(const struct eval_asked *asked, const char *answer);
double eval_score_chinese_rouge(const struct eval_asked *asked, const char *answer);
double eval_score_class(const struct eval_asked *asked, const char *answer);
double eval_score_retrieval(const struct eval_asked *asked, const char *answer);
double eval_score_chinese_retrieval(const struct eval_asked *asked, const char *answer);
double eval_score_count(const struct eval_asked *asked, const char *answer);
double eval_score_code(const struct eval_asked *asked, const char *answer);
double eval_score_choice(const struct eval_asked *asked, const char *answer);

enum kvc_status eval_infinite_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
extern const struct eval_infinite eval_infinite_passkey, eval_infinite_number_string, eval_infinite_kv,
    eval_infinite_sum, eval_infinite_choice, eval_infinite_qa, eval_infinite_qa_chinese, eval_infinite_dialogue,
    eval_infinite_math_find, eval_infinite_math_calc, eval_infinite_code_run, eval_infinite_code_debug;

double eval_score_infinite_value(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_number(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_speaker(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_option(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_bug(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_run(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_find(const struct eval_asked *asked, const char *answer);
double eval_score_infinite_steps(const struct eval_asked *asked, const char *answer);
double eval_score_character_f1(const struct eval_asked *asked, const char *answer);
double eval_score_rouge_sum(const struct eval_asked *asked, const char *answer);

enum kvc_status eval_helmet_json_kv(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_helmet_kilt(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_helmet_rerank(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_helmet_ruler(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
double eval_score_helmet_json_kv(const struct eval_asked *asked, const char *answer);
double eval_score_helmet_part(const struct eval_asked *asked, const char *answer);
double eval_score_helmet_rerank(const struct eval_asked *asked, const char *answer);
double eval_score_recall(const struct eval_asked *asked, const char *answer);

enum kvc_status eval_longwriter_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longgenbench_make(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longproc_route(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longproc_beliefs(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longproc_table(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
enum kvc_status eval_longproc_countdown(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
double eval_score_length(const struct eval_asked *asked, const char *answer);
double eval_score_completion(const struct eval_asked *asked, const char *answer);
double eval_score_route(const struct eval_asked *asked, const char *answer);
double eval_score_beliefs(const struct eval_asked *asked, const char *answer);
double eval_score_table(const struct eval_asked *asked, const char *answer);
double eval_score_countdown(const struct eval_asked *asked, const char *answer);

/* ---- options ---- */

/* clang-format off */
#define EVAL_FOLDER_OPTIONS(f) \
    {CLI_GROUP, 0, "Folders of benchmarks (docs/how-to/benchmark-files.md)", NULL, NULL, NULL, 0, 0, NULL}, \
        {CLI_TEXT, 0, "longbench", "FOLDER", "LongBench: data/SET.jsonl and config", &(f)[EVAL_LONGBENCH], 0, 0, \
         NULL}, \
        {CLI_TEXT, 0, "longbench2", "FOLDER", "LongBench v2: data.json and prompts", &(f)[EVAL_LONGBENCH2], 0, 0, \
         NULL}, \
        {CLI_TEXT, 0, "infinitebench", "FOLDER", "InfiniteBench: data/SET.jsonl", &(f)[EVAL_INFINITEBENCH], 0, 0, \
         NULL}, \
        {CLI_TEXT, 0, "helmet", "FOLDER", "HELMET: data/kilt, data/json_kv and others", &(f)[EVAL_HELMET], 0, 0, \
         NULL}, \
        {CLI_TEXT, 0, "longwriter", "FOLDER", "LongWriter: evaluation/longbench_write.jsonl and others", \
         &(f)[EVAL_LONGWRITER], 0, 0, NULL}, \
        {CLI_TEXT, 0, "longgenbench", "FOLDER", "LongGenBench: Dataset/Dataset_short.json and Dataset_long.json", \
         &(f)[EVAL_LONGGENBENCH], 0, 0, NULL}, \
        {CLI_TEXT, 0, "longproc", "FOLDER", "LongProc: data/SET with its prompts.yaml", &(f)[EVAL_LONGPROC], 0, 0, NULL}
/* clang-format on */

#endif
