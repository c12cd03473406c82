/* links.h - opens the implementations of the communication layer. */
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
