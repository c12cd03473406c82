/* ranks.c - broadcasts calls to the other ranks, and gathers rows and statuses. */
#include "core/ranks/ranks.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(struct kvc_ranks *ranks) { ranks->link->class->end(ranks->link, "no memory for a message"); }

struct kvc_packet *kvc_call_begin(struct kvc_ranks *ranks, enum kvc_call call) {
    if (!kvc_ranks_several(ranks) || ranks->depth++ > 0 || ranks->link->rank != 0)
        return NULL;
    ranks->packet.bytes = ranks->packet.at = 0;
    kvc_packet_put_number(&ranks->packet, call);
    return &ranks->packet;
}

void kvc_call_broadcast(struct kvc_ranks *ranks) {
    struct kvc_link *link = ranks->link;
    uint64_t bytes = ranks->packet.bytes;
    if (ranks->packet.broken)
        out_of_memory(ranks);
    KVC_ASSERT(link->rank == 0 && bytes > 0);
    link->class->await(link, &bytes, sizeof bytes);
    link->class->broadcast(link, ranks->packet.data, ranks->packet.bytes, 0);
}

/* Gathers `bytes` bytes from each rank of a link and returns them as an array [link->count, bytes]. If memory is
 * lacking, the function ends all ranks. */
static void *gather_each(struct kvc_ranks *ranks, struct kvc_link *link, const void *mine, size_t bytes) {
    size_t *sizes = malloc(2 * link->count * sizeof *sizes);
    void *all = malloc(link->count * bytes);
    if (!sizes || !all)
        out_of_memory(ranks);
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = bytes;
        sizes[link->count + r] = r * bytes;
    }
    link->class->gather(link, mine, all, sizes, sizes + link->count);
    free(sizes);
    return all;
}

void kvc_ranks_add(struct kvc_ranks *ranks, uint64_t *numbers, size_t count) {
    uint64_t *all = gather_each(ranks, ranks->link, numbers, count * sizeof *numbers);
    memset(numbers, 0, count * sizeof *numbers);
    for (size_t i = 0; i < ranks->link->count * count; i++)
        numbers[i % count] += all[i];
    free(all);
}

void kvc_ranks_maximum(struct kvc_ranks *ranks, struct kvc_link *of, uint64_t *numbers, size_t count) {
    uint64_t *all = gather_each(ranks, of, numbers, count * sizeof *numbers);
    for (size_t i = 0; i < of->count * count; i++)
        if (all[i] > numbers[i % count])
            numbers[i % count] = all[i];
    free(all);
}

bool kvc_ranks_agree(struct kvc_ranks *ranks, uint64_t number, uint32_t *rank, uint64_t *other) {
    uint64_t *all = gather_each(ranks, ranks->link, &number, sizeof number);
    uint32_t r = 1;
    while (r < ranks->link->count && all[r] == all[0])
        r++;
    const bool agree = r >= ranks->link->count;
    *rank = agree ? 0 : r;
    *other = all[*rank];
    free(all);
    return agree;
}

/* The result of a call on one rank. */
struct outcome {
    uint32_t status;
    char text[252];
};

enum kvc_status kvc_call_end(struct kvc_ranks *ranks, enum kvc_status status, const struct kvc_error *error) {
    KVC_ASSERT(!kvc_ranks_several(ranks) || ranks->depth > 0);
    struct outcome mine = {(uint32_t)status, ""}, *all;
    char text[400];
    if (!kvc_ranks_several(ranks) || --ranks->depth > 0)
        return status;
    struct kvc_link *link = ranks->link;
    if (status != KVC_OK && error)
        snprintf(mine.text, sizeof mine.text, "%.251s", error->text);
    if (status == KVC_RESOURCE) /* the others may wait for this rank's part of a row */
        link->class->end(link, mine.text[0] ? mine.text : "out of memory");
    all = gather_each(ranks, link, &mine, sizeof mine);
    for (uint32_t r = 1; r < link->count && link->rank == 0; r++) { /* the others then wait until rank 0 ends them */
        if (all[r].status == all[0].status)
            continue;
        snprintf(text, sizeof text, "rank 0 has status %u and rank %u has %u%s%.251s", all[0].status, r, all[r].status,
                 all[r].text[0] ? ": " : "", all[r].text);
        link->class->end(link, text);
    }
    free(all);
    return status;
}

unsigned kvc_call_out(struct kvc_ranks *ranks) {
    const unsigned depth = ranks ? ranks->depth : 0;
    if (ranks)
        ranks->depth = 0;
    return depth;
}

int kvc_call_back(struct kvc_ranks *ranks, unsigned depth, int value) {
    if (!kvc_ranks_several(ranks))
        return value;
    if (ranks->link->rank == 0) {
        struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_RETURN);
        kvc_packet_put_number(packet, (uint64_t)(int64_t)value);
        kvc_call_broadcast(ranks);
    } else {
        value = ranks->follow(ranks);
    }
    ranks->depth = depth;
    return value;
}

/* Returns a buffer of at least `floats` floats. */
static float *grown(struct kvc_ranks *ranks, float **room, size_t *capacity, size_t floats) {
    if (floats > *capacity) {
        free(*room);
        *room = floats <= SIZE_MAX / sizeof **room ? malloc(floats * sizeof **room) : NULL;
        *capacity = floats;
        if (!*room)
            out_of_memory(ranks);
    }
    return *room;
}

float *kvc_ranks_buffer(struct kvc_ranks *ranks, size_t floats) {
    return grown(ranks, &ranks->room, &ranks->room_capacity, floats);
}

/* Gathers rows with one message per part. Each part arrives in its final place. */
static void gather_in_place(struct kvc_ranks *ranks, const float *mine, uint32_t rows, const size_t *widths,
                            size_t width, float *out) {
    struct kvc_link *link = ranks->rows.link;
    const size_t own = rows * widths[link->rank];
    KVC_ASSERT(own <= rows * width);
    if (own && mine < out + rows * width && out < mine + own) {
        float *copy = grown(ranks, &ranks->gathered, &ranks->gathered_capacity, own);
        memcpy(copy, mine, own * sizeof *copy);
        mine = copy;
    }
    link->class->gather_rows(link, mine, rows, widths, out);
}

void kvc_ranks_gather_rows(struct kvc_ranks *ranks, const float *mine, uint32_t rows, const size_t *widths,
                           float *out) {
    struct kvc_link *link = ranks->rows.link;
    size_t sum = 0;
    for (uint32_t r = 0; r < link->count; r++)
        sum += widths[r];
    if (rows > 1 && link->class->gather_rows) {
        gather_in_place(ranks, mine, rows, widths, sum, out);
        return;
    }
    size_t *sizes = malloc(2 * link->count * sizeof *sizes), *offsets = sizes + link->count, width = 0;
    if (!sizes)
        out_of_memory(ranks);
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = rows * widths[r] * sizeof *mine;
        offsets[r] = rows * width * sizeof *mine;
        width += widths[r];
    }
    float *all = grown(ranks, &ranks->gathered, &ranks->gathered_capacity, rows * width);
    KVC_ASSERT(width == sum);
    link->class->gather(link, mine, all, sizes, offsets);
    size_t at = 0;
    for (uint32_t r = 0; r < link->count; at += widths[r++])
        for (size_t row = 0; row < rows; row++)
            memcpy(out + row * width + at, all + offsets[r] / sizeof *all + row * widths[r], widths[r] * sizeof *out);
    free(sizes);
}
