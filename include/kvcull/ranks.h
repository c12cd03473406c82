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
/* Starts MPI. All ranks call it. how: "tensor" (NULL: the same) or "pipeline". KVC_USAGE: there is no such way, or the
 * ranks were given different ones; KVC_INPUT: they are not of one build; KVC_RESOURCE: this build has no MPI. Where MPI
 * itself fails, or a rank ends before its time, the processes of all ranks end, with one line and exit status 4. */
enum kvc_status kvc_ranks_open(const char *how, struct kvc_ranks **ranks, struct kvc_error *error);
uint32_t kvc_ranks_rank(const struct kvc_ranks *ranks);
uint32_t kvc_ranks_count(const struct kvc_ranks *ranks);
/* On ranks other than 0: does what rank 0 asks until that closes. */
void kvc_ranks_follow(struct kvc_ranks *ranks);
/* What this rank has sent, each receiver counted apart. */
struct kvc_ranks_traffic {
    uint64_t messages, bytes;
};
void kvc_ranks_traffic(const struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/* After everything opened with it; NULL is fine. Ends MPI. */
void kvc_ranks_close(struct kvc_ranks *ranks);

#ifdef __cplusplus
}
#endif
#endif
