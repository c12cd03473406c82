/* map.h - maps a whole regular file read-only. libc only. */
#ifndef KVC_MODELS_FILES_MAP_H
#define KVC_MODELS_FILES_MAP_H

#include "kvcull.h"

struct kvc_map {
    const unsigned char *data;
    size_t bytes;
    uint64_t device, inode;     /* identify the file on this machine */
    struct kvc_held_file *held; /* for SIGBUS handlers */
};

/* Maps the file. Returns KVC_INPUT, with the reason, for directories, devices, unreadable files and empty files. */
enum kvc_status kvc_map_open(const char *path, struct kvc_map *map, struct kvc_error *error);
/* Takes the file's pages out of this process's memory. Their contents are read again when they are used. */
void kvc_map_let_go(const struct kvc_map *map);
void kvc_map_close(struct kvc_map *map); /* a zeroed map is allowed */

#endif
