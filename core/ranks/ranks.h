/* ranks.h - several processes as one engine. Rank 0 runs the program; each call of the library that computes or makes
 * an object is told to the others, which make it too (ranks/follow.c), and what a layer computes is gathered on the
 * way. A function of the library that takes part is
 *
 *     struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_DECODE);
 *     if (packet) { what it takes is put in; kvc_call_broadcast(ranks); }
 *     ... what it does ...
 *     return kvc_call_end(ranks, status, error);
 *
 * Where ranks have a run of layers each (core/engine/pipeline.h), rows are passed on from one to the next. Both go
 * together: ranks are then counted stage by stage, and those of a stage share its layers out.
 *
 * ranks may be NULL, one process alone; then nothing of this happens. */
#ifndef KVC_CORE_RANKS_RANKS_H
#define KVC_CORE_RANKS_RANKS_H

#include "core/ranks/link.h"
#include "core/ranks/packet.h"
#include "core/ranks/split.h"
#include "kvcull.h"

enum kvc_call {
    KVC_CALL_LEAVE,  /* the last one */
    KVC_CALL_RETURN, /* a function that the caller gave (KVC_CALL_PROMPT) has returned */
    KVC_CALL_ENGINE_OPEN,
    KVC_CALL_ENGINE_CLOSE,
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

/* Of KVC_CALL_PROMPT: which functions rank 0's program gave, and what else it wants. */
enum {
    KVC_PROMPT_ROW = 1,
    KVC_PROMPT_PROGRESS = 2,
    KVC_PROMPT_CHUNK = 4,
    KVC_PROMPT_SYNTHETIC = 8,
    KVC_PROMPT_LOGITS = 16
};

/* Some of the ranks, who share something out. */
struct kvc_team {
    struct kvc_link *link; /* of these ranks alone; NULL: this rank alone */
    struct kvc_split split;
};

struct kvc_ranks {
    struct kvc_link *link;    /* of all */
    bool apart;               /* "data": nothing is told, each rank has engines of its own */
    struct kvc_team rows;     /* those with the same layers, each with a part of every one: "tensor" */
    struct kvc_team stages;   /* those with the same part of layers, each with a run of them: "pipeline" */
    unsigned depth;           /* calls under way, one within another */
    struct kvc_packet packet; /* the call that is told, or was */
    /* on ranks other than 0: does what is told until a KVC_CALL_RETURN, whose value it returns */
    int (*follow)(struct kvc_ranks *ranks);
    uint32_t *share; /* what the teams' splits point to */
    void *objects;   /* follow's */
    size_t *widths;  /* [rows.split.ranks], for a gather */
    float *room;     /* [room_capacity], for one, too */
    size_t room_capacity;
    float *gathered; /* [gathered_capacity]: parts of rows, rank by rank */
    size_t gathered_capacity;
};

static inline bool kvc_ranks_several(const struct kvc_ranks *ranks) {
    return ranks && !ranks->apart && ranks->link->count > 1;
}

/* NULL where nothing is to be told: there is one rank, this is not rank 0, or a call is under way already. */
struct kvc_packet *kvc_call_begin(struct kvc_ranks *ranks, enum kvc_call call);
void kvc_call_broadcast(struct kvc_ranks *ranks);
/* All ranks must have come to the same status; returns it. Lack of memory, which one rank alone may have, ends all. */
enum kvc_status kvc_call_end(struct kvc_ranks *ranks, enum kvc_status status, const struct kvc_error *error);

/* Around a function of the caller's, which may call the library: what it returns on rank 0 is returned everywhere. */
unsigned kvc_call_out(struct kvc_ranks *ranks);
int kvc_call_back(struct kvc_ranks *ranks, unsigned depth, int value);

/* numbers [count] become the sums of all ranks' numbers; the largest of those of all or some ranks. */
void kvc_ranks_add(struct kvc_ranks *ranks, uint64_t *numbers, size_t count);
void kvc_ranks_maximum(struct kvc_ranks *ranks, struct kvc_link *of, uint64_t *numbers, size_t count);

/* Whether all ranks have this number; if not, the first other one and whose it is. */
bool kvc_ranks_agree(struct kvc_ranks *ranks, uint64_t number, uint32_t *rank, uint64_t *other);

float *kvc_ranks_buffer(struct kvc_ranks *ranks, size_t floats); /* until the next call */

/* Parts of some rows, of the ranks that share layers out: rank r's is [rows, widths[r]] floats, and together they are
 * rows of the sum of the widths. mine: this rank's, NULL where it has none. widths [rows.split.ranks]. */
void kvc_ranks_gather_rows(struct kvc_ranks *ranks, const float *mine, uint32_t rows, const size_t *widths, float *out);

#endif
