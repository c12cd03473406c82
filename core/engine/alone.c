/* alone.c - the coordinator of one process: it computes all layers one after another, and exchanges no messages. */
#include "core/engine/coordinator.h"

static void begin(const struct kvc_session *session, enum kvc_call call) { (void)session, (void)call; }

static void begin_fork(const struct kvc_session *session, const struct kvc_session *copy) { (void)session, (void)copy; }

static void begin_list(const struct kvc_session *session, enum kvc_call call, uint32_t layer, uint32_t list,
                       size_t capacity) {
    (void)session, (void)call, (void)layer, (void)list, (void)capacity;
}

static void begin_decode(struct kvc_session *const *sessions, size_t count, const int32_t *tokens, bool logits) {
    (void)sessions, (void)count, (void)tokens, (void)logits;
}

static void begin_prompt_many(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                              size_t count, bool logits) {
    (void)sessions, (void)session_count, (void)tokens, (void)count, (void)logits;
}

static const struct kvc_prompt_options *begin_prompt(const struct kvc_session *session, const int32_t *tokens,
                                                     size_t count, const struct kvc_prompt_options *caller, bool logits,
                                                     struct kvc_shared_options *shared) {
    (void)session, (void)tokens, (void)count, (void)logits, (void)shared;
    return caller;
}

static enum kvc_status end(const struct kvc_runner *runner, enum kvc_status status, const struct kvc_error *error) {
    (void)runner, (void)error;
    return status;
}

static void lacks_memory(const struct kvc_runner *runner, const char *text) { (void)runner, (void)text; }

enum kvc_status kvc_all_layers(struct kvc_passing *rows) {
    for (uint32_t l = 0; l < rows->runner->network->layers && rows->status == KVC_OK; l++)
        rows->status = rows->layer(rows, l);
    return rows->status;
}

uint32_t kvc_one_pass(struct kvc_passing *rows, bool overlap) {
    (void)rows, (void)overlap;
    return UINT32_MAX;
}

enum kvc_status kvc_end_one_pass(struct kvc_passing *rows, enum kvc_status status) {
    (void)rows;
    return status;
}

void kvc_keep_logits(struct kvc_runner *runner, float *logits, size_t bytes) {
    (void)runner, (void)logits, (void)bytes;
}

void kvc_keep_numbers(const struct kvc_session *session, uint64_t *numbers, size_t count) {
    (void)session, (void)numbers, (void)count;
}

static void agree(const struct kvc_runner *runner, uint64_t *number) { (void)runner, (void)number; }

static void add_stats(const struct kvc_session *session, struct kvc_session_stats *stats) {
    (void)session, (void)stats;
}

static bool has_list(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here) {
    (void)session, (void)layer;
    *here = list;
    return true;
}

static void share_positions(const struct kvc_session *session, uint32_t layer, uint32_t list, int32_t *positions,
                            size_t capacity, size_t *count) {
    (void)session, (void)layer, (void)list, (void)positions, (void)capacity, (void)count;
}

const struct kvc_coordinator kvc_alone = {.several = false,
                                          .begin = begin,
                                          .begin_fork = begin_fork,
                                          .begin_list = begin_list,
                                          .begin_decode = begin_decode,
                                          .begin_prompt_many = begin_prompt_many,
                                          .begin_prompt = begin_prompt,
                                          .end = end,
                                          .lacks_memory = lacks_memory,
                                          .step = kvc_all_layers,
                                          .begin_passes = kvc_one_pass,
                                          .pass = kvc_all_layers,
                                          .end_passes = kvc_end_one_pass,
                                          .share_logits = kvc_keep_logits,
                                          .most_of_heads = kvc_keep_numbers,
                                          .most_of_layers = kvc_keep_numbers,
                                          .agree = agree,
                                          .add_stats = add_stats,
                                          .has_list = has_list,
                                          .share_positions = share_positions};
