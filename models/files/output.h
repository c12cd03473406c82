/* output.h - the internal part of output files that appear under their final names only when complete. Most of the
 * interface is public. libc only. */
#ifndef KVC_MODELS_FILES_OUTPUT_H
#define KVC_MODELS_FILES_OUTPUT_H

#include "kvcull.h"

enum kvc_status kvc_output_write(struct kvc_output *output, uint64_t offset, const void *data, size_t bytes,
                                 struct kvc_error *error);

/* Writes pending bytes and returns the temporary path of the file, or NULL if writing failed. */
const char *kvc_output_written(struct kvc_output *output, struct kvc_error *error);

/* Makes a new file readable and writable by its owner only. */
void kvc_output_private(struct kvc_output *output);

#endif
