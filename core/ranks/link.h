/* link.h - the communication layer between the processes that share a model. It is implemented with MPI (ranks/mpi.c)
 * and for a single process (ranks/single.c); the rest of the program does not know which of the two is in use.
 * core/ranks is the part of parallel runs inside the engine, without MPI; ranks/ opens the processes and implements
 * this layer.
 *
 * These functions cannot fail: if a message is lost, every process ends (`end`). All ranks must call `gather`,
 * `broadcast` and `await` in the same order. Bytes are counted by their sender.
 *
 * Messages of one channel from one rank to another arrive in the order in which they were sent. `send` copies the data
 * and returns at once, unless too much is in flight already (SEND_MOST in mpi.c). In that case it waits for the
 * receiver. To avoid deadlock, a rank must not send that much to a rank that waits for it. */
#ifndef KVC_CORE_RANKS_LINK_H
#define KVC_CORE_RANKS_LINK_H

#include <stddef.h>
#include <stdint.h>

struct kvc_direct;
struct kvc_direct_way;
struct kvc_link;

/* Messages of different channels may overtake each other. If a message is received later than messages that were sent
 * after it, it needs its own channel. */
enum kvc_channel { KVC_CHANNEL_CALL, KVC_CHANNEL_LATE };

struct kvc_link_class {
    const char *name;
    /* Gathers the parts `mine` of all ranks into `all` [sum of sizes] on every rank. `sizes` and `offsets` [count] are
     * in bytes. */
    void (*gather)(struct kvc_link *link, const void *mine, void *all, const size_t *sizes, const size_t *offsets);
    /* Gathers rows: rank r's part is [rows, widths[r]] floats, a range of columns of `out` [rows, sum of widths].
     * `mine` must not overlap `out`. If the pointer is NULL, the caller uses `gather` and puts the parts in order. */
    void (*gather_rows)(struct kvc_link *link, const float *mine, uint32_t rows, const size_t *widths, float *out);
    /* Broadcasts the data of rank `from` to all ranks. */
    void (*broadcast)(struct kvc_link *link, void *data, size_t bytes, uint32_t from);
    /* Like `broadcast` from rank 0, but the other ranks may wait for hours, so they sleep meanwhile. */
    void (*await)(struct kvc_link *link, void *data, size_t bytes);
    void (*send)(struct kvc_link *link, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel);
    /* Lets pending sends make progress. A rank calls it now and then during long computations. */
    void (*advance)(struct kvc_link *link);
    void (*receive)(struct kvc_link *link, void *data, size_t bytes, uint32_t from, enum kvc_channel channel);
    /* Returns a link of `count` ranks: first, first + step, ..., which include this one. All ranks call it at the same
     * time with the same step and count. Returns NULL if out of memory. The new link must be closed before `link`. */
    struct kvc_link *(*part)(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count);
    /* Prints "kvcull: rank N: TEXT" and ends the processes of all ranks, with exit status 4. Does not return. */
    void (*end)(struct kvc_link *link, const char *text);
    void (*close)(struct kvc_link *link);
    /* Sets how long another rank may be silent, in seconds, before all ranks end; 0: unlimited. The pointer is NULL if
     * the link does not support this. */
    void (*limit)(struct kvc_link *link, double seconds);
    /* Returns the seconds since the last message of the rank that has been silent longest. Any thread may call it. The
     * pointer is NULL if the link does not support this. */
    double (*silence)(const struct kvc_link *link, uint32_t *rank);
    /* The link's own transport between devices (ranks/direct.h), or NULL. */
    const struct kvc_direct_way *way;
};

struct kvc_link {
    const struct kvc_link_class *class;
    uint32_t rank, count;
    uint32_t near;             /* number of lower ranks on the same machine */
    uint32_t machine;          /* number of this rank's machine; all ranks on the same machine have the same number */
    uint64_t messages, bytes;  /* sent by this rank, counted once for each receiver */
    uint64_t waited;           /* nanoseconds spent waiting for other ranks */
    struct kvc_direct *direct; /* list of connections between device memories (core/ranks/direct.h) */
};

#endif
