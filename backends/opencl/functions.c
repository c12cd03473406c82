/* functions.c - loads the OpenCL library and looks up its functions at run time. */
#include "backends/opencl/functions.h"

#include <stdio.h>

#include "core/base/library.h"

bool kvc_cl_open(struct kvc_cl *cl, char *why, size_t capacity) {
    void *library = kvc_library_open(KVC_LIBRARY_OPENCL, why, capacity);
    if (!library)
        return false;
#define FIND(name)                                                                                                     \
    if (!kvc_library_find(library, #name, &cl->name)) {                                                                \
        snprintf(why, capacity, "the OpenCL library has no " #name ": it must be version 1.2 or newer");               \
        return false;                                                                                                  \
    }
    KVC_CL_FUNCTIONS(FIND)
#undef FIND
    return true;
}
