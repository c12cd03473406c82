/* mpi.c - the communication layer over MPI 3.0 or newer, in a plug-in of its own. An MPI error ends the program with
 * MPI's own message.
 *
 * Tests set KVCULL_RANKS on rank 0. With "synchronous" a send completes only when its receiver has started to receive,
 * so code that depends on buffering hangs. With "machines" every second rank counts as being on a second machine. */
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks/direct.h"
#include "core/base/assert.h"
#include "ranks/mpi_comm.h"
#include "ranks/mpi_plugin.h"
#include "ranks/watch.h"

enum {
    PIECE = 1 << 30,      /* largest message in bytes: MPI counts with int */
    SEND_MOST = 64 << 20, /* bytes of unfinished sends; a larger message blocks until it has been sent */
    PATIENCE = 20000,     /* polls of a message before its receiver starts to sleep between polls */
    BLINK = 1000,         /* nanoseconds between polls */
    NAP = 100000,
    ABORT = 10 /* seconds that MPI_Abort may take */
};

/* A send that has not finished. */
struct message {
    MPI_Request request;
    struct message *next;
    size_t bytes;
    char data[];
};

struct mpi_link {
    struct kvc_link link;
    MPI_Comm comm;
    struct mpi_link *whole;  /* the link of all ranks; a link of all ranks points to itself */
    struct kvc_watch *watch; /* watches all ranks; NULL if there is one rank, or if the program calls MPI itself */
    bool synchronous, owned; /* `owned`: this file started MPI */
    bool crowded;            /* more ranks than cores on this machine: busy polling would starve the others */
    int *sizes, *offsets;    /* [count] */
    MPI_Request *requests;   /* [2 * count] */
    MPI_Datatype *row_types; /* [count]: a rank's columns in the gathered rows */
    struct message *first;   /* unfinished sends, oldest first */
    size_t sending;          /* total bytes of the unfinished sends */
};

/* Only one thread at a time may call MPI. */
static void mpi_hold(const struct mpi_link *mpi) { kvc_watch_hold(mpi->watch); }
static void mpi_release(const struct mpi_link *mpi) { kvc_watch_release(mpi->watch); }

static void leave(int signal) {
    (void)signal;
    _exit(KVC_RESOURCE);
}

/* Ends this process after ABORT seconds, even if standard output or MPI hangs. */
static void set_alarm(void) {
    const struct sigaction action = {.sa_handler = leave};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alarm(ABORT);
}

static void mpi_end(struct kvc_link *link, const char *text) {
    const struct mpi_link *mpi = ((struct mpi_link *)link)->whole;
    char line[600];
    const int bytes = snprintf(line, sizeof line, "kvcull: rank %u: %s\n", mpi->link.rank, text);
    while (!kvc_watch_seize(mpi->watch))
        pause();
    set_alarm();
    if (bytes > 0 && write(STDERR_FILENO, line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1) < 0)
        _exit(KVC_RESOURCE);
    fflush(stdout);
    MPI_Abort(mpi->comm, KVC_RESOURCE);
    _exit(KVC_RESOURCE);
}

static void mpi_count(struct kvc_link *link, size_t bytes, uint32_t receivers) {
    link->messages += receivers;
    link->bytes += bytes * receivers;
}

static bool is_complete(struct mpi_link *mpi, MPI_Request *request) {
    int complete = 0;
    mpi_hold(mpi);
    MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    mpi_release(mpi);
    return complete;
}

