/* session.h - a session: its policy, its cache, what it has seen; and the stage its policy functions act on. */
#ifndef KVC_CORE_SESSION_H
#define KVC_CORE_SESSION_H

#include "core/cache.h"
#include "core/policy.h"
#include "core/runner.h"

/* The last queries of a prompt in the layer being computed, for policies that look at them. */
struct kvc_window {
    uint32_t rows; /* of this turn's prompt that it holds or will */
    struct kvc_room q, maximum, sum, positions, later;
};

struct kvc_session {
    struct kvc_engine *engine;
    struct kvc_runner *runner;
    struct kvc_policy *policy;
    struct kvc_cache cache;
    struct kvc_window window;
    uint32_t chunk;
    bool long_rope, rope_chosen;
    bool busy; /* already in the batch being made */
    bool in_prompt;
    bool failed; /* a prompt or step broke off: unusable */
    uint64_t context, seed;
    uint64_t tokens; /* seen before the turn or step under way */
    uint64_t turn;   /* rows of the prompt under way or of the last one */
    uint64_t step;   /* decode steps since the last prompt */
    uint64_t *held;  /* [layers]: entries of the fullest head when the last prompt was in */
    uint64_t steps_total, read_bytes;
    uint64_t peak_before, prompt_peak; /* cache + state: most before the turn under way; most in the last one */
    uint64_t saturated;
    struct kvc_error failure; /* of the policy in a decode step, with failed */
};

enum kvc_status kvc_session_create(struct kvc_engine *engine, const struct kvc_network *network,
                                   struct kvc_runner **runner, const struct kvc_session_options *options,
                                   struct kvc_session **session, struct kvc_error *error);
/* The same for replay: a runner without a network. */
enum kvc_status kvc_session_create_bare(struct kvc_runner *runner, const struct kvc_session_options *options,
                                        struct kvc_session **session, struct kvc_error *error);

/* KVC_USAGE where a token is not in the vocabulary. */
enum kvc_status kvc_session_check_tokens(const struct kvc_network *network, const int32_t *tokens, size_t count,
                                         struct kvc_error *error);

/* Called by the runner after the attention of a layer: rows of a part lie at `row` of runner->q, maximum and sum.
 * In a prompt it keeps the last queries; in a decode step it runs the decode stage, whose failure is the session's
 * own (failed, failure): the other sessions of the batch go on. */
void kvc_session_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                          uint32_t batch_row, uint32_t row, uint32_t rows);
/* Begin and end of a turn's prompt in one layer. */
enum kvc_status kvc_session_begin_layer(struct kvc_session *session, uint32_t layer, uint64_t rows,
                                        struct kvc_error *error);
enum kvc_status kvc_session_end_layer(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
/* Begin and end of a turn: window rooms, counters. Between them the session counts as failed. */
enum kvc_status kvc_session_begin_turn(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
void kvc_session_end_turn(struct kvc_session *session);
/* Room for one more row in every layer; on failure nothing has changed but spare blocks. cancel: the step that began
 * does not come about. */
enum kvc_status kvc_session_begin_step(struct kvc_session *session, struct kvc_error *error);
void kvc_session_cancel_step(struct kvc_session *session);
void kvc_session_end_step(struct kvc_session *session);

/* ---- the stage object that policy functions get ---- */

struct kvc_scores {
    struct kvc_span span; /* [H_kv, stride] */
    uint32_t stride;
};

struct kvc_stage {
    struct kvc_stage_info info;
    struct kvc_session *session;
    uint32_t layer;
    /* the queries it may look at, oldest first; later counts from the lists as they are before any eviction */
    uint32_t queries;
    struct kvc_span q, maximum, sum, positions, later;
    struct kvc_scores scores[4];
    unsigned score_count;
    bool evicted, looks_only; /* looks_only: a method that observes and must not evict */
};

enum kvc_status kvc_stage_run(struct kvc_session *session, uint32_t layer, bool prompt, uint32_t queries,
                              struct kvc_span q, struct kvc_span maximum, struct kvc_span sum,
                              struct kvc_span positions, struct kvc_span later, struct kvc_error *error);

#endif
