/* watch.h - detects ranks that no longer answer. Rank 0 and every other rank send each other one byte four times a
 * second. A separate thread exchanges these bytes, so that a rank that computes for an hour does not count as stopped.
 *
 * MPI_THREAD_SERIALIZED allows one thread at a time to call MPI, so each MPI call is made between kvc_watch_hold and
 * kvc_watch_release. While a thread polls, kvc_watch_release exchanges the bytes. While that thread computes, the
 * watch's own thread exchanges them. */
#ifndef KVC_RANKS_WATCH_H
#define KVC_RANKS_WATCH_H

#include <mpi.h>
#include <stdbool.h>

#include "core/ranks/link.h"

struct kvc_watch;

/* Starts the watch. All ranks of the communicator call it; the watch duplicates the communicator. Returns NULL if out
 * of memory or if the thread cannot start. */
struct kvc_watch *kvc_watch_open(struct kvc_link *link, MPI_Comm comm);
/* Sets how long a rank may be silent; 0 means no limit. */
void kvc_watch_limit(struct kvc_watch *watch, double seconds);
/* Returns the longest current silence in seconds and sets *rank to the silent rank. Any thread may call it. */
double kvc_watch_silence(const struct kvc_watch *watch, uint32_t *rank);
/* Ends the watch, and waits until the other ranks have ended their watches. */
void kvc_watch_leave(struct kvc_watch *watch);
/* Frees the watch. The thread that holds the lock calls this function after MPI_Finalize, so that the watch notices an
 * MPI_Finalize that hangs. */
void kvc_watch_close(struct kvc_watch *watch);

/* Call kvc_watch_hold before each MPI call and kvc_watch_release after it. watch may be NULL. */
void kvc_watch_hold(struct kvc_watch *watch);
void kvc_watch_release(struct kvc_watch *watch);
/* Takes the lock in a thread that is about to end the program. Returns false if another thread is already ending the
 * program. Waits at most one second for the lock, and then goes on without it. */
bool kvc_watch_seize(struct kvc_watch *watch);

#endif
