/* eval.h - the tasks of `kvcull eval`, one file each. They use kvcull.h and the program's helpers only. */
#ifndef KVC_EVAL_H
#define KVC_EVAL_H

#include "cli/cli.h"

/* Tasks as commands named "eval needle" and so on; ends with name NULL. cli/eval.c looks the second word up here and
 * calls main with argv[0] the task's name. */
extern const struct cli_command eval_tasks[];

int eval_needle(const struct cli_command *command, int argc, char **argv);

#endif
