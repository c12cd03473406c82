/* output_folder.c - writes a folder of several files that appears under its final name only when it is complete. */
#include "models/files/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/files/held_files.h"
#include "models/files/output.h"

enum { MOST_FILES = 16 };

struct kvc_output_set {
    char *target, *temporary;
    struct kvc_held_file *held; /* the folder, for signal handlers */
    char *paths[MOST_FILES];
    struct kvc_held_file *held_files[MOST_FILES];
    size_t count;
};

static enum kvc_status cannot_write(const char *path, int reason, struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "%s: cannot be written: %s", path, strerror(reason));
}

static void set_free(struct kvc_output_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        kvc_let_go(set->held_files[i]);
        free(set->paths[i]);
    }
    kvc_let_go(set->held);
    free(set->target);
    free(set->temporary);
    free(set);
}

/* Checks that the name is unused or names an empty folder, which will be replaced. */
static enum kvc_status check_target(const char *path, struct kvc_error *error) {
    struct stat about;
    if (lstat(path, &about) != 0) {
        return errno == ENOENT ? KVC_OK : cannot_write(path, errno, error);
    }
    if (!S_ISDIR(about.st_mode)) {
        return kvc_fail(error, KVC_RESOURCE, "%s: exists and is not a folder; give another name", path);
    }
    DIR *list = opendir(path);
    size_t entries = 0;
    while (list && entries <= 2 && readdir(list)) { /* "." and ".." count as two entries */
        entries++;
    }
    if (list) {
        closedir(list);
    }
    return list && entries <= 2 ? KVC_OK
                                : kvc_fail(error, KVC_RESOURCE, "%s: exists and is not empty; give another name", path);
}

static enum kvc_status make_temporary(struct kvc_output_set *set, struct kvc_error *error) {
    const size_t capacity = strlen(set->target) + 40;
    int reason = EEXIST;
    set->temporary = malloc(capacity);
    for (unsigned i = 0; set->temporary && reason == EEXIST && i < 1000; i++) {
        snprintf(set->temporary, capacity, "%s.part-%ld-%u", set->target, (long)getpid(), i);
        kvc_let_go(set->held);
        set->held = kvc_hold_written(set->temporary); /* before mkdir: a signal may arrive before mkdir returns */
        reason = !set->held ? ENOMEM : mkdir(set->temporary, 0777) != 0 ? errno : 0;
    }
    if (!set->temporary || !set->held) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", set->target);
    }
    return reason ? cannot_write(set->target, reason, error) : KVC_OK;
}

enum kvc_status kvc_output_set_open(const char *path, struct kvc_output_set **out, struct kvc_error *error) {
    *out = NULL;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    struct kvc_output_set *set = calloc(1, sizeof *set);
    if (!set || !(set->target = strndup(path, length))) {
        free(set);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    enum kvc_status status = check_target(set->target, error);
    if (!status) {
        status = make_temporary(set, error);
    }
    if (status) {
        set_free(set);
        return status;
    }
    *out = set;
    return KVC_OK;
}

enum kvc_status kvc_output_set_path(struct kvc_output_set *set, const char *name, const char **path,
                                    struct kvc_error *error) {
    const size_t capacity = strlen(set->temporary) + strlen(name) + 2;
    char *made = set->count < MOST_FILES ? malloc(capacity) : NULL;
    struct kvc_held_file *held = NULL;
    if (made) {
        snprintf(made, capacity, "%s/%s", set->temporary, name);
        held = kvc_hold_written(made);
    }
    if (!held) {
        free(made);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %s", set->target, name);
    }
    set->held_files[set->count] = held;
    set->paths[set->count++] = made;
    *path = made;
    return KVC_OK;
}

enum kvc_status kvc_output_set_write(struct kvc_output_set *set, const char *name, const void *data, size_t bytes,
                                     struct kvc_error *error) {
    const char *path = NULL;
    struct kvc_output *output;
    enum kvc_status status = kvc_output_set_path(set, name, &path, error);
    if (!status) {
        status = kvc_output_open(path, bytes, &output, error);
    }
    if (status) {
        return status;
    }
    status = kvc_output_write(output, 0, data, bytes, error);
    if (status) {
        kvc_output_abandon(output);
        return status;
    }
    return kvc_output_commit(output, error);
}

const char *kvc_output_set_folder(const struct kvc_output_set *set) { return set->temporary; }

enum kvc_status kvc_output_set_commit(struct kvc_output_set *set, struct kvc_error *error) {
    const int folder = open(set->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason = 0;
    if (folder < 0 || (fsync(folder) != 0 && errno != EINVAL && errno != ENOSYS)) {
        reason = errno;
    }
    if (folder >= 0) {
        close(folder);
    }
    if (!reason && rename(set->temporary, set->target) != 0) {
        reason = errno;
    }
    if (reason) {
        const enum kvc_status status = cannot_write(set->target, reason, error);
        kvc_output_set_abandon(set);
        return status;
    }
    set_free(set);
    return KVC_OK;
}

void kvc_output_set_abandon(struct kvc_output_set *set) {
    if (!set) {
        return;
    }
    for (size_t i = 0; i < set->count; i++) {
        unlink(set->paths[i]);
    }
    rmdir(set->temporary);
    set_free(set);
}
