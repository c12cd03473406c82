/* pack.c - 15-bit copies of weights: allocates them, fills them on all threads, and frees each with its weight. */
#include <stdlib.h>

#include "backends/cpu/cpu.h"
#include "core/base/integers.h"

struct pack_job {
    const struct kvc_weight *w;
    kvc_pack_rows *pack;
    size_t rows, tasks;
};

static void pack_task(void *argument, size_t task, unsigned thread) {
    const struct pack_job *job = argument;
    (void)thread;
    job->pack(job->w, job->rows * task / job->tasks, job->rows * (task + 1) / job->tasks);
}

enum kvc_status kvc_cpu_weight_pack(struct kvc_device *device, struct kvc_weight *w, struct kvc_error *error) {
    struct kvc_cpu *cpu = (struct kvc_cpu *)device;
    const uint64_t rows = kvc_weight_rows(w), bytes = kvc_int16_bytes(rows, w->inputs);
    KVC_ASSERT(w->inputs % KVC_INT16_STEP == 0 && (w->type < KVC_Q8_0 || w->type == KVC_FP8));
    if (w->packed.quant || bytes == 0)
        return KVC_OK;
    w->packed.quant = kvc_host_alloc((size_t)bytes);
    if (!w->packed.quant)
        return kvc_fail(error, KVC_RESOURCE, "no memory for %llu bytes of weights in int16", (unsigned long long)bytes);
    w->packed.scale = (float *)(void *)(w->packed.quant + rows * w->inputs);
    kvc_cpu_count(cpu, KVC_MEMORY_WEIGHTS, (int64_t)bytes);
    struct pack_job job = {.w = w, .pack = kvc_cpu_path_pack(cpu->path), .rows = (size_t)rows};
    job.tasks = kvc_min_u64(rows, 8 * kvc_threads_count(cpu->threads));
    kvc_threads_run(cpu->threads, job.tasks, pack_task, &job);
    return KVC_OK;
}

void kvc_cpu_weight_free(struct kvc_device *device, struct kvc_weight *weight) {
    if (weight && weight->packed.quant) {
        const uint64_t bytes = kvc_int16_bytes(kvc_weight_rows(weight), weight->inputs);
        kvc_cpu_count((struct kvc_cpu *)device, KVC_MEMORY_WEIGHTS, -(int64_t)bytes);
        kvc_host_free(weight->packed.quant, (size_t)bytes);
    }
    free(weight);
}
