/* held_files.h - the files that this process is writing and those it has mapped, as handlers of signals need them. */
#ifndef KVC_MODELS_FILES_HELD_FILES_H
#define KVC_MODELS_FILES_HELD_FILES_H

#include "kvcull.h"

struct kvc_held_file;

/* Notes the name of a file that is about to be written, or of a folder that is about to be made for such files; NULL: no
 * memory. kvc_output_remove_all removes it. */
struct kvc_held_file *kvc_hold_written(const char *path);
/* Notes a mapping of a file, for kvc_mapped_path; NULL: no memory. */
struct kvc_held_file *kvc_hold_mapped(const char *path, const void *start, size_t bytes);
/* The file has its own name or is gone; the mapping is about to go. NULL is fine. */
void kvc_let_go(struct kvc_held_file *file);

#endif
