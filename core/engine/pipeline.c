/* pipeline.c - sends rows, and their failures, from rank to rank. Rows travel from device to device if the link
 * supports it, otherwise through the host.
 *
 * No order of these calls can deadlock. A rank waits for two things only: rows of the rank below, which never waits for
 * the ranks above, and the status of the last rank, whose messages never wait (link.h). */
#include "core/engine/pipeline.h"

#include "core/base/assert.h"
#include "core/engine/prune_rows.h"
#include "core/ranks/direct.h"

#include <stdlib.h>
#include <string.h>

/* Precedes the rows in a message. */
struct header {
    uint32_t status, failures; /* number of sessions that have failed */
    uint32_t kept;             /* rows of the prompt that a layer below has kept; 0: all */
    uint32_t rows;
};

enum way { FROM_BELOW, UP, FROM_LAST, TO_ALL };

static struct kvc_ranks *ranks_of(const struct kvc_runner *runner) { return runner->network->part.pipeline; }

/* Sends or receives data. The status of a prompt's pass uses its own channel, because the receiver reads it after
 * messages that were sent later. */
static void move(const struct kvc_passing *passing, enum way way, void *data, size_t bytes) {
    struct kvc_link *link = ranks_of(passing->runner)->stages.link;
    KVC_ASSERT(way == FROM_BELOW ? link->rank > 0 : (way == TO_ALL) == (link->rank + 1 == link->count));
    const enum kvc_channel outcome = passing->source ? KVC_CHANNEL_LATE : KVC_CHANNEL_CALL;
    if (way == FROM_BELOW)
        link->class->receive(link, data, bytes, link->rank - 1, KVC_CHANNEL_CALL);
    else if (way == UP)
        link->class->send(link, data, bytes, link->rank + 1, KVC_CHANNEL_CALL);
    else if (way == FROM_LAST)
        link->class->receive(link, data, bytes, link->count - 1, outcome);
    for (uint32_t r = 0; r + 1 < link->count && way == TO_ALL; r++)
        link->class->send(link, data, bytes, r, outcome);
}

/* Ends all ranks if this rank is out of memory, because the others wait for its rows. */
static void end_where_memory_lacks(struct kvc_ranks *ranks, const struct kvc_passing *passing) {
    if (passing->status == KVC_RESOURCE)
        kvc_pipeline_end(ranks, passing->error && passing->error->text[0] ? passing->error->text : "out of memory");
    for (size_t i = 0; i < passing->count; i++)
        if (passing->sessions[i]->failure.status == KVC_RESOURCE)
            kvc_pipeline_end(ranks, passing->sessions[i]->failure.text);
}

static struct header header_of(const struct kvc_passing *passing) {
    const struct kvc_prompt *prompt = passing->source ? &passing->sessions[0]->prompt : NULL;
    struct header header = {.status = (uint32_t)passing->status,
                            .kept = prompt && prompt->kept_rows ? prompt->kept_row_count : 0,
                            .rows = passing->status == KVC_OK ? passing->rows : 0};
    for (size_t i = 0; i < passing->count; i++)
        header.failures += passing->sessions[i]->failure.status != KVC_OK;
    return header;
}

/* Sends the errors of this status and of the failed sessions. */
static void send_failures(const struct kvc_passing *passing, enum way way, const struct header *header) {
    struct kvc_error none = {KVC_OK, ""};
    if (header->status != KVC_OK)
        move(passing, way, passing->error ? passing->error : &none, sizeof none);
    for (size_t i = 0; i < passing->count && header->failures; i++)
        move(passing, way, &passing->sessions[i]->failure, sizeof none);
}

/* Receives errors. An error of this rank is kept, unless the last rank sends another one, which belongs to an earlier
 * pass. */
static void receive_failures(struct kvc_passing *passing, enum way way, const struct header *header) {
    struct kvc_error error;
    if (header->status != KVC_OK) {
        move(passing, way, &error, sizeof error);
        if (passing->error && (way == FROM_LAST || passing->status == KVC_OK))
            *passing->error = error;
        if (way == FROM_LAST || passing->status == KVC_OK)
            passing->status = (enum kvc_status)header->status;
    }
    for (size_t i = 0; i < passing->count && header->failures; i++) {
        struct kvc_error *failure = &passing->sessions[i]->failure;
        move(passing, way, &error, sizeof error);
        if (error.status != KVC_OK && (way == FROM_LAST || failure->status == KVC_OK))
            *failure = error;
    }
}

