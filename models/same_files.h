/* same_files.h - whether all ranks have the same model in their files. */
#ifndef KVC_MODELS_SAME_FILES_H
#define KVC_MODELS_SAME_FILES_H

#include "models/model.h"

/* All ranks call it, with the model that each has opened at this path. Where a rank's file is another than rank 0's, in
 * a byte that this rank takes, all end with a line that names the rank, the tensor, key or file, and its path.
 *
 * Compared are all metadata and shapes, the small files of a folder, and XXH64 of each run of bytes that the rank takes
 * of a tensor: it hashes them, and so does a rank that has the file of rank 0. Nothing but the first is read where all
 * have one file of one machine. whole: each rank takes all tensors (--ranks data). */
void kvc_model_same(struct kvc_ranks *ranks, struct kvc_model *model, const char *path, bool whole);

struct kvc_policy; /* core/stage/policy.h */
/* The same of the files that options of a policy name (duo's, dapq's and triattention's), which all ranks have parsed.
 */
void kvc_policy_same(struct kvc_ranks *ranks, const struct kvc_policy *policy);

#endif
