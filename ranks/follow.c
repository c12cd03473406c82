/* follow.c - repeats the calls that rank 0 broadcasts, on another rank and with that rank's own objects. The name of an
 * object is its address on rank 0. */
#include "ranks/follow.h"

#include <stdlib.h>
#include <string.h>

#include "core/ranks/ranks.h"
#include "kvcull/ranks.h"
#include "kvcull/saved.h"

/* Maps an object of rank 0 to this rank's copy. */
struct object {
    uint64_t name;
    void *here;
};

struct objects {
    struct object *list; /* [count], allocated for [capacity] */
    size_t count, capacity;
};

static void follow_end(struct kvc_ranks *ranks, const char *text) { ranks->link->class->end(ranks->link, text); }

static void *copy_of(struct kvc_ranks *ranks, const void *data, size_t bytes) {
    void *copy = malloc(bytes + 1);
    if (!copy || (bytes && !data))
        follow_end(ranks, "no memory for rank 0's call");
    else if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static void follow_keep(struct kvc_ranks *ranks, uint64_t name, void *here) {
    struct objects *objects = ranks->objects;
    if (!objects)
        objects = ranks->objects = calloc(1, sizeof *objects);
    if (objects && objects->count == objects->capacity) {
        objects->capacity = 2 * objects->capacity + 8;
        struct object *grown = realloc(objects->list, objects->capacity * sizeof *grown);
        if (!grown)
            follow_end(ranks, "no memory for rank 0's call");
        objects->list = grown;
    }
    if (!objects)
        follow_end(ranks, "no memory for rank 0's call");
    else
        objects->list[objects->count++] = (struct object){name, here};
}

/* Returns the object that the packet names next. If `forget` is true, also removes it from the list, because it is
 * about to be closed. */
static void *object(struct kvc_ranks *ranks, bool forget) {
    const uint64_t name = kvc_packet_get_number(&ranks->packet);
    struct objects *objects = ranks->objects;
    for (size_t i = objects ? objects->count : 0; i-- > 0;) {
        void *here = objects->list[i].here;
        if (objects->list[i].name != name)
            continue;
        if (forget)
            objects->list[i] = objects->list[--objects->count];
        return here;
    }
    follow_end(ranks, "rank 0 names an object that is not here");
    return NULL;
}

/* Registers a new object. Rank 0 has already made its own, so a failure here ends all ranks. */
static void made(struct kvc_ranks *ranks, uint64_t name, enum kvc_status status, void *here,
                 const struct kvc_error *error) {
    if (status != KVC_OK)
        follow_end(ranks, error->text);
    follow_keep(ranks, name, here);
}

/* Copies a text that may be NULL. */
static char *text_copy(struct kvc_ranks *ranks, const char *text) {
    return text ? copy_of(ranks, text, strlen(text) + 1) : NULL;
}

/* ---- the calls: each reads the packet that the library function of the same name writes ---- */

static void open_engine(struct kvc_ranks *ranks, struct kvc_packet *in) {
    char *backend, *trace, *values;
    struct kvc_engine_options options = {.ranks = ranks};
    struct kvc_engine *engine;
    const uint64_t name = kvc_packet_get_number(in);
    options.backend = backend = text_copy(ranks, kvc_packet_get_text(in));
    options.threads = (int)kvc_packet_get_number(in);
    options.math = (enum kvc_math)kvc_packet_get_number(in);
    options.trace = trace = text_copy(ranks, kvc_packet_get_text(in));
    options.trace_values = values = text_copy(ranks, kvc_packet_get_text(in));
    struct kvc_error error;
    const enum kvc_status status = kvc_engine_open(&options, &engine, &error);
    made(ranks, name, status, engine, &error);
    free(backend);
    free(trace);
    free(values);
}

static void open_model(struct kvc_ranks *ranks, struct kvc_packet *in) {
    struct kvc_engine *engine = object(ranks, false);
    const uint64_t name = kvc_packet_get_number(in);
    const char *text = kvc_packet_get_text(in);
    char *path = copy_of(ranks, text, text ? strlen(text) + 1 : 0);
    struct kvc_model *model;
    struct kvc_error error;
    const enum kvc_status status = kvc_model_open(engine, path, &model, &error);
    made(ranks, name, status, model, &error);
    free(path);
}

static void open_session(struct kvc_ranks *ranks, struct kvc_packet *in) {
    struct kvc_model *model = object(ranks, false);
    const uint64_t name = kvc_packet_get_number(in);
    struct kvc_session_options options;
    const void *packed = kvc_packet_get(in, sizeof options);
    const char *text = kvc_packet_get_text(in);
    char *policy = text_copy(ranks, text);
    struct kvc_session *session;
    struct kvc_error error;
    if (packed)
        memcpy(&options, packed, sizeof options);
    options.policy = policy;
    const enum kvc_status status = kvc_session_open(model, &options, &session, &error);
    made(ranks, name, status, session, &error);
    free(policy);
}

static void fork_session(struct kvc_ranks *ranks, struct kvc_packet *in) {
    struct kvc_session *session = object(ranks, false), *copy;
    const uint64_t name = kvc_packet_get_number(in);
    struct kvc_error error;
    const enum kvc_status status = kvc_session_fork(session, &copy, &error);
    made(ranks, name, status, copy, &error);
}

/* The program's callbacks run only on rank 0. The other ranks pass these empty callbacks. */
static int row(void *user, uint64_t number, const float *logits) {
    (void)user, (void)number, (void)logits;
    return 0;
}

static int progress(void *user, uint64_t done, uint64_t total) {
    (void)user, (void)done, (void)total;
    return 0;
}

static int chunk(void *user, uint64_t tokens) {
    (void)user, (void)tokens;
    return 0;
}

static int never(void *user) {
    (void)user;
    return 0;
}

static void on_interrupt(struct kvc_ranks *ranks, struct kvc_packet *in) {
    struct kvc_engine *engine = object(ranks, false);
    struct kvc_error error;
    (void)kvc_engine_on_interrupt(engine, kvc_packet_get_number(in) ? never : NULL, NULL, &error);
}

static float *follow_room(struct kvc_ranks *ranks, bool wanted, size_t rows, uint32_t vocab) {
    float *logits = wanted ? malloc(rows * vocab * sizeof *logits) : NULL;
    if (wanted && !logits)
        follow_end(ranks, "no memory for logits");
    return logits;
}

static void follow_prompt(struct kvc_ranks *ranks, struct kvc_packet *in) {
    struct kvc_session *session = object(ranks, false);
    const size_t count = (size_t)kvc_packet_get_number(in);
    int32_t *tokens = copy_of(ranks, kvc_packet_get(in, count * sizeof *tokens), count * sizeof *tokens);
    const uint64_t flags = kvc_packet_get_number(in);
    float *logits = follow_room(ranks, flags & KVC_PROMPT_LOGITS, 1, (uint32_t)kvc_packet_get_number(in));
    const struct kvc_prompt_options options = {.row = flags & KVC_PROMPT_ROW ? row : NULL,
                                               .progress = flags & KVC_PROMPT_PROGRESS ? progress : NULL,
                                               .chunk = flags & KVC_PROMPT_CHUNK ? chunk : NULL,
                                               .synthetic = flags & KVC_PROMPT_SYNTHETIC};
    struct kvc_error error;
    (void)kvc_session_prompt(session, tokens, count, &options, logits, &error);
    free(tokens);
    free(logits);
}

static struct kvc_session **sessions_of(struct kvc_ranks *ranks, struct kvc_packet *in, size_t *count) {
    *count = (size_t)kvc_packet_get_number(in);
    struct kvc_session **sessions = calloc(*count + 1, sizeof *sessions);
    if (!sessions)
        follow_end(ranks, "no memory for sessions");
    for (size_t i = 0; sessions && i < *count; i++)
        sessions[i] = object(ranks, false);
    return sessions;
}

static void prompt_many(struct kvc_ranks *ranks, struct kvc_packet *in) {
    size_t sessions;
    struct kvc_session **session = sessions_of(ranks, in, &sessions);
    const size_t count = (size_t)kvc_packet_get_number(in);
    int32_t *tokens = copy_of(ranks, kvc_packet_get(in, count * sizeof *tokens), count * sizeof *tokens);
    const bool wanted = kvc_packet_get_number(in);
    float *logits = follow_room(ranks, wanted, sessions, (uint32_t)kvc_packet_get_number(in));
    struct kvc_error error;
    (void)kvc_session_prompt_many(session, sessions, tokens, count, logits, NULL, &error);
    free(tokens);
    free(logits);
    free(session);
}

static void follow_decode(struct kvc_ranks *ranks, struct kvc_packet *in) {
    size_t count;
    struct kvc_session **session = sessions_of(ranks, in, &count);
    (void)kvc_packet_get_number(in); /* skips the number of tokens, which is one per session */
    int32_t *tokens = copy_of(ranks, kvc_packet_get(in, count * sizeof *tokens), count * sizeof *tokens);
    const bool wanted = kvc_packet_get_number(in);
    float *logits = follow_room(ranks, wanted, count, (uint32_t)kvc_packet_get_number(in));
    struct kvc_error error;
    (void)kvc_decode(session, tokens, count, logits, NULL, &error);
    free(tokens);
    free(logits);
    free(session);
}

typedef enum kvc_status list_fn(const struct kvc_session *, uint32_t, uint32_t, int32_t *, size_t, size_t *,
                                struct kvc_error *);

/* Runs a function that lists the positions of entries, held or read. */
static void follow_list(struct kvc_ranks *ranks, struct kvc_packet *in, list_fn *function) {
    const struct kvc_session *session = object(ranks, false);
    const uint32_t layer = (uint32_t)kvc_packet_get_number(in), head = (uint32_t)kvc_packet_get_number(in);
    size_t count = 0, capacity = (size_t)kvc_packet_get_number(in);
    int32_t *room = malloc(capacity * sizeof *room + 1);
    struct kvc_error error;
    if (!room)
        follow_end(ranks, "no memory for positions");
    (void)function(session, layer, head, room, capacity, &count, &error);
    free(room);
}

/* Runs the call that was broadcast. Returns false if it was the last call. */
static bool one(struct kvc_ranks *ranks, enum kvc_call call) {
    struct kvc_packet *in = &ranks->packet;
    struct kvc_session_stats stats;
    struct kvc_memory memory;
    struct kvc_ranks_traffic traffic;
    switch (call) {
    case KVC_CALL_LEAVE:
    case KVC_CALL_RETURN:
        return false;
    case KVC_CALL_ENGINE_OPEN:
        open_engine(ranks, in);
        break;
    case KVC_CALL_ENGINE_CLOSE:
        kvc_engine_close(object(ranks, true));
        break;
    case KVC_CALL_ON_INTERRUPT:
        on_interrupt(ranks, in);
        break;
    case KVC_CALL_MODEL_OPEN:
        open_model(ranks, in);
        break;
    case KVC_CALL_MODEL_CLOSE:
        kvc_model_close(object(ranks, true));
        break;
    case KVC_CALL_SESSION_OPEN:
        open_session(ranks, in);
        break;
    case KVC_CALL_SESSION_CLOSE:
        kvc_session_close(object(ranks, true));
        break;
    case KVC_CALL_FORK:
        fork_session(ranks, in);
        break;
    case KVC_CALL_PROMPT:
        follow_prompt(ranks, in);
        break;
    case KVC_CALL_PROMPT_MANY:
        prompt_many(ranks, in);
        break;
    case KVC_CALL_DECODE:
        follow_decode(ranks, in);
        break;
    case KVC_CALL_STATS:
        kvc_session_stats(object(ranks, false), &stats);
        break;
    case KVC_CALL_POSITIONS:
        follow_list(ranks, in, kvc_session_positions);
        break;
    case KVC_CALL_READS:
        follow_list(ranks, in, kvc_session_reads);
        break;
    case KVC_CALL_MEMORY:
        kvc_engine_memory(object(ranks, false), &memory);
        break;
    case KVC_CALL_RESET_PEAKS:
        kvc_engine_reset_peaks(object(ranks, false));
        break;
    case KVC_CALL_TRAFFIC:
        kvc_ranks_all_traffic(ranks, &traffic);
        break;
    }
    if (in->broken)
        follow_end(ranks, "rank 0 sent an unexpected call");
    return true;
}

int kvc_follow(struct kvc_ranks *ranks) {
    struct kvc_link *link = ranks->link;
    struct kvc_packet *in = &ranks->packet;
    enum kvc_call call;
    do {
        uint64_t bytes = 0;
        link->class->await(link, &bytes, sizeof bytes);
        if (!kvc_packet_reserve(in, (size_t)bytes))
            follow_end(ranks, "no memory for rank 0's call");
        link->class->broadcast(link, in->data, (size_t)bytes, 0);
        in->bytes = (size_t)bytes;
        in->at = 0;
        call = (enum kvc_call)kvc_packet_get_number(in);
    } while (one(ranks, call));
    if (call == KVC_CALL_LEAVE)
        return 0;
    return (int)(int64_t)kvc_packet_get_number(in);
}

void kvc_follow_free(struct kvc_ranks *ranks) {
    struct objects *objects = ranks->objects;
    if (objects)
        free(objects->list);
    free(objects);
    ranks->objects = NULL;
}