/* Sends or receives a method's state, which has data of the layers below. */
static void move_states(const struct kvc_passing *passing, enum way way) {
    for (size_t i = 0; i < passing->count && passing->source; i++) {
        const struct kvc_session *session = passing->sessions[i];
        const struct kvc_method *method = kvc_policy_owner(session->policy, KVC_STAGE_PROMPT);
        const struct kvc_method_use *use = method ? &session->use[method - session->policy->method] : NULL;
        if (kvc_pipeline_shares(session))
            move(passing, way, use->state, use->state_bytes);
    }
}

/* Receives the rows that a layer below has kept; the prompt continues with these rows. */
static void receive_kept(struct kvc_ranks *ranks, struct kvc_passing *passing, uint32_t kept) {
    struct kvc_session *session = passing->sessions[0];
    KVC_ASSERT(passing->source && passing->count == 1);
    uint32_t *rows = malloc(kept * sizeof *rows);
    if (!rows)
        kvc_pipeline_end(ranks, "no memory for the rows that are kept");
    move(passing, FROM_BELOW, rows, kept * sizeof *rows);
    free(session->prompt.next_kept_rows);
    session->prompt.next_kept_rows = rows;
    session->prompt.next_rows = kept;
    passing->status = kvc_prune_rows(session, passing->source, passing->error);
    passing->rows = passing->rows ? passing->batch->rows : 0;
    end_where_memory_lacks(ranks, passing);
}

static struct kvc_span place_of(const struct kvc_passing *passing, size_t width) {
    return kvc_growable_at(&passing->batch->hidden, passing->row * width * sizeof(float));
}

void kvc_pipeline_receive(struct kvc_passing *passing) {
    struct kvc_ranks *ranks = ranks_of(passing->runner);
    const struct kvc_network *network = passing->runner->network;
    struct kvc_device *device = passing->runner->device;
    struct header header;
    if (kvc_network_begins(network))
        return;
    end_where_memory_lacks(ranks, passing);
    move(passing, FROM_BELOW, &header, sizeof header);
    receive_failures(passing, FROM_BELOW, &header);
    move_states(passing, FROM_BELOW);
    if (header.kept)
        receive_kept(ranks, passing, header.kept);
    if (header.rows == 0)
        return;
    if (header.rows != passing->rows && passing->status == KVC_OK)
        kvc_pipeline_end(ranks, "the rank below passes on another number of rows");
    const size_t values = (size_t)header.rows * network->hidden;
    struct kvc_direct *direct = kvc_direct_of(ranks->stages.link, device);
    if (direct) {
        kvc_direct_receive(direct, place_of(passing, network->hidden), values * sizeof(float),
                           ranks->stages.link->rank - 1);
        return;
    }
    float *rows = kvc_ranks_buffer(ranks, values);
    move(passing, FROM_BELOW, rows, values * sizeof *rows);
    if (passing->status == KVC_OK)
        device->ops->upload(device, place_of(passing, network->hidden), rows, values * sizeof *rows);
}

static void send_up(struct kvc_ranks *ranks, struct kvc_passing *passing) {
    const struct kvc_network *network = passing->runner->network;
    struct kvc_device *device = passing->runner->device;
    struct header header = header_of(passing);
    const size_t values = (size_t)header.rows * network->hidden;
    float *rows = kvc_ranks_buffer(ranks, values + 1);
    move(passing, UP, &header, sizeof header);
    send_failures(passing, UP, &header);
    move_states(passing, UP);
    if (header.kept)
        move(passing, UP, passing->sessions[0]->prompt.kept_rows, header.kept * sizeof(uint32_t));
    if (header.rows == 0)
        return;
    struct kvc_direct *direct = kvc_direct_of(ranks->stages.link, device);
    if (direct) {
        kvc_direct_send(direct, place_of(passing, network->hidden), values * sizeof *rows,
                        ranks->stages.link->rank + 1);
        return;
    }
    device->ops->download(device, rows, place_of(passing, network->hidden), values * sizeof *rows);
    move(passing, UP, rows, values * sizeof *rows);
}

void kvc_pipeline_send(struct kvc_passing *passing) {
    struct kvc_ranks *ranks = ranks_of(passing->runner);
    end_where_memory_lacks(ranks, passing);
    if (!kvc_network_ends(passing->runner->network)) {
        send_up(ranks, passing);
        return;
    }
    struct header header = header_of(passing);
    move(passing, TO_ALL, &header, sizeof header);
    send_failures(passing, TO_ALL, &header);
    move_states(passing, TO_ALL);
}

enum kvc_status kvc_pipeline_receive_status(struct kvc_passing *passing) {
    struct header header;
    if (kvc_network_ends(passing->runner->network))
        return passing->status;
    move(passing, FROM_LAST, &header, sizeof header);
    receive_failures(passing, FROM_LAST, &header);
    move_states(passing, FROM_LAST);
    return (enum kvc_status)header.status;
}
