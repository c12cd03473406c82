/* pipeline_keep.c - entries that a layer of one rank chooses for layers of another rank of a pipeline. */
#include "core/engine/pipeline.h"

#include "core/base/assert.h"
#include "core/engine/evict.h"
#include "core/engine/expired.h"
#include "core/engine/pass.h"
#include "core/stage/stage_call.h"

#include <stdlib.h>

static struct kvc_ranks *ranks_of(const struct kvc_session *session) {
    return session->runner->network ? session->runner->network->part.pipeline : NULL;
}

/* Returns true if a method acts on layers of several ranks. */
static bool acts_on_several(const struct kvc_network *network, const struct kvc_method_use *use) {
    uint32_t first = network->layers, last = 0;
    for (uint32_t l = 0; l < network->layers; l++) {
        if (use->acts[l] && first == network->layers)
            first = l;
        if (use->acts[l])
            last = l;
    }
    return first < last && kvc_network_layer_owner(network, first) != kvc_network_layer_owner(network, last);
}

bool kvc_pipeline_shares(const struct kvc_session *session) {
    const struct kvc_policy *policy = session->policy;
    const struct kvc_method *method = kvc_policy_owner(policy, KVC_STAGE_PROMPT);
    return ranks_of(session) && method && kvc_method_forecast(method)->ragged == KVC_RAGGED_LAYERS &&
           acts_on_several(session->runner->network, &session->use[method - policy->method]);
}

/* Returns the layer that chooses the entries of a layer. */
static uint32_t decider_of(const struct kvc_session *session, uint32_t layer) {
    return kvc_policy_decider(session->policy, layer, &session->runner->model, &session->cache.format);
}

bool kvc_pipeline_decides(const struct kvc_session *session, uint32_t rank) {
    const struct kvc_network *network = session->runner->network;
    for (uint32_t l = 0; l < network->layers; l++)
        if (kvc_network_layer_owner(network, decider_of(session, l)) == rank &&
            kvc_network_layer_owner(network, l) != rank)
            return true;
    return false;
}

/* Keeps the entries of `layer`, a layer of this rank, that the chunk stage of `decider` chose. `decider` is a layer of
 * another rank. */
static enum kvc_status keep_received(struct kvc_session *session, uint32_t decider, uint32_t layer,
                                     const int32_t *const *positions, const size_t *counts, struct kvc_error *error) {
    struct kvc_stage defaults = kvc_stage_make(session, decider);
    const struct kvc_method *method = kvc_policy_owner(session->policy, KVC_STAGE_CHUNK);
    defaults.decides = kvc_stage_decides(session, decider);
    KVC_ASSERT(method);
    struct kvc_stage stage = kvc_stage_of_method(&defaults, (size_t)(method - session->policy->method), false);
    const enum kvc_status status = kvc_stage_layer(&stage, layer, error);
    return status == KVC_OK ? kvc_stage_keep_positions(&stage, positions, counts, error) : status;
}

/* Applies a choice that another rank has noted, if this rank has the layer. */
static enum kvc_status keep_noted(struct kvc_session *session, struct kvc_packet *packet, struct kvc_error *error) {
    const uint32_t layer = (uint32_t)kvc_packet_get_number(packet), lists = (uint32_t)kvc_packet_get_number(packet);
    const int32_t **positions = malloc(lists * sizeof *positions + 1);
    size_t *counts = malloc(lists * sizeof *counts + 1);
    enum kvc_status status = positions && counts ? KVC_OK : KVC_RESOURCE;
    for (uint32_t h = 0; h < lists && status == KVC_OK; h++) {
        counts[h] = (size_t)kvc_packet_get_number(packet);
        positions[h] = kvc_packet_get(packet, counts[h] * sizeof **positions);
    }
    if (status != KVC_OK)
        status = kvc_fail(error, KVC_RESOURCE, "session: no memory for the positions of %u lists", lists);
    else if (kvc_network_has(session->runner->network, layer))
        status = keep_received(session, decider_of(session, layer), layer, positions, counts, error);
    free(positions);
    free(counts);
    return status;
}

