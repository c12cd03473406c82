/* loop.h - what the engine thread has: the requests it computes, the sessions it keeps. */
#ifndef KVC_SERVE_LOOP_H
#define KVC_SERVE_LOOP_H

#include "serve/serve.h"

struct serve_cached { /* a session for a conversation's next request, or for all that begin with its tokens */
    struct kvc_session *session;
    struct serve_tokens tokens; /* that it has seen */
    char *spec;
    uint64_t bytes, used;
    uint64_t slot; /* the number of the file that has it as it is now, and 1; 0: none */
    bool shared;   /* requests get copies of it */
};

struct serve_loop {
    struct serve *serve;
    struct serve_request *first;    /* taken from the queue, in the order of arrival */
    size_t running;                 /* choices with a session */
    uint64_t reserved;              /* bytes promised to them */
    struct serve_choice *prompting; /* whose prompt is being computed */
    struct serve_choice *starved;   /* the longest answer that waits for memory to go on; NULL: none does */
    uint64_t turns;
    bool idle; /* the last round computed nothing */
    double step_end, step_seconds;
    /* of a decode step: [batch] */
    struct kvc_session **sessions;
    int32_t *tokens;
    enum kvc_status *statuses;
    struct serve_choice **members;
    float *logits;             /* [batch, vocab] */
    float *prompt_logits;      /* [vocab] */
    struct serve_cached *kept; /* [kept_count], at most options->kept */
    size_t kept_count;
    uint64_t kept_bytes, uses;
    uint64_t *loaded; /* [loaded_count]: numbers of the slots that were loaded, the last used first */
    size_t loaded_count;
    uint64_t loaded_uses; /* `uses` then */
};

/* admit.c: memory. Opens the choice's session, or goes on with a kept one. False: it must wait. *error.status tells
 * whether it failed. */
bool serve_admit(struct serve_loop *loop, struct serve_choice *choice, struct kvc_error *error);
/* Promises memory for some more tokens of an answer. False: there is no room for them now. */
bool serve_promise(struct serve_loop *loop, struct serve_choice *choice);
/* Counts bytes for what the request's client has not taken. False: there is no room for them. */
bool serve_buffer(struct serve_loop *loop, struct serve_request *request, uint64_t bytes);
/* Takes the session from the choice: keeps it where that is worth something and good says that it is whole. */
void serve_leave(struct serve_loop *loop, struct serve_choice *choice, bool good);
void serve_cached_close(struct serve_loop *loop);
/* Keeps a copy of the session for other prompts that begin with what it has seen, where there is room for it. */
void serve_cached_add(struct serve_loop *loop, const struct serve_choice *choice);
/* Gives a choice that has computed nothing yet a copy of what is kept of its prompt's beginning. */
void serve_cached_copy(struct serve_loop *loop, struct serve_choice *choice);
/* Whether the request's sessions may be gone on with, and be kept for that. */
bool serve_reuses(const struct serve_request *request);
/* Whether it wants the logits of every row of its prompt: echoed logprobs. */
bool serve_wants_rows(const struct serve_request *request);

/* slots.c: kept sessions in a folder; where they cannot be read or written standard error says so. False: some could
 * not be saved. */
void serve_slots_load(struct serve_loop *loop);
bool serve_slots_save(struct serve_loop *loop);

/* share.c: prefixes of prompts that are computed once. */
bool serve_share_waits(const struct serve_loop *loop, const struct serve_choice *choice); /* for such a prefix */
/* Before a prompt's first piece: from where it need not be computed, and up to where others can use it. */
void serve_share_begin(struct serve_loop *loop, struct serve_choice *choice);
/* At a prompt's end: the other answers to it, as far as they have been admitted, get copies of the session. */
void serve_share_prompt(struct serve_choice *choice);

#endif
