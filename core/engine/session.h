/* session.h - a session: its policy, its cache, what it has seen; the turn of a prompt under way; and the stage its
 * policy functions act on. */
#ifndef KVC_CORE_ENGINE_SESSION_H
#define KVC_CORE_ENGINE_SESSION_H

#include "core/engine/cache.h"
#include "core/stage/policy.h"
#include "core/engine/runner.h"

/* Queries of a prompt that policies look at in the layer being computed: rotated q [rows, H, d], M and L [rows, H]. */
struct kvc_queries {
    uint32_t rows;
    struct kvc_growable q, maximum, sum, positions, causal_offset;
};

/* What select methods keep of a layer beside its entries, counted as state. */
struct kvc_select_layer {
    struct kvc_pages pages;
    struct kvc_read_list view; /* rank NULL: none */
    uint32_t *view_count;      /* [heads], the host's copy */
    bool view_stale;           /* an eviction has made the view shorter than view_count says */
    struct kvc_buffer *sums;   /* float32 [heads, d]: values of all places added up */
    size_t page_bytes, rank_bytes;
    bool pages_right, sums_right; /* false: to be made anew */
    uint32_t fresh;               /* entries that came since */
};

/* What the last decode step read, on the host: of one head. */
struct kvc_recorded {
    int32_t *positions;
    size_t count, capacity;
};

/* Rows of cosine and sine of ranks, where a method turns keys to their places (cache_positions.c). */
struct kvc_cache_positions {
    struct kvc_growable cosine, sine; /* [ranks, rotary/2] */
    uint64_t ranks;
};

/* Ranks that a step of a layer will keep, as its policy said before it. */
struct kvc_planned {
    struct kvc_growable rank, count;
    uint32_t stride;
    bool nothing_goes; /* every list of the layer keeps all */
};

struct kvc_session {
    struct kvc_engine *engine;
    struct kvc_runner *runner;
    struct kvc_policy *policy;
    struct kvc_method_use *use; /* [policy->count] */
    struct kvc_cache cache;
    uint32_t chunk;
    bool long_rope;
    bool busy; /* already in the batch being made */
    bool in_prompt;
    bool failed; /* a prompt or step broke off: unusable */
    uint64_t context, seed, expected;
    uint64_t tokens; /* seen before the turn or step under way */
    uint64_t turn;   /* rows of the prompt under way or of the last one */
    uint64_t step;   /* decode steps since the last prompt */
    uint64_t *held;  /* [layers]: N, entries of the fullest head when the last prompt was in */
    uint64_t *after; /* [layers]: the same after the prompt stage */
    uint64_t steps_total;
    uint64_t read_bytes, select_bytes; /* of the cache: by attention; to choose what it reads */
    uint64_t peak_before, prompt_peak; /* cache + state: most before the turn under way; most in the last one */
    uint64_t saturated;
    struct kvc_error failure; /* of the policy in a decode step, with failed */

    /* the turn under way (prompt.c) */
    struct kvc_chunking chunking;  /* chunk 0: the prompt is not cut */
    struct kvc_queries window;     /* the last queries; one set for each layer where the prompt is cut into chunks */
    struct kvc_queries pseudo;     /* the pseudo rows, likewise */
    int32_t *window_positions;     /* [window.rows], the host's copy */
    struct kvc_growable probe;     /* accumulated probe [layers, probes, H, d] */
    struct kvc_growable probe_now; /* this chunk's probe queries [layers, probes, H, d] */
    struct kvc_queries probing;    /* out, M and L of the accumulated probe's attention */
    uint32_t probes;
    uint32_t *kept_rows; /* rows of the turn that still go on; NULL: all */
    uint32_t kept_row_count;
    uint32_t *next_kept_rows; /* as the propagate stage decided in the layer under way; NULL: as before */
    uint32_t next_rows;
    uint32_t chunk_from, chunk_rows; /* rows of the turn (or of going) in the pass under way */
    bool last_chunk, first_chunk;
    uint32_t ended; /* layers whose prompt stage is over */
    uint32_t pseudo_offset;
    int32_t *pseudo_tokens;
    bool *touched;          /* [layers]: evicted from since its blocks were last looked at */
    struct kvc_span counts; /* of runner->counts: where a decode step's evictions leave the counts of lists and views */

    struct kvc_planned *planned; /* [layers] */
    struct kvc_cache_positions cache_positions;

