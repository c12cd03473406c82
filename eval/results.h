/* results.h - one result for every sample, as JSON lines in an append-only file, and the tables computed from them. */
#ifndef KVC_EVAL_RESULTS_H
#define KVC_EVAL_RESULTS_H

#include "eval/task.h"

struct eval_results {
    const struct cli_command *command;
    json_t *records; /* an array of complete record objects */
    json_t *traces;  /* the same for traced samples (eval/trace.h) */
    json_t *index;   /* an object that maps each record's key to its index */
    const char *path;
    int file;       /* new records are appended to it; -1: none */
    size_t dropped; /* bytes of an incomplete last line */
    size_t twice;   /* duplicate records that are equal */
};
/* Initializes results. Call it first. */
int eval_results_start(const struct cli_command *command, struct eval_results *results);
void eval_results_close(struct eval_results *results);
/* Adds the records of a file. Ignores an incomplete last line. */
int eval_results_read(struct eval_results *results, const char *path);
/* Adds the records in the bytes of a file. */
int eval_results_parse(struct eval_results *results, const char *path, const char *text, size_t bytes);
/* Appends to a new file, or, with resume, to an existing one, whose records are read first. Locks the file against
 * other processes. */
int eval_results_append_to(struct eval_results *results, const char *path, bool resume);
/* Returns true if a record with the same key fields exists. */
bool eval_results_has(const struct eval_results *results, const json_t *record);
bool eval_results_has_trace(const struct eval_results *results, const json_t *record);
/* Returns the tokens' texts of a prompt, from any trace of it; NULL: none has them. */
const json_t *eval_results_text(const struct eval_results *results, const json_t *prompt_hash);
/* Takes ownership of the reference, and writes the line immediately. */
int eval_results_add(struct eval_results *results, json_t *record);

/* Records of one group have the same model, arithmetic, cache type and template. */
enum { EVAL_GROUP_FIELDS = 5 };
extern const char *const eval_group_fields[EVAL_GROUP_FIELDS];
/* Returns the texts of these fields, a line each; the caller frees it. NULL: no memory. */
char *eval_group_text(const json_t *record);
const char *eval_text_of(const json_t *record, const char *name);
/* Returns the number of a text of this kind in `numbers`, or registers the text with the number `next`. Sets *lost if
 * there is no memory. */
size_t eval_number_for(json_t *numbers, const char *kind, const char *text, size_t next, bool *lost);
/* Prints the spans of all traces: a table for each span, with a row for every policy. */
int eval_spans_print(const struct eval_results *results);
void eval_layers_text(const size_t *layers, size_t count, char text[48]); /* "3,17,4" */

/* Prints the tables of all records: one for every group, task and length. */
int eval_tables_print(const struct eval_results *results);
json_t *eval_tables_json(const struct eval_results *results);
/* Tables of scores by depth, by turn and the like; as JSON, further members of root. */
int eval_grids_print(const struct eval_results *results);
void eval_grids_json(const struct eval_results *results, json_t *root);
struct eval_computed { /* tokens of a run's prompts: in total, and computed */
    uint64_t prompt_tokens, computed_tokens;
};
/* Writes all results: tables or JSON to standard output, and a report unless NULL. computed: NULL without a run. */
int eval_results_show(const struct eval_results *results, const struct eval_computed *computed, bool json,
                      const char *report);

#endif
