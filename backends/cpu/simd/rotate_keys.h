/* rotate_keys.h - template: rotates keys again, to their cache positions. */
#ifndef KVC_SIMD_ROTATE_KEYS_H
#define KVC_SIMD_ROTATE_KEYS_H

#include "core/base/integers.h"
#include "backends/cpu/simd/cache.h"
#include "backends/cpu/simd/rows.h"

/* number of entries read together: if their slots are neighbours, a cache line of a column is used completely */
#define ROTATE_ENTRIES 16u

struct rotate_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    const float *cosine, *sine;
    uint32_t first, rotary, tiles; /* tiles: number of tiles of KVC_TILE indices in the longest head */
    bool interleaved;
};

/* Rotates the keys of one tile of one head. */
static void rotate_task(void *argument, size_t task, unsigned thread) {
    const struct rotate_job *job = argument;
    const struct kvc_lists *lists = job->lists;
    const uint32_t h = (uint32_t)(task / job->tiles), from = (uint32_t)(task % job->tiles) * KVC_TILE;
    const uint32_t count = ((const uint32_t *)lists->count->data)[h], d = lists->format.head_size;
    const uint32_t end = kvc_min_u32(count, from + KVC_TILE), half = job->rotary / 2;
    const size_t slots = slots_of(lists, h);
    const float *columns = state_of(lists, h) + job->first * slots;
    float *x = kvc_cpu_scratch(job->cpu, thread, (ROTATE_ENTRIES + 1) * d * sizeof *x), *y = x + ROTATE_ENTRIES * d;
    uint64_t saturated = 0;
    for (uint32_t r = from; x && r < end; r += ROTATE_ENTRIES) {
        const uint32_t some = kvc_min_u32(end - r, ROTATE_ENTRIES);
        uint32_t slot[ROTATE_ENTRIES];
        for (uint32_t i = 0; i < some; i++)
            slot[i] = kvc_list_slot(lists, h, r + i);
        for (uint32_t c = 0; c < d; c++)
            for (uint32_t i = 0; i < some; i++)
                x[i * d + c] = columns[c * slots + slot[i]];
        for (uint32_t i = 0; i < some; i++) {
            const size_t row = (size_t)(r + i) * half;
            rope_head(y, x + i * d, job->cosine + row, job->sine + row, d, job->rotary, job->interleaved);
            hadamard_head(lists->format.key.type, y, d);
            saturated += store_row(lists->format.key.type, kvc_list_key(lists, h, slot[i]), y, d);
        }
    }
    if (saturated)
        __atomic_fetch_add(&job->cpu->device.saturated, saturated, __ATOMIC_RELAXED);
}

static void rotate_keys(struct kvc_device *device, const struct kvc_rotate_keys *args) {
    const struct kvc_lists *lists = args->lists;
    struct rotate_job job = {(struct kvc_cpu *)device,
                             lists,
                             kvc_span_data(args->cosine),
                             kvc_span_data(args->sine),
                             args->first,
                             args->rotary,
                             0,
                             args->interleaved};
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)lists->count->data)[h], tiles = (count + KVC_TILE - 1) / KVC_TILE;
        job.tiles = kvc_max_u32(tiles, job.tiles);
        work += (double)count * lists->format.head_size * 2;
    }
    KVC_ASSERT(args->first + lists->format.head_size <= lists->columns && args->rotary <= lists->format.head_size);
    memo_forget(job.cpu, lists);
    if (job.tiles)
        kvc_threads_run(threads_for(job.cpu, work), (size_t)job.tiles * lists->kv_heads, rotate_task, &job);
}

#endif
