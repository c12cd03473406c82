/* together.c - the coordinators of several processes. Rank 0 broadcasts the calls of its program, with the arguments
 * that ranks/follow.c reads. Numbers and lists are exchanged between the ranks that share heads or layers. Rows pass
 * from rank to rank in a pipeline only (pipeline_passes.c). */
#include "core/engine/coordinator.h"

#include "core/base/integers.h"
#include "core/engine/pipeline.h"

static struct kvc_ranks *ranks_of(const struct kvc_runner *runner) { return runner->engine->ranks; }

/* ---- calls ---- */

static void begin(const struct kvc_session *session, enum kvc_call call) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    struct kvc_packet *packet = kvc_call_begin(ranks, call);
    if (!packet)
        return;
    kvc_packet_put_pointer(packet, session);
    kvc_call_broadcast(ranks);
}

static void begin_fork(const struct kvc_session *session, const struct kvc_session *copy) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_FORK);
    if (!packet)
        return;
    kvc_packet_put_pointer(packet, session);
    kvc_packet_put_pointer(packet, copy);
    kvc_call_broadcast(ranks);
}

static void begin_list(const struct kvc_session *session, enum kvc_call call, uint32_t layer, uint32_t list,
                       size_t capacity) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    struct kvc_packet *packet = kvc_call_begin(ranks, call);
    if (!packet)
        return;
    kvc_packet_put_pointer(packet, session);
    kvc_packet_put_number(packet, layer);
    kvc_packet_put_number(packet, list);
    kvc_packet_put_number(packet, capacity);
    kvc_call_broadcast(ranks);
}

/* Broadcasts a call whose arguments are sessions of one model, tokens, and whether logits are wanted. */
static void begin_sessions(enum kvc_call call, struct kvc_session *const *sessions, size_t session_count,
                           const int32_t *tokens, size_t count, bool logits) {
    struct kvc_ranks *ranks = ranks_of(sessions[0]->runner);
    struct kvc_packet *packet = kvc_call_begin(ranks, call);
    if (!packet)
        return;
    kvc_packet_put_number(packet, session_count);
    for (size_t i = 0; i < session_count; i++)
        kvc_packet_put_pointer(packet, sessions[i]);
    kvc_packet_put_number(packet, count);
    kvc_packet_put(packet, tokens, count * sizeof *tokens);
    kvc_packet_put_number(packet, logits);
    kvc_packet_put_number(packet, sessions[0]->runner->network->vocab);
    kvc_call_broadcast(ranks);
}

static void begin_decode(struct kvc_session *const *sessions, size_t count, const int32_t *tokens, bool logits) {
    begin_sessions(KVC_CALL_DECODE, sessions, count, tokens, count, logits);
}

static void begin_prompt_many(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                              size_t count, bool logits) {
    begin_sessions(KVC_CALL_PROMPT_MANY, sessions, session_count, tokens, count, logits);
}

/* The next three functions call the caller's function of the same name, and return rank 0's answer on all ranks. */

static int row(void *user, uint64_t number, const float *logits) {
    const struct kvc_shared_options *shared = user;
    const unsigned depth = kvc_call_out(shared->ranks);
    return kvc_call_back(shared->ranks, depth, shared->caller->row(shared->caller->user, number, logits));
}

static int progress(void *user, uint64_t done, uint64_t total) {
    const struct kvc_shared_options *shared = user;
    const unsigned depth = kvc_call_out(shared->ranks);
    return kvc_call_back(shared->ranks, depth, shared->caller->progress(shared->caller->user, done, total));
}

static int chunk(void *user, uint64_t tokens) {
    const struct kvc_shared_options *shared = user;
    const unsigned depth = kvc_call_out(shared->ranks);
    return kvc_call_back(shared->ranks, depth, shared->caller->chunk(shared->caller->user, tokens));
}

static const struct kvc_prompt_options *begin_prompt(const struct kvc_session *session, const int32_t *tokens,
                                                     size_t count, const struct kvc_prompt_options *caller, bool logits,
                                                     struct kvc_shared_options *shared) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    struct kvc_packet *packet = kvc_call_begin(ranks, KVC_CALL_PROMPT);
    const struct kvc_prompt_options none = {.row = NULL}, *given = caller ? caller : &none;
    const unsigned flags =
        (given->row ? (unsigned)KVC_PROMPT_ROW : 0u) | (given->progress ? (unsigned)KVC_PROMPT_PROGRESS : 0u) |
        (given->chunk ? (unsigned)KVC_PROMPT_CHUNK : 0u) | (given->synthetic ? (unsigned)KVC_PROMPT_SYNTHETIC : 0u) |
        (logits ? (unsigned)KVC_PROMPT_LOGITS : 0u);
    if (packet) {
        kvc_packet_put_pointer(packet, session);
        kvc_packet_put_number(packet, count);
        kvc_packet_put(packet, tokens, count * sizeof *tokens);
        kvc_packet_put_number(packet, flags);
        kvc_packet_put_number(packet, session->runner->network->vocab);
        kvc_call_broadcast(ranks);
    }
    *shared = (struct kvc_shared_options){.options = {.row = given->row ? row : NULL,
                                                      .progress = given->progress ? progress : NULL,
                                                      .chunk = given->chunk ? chunk : NULL,
                                                      .user = shared,
                                                      .synthetic = given->synthetic},
                                          .caller = caller,
                                          .ranks = ranks};
    return caller ? &shared->options : NULL;
}

