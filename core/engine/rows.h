/* rows.h - a prompt under way: its rows, pass by pass, those that methods add to them, and the queries that methods
 * will look at. */
#ifndef KVC_CORE_ENGINE_ROWS_H
#define KVC_CORE_ENGINE_ROWS_H

#include "core/engine/growable.h"

struct kvc_session;

/* What rows of a prompt are: its own, or those that a method adds to it. */
enum kvc_rows_kind { KVC_ROWS_PROMPT, KVC_ROWS_PSEUDO, KVC_ROWS_PROBE };

/* Neighbouring rows of a pass, computed at once; the first `stored` get entries. */
struct kvc_row_span {
    uint32_t row; /* of the pass */
    uint32_t rows;
    uint32_t stored;
    enum kvc_rows_kind kind;
    struct kvc_session *session; /* whose entries they attend to */
};

/* Keys and values of a part's rows, [rows, H_kv, d] each. */
struct kvc_projected {
    struct kvc_span k;
    struct kvc_span v;
    bool entries_only; /* nobody looks at the rows: they do not attend */
};

/* Who computes a prompt's rows: a network, a replay, which has q, k and v already, or made-up values. */
struct kvc_row_source {
    void *user;
    const int32_t *tokens; /* [rows of the prompt], NULL: a replay */
    uint32_t pseudo;       /* pseudo rows that came with a replay */
    /* The rows of a pass are known: tokens (NULL in a replay), positions and causal offsets [rows]. */
    enum kvc_status (*load)(void *user, const int32_t *tokens, const int32_t *positions, const uint32_t *causal_offset,
                            uint32_t rows, struct kvc_error *error);
    /* Before attention: the part's queries into runner->q [rows, H, d], its keys and values anywhere. */
    enum kvc_status (*project)(void *user, uint32_t layer, const struct kvc_row_span *part,
                               struct kvc_projected *projected, struct kvc_error *error);
    /* After attention, whose output is runner->attended [rows, H, d]. */
    enum kvc_status (*feed_forward)(void *user, uint32_t layer, const struct kvc_row_span *part,
                                    struct kvc_error *error);
    /* Token pruning: only the rows `index` [rows] of the pass are kept for the next layer. */
    enum kvc_status (*gather)(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error);
};

/* Queries of a prompt that policies look at in the layer being computed. */
struct kvc_queries {
    uint32_t rows;
    struct kvc_growable q;             /* float32 [sets, rows, H, d], rotated */
    struct kvc_growable maximum;       /* float32 [sets, rows, H]: M of their attention */
    struct kvc_growable sum;           /* float32 [sets, rows, H]: L */
    struct kvc_growable positions;     /* int32 [sets, rows] */
    struct kvc_growable causal_offset; /* uint32 [rows] */
};

/* The prompt under way, of a session. Where a method cuts it into chunks, there is one set of queries for each layer,
 * otherwise one that all layers share. */
struct kvc_prompt {
    struct kvc_chunking chunking; /* chunk 0: the prompt is not cut */
    struct kvc_queries window;    /* the last queries */
    int32_t *window_positions;    /* [window.rows], the host's copy */
    struct kvc_queries pseudo;    /* the pseudo rows */
    uint32_t pseudo_offset;       /* positions between the prompt's last row and them */
    int32_t *pseudo_tokens;       /* [pseudo.rows], NULL in a replay */
    struct kvc_growable moments;  /* float32 [sets, H, 1 + d, d]: sums over its queries before their rotation */
    uint64_t *moment_rows;        /* [layers]: how many queries; NULL: no method asks */
    struct kvc_growable angles;   /* float32 [2, angle_rows, rotary/2]: cosine and sine of positions, of one rope */
    uint64_t angle_rows;
    uint32_t angle_rope;
    uint32_t probes;
    struct kvc_growable probe;     /* float32 [layers, probes, H, d]: the accumulated probe */
    struct kvc_growable probe_now; /* float32 [layers, probes, H, d]: this chunk's probe queries */
    struct kvc_queries probing;    /* out, M and L of the accumulated probe's attention */
    /* token pruning: rows of the prompt kept so far, and those that a propagate stage chose for the layers above */
    uint32_t *kept_rows; /* [kept_row_count], NULL: all */
    uint32_t kept_row_count;
    uint32_t *next_kept_rows; /* [next_rows], NULL: as before */
    uint32_t next_rows;
    /* the pass under way */
    uint32_t chunk_from; /* its first row, among the rows kept */
    uint32_t chunk_rows;
    bool first_chunk;
    bool last_chunk;
    uint32_t extra_from; /* row of the pass where those that methods add begin */
    uint32_t ended;      /* layers whose prompt stage is over */
    bool has_rows;       /* the lists of the layer under way take the pass's rows in as they come (pass.c) */
};

void kvc_prompt_free_queries(struct kvc_device *device, struct kvc_queries *queries);

/* Between begin and end the session counts as failed: it must be closed if the prompt breaks off. */
enum kvc_status kvc_prompt_begin(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
void kvc_prompt_end(struct kvc_session *session);
/* Most rows that are computed at once in a prompt of so many. */
uint32_t kvc_prompt_rows_most(const struct kvc_session *session, uint64_t rows);
/* Rows that methods add to the pass under way. */
uint32_t kvc_prompt_extra_rows(const struct kvc_session *session);
uint32_t kvc_prompt_extra_stored(const struct kvc_session *session); /* of these, those that get entries for a moment */

/* ---- several sessions' prompts as one ----
 *
 * What follows takes the sessions whose prompts are the same rows (prompt_many.c), most often one. What fails for one
 * of them alone stands in its `failure`, and the others go on without it. */

/* KVC_OK as long as any goes on; otherwise what became of the first. */
enum kvc_status kvc_prompts_live(struct kvc_session *const *sessions, size_t count, struct kvc_error *error);
/* The rows from .. from+rows-1 of the prompt are about to pass; where it is not cut these are all. */
enum kvc_status kvc_pass_begin(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t from, uint32_t rows, struct kvc_error *error);
/* Tells the source the pass's tokens, positions and causal offsets: the chunk's rows, then those that methods add,
 * session by session. */
enum kvc_status kvc_pass_load(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                              struct kvc_error *error);
/* A buffer for the last queries of `rows` rows; their positions and causal offsets. */
enum kvc_status kvc_prompt_set_window(struct kvc_session *session, uint32_t rows, struct kvc_error *error);

#endif
