/* session.h - a session: its policy, its cache, its history, and the state that other files of this folder maintain. */
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

/* Statistics of kvc_session_stats that the cache does not count. */
struct kvc_session_sums {
    uint64_t steps;        /* decode steps of all turns */
    uint64_t read_bytes;   /* bytes of the cache that attention read */
    uint64_t select_bytes; /* bytes of the cache that select methods read */
    uint64_t saturated;
    uint64_t peak_before; /* cache + state: the largest size before the last prompt */
    uint64_t prompt_peak; /* cache + state: the largest size within the last prompt */
    uint64_t spared;      /* rows times layers, in all prompts, that another session computed for this one */
    uint32_t together;    /* number of sessions that the last prompt was computed for */
};

struct kvc_session {
    /* constant from open to close */
    struct kvc_engine *engine;
    struct kvc_runner *runner;
    struct kvc_policy *policy;
    struct kvc_method_use *use; /* [policy->count] */
    struct kvc_cache cache;
    struct kvc_buffer *recurrent; /* [delta nets]: their state (struct kvc_delta_state); NULL: the model has none */
    uint32_t chunk;               /* maximum number of a prompt's rows that are computed at once */
    uint64_t context;
    uint64_t seed;
    uint64_t expected;
    uint32_t number; /* number of sessions that the engine opened before this one */
    bool long_rope;  /* decided by the first prompt */

    /* history */
    uint64_t tokens; /* number of tokens before the current prompt or step */
    uint64_t turn;   /* rows of the current or last prompt */
    uint64_t step;   /* decode steps since the last prompt */
    uint64_t *held;  /* [layers]: N, entries of the longest head when the last prompt stage began */
    uint64_t *after; /* [layers]: entries of the longest head after the prompt stage */
    struct kvc_session_sums sums;

    /* current activity */
    bool busy; /* already in the batch that is being assembled */
    bool in_prompt;
    bool drafting; /* this is a copy that drafts an answer (draft.c) */
    bool failed;   /* a prompt or step failed: the session is unusable */
    /* valid if failed: the session's own error in a shared prompt, or its policy's error in a step */
    struct kvc_error failure;

    struct kvc_prompt prompt;       /* the current prompt (rows.c) */
    struct kvc_evictions evictions; /* evict.c */
    struct kvc_select_state select; /* select.c */
    struct kvc_cache_positions cache_positions;
    struct kvc_buffer *centres;  /* [own layers, 3, H_kv, d]: centres and factors; NULL: not used (centre.h) */
    struct kvc_growable filters; /* [layers, H_kv, d]: written by kvc_stage_prepare_filter */
    struct kvc_growable series;  /* [layers, H, d + d/2]: written by kvc_stage_prepare_series (stage_series.c) */
    struct kvc_record record;    /* record.c */
    /* in a pipeline: the positions that this pass keeps in layers of other ranks (pipeline_keep.c) */
    struct kvc_packet kept;
};

/* Returns the rank that owns a list of a session that several ranks share, where `list` is the list's index among the
 * lists of all ranks. *here receives its index among the owner's lists. */
uint32_t kvc_session_list_owner(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here);
/* Frees this rank's part of the session. */
void kvc_session_free(struct kvc_session *session);

/* Returns true if the session itself has not failed in the current prompt. */
static inline bool kvc_session_lives(const struct kvc_session *session) { return session->failure.status == KVC_OK; }
/* Returns the session's recurrent state in a delta net. */
struct kvc_span kvc_session_recurrent(const struct kvc_session *session, uint32_t delta);

/* Returns the number of the prompt's rows that are kept in the current layer. */
static inline uint64_t kvc_session_rows(const struct kvc_session *session) {
    return session->prompt.kept_rows ? session->prompt.kept_row_count : session->turn;
}
/* Returns the row of the prompt that is row i of the kept rows. */
static inline uint32_t kvc_session_row(const struct kvc_session *session, uint32_t i) {
    return session->prompt.kept_rows ? session->prompt.kept_rows[i] : i;
}
/* Returns the index of a layer's set of queries. */
static inline size_t kvc_session_query_set(const struct kvc_session *session, uint32_t layer) {
    return session->prompt.chunking.chunk ? layer : 0;
}

enum kvc_status kvc_session_create(struct kvc_engine *engine, const struct kvc_network *network,
                                   struct kvc_runner **runner, const struct kvc_session_options *options,
                                   struct kvc_session **session, struct kvc_error *error);
/* Creates a session for a replay, from a runner without a network. */
enum kvc_status kvc_session_create_bare(struct kvc_runner *runner, const struct kvc_session_options *options,
                                        struct kvc_session **session, struct kvc_error *error);

#endif
