/* mpi_module.h - the interface of a module that is linked with an MPI. The functions of Open MPI and MPICH have the
 * same names but differ in their types, so each MPI has a module of its own, which ranks/mpi_open.c opens at run time.
 */
#ifndef KVC_RANKS_MPI_MODULE_H
#define KVC_RANKS_MPI_MODULE_H

#include <stddef.h>

#include "core/ranks/link.h"
#include "kvcull.h"

struct kvc_mpi_module {
    const char *version; /* KVC_VERSION and sizeof(struct kvc_link) of the module's build. A module of another build */
    size_t link_bytes;   /* is refused. */
    /* Starts MPI, unless the program has, and opens the link of all ranks. */
    enum kvc_status (*open)(struct kvc_link **link, struct kvc_error *error);
};

/* The only symbol that a module exports. */
extern const struct kvc_mpi_module kvc_mpi_module;

#endif
