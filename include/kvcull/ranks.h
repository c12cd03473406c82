/** @file kvcull/ranks.h
 * Several processes (ranks) as one engine, started by mpirun or srun. Installed as kvcull/ranks.h;
 * docs/explanation/parallel-runs.md explains how they divide a model.
 *
 * Rank 0 runs the program and calls the library as usual. The other ranks call kvc_ranks_follow, which executes their
 * part of rank 0's calls and returns when rank 0 calls kvc_ranks_close. Results are bit-identical for any number of
 * ranks.
 */
#ifndef KVCULL_RANKS_H
#define KVCULL_RANKS_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Returns true if the environment says that mpirun or srun started this process as one of several. */
bool kvc_ranks_started(void);
/** Starts MPI. All ranks call it with the same arguments. Ranks are numbered machine by machine, beginning with the
 * machine of rank 0.
 *
 * `how` says how the ranks divide the work:
 * - "tensor" (NULL: the same): each rank has some heads and some outputs of every matrix;
 * - "pipeline": each rank has consecutive layers;
 * - "tensor=N,pipeline=M": M groups of consecutive layers, each sharded among N ranks, on one machine if possible;
 * - "data": each rank is an independent program with engines of its own.
 *
 * `share` gives the relative amount of work of each rank, such as "2,1,1" (1 to 1000 each); NULL: equal amounts.
 *
 * Fails with KVC_USAGE if `how` is wrong or differs between ranks, with KVC_INPUT if the ranks run different builds,
 * and with KVC_RESOURCE if this build has no MPI. If all ranks find the same error, only rank 0 has its text. If MPI
 * fails or a rank ends early, all processes end with one line and exit status 4. */
enum kvc_status kvc_ranks_open(const char *how, const char *share, struct kvc_ranks **ranks, struct kvc_error *error);
/** The timeout in seconds, unless kvc_ranks_timeout sets another one. */
#define KVC_RANKS_TIMEOUT 60
/** Sets how long another rank may be silent. After that time all processes end with one line that names the rank, and
 * exit status 4. 0: wait forever. A rank that computes is not silent; a stopped process (SIGSTOP) or an unreachable
 * machine is. There is no timeout if the program has started MPI itself with less than MPI_THREAD_MULTIPLE. */
void kvc_ranks_timeout(struct kvc_ranks *ranks, double seconds);
/** Returns the longest current silence of a rank in seconds, usually less than one, and that rank's number. Rank 0
 * observes all ranks; the others observe rank 0. Any thread may call it. */
double kvc_ranks_silence(const struct kvc_ranks *ranks, uint32_t *rank);
/** Returns the number of this process, from 0. */
uint32_t kvc_ranks_rank(const struct kvc_ranks *ranks);
/** Returns the number of ranks. */
uint32_t kvc_ranks_count(const struct kvc_ranks *ranks);
/** Returns the number of ranks among which each layer is sharded: N of "tensor=N"; 1 if layers are not sharded. With
 * more than 1, prompts are computed in smaller chunks by default, because the ranks gather rows faster while the rows
 * fit in caches. */
uint32_t kvc_ranks_tensor(const struct kvc_ranks *ranks);
/** Executes this rank's part of rank 0's calls until rank 0 calls kvc_ranks_close. For ranks other than 0; not for
 * "data". */
void kvc_ranks_follow(struct kvc_ranks *ranks);
/** Gathers `bytes` bytes from every rank; for "data". All ranks call it, and it returns when all have. `*all` receives
 * the data of all ranks in order, and the caller frees it; `sizes` [count] receives the bytes of each rank. */
void kvc_ranks_gather(struct kvc_ranks *ranks, const void *mine, size_t bytes, void **all, size_t *sizes);
/** Returns true if all ranks pass the same bytes; otherwise `*rank` is the first rank whose bytes differ. For "data";
 * all ranks call it. */
bool kvc_ranks_same_bytes(struct kvc_ranks *ranks, const void *bytes, size_t count, uint32_t *rank);
/** Compares the model of every rank with rank 0's; for "data", after each rank has opened it. If a tensor, metadata or
 * a small file of a folder differs, all processes end with one line that names it, and exit status 4. With other values
 * of `how`, kvc_model_open makes this comparison for the parts of the files that a rank uses. */
void kvc_ranks_same_model(struct kvc_ranks *ranks, struct kvc_model *model);
/** Messages of a rank. */
struct kvc_ranks_traffic {
    uint64_t messages;     /**< messages sent, counted once per receiver */
    uint64_t bytes;        /**< bytes sent, counted once per receiver */
    double waited_seconds; /**< time spent waiting for other ranks */
};
/** Reports the messages of this rank. */
void kvc_ranks_traffic(const struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/** Reports the sum over all ranks; for rank 0. The messages and waiting of this call are not counted. */
void kvc_ranks_all_traffic(struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic);
/** Returns how many ranks a complete `how` such as "tensor=4,pipeline=2" needs. Fails with KVC_USAGE if `how` is
 * wrong. */
enum kvc_status kvc_ranks_planned(const char *how, uint32_t *count, struct kvc_error *error);
/** The part of a model that one rank would hold. */
struct kvc_ranks_part {
    uint32_t heads;           /**< query heads */
    uint32_t kv_heads;        /**< key-value heads */
    uint32_t first_kv_head;   /**< index of the rank's first key-value head in the model */
    bool heads_sharded;       /**< false: each rank has all heads */
    uint32_t first_layer;     /**< index of the rank's first layer among the layers with attention */
    uint32_t layers;          /**< number of the rank's layers with attention */
    uint64_t weight_bytes;    /**< size of the rank's weights */
    uint64_t resident_bytes;  /**< memory that the weights take with KVC_MATH_INT16, which converts matrices */
    uint64_t recurrent_bytes; /**< recurrent state of one session */
};
/** Computes the part of one rank from the model file, without other processes. `how` is as in kvc_ranks_planned,
 * `share` as in kvc_ranks_open. */
enum kvc_status kvc_ranks_part(const char *path, const char *how, const char *share, uint32_t rank,
                               struct kvc_ranks_part *part, struct kvc_error *error);
/** Ends MPI. Everything opened with the ranks must be closed before. NULL is allowed. */
void kvc_ranks_close(struct kvc_ranks *ranks);

#ifdef __cplusplus
}
#endif
#endif
