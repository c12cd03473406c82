/* direct.h - the transports that move rows between devices without the host. */
#ifndef KVC_RANKS_DIRECT_H
#define KVC_RANKS_DIRECT_H

#include "core/ranks/direct.h"

struct kvc_direct_way {
    const char *name; /* the value of KVCULL_RANKS_DEVICES that selects the transport */
    bool one_each;    /* each rank needs a device of its own */
    /* Returns true if this rank can use the transport. The pointer is NULL if every rank can. The function is not
     * called if the user chose this transport. */
    bool (*usable)(void);
    /* Opens the transport. All ranks call the function. Returns NULL if this rank cannot open the transport. */
    struct kvc_direct *(*open)(struct kvc_link *link, struct kvc_device *device);
    /* Sends trial rows and returns true if they arrive. All ranks call the function after every rank has opened the
     * transport. The pointer is NULL if the transport needs no trial. */
    bool (*works)(struct kvc_direct *direct);
};

extern const struct kvc_direct_way kvc_direct_nccl; /* nccl.c, in builds with CUDA */
extern const struct kvc_direct_way kvc_direct_mpi;  /* mpi_devices.c, in the plug-ins of MPI */

/* Called on all ranks of the link, each with a device. Adds a connection between the devices to link->direct if all of
 * them support one. KVCULL_RANKS_DEVICES=nccl, mpi or host restricts the choice to that transport. The device must
 * outlive the connection. */
void kvc_direct_attach(struct kvc_link *link, struct kvc_device *device);

#endif
