/* loop.h - the engine thread's data: its requests and its cached sessions. */
#ifndef KVC_SERVE_LOOP_H
#define KVC_SERVE_LOOP_H

#include "serve/serve.h"

struct serve_cached { /* a session that later requests can continue */
    struct kvc_session *session;
    struct serve_tokens tokens; /* the tokens that it has computed */
    char *spec;
    uint64_t bytes, used;
    uint64_t slot; /* 1 + the number of the file that has its current content; 0: there is no such file */
    bool shared;   /* true if requests get copies of it */
};

struct serve_loop {
    struct serve *serve;
    struct serve_request *first;    /* the requests in order of arrival, including those that wait for memory */
    size_t running;                 /* number of choices with a session */
    uint64_t reserved;              /* bytes reserved for these choices */
    struct serve_choice *prompting; /* the choice whose prompt is being computed */
    size_t piece;                   /* number of prompt tokens that are being computed */
    struct serve_choice *starved;   /* the longest answer that waits for memory; NULL: none */
    uint64_t turns;
    bool idle; /* true if the last round computed nothing */
    double step_end, step_seconds;
    /* arrays of a decode step: [batch] */
    struct kvc_session **sessions;
    int32_t *tokens;
    enum kvc_status *statuses;
    struct serve_choice **members;
    float *logits;             /* [batch, vocab] */
    float *prompt_logits;      /* [vocab] */
    struct serve_cached *kept; /* [kept_count], at most options->kept */
    size_t kept_count;
    uint64_t kept_bytes, uses;
    uint64_t *loaded; /* [loaded_count]: numbers of the loaded slots, the most recently used first */
    size_t loaded_count;
    uint64_t loaded_uses; /* value of `uses` after the slots were loaded */
};

/* admit.c: memory. Opens the choice's session, or continues a cached one. Returns false if the choice must wait or if
 * admission failed. In the second case, *error has a status other than KVC_OK. */
bool serve_admit(struct serve_loop *loop, struct serve_choice *choice, struct kvc_error *error);
/* Reserves memory for more tokens of an answer. Returns false if there is no room now. */
bool serve_promise(struct serve_loop *loop, struct serve_choice *choice);
/* Reserves bytes for a stream's unread output. Returns false if there is no room. */
bool serve_buffer(struct serve_loop *loop, struct serve_request *request, uint64_t bytes);
/* Ends the choice. If `good` is true and its session can be reused, caches the session; otherwise closes it. */
void serve_leave(struct serve_loop *loop, struct serve_choice *choice, bool good);
void serve_cached_close(struct serve_loop *loop);
/* Caches a copy of the session for other prompts with the same prefix, if there is room. */
void serve_cached_add(struct serve_loop *loop, const struct serve_choice *choice);
/* If a choice has computed nothing yet, gives it a copy of a cached prefix of its prompt. */
void serve_cached_copy(struct serve_loop *loop, struct serve_choice *choice);
/* Returns true if the request may continue cached sessions and leave its own in the cache. */
bool serve_reuses(const struct serve_request *request);
/* Returns true if the request needs the logits of every row of the prompt, for echoed log probabilities. */
bool serve_wants_rows(const struct serve_request *request);

/* progress.c */
/* Appends an event to a stream's unread output. Returns false if there is no room for it. */
bool serve_put(struct serve_loop *loop, struct serve_request *request, const struct serve_text *event);
/* For streams with return_progress: sends how much of the choice's prompt is computed, at most once for each percent.
 * The session is computing the next `piece` tokens; `done` of `total` units of this work are done. */
void serve_progress(struct serve_loop *loop, struct serve_choice *choice, size_t piece, uint64_t done, uint64_t total);

/* slots.c: cached sessions on disk. Warnings go to standard error. serve_slots_save returns false if a session could
 * not be saved. */
void serve_slots_load(struct serve_loop *loop);
bool serve_slots_save(struct serve_loop *loop);

/* share.c: prefixes of prompts that are computed once. Returns true if the choice waits for such a prefix. */
bool serve_share_waits(const struct serve_loop *loop, const struct serve_choice *choice);
/* Before a prompt's first chunk: copies a cached prefix into the session, and sets choice->share_at. */
void serve_share_begin(struct serve_loop *loop, struct serve_choice *choice);
/* At a prompt's end: if the request wants several answers to the prompt, gives a copy of the session to each other
 * answer that was admitted. */
void serve_share_prompt(struct serve_choice *choice);

#endif
