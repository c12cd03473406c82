/* kvcull/ranks.h - several processes as one engine, started by mpirun or srun; docs/explanation/parallel-runs.md.
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
 * matrix; "pipeline", a run of layers; "tensor=N,pipeline=M", M runs of layers, each of which N ranks share out, those
 * of one machine as far as they fit; "data", each rank is a program of its own, whose engines share nothing. share:
 * what each rank gets of the work, "2,1,1" say, numbers from 1 to 1000; NULL: all alike. Ranks are counted machine by
 * machine, from rank 0's on. KVC_USAGE: there is no such way, or the ranks were given different ones; KVC_INPUT: they
 * are not of one build; KVC_RESOURCE: this build has no MPI. On other ranks than 0 the error of what all have found has
 * no text. Where MPI itself fails, or a rank ends before its time, the processes of all ranks end, with one line and
 * exit status 4. */
enum kvc_status kvc_ranks_open(const char *how, const char *share, struct kvc_ranks **ranks, struct kvc_error *error);
/* How long another rank's process may be silent before all end with one line, which names it, and status 4: 0 for
 * without end, at first KVC_RANKS_TIMEOUT seconds. A rank that computes is not silent; one that was stopped (SIGSTOP)
 * or whose machine cannot be reached is. Nothing is watched where the program has started MPI itself with less than
 * MPI_THREAD_MULTIPLE. */
#define KVC_RANKS_TIMEOUT 60
void kvc_ranks_timeout(struct kvc_ranks *ranks, double seconds);
/* For how many seconds the rank that has been silent the longest has been so, below one as a rule; rank: which that is.
 * Rank 0 watches all, they watch rank 0. Any thread may ask. */
double kvc_ranks_silence(const struct kvc_ranks *ranks, uint32_t *rank);
uint32_t kvc_ranks_rank(const struct kvc_ranks *ranks);
uint32_t kvc_ranks_count(const struct kvc_ranks *ranks);
/* How many share out each layer: those of "tensor"; 1 where none do. Rows of a prompt are then computed in smaller
 * parts unless a session says how many, because parts of rows that fit caches are gathered faster. */
uint32_t kvc_ranks_tensor(const struct kvc_ranks *ranks);
/* On ranks other than 0: does what rank 0 asks until that closes. Not of "data". */
void kvc_ranks_follow(struct kvc_ranks *ranks);
/* Of "data", where all ranks call it: *all = what each gives, one after another in order of ranks, malloc'ed; sizes
 * [count]: bytes of each. Returns when all have come here. */
void kvc_ranks_gather(struct kvc_ranks *ranks, const void *mine, size_t bytes, void **all, size_t *sizes);
/* Of "data", where all ranks call them, too. Whether all have these bytes; if not, rank: the first that has others. */
bool kvc_ranks_same_bytes(struct kvc_ranks *ranks, const void *bytes, size_t count, uint32_t *rank);
/* Each rank has opened the model: where a tensor, metadata or a small file of a folder is another than rank 0's, the
 * processes of all ranks end with a line that names it, and status 4. With other ways kvc_model_open does the same for
 * what a rank takes of the files. */
void kvc_ranks_same_model(struct kvc_ranks *ranks, struct kvc_model *model);
/* What this rank has sent, each receiver counted apart, and how long it has waited for others. */
struct kvc_ranks_traffic {
    uint64_t messages, bytes;
    double waited_seconds;
};
void kvc_ranks_traffic(const struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/* The sum over all ranks, asked for on rank 0. What this itself sends, or waits, is not counted. */
void kvc_ranks_all_traffic(struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/* How many ranks `how` is for, which must say it: "tensor=4,pipeline=2". */
enum kvc_status kvc_ranks_planned(const char *how, uint32_t *count, struct kvc_error *error);
/* What one of them would hold of a model; nothing is computed and no other process is needed. how: as in
 * kvc_ranks_planned; share: as in kvc_ranks_open. */
struct kvc_ranks_part {
    uint32_t heads, kv_heads, first_kv_head;
    bool heads_sharded;           /* otherwise each rank has all heads */
    uint32_t first_layer, layers; /* with attention, as sessions count them */
    uint64_t weight_bytes, recurrent_bytes;
};
enum kvc_status kvc_ranks_part(const char *path, const char *how, const char *share, uint32_t rank,
                               struct kvc_ranks_part *part, struct kvc_error *error);
/* After everything opened with it; NULL is fine. Ends MPI. */
void kvc_ranks_close(struct kvc_ranks *ranks);

#ifdef __cplusplus
}
#endif
#endif
