/* select_job.h - template: the data of a select_scores call: its tasks, a thread's scratch memory, and a head. */
#ifndef KVC_SIMD_SELECT_SELECT_JOB_H
#define KVC_SIMD_SELECT_SELECT_JOB_H

#include "backends/cpu/simd/attention/integer_tile.h"
#include "backends/cpu/simd/attention/packed.h"
#include "backends/cpu/simd/select/select_reads.h"
#include "backends/cpu/stealing.h"

struct select_job {
    struct kvc_cpu *cpu;
    const struct kvc_select_scores *call;
    const struct kvc_select_reads *reads; /* NULL: only scores are computed */
    uint32_t group, d, splits, step;      /* step: 0 for all steps, or 1 to 3 */
    uint32_t units_most, tiles_most, blocks_most;
    bool paged; /* true if pages are scored instead of entries */
    unsigned char *shared;
    size_t shared_bytes;
    struct select_prefetch *ahead; /* [threads]; used if entries are also chosen */
};

/* Values of one head if `splits` is 1, otherwise of all heads. e[h * row + i] belongs to query head h and unit i. A
 * unit is an entry or a page. */
struct select_values {
    float *e, *most, *sum; /* e [heads, row]; most [heads, splits], NaN if a score is NaN; sum [heads, tiles] */
};

struct select_work {
    const unsigned char **block, **keys; /* [2, blocks]: of this head and of the previous one; [2 * KVC_TILE] */
    float *q, *wide, *s, *transposed;    /* [G, padded], [LANES, padded], [G, KVC_TILE], [padded, LANES] */
    int32_t *channel_keys;               /* [d + one vector] */
    uint32_t *channel;                   /* [dims] */
    struct dot_channel *dots;            /* [d] */
    float *factor, *most;                /* [G]; `factor` later holds the factors of the exponentials */
    int32_t *read_keys;                  /* scratch memory of read_head */
    struct integer_work integer;
    struct rewritten rewritten;
    struct select_values own;
};

INLINE size_t select_row(const struct select_job *job) {
    return ((size_t)job->units_most + KVC_LANES - 1) / KVC_LANES * KVC_LANES + KVC_LANES;
}

static struct select_values bump_values(struct bump *at, const struct select_job *job, size_t heads) {
    struct select_values values;
    values.e = bump_take(at, heads * select_row(job) * sizeof(float));
    values.most = bump_take(at, heads * job->splits * sizeof(float));
    values.sum = bump_take(at, heads * job->tiles_most * sizeof(float));
    return values;
}

static size_t lay_out_choose(const struct select_job *job, struct select_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t d = padded_size(job->d), f = sizeof(float);
    work->block = bump_take(&at, 2 * (size_t)job->blocks_most * sizeof *work->block);
    work->keys = bump_take(&at, 2 * KVC_TILE * sizeof *work->keys);
    work->q = bump_take(&at, job->group * d * f);
    work->wide = bump_take(&at, LANES * d * f);
    work->s = bump_take(&at, (size_t)job->group * KVC_TILE * f);
    work->transposed = bump_take(&at, LANES * d * f);
    work->channel_keys = bump_take(&at, (d + LANES) * sizeof(int32_t));
    work->channel = bump_take(&at, d * sizeof(uint32_t));
    work->dots = bump_take(&at, d * sizeof *work->dots);
    work->factor = bump_take(&at, job->group * f);
    work->most = bump_take(&at, job->group * f);
    work->read_keys = bump_take(&at, job->reads ? 3 * keys_capacity(job->units_most) * sizeof(int32_t) : 0);
    work->integer.kernels =
        job->call->kind == KVC_SCORE_EXACT && kvc_scores_integers(job->call->scoring, &job->call->lists->format)
            ? kvc_integers_for(job->cpu, job->group)
            : NULL;
    if (work->integer.kernels)
        integer_lay_out(&at, job->d, job->group, false, &work->integer);
    const enum kvc_type type = job->call->lists->format.key.type;
    const enum kvc_type read = side_read_type(type, work->integer.kernels != NULL);
    work->rewritten = (struct rewritten){.rows = NULL};
    if (job->call->kind == KVC_SCORE_EXACT && read != type)
        rewritten_lay_out(&at, read, job->d, false, &work->rewritten);
    work->own = job->splits == 1 ? bump_values(&at, job, job->group) : (struct select_values){NULL, NULL, NULL};
    return at.used;
}

/* One head of the call. */
struct select_head {
    struct head_entries entries;
    uint32_t h, page, units;       /* page: number of entries per unit */
    uint32_t low, first;           /* low: the first entry that is seen; first: the first unit that contains such an
                                    * entry */
    struct select_values values;   /* these begin at the head's first query head */
    float *scores, *probabilities; /* where the results go; probabilities may be NULL */
    size_t probability_stride;
};

#endif
