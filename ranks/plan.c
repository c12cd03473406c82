/* plan.c - what a rank would hold: a model is opened as that rank opens it, with a layer of communication that sends
 * nothing and hears from all others what this rank says. */
#include "kvcull/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ranks/ranks.h"
#include "models/model.h"

static void gather(struct kvc_link *link, const void *mine, void *all, const size_t *sizes, const size_t *offsets) {
    for (uint32_t r = 0; r < link->count; r++)
        if (sizes[r] == sizes[link->rank])
            memcpy((char *)all + offsets[r], mine, sizes[r]);
}

static void broadcast(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    (void)link, (void)data, (void)bytes, (void)from;
}

static void await(struct kvc_link *link, void *data, size_t bytes) { (void)link, (void)data, (void)bytes; }

static void end(struct kvc_link *link, const char *text) {
    fprintf(stderr, "kvcull: rank %u: %s\n", link->rank, text);
    exit(KVC_RESOURCE);
}

static const struct kvc_link_class class = {
    .name = "plan", .gather = gather, .broadcast = broadcast, .await = await, .end = end};

enum kvc_status kvc_ranks_part(const char *path, uint32_t count, uint32_t rank, struct kvc_ranks_part *part,
                               struct kvc_error *error) {
    struct kvc_link link = {.class = &class, .rank = rank, .count = count};
    struct kvc_ranks ranks = {.link = &link};
    const struct kvc_engine_options options = {.backend = "ref", .ranks = &ranks};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    if (count == 0 || rank >= count)
        return kvc_fail(error, KVC_USAGE, "ranks: rank %u of %u: must be below their number", rank, count);
    enum kvc_status status = kvc_engine_open(&options, &engine, error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, path, &model, error);
    if (status == KVC_OK) {
        const struct kvc_network *network = &model->network;
        *part = (struct kvc_ranks_part){.heads = network->heads,
                                        .kv_heads = network->kv_heads,
                                        .first_kv_head = network->part.first_kv_head,
                                        .heads_shared = network->part.heads_shared,
                                        .weight_bytes = network->matrix_bytes + model->info.weight_bytes -
                                                        model->info.mapped_bytes, /* norms are on every rank */
                                        .recurrent_bytes = model->info.recurrent_bytes};
        kvc_model_close(model);
    }
    kvc_engine_close(engine);
    kvc_packet_free(&ranks.packet);
    return status;
}
