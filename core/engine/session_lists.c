/* session_lists.c - the lists of a layer in all processes that share a session: their number, and the owner of each. */
#include "core/engine/session.h"

uint32_t kvc_session_heads(const struct kvc_session *session, uint32_t layer) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t lists = layer < session->cache.layers ? session->cache.layer[layer].lists.kv_heads : 0;
    return network && network->part.ranks ? lists / network->kv_heads * network->part.kv_heads : lists;
}

uint32_t kvc_session_list_owner(const struct kvc_session *session, uint32_t layer, uint32_t list, uint32_t *here) {
    const struct kvc_network *network = session->runner->network;
    const uint32_t each = session->cache.layer[layer].lists.kv_heads / network->kv_heads; /* lists per KV head */
    *here = list - network->part.first_kv_head * each;
    return kvc_network_layer_owner(network, layer) * session->engine->ranks->rows.split.ranks +
           kvc_network_owner(network, list / each);
}
