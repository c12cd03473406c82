/* mpi_devices.c - rows between devices by an MPI that takes their addresses (CUDA-aware). MPI knows nothing of streams:
 * it is called when the device has done what was queued, and what was begun is waited for until the rows have left or
 * are there. Messages are from one rank to another: not each such MPI gathers addresses of devices without blocking. */
#include <limits.h>
#include <stdlib.h>

#include "ranks/direct.h"
#include "ranks/mpi_comm.h"

#if defined(KVC_MPI_EXT)
#include <mpi-ext.h>
#endif

enum {
    PIECE = 1 << 30, /* bytes in one message at most */
    ROWS = 3,        /* tags: none of the host's messages has them */
    GATHERED
};

struct mpi_devices {
    struct kvc_direct direct;
    MPI_Request *requests; /* [2 count] */
};

static void wait_for(struct kvc_direct *direct) {
    if (!direct->device->exposed->wait(direct->device))
        kvc_direct_end(direct);
}

static void begin_send(const struct kvc_link *link, const void *data, size_t bytes, uint32_t to, int tag,
                       MPI_Request *request) {
    kvc_mpi_hold(link);
    MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, tag, kvc_mpi_comm(link), request);
    kvc_mpi_release(link);
}

static void begin_receive(const struct kvc_link *link, void *data, size_t bytes, uint32_t from, int tag,
                          MPI_Request *request) {
    kvc_mpi_hold(link);
    MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, tag, kvc_mpi_comm(link), request);
    kvc_mpi_release(link);
}

/* A rank's own part is a message to itself: the memory is a device's. */
static void mpi_devices_gather(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes,
                               const size_t *offsets) {
    const struct mpi_devices *mpi = (const struct mpi_devices *)direct;
    struct kvc_link *link = direct->link;
    size_t begun = 0;
    link->messages += link->count - 1;
    link->bytes += sizes[link->rank] * (link->count - 1);
    wait_for(direct);
    for (uint32_t r = 0; r < link->count; r++) {
        if (sizes[r] > INT_MAX)
            link->class->end(link, "more than 2 GiB in one gather; choose a smaller --chunk");
        if (sizes[r])
            begin_receive(link, (char *)all + offsets[r], sizes[r], r, GATHERED, &mpi->requests[begun++]);
    }
    for (uint32_t i = 0; i < link->count && sizes[link->rank]; i++)
        begin_send(link, mine, sizes[link->rank], (link->rank + i) % link->count, GATHERED, &mpi->requests[begun++]);
    for (size_t i = 0; i < begun; i++)
        kvc_mpi_wait(link, &mpi->requests[i]);
}

static void mpi_devices_send(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to) {
    struct kvc_link *link = direct->link;
    MPI_Request request;
    link->messages++;
    link->bytes += bytes;
    wait_for(direct);
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        begin_send(link, (const char *)data + at, some, to, ROWS, &request);
        kvc_mpi_wait(link, &request);
    }
}

static void mpi_devices_receive(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from) {
    MPI_Request request;
    wait_for(direct); /* what still reads the memory that is written */
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        begin_receive(direct->link, (char *)data + at, some, from, ROWS, &request);
        kvc_mpi_wait(direct->link, &request);
    }
}

static void close_devices(struct kvc_direct *direct) {
    free(((struct mpi_devices *)direct)->requests);
    free(direct);
}

static const struct kvc_direct_class class = {.name = "MPI",
                                              .gather = mpi_devices_gather,
                                              .send = mpi_devices_send,
                                              .receive = mpi_devices_receive,
                                              .close = close_devices};

static struct kvc_direct *open_devices(struct kvc_link *link, struct kvc_device *device) {
    struct mpi_devices *made = calloc(1, sizeof *made);
    MPI_Request *requests = malloc(2 * link->count * sizeof *requests);
    if (!made || !requests)
        link->class->end(link, "no memory for messages between devices");
    *made = (struct mpi_devices){.direct = {.class = &class, .link = link, .device = device}, .requests = requests};
    return &made->direct;
}

/* What MPI says of itself. */
static bool usable(void) {
#if defined(KVC_MPI_EXT) && defined(MPIX_CUDA_AWARE_SUPPORT) /* Open MPI */
    return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA) /* MPICH */
    int yes = 0;
    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &yes) == MPI_SUCCESS && yes;
#else
    return false;
#endif
}

const struct kvc_direct_way kvc_direct_mpi = {.name = "mpi", .usable = usable, .open = open_devices};
