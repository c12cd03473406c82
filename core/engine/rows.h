/* rows.h - the current prompt: its rows, pass by pass, the rows that methods add, and the queries that methods will
 * read. */
#ifndef KVC_CORE_ENGINE_ROWS_H
#define KVC_CORE_ENGINE_ROWS_H

#include "core/engine/growable.h"

struct kvc_session;

/* Whether rows are the prompt's own or were added by a method. */
enum kvc_rows_kind { KVC_ROWS_PROMPT, KVC_ROWS_PSEUDO, KVC_ROWS_PROBE };

/* Consecutive rows of a pass that are computed at once; the first `stored` rows get entries. */
struct kvc_row_span {
    uint32_t row; /* row of the pass */
    uint32_t rows;
    uint32_t stored;
    enum kvc_rows_kind kind;
    struct kvc_session *session; /* the session to whose entries they attend */
};

/* Keys and values of a part's rows, [rows, H_kv, d] each. */
struct kvc_projected {
    struct kvc_span k;
    struct kvc_span v;
    bool entries_only; /* no method reads the rows' queries, so attention is skipped */
};

/* The source of a prompt's rows: a network, a replay (which has q, k and v already), or synthetic values. */
struct kvc_row_source {
    void *user;
    const int32_t *tokens; /* [rows of the prompt], NULL: a replay */
    uint32_t pseudo;       /* number of pseudo rows that a replay supplies */
    /* Called when the rows of a pass are known. tokens [rows] (NULL in a replay), positions and causal_offset
     * [rows]. */
    enum kvc_status (*load)(void *user, const int32_t *tokens, const int32_t *positions, const uint32_t *causal_offset,
                            uint32_t rows, struct kvc_error *error);
    /* Called before attention. Writes the part's queries to runner->q [rows, H, d]. Returns where its keys and values
     * are. */
    enum kvc_status (*project)(void *user, uint32_t layer, const struct kvc_row_span *part,
                               struct kvc_projected *projected, struct kvc_error *error);
    /* Called after attention, whose output is runner->attended [rows, H, d]. */
    enum kvc_status (*feed_forward)(void *user, uint32_t layer, const struct kvc_row_span *part,
                                    struct kvc_error *error);
    /* Called for token pruning: only the rows `index` [rows] of the pass are kept for the next layer. */
    enum kvc_status (*gather)(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error);
};

/* A prompt's queries that policies read in the current layer. */
struct kvc_queries {
    uint32_t rows;
    struct kvc_growable q;             /* float32 [sets, rows, H, d], rotated */
    struct kvc_growable maximum;       /* float32 [sets, rows, H]: M of attention */
    struct kvc_growable sum;           /* float32 [sets, rows, H]: L of attention */
    struct kvc_growable positions;     /* int32 [sets, rows] */
    struct kvc_growable causal_offset; /* uint32 [rows] */
};

/* A session's current prompt. There is one set of queries for all layers or, if a method cuts the prompt into chunks,
 * one set for each layer. */
struct kvc_prompt {
    struct kvc_chunking chunking; /* chunk 0: the prompt is not cut */
    struct kvc_queries window;    /* the last queries */
    int32_t *window_positions;    /* [window.rows]: host copy of window.positions */
    struct kvc_queries pseudo;    /* the pseudo rows */
    int32_t pseudo_from;          /* position of the first pseudo row */
    int32_t *pseudo_tokens;       /* [pseudo.rows], NULL in a replay */
    int32_t *draft;               /* first tokens of a drafted answer (draft.c); NULL: none */
    struct kvc_growable moments;  /* float32 [sets, H, 1 + d, d]: sums over the layer's unrotated queries */
    uint64_t *moment_rows;        /* [layers]: number of queries in the sums; NULL: no method uses them */
    struct kvc_growable angles;   /* float32 [2, angle_rows, rotary/2]: cosines and sines of positions, for one rope */
    uint64_t angle_rows;
    uint32_t angle_rope;
    uint32_t probes;
    struct kvc_growable probe;     /* float32 [layers, probes, H, d]: probe queries accumulated over the chunks */
    struct kvc_growable probe_now; /* float32 [layers, probes, H, d]: this chunk's probe queries */
    struct kvc_queries probing;    /* outputs, M and L of the attention of `probe` */
    /* token pruning: the rows of the prompt that are still computed, and those that a propagate stage chose for the
     * layers above */
    uint32_t *kept_rows; /* [kept_row_count], NULL: all */
    uint32_t kept_row_count;
    uint32_t *next_kept_rows; /* [next_rows], NULL: no change */
    uint32_t next_rows;
    /* the current pass */
    uint32_t chunk_from; /* the pass's first row, among the kept rows */
    uint32_t chunk_rows;
    bool first_chunk;
    bool last_chunk;
    uint32_t extra_from; /* row of the pass at which the rows added by methods begin */
    uint32_t ended;      /* number of layers whose prompt stage is over */
    bool has_rows;       /* while the rows of the current layer are computed, they are appended to this session's
                          * lists (pass.c) */
};

void kvc_prompt_free_queries(struct kvc_device *device, struct kvc_queries *queries);

/* Begins and ends a prompt. Between the two calls the session counts as failed, so it must be closed if the prompt
 * fails. */
enum kvc_status kvc_prompt_begin(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
void kvc_prompt_end(struct kvc_session *session);
/* Returns the maximum number of rows that are computed at once in a prompt of `rows` rows. */
uint32_t kvc_prompt_rows_most(const struct kvc_session *session, uint64_t rows);
/* Returns the number of rows that methods add to the current pass. */
uint32_t kvc_prompt_extra_rows(const struct kvc_session *session);
uint32_t kvc_prompt_extra_stored(const struct kvc_session *session); /* how many of these get temporary entries */

/* ---- several sessions' prompts as one ----
 *
 * The following functions take sessions whose prompts have the same rows (prompt_many.c); usually one session. If
 * something fails for one session only, its `failure` is set and the others continue. */

/* Returns KVC_OK if at least one session has not failed, otherwise the first session's failure. */
enum kvc_status kvc_prompts_live(struct kvc_session *const *sessions, size_t count, struct kvc_error *error);
/* Begins a pass over rows from .. from+rows-1 of the prompt. If the prompt is not cut, these are all rows. */
enum kvc_status kvc_pass_begin(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t from, uint32_t rows, struct kvc_error *error);
/* Passes tokens, positions and causal offsets of the pass to the source: the chunk's rows, then the rows that methods
 * add, session by session. */
enum kvc_status kvc_pass_load(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                              struct kvc_error *error);
/* Reserves a buffer for the last queries of `rows` rows, and sets their positions and causal offsets. */
enum kvc_status kvc_prompt_set_window(struct kvc_session *session, uint32_t rows, struct kvc_error *error);

#endif
