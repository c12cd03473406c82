/* nccl.c - rows between CUDA devices by NCCL: what is sent and received joins the device's stream, and the host waits
 * for nothing. A communicator for each link and device; its id goes through the link. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/ops.h"
#include "ranks/direct.h"

struct nccl {
    struct kvc_direct direct;
    ncclComm_t comm;
};

static cudaStream_t stream_of(const struct kvc_direct *direct) { return direct->device->exposed->stream; }

static void check(const struct kvc_direct *direct, ncclResult_t result) {
    char text[300];
    if (result == ncclSuccess)
        return;
    snprintf(text, sizeof text, "%s: NCCL: %s", direct->device->name, ncclGetErrorString(result));
    direct->link->class->end(direct->link, text);
}

static void count(struct kvc_link *link, size_t bytes, uint32_t receivers) {
    link->messages += receivers;
    link->bytes += bytes * receivers;
}

/* NCCL has no gather of parts that differ in size: each rank's is broadcast, all of them at once. */
static ncclResult_t broadcast_each(const struct nccl *nccl, const void *mine, char *all, const size_t *sizes,
                                   const size_t *offsets) {
    const struct kvc_link *link = nccl->direct.link;
    ncclResult_t result = ncclGroupStart();
    for (uint32_t r = 0; r < link->count && result == ncclSuccess; r++) {
        char *part = all + offsets[r];
        if (sizes[r])
            result = ncclBroadcast(r == link->rank ? mine : part, part, sizes[r], ncclChar, (int)r, nccl->comm,
                                   stream_of(&nccl->direct));
    }
    const ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

static void gather(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes, const size_t *offsets) {
    struct kvc_link *link = direct->link;
    count(link, sizes[link->rank], link->count - 1);
    check(direct, broadcast_each((const struct nccl *)direct, mine, all, sizes, offsets));
}

static void send(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to) {
    count(direct->link, bytes, 1);
    check(direct, ncclSend(data, bytes, ncclChar, (int)to, ((const struct nccl *)direct)->comm, stream_of(direct)));
}

static void receive(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from) {
    check(direct, ncclRecv(data, bytes, ncclChar, (int)from, ((const struct nccl *)direct)->comm, stream_of(direct)));
}

static void close_nccl(struct kvc_direct *direct) {
    struct nccl *nccl = (struct nccl *)direct;
    struct kvc_error error;
    (void)direct->device->ops->sync(direct->device, &error); /* what is under way ends first */
    if (nccl->comm)
        (void)ncclCommDestroy(nccl->comm);
    free(nccl);
}

static const struct kvc_direct_class class = {
    .name = "NCCL", .gather = gather, .send = send, .receive = receive, .close = close_nccl};

/* Each rank's number to all, and from each to the next: connections are made at their first use, for which both ends
 * must be there. Later the host waits for no other rank here, whatever it still has to send by MPI. */
static ncclResult_t connect(struct nccl *nccl, struct kvc_buffer *buffer, size_t *sizes) {
    const struct kvc_link *link = nccl->direct.link;
    struct kvc_device *device = nccl->direct.device;
    uint32_t *at = device->exposed->address(device, (struct kvc_span){buffer, 0}, (link->count + 1) * sizeof *at);
    ncclResult_t result;
    if (!at)
        return ncclUnhandledCudaError;
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = sizeof *at;
        sizes[link->count + r] = r * sizeof *at;
    }
    result = broadcast_each(nccl, at + link->count, (char *)at, sizes, sizes + link->count);
    if (result != ncclSuccess || (result = ncclGroupStart()) != ncclSuccess)
        return result;
    if (link->rank + 1 < link->count)
        result =
            ncclSend(at + link->count, sizeof *at, ncclChar, (int)link->rank + 1, nccl->comm, stream_of(&nccl->direct));
    if (link->rank > 0 && result == ncclSuccess)
        result = ncclRecv(at, sizeof *at, ncclChar, (int)link->rank - 1, nccl->comm, stream_of(&nccl->direct));
    const ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

/* Whether it works: all have each other's numbers. */
static bool try_it(struct nccl *nccl) {
    const struct kvc_link *link = nccl->direct.link;
    struct kvc_device *device = nccl->direct.device;
    const struct kvc_ops *ops = device->ops;
    const size_t bytes = (link->count + (size_t)1) * sizeof(uint32_t);
    struct kvc_buffer *buffer = NULL;
    struct kvc_error error;
    size_t *sizes = malloc(2 * link->count * sizeof *sizes);
    uint32_t *numbers = calloc(1, bytes);
    bool right = sizes && numbers && ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &buffer, &error) == KVC_OK;
    if (right) {
        numbers[link->count] = link->rank + 1;
        ops->upload(device, (struct kvc_span){buffer, 0}, numbers, bytes);
        right = connect(nccl, buffer, sizes) == ncclSuccess && ops->sync(device, &error) == KVC_OK;
    }
    if (right)
        ops->download(device, numbers, (struct kvc_span){buffer, 0}, bytes);
    for (uint32_t r = 0; r < link->count && right; r++)
        right = numbers[r] == (r == 0 && link->rank > 0 ? link->rank : r + 1);
    ops->buffer_free(device, buffer);
    free(numbers);
    free(sizes);
    return right;
}

static struct kvc_direct *open_nccl(struct kvc_link *link, struct kvc_device *device) {
    struct {
        ncclUniqueId id;
        ncclResult_t result;
    } told = {.result = ncclSuccess};
    struct nccl *made = calloc(1, sizeof *made);
    if (!made)
        link->class->end(link, "no memory for NCCL");
    made->direct = (struct kvc_direct){.class = &class, .link = link, .device = device};
    if (link->rank == 0)
        told.result = ncclGetUniqueId(&told.id);
    link->class->broadcast(link, &told, sizeof told, 0);
    (void)device->ops->sync(device, NULL); /* makes the device this thread's */
    if (told.result != ncclSuccess || ncclCommInitRank(&made->comm, (int)link->count, told.id, (int)link->rank) ||
        !try_it(made)) {
        close_nccl(&made->direct);
        return NULL;
    }
    return &made->direct;
}

/* One that finds no device says so here, before the others wait for it. */
static bool usable(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess;
}

const struct kvc_direct_way kvc_direct_nccl = {.name = "nccl", .one_each = true, .usable = usable, .open = open_nccl};
