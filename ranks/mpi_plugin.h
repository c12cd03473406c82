/* mpi_plugin.h - the interface of a plug-in that is linked with an MPI. The functions of Open MPI and MPICH have the
 * same names but differ in their types, so each MPI has a plug-in of its own, which ranks/mpi_open.c opens at run time.
 */
#ifndef KVC_RANKS_MPI_PLUGIN_H
#define KVC_RANKS_MPI_PLUGIN_H

#include <stddef.h>

#include "core/ranks/link.h"
#include "kvcull.h"

struct kvc_mpi_plugin {
    /* KVC_VERSION and sizeof(struct kvc_link). If either differs from the program's, the plug-in is refused. */
    const char *version;
    size_t link_bytes;
    /* Initializes MPI, unless the program has already done so, and opens the link of all ranks. */
    enum kvc_status (*open)(struct kvc_link **link, struct kvc_error *error);
};

/* The only symbol that a plug-in exports. */
extern __attribute__((visibility("default"))) const struct kvc_mpi_plugin kvc_mpi_plugin;

#endif
