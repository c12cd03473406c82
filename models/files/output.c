/* output.c - output files that appear under their final names only when they are complete, and folders of such
 * files. */
#include "models/files/output.h"
#include "core/base/assert.h"
#include "models/files/held_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes are written in pieces aligned to large pages. Kernels that support it then keep the file in large pages, which
 * makes a later mapping faster to read. */
enum { PIECE = 2 << 20 };

struct kvc_output {
    int fd;      /* -1: a folder, which has no target and no pending bytes */
    mode_t mode; /* mode of the file to be replaced; 0: no such file */
    char *target, *temporary;
    struct kvc_held_file *held; /* the temporary file, for signal handlers */
    unsigned char *pending;     /* [PIECE]; the first pending_bytes belong at offset `start` */
    size_t pending_bytes;
    uint64_t start;
};

static enum kvc_status cannot_write(const char *path, int reason, struct kvc_error *error) {
    return kvc_fail(error, KVC_RESOURCE, "%s: cannot be written: %s", path, strerror(reason));
}

static void output_free(struct kvc_output *output) {
    if (output->fd >= 0) {
        close(output->fd);
    }
    kvc_let_go(output->held);
    free(output->target);
    free(output->temporary);
    free(output->pending);
    free(output);
}

/* Follows a symbolic link to a file that does not exist. Returns NULL if out of memory. */
static char *follow_links(const char *path) {
    char link[PATH_MAX];
    char *target = strdup(path);
    ssize_t bytes;
    while (target && (bytes = readlink(target, link, sizeof link)) >= 0) {
        const char *slash = link[0] == '/' ? NULL : strrchr(target, '/');
        size_t folder = slash ? (size_t)(slash - target) + 1 : 0;
        char *next = malloc(folder + (size_t)bytes + 1);
        if (next) {
            memcpy(next, target, folder);
            memcpy(next + folder, link, (size_t)bytes);
            next[folder + (size_t)bytes] = '\0';
        }
        free(target);
        target = next;
    }
    return target;
}

/* Finds the path to replace, following symbolic links. Refuses devices and pipes, because renaming over them would
 * destroy them. */
static enum kvc_status find_target(struct kvc_output *output, const char *path, struct kvc_error *error) {
    struct stat about;
    if (stat(path, &about) == 0) {
        if (!S_ISREG(about.st_mode)) {
            return kvc_fail(error, KVC_RESOURCE, "%s: is not a regular file and cannot be replaced by one", path);
        }
        if (!(about.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH))) { /* renaming would replace even a write-protected file */
            return kvc_fail(error, KVC_RESOURCE, "%s: is write-protected and is not replaced; give another name", path);
        }
        output->target = realpath(path, NULL);
        output->mode = about.st_mode & 0777;
    } else if (errno == ENOENT) { /* an error such as ELOOP (a cycle of links) is reported below */
        output->target = follow_links(path);
    }
    return output->target ? KVC_OK : cannot_write(path, errno, error);
}

static enum kvc_status make_temporary(struct kvc_output *output, const char *path, struct kvc_error *error) {
    size_t capacity = strlen(output->target) + 40;
    output->temporary = malloc(capacity);
    if (!output->temporary) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(output->temporary, capacity, "%s.part-%ld-%u", output->target, (long)getpid(), i);
        output->held = kvc_hold_written(output->temporary); /* before open: a signal may arrive before open returns */
        if (!output->held) {
            return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
        }
        output->fd =
            open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, output->mode ? output->mode : 0666);
        if (output->fd >= 0 || errno != EEXIST) {
            break;
        }
        kvc_let_go(output->held);
        output->held = NULL;
    }
    if (output->fd < 0) {
        return cannot_write(path, errno, error);
    }
    if (output->mode) { /* ignores the umask; fails harmlessly on file systems without modes */
        (void)!fchmod(output->fd, output->mode);
    }
    return KVC_OK;
}

static enum kvc_status output_reserve(struct kvc_output *output, const char *path, uint64_t bytes,
                                      struct kvc_error *error) {
    if (bytes > INT64_MAX) {
        return kvc_fail(error, KVC_RESOURCE, "%s: a file of %" PRIu64 " bytes cannot be written", path, bytes);
    }
    int reason = bytes > 0 ? posix_fallocate(output->fd, 0, (off_t)bytes) : 0;
    if (reason == ENOSPC || reason == EFBIG || reason == EDQUOT) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no space for %" PRIu64 " bytes: %s", path, bytes, strerror(reason));
    }
    return KVC_OK; /* other errors: the file system cannot reserve space, so a full disk shows when writing */
}

