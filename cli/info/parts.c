/* parts.c - kvcull info MODEL --ranks HOW: prints the part of a model that each of several ranks would hold. */
#include <stdlib.h>
#include <string.h>

#include "cli/info/info.h"
#include "kvcull/ranks.h"

struct holding { /* memory that one rank needs with one policy */
    struct kvc_estimate estimate;
    uint64_t networks; /* bytes of the networks that the policy's methods load */
    uint64_t total;
    bool fits;
};

static int parts_hold(const struct cli_command *command, const struct info_arguments *a,
                      const struct kvc_engine *engine, const struct kvc_model *model, const struct kvc_ranks_part *part,
                      const char *spec, uint64_t prompt, uint64_t memory, struct holding *holding) {
    const struct kvc_model_info *info = kvc_model_info(model);
    const struct kvc_geometry geometry = {info->layers, part->heads, part->kv_heads, info->head_size};
    struct kvc_error error;

    if (kvc_estimate_networks(model, spec, part->first_layer, part->layers, part->kv_heads, &holding->networks,
                              &error) != KVC_OK ||
        kvc_estimate_part(engine, spec, &geometry, info->windows, part->first_layer, part->layers, info->hidden,
                          a->common.cache_type, prompt, (uint64_t)a->generate, &holding->estimate, &error) != KVC_OK)
        return cli_report(command, &error);
    kvc_estimate_recurrent(&holding->estimate, part->recurrent_bytes);
    holding->total = (info->math == KVC_MATH_INT16 ? part->resident_bytes : part->weight_bytes) + holding->networks +
                     holding->estimate.peak_bytes + holding->estimate.hidden_bytes;
    holding->fits = holding->total <= memory;
    return KVC_OK;
}

static json_t *part_json(uint32_t rank, const struct kvc_ranks_part *part, const char *spec,
                         const struct holding *holding) {
    json_t *o = json_object();

    cli_json_set(o, "kv", cli_json_text(spec, strlen(spec)));
    cli_json_set(o, "rank", json_integer(rank));
    cli_json_set(o, "first_layer", json_integer(part->first_layer));
    cli_json_set(o, "layers", json_integer(part->layers));
    cli_json_set(o, "heads", json_integer(part->heads));
    cli_json_set(o, "kv_heads", json_integer(part->kv_heads));
    cli_json_set(o, "first_kv_head", json_integer(part->first_kv_head));
    cli_json_set(o, "weight_bytes", json_integer((json_int_t)part->weight_bytes));
    cli_json_set(o, "cache_bytes", json_integer((json_int_t)holding->estimate.cache_bytes));
    cli_json_set(o, "state_bytes", json_integer((json_int_t)holding->estimate.state_bytes));
    cli_json_set(o, "peak_bytes", json_integer((json_int_t)holding->estimate.peak_bytes));
    cli_json_set(o, "network_bytes", json_integer((json_int_t)holding->networks));
    cli_json_set(o, "total_bytes", json_integer((json_int_t)holding->total));
    cli_json_set(o, "fits", json_boolean(holding->fits));
    return o;
}

static void part_row(struct cli_table *table, uint32_t rank, const struct kvc_ranks_part *part, const char *spec,
                     const struct holding *holding) {
    char text[32];

    cli_cell(table, "%s", spec);
    cli_cell(table, "%u", rank);
    cli_cell(table, "%u-%u", part->first_layer, part->first_layer + part->layers - 1);
    cli_cell(table, "%u", part->heads);
    cli_cell(table, "%u-%u", part->first_kv_head, part->first_kv_head + part->kv_heads - 1);
    cli_cell(table, "%s", cli_bytes(part->weight_bytes, text));
    cli_cell(table, "%s", cli_bytes(holding->estimate.cache_bytes, text));
    cli_cell(table, "%s", cli_bytes(holding->estimate.peak_bytes, text));
    cli_cell(table, "%s", cli_bytes(holding->total, text));
    cli_cell(table, "%s", holding->fits ? "yes" : "no");
}

int info_parts(const struct cli_command *command, const struct info_arguments *a, const struct kvc_engine *engine,
               const struct kvc_model *model, uint64_t prompt, uint64_t memory, json_t *root, bool *all) {
    struct kvc_error error;
    uint32_t count;
    if (kvc_ranks_planned(a->ranks, &count, &error) != KVC_OK)
        return cli_report(command, &error);
    struct kvc_ranks_part *parts = calloc(count, sizeof *parts);
    struct cli_table *table = cli_table_open("<policy|rank|layers|heads|KV heads|weights|cache|peak|total|<fits");
    json_t *list = root ? json_array() : NULL;
    int status = parts ? KVC_OK : cli_no_memory(command);

    *all = true;
    for (uint32_t r = 0; r < count && status == KVC_OK; r++)
        if (kvc_ranks_part(kvc_model_info(model)->path, a->ranks, a->share, r, &parts[r], &error) != KVC_OK)
            status = cli_report(command, &error);
    for (size_t i = 0; i < a->specs.count && status == KVC_OK; i++) {
        const char *spec = a->specs.items[i].text;

        if (i > 0)
            cli_table_rule(table);
        for (uint32_t r = 0; r < count && status == KVC_OK; r++) {
            struct holding holding;

            status = parts_hold(command, a, engine, model, &parts[r], spec, prompt, memory, &holding);
            if (status != KVC_OK)
                break;
            *all = *all && holding.fits;
            if (!root)
                part_row(table, r, &parts[r], spec, &holding);
            else if (list && json_array_append_new(list, part_json(r, &parts[r], spec, &holding)) != 0) {
                json_decref(list);
                list = NULL;
            }
        }
    }
    if (root)
        cli_json_set(root, "ranks", list);
    if (status == KVC_OK && !root) {
        printf("\nPart of each of %u ranks (--ranks %s), and the memory that one rank may use\n\n", count, a->ranks);
        status = cli_table_print(command, table, stdout);
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    cli_table_free(table);
    free(parts);
    return status;
}
