/* report.h - writes a report: one HTML file with its style and pictures. It needs no script and no network, and is also
 * well-formed XML. */
#ifndef KVC_EVAL_REPORT_H
#define KVC_EVAL_REPORT_H

#include "eval/results.h"

/* Checks before a long computation that the report can be written. */
int eval_report_check(const struct cli_command *command, const char *path);
/* Writes the report. The file appears only when it is complete. */
int eval_report_write(const struct eval_results *results, const char *path);

/* ---- for its parts ---- */

enum { REPORT_LEVELS = 9 }; /* number of steps of the color scale: step 0 is none, step 8 is all */

struct report_row { /* a policy in a setting: in one task, or over all tasks with questions */
    size_t policy;
    const char *task;
    /* index 0: question-aware, 1: question-agnostic; if samples is 0, the mode was not measured */
    double score[2], low[2], high[2], samples[2];
    double entries, held, read, first, token;
    double weight; /* number of samples in the means */
};
struct report_setting {              /* comparable results: they have the same model, options and length */
    const json_t *like;              /* a table row or a record with the setting's fields */
    struct report_row *rows, *means; /* rows [row_count]: task by task; means [mean_count]: over all tasks, the best
                                      * first */
    size_t row_count, mean_count;
    const char **tasks;
    size_t task_count;
};
struct report {
    FILE *out;
    const struct eval_results *results;
    json_t *tables; /* the rows of all tables */
    const char **policies;
    size_t *families; /* [policy_count]: policies with the same method names have the same number */
    size_t policy_count;
    struct report_setting *settings;
    size_t setting_count;
    bool lost; /* true if memory ran out */
};

/* Writes text. Characters that are unsafe in HTML or XML, or invisible, are escaped or replaced. */
void report_text(FILE *out, const char *text);
/* Writes a policy, such as "3 snapkv:budget=64", with its mark and color. */
void report_policy(const struct report *report, size_t policy);
size_t report_policy_number(const struct report *report, const char *kv); /* policy_count if `kv` is unknown */
/* Converts a fraction to a step of the color scale: 0 is none, 8 is all. */
unsigned report_level(double share);
/* Writes the color scale, with the words `none` and `all` at its ends. */
void report_scale(FILE *out, const char *none, const char *all);
/* Draws a grid with a cell for each layer (row) and list (column). Values go from 0 to `most`; `what` describes them.
 */
void report_map(FILE *out, const json_t *matrix, double most, const char *what);

/* Returns true if two table rows or records are comparable. */
bool report_same_setting(const json_t *a, const json_t *b);
bool report_collect(struct report *report); /* collects rows, policies and settings */
void report_free(struct report *report);

void report_style(FILE *out);
void report_leaders(const struct report *report, const struct report_setting *setting);
void report_curves(const struct report *report, const struct report_setting *setting);
void report_depths(const struct report *report); /* writes heat maps of the records that have a depth */
void report_times(const struct report *report, const struct report_setting *setting);
void report_measured(const struct report *report, const struct report_setting *setting); /* tasks without questions */
void report_stayed(const struct report *report);
void report_spans(const struct report *report);

#endif
