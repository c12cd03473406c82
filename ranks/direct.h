/* direct.h - the ways between devices that there are. */
#ifndef KVC_RANKS_DIRECT_H
#define KVC_RANKS_DIRECT_H

#include "core/ranks/direct.h"

enum { KVC_DIRECT_WAYS = 2 };

struct kvc_direct_way {
    const char *name;     /* as KVCULL_RANKS_DEVICES has it */
    bool one_each;        /* no two ranks may have the same device */
    bool (*usable)(void); /* as far as this rank knows; NULL: yes. Not asked where the user wants this one */
    /* All ranks call it. NULL: it does not open here. */
    struct kvc_direct *(*open)(struct kvc_link *link, struct kvc_device *device);
    /* All ranks call it, where it has opened on all: whether rows come through. NULL: nothing is tried. */
    bool (*works)(struct kvc_direct *direct);
};

/* The best first; NULL where a build lacks it. */
extern const struct kvc_direct_way *const kvc_direct_list[KVC_DIRECT_WAYS];
extern const struct kvc_direct_way kvc_direct_nccl, kvc_direct_mpi;

/* kvc_link_class.attach. KVCULL_RANKS_DEVICES=nccl, mpi or host: this way only. */
void kvc_direct_attach(struct kvc_link *link, struct kvc_device *device);

#endif
