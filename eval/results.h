/* results.h - a result of every sample: lines of JSON in a file that only grows, and tables made of them. */
#ifndef KVC_EVAL_RESULTS_H
#define KVC_EVAL_RESULTS_H

#include "eval/task.h"

struct eval_results {
    const struct cli_command *command;
    json_t *records; /* an array of objects, each with all the fields */
    json_t *traces;  /* the same of samples that were traced: eval/trace.h */
    json_t *index;   /* an object: the key of each, and its place among them */
    const char *path;
    int file;       /* what new ones are appended to; -1: nothing */
    size_t dropped; /* bytes of a torn last line */
    size_t twice;   /* records that were there already, and equal */
};
/* In front of the others. */
int eval_results_start(const struct cli_command *command, struct eval_results *results);
void eval_results_close(struct eval_results *results);
/* Adds the records of a file. A last line without an end is left out. */
int eval_results_read(struct eval_results *results, const char *path);
/* The same of a file's bytes. */
int eval_results_parse(struct eval_results *results, const char *path, const char *text, size_t bytes);
/* Appends to a new file, or (resume) to what is there, whose records are read first. No other process may write it. */
int eval_results_append_to(struct eval_results *results, const char *path, bool resume);
/* Whether there is a record with the key fields of this one. */
bool eval_results_has(const struct eval_results *results, const json_t *record);
bool eval_results_has_trace(const struct eval_results *results, const json_t *record);
/* The texts of the tokens of a prompt, as a trace has them; NULL: none has. */
const json_t *eval_results_text(const struct eval_results *results, const json_t *prompt_hash);
/* Takes the reference; writes the line at once. */
int eval_results_add(struct eval_results *results, json_t *record);

/* Records of one group are of one model, in one arithmetic, cache type and template. */
enum { EVAL_GROUP_FIELDS = 5 };
extern const char *const eval_group_fields[EVAL_GROUP_FIELDS];
/* The spans of all traces: a table for each, with a row for every policy. */
int eval_spans_print(const struct eval_results *results);
void eval_layers_text(const size_t *layers, size_t count, char text[48]); /* "3,17,4" */

/* Tables of all records: for every model and its settings, for every task and length. */
int eval_tables_print(const struct eval_results *results);
json_t *eval_tables_json(const struct eval_results *results);
/* The tables that show scores by depth, by turn and the like; as further members of the JSON object. */
int eval_grids_print(const struct eval_results *results);
void eval_grids_json(const struct eval_results *results, json_t *root);
struct eval_computed { /* of a run: tokens of prompts, and how many of them were computed */
    uint64_t prompt_tokens, computed_tokens;
};
/* All of it: as tables or JSON on standard output, and as a report (NULL: none). computed NULL: there was no run. */
int eval_results_show(const struct eval_results *results, const struct eval_computed *computed, bool json,
                      const char *report);

#endif
