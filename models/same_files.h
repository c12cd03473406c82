/* same_files.h - checks that all ranks have the same model in their files. */
#ifndef KVC_MODELS_SAME_FILES_H
#define KVC_MODELS_SAME_FILES_H

#include "models/model.h"

/* Compares the models that all ranks have opened at this path; all ranks call it. If a byte that a rank reads differs
 * from rank 0's file, all ranks end with a message that names the rank, the path, and the tensor, key or file.
 *
 * The comparison covers all metadata and shapes, a folder's small files, and XXH64 of each run of bytes that a rank
 * reads from a tensor. That rank hashes its runs, and a rank with rank 0's file hashes the same runs. If all ranks use
 * the same file on one machine, only metadata and small files are read. If `whole` is true, each rank reads all tensors
 * (--ranks data). */
void kvc_model_same(struct kvc_ranks *ranks, struct kvc_model *model, const char *path, bool whole);

struct kvc_policy; /* core/stage/policy.h */
/* Compares the files that a policy's options name (such as those of duo and triattention). All ranks have parsed the
 * same policy. */
void kvc_policy_same(struct kvc_ranks *ranks, const struct kvc_policy *policy);

#endif
