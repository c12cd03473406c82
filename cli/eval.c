/* eval.c - kvcull eval: hands over to the task of that name. */
#include <string.h>

#include "cli/cli.h"

static const char prefix[] = "eval "; /* tasks are named "eval needle" */

static int list(const struct cli_command *command) {
    printf("Usage: kvcull eval %s\n\n", command->synopsis);
    cli_wrap(stdout, command->description, 0);
    printf("\nTasks:\n");
    for (const struct cli_command *task = cli_eval_tasks; task->name; task++)
        printf("  %-12s%s\n", task->name + strlen(prefix), task->summary);
    printf("\n`kvcull eval TASK --help` shows a task's options.\n");
    return cli_flush(command);
}

int kvc_cli_eval(const struct cli_command *command, int argc, char **argv) {
    static const struct cli_option no_options[] = {{.kind = CLI_END}};
    const char *names[32], *near;
    size_t count = 0;

    if (argc < 2)
        return cli_error(command, KVC_USAGE, "no task; `kvcull eval --help` lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return list(command);
    for (const struct cli_command *task = cli_eval_tasks; task->name; task++) {
        if (strcmp(task->name + strlen(prefix), argv[1]) == 0)
            return task->main(task, argc - 1, argv + 1);
        if (count < 31)
            names[count++] = task->name + strlen(prefix);
    }
    if (argv[1][0] == '-')
        return cli_parse(command, no_options, argc, argv, NULL);
    names[count] = NULL;
    near = cli_nearest(argv[1], names);
    if (near)
        return cli_error(command, KVC_USAGE, "%s: no such task; did you mean %s?", argv[1], near);
    return cli_error(command, KVC_USAGE, "%s: no such task; `kvcull eval --help` lists them", argv[1]);
}
