/* watch.c - detects ranks that no longer answer. Silence is measured only while this process itself runs: if all
 * processes were suspended together, none of them mistakes the others for dead afterwards. */
#include "ranks/watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kvcull/ranks.h"

enum {
    PERIOD = 250, /* ms between two bytes to the same rank */
    GRACE = 1000, /* ms of extra patience for each further rank, so that only one rank prints the error */
    LIMIT = KVC_RANKS_TIMEOUT * 1000
};
enum { TAG = 7 };
enum { HERE = 1, LEAVES };

/* A watched rank. */
struct peer {
    int rank;
    unsigned char incoming, outgoing; /* the byte being received; the byte being sent */
    MPI_Request receive, send;
    bool sent_leave;
    atomic_bool left;
    _Atomic(uint32_t) silent; /* ms since the last byte from this rank */
};

struct kvc_watch {
    struct kvc_link *link;
    MPI_Comm comm;
    pthread_t thread;
    pthread_mutex_t mpi; /* held by the thread that may call MPI */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    bool over;              /* guarded by `sleep` */
    bool leaving;           /* guarded by `mpi` */
    atomic_bool due;        /* it is time to send bytes and to check for received bytes */
    atomic_flag ending;     /* a thread is ending the program */
    _Atomic(uint32_t) most; /* limit in ms; 0: no limit */
    size_t count;
    struct peer peers[];
};

/* ---- sending and receiving; the caller holds `mpi` ---- */

static void post_receive(struct kvc_watch *watch, struct peer *peer) {
    MPI_Irecv(&peer->incoming, 1, MPI_BYTE, peer->rank, TAG, watch->comm, &peer->receive);
}

static void take_bytes(struct kvc_watch *watch, struct peer *peer) {
    int arrived = 1;
    while (!atomic_load(&peer->left) && arrived) {
        MPI_Test(&peer->receive, &arrived, MPI_STATUS_IGNORE);
        if (!arrived)
            return;
        atomic_store(&peer->silent, 0);
        if (peer->incoming == LEAVES)
            atomic_store(&peer->left, true);
        else
            post_receive(watch, peer);
    }
}

/* Sends the next byte unless the previous one is still being sent. */
static void send_byte(struct kvc_watch *watch, struct peer *peer) {
    int gone = 0;
    MPI_Test(&peer->send, &gone, MPI_STATUS_IGNORE); /* MPI_REQUEST_NULL counts as sent */
    if (!gone || peer->sent_leave)
        return;
    peer->sent_leave = watch->leaving;
    peer->outgoing = watch->leaving ? LEAVES : HERE;
    MPI_Isend(&peer->outgoing, 1, MPI_BYTE, peer->rank, TAG, watch->comm, &peer->send);
}

static void exchange(struct kvc_watch *watch) {
    for (size_t i = 0; i < watch->count; i++) {
        take_bytes(watch, &watch->peers[i]);
        send_byte(watch, &watch->peers[i]);
    }
    atomic_store(&watch->due, false);
}

void kvc_watch_hold(struct kvc_watch *watch) {
    if (watch)
        pthread_mutex_lock(&watch->mpi);
}

void kvc_watch_release(struct kvc_watch *watch) {
    if (!watch)
        return;
    if (atomic_load_explicit(&watch->due, memory_order_relaxed))
        exchange(watch);
    pthread_mutex_unlock(&watch->mpi);
}