    /* decode steps (select.c) */
    struct kvc_select_layer *select; /* [layers] */
    struct kvc_growable read_rank, read_count, select_scores, select_probabilities, alpha;
    struct kvc_read_list chosen; /* by the row under way, in read_rank and read_count */
    bool mixing;                 /* the row under way gets the mean value of what it does not read */
    kvc_output_fn *output;       /* NULL, or told what each layer's attention gives in a decode step */
    void *output_user;
    float *output_row; /* [H, d] */
    bool record_reads;
    struct kvc_recorded *recorded; /* [layers, heads of a layer at most H] */
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

/* ---- a turn: prompt rows pass the layers, whole or chunk by chunk (prompt.c) ---- */

/* Who computes the rows: a network's runner, or replay, which has them already. */
struct kvc_turn_rows {
    void *user;
    /* Tokens of the turn [rows], NULL: a replay. */
    const int32_t *tokens;
    /* Pseudo rows that came with a replay. */
    uint32_t pseudo;
    /* The rows of a pass are known: tokens (NULL in a replay), positions and later of its `rows` rows. */
    enum kvc_status (*load)(void *user, const int32_t *tokens, const int32_t *positions, const uint32_t *causal_offset,
                            uint32_t rows, struct kvc_error *error);
    /* Rows row .. row+rows-1 of the pass through one layer, attention and all. */
    enum kvc_status (*compute)(void *user, uint32_t layer, uint32_t row, const struct kvc_part *part,
                               struct kvc_error *error);
    /* After a layer only the rows `index` of the pass go on. */
    enum kvc_status (*cut)(void *user, const uint32_t *index, uint32_t rows, struct kvc_error *error);
};

/* Between begin and end the session counts as failed. */
enum kvc_status kvc_turn_begin(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
void kvc_turn_end(struct kvc_session *session);
/* The rows from .. from+rows-1 of the turn are about to pass; where the prompt is not cut these are all. */
enum kvc_status kvc_turn_begin_pass(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t from,
                                    uint32_t rows, struct kvc_error *error);
/* All rows of the pass go through one layer; then the policy's moments. */
enum kvc_status kvc_turn_layer(struct kvc_session *session, const struct kvc_turn_rows *by, uint32_t layer,
                               struct kvc_error *error);
/* Which of the sets of queries is a layer's. */
size_t kvc_turn_set(const struct kvc_session *session, uint32_t layer);
/* Most rows that are computed at once in a turn of so many. */
uint32_t kvc_turn_rows_most(const struct kvc_session *session, uint64_t rows);

/* Rows of a prompt have been attended: keeps the queries that policies look at, tells the lookers. */
void kvc_turn_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                       const struct kvc_part *part, uint32_t batch_row);

/* ---- around attention, called by the runner ---- */

/* Before: what a decode row reads; NULL: everything. A failure is the session's own. */
const struct kvc_read_list *kvc_session_select(struct kvc_session *session, const struct kvc_batch *batch,
                                               uint32_t layer, uint32_t batch_row, uint32_t row);
/* After: rows of a part lie at part->row of runner->q, maximum and sum. In a prompt kvc_turn_attended; in a decode step
 * it runs the decode stage, whose failure is the session's own (failed, failure): the other sessions of the batch go
 * on. */
void kvc_session_attended(struct kvc_session *session, const struct kvc_batch *batch, uint32_t layer,
                          const struct kvc_part *part, uint32_t batch_row, const struct kvc_read_list *reads);

/* Room for one more row in every layer; on failure nothing has changed but spare blocks. cancel: the step that began
 * does not come about. */
enum kvc_status kvc_session_begin_step(struct kvc_session *session, struct kvc_error *error);
void kvc_session_cancel_step(struct kvc_session *session);
void kvc_session_end_step(struct kvc_session *session);
/* Room for the counts that the evictions of a step leave; and at its end, when the host waits: fetches those of the
 * parts' sessions at once and gives back blocks that are not needed any more. */
enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, const struct kvc_part *parts, size_t part_count,
                                        struct kvc_error *error);
void kvc_step_take_counts(struct kvc_runner *runner, const struct kvc_part *parts, size_t part_count);

/* ---- what select methods keep (select.c) ---- */

void kvc_select_close(struct kvc_session *session);
/* Only the ranks `kept` of the layer's lists are left, and are numbered anew: so is its view; pages and sums are to be
 * made anew. In a step the host has the view's counts at its end, as it has the lists'. */
