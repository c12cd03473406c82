/* watch.h - tells whether the other ranks still answer. Rank 0 and each other rank send each other a byte four times a
 * second, from a thread of their own, so that a rank that computes for an hour is not taken for one that has stopped.
 *
 * MPI_THREAD_SERIALIZED allows one thread at a time to call MPI: each call is made between hold and release. A thread
 * that polls sends and receives those bytes in `release`; while it computes, the watch's thread does. */
#ifndef KVC_RANKS_WATCH_H
#define KVC_RANKS_WATCH_H

#include <mpi.h>
#include <stdbool.h>

#include "core/ranks/link.h"

struct kvc_watch;

/* Begins to watch. All ranks of the communicator call it; it keeps a copy of that. NULL: no memory or no thread. */
struct kvc_watch *kvc_watch_open(struct kvc_link *link, MPI_Comm comm);
/* For how long a rank may be silent; 0: without end. */
void kvc_watch_limit(struct kvc_watch *watch, double seconds);
/* Seconds since the rank that has been silent the longest was heard, and which that is. Any thread may ask. */
double kvc_watch_silence(const struct kvc_watch *watch, uint32_t *rank);
/* Ends what is watched: returns when the others have come to their end, too. */
void kvc_watch_leave(struct kvc_watch *watch);
/* By the thread that holds, after it has ended MPI: until then it is seen whether that returns. */
void kvc_watch_close(struct kvc_watch *watch);

/* Around each call of MPI. watch NULL: nothing is watched. */
void kvc_watch_hold(struct kvc_watch *watch);
void kvc_watch_release(struct kvc_watch *watch);
/* The same for a thread that is about to end the program: false where another one does that already. Waits a second at
 * most for the thread that holds. */
bool kvc_watch_seize(struct kvc_watch *watch);

#endif
