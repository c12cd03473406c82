/* library.h - opens the libraries of other projects at run time, when a run first needs them. The program therefore
 * starts on a machine that has none of them. Also opens kvcull's MPI plug-ins, one for each MPI that the build found.
 */
#ifndef KVC_CORE_BASE_LIBRARY_H
#define KVC_CORE_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum kvc_library_id {
    KVC_LIBRARY_OPENBLAS,
    KVC_LIBRARY_OPENCL,
    KVC_LIBRARY_CLBLAST,
    KVC_LIBRARY_CUDA,
    KVC_LIBRARY_CUBLAS,
    KVC_LIBRARY_NCCL,
    KVC_LIBRARY_OPENMPI,
    KVC_LIBRARY_MPICH,
    KVC_LIBRARIES
};

/* Opens a library and returns its handle for dlsym. The library stays open until the process ends, because most
 * libraries keep threads or caches. If the process already contains the library, because it is preloaded or the calling
 * program links it, that copy is used; this does not apply to MPI plug-ins. Returns NULL on failure; `why` [capacity]
 * then holds the reason, such as "libOpenCL.so.1: cannot open shared object file". */
void *kvc_library_open(enum kvc_library_id library, char *why, size_t capacity);
/* Sets a function pointer, `function`, to the library's function of that name. Returns false if the library has no such
 * function. */
bool kvc_library_find(void *handle, const char *name, void *function);

#endif
