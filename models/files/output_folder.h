/* output_folder.h - writes a folder of several files that appears under its final name only when it is complete. libc
 * only. */
#ifndef KVC_MODELS_FILES_OUTPUT_FOLDER_H
#define KVC_MODELS_FILES_OUTPUT_FOLDER_H

#include "kvcull.h"

struct kvc_output_set;

/* Creates the folder under a temporary name, next to its final one. `path` may end in slashes. An empty folder may
 * exist under the final name. Failures are KVC_RESOURCE. */
enum kvc_status kvc_output_set_open(const char *path, struct kvc_output_set **set, struct kvc_error *error);
/* Returns in *path where to write the file `name`. Signal handlers remove that file from now on. The set owns the
 * text. */
enum kvc_status kvc_output_set_path(struct kvc_output_set *set, const char *name, const char **path,
                                    struct kvc_error *error);
/* Writes a whole small file. */
enum kvc_status kvc_output_set_write(struct kvc_output_set *set, const char *name, const void *data, size_t bytes,
                                     struct kvc_error *error);
/* Returns the temporary folder. */
const char *kvc_output_set_folder(const struct kvc_output_set *set);
/* Both free the set. commit renames the folder to its final name; if that fails, it removes the folder. abandon accepts
 * NULL. */
enum kvc_status kvc_output_set_commit(struct kvc_output_set *set, struct kvc_error *error);
void kvc_output_set_abandon(struct kvc_output_set *set);

#endif