static void nap(long ms) {
    const struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

bool kvc_watch_seize(struct kvc_watch *watch) {
    if (!watch)
        return true;
    if (atomic_flag_test_and_set(&watch->ending))
        return false;
    for (int i = 0; i < 100 && pthread_mutex_trylock(&watch->mpi) != 0; i++)
        nap(10);
    return true;
}

/* ---- the watch's thread ---- */

double kvc_watch_silence(const struct kvc_watch *watch, uint32_t *rank) {
    uint32_t most = 0;
    *rank = 0;
    for (size_t i = 0; watch && i < watch->count; i++) {
        const uint32_t silent = atomic_load(&watch->peers[i].silent);
        if (silent > most && !atomic_load(&watch->peers[i].left)) {
            most = silent;
            *rank = (uint32_t)watch->peers[i].rank;
        }
    }
    return most / 1e3;
}

/* Ends the program if a rank has been silent for too long or an MPI call does not return. */
static void judge(struct kvc_watch *watch, uint32_t stuck) {
    const uint32_t most = atomic_load(&watch->most), own = watch->link->rank;
    const double limit = (most + (double)GRACE * (own ? own - 1 : 0)) / 1e3;
    uint32_t rank;
    char text[200];
    if (!most)
        return;
    if (stuck / 1e3 >= limit + GRACE / 1e3)
        snprintf(text, sizeof text, "MPI has not returned for %g s: another rank is stopped or cannot be reached",
                 most / 1e3);
    else if (!stuck && kvc_watch_silence(watch, &rank) >= limit)
        snprintf(text, sizeof text, "rank %u has not answered for %g s: it is stopped or cannot be reached", rank,
                 most / 1e3);
    else
        return;
    watch->link->class->end(watch->link, text);
}

/* Returns the milliseconds since *last and sets *last to now. */
static uint32_t passed(struct timespec *last) {
    const struct timespec from = *last;
    clock_gettime(CLOCK_MONOTONIC, last);
    const int64_t ms = (int64_t)(last->tv_sec - from.tv_sec) * 1000 + (last->tv_nsec - from.tv_nsec) / 1000000;
    return ms < 2 * PERIOD ? (uint32_t)ms : 2 * PERIOD; /* a longer gap means that this process was suspended */
}

/* Sleeps for one period. Returns false when the watch is over. */
static bool sleep_on(struct kvc_watch *watch) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PERIOD * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&watch->sleep);
    if (!watch->over)
        pthread_cond_timedwait(&watch->wake, &watch->sleep, &until);
    const bool over = watch->over;
    pthread_mutex_unlock(&watch->sleep);
    return !over;
}

static void *watch_run(void *of) {
    struct kvc_watch *watch = of;
    struct timespec last;
    uint32_t stuck = 0; /* ms during which no thread could exchange bytes */
    clock_gettime(CLOCK_MONOTONIC, &last);
    while (sleep_on(watch)) {
        const uint32_t ms = passed(&last);
        stuck = atomic_load(&watch->due) ? stuck + ms : 0;
        for (size_t i = 0; i < watch->count; i++)
            atomic_fetch_add(&watch->peers[i].silent, ms);
        atomic_store(&watch->due, true);
        if (pthread_mutex_trylock(&watch->mpi) == 0)
            kvc_watch_release(watch); /* this call exchanges the bytes */
        judge(watch, stuck);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static bool watch_begin(struct kvc_watch *watch) {
    sigset_t all, before;
    sigfillset(&all); /* the program's own threads handle signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool begun = pthread_create(&watch->thread, NULL, watch_run, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return begun;
}

struct kvc_watch *kvc_watch_open(struct kvc_link *link, MPI_Comm comm) {
    const size_t count =
        link->rank == 0 ? link->count - 1 : 1; /* rank 0 watches all other ranks; the others watch rank 0 */
    struct kvc_watch *watch = calloc(1, sizeof *watch + count * sizeof *watch->peers);
    if (!watch)
        return NULL;
    watch->link = link;
    watch->count = count;
    watch->most = LIMIT;
    atomic_flag_clear(&watch->ending);
    pthread_mutex_init(&watch->mpi, NULL);
    pthread_mutex_init(&watch->sleep, NULL);
    pthread_cond_init(&watch->wake, NULL);
    MPI_Comm_dup(comm, &watch->comm);
    for (size_t i = 0; i < count; i++) {
        watch->peers[i].rank = link->rank == 0 ? (int)i + 1 : 0;
        watch->peers[i].send = MPI_REQUEST_NULL;
        post_receive(watch, &watch->peers[i]);
    }
    if (watch_begin(watch))
        return watch;
    free(watch);
    return NULL;
}

void kvc_watch_limit(struct kvc_watch *watch, double seconds) {
    atomic_store(&watch->most, !(seconds > 0) ? 0 : seconds < 4e6 ? (uint32_t)(seconds * 1e3) : 4000000000u);
}

void kvc_watch_leave(struct kvc_watch *watch) {
    bool all = false;
    while (!all) {
        kvc_watch_hold(watch);
        watch->leaving = all = true;
        exchange(watch);
        for (size_t i = 0; i < watch->count; i++) {
            int gone = 0;
            MPI_Test(&watch->peers[i].send, &gone, MPI_STATUS_IGNORE);
            all = all && gone && watch->peers[i].sent_leave && atomic_load(&watch->peers[i].left);
        }
        if (all)
            MPI_Comm_free(&watch->comm);
        kvc_watch_release(watch);
        if (!all)
            nap(1);
    }
}

void kvc_watch_close(struct kvc_watch *watch) {
    pthread_mutex_lock(&watch->sleep);
    watch->over = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->sleep);
    pthread_join(watch->thread, NULL);
    pthread_mutex_unlock(&watch->mpi);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->sleep);
    pthread_mutex_destroy(&watch->mpi);
    free(watch);
}