/* Waits for a request. Polls `patience` times without a pause, then sleeps `sleep` nanoseconds between polls. */
static void wait_for(struct mpi_link *mpi, MPI_Request *request, unsigned patience, long sleep) {
    const struct timespec nap = {0, sleep};
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned looks = 0; !is_complete(mpi, request); looks++)
        if (looks >= patience)
            nanosleep(&nap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    mpi->link.waited += (uint64_t)((int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec);
}

static unsigned patience_of(const struct mpi_link *mpi) { return mpi->crowded ? 0 : PATIENCE; }

static void begin_send(struct mpi_link *mpi, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel,
                       MPI_Request *request) {
    KVC_ASSERT(bytes <= PIECE && to < mpi->link.count && to != mpi->link.rank);
    mpi_hold(mpi);
    (mpi->synchronous ? MPI_Issend : MPI_Isend)(data, (int)bytes, MPI_BYTE, (int)to, (int)channel, mpi->comm, request);
    mpi_release(mpi);
}

/* Sends data and waits until it has been sent or, with synchronous sends, until the receiver has started to receive it.
 */
static void send_whole(struct kvc_link *link, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    mpi_count(link, bytes, 1);
    for (size_t at = 0, some; at < bytes; at += some) {
        MPI_Request request;
        some = bytes - at < PIECE ? bytes - at : PIECE;
        begin_send(mpi, (const char *)data + at, some, to, channel, &request);
        wait_for(mpi, &request, patience_of(mpi), BLINK);
    }
}

static void advance(struct kvc_link *link) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    for (struct message **at = &mpi->first; *at;) {
        struct message *message = *at;
        if (!is_complete(mpi, &message->request)) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        KVC_ASSERT(mpi->sending >= message->bytes);
        mpi->sending -= message->bytes;
        free(message);
    }
}

/* Waits until the unfinished sends have at most `most` bytes. */
static void wait_for_sent(struct mpi_link *mpi, size_t most) {
    for (advance(&mpi->link); mpi->first && mpi->sending > most; advance(&mpi->link))
        wait_for(mpi, &mpi->first->request, patience_of(mpi), BLINK);
}

static void mpi_send(struct kvc_link *link, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    struct message **last = &mpi->first, *message;
    if (bytes == 0 || bytes > SEND_MOST) {
        send_whole(link, data, bytes, to, channel);
        return;
    }
    wait_for_sent(mpi, SEND_MOST - bytes);
    message = malloc(sizeof *message + bytes);
    if (!message)
        mpi_end(link, "no memory for a message");
    memcpy(message->data, data, bytes);
    message->bytes = bytes;
    message->next = NULL;
    while (*last)
        last = &(*last)->next;
    *last = message;
    mpi->sending += bytes;
    KVC_ASSERT(mpi->sending <= SEND_MOST);
    mpi_count(link, bytes, 1);
    begin_send(mpi, message->data, bytes, to, channel, &message->request);
}

static void mpi_receive(struct kvc_link *link, void *data, size_t bytes, uint32_t from, enum kvc_channel channel) {
    KVC_ASSERT(from < link->count && from != link->rank);
    struct mpi_link *mpi = (struct mpi_link *)link;
    for (size_t at = 0, some; at < bytes; at += some) {
        MPI_Request request;
        some = bytes - at < PIECE ? bytes - at : PIECE;
        mpi_hold(mpi);
        MPI_Irecv((char *)data + at, (int)some, MPI_BYTE, (int)from, (int)channel, mpi->comm, &request);
        mpi_release(mpi);
        wait_for(mpi, &request, patience_of(mpi), BLINK);
    }
}

/* Gathers with synchronous sends: the ranks take turns, and each rank sends its part to all others. */
static void gather_synchronously(struct kvc_link *link, const void *mine, void *all, const size_t *sizes,
                                 const size_t *offsets) {
    for (uint32_t from = 0; from < link->count; from++) {
        char *part = (char *)all + offsets[from];
        for (uint32_t to = 0; from == link->rank && to < link->count; to++)
            if (to != from)
                send_whole(link, mine, sizes[from], to, KVC_CHANNEL_CALL);
        if (from == link->rank && sizes[from])
            memcpy(part, mine, sizes[from]);
        else if (from != link->rank)
            mpi_receive(link, part, sizes[from], from, KVC_CHANNEL_CALL);
    }
}

