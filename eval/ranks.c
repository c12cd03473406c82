/* ranks.c - `kvcull eval --ranks data`: writes the results of each rank to a file of its own, and collects all results
 * on rank 0. */
#include "eval/standard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvcull/ranks.h"

int eval_ranks_name(struct eval_run *run) {
    struct eval_text name = {0};
    if (!cli_data_ranks() || run->shards == 1 || !run->out)
        return KVC_OK;
    eval_add(&name, "%s.%lluof%llu", run->out, (unsigned long long)run->shard_index + 1,
             (unsigned long long)run->shards);
    run->out = run->out_path = eval_text_take(&name);
    return run->out ? KVC_OK : cli_no_memory(run->command);
}

/* Returns the results as JSON lines, as --out writes them. The caller frees the text. Returns NULL if memory runs
 * out. */
static char *lines_of(const struct eval_results *results, size_t *bytes) {
    const json_t *const lists[] = {results->records, results->traces};
    struct eval_text lines = {0};
    const json_t *record;
    size_t i;
    for (size_t l = 0; l < 2; l++) {
        json_array_foreach(lists[l], i, record) {
            char *line = json_dumps(record, JSON_COMPACT);
            eval_add(&lines, "%s\n", line ? line : "");
            cli_json_free(line);
        }
    }
    eval_add(&lines, "%s", "");
    char *text = eval_text_take(&lines);
    *bytes = text ? strlen(text) : 0;
    if (!cli_json_lost())
        return text;
    free(text);
    return NULL;
}

struct place { /* sort key of a record */
    uint64_t number;
    json_t *record;
    size_t at;
};

static int ranks_compare(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Sorts the records into the order in which a single process makes them, so that sums of scores are bit-identical. Does
 * not update results.index. */
static int put_in_order(const struct eval_run *run, json_t **list) {
    const size_t count = json_array_size(*list);
    struct place *places = malloc(count * sizeof *places + 1);
    json_t *ordered = json_array();
    for (size_t i = 0; places && i < count; i++) {
        json_t *record = json_array_get(*list, i);
        places[i] = (struct place){eval_unit_number(run, record), record, i};
    }
    if (places)
        qsort(places, count, sizeof *places, ranks_compare);
    for (size_t i = 0; places && i < count; i++)
        json_array_append(ordered, places[i].record);
    free(places);
    if (json_array_size(ordered) != count) {
        json_decref(ordered);
        return cli_no_memory(run->command);
    }
    json_decref(*list);
    *list = ordered;
    return KVC_OK;
}

/* Adds the other ranks' results to rank 0's. */
static int ranks_take(struct eval_run *run, const char *lines, const size_t *sizes) {
    int status = KVC_OK;
    for (uint32_t r = 0; r < run->shards && status == KVC_OK; lines += sizes[r++]) {
        char name[32];
        snprintf(name, sizeof name, "rank %u", r);
        if (r > 0)
            status = eval_results_parse(&run->results, name, lines, sizes[r]);
    }
    if (status == KVC_OK)
        status = put_in_order(run, &run->results.records);
    return status == KVC_OK ? put_in_order(run, &run->results.traces) : status;
}

int eval_ranks_gather(struct eval_run *run) {
    struct kvc_ranks *ranks = cli_data_ranks();
    if (!ranks || run->shards == 1)
        return KVC_OK;
    size_t bytes, *sizes = malloc(run->shards * sizeof *sizes);
    char *mine = lines_of(&run->results, &bytes);
    void *all = NULL, *counted = NULL;
    if (!sizes || !mine)
        _exit(cli_no_memory(run->command)); /* exiting also ends the other ranks, which are waiting */
    kvc_ranks_gather(ranks, mine, bytes, &all, sizes);
    const int status = cli_data_rank() == 0 ? ranks_take(run, all, sizes) : KVC_OK;
    kvc_ranks_gather(ranks, &run->computed, sizeof run->computed, &counted, sizes);
    for (uint32_t r = 0; r < run->shards; r++) {
        const struct eval_computed *other = (const struct eval_computed *)counted + r;
        if (r != kvc_ranks_rank(ranks)) {
            run->computed.prompt_tokens += other->prompt_tokens;
            run->computed.computed_tokens += other->computed_tokens;
        }
    }
    free(counted);
    free(all);
    free(mine);
    free(sizes);
    return status;
}
