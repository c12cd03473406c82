/* arenas.c - device memory, with one arena for each kind of memory. An arena owns allocations: slabs that small buffers
 * share, and one allocation for each large buffer. An allocation is freed as soon as all of its pieces are free. All
 * work runs in the order of one stream, so a freed piece may be taken again at once. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "core/base/assert.h"

#define KVC_SLAB_BYTES ((size_t)4 << 20)
#define KVC_SHARED_BELOW ((size_t)1 << 20) /* larger pieces have allocations of their own */
#define KVC_PIECE ((size_t)256)            /* pieces begin at multiples of this size */
/* unused bytes after every piece, because kernels/small_batch.h may load bytes beyond the end of the weights */
#define KVC_PADDING ((size_t)512)

struct kvc_cuda_allocation {
    struct kvc_cuda_allocation *next; /* next allocation of the same kind */
    unsigned char *data;
    size_t bytes, piece_count, piece_capacity;
    struct piece { /* all pieces of the allocation, ascending */
        size_t first, bytes;
        bool taken;
    } * piece;
};

/* Adds an allocation with one free piece to the arena. Returns NULL if memory runs out. */
static struct kvc_cuda_allocation *arenas_add(struct kvc_cuda_allocation **arena, size_t bytes) {
    struct kvc_cuda_allocation *made = calloc(1, sizeof *made);
    void *data = NULL;
    if (!made)
        return NULL;
    made->piece_count = made->piece_capacity = 1;
    made->piece = malloc(sizeof *made->piece);
    if (!made->piece || cudaMalloc(&data, bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* clears the error; the caller reports how much memory is missing */
        free(made->piece);
        free(made);
        return NULL;
    }
    made->piece[0] = (struct piece){0, bytes, false};
    made->data = data;
    made->bytes = bytes;
    made->next = *arena;
    *arena = made;
    return made;
}

static void arenas_release(struct kvc_cuda_allocation *allocation) {
    (void)cudaFree(allocation->data);
    free(allocation->piece);
    free(allocation);
}

static bool reserve_one_more(struct kvc_cuda_allocation *allocation) {
    struct piece *grown;
    if (allocation->piece_count < allocation->piece_capacity)
        return true;
    grown = realloc(allocation->piece, 2 * allocation->piece_capacity * sizeof *grown);
    if (!grown)
        return false;
    allocation->piece = grown;
    allocation->piece_capacity *= 2;
    return true;
}

/* Takes the first free piece that is large enough, and splits off the part that is not needed. */
static void *take_piece(struct kvc_cuda_allocation *allocation, size_t bytes) {
    for (size_t i = 0; i < allocation->piece_count; i++) {
        if (allocation->piece[i].taken || allocation->piece[i].bytes < bytes)
            continue;
        if (allocation->piece[i].bytes > bytes) {
            struct piece *piece;
            if (!reserve_one_more(allocation))
                return NULL;
            piece = &allocation->piece[i];
            memmove(piece + 2, piece + 1, (allocation->piece_count - i - 1) * sizeof *piece);
            piece[1] = (struct piece){piece->first + bytes, piece->bytes - bytes, false};
            piece->bytes = bytes;
            allocation->piece_count++;
        }
        KVC_ASSERT(allocation->piece[i].bytes == bytes);
        allocation->piece[i].taken = true;
        return allocation->data + allocation->piece[i].first;
    }
    return NULL;
}

/* Joins piece i with the next one if both are free. */
static void arenas_join(struct kvc_cuda_allocation *allocation, size_t i) {
    struct piece *piece = &allocation->piece[i];
    if (i + 1 >= allocation->piece_count || piece->taken || piece[1].taken)
        return;
    KVC_ASSERT(piece->first + piece->bytes == piece[1].first);
    piece->bytes += piece[1].bytes;
    memmove(piece + 1, piece + 2, (allocation->piece_count - i - 2) * sizeof *piece);
    allocation->piece_count--;
}

static void give_piece(struct kvc_cuda_allocation *allocation, size_t first) {
    for (size_t i = 0; i < allocation->piece_count; i++)
        if (allocation->piece[i].first == first) {
            KVC_ASSERT(allocation->piece[i].taken);
            allocation->piece[i].taken = false;
            arenas_join(allocation, i);
            if (i > 0)
                arenas_join(allocation, i - 1);
            return;
        }
}

void *kvc_cuda_take(struct kvc_cuda *cuda, enum kvc_memory_kind kind, size_t bytes) {
    struct kvc_cuda_allocation **arena = &cuda->arena[kind], *allocation;
    const bool shared = bytes < KVC_SHARED_BELOW;
    if (bytes > SIZE_MAX - KVC_PADDING - KVC_PIECE)
        return NULL;
    bytes = (bytes + KVC_PADDING + KVC_PIECE - 1) / KVC_PIECE * KVC_PIECE;
    KVC_ASSERT(!shared || bytes <= KVC_SLAB_BYTES);
    for (allocation = *arena; shared && allocation; allocation = allocation->next) {
        void *memory = take_piece(allocation, bytes);
        if (memory)
            return memory;
    }
    allocation = arenas_add(arena, shared ? KVC_SLAB_BYTES : bytes);
    return allocation ? take_piece(allocation, bytes) : NULL;
}

/* Finds the allocation that contains an address. Returns the location of the list's pointer to that allocation. */
static struct kvc_cuda_allocation **arenas_find(struct kvc_cuda *cuda, const unsigned char *at) {
    for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++)
        for (struct kvc_cuda_allocation **link = &cuda->arena[kind]; *link; link = &(*link)->next)
            if (at >= (*link)->data && at < (*link)->data + (*link)->bytes)
                return link;
    return NULL;
}

void kvc_cuda_free_piece(struct kvc_cuda *cuda, void *memory) {
    struct kvc_cuda_allocation **link = arenas_find(cuda, memory), *allocation;
    if (!link)
        return;
    allocation = *link;
    KVC_ASSERT(((unsigned char *)memory - allocation->data) % (ptrdiff_t)KVC_PIECE == 0);
    give_piece(allocation, (size_t)((unsigned char *)memory - allocation->data));
    if (allocation->piece_count > 1 || allocation->piece[0].taken)
        return;
    *link = allocation->next;
    kvc_cuda_send(cuda); /* recorded calls may use this memory */
    (void)kvc_cuda_good(cuda, cudaStreamSynchronize(cuda->stream), "the device");
    arenas_release(allocation);
}

void kvc_cuda_arenas_close(struct kvc_cuda *cuda) {
    for (unsigned kind = 0; kind < KVC_MEMORY_KINDS; kind++)
        while (cuda->arena[kind]) {
            struct kvc_cuda_allocation *allocation = cuda->arena[kind];
            cuda->arena[kind] = allocation->next;
            arenas_release(allocation);
        }
}