static void mpi_gather(struct kvc_link *link, const void *mine, void *all, const size_t *sizes, const size_t *offsets) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    if (mpi->synchronous) {
        gather_synchronously(link, mine, all, sizes, offsets);
        return;
    }
    for (uint32_t r = 0; r < link->count; r++) {
        if (sizes[r] > INT_MAX || offsets[r] > INT_MAX)
            mpi_end(link, "more than 2 GiB in one gather; choose a smaller --chunk");
        mpi->sizes[r] = (int)sizes[r];
        mpi->offsets[r] = (int)offsets[r];
    }
    mpi_count(link, sizes[link->rank], link->count - 1);
    MPI_Request request;
    mpi_hold(mpi);
    MPI_Iallgatherv(mine, mpi->sizes[link->rank], MPI_BYTE, all, mpi->sizes, mpi->offsets, MPI_BYTE, mpi->comm,
                    &request);
    mpi_release(mpi);
    /* MPI_Allgatherv would poll without a pause. On a busy machine, this polling would starve the rank that has not
     * sent yet. */
    wait_for(mpi, &request, patience_of(mpi), BLINK);
}

enum { TAG_ROWS = KVC_CHANNEL_LATE + 1 };

/* Every rank sends its part to all others. A strided MPI type puts each received part in its final place, so no buffer
 * is needed. */
static void gather_rows(struct kvc_link *link, const float *mine, uint32_t rows, const size_t *widths, float *out) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    const size_t own = widths[link->rank];
    KVC_ASSERT(link->rank < link->count);
    size_t width = 0, place = 0, at = 0;
    int begun = 0;
    for (uint32_t r = 0; r < link->count; r++)
        width += widths[r];
    if (rows > INT_MAX / sizeof *out / (width + 1))
        mpi_end(link, "more than 2 GiB in one gather; choose a smaller --chunk");
    mpi_hold(mpi);
    for (uint32_t r = 0; r < link->count; at += widths[r++]) {
        if (r == link->rank)
            place = at;
        if (r == link->rank || widths[r] == 0)
            continue;
        MPI_Type_vector((int)rows, (int)widths[r], (int)width, MPI_FLOAT, &mpi->row_types[r]);
        MPI_Type_commit(&mpi->row_types[r]);
        MPI_Irecv(out + at, 1, mpi->row_types[r], (int)r, TAG_ROWS, mpi->comm, &mpi->requests[begun++]);
    }
    mpi_count(link, own * rows * sizeof *mine, link->count - 1);
    for (uint32_t i = 1; i < link->count && own;
         i++) /* starts with the next rank, so that not all ranks send to the same rank first */
        (mpi->synchronous ? MPI_Issend : MPI_Isend)(mine, (int)(rows * own), MPI_FLOAT,
                                                    (int)((link->rank + i) % link->count), TAG_ROWS, mpi->comm,
                                                    &mpi->requests[begun++]);
    mpi_release(mpi);
    for (size_t row = 0; row < rows && own; row++)
        memcpy(out + row * width + place, mine + row * own, own * sizeof *out);
    for (int i = 0; i < begun; i++)
        wait_for(mpi, &mpi->requests[i], patience_of(mpi), BLINK);
    KVC_ASSERT((uint32_t)begun <= 2 * link->count && at == width);
    mpi_hold(mpi);
    for (uint32_t r = 0; r < link->count; r++)
        if (r != link->rank && widths[r])
            MPI_Type_free(&mpi->row_types[r]);
    mpi_release(mpi);
}

