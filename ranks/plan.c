/* plan.c - computes the part of a model that a given rank would hold. It opens the model as that rank would. Its dummy
 * communication layer sends nothing, and returns copies of this rank's data in place of the other ranks' data. */
#include "kvcull/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ranks/ranks.h"
#include "models/model.h"
#include "ranks/ways.h"

static void plan_gather(struct kvc_link *link, const void *mine, void *all, const size_t *sizes,
                        const size_t *offsets) {
    for (uint32_t r = 0; r < link->count; r++)
        if (sizes[r] == sizes[link->rank])
            memcpy((char *)all + offsets[r], mine, sizes[r]);
}

static void plan_broadcast(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    (void)link, (void)data, (void)bytes, (void)from;
}

static void plan_await(struct kvc_link *link, void *data, size_t bytes) { (void)link, (void)data, (void)bytes; }

static void plan_end(struct kvc_link *link, const char *text) {
    fprintf(stderr, "kvcull: rank %u: %s\n", link->rank, text);
    exit(KVC_RESOURCE);
}

static void close_link(struct kvc_link *link) { free(link); }

static struct kvc_link *plan_part(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count) {
    struct kvc_link *made = malloc(sizeof *made);
    if (made)
        *made = (struct kvc_link){.class = link->class, .rank = (link->rank - first) / step, .count = count};
    return made;
}

static const struct kvc_link_class class = {.name = "plan",
                                            .gather = plan_gather,
                                            .broadcast = plan_broadcast,
                                            .await = plan_await,
                                            .part = plan_part,
                                            .end = plan_end,
                                            .close = close_link};

static enum kvc_status read_ways(const char *how, const char *share, struct kvc_ways *ways, struct kvc_error *error) {
    const enum kvc_status status = kvc_ways_read(how, 0, ways, error);
    if (status == KVC_OK && ways->data)
        return kvc_fail(error, KVC_USAGE, "ranks: 'data': each rank has the whole model");
    return status == KVC_OK && share ? kvc_ways_share(ways, share, error) : status;
}

enum kvc_status kvc_ranks_planned(const char *how, uint32_t *count, struct kvc_error *error) {
    struct kvc_ways ways;
    const enum kvc_status status = read_ways(how, NULL, &ways, error);
    *count = ways.tensor * ways.pipeline;
    return status;
}

static enum kvc_status open_part(const char *path, struct kvc_ranks *ranks, struct kvc_ranks_part *part,
                                 struct kvc_error *error) {
    const struct kvc_engine_options options = {.backend = "ref", .ranks = ranks};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    enum kvc_status status = kvc_engine_open(&options, &engine, error);
    if (status == KVC_OK)
        status = kvc_model_open(engine, path, &model, error);
    if (status == KVC_OK) {
        const struct kvc_network *network = &model->network;
        *part = (struct kvc_ranks_part){.heads = network->heads,
                                        .kv_heads = network->kv_heads,
                                        .first_kv_head = network->part.first_kv_head,
                                        .heads_sharded = network->part.heads_sharded,
                                        .layers = network->part.pipeline ? network->part.own_layers : network->layers,
                                        .first_layer = network->part.first_layer,
                                        .weight_bytes = network->matrix_bytes + model->info.weight_bytes -
                                                        model->info.mapped_bytes, /* every rank holds the norms */
                                        .recurrent_bytes = kvc_network_state_bytes(network)};
        part->resident_bytes = part->weight_bytes + model->packed.packed - model->packed.replaced;
        kvc_model_close(model);
    }
    kvc_engine_close(engine);
    return status;
}

enum kvc_status kvc_ranks_part(const char *path, const char *how, const char *share, uint32_t rank,
                               struct kvc_ranks_part *part, struct kvc_error *error) {
    struct kvc_ways ways;
    struct kvc_link link = {.class = &class, .rank = rank};
    struct kvc_ranks ranks = {.link = &link};
    enum kvc_status status = read_ways(how, share, &ways, error);
    link.count = ways.tensor * ways.pipeline;
    if (status == KVC_OK && rank >= link.count)
        status = kvc_fail(error, KVC_USAGE, "ranks: rank %u of %u: must be below their number", rank, link.count);
    if (status == KVC_OK)
        status = kvc_ways_open(&ways, &ranks, error);
    if (status == KVC_OK)
        status = open_part(path, &ranks, part, error);
    kvc_ways_close(&ranks);
    kvc_packet_free(&ranks.packet);
    kvc_ways_free(&ways);
    return status;
}
