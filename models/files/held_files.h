/* held_files.h - records the files that this process is writing and those it has mapped, for signal handlers. */
#ifndef KVC_MODELS_FILES_HELD_FILES_H
#define KVC_MODELS_FILES_HELD_FILES_H

#include "kvcull.h"

struct kvc_held_file;

/* Records the path of a file or folder about to be created. kvc_output_remove_all removes it. Returns NULL if out of
 * memory. */
struct kvc_held_file *kvc_hold_written(const char *path);
/* Records a mapping of a file, for kvc_mapped_path. Returns NULL if out of memory. */
struct kvc_held_file *kvc_hold_mapped(const char *path, const void *start, size_t bytes);
/* Ends a record: the file has its final name or was removed, or the mapping is about to be unmapped. NULL is
 * allowed. */
void kvc_let_go(struct kvc_held_file *file);

#endif
