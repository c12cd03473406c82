/* coordinator.h - what a process does together with the other processes that share its model. A coordinator is a table
 * of functions, which a runner gets when it is created: kvc_alone (alone.c) for one process, and for several processes
 * kvc_sharing or kvc_pipeline (together.c). Prompts and decode steps call these functions at fixed places, without
 * knowing which table they have.
 *
 * Each library call runs one of the begin functions, then the computation, then `end`. */
#ifndef KVC_CORE_ENGINE_COORDINATOR_H
#define KVC_CORE_ENGINE_COORDINATOR_H

#include "core/engine/session.h"

struct kvc_passing;

/* Runs the rows through one layer. */
typedef enum kvc_status kvc_layer_fn(const struct kvc_passing *rows, uint32_t layer);

/* Some rows of a batch on their way through the layers. If the layers are in several processes, the rows and the
 * failures travel from one process to the next. */
struct kvc_passing {
    struct kvc_runner *runner;
    struct kvc_batch *batch;
    uint32_t row, rows;                  /* 0 rows: only failures travel */
    struct kvc_session *const *sessions; /* [count]; their failures travel with the rows */
    size_t count;
    enum kvc_status status; /* one status for all rows, and for all passes of a prompt so far */
    struct kvc_error *error;
    const struct kvc_row_source
        *source; /* the prompt's row source, because a layer may prune rows; NULL: a decode step */
    kvc_layer_fn *layer;
    void *user; /* data of `layer` */
    /* The members below are used for a prompt only, and only if the layers are in several processes. */
    bool whole_passes;   /* the caller learns of the progress after whole passes, not after parts of a layer */
    uint32_t lead;       /* how many passes this process may run ahead of the last status it received */
    uint32_t unreceived; /* passes sent whose status has not been received */
    uint32_t late; /* in the process of the last layer: number of passes from the first failed pass on; 0: none has
                    * failed */
};

/* The options of a prompt if several processes compute it: the caller's functions run in one of them, and all processes
 * get the same answer. */
struct kvc_shared_options {
    struct kvc_prompt_options options;
    const struct kvc_prompt_options *caller;
    struct kvc_ranks *ranks;
};

struct kvc_coordinator {
    bool several; /* several processes have the runner's sessions */

    /* ---- calls of the library: the other processes make the same call. kvc_alone: nothing ---- */
    /* A call whose only argument is the session. */
    void (*begin)(const struct kvc_session *session, enum kvc_call call);
    void (*begin_fork)(const struct kvc_session *session, const struct kvc_session *copy);
    /* A call that reads up to `capacity` numbers of a list; `list` is the list's index among the lists of all
     * processes. */
    void (*begin_list)(const struct kvc_session *session, enum kvc_call call, uint32_t layer, uint32_t list,
                       size_t capacity);
    /* sessions [count], tokens [count]: one token for each session. */
    void (*begin_decode)(struct kvc_session *const *sessions, size_t count, const int32_t *tokens, bool logits);
    /* All sessions [session_count] get the same tokens [count]. */
    void (*begin_prompt_many)(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                              size_t count, bool logits);
    /* tokens [count]. Returns the options to use from then on: the caller's (kvc_alone), or shared->options, whose
     * functions call the caller's functions. Returns NULL if the caller gave NULL. */
    const struct kvc_prompt_options *(*begin_prompt)(const struct kvc_session *session, const int32_t *tokens,
                                                     size_t count, const struct kvc_prompt_options *caller, bool logits,
                                                     struct kvc_shared_options *shared);
    /* Returns the status, after comparing it with that of the other processes. */
    enum kvc_status (*end)(const struct kvc_runner *runner, enum kvc_status status, const struct kvc_error *error);
    /* Called if this process has no memory for what the others are about to compute. Ends all processes. kvc_alone:
     * nothing; the caller reports the failure. */
    void (*lacks_memory)(const struct kvc_runner *runner, const char *text);

    /* ---- rows through the layers ---- */
    /* Calls rows->layer for each layer until one fails, and returns rows->status. In a pipeline, the rows are divided
     * into groups. Each process receives a group, calls rows->layer for its own layers and sends the group on, so that
     * several groups are under way at the same time. Sessions that failed in another process are marked as failed. */
    enum kvc_status (*step)(struct kvc_passing *rows);
    /* The passes of a prompt. begin_passes returns the maximum number of rows of a pass; kvc_alone sets no limit
     * (UINT32_MAX). If `overlap` is true, a pass may begin before the previous pass has left all processes. */
    uint32_t (*begin_passes)(struct kvc_passing *rows, bool overlap);
    /* Runs one pass like `step`. If rows->status is a failure already, no layer is computed. Returns a failure only
     * when all processes know of it. Until then, processes that do not know of it may begin further passes. */
    enum kvc_status (*pass)(struct kvc_passing *rows);
    /* Called after the last pass, with its status. Returns the prompt's status. */
    enum kvc_status (*end_passes)(struct kvc_passing *rows, enum kvc_status status);
    /* Copies logits [bytes] from the process of the last layer to all processes. kvc_alone: nothing. */
    void (*share_logits)(struct kvc_runner *runner, float *logits, size_t bytes);

    /* ---- numbers that a call needs of all processes ---- */
    /* Replace numbers [count], lengths of the longest lists, by their maxima: most_of_heads over the processes that
     * share a layer's heads, most_of_layers over the processes of a pipeline. kvc_alone: nothing. */
    void (*most_of_heads)(const struct kvc_session *session, uint64_t *numbers, size_t count);
    void (*most_of_layers)(const struct kvc_session *session, uint64_t *numbers, size_t count);
    /* Replaces a number by its maximum over the processes that compute the same layers. kvc_alone: nothing. */
    void (*agree)(const struct kvc_runner *runner, uint64_t *number);
    /* Adds the other processes' numbers. kvc_alone: nothing. */
    void (*add_stats)(const struct kvc_session *session, struct kvc_session_stats *stats);
    /* Returns true if this process owns a list; `list` is the list's index among the lists of all processes. *here
     * receives its index among this process's lists. kvc_alone: always true, the same index. */
    bool (*has_list)(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here);
    /* Copies positions [*count], at most `capacity` of them, from the process that owns the list to all processes.
     * kvc_alone: nothing. */
    void (*share_positions)(const struct kvc_session *session, uint32_t layer, uint32_t list, int32_t *positions,
                            size_t capacity, size_t *count);
};

extern const struct kvc_coordinator kvc_alone;    /* one process, or a replay */
extern const struct kvc_coordinator kvc_sharing;  /* several processes, each with a part of every layer */
extern const struct kvc_coordinator kvc_pipeline; /* several processes, each with some layers or parts of them */

/* Calls rows->layer for all layers until one fails, and returns rows->status. Serves as `step` and `pass` in a process
 * that has all layers. */
enum kvc_status kvc_all_layers(struct kvc_passing *rows);
uint32_t kvc_one_pass(struct kvc_passing *rows, bool overlap);
enum kvc_status kvc_end_one_pass(struct kvc_passing *rows, enum kvc_status status);
void kvc_keep_logits(struct kvc_runner *runner, float *logits, size_t bytes);
void kvc_keep_numbers(const struct kvc_session *session, uint64_t *numbers, size_t count);

#endif
