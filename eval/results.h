/* results.h - one result for every sample, as JSON lines in an append-only file, and the tables computed from them. */
#ifndef KVC_EVAL_RESULTS_H
#define KVC_EVAL_RESULTS_H

#include "eval/task.h"

struct eval_results {
    const struct cli_command *command;
    json_t *records; /* an array of objects, the complete records */
    json_t *traces;  /* an array of traces (eval/trace.h) */
    json_t *index;   /* an object that maps the key of each record to its index */
    const char *path;
    int file;       /* file to which new records are appended; -1: none */
    size_t dropped; /* number of bytes of an incomplete last line */
    size_t twice;   /* number of records that occurred twice and were equal */
};
/* Initializes results. Must be called before the other functions. */
int eval_results_start(const struct cli_command *command, struct eval_results *results);
void eval_results_close(struct eval_results *results);
/* Adds the records of a file. Ignores an incomplete last line. */
int eval_results_read(struct eval_results *results, const char *path);
/* Adds the records in the bytes of a file. */
int eval_results_parse(struct eval_results *results, const char *path, const char *text, size_t bytes);
/* Appends to a new file or, with `resume`, to an existing file, whose records are read first. Locks the file against
 * other processes. */
int eval_results_append_to(struct eval_results *results, const char *path, bool resume);
/* Returns true if a record with the same key fields exists. */
bool eval_results_has(const struct eval_results *results, const json_t *record);
bool eval_results_has_trace(const struct eval_results *results, const json_t *record);
/* Returns the texts of a prompt's tokens, from any trace of that prompt that has them; NULL: none has. */
const json_t *eval_results_text(const struct eval_results *results, const json_t *prompt_hash);
/* Adds a record and writes its line immediately. Takes ownership of the reference. */
int eval_results_add(struct eval_results *results, json_t *record);

/* Records of one group have the same model, arithmetic, cache type and template. */
enum { EVAL_GROUP_FIELDS = 5 };
extern const char *const eval_group_fields[EVAL_GROUP_FIELDS];
/* Returns the texts of these fields, one on each line; the caller frees it. Returns NULL if memory runs out. */
char *eval_group_text(const json_t *record);
const char *eval_text_of(const json_t *record, const char *name);
/* Returns the number that `numbers` assigns to the text among the texts of this kind. A new text gets the number
 * `next`. If memory runs out, sets *lost. */
size_t eval_number_for(json_t *numbers, const char *kind, const char *text, size_t next, bool *lost);
/* Prints the spans of all traces: a table for each span, with a row for every policy. */
int eval_spans_print(const struct eval_results *results);
void eval_layers_text(const size_t *layers, size_t count, char text[48]); /* "3,17,4" */

/* Prints the tables of all records: one for every group, task and length. */
int eval_tables_print(const struct eval_results *results);
json_t *eval_tables_json(const struct eval_results *results);
/* Tables of scores by depth, by turn and so on. In JSON, they are further members of root. */
int eval_grids_print(const struct eval_results *results);
void eval_grids_json(const struct eval_results *results, json_t *root);
struct eval_computed { /* numbers of prompt tokens of a run: in total, and computed */
    uint64_t prompt_tokens, computed_tokens;
};
/* Writes all results: as tables or JSON to standard output, and as a report unless `report` is NULL. `computed` is NULL
 * if nothing was run. */
int eval_results_show(const struct eval_results *results, const struct eval_computed *computed, bool json,
                      const char *report);

#endif
