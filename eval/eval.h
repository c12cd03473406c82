/* eval.h - the tasks of `kvcull eval`, one file each. They use the public headers and the program's helpers only. */
#ifndef KVC_EVAL_EVAL_H
#define KVC_EVAL_EVAL_H

#include "cli/cli.h"

/* The tasks; cli/eval.c calls them with argv[0] the task's name. */
int eval_needle(const struct cli_command *command, int argc, char **argv);
int eval_fidelity(const struct cli_command *command, int argc, char **argv);
int eval_merge(const struct cli_command *command, int argc, char **argv);
int eval_where(const struct cli_command *command, int argc, char **argv);

/* The token of the highest logit, the lowest id where equal. */
int32_t eval_likeliest(const float *logits, uint32_t vocab);
/* Writes DIR/NAME.json and DIR/NAME.csv (the folder is made where it is missing); takes the reference. */
int eval_write(const struct cli_command *command, const char *folder, const char *name, json_t *json,
               void (*csv)(const void *task, FILE *stream), const void *task);
/* Whether both could be written, before anything is computed; a folder that is not there stays so. */
int eval_write_check(const struct cli_command *command, const char *folder, const char *name);
void eval_csv_text(FILE *stream, const char *text); /* quoted */

#endif
