/* output.h - an output file that appears under its name only when it is complete. libc only. */
#ifndef KVC_MODELS_OUTPUT_H
#define KVC_MODELS_OUTPUT_H

#include "kvcull.h"

struct kvc_output;

/* Makes a file beside path under a temporary name and takes its `bytes` from the disk at once, so that a full disk
 * shows before hours of work. Failures are KVC_RESOURCE. */
enum kvc_status kvc_output_open(const char *path, uint64_t bytes, struct kvc_output **output, struct kvc_error *error);
enum kvc_status kvc_output_write(struct kvc_output *output, uint64_t offset, const void *data, size_t bytes,
                                 struct kvc_error *error);
/* Both free the output. commit renames the file to its name, or removes it and fails; abandon removes it. */
enum kvc_status kvc_output_commit(struct kvc_output *output, struct kvc_error *error);
void kvc_output_abandon(struct kvc_output *output); /* NULL is fine */

#endif
