/* report.h - a report of results: one HTML file with its style and pictures in it, which needs no script and no
 * network. It is well-formed as XML, too. */
#ifndef KVC_EVAL_REPORT_H
#define KVC_EVAL_REPORT_H

#include "eval/results.h"

/* Whether a report can be written there; says why not before anything is computed. */
int eval_report_check(const struct cli_command *command, const char *path);
/* The file appears when it is whole. */
int eval_report_write(const struct eval_results *results, const char *path);

/* ---- for its parts ----------------------------------------------------------------------------------------------- */

enum { REPORT_LEVELS = 9 }; /* of the sequential scale: 0, nothing, to 8, all */

struct report_row { /* a policy in a setting: over tasks that ask something, or one of them */
    size_t policy;
    const char *task;
    double score[2], low[2], high[2], samples[2]; /* the question seen, and not; samples 0: not asked so */
    double entries, held, read, first, token;
    double weight; /* samples that the means are of */
};
struct report_setting {              /* results that may be compared: of one model and its settings, of one length */
    const json_t *like;              /* a row of the tables, or a record, that has its fields */
    struct report_row *rows, *means; /* [row_count] task by task; [mean_count] over all tasks, best first */
    size_t row_count, mean_count;
    const char **tasks;
    size_t task_count;
};
struct report {
    FILE *out;
    const struct eval_results *results;
    json_t *tables; /* the rows of all tables */
    const char **policies;
    size_t *families; /* [policy_count] a number for each name of methods */
    size_t policy_count;
    struct report_setting *settings;
    size_t setting_count;
    bool lost; /* memory was lacking */
};

/* Text of any kind, with what HTML, XML or the eye would take amiss replaced. */
void report_text(FILE *out, const char *text);
/* "3 snapkv:budget=64", with its mark and colour. */
void report_policy(const struct report *report, size_t policy);
size_t report_policy_number(const struct report *report, const char *kv); /* policy_count: there is none */
/* 0 for nothing, 8 for all. */
unsigned report_level(double share);
/* The scale with a word at each end. */
void report_scale(FILE *out, const char *none, const char *all);
/* A grid with a cell for each layer (rows) and list (columns), as a picture: values from 0 to `most`, and what they
 * are. */
void report_map(FILE *out, const json_t *matrix, double most, const char *what);

/* Whether rows of the tables or records may be compared. */
bool report_same_setting(const json_t *a, const json_t *b);
bool report_collect(struct report *report); /* rows, policies, settings */
void report_free(struct report *report);

void report_style(FILE *out);
void report_leaders(const struct report *report, const struct report_setting *setting);
void report_curves(const struct report *report, const struct report_setting *setting);
void report_depths(const struct report *report); /* heat maps of records with a depth */
void report_times(const struct report *report, const struct report_setting *setting);
void report_measured(const struct report *report, const struct report_setting *setting); /* tasks that ask nothing */
void report_stayed(const struct report *report);
void report_spans(const struct report *report);

#endif
