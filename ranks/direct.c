/* direct.c - chooses the transport between devices: the first transport in the list that every rank supports. */
#include "core/ranks/direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/direct.h"

enum { WAYS = 2 };

/* Writes the transports that this process has, best first. An element is NULL if the process lacks that transport. */
static void list_ways(const struct kvc_link *link, const struct kvc_direct_way *ways[WAYS]) {
#if defined(KVC_NCCL)
    ways[0] = &kvc_direct_nccl;
#else
    ways[0] = NULL;
#endif
    ways[1] = link->class->way;
}

/* The report of a rank about its device. */
struct report {
    unsigned char ways[WAYS]; /* 1 if the rank supports the transport, otherwise 0 */
    unsigned char exposed, unique[16];
};

/* Gathers the reports of all ranks, [link->count]. The caller frees them. */
static struct report *direct_ask(struct kvc_link *link, const struct report *mine) {
    struct report *all = calloc(link->count, sizeof *all);
    size_t *sizes = malloc(2 * link->count * sizeof *sizes);
    if (!all || !sizes)
        link->class->end(link, "no memory");
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = sizeof *all;
        sizes[link->count + r] = r * sizeof *all;
    }
    link->class->gather(link, mine, all, sizes, sizes + link->count);
    free(sizes);
    return all;
}

static bool all_have(const struct kvc_link *link, const struct report *all, size_t way) {
    for (uint32_t r = 0; r < link->count; r++)
        if (!all[r].ways[way])
            return false;
    return true;
}

static bool share_a_device(const struct kvc_link *link, const struct report *all) {
    for (uint32_t r = 1; r < link->count; r++)
        for (uint32_t s = 0; s < r; s++)
            if (memcmp(all[r].unique, all[s].unique, sizeof all[r].unique) == 0)
                return true;
    return false;
}

static bool on_all(struct kvc_link *link, bool here) {
    const struct report mine = {.ways = {here}};
    struct report *all = direct_ask(link, &mine);
    const bool yes = all_have(link, all, 0);
    free(all);
    return yes;
}

/* Opens the transport on all ranks. Returns NULL on every rank if opening or the trial fails on any of them. */
static struct kvc_direct *open(const struct kvc_direct_way *way, struct kvc_link *link, struct kvc_device *device) {
    struct kvc_direct *direct = way->open(link, device);
    if (on_all(link, direct != NULL) && (!way->works || on_all(link, way->works(direct))))
        return direct;
    if (direct)
        direct->class->close(direct);
    return NULL;
}

/* Appends the transport to the device's name. */
static void name(struct kvc_device *device, const char *way) {
    const size_t length = strlen(device->name);
    if (strstr(device->name, ", rows by ")) /* another team of ranks has already appended it */
        return;
    snprintf(device->name + length, sizeof device->name - length, ", rows by %s", way);
}

void kvc_direct_attach(struct kvc_link *link, struct kvc_device *device) {
    const char *wanted = getenv("KVCULL_RANKS_DEVICES");
    struct report mine = {.exposed = device->exposed != NULL};
    struct kvc_direct *direct = NULL;
    const struct kvc_direct_way *ways[WAYS];
    list_ways(link, ways);
    for (size_t w = 0; w < WAYS && device->exposed; w++) {
        const struct kvc_direct_way *way = ways[w];
        mine.ways[w] = way && (wanted ? strcmp(wanted, way->name) == 0 : !way->usable || way->usable());
    }
    if (device->exposed)
        memcpy(mine.unique, device->exposed->unique, sizeof mine.unique);
    struct report *all = direct_ask(link, &mine);
    const bool shared = share_a_device(link, all);
    for (size_t w = 0; w < WAYS && !direct; w++)
        if (all_have(link, all, w) && !(ways[w]->one_each && shared))
            direct = open(ways[w], link, device);
    free(all);
    if (direct) {
        direct->next = link->direct;
        link->direct = direct;
    }
    if (device->exposed)
        name(device, direct ? direct->class->name : "the host");
}
