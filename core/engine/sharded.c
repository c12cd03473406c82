/* sharded.c - gathers the outputs of a layer, of which each rank computes a part: from device to device if the link
 * supports it, otherwise through the host. If a rank is out of memory it ends all ranks, because the others wait for
 * its part. */
#include "core/engine/sharded.h"

#include "core/base/assert.h"
#include "core/engine/runner.h"
#include "core/ranks/direct.h"

#include <stdlib.h>

enum {
    ROWS_IN_INTEGERS =
        16,      /* with at least this number of rows, inputs of int8 and int16 layers are gathered quantized */
    ALIGNED = 64 /* alignment, in bytes, of arrays that share a buffer */
};

static size_t round_up(size_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

static struct kvc_ranks *ranks_of(const struct kvc_runner *runner) {
    return runner->network ? runner->network->part.ranks : NULL;
}

bool kvc_sharded_splits(const struct kvc_runner *runner, uint64_t N) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    return ranks && kvc_split_shares(N, &ranks->rows.split);
}

uint64_t kvc_sharded_own(const struct kvc_runner *runner, uint64_t N) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    return ranks ? kvc_split_outputs(N, &ranks->rows.split, ranks->rows.link->rank).count : N;
}

static struct kvc_span sharded_reserve(struct kvc_runner *runner, struct kvc_growable *room, size_t bytes) {
    const struct kvc_ranks *ranks = ranks_of(runner);
    struct kvc_error error;
    if (kvc_growable_reserve(runner->device, room, bytes, &error) != KVC_OK)
        ranks->link->class->end(ranks->link, error.text);
    return kvc_growable_at(room, 0);
}

struct kvc_span kvc_sharded_buffer(struct kvc_runner *runner, size_t floats) {
    return sharded_reserve(runner, &runner->part, floats * sizeof(float));
}

/* Gathers y [rows, sum of ranks->widths] from all ranks' parts. This rank's part is [rows, own width]; it is not read
 * if that width is 0. If the host cannot access device memory, the parts are copied through host memory. */
static void sharded_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows) {
    struct kvc_ranks *ranks = ranks_of(runner);
    struct kvc_device *device = runner->device;
    const size_t mine = rows * ranks->widths[ranks->rows.link->rank] * sizeof(float);
    size_t all = 0;
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        all += rows * ranks->widths[r] * sizeof(float);
    struct kvc_direct *direct = kvc_direct_of(ranks->rows.link, device);
    KVC_ASSERT(mine <= all);
    if (direct) {
        kvc_direct_gather_rows(direct, y, part, rows, ranks->widths, sharded_reserve(runner, &runner->gathered, all));
        return;
    }
    float *from = mine ? device->ops->reach(device, part, mine) : NULL, *to = device->ops->reach(device, y, all);
    if (to) {
        kvc_ranks_gather_rows(ranks, from, rows, ranks->widths, to);
        return;
    }
    from = kvc_ranks_buffer(ranks, (mine + all) / sizeof *from);
    to = from + mine / sizeof *from;
    if (mine)
        device->ops->download(device, from, part, mine);
    kvc_ranks_gather_rows(ranks, from, rows, ranks->widths, to);
    device->ops->upload(device, y, to, all);
}

static bool is_sharded(const struct kvc_runner *runner, uint64_t N, enum kvc_ownership parts) {
    return parts == KVC_OUTPUTS ? kvc_sharded_splits(runner, N)
                                : parts == KVC_HEADS && ranks_of(runner) && runner->network->part.heads_sharded;
}

/* Writes the number of columns of each rank to ranks->widths. Returns false if every rank has all columns. */
static bool find_widths(const struct kvc_runner *runner, uint64_t N, enum kvc_ownership parts) {
    if (!is_sharded(runner, N, parts))
        return false;
    struct kvc_ranks *ranks = ranks_of(runner);
    const struct kvc_split *split = &ranks->rows.split;
    const uint32_t heads = runner->network->part.kv_heads;
    KVC_ASSERT(parts != KVC_HEADS || N % heads == 0);
    for (uint32_t r = 0; r < split->ranks; r++)
        ranks->widths[r] = parts == KVC_HEADS ? (size_t)(N / heads) * kvc_split_owned_heads(heads, split, r)
                                              : (size_t)kvc_split_outputs(N, split, r).count;
    return true;
}

