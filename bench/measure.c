/* measure.c - measures the operations of a table on a device, compared with the device's limits (roofline) and with
 * another backend or another call. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "core/base/float.h"
#include "core/engine/engine.h"

#define LOT_SECONDS 0.015 /* duration of a lot; a lot is the calls between two readings of the clock */
#define SLOW_SECONDS 0.1  /* a call that takes this long is timed only once */
#define LOTS 3u
#define MOST_CALLS 1000u
#define ROUNDS 5u /* rounds in which the two backends take turns */
#define CLEAR 2.0 /* if one device is this many times as fast as the other, one round suffices */
#define OTHER_BYTES ((size_t)192 << 20)

/* ---- the clock ---- */

double kvc_measure_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_seconds(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Writes to other memory with the device's own threads. Afterwards the caches hold no operand and the threads are
 * awake, as in a decode step. */
static void fill_caches(struct kvc_measure *m) {
    struct kvc_measure_side *side = m->side;
    if (!side->other)
        m->status = m->ops->buffer_create(m->device, KVC_MEMORY_SCRATCH, OTHER_BYTES, &side->other, &m->error);
    const struct kvc_span all = {side->other, 0};
    if (m->status == KVC_OK)
        m->ops->scale(m->device, &(struct kvc_scale){.y = all, .x = all, .n = OTHER_BYTES / 4, .factor = 1.0f});
    if (m->status == KVC_OK)
        m->status = m->ops->sync(m->device, &m->error);
}

/* Called before the first lot and after each lot. The last lot took `took` seconds. Returns true if another lot is
 * needed, and sets its number of calls. */
static bool next_lot(struct kvc_measure *m, double took) {
    if (m->settings.once && m->calls) {
        m->best = took;
        return false;
    }
    if (!m->calls || !m->warm) { /* the first call only warms up, because it may allocate or prepare something */
        m->warm = m->calls > 0;
        m->calls = 1;
    } else if (m->settings.cold) {
        m->cold[m->lots++] = took;
        if (m->lots < MEASURE_COLD)
            return true;
        qsort(m->cold, MEASURE_COLD, sizeof *m->cold, compare_seconds);
        m->best = m->cold[MEASURE_COLD / 2];
        return false;
    } else {
        if (m->best == 0 || took / (double)m->calls < m->best)
            m->best = took / (double)m->calls;
        if (took < LOT_SECONDS && m->calls < MOST_CALLS && m->lots == 0)
            m->calls = took * 8 < LOT_SECONDS ? m->calls * 8 : m->calls * 2;
        else if (++m->lots >= LOTS || took > SLOW_SECONDS)
            return false;
    }
    return true;
}

bool kvc_measure_again(struct kvc_measure *m) {
    if (m->status == KVC_OK && m->left) {
        m->left--;
        return true;
    }
    if (m->status == KVC_OK)
        m->status = m->ops->sync(m->device, &m->error);
    if (m->status != KVC_OK || !next_lot(m, kvc_measure_seconds(m->settings.clock) - m->start))
        return false;
    m->left = m->calls - 1;
    if (m->settings.cold && !m->settings.once)
        fill_caches(m);
    m->start = kvc_measure_seconds(m->settings.clock);
    return m->status == KVC_OK;
}

void kvc_measure_counts(struct kvc_measure *m, uint64_t bytes, uint64_t flops, const char *shape, ...) {
    va_list arguments;
    va_start(arguments, shape);
    vsnprintf(m->shape, sizeof m->shape, shape, arguments);
    va_end(arguments);
    m->row.bytes = bytes;
    m->row.flops = flops;
}

static enum kvc_status measure_run(struct kvc_measure_side *side, kvc_measure_operation_fn *operation, uint32_t variant,
                                   bool beside, struct kvc_measure *m, struct kvc_error *error) {
    *m = (struct kvc_measure){.settings = m->settings,
                              .side = side,
                              .device = side->device,
                              .ops = side->device->ops,
                              .beside = beside,
                              .row.calls = 1,
                              .kv_heads = MEASURE_KV_HEADS,
                              .head_size = MEASURE_HEAD_SIZE};
    operation(m, variant);
    kvc_measure_release(m);
    if (m->status != KVC_OK && error)
        *error = m->error;
    return m->status;
}

/* ---- limits of the device ---- */

static void large_copy(struct kvc_measure *m, uint32_t variant) {
    const size_t bytes = (size_t)128 << 20; /* more than the processor's caches hold */
    const struct kvc_span from = kvc_measure_space(m, bytes), to = kvc_measure_space(m, bytes);
    (void)variant;
    kvc_measure_counts(m, 2 * bytes, 0, "128 MiB");
    while (kvc_measure_again(m))
        m->ops->copy(m->device, to, from, bytes);
}

KVC_MEASURE(fma_loop, 0, variant) {
    const size_t n = (size_t)1 << 20;
    const uint32_t rounds = 500;
    const struct kvc_span x = kvc_measure_values(m, n);
    (void)variant;
    kvc_measure_counts(m, 0, 2 * n * rounds, "1048576 values");
    while (kvc_measure_again(m))
        m->ops->fma_loop(m->device, &(struct kvc_fma_loop){.x = x, .n = n, .rounds = rounds});
}

static void product(struct kvc_measure *m, uint32_t variant) {
    (void)variant;
    kvc_measure_time_linear(m, KVC_F32, MEASURE_ROWS, MEASURE_HIDDEN, MEASURE_HIDDEN);
}

/* Measures the cost of a call that moves no data. */
static void nothing(struct kvc_measure *m, uint32_t variant) {
    const size_t n = (size_t)1 << 19; /* enough values to occupy every thread */
    const struct kvc_span x = kvc_measure_space(m, n * sizeof(float));
    (void)variant;
    while (kvc_measure_again(m))
        m->ops->fma_loop(m->device, &(struct kvc_fma_loop){.x = x, .n = n, .rounds = 0});
}

static enum kvc_status measure_rooflines(struct kvc_measure_side *side, struct kvc_measure_side *library,
                                         struct kvc_measure *m, struct kvc_rooflines *rooflines,
                                         struct kvc_error *error) {
    enum kvc_status status = measure_run(side, large_copy, 0, false, m, error);
    rooflines->copy = (double)m->row.bytes / m->best;
    if (status == KVC_OK)
        status = measure_run(side, kvc_measure_fma_loop.run, 0, false, m, error);
    rooflines->fma = (double)m->row.flops / m->best;
    if (status == KVC_OK)
        status = measure_run(side, nothing, 0, false, m, error);
    rooflines->launch = m->best;
    if (status == KVC_OK && library->device) {
        status = measure_run(library, product, 0, false, m, error);
        rooflines->product = (double)m->row.flops / m->best;
    }
    return status;
}

/* ---- tables ---- */

enum {
    MEASURED,
    LIBRARY,
    BESIDE,
    SIDES
};                 /* a side without a device is unused; LIBRARY has an engine with
                    * KVC_MATH_FAST */
struct measuring { /* state of one call of kvc_measure_operations */
    const struct kvc_measure_group *group;
    const struct kvc_measure_options *what;
    struct kvc_measure_side sides[SIDES];
    struct kvc_engine *library;
    struct kvc_rooflines rooflines;
    kvc_measure_fn *row;
    void *user;
};

/* Measures one variant of an operation and the call with which it is compared, and stores the result in m->row. Both
 * calls get new operands, so that memory affects them alike. */
static enum kvc_status one_round(struct measuring *g, const struct kvc_measure_operation *o, uint32_t variant,
                                 struct kvc_measure *m, struct kvc_error *error) {
    const enum kvc_measure_other other = g->group->other;
    struct kvc_measure_side *side = &g->sides[MEASURED];
    struct kvc_measure_side *beside = g->sides[BESIDE].device              ? &g->sides[BESIDE]
                                      : other == KVC_MEASURE_OTHER_CALL    ? side
                                      : other == KVC_MEASURE_OTHER_LIBRARY ? &g->sides[LIBRARY]
                                                                           : NULL;
    double seconds = 0, launch = 0;
    uint64_t bytes = 0;
    enum kvc_status status = KVC_OK;
    if (beside && beside->device) {
        status = measure_run(beside, o->run, variant, beside == side, m, error);
        seconds = m->best;
        bytes = m->row.bytes;
    }
    if (g->sides[BESIDE].device && status == KVC_OK) {
        status = measure_run(side, nothing, 0, false, m, error);
        launch = m->best;
    }
    if (status == KVC_OK)
        status = measure_run(side, o->run, variant, false, m, error);
    m->row.name = o->name;
    m->row.shape = m->shape;
    m->row.seconds = m->best;
    m->row.beside = seconds;
    m->row.beside_bytes = bytes;
    m->row.launch = launch;
    return status;
}

static int by_ratio(const void *a, const void *b) {
    const struct kvc_measured *x = a, *y = b;
    const double one = x->seconds * y->beside, other = y->seconds * x->beside;
    return (one > other) - (one < other);
}

static enum kvc_status measure_row(struct measuring *g, const struct kvc_measure_operation *o, uint32_t variant,
                                   struct kvc_measure *m, struct kvc_error *error) {
    struct kvc_measured round[ROUNDS];
    unsigned n = 0;
    enum kvc_status status;
    do {
        status = one_round(g, o, variant, m, error);
        if (status != KVC_OK)
            return status;
        round[n++] = m->row;
    } while (round[0].beside > 0 && !g->what->quick && n < ROUNDS && round[0].seconds * CLEAR > round[0].beside);
    qsort(round, n, sizeof *round, by_ratio);
    m->row = round[n / 2];
    return KVC_OK;
}

static const struct kvc_measure_operation *operation_at(const struct kvc_measure_group *group, size_t i) {
    static const struct kvc_measure_operation *const all[] = {
        &kvc_measure_zero,
#define KVC_OPERATION(name, parameters, ...) &kvc_measure_##name,
#define KVC_OPERATION_REF(name, parameters, ...)
#include "core/base/ops.def"
    };
    if (group->operations)
        return group->operations[i].name ? &group->operations[i] : NULL;
    return i < sizeof all / sizeof *all ? all[i] : NULL;
}

static enum kvc_status measure_table(struct measuring *g, struct kvc_measure *m, struct kvc_error *error) {
    const char *const only = g->what->only;
    const struct kvc_measure_operation *o;
    bool found = false;
    for (size_t i = 0; (o = operation_at(g->group, i)) != NULL; i++) {
        if (only && strcmp(only, o->name) != 0)
            continue;
        found = true;
        for (uint32_t variant = 0; variant < o->variants; variant++) {
            const enum kvc_status status = measure_row(g, o, variant, m, error);
            if (status != KVC_OK)
                return status;
            if (g->row(g->user, &g->rooflines, &m->row))
                return KVC_OK;
        }
    }
    return found ? KVC_OK : kvc_fail(error, KVC_USAGE, "there is no operation '%s' to measure", only);
}

static enum kvc_status check_entries(const struct kvc_measure_group *group, uint32_t entries, struct kvc_error *error) {
    if (group->table.model)
        return kvc_fail(error, KVC_USAGE, "measure: the table %s needs a model", group->table.name);
    if (entries && !group->entries)
        return kvc_fail(error, KVC_USAGE, "measure: the table %s has no entries to choose", group->table.name);
    if (entries && (entries < group->least || entries > KVC_MEASURE_MOST))
        return kvc_fail(error, KVC_USAGE, "measure: %u entries; must be from %u to %d", (unsigned)entries,
                        (unsigned)group->least, KVC_MEASURE_MOST);
    return KVC_OK;
}

/* Closes the engine of a BLAS library, whose threads would disturb other measurements. */
static void close_library(struct measuring *g) {
    kvc_engine_close(g->library);
    g->library = NULL;
    g->sides[LIBRARY].device = NULL;
}

/* Measures the limits, then the table. */
static enum kvc_status measure_all(struct measuring *g, const struct kvc_engine_options *options,
                                   struct kvc_error *error) {
    const bool by_shape = g->group->operations != NULL && g->group->operations != kvc_measure_layer;
    const bool on_processor = g->sides[MEASURED].device->capacity == 0;
    struct kvc_measure *m = calloc(1, sizeof *m);
    if (!m)
        return kvc_fail(error, KVC_RESOURCE, "measure: no memory");
    m->settings = (struct kvc_measure_settings){
        .once = g->what->quick,
        .clock = by_shape && on_processor && options->threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
        .entries = g->what->entries ? g->what->entries
                   : g->what->quick ? g->group->least
                                    : g->group->entries};
    enum kvc_status status = measure_rooflines(&g->sides[MEASURED], &g->sides[LIBRARY], m, &g->rooflines, error);
    if (g->group->other != KVC_MEASURE_OTHER_LIBRARY)
        close_library(g);
    if (g->group->reads && on_processor)
        g->rooflines.read = g->what->quick ? g->rooflines.copy
                                           : kvc_measure_bandwidth_by((unsigned)options->threads, m->settings.clock);
    m->settings.cold = g->group->cold;
    if (status == KVC_OK)
        status = measure_table(g, m, error);
    for (int i = 0; i < SIDES; i++)
        if (g->sides[i].device)
            g->sides[i].device->ops->buffer_free(g->sides[i].device, g->sides[i].other);
    free(m);
    return status;
}

enum kvc_status kvc_measure_operations(const struct kvc_engine_options *options, const struct kvc_measure_options *what,
                                       kvc_measure_fn *row, void *user, struct kvc_error *error) {
    const struct kvc_engine_options other = {
        .backend = what->beside, .threads = options->threads, .math = KVC_MATH_EXACT};
    const struct kvc_engine_options fast = {
        .backend = options->backend, .threads = options->threads, .math = KVC_MATH_FAST};
    struct measuring g = {.what = what, .row = row, .user = user};
    struct kvc_engine *engine = NULL, *second = NULL;
    g.group = kvc_measure_group(what->table ? what->table : what->entries ? "layer" : "operations", error);
    if (!g.group)
        return KVC_USAGE;
    enum kvc_status status = check_entries(g.group, what->entries, error);
    if (status != KVC_OK)
        return status;
    const uint64_t environment = kvc_float_open();
    status = kvc_engine_open(options, &engine, error);
    if (status == KVC_OK && what->beside)
        status = kvc_engine_open(&other, &second, error);
    if (status == KVC_OK && kvc_engine_open(&fast, &g.library, NULL) == KVC_OK)
        g.sides[LIBRARY].device = g.library->device;
    if (status == KVC_OK) {
        g.sides[MEASURED].device = engine->device;
        g.sides[BESIDE].device = second ? second->device : NULL;
        status = measure_all(&g, options, error);
    }
    close_library(&g);
    kvc_engine_close(second);
    kvc_engine_close(engine);
    kvc_float_close(environment);
    return status;
}
