/* mpi_comm.h - the communicator below a link over MPI. */
#ifndef KVC_RANKS_MPI_COMM_H
#define KVC_RANKS_MPI_COMM_H

#include <mpi.h>

#include "core/ranks/link.h"

MPI_Comm kvc_mpi_comm(const struct kvc_link *link);

#endif
