/* nccl.c - sends rows between CUDA devices through NCCL. Sends and receives join the device's stream, so the host does
 * not wait. Each pair of link and device has its own communicator; the link broadcasts its id. */
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

static void nccl_check(const struct kvc_direct *direct, ncclResult_t result) {
    char text[300];
    if (result == ncclSuccess)
        return;
    snprintf(text, sizeof text, "%s: NCCL: %s", direct->device->name, ncclGetErrorString(result));
    direct->link->class->end(direct->link, text);
}

static void nccl_count(struct kvc_link *link, size_t bytes, uint32_t receivers) {
    link->messages += receivers;
    link->bytes += bytes * receivers;
}

/* NCCL cannot gather parts of different sizes, so each rank broadcasts its part, all in one group. */
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

static void nccl_gather(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes,
                        const size_t *offsets) {
    struct kvc_link *link = direct->link;
    nccl_count(link, sizes[link->rank], link->count - 1);
    nccl_check(direct, broadcast_each((const struct nccl *)direct, mine, all, sizes, offsets));
}

static void nccl_send(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to) {
    nccl_count(direct->link, bytes, 1);
    nccl_check(direct,
               ncclSend(data, bytes, ncclChar, (int)to, ((const struct nccl *)direct)->comm, stream_of(direct)));
}

static void nccl_receive(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from) {
    nccl_check(direct,
               ncclRecv(data, bytes, ncclChar, (int)from, ((const struct nccl *)direct)->comm, stream_of(direct)));
}

static void close_nccl(struct kvc_direct *direct) {
    struct nccl *nccl = (struct nccl *)direct;
    struct kvc_error error;
    (void)direct->device->ops->sync(direct->device, &error); /* finishes queued work first */
    if (nccl->comm)
        (void)ncclCommDestroy(nccl->comm);
    free(nccl);
}

static const struct kvc_direct_class class = {
    .name = "NCCL", .gather = nccl_gather, .send = nccl_send, .receive = nccl_receive, .close = close_nccl};

/* Exchanges numbers in at [count + 2]. at[count] is this rank's number. at[0..count) receives the numbers of all ranks,
 * and at[count + 1] receives the number of the previous rank again. */
static ncclResult_t exchange(const struct nccl *nccl, uint32_t *at, size_t *sizes) {
    const struct kvc_link *link = nccl->direct.link;
    const cudaStream_t stream = stream_of(&nccl->direct);
    uint32_t *mine = at + link->count;
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = sizeof *at;
        sizes[link->count + r] = r * sizeof *at;
    }
    ncclResult_t result = broadcast_each(nccl, mine, (char *)at, sizes, sizes + link->count);
    if (result != ncclSuccess || (result = ncclGroupStart()) != ncclSuccess)
        return result;
    if (link->rank + 1 < link->count)
        result = ncclSend(mine, sizeof *at, ncclChar, (int)link->rank + 1, nccl->comm, stream);
    if (link->rank > 0 && result == ncclSuccess)
        result = ncclRecv(mine + 1, sizeof *at, ncclChar, (int)link->rank - 1, nccl->comm, stream);
    const ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

/* Connects all ranks and checks the transport. NCCL connects two ranks at their first transfer, which blocks until both
 * take part. After this function, no NCCL call waits for a rank that still has MPI messages to send. */
static bool works(struct kvc_direct *direct) {
    const struct kvc_link *link = direct->link;
    struct kvc_device *device = direct->device;
    const struct kvc_ops *ops = device->ops;
    const size_t bytes = (link->count + (size_t)2) * sizeof(uint32_t);
    struct kvc_span span = {NULL, 0};
    struct kvc_error error;
    size_t *sizes = malloc(2 * link->count * sizeof *sizes);
    uint32_t *numbers = calloc(1, bytes);
    if (!sizes || !numbers || ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &error) != KVC_OK)
        direct->link->class->end(direct->link, "no memory for NCCL");
    numbers[link->count] = link->rank + 1;
    ops->upload(device, span, numbers, bytes);
    uint32_t *at = device->exposed->address(device, span, bytes);
    bool right = at && exchange((const struct nccl *)direct, at, sizes) == ncclSuccess;
    right = ops->sync(device, &error) == KVC_OK && right;
    ops->download(device, numbers, span, bytes);
    for (uint32_t r = 0; r < link->count; r++)
        right = right && numbers[r] == r + 1;
    right = right && numbers[link->count + 1] == link->rank;
    ops->buffer_free(device, span.buffer);
    free(numbers);
    free(sizes);
    return right;
}

static struct kvc_direct *open_nccl(struct kvc_link *link, struct kvc_device *device) {
    struct {
        ncclUniqueId id;
        ncclResult_t result;
    } shared = {.result = ncclSuccess};
    struct nccl *made = calloc(1, sizeof *made);
    if (!made)
        link->class->end(link, "no memory for NCCL");
    made->direct = (struct kvc_direct){.class = &class, .link = link, .device = device};
    if (link->rank == 0)
        shared.result = ncclGetUniqueId(&shared.id);
    link->class->broadcast(link, &shared, sizeof shared, 0);
    (void)device->ops->sync(device, NULL); /* also makes the device current in this thread */
    if (shared.result != ncclSuccess || ncclCommInitRank(&made->comm, (int)link->count, shared.id, (int)link->rank)) {
        close_nccl(&made->direct);
        return NULL;
    }
    return &made->direct;
}

const struct kvc_direct_way kvc_direct_nccl = {.name = "nccl", .one_each = true, .open = open_nccl, .works = works};