static void mpi_broadcast(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    KVC_ASSERT(from < link->count);
    struct mpi_link *mpi = (struct mpi_link *)link;
    if (mpi->synchronous) {
        for (uint32_t to = 0; from == link->rank && to < link->count; to++)
            if (to != from)
                send_whole(link, data, bytes, to, KVC_CHANNEL_CALL);
        if (from != link->rank)
            mpi_receive(link, data, bytes, from, KVC_CHANNEL_CALL);
        return;
    }
    if (from == link->rank)
        mpi_count(link, bytes, link->count - 1);
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Request request;
        mpi_hold(mpi);
        MPI_Ibcast((char *)data + at, (int)some, MPI_BYTE, (int)from, mpi->comm, &request);
        mpi_release(mpi);
        wait_for(mpi, &request, patience_of(mpi), BLINK);
    }
}

static void mpi_await(struct kvc_link *link, void *data, size_t bytes) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    MPI_Request request;
    if (mpi->synchronous) {
        mpi_broadcast(link, data, bytes, 0);
        return;
    }
    if (link->rank == 0)
        mpi_count(link, bytes, link->count - 1);
    mpi_hold(mpi);
    MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, mpi->comm, &request);
    mpi_release(mpi);
    wait_for(mpi, &request, patience_of(mpi), mpi->crowded ? BLINK : NAP);
}

static struct kvc_link *mpi_part(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count);

static void limit(struct kvc_link *link, double seconds) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    if (mpi->watch)
        kvc_watch_limit(mpi->watch, seconds);
}

static double silence(const struct kvc_link *link, uint32_t *rank) {
    return kvc_watch_silence(((const struct mpi_link *)link)->watch, rank);
}

static void close_link(struct kvc_link *link) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    const bool watches = mpi->watch && mpi->whole == mpi;
    wait_for_sent(mpi, 0);
    if (watches)
        kvc_watch_leave(mpi->watch);
    mpi_hold(mpi);
    MPI_Comm_free(&mpi->comm);
    if (mpi->owned)
        MPI_Finalize();
    if (watches)
        kvc_watch_close(mpi->watch);
    else
        mpi_release(mpi);
    free(mpi->sizes);
    free(mpi->requests);
    free(mpi->row_types);
    free(mpi);
}

static const struct kvc_link_class class = {.name = "mpi",
                                            .gather = mpi_gather,
                                            .gather_rows = gather_rows,
                                            .broadcast = mpi_broadcast,
                                            .await = mpi_await,
                                            .send = mpi_send,
                                            .advance = advance,
                                            .receive = mpi_receive,
                                            .part = mpi_part,
                                            .limit = limit,
                                            .silence = silence,
                                            .end = mpi_end,
                                            .close = close_link,
                                            .way = &kvc_direct_mpi};

MPI_Comm kvc_mpi_comm(const struct kvc_link *link) { return ((const struct mpi_link *)link)->comm; }

void kvc_mpi_hold(const struct kvc_link *link) { mpi_hold((const struct mpi_link *)link); }

void kvc_mpi_release(const struct kvc_link *link) { mpi_release((const struct mpi_link *)link); }

void kvc_mpi_wait(struct kvc_link *link, MPI_Request *request) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    wait_for(mpi, request, patience_of(mpi), BLINK);
}

/* Makes a link that owns the communicator. Returns NULL if out of memory, after freeing the communicator. */
static struct mpi_link *mpi_make(MPI_Comm comm) {
    struct mpi_link *made = calloc(1, sizeof *made);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int *sizes = malloc(2 * (size_t)ranks * sizeof *sizes);
    MPI_Request *requests = malloc(2 * (size_t)ranks * sizeof *requests);
    MPI_Datatype *row_types = malloc((size_t)ranks * sizeof *row_types);
    if (!made || !sizes || !requests || !row_types) {
        free(requests);
        free(row_types);
        free(made);
        free(sizes);
        MPI_Comm_free(&comm);
        return NULL;
    }
    *made = (struct mpi_link){.link = {.class = &class, .rank = (uint32_t)rank, .count = (uint32_t)ranks},
                              .comm = comm,
                              .sizes = sizes,
                              .requests = requests,
                              .row_types = row_types,
                              .offsets = sizes + ranks};
    made->whole = made;
    return made;
}

