/* held_files.c - the files that this process is writing and those it has mapped, for signal handlers.
 *
 * A signal handler cannot receive an argument, so these two lists are the library's only global variables. A handler
 * may run at any moment on any thread. It therefore follows only pointers that never change, and claims entries by
 * atomic exchange. Entries are reused and never freed. */
#include "models/files/held_files.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kvc_held_file {
    struct kvc_held_file *next;
    atomic_bool taken;
    _Atomic(char *) path; /* the thread that replaces it by NULL owns the path */
    char *copy;           /* same text, for freeing; a handler must not call free, so it leaks the path it claims */
    _Atomic(uintptr_t) start;
    _Atomic(size_t) bytes;
};

/* Two separate lists, so that a race can never make a handler remove a file that is only read. */
static _Atomic(struct kvc_held_file *) kvc_written_files, kvc_mapped_files;

static struct kvc_held_file *held_files_hold(_Atomic(struct kvc_held_file *) *list, const char *path, const void *start,
                                             size_t bytes) {
    char *copy = strdup(path);
    struct kvc_held_file *file = copy ? atomic_load(list) : NULL;
    while (file && atomic_exchange(&file->taken, true)) {
        file = file->next;
    }
    if (!file && copy && (file = calloc(1, sizeof *file)) != NULL) {
        atomic_init(&file->taken, true);
        file->next = atomic_load(list);
        while (!atomic_compare_exchange_weak(list, &file->next, file)) {
        }
    }
    if (!file) {
        free(copy);
        return NULL;
    }
    atomic_store(&file->start, (uintptr_t)start);
    atomic_store(&file->bytes, bytes);
    file->copy = copy;
    atomic_store(&file->path, copy);
    return file;
}

struct kvc_held_file *kvc_hold_written(const char *path) {
    return held_files_hold(&kvc_written_files, path, NULL, 0);
}

struct kvc_held_file *kvc_hold_mapped(const char *path, const void *start, size_t bytes) {
    return held_files_hold(&kvc_mapped_files, path, start, bytes);
}

void kvc_let_go(struct kvc_held_file *file) {
    if (file && atomic_exchange(&file->path, NULL)) { /* otherwise a handler owns the path */
        atomic_store(&file->bytes, 0);
        free(file->copy);
        atomic_store(&file->taken, false);
    }
}

void kvc_output_remove_all(void) {
    /* Files first, then folders: a folder can be removed only when it is empty. */
    for (int folders = 0; folders < 2; folders++) {
        for (struct kvc_held_file *file = atomic_load(&kvc_written_files); file; file = file->next) {
            char *path = atomic_exchange(&file->path, NULL);
            if (path && folders) {
                rmdir(path);
            } else if (path && unlink(path) != 0 && (errno == EISDIR || errno == EPERM)) {
                atomic_store(&file->path, path);
            }
        }
    }
}

const char *kvc_mapped_path(const void *address) {
    for (struct kvc_held_file *file = atomic_load(&kvc_mapped_files); file; file = file->next) {
        if ((uintptr_t)address - atomic_load(&file->start) < atomic_load(&file->bytes)) {
            return atomic_load(&file->path);
        }
    }
    return NULL;
}
