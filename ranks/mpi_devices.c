/* mpi_devices.c - rows between devices by an MPI that takes their addresses (CUDA-aware). MPI knows nothing of streams:
 * it is called when the device has done what was queued, and returns when the rows have left or are there. */
#include <limits.h>
#include <stdlib.h>

#include "ranks/direct.h"
#include "ranks/mpi_comm.h"

#if defined(KVC_MPI_EXT)
#include <mpi-ext.h>
#endif

enum {
    PIECE = 1 << 30, /* bytes in one message at most */
    ROWS = 1         /* tag: none of the host's messages has it */
};

struct mpi_devices {
    struct kvc_direct direct;
    int *sizes, *offsets; /* [count] */
};

static void wait_for(struct kvc_direct *direct) {
    if (!direct->device->exposed->wait(direct->device))
        kvc_direct_end(direct);
}

static void gather(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes, const size_t *offsets) {
    const struct mpi_devices *mpi = (const struct mpi_devices *)direct;
    struct kvc_link *link = direct->link;
    for (uint32_t r = 0; r < link->count; r++) {
        if (sizes[r] > INT_MAX || offsets[r] > INT_MAX)
            link->class->end(link, "more than 2 GiB in one gather; choose a smaller --chunk");
        mpi->sizes[r] = (int)sizes[r];
        mpi->offsets[r] = (int)offsets[r];
    }
    link->messages += link->count - 1;
    link->bytes += sizes[link->rank] * (link->count - 1);
    wait_for(direct);
    MPI_Allgatherv(mine, mpi->sizes[link->rank], MPI_BYTE, all, mpi->sizes, mpi->offsets, MPI_BYTE, kvc_mpi_comm(link));
}

static void send(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to) {
    struct kvc_link *link = direct->link;
    link->messages++;
    link->bytes += bytes;
    wait_for(direct);
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Send((const char *)data + at, (int)some, MPI_BYTE, (int)to, ROWS, kvc_mpi_comm(link));
    }
}

static void receive(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from) {
    wait_for(direct); /* what still reads the memory that is written */
    for (size_t at = 0, some; at < bytes; at += some) {
        some = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Recv((char *)data + at, (int)some, MPI_BYTE, (int)from, ROWS, kvc_mpi_comm(direct->link),
                 MPI_STATUS_IGNORE);
    }
}

static void close_devices(struct kvc_direct *direct) {
    free(((struct mpi_devices *)direct)->sizes);
    free(direct);
}

static const struct kvc_direct_class class = {
    .name = "MPI", .gather = gather, .send = send, .receive = receive, .close = close_devices};

static struct kvc_direct *open_devices(struct kvc_link *link, struct kvc_device *device) {
    struct mpi_devices *made = calloc(1, sizeof *made);
    int *sizes = malloc(2 * link->count * sizeof *sizes);
    if (!made || !sizes)
        link->class->end(link, "no memory for messages between devices");
    *made = (struct mpi_devices){
        .direct = {.class = &class, .link = link, .device = device}, .sizes = sizes, .offsets = sizes + link->count};
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
