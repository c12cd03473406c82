/* links.h - opens the implementations of the communication layer (core/ranks/link.h). ranks/ holds the processes around
 * the engine and all calls of MPI and NCCL; core/ranks holds the part of parallel runs inside the engine. */
#ifndef KVC_RANKS_LINKS_H
#define KVC_RANKS_LINKS_H

#include <stdbool.h>

#include "core/ranks/link.h"
#include "kvcull.h"

/* Returns KVC_RESOURCE if this build has no MPI. */
enum kvc_status kvc_link_open_mpi(struct kvc_link **link, struct kvc_error *error);
/* Opens the link of a single process. */
enum kvc_status kvc_link_open_single(struct kvc_link **link, struct kvc_error *error);

#endif
