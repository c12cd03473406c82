/* nccl.c - sends rows between CUDA devices through NCCL (2.7 or newer), which is opened at run time. Sends and receives
 * join the device's stream, so the host does not wait. Each pair of link and device has its own communicator. The link
 * broadcasts the communicator's id. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/library.h"
#include "core/base/ops.h"
#include "ranks/direct.h"

/* The part of NCCL's interface that is used here. A result of 0 is success. */
enum { NCCL_CHAR = 0 };
struct nccl_id {
    char bytes[128];
};
struct nccl_functions {
    int (*get_id)(struct nccl_id *id);
    int (*open)(void **comm, int count, struct nccl_id id, int rank);
    int (*close)(void *comm);
    int (*begin)(void);
    int (*end)(void);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream);
    int (*send)(const void *from, size_t count, int type, int to, void *comm, void *stream);
    int (*receive)(void *to, size_t count, int type, int from, void *comm, void *stream);
    const char *(*text)(int result);
};

struct nccl {
    struct kvc_direct direct;
    struct nccl_functions call;
    void *comm;
};

static bool nccl_find(struct nccl_functions *call) {
    char why[200];
    void *library = kvc_library_open(KVC_LIBRARY_NCCL, why, sizeof why);
    return library && kvc_library_find(library, "ncclGetUniqueId", &call->get_id) &&
           kvc_library_find(library, "ncclCommInitRank", &call->open) &&
           kvc_library_find(library, "ncclCommDestroy", &call->close) &&
           kvc_library_find(library, "ncclGroupStart", &call->begin) &&
           kvc_library_find(library, "ncclGroupEnd", &call->end) &&
           kvc_library_find(library, "ncclBroadcast", &call->broadcast) &&
           kvc_library_find(library, "ncclSend", &call->send) &&
           kvc_library_find(library, "ncclRecv", &call->receive) &&
           kvc_library_find(library, "ncclGetErrorString", &call->text);
}

static bool usable(void) {
    struct nccl_functions call;
    return nccl_find(&call);
}

static void *stream_of(const struct kvc_direct *direct) { return direct->device->exposed->stream; }

static void nccl_check(const struct kvc_direct *direct, int result) {
    char text[300];
    if (result == 0)
        return;
    snprintf(text, sizeof text, "%s: NCCL: %s", direct->device->name, ((const struct nccl *)direct)->call.text(result));
    direct->link->class->end(direct->link, text);
}

static void nccl_count(struct kvc_link *link, size_t bytes, uint32_t receivers) {
    link->messages += receivers;
    link->bytes += bytes * receivers;
}

/* NCCL cannot gather parts of different sizes, so each rank broadcasts its part, all in one group. */
static int broadcast_each(const struct nccl *nccl, const void *mine, char *all, const size_t *sizes,
                          const size_t *offsets) {
    const struct kvc_link *link = nccl->direct.link;
    int result = nccl->call.begin();
    for (uint32_t r = 0; r < link->count && result == 0; r++) {
        char *part = all + offsets[r];
        if (sizes[r])
            result = nccl->call.broadcast(r == link->rank ? mine : part, part, sizes[r], NCCL_CHAR, (int)r, nccl->comm,
                                          stream_of(&nccl->direct));
    }
    const int ended = nccl->call.end();
    return result != 0 ? result : ended;
}

static void nccl_gather(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes,
                        const size_t *offsets) {
    struct kvc_link *link = direct->link;
    nccl_count(link, sizes[link->rank], link->count - 1);
    nccl_check(direct, broadcast_each((const struct nccl *)direct, mine, all, sizes, offsets));
}

static void nccl_send(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to) {
    const struct nccl *nccl = (const struct nccl *)direct;
    nccl_count(direct->link, bytes, 1);
    nccl_check(direct, nccl->call.send(data, bytes, NCCL_CHAR, (int)to, nccl->comm, stream_of(direct)));
}

static void nccl_receive(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from) {
    const struct nccl *nccl = (const struct nccl *)direct;
    nccl_check(direct, nccl->call.receive(data, bytes, NCCL_CHAR, (int)from, nccl->comm, stream_of(direct)));
}

static void close_nccl(struct kvc_direct *direct) {
    struct nccl *nccl = (struct nccl *)direct;
    struct kvc_error error;
    (void)direct->device->ops->sync(direct->device, &error); /* finishes queued work first */
    if (nccl->comm)
        (void)nccl->call.close(nccl->comm);
    free(nccl);
}

static const struct kvc_direct_class class = {
    .name = "NCCL", .gather = nccl_gather, .send = nccl_send, .receive = nccl_receive, .close = close_nccl};

/* Exchanges a number with each rank, through the array `at` [count + 2]. Element `count` is this rank's number.
 * Elements 0 .. count - 1 receive the numbers of all ranks, and element count + 1 receives the number of the previous
 * rank again. */
static int exchange(const struct nccl *nccl, uint32_t *at, size_t *sizes) {
    const struct kvc_link *link = nccl->direct.link;
    void *stream = stream_of(&nccl->direct);
    uint32_t *mine = at + link->count;
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = sizeof *at;
        sizes[link->count + r] = r * sizeof *at;
    }
    int result = broadcast_each(nccl, mine, (char *)at, sizes, sizes + link->count);
    if (result != 0 || (result = nccl->call.begin()) != 0)
        return result;
    if (link->rank + 1 < link->count)
        result = nccl->call.send(mine, sizeof *at, NCCL_CHAR, (int)link->rank + 1, nccl->comm, stream);
    if (link->rank > 0 && result == 0)
        result = nccl->call.receive(mine + 1, sizeof *at, NCCL_CHAR, (int)link->rank - 1, nccl->comm, stream);
    const int ended = nccl->call.end();
    return result != 0 ? result : ended;
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
    bool right = at && exchange((const struct nccl *)direct, at, sizes) == 0;
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
        struct nccl_id id;
        int result;
    } shared = {.result = 0};
    struct nccl *made = calloc(1, sizeof *made);
    if (!made)
        link->class->end(link, "no memory for NCCL");
    made->direct = (struct kvc_direct){.class = &class, .link = link, .device = device};
    const bool found = nccl_find(&made->call);
    if (link->rank == 0)
        shared.result = found ? made->call.get_id(&shared.id) : 1;
    link->class->broadcast(link, &shared, sizeof shared, 0);
    (void)device->ops->sync(device, NULL); /* also makes the device current in this thread */
    if (!found || shared.result || made->call.open(&made->comm, (int)link->count, shared.id, (int)link->rank) != 0) {
        close_nccl(&made->direct);
        return NULL;
    }
    return &made->direct;
}

const struct kvc_direct_way kvc_direct_nccl = {
    .name = "nccl", .one_each = true, .usable = usable, .open = open_nccl, .works = works};