enum kvc_status kvc_output_open(const char *path, uint64_t bytes, struct kvc_output **out, struct kvc_error *error) {
    *out = NULL;
    struct kvc_output *output = calloc(1, sizeof *output);
    if (!output) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    output->fd = -1;
    output->pending = malloc(PIECE);
    enum kvc_status status =
        output->pending ? find_target(output, path, error) : kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    if (!status) {
        status = make_temporary(output, path, error);
    }
    if (status) {
        output_free(output);
        return status;
    }
    status = output_reserve(output, path, bytes, error);
    if (status) {
        kvc_output_abandon(output);
        return status;
    }
    *out = output;
    return KVC_OK;
}

enum kvc_status kvc_output_folder(const char *path, struct kvc_output **out, struct kvc_error *error) {
    struct stat about;
    *out = NULL;
    if (stat(path, &about) == 0) {
        return S_ISDIR(about.st_mode) ? KVC_OK
                                      : kvc_fail(error, KVC_RESOURCE, "%s: is not a folder; give another name", path);
    }
    struct kvc_output *output = calloc(1, sizeof *output);
    if (!output || !(output->temporary = strdup(path)) || !(output->held = kvc_hold_written(path))) {
        free(output ? output->temporary : NULL);
        free(output);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    output->fd = -1;
    if (mkdir(path, 0777) != 0) {
        const int reason = errno;
        output_free(output);
        return reason == EEXIST ? KVC_OK : cannot_write(path, reason, error);
    }
    *out = output;
    return KVC_OK;
}

void kvc_output_private(struct kvc_output *output) {
    if (!output->mode) {
        (void)!fchmod(output->fd, 0600);
    }
}

int kvc_output_descriptor(const struct kvc_output *output) { return output->fd; }

static enum kvc_status write_pending(struct kvc_output *output, struct kvc_error *error) {
    const unsigned char *from = output->pending;
    KVC_ASSERT(output->pending_bytes <= PIECE);
    while (output->pending_bytes > 0) {
        ssize_t done = pwrite(output->fd, from, output->pending_bytes, (off_t)output->start);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return cannot_write(output->target, done < 0 ? errno : ENOSPC, error);
        }
        from += done;
        output->start += (uint64_t)done;
        output->pending_bytes -= (size_t)done;
    }
    return KVC_OK;
}

enum kvc_status kvc_output_write(struct kvc_output *output, uint64_t offset, const void *data, size_t bytes,
                                 struct kvc_error *error) {
    const unsigned char *from = data;
    enum kvc_status status = KVC_OK;
    if (offset != output->start + output->pending_bytes) {
        status = write_pending(output, error);
        output->start = offset;
    }
    while (!status && bytes > 0) {
        size_t capacity = PIECE - (size_t)((output->start + output->pending_bytes) % PIECE);
        size_t part = bytes < capacity ? bytes : capacity;
        KVC_ASSERT(output->pending_bytes + part <= PIECE);
        memcpy(output->pending + output->pending_bytes, from, part);
        output->pending_bytes += part;
        from += part;
        bytes -= part;
        if (part == capacity) {
            status = write_pending(output, error);
        }
    }
    return status;
}

const char *kvc_output_written(struct kvc_output *output, struct kvc_error *error) {
    return write_pending(output, error) ? NULL : output->temporary;
}

/* Syncs a file. Returns 0 or errno; files that cannot be synced count as synced. */
static int sync_file(int descriptor) {
    int failed;
    do {
        failed = fsync(descriptor);
    } while (failed != 0 && errno == EINTR);
    return failed != 0 && errno != EINVAL && errno != ENOSYS ? errno : 0;
}

/* Syncs the folder of a renamed file, so that the name survives a power failure. Returns 0 or errno; a folder that
 * cannot be opened is ignored. */
static int sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const int descriptor = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int reason;
    free(folder);
    if (descriptor < 0) {
        return 0;
    }
    reason = sync_file(descriptor);
    close(descriptor);
    return reason;
}

enum kvc_status kvc_output_commit(struct kvc_output *output, struct kvc_error *error) {
    if (!output || !output->target) { /* a folder needs no commit */
        if (output) {
            output_free(output);
        }
        return KVC_OK;
    }
    enum kvc_status status = write_pending(output, error);
    int reason;
    if (status) {
        kvc_output_abandon(output);
        return status;
    }
    KVC_ASSERT(output->pending_bytes == 0);
    reason = sync_file(output->fd); /* some file systems report a full disk only here */
    if (close(output->fd) != 0 && !reason) {
        reason = errno;
    }
    output->fd = -1;
    if (!reason && rename(output->temporary, output->target) != 0) {
        reason = errno;
    }
    if (reason) {
        status = cannot_write(output->target, reason, error);
        unlink(output->temporary);
    } else {
        reason = sync_folder(output->target);
        if (reason) {
            status = cannot_write(output->target, reason, error);
        }
    }
    output_free(output);
    return status;
}

void kvc_output_abandon(struct kvc_output *output) {
    if (output && output->target) {
        unlink(output->temporary);
    } else if (output) {
        rmdir(output->temporary);
    }
    if (output) {
        output_free(output);
    }
}
