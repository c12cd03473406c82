/* list.c - the transports between devices that this build has. */
#include "ranks/direct.h"

const struct kvc_direct_way *const kvc_direct_list[KVC_DIRECT_WAYS] = {
#if defined(KVC_NCCL)
    [0] = &kvc_direct_nccl,
#endif
#if defined(KVC_MPI)
    [1] = &kvc_direct_mpi,
#endif
};
