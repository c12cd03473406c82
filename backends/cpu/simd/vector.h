/* vector.h - template: attention, norm, rope and the rest, all templates of this folder but the linear layers, and the
 * table of them; vector_<path>.c compiles it for one set of lanes. */
#ifndef KVC_SIMD_VECTOR_H
#define KVC_SIMD_VECTOR_H

#include "backends/cpu/simd/attention/attention.h"
#include "backends/cpu/simd/select/select.h"
#include "backends/cpu/simd/select/select_reads.h"
#include "backends/cpu/simd/scores/columns.h"
#include "backends/cpu/simd/select/keep_ring.h"
#include "backends/cpu/simd/cache.h"
#include "backends/cpu/simd/scores/mass.h"
#include "backends/cpu/simd/scores/moments.h"
#include "backends/cpu/simd/select/pages.h"
#include "backends/cpu/simd/scores/ring_fuse.h"
#include "backends/cpu/simd/rows.h"
#include "backends/cpu/simd/select/keep.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/rotate_keys.h"
#include "backends/cpu/simd/scores/rings.h"

static void fill_vector(struct kvc_ops *table) {
    table->embed = embed;
    table->norm = norm;
    table->rope = rope;
    table->gated_silu = gated_silu;
    table->add = add;
    table->blend = blend;
    table->gather = gather;
    table->append = append;
    table->drop = drop;
    table->attention = attention;
    table->identity = identity;
    table->evict = evict;
    table->turn_keys = turn_keys;
    table->relayout = relayout;
    table->window_mass = window_mass;
    table->window_moments = window_moments;
    table->accumulate = accumulate;
    table->ring_write = ring_write;
    table->ring_fuse = ring_fuse;
    table->column_scores = column_scores;
    table->scores_column = scores_column;
    table->pool = pool;
    table->group_scores = group_scores;
    table->keep = keep;
    table->keep_ring = keep_ring;
    table->shares = shares;
    table->pages_update = pages_update;
    table->select_scores = select_scores;
    table->select_reads = select_reads;
    table->select_scores_reads = select_scores_reads;
    table->value_sums = value_sums;
    table->mix_mean = mix_mean;
    table->fma_loop = fma_loop;
}

#endif
