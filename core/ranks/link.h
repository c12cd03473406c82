/* link.h - the communication layer: what the processes that share a model say to each other. MPI (ranks/mpi.c) and a
 * single process (ranks/single.c) are implementations; nothing else knows which.
 *
 * None of these can fail: where a message does not come through, every process ends (`end`). All ranks call `gather`,
 * `broadcast` and `await` in the same order. Bytes are counted as they leave a rank.
 *
 * From one rank to another messages of a channel arrive in the order in which they were sent. `send` keeps a copy and
 * returns at once, unless so much is on its way already (SEND_MOST in mpi.c) that it has to wait for the receiver: a
 * rank that others wait for before they receive must not have sent that much. */
#ifndef KVC_CORE_RANKS_LINK_H
#define KVC_CORE_RANKS_LINK_H

#include <stddef.h>
#include <stdint.h>

struct kvc_device;
struct kvc_direct;
struct kvc_link;

/* What may overtake what: messages that are received late, after others that were sent later, have a channel. */
enum kvc_channel { KVC_CHANNEL_CALL, KVC_CHANNEL_LATE };

struct kvc_link_class {
    const char *name;
    /* all [sum of sizes] on every rank = what each gives; sizes, offsets [count] in bytes, those of rank r's part. */
    void (*gather)(struct kvc_link *link, const void *mine, void *all, const size_t *sizes, const size_t *offsets);
    /* The same of rows: rank r's part is [rows, widths[r]] floats, and its rows are parts of those of out [rows, sum of
     * widths], which mine does not overlap. NULL: there is no better way than gather, whose parts are put in order. */
    void (*gather_rows)(struct kvc_link *link, const float *mine, uint32_t rows, const size_t *widths, float *out);
    /* data of rank `from` to all. */
    void (*broadcast)(struct kvc_link *link, void *data, size_t bytes, uint32_t from);
    /* The same from rank 0, where the others may wait for hours: they sleep meanwhile. */
    void (*await)(struct kvc_link *link, void *data, size_t bytes);
    void (*send)(struct kvc_link *link, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel);
    /* What was sent goes on: called now and then by a rank that computes for long. */
    void (*advance)(struct kvc_link *link);
    void (*receive)(struct kvc_link *link, void *data, size_t bytes, uint32_t from, enum kvc_channel channel);
    /* The link of ranks first, first + step, ... alone, `count` of them in this order, this one among them. All
     * ranks call it at once, with the same step and count. NULL: no memory. Closed before the link that it is of. */
    struct kvc_link *(*part)(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count);
    /* Prints "kvcull: rank N: TEXT" and ends the processes of all ranks, with exit status 4. Does not return. */
    void (*end)(struct kvc_link *link, const char *text);
    void (*close)(struct kvc_link *link);
    /* How long another rank may be silent, in seconds, before all end; 0: without end. NULL: nobody watches. */
    void (*limit)(struct kvc_link *link, double seconds);
    /* Seconds since the rank that has been silent the longest was heard. Any thread may ask. NULL: nobody watches. */
    double (*silence)(const struct kvc_link *link, uint32_t *rank);
    /* All ranks, each with a device: adds a way between these to `direct`, where all of them have one; NULL: there is
     * none. The device stays until that way is closed. */
    void (*attach)(struct kvc_link *link, struct kvc_device *device);
};

struct kvc_link {
    const struct kvc_link_class *class;
    uint32_t rank, count;
    uint32_t near;             /* how many of the ranks before this one are on its machine */
    uint32_t machine;          /* a number that the ranks of its machine have in common, of the link of all */
    uint64_t messages, bytes;  /* that this rank has sent, to each of the others counted apart */
    uint64_t waited;           /* nanoseconds in which it has waited for others */
    struct kvc_direct *direct; /* between memories of devices: a list (core/ranks/direct.h) */
};

#endif
