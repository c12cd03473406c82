/* fake_nccl.c - test support: NCCL's functions over MPI, on the memory of an emulated device. Every message names its
 * call, and ranks that call functions in different orders abort. The order within a group is undefined in NCCL: here,
 * receive buffers are overwritten before anything is sent, so that overlapping parts give wrong results.
 *
 *     KVCULL_FAKE_DEVICES       number of devices
 *     KVCULL_FAKE_LOSE          rank 1's device is lost at that launch
 *     KVCULL_FAKE_NCCL=fails    rank 1 gets no communicator
 *     KVCULL_FAKE_TELL          a file (with the rank appended to its name) that records calls and copies */
#include <mpi.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { BROADCAST = 1, POINT };
enum { OPS = 256, SENT = 1 << 16, TAG = 77 };

struct call {
    int32_t kind, root;
    uint64_t bytes, number; /* the communicator's broadcasts, or the messages from one rank to the other */
};
struct op {
    struct call call;
    struct kvc_fake_comm *comm;
    const void *from; /* NULL: another rank's buffer */
    void *to;         /* NULL: this rank only sends */
    int peer;         /* the other rank of a point-to-point message */
};
struct kvc_fake_comm {
    int rank, count;
    int *world;                /* [count]: the numbers of the ranks in MPI_COMM_WORLD */
    uint64_t broadcasts;       /* the number so far */
    uint64_t *sent, *received; /* [count]: messages to and from each rank */
};
struct fake {
    struct op op[OPS];
    unsigned depth, count;
    MPI_Request request[SENT];
    void *buffer[SENT];
    int pending;
    unsigned long communicators, broadcasts, sends, receives;
};
static struct fake fake;

static void end(const char *why) {
    fprintf(stderr, "fake NCCL: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 99);
    abort();
}

static const char *rank_text(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("PMI_RANK");
}

static int world_rank(void) { return rank_text() ? atoi(rank_text()) : 0; }

/* Starts MPI for several threads, because the thread of ranks/watch.h calls it, too. */
static void start_mpi(void) {
    int level = 0;
    if (rank_text())
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
}

__attribute__((constructor)) static void set_devices(void) {
    const char *devices = getenv("KVCULL_FAKE_DEVICES");
    const char *lose = getenv("KVCULL_FAKE_LOSE");
    start_mpi();
    if (devices)
        kvc_fake_cuda.devices = atoi(devices);
    if (lose && world_rank() == 1)
        kvc_fake_cuda.fail_after = (size_t)atoi(lose);
}

__attribute__((destructor)) static void tell(void) {
    const char *name = getenv("KVCULL_FAKE_TELL");
    char path[300];
    int started = 0;
    if (rank_text() && MPI_Initialized(&started) == MPI_SUCCESS && started)
        MPI_Finalize();
    if (!name)
        return;
    snprintf(path, sizeof path, "%s.%d", name, world_rank());
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "communicators %lu\nbroadcasts %lu\nsends %lu\nreceives %lu\n", fake.communicators, fake.broadcasts,
            fake.sends, fake.receives);
    fprintf(file, "from_device %zu\nto_device %zu\nallocations %zu\n", kvc_fake_cuda.from_device,
            kvc_fake_cuda.to_device, kvc_fake_cuda.allocations);
    fclose(file);
}