void kvc_select_evicted(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *kept);
bool kvc_select_is_stale(const struct kvc_session *session);
void kvc_select_take_counts(struct kvc_session *session, const uint32_t *counts); /* behind those of all lists */
void kvc_select_drop_view(struct kvc_session *session, uint32_t layer);
/* One entry more in every head of the layer: it joins the view. */
enum kvc_status kvc_select_reserve(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
void kvc_select_appended(struct kvc_session *session, uint32_t layer);
/* Before a step that will choose so: whatever it needs to. stride: that of what it is about to read, where it
 * will not read everything. */
enum kvc_status kvc_select_prepare(struct kvc_session *session, uint32_t layer, const struct kvc_select *select,
                                   uint32_t *stride, struct kvc_error *error);
/* Remembers what the step read of the layer: the reads, or all it holds (NULL). */
enum kvc_status kvc_select_record(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                                  struct kvc_error *error);

/* ---- keys at their places in the cache (cache_positions.c) ---- */

/* KVC_USAGE where the policy turns keys that it cannot: of a replay (network NULL), of layers with a sliding window. */
enum kvc_status kvc_cache_positions_check(const struct kvc_policy *policy, const struct kvc_network *network,
                                          uint32_t layers, struct kvc_error *error);
/* Before `rows` more rows pass. */
enum kvc_status kvc_cache_positions_reserve(struct kvc_session *session, uint64_t rows, struct kvc_error *error);
/* A part's queries and keys, in runner->q and k, stand at the ranks that they are about to have. */
void kvc_cache_positions_rotate(struct kvc_session *session, uint32_t layer, const struct kvc_part *part);
/* Its entries have been appended: their keys before rotation are kept. */
void kvc_cache_positions_keep(struct kvc_session *session, uint32_t layer, const struct kvc_part *part);
/* Ranks have changed. */
enum kvc_status kvc_cache_positions_renew(struct kvc_session *session, uint32_t layer, struct kvc_error *error);

/* ---- the stage object that policy functions get ---- */

struct kvc_scores {
    struct kvc_span span; /* [heads, stride] */
    uint32_t stride, heads;
};

#define KVC_STAGE_SCORES 6u

struct kvc_stage {
    struct kvc_stage_info info;
    struct kvc_session *session;
    const struct kvc_method_use *use;
    void *user; /* of the method's class */
    uint32_t layer;
    /* the queries it may look at, oldest first; later counts from the lists as they are before any eviction, and has no
     * buffer where visibility goes by position */
    uint32_t queries;
    struct kvc_span q, maximum, sum, positions, causal_offset;
    const int32_t *host_positions;     /* of the queries, NULL in a decode step */
    const struct kvc_read_list *reads; /* what the step's query read */
    uint64_t first_position;           /* of a decode step's query */
    struct kvc_scores scores[KVC_STAGE_SCORES];
    unsigned score_count;
    bool evicted, looks_only; /* looks_only: a method that observes and must not evict */
    /* out: */
    struct kvc_read_list *chosen; /* select stage: set where not everything is read */
    bool mean_value;
    bool chose;
};

/* A stage of a layer with no queries. */
struct kvc_stage kvc_stage_make(struct kvc_session *session, uint32_t layer);
/* The moments of a prompt in one layer: some rows attended; a chunk has passed; all have passed (observers, propagate,
 * prompt). And of a decode step. */
enum kvc_status kvc_stage_run_attended(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_run_chunk(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_run_prompt(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_run_select(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_run_decode(struct kvc_stage *stage, struct kvc_error *error);
/* Before a decode step, when room may still be made: for what the select and decode stages of a layer will ask for,
 * where that can be known; and the policy's plan. */
enum kvc_status kvc_stage_prepare(struct kvc_session *session, uint32_t layer, struct kvc_error *error);
void kvc_stage_forget_plan(struct kvc_session *session, uint32_t layer);
/* The rows of kvc_probabilities of the stage's newest `count` queries. */
struct kvc_probabilities kvc_stage_rows(const struct kvc_stage *stage, uint32_t count);
struct kvc_cache_layer *kvc_stage_lists(const struct kvc_stage *stage);
/* The first of the class's `count` columns from `first` on, among those of all methods. */
enum kvc_status kvc_stage_columns(const struct kvc_stage *stage, uint32_t first, uint32_t count, uint32_t *at,
                                  struct kvc_error *error);

#endif
