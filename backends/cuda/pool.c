/* pool.c - device memory. Every allocation is a plain one; buffers too small for that share slabs, which grow in number
 * and never move. All use is in the order of one stream, so memory given back may be taken again at once. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

#define KVC_SLAB_BYTES ((size_t)4 << 20)
#define KVC_SHARED_BELOW ((size_t)1 << 20) /* larger pieces are allocations of their own */
#define KVC_PIECE ((size_t)256)            /* pieces begin at multiples of it */
#define KVC_BEHIND ((size_t)512)           /* bytes behind every piece: few.h loads whole stages */

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* the caller says how much is missing */
        return NULL;
    }
    return memory;
}

static void release(struct kvc_cuda *cuda, void *memory) {
    if (!memory)
        return;
    kvc_cuda_send(cuda);
    (void)kvc_cuda_good(cuda, cudaStreamSynchronize(cuda->stream), "the device");
    (void)cudaFree(memory);
}

static struct kvc_cuda_slab *add_slab(struct kvc_cuda *cuda) {
    struct kvc_cuda_slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        return NULL;
    slab->bytes = KVC_SLAB_BYTES;
    slab->piece_room = 64;
    slab->piece = malloc(slab->piece_room * sizeof *slab->piece);
    slab->data = slab->piece ? allocate(slab->bytes) : NULL;
    if (!slab->data) {
        free(slab->piece);
        free(slab);
        return NULL;
    }
    slab->piece[0] = (struct kvc_cuda_piece){0, slab->bytes, false};
    slab->piece_count = 1;
    slab->next = cuda->slabs;
    cuda->slabs = slab;
    return slab;
}

static bool room_for_one_more(struct kvc_cuda_slab *slab) {
    struct kvc_cuda_piece *grown;
    if (slab->piece_count < slab->piece_room)
        return true;
    grown = realloc(slab->piece, 2 * slab->piece_room * sizeof *grown);
    if (!grown)
        return false;
    slab->piece = grown;
    slab->piece_room *= 2;
    return true;
}

/* The first free piece that is large enough, cut to size. */
static void *take_piece(struct kvc_cuda_slab *slab, size_t bytes) {
    for (size_t i = 0; i < slab->piece_count; i++) {
        if (slab->piece[i].taken || slab->piece[i].bytes < bytes)
            continue;
        if (slab->piece[i].bytes > bytes) {
            struct kvc_cuda_piece *piece;
            if (!room_for_one_more(slab))
                return NULL;
            piece = &slab->piece[i];
            memmove(piece + 2, piece + 1, (slab->piece_count - i - 1) * sizeof *piece);
            piece[1] = (struct kvc_cuda_piece){piece->first + bytes, piece->bytes - bytes, false};
            piece->bytes = bytes;
            slab->piece_count++;
        }
        slab->piece[i].taken = true;
        return slab->data + slab->piece[i].first;
    }
    return NULL;
}

/* Joins piece i with the one behind it where both are free. */
static void join(struct kvc_cuda_slab *slab, size_t i) {
    struct kvc_cuda_piece *piece = &slab->piece[i];
    if (i + 1 >= slab->piece_count || piece->taken || piece[1].taken)
        return;
    piece->bytes += piece[1].bytes;
    memmove(piece + 1, piece + 2, (slab->piece_count - i - 2) * sizeof *piece);
    slab->piece_count--;
}

void *kvc_cuda_take(struct kvc_cuda *cuda, size_t bytes) {
    struct kvc_cuda_slab *slab;
    if (bytes >= KVC_SHARED_BELOW)
        return bytes <= SIZE_MAX - KVC_BEHIND ? allocate(bytes + KVC_BEHIND) : NULL;
    bytes = (bytes + KVC_BEHIND + KVC_PIECE - 1) / KVC_PIECE * KVC_PIECE;
    for (slab = cuda->slabs; slab; slab = slab->next) {
        void *memory = take_piece(slab, bytes);
        if (memory)
            return memory;
    }
    slab = add_slab(cuda);
    return slab ? take_piece(slab, bytes) : NULL;
}

static void give_piece(struct kvc_cuda_slab *slab, size_t first) {
    for (size_t i = 0; i < slab->piece_count; i++)
        if (slab->piece[i].first == first) {
            slab->piece[i].taken = false;
            join(slab, i);
            if (i > 0)
                join(slab, i - 1);
            return;
        }
}

void kvc_cuda_give(struct kvc_cuda *cuda, void *memory) {
    unsigned char *at = memory;
    for (struct kvc_cuda_slab **link = &cuda->slabs, *slab; (slab = *link) != NULL; link = &slab->next) {
        if (at < slab->data || at >= slab->data + slab->bytes)
            continue;
        give_piece(slab, (size_t)(at - slab->data));
        if (slab->piece_count == 1 && slab->next) { /* empty, and not the first: given back */
            *link = slab->next;
            release(cuda, slab->data);
            free(slab->piece);
            free(slab);
        }
        return;
    }
    release(cuda, memory);
}

void kvc_cuda_pool_close(struct kvc_cuda *cuda) {
    while (cuda->slabs) {
        struct kvc_cuda_slab *slab = cuda->slabs;
        cuda->slabs = slab->next;
        (void)cudaFree(slab->data);
        free(slab->piece);
        free(slab);
    }
}
