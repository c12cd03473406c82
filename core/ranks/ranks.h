/* ranks.h - several processes as one engine. Rank 0 runs the program. It broadcasts each library call that computes or
 * creates an object to the other ranks, which make the same call (ranks/follow.c). Results of a layer are gathered
 * during the computation. A library function that takes part looks like this:
 *
 *     struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_ENGINE_CLOSE);
 *     if (packet) { add the arguments; kvc_call_broadcast(ranks); }
 *     ... compute ...
 *     return kvc_call_end(ranks, status, error);
 *
 * Calls that take a session do so through the coordinator of its runner (core/engine/coordinator.h).
 *
 * In a pipeline (core/engine/pipeline.h), each rank has consecutive layers, and rows are sent from one rank to the
 * next. If tensor and pipeline parallelism are combined, ranks are numbered stage by stage, and the ranks of a stage
 * share its layers.
 *
 * If ranks is NULL, there is one process, and none of this happens. */
#ifndef KVC_CORE_RANKS_RANKS_H
#define KVC_CORE_RANKS_RANKS_H

#include "core/ranks/link.h"
#include "core/ranks/packet.h"
#include "core/ranks/split.h"
#include "kvcull.h"

struct kvc_device;

enum kvc_call {
    KVC_CALL_LEAVE,  /* the last call */
    KVC_CALL_RETURN, /* a callback of the caller (KVC_CALL_PROMPT) has returned */
    KVC_CALL_ENGINE_OPEN,
    KVC_CALL_ENGINE_CLOSE,
    KVC_CALL_ON_INTERRUPT,
    KVC_CALL_MODEL_OPEN,
    KVC_CALL_MODEL_CLOSE,
    KVC_CALL_SESSION_OPEN,
    KVC_CALL_SESSION_CLOSE,
    KVC_CALL_PROMPT,
    KVC_CALL_PROMPT_MANY,
    KVC_CALL_DECODE,
    KVC_CALL_FORK,
    KVC_CALL_STATS,
    KVC_CALL_POSITIONS,
    KVC_CALL_READS,
    KVC_CALL_MEMORY,
    KVC_CALL_RESET_PEAKS,
    KVC_CALL_TRAFFIC
};

/* For KVC_CALL_PROMPT: the callbacks that rank 0's program gave, and its other options. */
enum {
    KVC_PROMPT_ROW = 1,
    KVC_PROMPT_PROGRESS = 2,
    KVC_PROMPT_CHUNK = 4,
    KVC_PROMPT_SYNTHETIC = 8,
    KVC_PROMPT_LOGITS = 16
};

/* A group of ranks that share work. */
struct kvc_team {
    struct kvc_link *link; /* a link of these ranks only; NULL: the group is this rank alone */
    struct kvc_split split;
};

struct kvc_ranks {
    struct kvc_link *link;    /* the link of all ranks */
    bool apart;               /* "data" parallelism: nothing is broadcast, each rank has its own engines */
    struct kvc_team rows;     /* "tensor": the ranks with the same layers, each with a part of every layer */
    struct kvc_team stages;   /* "pipeline": the ranks with the same part of layers, each with consecutive layers */
    unsigned depth;           /* number of nested calls in progress */
    struct kvc_packet packet; /* the current or last broadcast call */
    /* on ranks other than 0: executes broadcast calls until KVC_CALL_RETURN, whose value it returns */
    int (*follow)(struct kvc_ranks *ranks);
    /* connects the devices of a link's ranks if possible; NULL: never */
    void (*attach)(struct kvc_link *link, struct kvc_device *device);
    uint32_t *share; /* referenced by the teams' splits */
    void *objects;   /* data of `follow` */
    size_t *widths;  /* [rows.split.ranks]: scratch of a gather */
    float *room;     /* [room_capacity]: scratch of a gather */
    size_t room_capacity;
    float *gathered; /* [gathered_capacity]: parts of rows, ordered by rank */
    size_t gathered_capacity;
};

static inline bool kvc_ranks_several(const struct kvc_ranks *ranks) {
    return ranks && !ranks->apart && ranks->link->count > 1;
}

/* Returns NULL if nothing is to be broadcast: there is one rank, this is not rank 0, or another call is in progress. */
struct kvc_packet *kvc_call_begin(struct kvc_ranks *ranks, enum kvc_call call);
void kvc_call_broadcast(struct kvc_ranks *ranks);
/* Checks that all ranks have the same status and returns it. A rank that is out of memory ends all ranks, because the
 * others may wait for it. */
enum kvc_status kvc_call_end(struct kvc_ranks *ranks, enum kvc_status status, const struct kvc_error *error);

/* Called before and after a callback, which may call the library. The callback's return value on rank 0 is returned on
 * all ranks. */
unsigned kvc_call_out(struct kvc_ranks *ranks);
int kvc_call_back(struct kvc_ranks *ranks, unsigned depth, int value);

/* Replace numbers [count] by their sums over all ranks, or by their maxima over the ranks of a link. */
void kvc_ranks_add(struct kvc_ranks *ranks, uint64_t *numbers, size_t count);
void kvc_ranks_maximum(struct kvc_ranks *ranks, struct kvc_link *of, uint64_t *numbers, size_t count);

/* Returns true if all ranks have the same number. Otherwise *rank and *other describe the first rank with another
 * number. */
bool kvc_ranks_agree(struct kvc_ranks *ranks, uint64_t number, uint32_t *rank, uint64_t *other);

float *kvc_ranks_buffer(struct kvc_ranks *ranks, size_t floats); /* valid until the next call */

/* Gathers rows from the ranks that share layers: rank r's part is [rows, widths[r]] floats, and `out` is [rows, sum of
 * widths]. `mine` is this rank's part, or NULL if it has none. widths [rows.split.ranks]. */
void kvc_ranks_gather_rows(struct kvc_ranks *ranks, const float *mine, uint32_t rows, const size_t *widths, float *out);

#endif
