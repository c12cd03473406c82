/* mpi_comm.h - access to the communicator of a link over MPI. */
#ifndef KVC_RANKS_MPI_COMM_H
#define KVC_RANKS_MPI_COMM_H

#include <mpi.h>

#include "core/ranks/link.h"

MPI_Comm kvc_mpi_comm(const struct kvc_link *link);
/* Call kvc_mpi_hold before each MPI call and kvc_mpi_release after it, because only one thread at a time may call MPI.
 * The MPI call must not wait for other ranks. */
void kvc_mpi_hold(const struct kvc_link *link);
void kvc_mpi_release(const struct kvc_link *link);
void kvc_mpi_wait(struct kvc_link *link, MPI_Request *request);

#endif
