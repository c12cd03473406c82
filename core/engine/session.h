/* session.h - a session: its policy, its cache, what it has seen, and the parts of it that other files of this folder
 * look after. */
#ifndef KVC_CORE_ENGINE_SESSION_H
#define KVC_CORE_ENGINE_SESSION_H

#include "core/engine/cache.h"
#include "core/engine/cache_positions.h"
#include "core/engine/evict.h"
#include "core/engine/record.h"
#include "core/engine/rows.h"
#include "core/engine/runner.h"
#include "core/engine/select.h"
#include "core/stage/policy.h"

/* What kvc_session_stats tells beside what the cache counts. */
struct kvc_session_sums {
    uint64_t steps;        /* decode steps of all turns */
    uint64_t read_bytes;   /* of the cache, by attention */
    uint64_t select_bytes; /* of the cache, to choose what attention reads */
    uint64_t saturated;
    uint64_t peak_before; /* cache + state: most before the last prompt, */
    uint64_t prompt_peak; /* and most within it */
    uint64_t spared;      /* row-layers of prompts that were computed for another session */
    uint32_t together;    /* sessions that the last prompt was computed for */
};

struct kvc_session {
    /* from open to close */
    struct kvc_engine *engine;
    struct kvc_runner *runner;
    struct kvc_policy *policy;
    struct kvc_method_use *use; /* [policy->count] */
    struct kvc_cache cache;
    struct kvc_buffer *recurrent; /* [delta nets]: their state (struct kvc_delta_state), NULL: the model has none */
    uint32_t chunk;               /* most rows of a prompt that are computed at once */
    uint64_t context;
    uint64_t seed;
    uint64_t expected;
    bool long_rope; /* chosen by the first prompt */
    bool told;      /* the other ranks have it, too */

    /* what it has seen */
    uint64_t tokens; /* before the prompt or step under way */
    uint64_t turn;   /* rows of the prompt under way or of the last one */
    uint64_t step;   /* decode steps since the last prompt */
    uint64_t *held;  /* [layers]: N, entries of the fullest head when the last prompt was in */
    uint64_t *after; /* [layers]: the same after the prompt stage */
    struct kvc_session_sums sums;

    /* where it is */
    bool busy; /* already in the batch being made */
    bool in_prompt;
    bool failed;              /* a prompt or step broke off: unusable */
    struct kvc_error failure; /* with failed: its own, in a prompt that others share or of the policy in a step */

    struct kvc_prompt prompt;       /* the prompt under way (rows.c) */
    struct kvc_evictions evictions; /* evict.c */
    struct kvc_select_state select; /* select.c */
    struct kvc_cache_positions cache_positions;
    struct kvc_growable series; /* [layers, H, d + d/2]: what kvc_stage_prepare_series made (stage_series.c) */
    struct kvc_record record;   /* record.c */
    struct kvc_packet kept;     /* of a pipeline: positions that the pass keeps in layers of other ranks (pipeline.c) */
};

/* Those that have a part of it; NULL: this process has all. */
static inline struct kvc_ranks *kvc_session_ranks(const struct kvc_session *session) {
    return session->told ? session->engine->ranks : NULL;
}
/* Tells a call that takes the session alone. */
void kvc_session_broadcast(const struct kvc_session *session, enum kvc_call call);
/* Numbers of fullest lists become those of all ranks that share the heads. */
static inline void kvc_session_most(const struct kvc_session *session, uint64_t *numbers, size_t count) {
    struct kvc_ranks *ranks = kvc_session_ranks(session);
    if (ranks && session->runner->network->part.heads_sharded)
        kvc_ranks_maximum(ranks, ranks->rows.link, numbers, count);
}
/* Numbers that go by the layers a rank of a pipeline has become the largest of all ranks'. */
static inline void kvc_session_most_layers(const struct kvc_session *session, uint64_t *numbers, size_t count) {
    struct kvc_ranks *ranks = kvc_session_ranks(session);
    if (ranks && session->runner->network->part.pipeline)
        kvc_ranks_maximum(ranks, ranks->stages.link, numbers, count);
}
/* Positions [lists][counts] that a stage keeps in a layer of another rank. */
void kvc_session_note_kept(struct kvc_session *session, uint32_t layer, uint32_t lists, const int32_t *const *positions,
                           const size_t *counts);
/* Puts sessions of one model, tokens and what follows them into a call's message. */
void kvc_sessions_broadcast(struct kvc_packet *packet, struct kvc_session *const *sessions, size_t session_count,
                            const int32_t *tokens, size_t count, bool logits);
/* The rank that has one of the lists of all ranks, and which of its own that is; 0 and the list itself where there is
 * one process. A call that takes a list; and what its owner then tells the others. */
uint32_t kvc_session_list_owner(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here);
void kvc_session_broadcast_list(const struct kvc_session *session, enum kvc_call call, uint32_t layer, uint32_t list,
                                size_t capacity);
void kvc_session_broadcast_positions(struct kvc_ranks *ranks, uint32_t owner, int32_t *positions, size_t capacity,
                                     size_t *count);
/* Frees what this rank has of it. */
void kvc_session_free(struct kvc_session *session);

/* Whether nothing of its own has failed in the prompt under way. */
static inline bool kvc_session_lives(const struct kvc_session *session) { return session->failure.status == KVC_OK; }
/* Its recurrent state in a delta net. */
struct kvc_span kvc_session_recurrent(const struct kvc_session *session, uint32_t delta);

/* Rows of the prompt kept in the layer under way. */
static inline uint64_t kvc_session_rows(const struct kvc_session *session) {
    return session->prompt.kept_rows ? session->prompt.kept_row_count : session->turn;
}
/* The row of the prompt that is row i of those kept. */
static inline uint32_t kvc_session_row(const struct kvc_session *session, uint32_t i) {
    return session->prompt.kept_rows ? session->prompt.kept_rows[i] : i;
}
/* Which of the sets of queries is a layer's. */
static inline size_t kvc_session_query_set(const struct kvc_session *session, uint32_t layer) {
    return session->prompt.chunking.chunk ? layer : 0;
}

enum kvc_status kvc_session_create(struct kvc_engine *engine, const struct kvc_network *network,
                                   struct kvc_runner **runner, const struct kvc_session_options *options,
                                   struct kvc_session **session, struct kvc_error *error);
/* The same for replay: a runner without a network. */
enum kvc_status kvc_session_create_bare(struct kvc_runner *runner, const struct kvc_session_options *options,
                                        struct kvc_session **session, struct kvc_error *error);

#endif