static enum kvc_status end(const struct kvc_runner *runner, enum kvc_status status, const struct kvc_error *error) {
    return kvc_call_end(ranks_of(runner), status, error);
}

static void lacks_memory(const struct kvc_runner *runner, const char *text) {
    struct kvc_link *link = ranks_of(runner)->link;
    link->class->end(link, text);
}

/* ---- numbers and lists ---- */

static void most_of_heads(const struct kvc_session *session, uint64_t *numbers, size_t count) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    if (session->runner->network->part.heads_sharded)
        kvc_ranks_maximum(ranks, ranks->rows.link, numbers, count);
}

static void most_of_layers(const struct kvc_session *session, uint64_t *numbers, size_t count) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    kvc_ranks_maximum(ranks, ranks->stages.link, numbers, count);
}

static void agree(const struct kvc_runner *runner, uint64_t *number) {
    struct kvc_ranks *ranks = ranks_of(runner);
    if (ranks->rows.link && ranks->rows.link->count > 1)
        kvc_ranks_maximum(ranks, ranks->rows.link, number, 1);
}

/* Adds up the bytes of all ranks. An entry that two ranks hold is counted once. */
static void add_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    struct kvc_ranks *ranks = ranks_of(session->runner);
    uint64_t *const sums[] = {&stats->entries,      &stats->full_bytes, &stats->read_bytes,
                              &stats->select_bytes, &stats->saturated,  &stats->cache_bytes,
                              &stats->state_bytes,  &stats->peak_bytes, &stats->prompt_peak_bytes};
    enum { SUMS = sizeof sums / sizeof *sums, COUNTED_ONCE = 5 };
    uint64_t numbers[SUMS];
    const bool counts = kvc_network_counts(session->runner->network);
    for (size_t i = 0; i < SUMS; i++)
        numbers[i] = i < COUNTED_ONCE && !counts ? 0 : *sums[i];
    kvc_ranks_add(ranks, numbers, SUMS);
    kvc_ranks_maximum(ranks, ranks->link, &stats->entries_most, 1);
    for (size_t i = 0; i < SUMS; i++)
        *sums[i] = numbers[i];
}

static bool has_list(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here) {
    return kvc_session_list_owner(session, layer, list, here) == ranks_of(session->runner)->link->rank;
}

static void share_positions(const struct kvc_session *session, uint32_t layer, uint32_t list, int32_t *positions,
                            size_t capacity, size_t *count) {
    struct kvc_link *link = ranks_of(session->runner)->link;
    uint32_t here;
    const uint32_t owner = kvc_session_list_owner(session, layer, list, &here);
    uint64_t found = *count;
    link->class->broadcast(link, &found, sizeof found, owner);
    link->class->broadcast(link, positions, kvc_min_u64(found, capacity) * sizeof *positions, owner);
    *count = (size_t)found;
}

#define CALLS_AND_NUMBERS                                                                                              \
    .several = true, .begin = begin, .begin_fork = begin_fork, .begin_list = begin_list, .begin_decode = begin_decode, \
    .begin_prompt_many = begin_prompt_many, .begin_prompt = begin_prompt, .end = end, .lacks_memory = lacks_memory,    \
    .most_of_heads = most_of_heads, .agree = agree, .add_stats = add_stats, .has_list = has_list,                      \
    .share_positions = share_positions

const struct kvc_coordinator kvc_sharing = {CALLS_AND_NUMBERS,
                                            .step = kvc_all_layers,
                                            .begin_passes = kvc_one_pass,
                                            .pass = kvc_all_layers,
                                            .end_passes = kvc_end_one_pass,
                                            .share_logits = kvc_keep_logits,
                                            .most_of_layers = kvc_keep_numbers};

const struct kvc_coordinator kvc_pipeline = {CALLS_AND_NUMBERS,
                                             .step = kvc_pipeline_step,
                                             .begin_passes = kvc_pipeline_begin_passes,
                                             .pass = kvc_pipeline_pass,
                                             .end_passes = kvc_pipeline_end_passes,
                                             .share_logits = kvc_pipeline_share_logits,
                                             .most_of_layers = most_of_layers};
