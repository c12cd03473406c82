/* nccl.h - test support: the part of NCCL's interface that ranks/nccl.c uses, implemented by fake_nccl.c over MPI. */
#ifndef KVC_TESTS_CUDA_NCCL_H
#define KVC_TESTS_CUDA_NCCL_H

#include <cuda_runtime_api.h>
#include <stddef.h>

typedef enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInvalidUsage = 5 } ncclResult_t;
typedef enum { ncclChar = 0 } ncclDataType_t;
typedef struct kvc_fake_comm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int count, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
const char *ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

#endif
