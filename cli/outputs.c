/* outputs.c - checks that a command can write its outputs and does not overwrite its inputs, before the command
 * computes. Also locks sessions and folders of sessions, so that only one process at a time writes to them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/ranks.h"
#include "kvcull/saved.h"

/* ---- outputs that are inputs ---- */

static bool same_place(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns true if the existing file at path is part of the model in that folder. GGUF files in a folder are not part of
 * the model. */
static bool is_part_of(const char *path, const struct stat *folder) {
    struct stat about;
    const size_t length = strlen(path);
    char *whole = realpath(path, NULL), *slash = whole ? strrchr(whole, '/') : NULL;
    bool inside = false;

    if (slash && (length < 5 || strcmp(path + length - 5, ".gguf") != 0)) {
        slash[slash == whole] = '\0'; /* the root folder is "/" itself */
        inside = stat(whole, &about) == 0 && same_place(&about, folder);
    }
    free(whole);
    return inside;
}

int cli_check_inputs(const struct cli_command *command, const char *path, const char *const *inputs, size_t count) {
    struct stat out, in;

    if (stat(path, &out) != 0 || !S_ISREG(out.st_mode))
        return KVC_OK;
    for (size_t i = 0; i < count; i++)
        if (inputs[i] && stat(inputs[i], &in) == 0 &&
            (same_place(&out, &in) || (S_ISDIR(in.st_mode) && is_part_of(path, &in))))
            return cli_error(command, KVC_USAGE, "%s: is an input of this command; give another name for the output",
                             path);
    return KVC_OK;
}

int cli_check_output(const struct cli_command *command, const char *path) {
    struct cli_file file;
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        return KVC_OK; /* opening and closing a pipe would end its reader's input */
    const int status = cli_file_open(command, path, &file);
    if (status == KVC_OK)
        cli_file_abandon(&file);
    return status;
}

/* ---- locks ---- */

/* Opens the lock file and locks it. Returns 0, EWOULDBLOCK if another process has the lock, or the error number. */
static int take_lock(const char *guard, int *file) {
    struct stat here, there;

    for (;;) {
        *file = open(guard, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (*file < 0)
            return errno;
        const bool taken = flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(*file, &here) == 0 && stat(guard, &there) == 0 && same_place(&here, &there))
            return 0;
        close(*file);
        if (taken)
            return EWOULDBLOCK;
    } /* another process has just removed the lock file: tries again */
}

int cli_lock_open(const struct cli_command *command, const char *option, const char *path, const char *guard,
                  struct cli_lock *lock) {
    char *copy = strdup(guard);
    int file = -1;
    const int reason = copy ? take_lock(guard, &file) : ENOMEM;

    if (reason == 0) {
        *lock = (struct cli_lock){file, copy};
        return KVC_OK;
    }
    free(copy);
    if (reason == EWOULDBLOCK)
        return cli_error(command, KVC_RESOURCE,
                         "--%s %s: another process is writing it; give each process its own file", option, path);
    return cli_error(command, KVC_RESOURCE, "--%s %s: %s cannot be written: %s", option, path, guard, strerror(reason));
}

void cli_lock_close(struct cli_lock *lock) {
    struct stat about;

    if (!lock->guard)
        return;
    if (fstat(lock->file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 0)
        unlink(lock->guard);
    close(lock->file);
    free(lock->guard);
    *lock = (struct cli_lock){0, NULL};
}

int cli_session_guard(const struct cli_command *command, const char *option, const char *path, struct cli_lock *lock) {
    struct kvc_error error;
    int status = cli_check_name(command, option, path);

    if (status == KVC_OK && cli_ranks() && kvc_ranks_count(cli_ranks()) > 1)
        status = cli_error(command, KVC_USAGE, "--%s %s: a session that several processes share cannot be saved",
                           option, path);
    if (status != KVC_OK)
        return status;
    char *target = realpath(path, NULL); /* if path is a link, locks its target */
    const char *name = target ? target : path;
    char *guard = malloc(strlen(name) + sizeof CLI_LOCK);
    if (guard)
        snprintf(guard, strlen(name) + sizeof CLI_LOCK, "%s%s", name, CLI_LOCK);
    status = guard ? KVC_OK : cli_no_memory(command);
    if (status == KVC_OK && kvc_session_save_check(path, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK)
        status = cli_lock_open(command, option, path, guard, lock);
    free(guard);
    free(target);
    return status;
}
