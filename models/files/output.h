/* output.h - an output file that appears under its name only when it is complete; most of it is public. libc only. */
#ifndef KVC_MODELS_FILES_OUTPUT_H
#define KVC_MODELS_FILES_OUTPUT_H

#include "kvcull.h"

enum kvc_status kvc_output_write(struct kvc_output *output, uint64_t offset, const void *data, size_t bytes,
                                 struct kvc_error *error);

/* Writes what is pending, and says where the file lies until it gets its name; NULL: it could not be written. */
const char *kvc_output_written(struct kvc_output *output, struct kvc_error *error);

/* A file that is new is its owner's alone. */
void kvc_output_private(struct kvc_output *output);

#endif
