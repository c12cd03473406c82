/* eval.c - kvcull eval: calls a task that has options of its own, or runs standard tasks. */
#include <string.h>

#include "cli/cli.h"

static const char prefix[] = "eval "; /* names of tasks begin with "eval ", as in "eval needle" */

int kvc_cli_eval(const struct cli_command *command, int argc, char **argv) {
    if (argc < 2)
        return cli_error(command, KVC_USAGE, "no task; `kvcull eval --list` lists them");
    for (const struct cli_command *task = cli_eval_tasks; task->name; task++) {
        if (strcmp(task->name + strlen(prefix), argv[1]) == 0)
            return cli_data_ranks() ? cli_refuse_data(task) : task->main(task, argc - 1, argv + 1);
    }
    return cli_eval_standard(command, argc, argv);
}
