/* fast.c - --math=fast: linear layers of many rows by CLBlast. Same model, other rounding. */
#include "backends/opencl/opencl.h"

enum kvc_status kvc_opencl_fill_fast(struct kvc_opencl *opencl, struct kvc_error *error) {
    (void)opencl;
    return kvc_fail(error, KVC_RESOURCE,
                    "math=fast needs CLBlast, which is not in this build; use exact, the default");
}
