/* trace.h - records a hash of each operation's output, so that two runs can be compared operation by operation.
 *
 * While an engine is traced, device->ops is a table that runs the real operation, copies its output to the host, and
 * writes a line for each row and head (trace_outputs.c). The engine reports the rows that an operation computes:
 * kvc_trace_rows for operations on rows, kvc_trace_list for operations on a session's lists. Without a trace,
 * engine->trace is NULL and the device has its own table. docs/reference/trace.md describes the file. */
#ifndef KVC_CORE_ENGINE_TRACE_H
#define KVC_CORE_ENGINE_TRACE_H

#include "core/engine/batch.h"
#include "core/engine/engine.h"

struct kvc_session;
struct kvc_trace;

/* The parts of a model that a line may belong to. */
enum kvc_trace_part { KVC_TRACE_EMBEDDING, KVC_TRACE_LAYER, KVC_TRACE_DELTA, KVC_TRACE_LOGITS };

/* Opens the file of `options->trace` and installs the table. `rank` > 0 adds ".rank<N>" to the file's name. Fails with
 * KVC_USAGE for a wrong options->trace_values, and with KVC_RESOURCE if the file cannot be written. */
enum kvc_status kvc_trace_open(struct kvc_engine *engine, const struct kvc_engine_options *options, uint32_t rank,
                               struct kvc_error *error);
/* Makes a mutant (a deliberately wrong version) of an operation beneath the trace, for tests: `inject` changes
 * device->ops. */
enum kvc_status kvc_trace_inject(struct kvc_trace *trace, const char *operation,
                                 enum kvc_status (*inject)(struct kvc_device *, const char *, bool, struct kvc_error *),
                                 struct kvc_error *error);

/* ---- called by the engine; they do nothing if there is no trace ---- */

void kvc_trace_set_sessions(struct kvc_trace *trace, struct kvc_session *const *sessions, uint32_t count);
void kvc_trace_set_rows(struct kvc_trace *trace, enum kvc_trace_part part, uint32_t number,
                        const struct kvc_batch *batch, uint32_t row, uint32_t rows);
void kvc_trace_set_list(struct kvc_trace *trace, const struct kvc_session *session, uint32_t layer);

/* Declares the sessions of the batch's rows: one session of all rows, or session i of row i. */
static inline void kvc_trace_sessions(struct kvc_trace *trace, struct kvc_session *const *sessions, uint32_t count) {
    if (trace)
        kvc_trace_set_sessions(trace, sessions, count);
}
/* Declares that the next operations compute rows row .. row + rows - 1 of the batch in a part of the model. `number` is
 * the index of the layer or delta net. */
static inline void kvc_trace_rows(struct kvc_trace *trace, enum kvc_trace_part part, uint32_t number,
                                  const struct kvc_batch *batch, uint32_t row, uint32_t rows) {
    if (trace)
        kvc_trace_set_rows(trace, part, number, batch, row, rows);
}
/* Declares that the next operations on lists concern a session's layer. */
static inline void kvc_trace_list(struct kvc_trace *trace, const struct kvc_session *session, uint32_t layer) {
    if (trace)
        kvc_trace_set_list(trace, session, layer);
}

#endif
