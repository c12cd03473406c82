/* backends.h - the backends of this build. A new backend needs a line here and a line in backends/list.c. */
#ifndef KVC_CORE_BASE_BACKENDS_H
#define KVC_CORE_BASE_BACKENDS_H

#include "core/base/ops.h"

extern const struct kvc_backend_class kvc_backend_cpu;
extern const struct kvc_backend_class kvc_backend_ref;
#if defined(KVC_OPENCL)
extern const struct kvc_backend_class kvc_backend_opencl;
#endif
#if defined(KVC_CUDA)
extern const struct kvc_backend_class kvc_backend_cuda;
#endif

/* All backends, NULL-terminated. */
extern const struct kvc_backend_class *const kvc_backend_list[];

#endif
