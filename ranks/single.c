/* single.c - the communication layer of a single process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/links.h"

static void single_gather(struct kvc_link *link, const void *mine, void *all, const size_t *sizes,
                          const size_t *offsets) {
    (void)link;
    if (sizes[0])
        memmove((char *)all + offsets[0], mine, sizes[0]);
}

static void single_broadcast(struct kvc_link *link, void *data, size_t bytes, uint32_t from) {
    (void)link, (void)data, (void)bytes, (void)from;
}

static void single_await(struct kvc_link *link, void *data, size_t bytes) { (void)link, (void)data, (void)bytes; }

static void single_end(struct kvc_link *link, const char *text) {
    fprintf(stderr, "kvcull: rank %u: %s\n", link->rank, text);
    exit(KVC_RESOURCE);
}

/* A single process has no receiver, so a send is a fatal error. */
static void single_send(struct kvc_link *link, const void *data, size_t bytes, uint32_t to, enum kvc_channel channel) {
    (void)data, (void)bytes, (void)to, (void)channel;
    single_end(link, "a message to another rank, but there is only one");
}

static void advance(struct kvc_link *link) { (void)link; }

static void single_receive(struct kvc_link *link, void *data, size_t bytes, uint32_t from, enum kvc_channel channel) {
    single_send(link, data, bytes, from, channel);
}

static struct kvc_link *single_part(struct kvc_link *link, uint32_t first, uint32_t step, uint32_t count) {
    struct kvc_link *made = malloc(sizeof *made);
    (void)first, (void)step, (void)count;
    if (made)
        *made = (struct kvc_link){.class = link->class, .rank = 0, .count = 1};
    return made;
}

static void close_link(struct kvc_link *link) { free(link); }

static const struct kvc_link_class class = {.name = "single",
                                            .gather = single_gather,
                                            .broadcast = single_broadcast,
                                            .await = single_await,
                                            .send = single_send,
                                            .advance = advance,
                                            .receive = single_receive,
                                            .part = single_part,
                                            .end = single_end,
                                            .close = close_link};

enum kvc_status kvc_link_open_single(struct kvc_link **link, struct kvc_error *error) {
    *link = calloc(1, sizeof **link);
    if (!*link)
        return kvc_fail(error, KVC_RESOURCE, "ranks: no memory");
    **link = (struct kvc_link){.class = &class, .rank = 0, .count = 1};
    return KVC_OK;
}
