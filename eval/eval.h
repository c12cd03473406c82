/* eval.h - the tasks of `kvcull eval` that have options of their own. They use only the public headers and the
 * program's helpers. */
#ifndef KVC_EVAL_EVAL_H
#define KVC_EVAL_EVAL_H

#include "cli/cli.h"

/* The tasks. cli/eval.c calls them with the task's name in argv[0]. */
int eval_needle(const struct cli_command *command, int argc, char **argv);
int eval_fidelity(const struct cli_command *command, int argc, char **argv);
int eval_merge(const struct cli_command *command, int argc, char **argv);
int eval_where(const struct cli_command *command, int argc, char **argv);

/* Returns the token with the highest logit; among equal logits, the lowest id. */
int32_t eval_likeliest(const float *logits, uint32_t vocab);
/* Writes DIR/NAME.json and DIR/NAME.csv, and creates the folder if necessary. Takes ownership of the reference to json.
 */
int eval_write(const struct cli_command *command, const char *folder, const char *name, json_t *json,
               void (*csv)(const void *task, FILE *stream), const void *task);
/* Checks before a long computation that both files can be written. Does not create the folder. */
int eval_write_check(const struct cli_command *command, const char *folder, const char *name);
void eval_csv_text(FILE *stream, const char *text); /* writes a text in quotes */

#endif