/* Keeps, in this rank's layers, the entries that stages of other ranks' layers chose. */
static enum kvc_status keep_chosen(struct kvc_session *session, struct kvc_error *error) {
    struct kvc_ranks *ranks = ranks_of(session);
    struct kvc_link *link = ranks->stages.link;
    const uint32_t here = link->rank;
    struct kvc_packet received = {.data = NULL};
    enum kvc_status status = KVC_OK;
    for (uint32_t r = 0; r < link->count; r++) {
        if (!kvc_pipeline_decides(session, r))
            continue;
        struct kvc_packet *packet = r == here ? &session->kept : &received;
        uint64_t bytes = packet->bytes;
        link->class->broadcast(link, &bytes, sizeof bytes, r);
        if (packet->broken || !kvc_packet_reserve(packet, (size_t)bytes))
            kvc_pipeline_end(ranks, "no memory for the positions that are kept");
        link->class->broadcast(link, packet->data, (size_t)bytes, r);
        packet->bytes = (size_t)bytes;
        packet->at = 0;
        while (r != here && packet->at < packet->bytes && status == KVC_OK)
            status = keep_noted(session, packet, error);
    }
    kvc_packet_free(&received);
    session->kept.bytes = session->kept.at = 0;
    return status;
}

/* Repeats the prompt stages of the layers above this rank's layers, because those stages may evict entries of this
 * rank's layers. */
static enum kvc_status repeat_prompt_stages(struct kvc_session *session, uint32_t last, struct kvc_error *error) {
    const struct kvc_network *network = session->runner->network;
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < network->layers; l++)
        session->held[l] = kvc_network_has(network, l) ? session->held[l] : 0;
    session->runner->coordinator->most_of_layers(session, session->held, network->layers);
    for (uint32_t l = last + 1; l < network->layers && status == KVC_OK; l++) {
        struct kvc_stage stage = kvc_stage_make(session, l);
        status = kvc_stage_call_prompt_again(&stage, error);
    }
    for (uint32_t l = 0; l <= last; l++)
        session->after[l] = kvc_expired_left(session, l, kvc_cache_most(&session->cache, l));
    return status == KVC_OK ? kvc_evict_shrink(session, last + 1, false, error) : status;
}

enum kvc_status kvc_pipeline_settle(struct kvc_session *session, const struct kvc_row_source *source,
                                    struct kvc_error *error) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t last = network->part.first_layer + network->part.own_layers - 1;
    KVC_ASSERT(last < network->layers);
    enum kvc_status status = keep_chosen(session, error);
    if (status != KVC_OK || !session->prompt.last_chunk)
        return status;
    status = kvc_pass_end_layers(session, source, last, network->layers - 1, error);
    return status == KVC_OK && kvc_pipeline_shares(session) ? repeat_prompt_stages(session, last, error) : status;
}

enum kvc_status kvc_pipeline_check(const struct kvc_session *session, struct kvc_error *error) {
    const struct kvc_ranks *ranks = ranks_of(session);
    const struct kvc_method *chunks = kvc_policy_owner(session->policy, KVC_STAGE_CHUNK);
    for (uint32_t r = 0; ranks && chunks && r < ranks->stages.link->count; r++)
        if (kvc_pipeline_decides(session, r) && kvc_policy_owner(session->policy, KVC_STAGE_PROPAGATE))
            return kvc_fail(
                error, KVC_USAGE,
                "session: policy %s: a layer of one pipeline stage chooses for layers of another; this cannot "
                "be combined with a method that prunes tokens; use '--ranks tensor'",
                session->policy->spec);
    const struct kvc_method *prompt = kvc_policy_owner(session->policy, KVC_STAGE_PROMPT);
    if (ranks && prompt && prompt->policy->reads_layers && prompt->policy->reads_layers(&prompt->values) &&
        acts_on_several(session->runner->network, &session->use[prompt - session->policy->method]))
        return kvc_fail(error, KVC_USAGE,
                        "session: method %s: it compares entries of all layers, and a pipeline divides the layers "
                        "among processes; use '--ranks tensor'",
                        prompt->policy->name);
    return KVC_OK;
}
