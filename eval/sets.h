/* sets.h - data sets of benchmarks, read from a folder of the user's: a task's records, one of which is a sample. */
#ifndef KVC_EVAL_SETS_H
#define KVC_EVAL_SETS_H

#include "eval/records.h"

struct eval_set;
struct eval_set_form {   /* of a task's generator, eval_make_record */
    const char *name;    /* as the benchmark calls it */
    const char *files;   /* where under the folder it may lie, separated by '|' */
    const char *sizes;   /* "50|105|...": what stands for # in files, for 8192 tokens, 16384 and so on; NULL: no # */
    const char *demos;   /* a file of further records, shown as examples; NULL: none */
    const char *prompts; /* the benchmark's own file of prompts, the same way; NULL: there is none, or none is read */
    /* The row as a sample: its context, and a question with answers. A field that is wrong: eval_row_wrong. */
    enum kvc_status (*make)(const struct eval_set *set, struct eval_row *row, struct eval_sample *sample);
    const void *more; /* what `make` takes besides */
};

struct eval_set { /* of one task that is run */
    const struct eval_task *task;
    uint64_t length; /* with sizes: of the samples */
    struct eval_records records, demos;
    const char *folder; /* the option's value */
    json_t *prompts;    /* of a .json file */
    char *prompt_text;  /* of another one, or what the file has as a text */
    json_t **rows;      /* [records.count]: what samples were made of, without their long texts; NULL: not made yet */
    char hash[20];      /* of the records and the prompts */
};
/* Opens the file of a task in the folder, that for texts of so many tokens, and looks at every record. */
enum kvc_status eval_set_open(const struct eval_task *task, const char *folder, uint64_t length, struct eval_set *set,
                              struct kvc_error *error);
void eval_set_close(struct eval_set *set);
/* Whether the folder has its file. */
bool eval_set_there(const struct eval_task *task, const char *folder, uint64_t length);
/* The path of the first of the files that is there, malloc'ed; NULL: none, or no memory. */
char *eval_set_find(const char *folder, const char *files);
/* Of the sets that a run has; NULL: the task needs none. */
const struct eval_set *eval_set_of(const struct eval_data *data, const struct eval_task *task, uint64_t length);
enum kvc_status eval_make_record(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error);

/* ---- for `make` ---- */

/* Ends the sample: its context is what the template has up to the field `split`, its question the rest. Takes nothing;
 * texts of the list (or the one text) become answers. */
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
        {CLI_TEXT, 0, "longgenbench", "FOLDER", "LongGenBench: Dataset/Dataset_short.json and _long", \
         &(f)[EVAL_LONGGENBENCH], 0, 0, NULL}, \
        {CLI_TEXT, 0, "longproc", "FOLDER", "LongProc: data/SET with its prompts.yaml", &(f)[EVAL_LONGPROC], 0, 0, NULL}
/* clang-format on */

#endif
