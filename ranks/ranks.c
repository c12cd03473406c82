/* ranks.c - opens and closes the ranks and checks that all have the same build and options. */
#include "kvcull/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes_hash.h"
#include "core/ranks/ranks.h"
#include "ranks/common.h"
#include "ranks/direct.h"
#include "ranks/follow.h"
#include "ranks/links.h"
#include "ranks/ways.h"

bool kvc_ranks_started(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && atoi(size) > 1)
            return true;
    }
    return getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL;
}

static enum kvc_status ranks_compare(struct kvc_ranks *ranks, const char *how, const char *share,
                                     struct kvc_error *error) {
    struct kvc_link *link = ranks->link;
    const struct kvc_common mine = kvc_common_here(how, share);
    struct kvc_common *all = calloc(link->count, sizeof *all);
    size_t *sizes = malloc(2 * link->count * sizeof *sizes);
    if (!all || !sizes)
        link->class->end(link, "no memory");
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = sizeof mine;
        sizes[link->count + r] = r * sizeof mine;
    }
    link->class->gather(link, &mine, all, sizes, sizes + link->count);
    const enum kvc_status status = kvc_common_check(all, link->count, error);
    free(sizes);
    free(all);
    return status;
}

/* Sets up the teams of ranks that share layers or stages. */
static enum kvc_status open_ways(struct kvc_ranks *ranks, const char *how, const char *share, struct kvc_error *error) {
    struct kvc_ways ways;
    enum kvc_status status = kvc_ways_read(how, ranks->link->count, &ways, error);
    if (status == KVC_OK && share && ways.data)
        status = kvc_fail(error, KVC_USAGE,
                          "share: '%s': does not apply to --ranks data, where ranks take samples in turn", share);
    if (status == KVC_OK && share)
        status = kvc_ways_share(&ways, share, error);
    if (status != KVC_OK)
        return status;
    ranks->apart = ways.data;
    ranks->share = ways.share;
    ranks->widths = calloc(ways.tensor, sizeof *ranks->widths);
    if (!ranks->widths)
        ranks->link->class->end(ranks->link, "no memory for the ranks"); /* the other ranks are waiting */
    if (ways.data)
        return KVC_OK;
    status = kvc_ways_open(&ways, ranks, error);
    if (status != KVC_OK)
        ranks->link->class->end(ranks->link, error->text);
    return status;
}

static void free_ranks(struct kvc_ranks *ranks) {
    kvc_ways_close(ranks);
    if (ranks->link)
        ranks->link->class->close(ranks->link);
    kvc_packet_free(&ranks->packet);
    free(ranks->gathered);
    free(ranks->room);
    free(ranks->widths);
    free(ranks->share);
    free(ranks);
}

enum kvc_status kvc_ranks_open(const char *how, const char *share, struct kvc_ranks **ranks, struct kvc_error *error) {
    const char *given = how ? how : "tensor";
    struct kvc_ranks *made = calloc(1, sizeof *made);
    *ranks = NULL;
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "ranks: no memory");
    enum kvc_status status =
        kvc_ranks_started() ? kvc_link_open_mpi(&made->link, error) : kvc_link_open_single(&made->link, error);
    made->follow = kvc_follow;
    made->attach = kvc_direct_attach;
    if (status == KVC_OK)
        status = ranks_compare(made, given, share, error);
    if (status == KVC_OK)
        status = open_ways(made, given, share, error);
    if (status != KVC_OK) {
        if (made->link && made->link->rank != 0 && error)
            error->text[0] = '\0'; /* only rank 0 prints the error */
        free_ranks(made);
        return status;
    }
    *ranks = made;
    return KVC_OK;
}

void kvc_ranks_timeout(struct kvc_ranks *ranks, double seconds) {
    if (ranks->link->class->limit)
        ranks->link->class->limit(ranks->link, seconds);
}

double kvc_ranks_silence(const struct kvc_ranks *ranks, uint32_t *rank) {
    *rank = 0;
    return ranks->link->class->silence ? ranks->link->class->silence(ranks->link, rank) : 0;
}

uint32_t kvc_ranks_rank(const struct kvc_ranks *ranks) { return ranks->link->rank; }

uint32_t kvc_ranks_count(const struct kvc_ranks *ranks) { return ranks->link->count; }

uint32_t kvc_ranks_tensor(const struct kvc_ranks *ranks) { return ranks->apart ? 1 : ranks->rows.split.ranks; }

/* Adds up the messages, bytes and waiting times (ns) of this rank's links. */
static void add_up(const struct kvc_ranks *ranks, uint64_t sums[3]) {
    const struct kvc_link *const links[] = {ranks->link, ranks->rows.link, ranks->stages.link};
    memset(sums, 0, 3 * sizeof *sums);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (!links[i] || (i > 0 && links[i] == ranks->link))
            continue;
        sums[0] += links[i]->messages;
        sums[1] += links[i]->bytes;
        sums[2] += links[i]->waited;
    }
}

static struct kvc_ranks_traffic traffic_of(const uint64_t sums[3]) {
    return (struct kvc_ranks_traffic){sums[0], sums[1], (double)sums[2] / 1e9};
}

void kvc_ranks_traffic(const struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic) {
    uint64_t sums[3];
    add_up(ranks, sums);
    *traffic = traffic_of(sums);
}

void kvc_ranks_all_traffic(struct kvc_ranks *ranks, struct kvc_ranks_traffic *traffic) {
    struct kvc_link *link = ranks->link;
    const uint64_t messages = link->messages, bytes = link->bytes, waited = link->waited;
    uint64_t sums[3];
    add_up(ranks, sums);
    if (kvc_call_begin(ranks, KVC_CALL_TRAFFIC))
        kvc_call_broadcast(ranks);
    if (kvc_ranks_several(ranks))
        kvc_ranks_add(ranks, sums, 3);
    (void)kvc_call_end(ranks, KVC_OK, NULL);
    link->messages = messages;
    link->bytes = bytes;
    link->waited = waited;
    *traffic = traffic_of(sums);
}

void kvc_ranks_follow(struct kvc_ranks *ranks) {
    if (ranks->link->rank != 0 && !ranks->apart)
        (void)kvc_follow(ranks);
}

void kvc_ranks_gather(struct kvc_ranks *ranks, const void *mine, size_t bytes, void **all, size_t *sizes) {
    struct kvc_link *link = ranks->link;
    const uint32_t count = link->count;
    size_t *offsets = malloc(2 * count * sizeof *offsets), *each = offsets + count, total = 0;
    if (!offsets)
        link->class->end(link, "no memory for results");
    for (uint32_t r = 0; r < count; r++) {
        each[r] = sizeof bytes;
        offsets[r] = r * sizeof bytes;
    }
    link->class->gather(link, &bytes, sizes, each, offsets);
    for (uint32_t r = 0; r < count; r++) {
        offsets[r] = total;
        total += sizes[r];
    }
    *all = malloc(total + 1);
    if (!*all)
        link->class->end(link, "no memory for results");
    link->class->gather(link, mine, *all, sizes, offsets);
    free(offsets);
}

bool kvc_ranks_same_bytes(struct kvc_ranks *ranks, const void *bytes, size_t count, uint32_t *rank) {
    uint64_t other;
    return kvc_ranks_agree(ranks, kvc_bytes_hash(count, bytes, count), rank, &other);
}

void kvc_ranks_close(struct kvc_ranks *ranks) {
    if (!ranks)
        return;
    if (kvc_call_begin(ranks, KVC_CALL_LEAVE))
        kvc_call_broadcast(ranks);
    kvc_follow_free(ranks);
    free_ranks(ranks);
}
