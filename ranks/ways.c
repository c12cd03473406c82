/* ways.c - parses --ranks and --share: how many pipeline stages there are, how many ranks share the layers of a stage,
 * and how much each rank gets. */
#include "ranks/ways.h"

#include <stdlib.h>
#include <string.h>

#define TENSOR "tensor"
#define PIPELINE "pipeline"
#define FORM "must be tensor[=N], pipeline[=N], tensor=N,pipeline=N or data"

/* Reads a number from 1 to `most` and moves *text past it. */
static bool read_number(const char **text, unsigned long most, uint32_t *number) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    const unsigned long value = strtoul(*text, &end, 10);
    *text = end;
    *number = (uint32_t)value;
    return value >= 1 && value <= most;
}

/* Reads "NAME" or "NAME=N" up to a comma or the end. Leaves *number unchanged if there is no number. */
static bool read_way(const char **text, const char *name, uint32_t *number) {
    const size_t length = strlen(name);
    if (strncmp(*text, name, length) != 0)
        return false;
    *text += length;
    if (**text == '=') {
        ++*text;
        if (!read_number(text, KVC_RANKS_MOST, number))
            return false;
    }
    return **text == ',' || **text == '\0';
}

enum kvc_status kvc_ways_read(const char *text, uint32_t count, struct kvc_ways *ways, struct kvc_error *error) {
    const char *at = text;
    uint32_t tensor = 0, pipeline = 0; /* 0 if not given */
    bool has_tensor = false, has_pipeline = false, right = true;
    *ways = (struct kvc_ways){.tensor = 1, .pipeline = 1};
    if (strcmp(text, "data") == 0) {
        ways->data = true;
        return KVC_OK;
    }
    while (right) {
        if (!has_tensor && strncmp(at, TENSOR, strlen(TENSOR)) == 0)
            right = has_tensor = read_way(&at, TENSOR, &tensor);
        else if (!has_pipeline)
            right = has_pipeline = read_way(&at, PIPELINE, &pipeline);
        else
            right = false;
        if (*at == '\0')
            break;
        at++; /* skips the comma */
    }
    if (!right)
        return kvc_fail(error, KVC_USAGE, "ranks: '%s': " FORM, text);
    if (has_tensor && has_pipeline && (!tensor || !pipeline))
        return kvc_fail(error, KVC_USAGE, "ranks: '%s': give a number for each of the two, as in tensor=4,pipeline=2",
                        text);
    ways->tensor = tensor ? tensor : has_tensor && count ? count : 1;
    ways->pipeline = pipeline ? pipeline : has_pipeline && count ? count : 1;
    if (!count && !tensor && !pipeline)
        return kvc_fail(error, KVC_USAGE, "ranks: '%s': the number of ranks is missing, as in %s=4", text, text);
    const uint64_t all = (uint64_t)ways->tensor * ways->pipeline;
    if ((count && all != count) || all > KVC_RANKS_MOST)
        return kvc_fail(error, KVC_USAGE, "ranks: '%s' is %llu ranks; %s %u", text, (unsigned long long)all,
                        count ? "there are" : "at most", count ? count : KVC_RANKS_MOST);
    return KVC_OK;
}

/* Reads share [count] from a list of `count` numbers. */
static enum kvc_status read_shares(const char *text, uint32_t count, uint32_t *share, struct kvc_error *error) {
    const char *at = text;
    for (uint32_t r = 0; r < count; r++) {
        if (!read_number(&at, KVC_SHARE_MOST, &share[r]) || *at != (r + 1 < count ? ',' : '\0'))
            return kvc_fail(error, KVC_USAGE,
                            "share: '%s': must be a number from 1 to %u for each of %u ranks, with commas between",
                            text, KVC_SHARE_MOST, count);
        at++;
    }
    return KVC_OK;
}

/* Ranks with the same index in their stages get the same part of each layer, so that all entries of a KV list are on
 * one rank. The weight of this part is the sum of these ranks' weights. */
enum kvc_status kvc_ways_share(struct kvc_ways *ways, const char *text, struct kvc_error *error) {
    const uint32_t count = ways->tensor * ways->pipeline;
    uint32_t *share = calloc(count, sizeof *share);
    ways->share = calloc(ways->tensor + ways->pipeline, sizeof *ways->share);
    enum kvc_status status =
        share && ways->share ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "share: no memory for %u ranks", count);
    if (status == KVC_OK)
        status = read_shares(text, count, share, error);
    for (uint32_t r = 0; r < count && status == KVC_OK; r++) {
        ways->share[r % ways->tensor] += share[r];
        ways->share[ways->tensor + r / ways->tensor] += share[r];
    }
    free(share);
    if (status != KVC_OK)
        kvc_ways_free(ways);
    return status;
}

void kvc_ways_free(struct kvc_ways *ways) {
    free(ways->share);
    ways->share = NULL;
}

/* Opens the link of a team. The link is NULL if the team is this rank alone. */
static enum kvc_status open_team(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count,
                                 const uint32_t *share, struct kvc_team *team, struct kvc_error *error) {
    *team = (struct kvc_team){.split = {count, share}};
    if (count == 1)
        return KVC_OK;
    team->link = count == link->count ? link : link->class->part(link, first, step, count);
    return team->link ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "ranks: no memory");
}

enum kvc_status kvc_ways_open(const struct kvc_ways *ways, struct kvc_ranks *ranks, struct kvc_error *error) {
    struct kvc_link *link = ranks->link;
    const uint32_t stage = link->rank / ways->tensor, place = link->rank % ways->tensor;
    const uint32_t *share = ways->share;
    enum kvc_status status = open_team(link, stage * ways->tensor, 1, ways->tensor, share, &ranks->rows, error);
    if (status == KVC_OK)
        status = open_team(link, place, ways->tensor, ways->pipeline, share ? share + ways->tensor : NULL,
                           &ranks->stages, error);
    return status;
}

void kvc_ways_close(struct kvc_ranks *ranks) {
    struct kvc_link *teams[] = {ranks->rows.link, ranks->stages.link};
    for (size_t i = 0; i < 2; i++)
        if (teams[i] && teams[i] != ranks->link)
            teams[i]->class->close(teams[i]);
    ranks->rows.link = ranks->stages.link = NULL;
}
