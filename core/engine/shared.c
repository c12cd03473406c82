/* shared.c - gathers what ranks compute of a layer: from device to device where the link has a way, otherwise through
 * the host. A rank that lacks memory ends all, since the others wait for its part. */
#include "core/engine/shared.h"

#include "core/engine/runner.h"
#include "core/ranks/direct.h"

#include <stdlib.h>

static struct kvc_ranks *ranks_of(const struct kvc_runner *runner) {
    return runner->network ? runner->network->part.ranks : NULL;
}

bool kvc_shared_splits(const struct kvc_runner *runner, uint64_t N) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    return ranks && kvc_split_shares(N, &ranks->rows.split);
}

uint64_t kvc_shared_own(const struct kvc_runner *runner, uint64_t N) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    return ranks ? kvc_split_outputs(N, &ranks->rows.split, ranks->rows.link->rank).count : N;
}

static struct kvc_span reserve(struct kvc_runner *runner, struct kvc_growable *room, size_t bytes) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    struct kvc_error error;
    if (kvc_growable_reserve(runner->device, room, bytes, &error) != KVC_OK)
        ranks->link->class->end(ranks->link, error.text);
    return kvc_growable_at(room, 0);
}

struct kvc_span kvc_shared_room(struct kvc_runner *runner, size_t floats) {
    return reserve(runner, &runner->part, floats * sizeof(float));
}

/* y [rows, sum of widths] = all ranks' parts, whose widths stand in ranks->widths; this rank's is part [rows, own], of
 * which nothing counts where its width is 0. What the host does not reach goes through its memory. */
static void gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows) {
    struct kvc_ranks *ranks = ranks_of(runner);
    struct kvc_device *device = runner->device;
    const size_t mine = rows * ranks->widths[ranks->rows.link->rank] * sizeof(float);
    size_t all = 0;
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        all += rows * ranks->widths[r] * sizeof(float);
    struct kvc_direct *direct = kvc_direct_of(ranks->rows.link, device);
    if (direct) {
        kvc_direct_gather_rows(direct, y, part, rows, ranks->widths, reserve(runner, &runner->gathered, all));
        return;
    }
    float *from = mine ? device->ops->reach(device, part, mine) : NULL, *to = device->ops->reach(device, y, all);
    if (to) {
        kvc_ranks_gather_rows(ranks, from, rows, ranks->widths, to);
        return;
    }
    from = kvc_ranks_room(ranks, (mine + all) / sizeof *from);
    to = from + mine / sizeof *from;
    if (mine)
        device->ops->download(device, from, part, mine);
    kvc_ranks_gather_rows(ranks, from, rows, ranks->widths, to);
    device->ops->upload(device, y, to, all);
}

void kvc_shared_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, uint64_t N) {
    struct kvc_ranks *ranks = ranks_of(runner);
    if (!kvc_shared_splits(runner, N))
        return;
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        ranks->widths[r] = (size_t)kvc_split_outputs(N, &ranks->rows.split, r).count;
    gather(runner, y, part, rows);
}

void kvc_shared_gather_heads(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows) {
    struct kvc_ranks *ranks = ranks_of(runner);
    const struct kvc_network *network = runner->network;
    if (!ranks || !network->part.heads_shared)
        return;
    const size_t each = (size_t)network->part.heads / network->part.kv_heads * network->head_size;
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        ranks->widths[r] = each * kvc_split_owned_heads(network->part.kv_heads, &ranks->rows.split, r);
    gather(runner, y, part, rows);
}
