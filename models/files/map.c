/* map.c - maps a whole regular file read-only. */
#include "models/files/map.h"
#include "models/files/held_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kvc_status map_descriptor(const char *path, int fd, struct kvc_map *map, struct kvc_error *error) {
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return kvc_fail(error, KVC_INPUT, "%s: cannot be examined: %s", path, strerror(errno));
    }
    if (S_ISDIR(about.st_mode)) {
        return kvc_fail(error, KVC_INPUT, "%s: is a directory, a file was expected", path);
    }
    if (!S_ISREG(about.st_mode)) {
        return kvc_fail(error, KVC_INPUT, "%s: is not a regular file", path);
    }
    if (about.st_size <= 0) {
        return kvc_fail(error, KVC_INPUT, "%s: the file is empty", path);
    }
    void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return kvc_fail(error, KVC_RESOURCE, "%s: cannot be mapped: %s", path, strerror(errno));
    }
    /* Some kernels keep files in large pages, which makes reading weights faster. */
#if defined(MADV_HUGEPAGE)
    (void)madvise(data, (size_t)about.st_size, MADV_HUGEPAGE);
#endif
    map->held = kvc_hold_mapped(path, data, (size_t)about.st_size);
    if (!map->held) {
        munmap(data, (size_t)about.st_size);
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    }
    map->data = data;
    map->bytes = (size_t)about.st_size;
    map->device = (uint64_t)about.st_dev;
    map->inode = (uint64_t)about.st_ino;
    return KVC_OK;
}

enum kvc_status kvc_map_open(const char *path, struct kvc_map *map, struct kvc_error *error) {
    *map = (struct kvc_map){NULL};
    /* O_NONBLOCK: opening a named pipe must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return kvc_fail(error, KVC_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    }
    enum kvc_status status = map_descriptor(path, fd, map, error);
    close(fd);
    return status;
}

void kvc_map_let_go(const struct kvc_map *map) {
    if (map->data) {
        (void)madvise((void *)(uintptr_t)map->data, map->bytes, MADV_DONTNEED);
    }
}

void kvc_map_close(struct kvc_map *map) {
    if (map->data) {
        kvc_let_go(map->held);
        munmap((void *)(uintptr_t)map->data, map->bytes);
    }
    *map = (struct kvc_map){NULL};
}
