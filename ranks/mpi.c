/* mpi.c - the communication layer over MPI (2.2 or newer, with MPI_Ibcast 3.0). MPI's own errors end the program: their
 * message names what was called. KVCULL_RANKS=synchronous, for tests: nothing is sent before the other end receives it,
 * so that an order which needs a buffer somewhere hangs. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ranks/direct.h"
#include "ranks/links.h"
#include "ranks/mpi_comm.h"

enum {
    PIECE = 1 << 30,  /* bytes in one message at most: MPI counts with int */
    PATIENCE = 20000, /* looks at a message before its receiver sleeps between them */
    BLINK = 1000,     /* nanoseconds */
    NAP = 100000
};

struct mpi_link {
    struct kvc_link link;
    MPI_Comm comm;
    bool synchronous, owned; /* owned: MPI was started here */
    bool crowded;            /* more ranks on this machine than cores: to look again and again would keep others away */
    int *sizes, *offsets;    /* [count] */
};

static void end(struct kvc_link *link, const char *text) {
    char line[600];
    const int bytes = snprintf(line, sizeof line, "kvcull: rank %u: %s\n", link->rank, text);
    fflush(stdout);
    if (bytes > 0 && write(STDERR_FILENO, line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1) < 0)
        _exit(KVC_RESOURCE);
    MPI_Abort(((struct mpi_link *)link)->comm, KVC_RESOURCE);
    _exit(KVC_RESOURCE);
}

static void count(struct kvc_link *link, size_t bytes, uint32_t receivers) {
    link->messages += receivers;
    link->bytes += bytes * receivers;
}

static void send(struct kvc_link *link, const void *data, size_t bytes, uint32_t to) {
    const struct mpi_link *mpi = (const struct mpi_link *)link;
    count(link, bytes, 1);
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        (mpi->synchronous ? MPI_Ssend : MPI_Send)((const char *)data + at, (int)some, MPI_BYTE, (int)to, 0, mpi->comm);
    }
}

/* Waits for what was begun; patience: looks before it sleeps between them, so many nanoseconds. */
static void wait_for(MPI_Request *request, unsigned patience, long sleep) {
    const struct timespec nap = {0, sleep};
    int come = 0;
    for (unsigned looks = 0; MPI_Test(request, &come, MPI_STATUS_IGNORE) == MPI_SUCCESS && !come; looks++)
        if (looks >= patience)
            nanosleep(&nap, NULL);
}

static void receive(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    const struct mpi_link *mpi = (const struct mpi_link *)link;
    for (size_t at = 0, some; at < bytes; at += some) {
        MPI_Request request;
        some = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Irecv((char *)data + at, (int)some, MPI_BYTE, (int)from, 0, mpi->comm, &request);
        wait_for(&request, mpi->crowded ? 0 : UINT_MAX, BLINK);
    }
}

/* One after another sends its part to all others. */
static void gather_synchronously(struct kvc_link *link, const void *mine, void *all, const size_t *sizes,
                                 const size_t *offsets) {
    for (uint32_t from = 0; from < link->count; from++) {
        char *part = (char *)all + offsets[from];
        for (uint32_t to = 0; from == link->rank && to < link->count; to++)
            if (to != from)
                send(link, mine, sizes[from], to);
        if (from == link->rank && sizes[from])
            memcpy(part, mine, sizes[from]);
        else if (from != link->rank)
            receive(link, part, sizes[from], from);
    }
}

static void gather(struct kvc_link *link, const void *mine, void *all, const size_t *sizes, const size_t *offsets) {
    const struct mpi_link *mpi = (const struct mpi_link *)link;
    if (mpi->synchronous) {
        gather_synchronously(link, mine, all, sizes, offsets);
        return;
    }
    for (uint32_t r = 0; r < link->count; r++) {
        if (sizes[r] > INT_MAX || offsets[r] > INT_MAX)
            end(link, "more than 2 GiB in one gather; choose a smaller --chunk");
        mpi->sizes[r] = (int)sizes[r];
        mpi->offsets[r] = (int)offsets[r];
    }
    count(link, sizes[link->rank], link->count - 1);
    MPI_Request request;
    MPI_Iallgatherv(mine, mpi->sizes[link->rank], MPI_BYTE, all, mpi->sizes, mpi->offsets, MPI_BYTE, mpi->comm,
                    &request);
    /* Not MPI_Allgatherv, which looks without end: where other programs run, it keeps the rank that it waits for away.
     */
    wait_for(&request, mpi->crowded ? 0 : PATIENCE, BLINK);
}

