/* output_folder.h - a folder of several files that appears under its name only when it is complete. libc only. */
#ifndef KVC_MODELS_FILES_OUTPUT_FOLDER_H
#define KVC_MODELS_FILES_OUTPUT_FOLDER_H

#include "kvcull.h"

struct kvc_output_set;

/* The folder lies beside its final name under a temporary one. path may end in slashes; a folder of this name may be
 * there if it is empty. Failures are KVC_RESOURCE. */
enum kvc_status kvc_output_set_open(const char *path, struct kvc_output_set **set, struct kvc_error *error);
/* Where the file of this name is to be written; from now on handlers of signals remove it. The text is the set's. */
enum kvc_status kvc_output_set_path(struct kvc_output_set *set, const char *name, const char **path,
                                    struct kvc_error *error);
/* Writes a whole small file. */
enum kvc_status kvc_output_set_write(struct kvc_output_set *set, const char *name, const void *data, size_t bytes,
                                     struct kvc_error *error);
/* Where the files lie until then. */
const char *kvc_output_set_folder(const struct kvc_output_set *set);
/* Both free the set. commit gives the folder its name, or removes it and fails. NULL is fine for abandon. */
enum kvc_status kvc_output_set_commit(struct kvc_output_set *set, struct kvc_error *error);
void kvc_output_set_abandon(struct kvc_output_set *set);

#endif
