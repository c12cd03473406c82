/* mpi_devices.c - sends rows between devices through a CUDA-aware MPI, which accepts device addresses. MPI knows
 * nothing of streams, so each function first waits for the device's queue and then for MPI to finish. It uses
 * point-to-point messages because some CUDA-aware MPIs cannot gather device memory without blocking. */
#include <limits.h>
#include <stdlib.h>

#include "ranks/direct.h"
#include "ranks/mpi_comm.h"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

enum {
    PIECE = 1 << 30, /* largest message in bytes */
    ROWS = 3,        /* tags of these messages, distinct from the tags of the host's messages */
    GATHERED
};

struct mpi_devices {
    struct kvc_direct direct;
    MPI_Request *requests; /* [2 * count] */
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

/* A rank sends its own part to itself, because the host cannot copy device memory. */
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
    wait_for(direct); /* waits for queued work that may still read the memory to be overwritten */
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

/* Asks MPI whether it is CUDA-aware. */
static bool usable(void) {
#if defined(MPIX_CUDA_AWARE_SUPPORT) /* only Open MPI defines this macro */
    return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA) /* only MPICH defines this macro */
    int yes = 0;
    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &yes) == MPI_SUCCESS && yes;
#else
    return false;
#endif
}

const struct kvc_direct_way kvc_direct_mpi = {.name = "mpi", .usable = usable, .open = open_devices};
