/* look.c - asks the program during a prompt whether to go on. */
#include "core/engine/look.h"

#include "core/base/integers.h"
#include "core/engine/coordinator.h"
#include "core/engine/runner.h"

/* Multiply-adds between two questions (LOOK_WORK) and in a block of attention (BLOCK_WORK). A core computes 10 to 50
 * billion per second, so it asks several times a second. */
#define LOOK_WORK ((uint64_t)1 << 32)
#define BLOCK_WORK ((uint64_t)1 << 34)
/* Attention reads all entries once for each block. A block has at least this many rows, so that reading the entries
 * takes little of attention's time. */
#define BLOCK_ROWS_LEAST 64u

void kvc_look_open(struct kvc_engine *engine) { engine->look = (struct kvc_look){.stopped = false}; }

/* Waits for the device, so that all earlier work is complete, and asks the program. All ranks get rank 0's answer. */
static void ask(struct kvc_runner *runner) {
    struct kvc_engine *engine = runner->engine;
    struct kvc_look *look = &engine->look;
    enum kvc_status status = runner->device->ops->sync(runner->device, &look->error);
    if (status == KVC_OK && engine->interrupt(engine->interrupt_user))
        status = kvc_fail(&look->error, KVC_USAGE, "prompt: interrupted by the program");
    uint64_t stop = status != KVC_OK;
    runner->coordinator->agree(runner, &stop);
    if (stop && status == KVC_OK)
        (void)kvc_fail(&look->error, KVC_USAGE, "prompt: interrupted by the program");
    look->stopped = stop != 0;
    look->work = 0;
}

enum kvc_status kvc_look_begin(struct kvc_runner *runner, struct kvc_error *error) {
    struct kvc_look *look = &runner->engine->look;
    look->armed = runner->engine->interrupt != NULL;
    if (look->armed && !look->stopped)
        ask(runner);
    return kvc_look_status(runner, error);
}

bool kvc_look(struct kvc_runner *runner, uint64_t work) {
    struct kvc_look *look = &runner->engine->look;
    if (!look->armed || look->stopped)
        return !look->armed;
    look->work += work;
    if (look->work >= LOOK_WORK)
        ask(runner);
    return !look->stopped;
}

enum kvc_status kvc_look_status(const struct kvc_runner *runner, struct kvc_error *error) {
    const struct kvc_look *look = &runner->engine->look;
    return look->stopped ? kvc_fail(error, look->error.status, "%s", look->error.text) : KVC_OK;
}

enum kvc_status kvc_look_end(struct kvc_runner *runner, struct kvc_error *error) {
    runner->engine->look.armed = false;
    return kvc_look_status(runner, error);
}

uint32_t kvc_look_rows(const struct kvc_session *session, uint32_t layer, uint32_t rows) {
    const struct kvc_runner *runner = session->runner;
    const struct kvc_geometry *g = &runner->model;
    const uint32_t window = kvc_runner_window(runner, layer);
    uint64_t entries = kvc_cache_most(&session->cache, layer);
    if (!runner->engine->look.armed || runner->engine->trace)
        return rows; /* a trace has one record of each operation, so all rows stay in one operation */
    runner->coordinator->most_of_heads(session, &entries, 1);
    if (window)
        entries = kvc_min_u64(entries, (uint64_t)window + rows);
    const uint64_t work = 2 * entries * g->heads * g->head_size; /* the work of one row */
    return kvc_min_u32(rows, kvc_max_u32(BLOCK_ROWS_LEAST, (uint32_t)kvc_min_u64(BLOCK_WORK / (work + 1), rows)));
}