static struct kvc_link *mpi_part(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count) {
    const struct mpi_link *of = (const struct mpi_link *)link;
    MPI_Comm comm;
    (void)step, (void)count; /* the ranks with the same `first` form one part */
    mpi_hold(of);
    MPI_Comm_split(of->comm, (int)first, (int)link->rank, &comm);
    struct mpi_link *made = mpi_make(comm);
    mpi_release(of);
    if (!made)
        return NULL;
    made->whole = of->whole;
    made->watch = of->watch;
    made->synchronous = of->synchronous;
    made->crowded = of->crowded;
    return &made->link;
}

/* Returns a communicator of all ranks, ordered by machine, so that ranks that share layers are on one machine where
 * possible. Rank 0 stays rank 0. *near receives the number of ranks on this machine, and *before how many of them
 * are lower than this rank. *first receives the lowest rank on this machine, as numbered in MPI_COMM_WORLD. */
static MPI_Comm by_machine(bool pretend, int *near, int *before, int *first) {
    MPI_Comm machine, comm;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (pretend)
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &machine);
    else
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
    *first = rank;
    MPI_Bcast(first, 1, MPI_INT, 0, machine);
    MPI_Comm_size(machine, near);
    MPI_Comm_rank(machine, before);
    MPI_Comm_free(&machine);
    MPI_Comm_split(MPI_COMM_WORLD, 0, *first,
                   &comm); /* errors in the new communicator are fatal; equal keys keep the order of ranks */
    return comm;
}

/* The mode of all ranks, which rank 0 reads from KVCULL_RANKS. */
enum mode { PLAIN, SYNCHRONOUS, MACHINES };

static enum mode read_mode(void) {
    const char *text = getenv("KVCULL_RANKS");
    int mode = PLAIN;
    if (text)
        mode = strcmp(text, "synchronous") == 0 ? SYNCHRONOUS : strcmp(text, "machines") == 0 ? MACHINES : PLAIN;
    MPI_Bcast(&mode, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return (enum mode)mode;
}

/* Opens the link after MPI has started. Returns NULL if out of memory. */
static struct mpi_link *open_all(bool started, int level) {
    const enum mode mode = read_mode();
    int near, before, first;
    struct mpi_link *made = mpi_make(by_machine(mode == MACHINES, &near, &before, &first));
    if (!made)
        return NULL;
    made->owned = !started;
    made->link.near = (uint32_t)before;
    made->link.machine = (uint32_t)first;
    made->crowded = near > sysconf(_SC_NPROCESSORS_ONLN);
    made->synchronous = mode == SYNCHRONOUS;
    /* No watch if the program's own MPI calls could run at the same time, because they do not take the lock of
     * kvc_watch_hold. */
    if (made->link.count > 1 && (made->owned || level == MPI_THREAD_MULTIPLE)) {
        made->watch = kvc_watch_open(&made->link, made->comm);
        if (!made->watch)
            mpi_end(&made->link, "no memory for the ranks, or no thread"); /* the other ranks are waiting, so returning
                                                                              an error would hang them */
    }
    return made;
}

static enum kvc_status open_mpi(struct kvc_link **link, struct kvc_error *error) {
    int started = 0, level = 0;
    *link = NULL;
    MPI_Initialized(&started);
    if (started)
        MPI_Query_thread(&level);
    else
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    struct mpi_link *made = level >= MPI_THREAD_SERIALIZED ? open_all(started, level) : NULL;
    if (!made && !started)
        MPI_Finalize();
    if (!made)
        return kvc_fail(error, KVC_RESOURCE,
                        level >= MPI_THREAD_SERIALIZED ? "ranks: no memory"
                                                       : "ranks: this MPI does not support threads");
    *link = &made->link;
    return KVC_OK;
}

const struct kvc_mpi_plugin kvc_mpi_plugin = {
    .version = KVC_VERSION, .link_bytes = sizeof(struct kvc_link), .open = open_mpi};