static void broadcast(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    const struct mpi_link *mpi = (const struct mpi_link *)link;
    if (mpi->synchronous) {
        for (uint32_t to = 0; from == link->rank && to < link->count; to++)
            if (to != from)
                send(link, data, bytes, to);
        if (from != link->rank)
            receive(link, data, bytes, from);
        return;
    }
    if (from == link->rank)
        count(link, bytes, link->count - 1);
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Request request;
        MPI_Ibcast((char *)data + at, (int)some, MPI_BYTE, (int)from, mpi->comm, &request);
        wait_for(&request, mpi->crowded ? 0 : UINT_MAX, BLINK);
    }
}

static void await(struct kvc_link *link, void *data, size_t bytes) {
    const struct mpi_link *mpi = (const struct mpi_link *)link;
    MPI_Request request;
    if (mpi->synchronous) {
        broadcast(link, data, bytes, 0);
        return;
    }
    if (link->rank == 0)
        count(link, bytes, link->count - 1);
    MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, mpi->comm, &request);
    wait_for(&request, mpi->crowded ? 0 : PATIENCE, mpi->crowded ? BLINK : NAP);
}

static void close_link(struct kvc_link *link) {
    struct mpi_link *mpi = (struct mpi_link *)link;
    MPI_Comm_free(&mpi->comm);
    if (mpi->owned)
        MPI_Finalize();
    free(mpi->sizes);
    free(mpi);
}

static const struct kvc_link_class class = {.name = "mpi",
                                            .gather = gather,
                                            .broadcast = broadcast,
                                            .await = await,
                                            .send = send,
                                            .receive = receive,
                                            .end = end,
                                            .close = close_link,
                                            .attach = kvc_direct_attach};

MPI_Comm kvc_mpi_comm(const struct kvc_link *link) { return ((const struct mpi_link *)link)->comm; }

enum kvc_status kvc_link_open_mpi(struct kvc_link **link, struct kvc_error *error) {
    const char *mode = getenv("KVCULL_RANKS");
    int started = 0, level = 0, rank = 0, ranks = 1, near = 1, before = 0;
    MPI_Comm machine;
    struct mpi_link *made = calloc(1, sizeof *made);
    *link = NULL;
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "ranks: no memory");
    MPI_Initialized(&started);
    if (started)
        MPI_Query_thread(&level);
    else
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    made->owned = !started;
    MPI_Comm_dup(MPI_COMM_WORLD, &made->comm); /* errors are fatal there, too */
    MPI_Comm_rank(made->comm, &rank);
    MPI_Comm_size(made->comm, &ranks);
    MPI_Comm_split_type(made->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &near);
    MPI_Comm_rank(machine, &before);
    MPI_Comm_free(&machine);
    made->crowded = near > sysconf(_SC_NPROCESSORS_ONLN);
    made->link =
        (struct kvc_link){.class = &class, .rank = (uint32_t)rank, .count = (uint32_t)ranks, .near = (uint32_t)before};
    made->synchronous = mode && strcmp(mode, "synchronous") == 0;
    made->sizes = malloc(2 * (size_t)ranks * sizeof *made->sizes);
    made->offsets = made->sizes + ranks;
    if (!made->sizes || level < MPI_THREAD_SERIALIZED) {
        const enum kvc_status status =
            made->sizes ? kvc_fail(error, KVC_RESOURCE, "ranks: this MPI does not go together with threads")
                        : kvc_fail(error, KVC_RESOURCE, "ranks: no memory for %d ranks", ranks);
        close_link(&made->link);
        return status;
    }
    *link = &made->link;
    return KVC_OK;
}