void kvc_sharded_gather(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, uint64_t N,
                        enum kvc_ownership parts) {
    if (find_widths(runner, N, parts))
        sharded_gather(runner, y, part, rows);
}

/* Gathers one array of quantized rows. Converts ranks->widths, which count `was` floats per block, to `floats` floats
 * per block, the size of this array. */
static void gather_array(struct kvc_runner *runner, struct kvc_span y, struct kvc_span part, uint32_t rows, size_t was,
                         size_t floats) {
    struct kvc_ranks *ranks = ranks_of(runner);
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++) {
        KVC_ASSERT(ranks->widths[r] % was == 0);
        ranks->widths[r] = ranks->widths[r] / was * floats;
    }
    sharded_gather(runner, y, part, rows);
}

/* Finds the width of each rank's part, in floats. Returns false if rows are not gathered as integers: there are few, or
 * a part is not a whole number of blocks. */
static bool find_blocks(struct kvc_runner *runner, uint32_t rows, uint64_t N, enum kvc_ownership parts, size_t block) {
    struct kvc_ranks *ranks = ranks_of(runner);
    if (rows < ROWS_IN_INTEGERS || !find_widths(runner, N, parts))
        return false;
    for (uint32_t r = 0; r < ranks->rows.split.ranks; r++)
        if (ranks->widths[r] % block)
            return false;
    KVC_ASSERT(ranks->widths[ranks->rows.link->rank] <= N && N % block == 0);
    return true;
}

bool kvc_sharded_gather_int8(struct kvc_runner *runner, struct kvc_int8_rows y, struct kvc_span part, uint32_t rows,
                             uint64_t N, enum kvc_ownership parts) {
    struct kvc_ranks *ranks = ranks_of(runner);
    if (!find_blocks(runner, rows, N, parts, KVC_SPLIT_BLOCK))
        return false;
    const size_t own = ranks->widths[ranks->rows.link->rank], quants = rows * own, scales = round_up(quants / 8);
    struct kvc_int8_rows mine;
    mine.quant = mine.scale = mine.sum =
        sharded_reserve(runner, &runner->part_quants, round_up(quants) + scales + quants / 4);
    mine.scale.offset += round_up(quants);
    mine.sum.offset += round_up(quants) + scales;
    if (own)
        runner->device->ops->quantize_rows(
            runner->device, &(struct kvc_quantize_rows){.y = mine, .x = part, .rows = rows, .K = (uint32_t)own});
    gather_array(runner, y.quant, mine.quant, rows, KVC_SPLIT_BLOCK, 8);
    gather_array(runner, y.scale, mine.scale, rows, 8, 1);
    gather_array(runner, y.sum, mine.sum, rows, 1, 2);
    return true;
}

bool kvc_sharded_gather_int16(struct kvc_runner *runner, struct kvc_int16_rows y, struct kvc_span part, uint32_t rows,
                              uint64_t N, enum kvc_ownership parts) {
    struct kvc_ranks *ranks = ranks_of(runner);
    if (!find_blocks(runner, rows, N, parts, KVC_INT16_BLOCK))
        return false;
    const size_t own = ranks->widths[ranks->rows.link->rank], values = rows * own;
    struct kvc_int16_rows mine;
    mine.quant = mine.scale =
        sharded_reserve(runner, &runner->part_quants, round_up(values * 2) + values / KVC_INT16_BLOCK * 4);
    mine.scale.offset += round_up(values * 2);
    if (own)
        runner->device->ops->quantize_rows_int16(
            runner->device, &(struct kvc_quantize_rows_int16){.y = mine, .x = part, .rows = rows, .K = (uint32_t)own});
    gather_array(runner, y.quant, mine.quant, rows, KVC_INT16_BLOCK, KVC_INT16_BLOCK / 2);
    gather_array(runner, y.scale, mine.scale, rows, KVC_INT16_BLOCK / 2, 1);
    return true;
}
