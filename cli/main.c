/* main.c - the program: finds the command and runs it. */
#include <fcntl.h>
#include <string.h>

#include "cli/cli.h"

static int program_main(const struct cli_command *self, int argc, char **argv);

/* The program itself, as a command without a name. */
static const struct cli_command program = {
    "",
    "COMMAND [options]",
    "runs language models with a bounded key-value cache",
    "kvcull runs language models with a bounded KV cache. A method from the literature decides which entries the cache "
    "keeps. The same model, prompt and method give bit-identical logits on every backend and with any number of "
    "threads.\n\nAnswers and tables go to standard output; progress, warnings and summaries go to standard error. A "
    "policy SPEC is a method's name with its options, name:option=value,option=value. Methods of different stages are "
    "joined by +, as in snapkv:budget=512+morphkv:budget=600,window=64. `kvcull info methods` lists the methods.",
    "kvcull run -m model.gguf -p \"Once upon a time\" --kv morphkv:budget=512\n"
    "kvcull info methods morphkv\n"
    "kvcull info model.gguf --prompt 32000 --mem 8G\n",
    program_main};

const struct cli_command *cli_find_command(const char *name) {
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

static const struct cli_option no_options[] = {{.kind = CLI_END}};

static int help(void) {
    printf("Usage: kvcull COMMAND [options]\n\n");
    cli_wrap(stdout, program.description, 0);
    printf("\nCommands:\n");
    for (const struct cli_command *command = cli_commands; command->name; command++)
        printf("  %-12s%s\n", command->name, command->summary);
    printf("\n`kvcull COMMAND --help` shows a command's options, `man kvcull-COMMAND` its manual.\n");
    return cli_flush(&program);
}

static int program_main(const struct cli_command *self, int argc, char **argv) {
    const char *names[32], *near;
    const struct cli_command *command;
    size_t count = 0;

    if (argc < 2)
        return cli_error(self, KVC_USAGE, "no command; `kvcull --help` lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help();
    if (strcmp(argv[1], "help") == 0) {
        if (argc < 3)
            return help();
        command = cli_find_command(argv[2]);
        if (command) {
            char flag[] = "--help";
            char *again[] = {argv[2], flag, NULL};

            return command->main(command, 2, again);
        }
        argv++;
    }
    command = cli_find_command(argv[1]);
    if (command)
        return command->main(command, argc - 1, argv + 1);
    if (argv[1][0] == '-')
        return cli_parse(self, no_options, argc, argv, NULL);
    for (command = cli_commands; command->name && count < 31; command++)
        names[count++] = command->name;
    names[count] = NULL;
    near = cli_nearest(argv[1], names);
    if (near)
        return cli_error(self, KVC_USAGE, "%s: no such command; did you mean %s?", argv[1], near);
    return cli_error(self, KVC_USAGE, "%s: no such command; `kvcull --help` lists them", argv[1]);
}

/* If the caller closed one of the three standard files, the next opened file would get its number and receive messages.
 * The placeholder is a file that can be neither read nor written, like a closed file. */
static void fill_closed_files(void) {
    for (int file = 0; file <= 2; file++)
        if (fcntl(file, F_GETFD) == -1 && open("/dev/null", file == 0 ? O_WRONLY : O_RDONLY) == -1)
            return;
}

int main(int argc, char **argv) {
    int status;

    fill_closed_files();
    cli_signals();
    cli_json_start();
    status = cli_start_ranks(&program, argc, argv);
    if (status == CLI_GO) {
        status = program_main(&program, argc, argv);
        if (status == KVC_OK)
            status = cli_flush(&program);
    }
    cli_leave_ranks();
    return status;
}
