/* kvcull/ranks.h - several processes as one engine, started by mpirun or srun; docs/ranks.md.
 *
 * Rank 0 runs the program and calls the library as ever. The others call kvc_ranks_follow, which does what rank 0's
 * calls ask for and returns when rank 0 closes. Results have the same bits for any number of ranks. */
#ifndef KVCULL_RANKS_H
#define KVCULL_RANKS_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvc_ranks;

/* Whether this process was started as one of several, as far as its environment says. */
bool kvc_ranks_started(void);
/* Starts MPI. All ranks call it. how: "tensor" (NULL: the same), each rank has some heads and some outputs of every
 * matrix; "pipeline", a run of layers; "data", each rank is a program of its own, whose engines share nothing.
 * KVC_USAGE: there is no such way, or the ranks were given different ones; KVC_INPUT: they are not of one build;
 * KVC_RESOURCE: this build has no MPI. On other ranks than 0 the error of what all have found has no text. Where MPI
 * itself fails, or a rank ends before its time, the processes of all ranks end, with one line and exit status 4. */
enum kvc_status kvc_ranks_open(const char *how, struct kvc_ranks **ranks, struct kvc_error *error);
uint32_t kvc_ranks_rank(const struct kvc_ranks *ranks);
uint32_t kvc_ranks_count(const struct kvc_ranks *ranks);
/* On ranks other than 0: does what rank 0 asks until that closes. Not of "data". */
void kvc_ranks_follow(struct kvc_ranks *ranks);
/* Of "data", where all ranks call it: *all = what each gives, one after another in order of ranks, malloc'ed; sizes
 * [count]: bytes of each. Returns when all have come here. */
void kvc_ranks_gather(struct kvc_ranks *ranks, const void *mine, size_t bytes, void **all, size_t *sizes);
/* What this rank has sent, each receiver counted apart, and how long it has waited for others. */
struct kvc_ranks_traffic {
    uint64_t messages, bytes;
    double waited_seconds;
};
void kvc_ranks_traffic(const struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/* The sum over all ranks, asked for on rank 0. What this itself sends, or waits, is not counted. */
void kvc_ranks_all_traffic(struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/* What rank `rank` of `count` holds of a model that tensor shares; nothing is computed and no other process is needed.
 */
struct kvc_ranks_part {
    uint32_t heads, kv_heads, first_kv_head;
    bool heads_shared; /* otherwise each rank has all heads */
    uint64_t weight_bytes, recurrent_bytes;
};
enum kvc_status kvc_ranks_part(const char *path, uint32_t count, uint32_t rank, struct kvc_ranks_part *part,
                               struct kvc_error *error);
/* After everything opened with it; NULL is fine. Ends MPI. */
void kvc_ranks_close(struct kvc_ranks *ranks);

#ifdef __cplusplus
}
#endif
#endif