ncclResult_t ncclGetVersion(int *version) {
    *version = 20000;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &rank, sizeof rank); /* the MPI rank at which the ranks of a communicator meet */
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "none" : "an error made up"; }

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int count, ncclUniqueId id, int rank) {
    const char *mode = getenv("KVCULL_FAKE_NCCL");
    struct kvc_fake_comm *made = calloc(1, sizeof *made);
    int *world = calloc((size_t)count, sizeof *world), root;
    uint64_t *numbers = calloc(2 * (size_t)count, sizeof *numbers);
    if (!made || !world || !numbers)
        end("no memory");
    memcpy(&root, id.internal, sizeof root);
    if (rank == 0) {
        world[0] = root;
        for (int i = 1, of; i < count; i++) {
            MPI_Status status;
            MPI_Recv(&of, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
            world[of] = status.MPI_SOURCE;
        }
        for (int i = 1; i < count; i++)
            MPI_Send(world, count, MPI_INT, world[i], TAG, MPI_COMM_WORLD);
    } else {
        MPI_Send(&rank, 1, MPI_INT, root, TAG, MPI_COMM_WORLD);
        MPI_Recv(world, count, MPI_INT, root, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *made = (struct kvc_fake_comm){
        .rank = rank, .count = count, .world = world, .sent = numbers, .received = numbers + count};
    *comm = made;
    fake.communicators++;
    if (!mode || strcmp(mode, "fails") != 0)
        return ncclSuccess;
    if (rank == 1) {
        (void)ncclCommDestroy(made);
        *comm = NULL;
    }
    return rank == 1 ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    while (fake.pending > 0) {
        MPI_Wait(&fake.request[--fake.pending], MPI_STATUS_IGNORE);
        free(fake.buffer[fake.pending]);
    }
    fake.communicators--;
    free(comm->world);
    free(comm->sent);
    free(comm);
    return ncclSuccess;
}

/* ---- calls ---- */

static void send_to(const struct op *op, int peer) {
    char *message = malloc(sizeof op->call + op->call.bytes);
    if (!message || fake.pending == SENT)
        end("too many messages on their way");
    memcpy(message, &op->call, sizeof op->call);
    memcpy(message + sizeof op->call, op->from, op->call.bytes);
    fake.buffer[fake.pending] = message;
    MPI_Isend(message, (int)(sizeof op->call + op->call.bytes), MPI_BYTE, op->comm->world[peer], TAG, MPI_COMM_WORLD,
              &fake.request[fake.pending++]);
}

static void receive_from(const struct op *op, int peer) {
    const size_t bytes = sizeof op->call + op->call.bytes;
    char *message = malloc(bytes);
    MPI_Status status;
    int got;
    if (!message)
        end("no memory");
    MPI_Recv(message, (int)bytes, MPI_BYTE, op->comm->world[peer], TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    if ((size_t)got != bytes || memcmp(message, &op->call, sizeof op->call) != 0)
        end("ranks do not make the same calls");
    memcpy(op->to, message + sizeof op->call, op->call.bytes);
    free(message);
}

static void run(void) {
    for (unsigned i = 0; i < fake.count; i++)
        if (fake.op[i].to && fake.op[i].to != fake.op[i].from)
            memset(fake.op[i].to, 0xa5, fake.op[i].call.bytes);
    for (unsigned i = 0; i < fake.count; i++) {
        const struct op *op = &fake.op[i];
        for (int r = 0; r < op->comm->count && op->from; r++)
            if (op->call.kind == POINT ? r == op->peer : r != op->comm->rank)
                send_to(op, r);
    }
    for (unsigned i = 0; i < fake.count; i++) {
        const struct op *op = &fake.op[i];
        if (!op->from)
            receive_from(op, op->peer);
        else if (op->to)
            memmove(op->to, op->from, op->call.bytes);
    }
    fake.count = 0;
}

static ncclResult_t add(const struct op *op) {
    if ((op->from && !kvc_fake_allocation(op->from)) || (op->to && !kvc_fake_allocation(op->to)))
        end("an address that is not the device's");
    if (op->peer < 0 || op->peer >= op->comm->count || fake.count == OPS)
        return ncclInvalidUsage;
    fake.op[fake.count++] = *op;
    if (fake.depth == 0)
        run();
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
    fake.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (fake.depth == 0)
        return ncclInvalidUsage;
    if (--fake.depth == 0)
        run();
    return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
    const struct op op = {
        {BROADCAST, root, count, comm->broadcasts++}, comm, root == comm->rank ? from : NULL, to, root};
    fake.broadcasts++;
    return type == ncclChar && stream ? add(&op) : ncclInvalidUsage;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    const struct op op = {{POINT, comm->rank, count, comm->sent[peer]++}, comm, from, NULL, peer};
    fake.sends++;
    return type == ncclChar && stream ? add(&op) : ncclInvalidUsage;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
    const struct op op = {{POINT, peer, count, comm->received[peer]++}, comm, NULL, to, peer};
    fake.receives++;
    return type == ncclChar && stream ? add(&op) : ncclInvalidUsage;
}
