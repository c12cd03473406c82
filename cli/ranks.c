/* ranks.c - a program that was started as several processes: rank 0 goes on as ever, the others do what its calls ask
 * for and leave with it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/ranks.h"

static struct kvc_ranks *program_ranks; /* of this process, from start to exit */

struct kvc_ranks *cli_ranks(void) {
    return program_ranks;
}

/* What --ranks says, before the command's own options are read: every rank has to know. */
static const char *given(int argc, char **argv) {
    const char *how = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--ranks=", 8) == 0)
            how = argv[i] + 8;
        else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc)
            how = argv[++i];
    }
    return how;
}

static void leave(void) {
    kvc_ranks_close(program_ranks);
    program_ranks = NULL;
}

int cli_start_ranks(const struct cli_command *command, int argc, char **argv) {
    struct kvc_error error;
    const char *how = given(argc, argv);
    if (!how && !kvc_ranks_started())
        return CLI_GO;
    if (kvc_ranks_open(how, &program_ranks, &error) != KVC_OK)
        return error.text[0] ? cli_report(command, &error) : (int)error.status;
    atexit(leave);
    if (kvc_ranks_rank(program_ranks) == 0)
        return CLI_GO;
    kvc_ranks_follow(program_ranks);
    return KVC_OK;
}
