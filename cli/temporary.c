/* temporary.c - makes a temporary model file in a folder of its own under TMPDIR. The file is removed however the
 * program ends. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/* Starts a process that removes the folder when *hold is closed or this process ends in any way. Returns -1 on failure.
 */
static pid_t watch_folder(const char *folder, int *hold) {
    int ends[2];

    *hold = -1;
    if (pipe(ends) != 0)
        return -1;
    const pid_t watcher = fork();
    if (watcher == 0) {
        char byte;

        close(ends[1]);
        signal(SIGINT, SIG_IGN); /* a terminal sends its signals to both processes */
        signal(SIGQUIT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        while (read(ends[0], &byte, 1) > 0) {
        }
        execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(1);
    }
    close(ends[0]);
    if (watcher < 0)
        close(ends[1]);
    else
        *hold = ends[1];
    return watcher;
}

int cli_temporary_open(const struct cli_command *command, struct cli_temporary *temporary) {
    const char *base = getenv("TMPDIR");
    char *folder = temporary->folder;

    if (!base || !base[0])
        base = "/tmp";
    if (snprintf(folder, sizeof temporary->folder, "%s/kvcull-XXXXXX", base) >= (int)sizeof temporary->folder ||
        !mkdtemp(folder))
        return cli_error(command, KVC_RESOURCE,
                         "%s: cannot create a folder there; set TMPDIR to a folder with space for the model", base);
    temporary->watcher = watch_folder(folder, &temporary->hold);
    snprintf(temporary->file, sizeof temporary->file, "%s/model.gguf", folder);
    return KVC_OK;
}

void cli_temporary_close(struct cli_temporary *temporary) {
    unlink(temporary->file);
    rmdir(temporary->folder);
    if (temporary->watcher > 0) {
        close(temporary->hold);
        waitpid(temporary->watcher, NULL, 0);
    }
}
