/* session_broadcast.c - broadcasts calls that take sessions to the other ranks, and finds the rank that owns a list. */
#include "core/base/integers.h"
#include "core/engine/session.h"

void kvc_session_broadcast(const struct kvc_session *session, enum kvc_call call) {
    struct kvc_packet *packet = kvc_call_begin(kvc_session_ranks(session), call);
    if (packet) {
        kvc_packet_put_pointer(packet, session);
        kvc_call_broadcast(session->engine->ranks);
    }
}

void kvc_sessions_broadcast(struct kvc_packet *packet, struct kvc_session *const *sessions, size_t session_count,
                            const int32_t *tokens, size_t count, bool logits) {
    kvc_packet_put_number(packet, session_count);
    for (size_t i = 0; i < session_count; i++)
        kvc_packet_put_pointer(packet, sessions[i]);
    kvc_packet_put_number(packet, count);
    kvc_packet_put(packet, tokens, count * sizeof *tokens);
    kvc_packet_put_number(packet, logits);
    kvc_packet_put_number(packet, sessions[0]->runner->network->vocab);
}

uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t lists = layer < session->cache.layers ? session->cache.layer[layer].lists.kv_heads : 0;
    return network && network->part.ranks ? lists / network->kv_heads * network->part.kv_heads : lists;
}

uint32_t kvc_session_list_owner(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here) {
    const struct kvc_network *network = session->runner->network;
    *here = list;
    if (!kvc_session_ranks(session))
        return 0;
    const uint32_t each = session->cache.layer[layer].lists.kv_heads / network->kv_heads; /* lists per KV head */
    *here = list - network->part.first_kv_head * each;
    return kvc_network_layer_owner(network, layer) * session->engine->ranks->rows.split.ranks +
           kvc_network_owner(network, list / each);
}

void kvc_session_broadcast_list(const struct kvc_session *session, enum kvc_call call, uint32_t layer, uint32_t list,
                                size_t capacity) {
    struct kvc_packet *packet = kvc_call_begin(kvc_session_ranks(session), call);
    if (!packet)
        return;
    kvc_packet_put_pointer(packet, session);
    kvc_packet_put_number(packet, layer);
    kvc_packet_put_number(packet, list);
    kvc_packet_put_number(packet, capacity);
    kvc_call_broadcast(session->engine->ranks);
}

void kvc_session_broadcast_positions(struct kvc_ranks *ranks, uint32_t owner, int32_t *positions, size_t capacity,
                                     size_t *count) {
    uint64_t found = *count;
    if (!ranks)
        return;
    ranks->link->class->broadcast(ranks->link, &found, sizeof found, owner);
    ranks->link->class->broadcast(ranks->link, positions, kvc_min_u64(found, capacity) * sizeof *positions, owner);
    *count = (size_t)found;
}

void kvc_session_note_kept(struct kvc_session *session, uint32_t layer, uint32_t lists, const int32_t *const *positions,
                           const size_t *counts) {
    kvc_packet_put_number(&session->kept, layer);
    kvc_packet_put_number(&session->kept, lists);
    for (uint32_t h = 0; h < lists; h++) {
        kvc_packet_put_number(&session->kept, counts[h]);
        kvc_packet_put(&session->kept, positions[h], counts[h] * sizeof(int32_t));
    }
}
