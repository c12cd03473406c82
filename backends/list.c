/* list.c - the list of backends, and the functions that describe backends and their devices to a user. */
#include "core/base/backends.h"

const struct kvc_backend_class *const kvc_backend_list[] = {&kvc_backend_cpu, &kvc_backend_ref,
#if defined(KVC_OPENCL)
                                                            &kvc_backend_opencl,
#endif
#if defined(KVC_CUDA)
                                                            &kvc_backend_cuda,
#endif
                                                            NULL};

bool kvc_backend(size_t i, struct kvc_backend_info *info) {
    if (i >= sizeof kvc_backend_list / sizeof kvc_backend_list[0] - 1)
        return false;
    const struct kvc_backend_class *backend = kvc_backend_list[i];
    info->name = backend->name;
    info->usable = backend->usable(info->detail, sizeof info->detail);
    backend->missing(info->missing, sizeof info->missing);
    return true;
}

bool kvc_backend_device(size_t backend, size_t device, char *text, size_t capacity) {
    if (backend >= sizeof kvc_backend_list / sizeof kvc_backend_list[0] - 1 || !kvc_backend_list[backend]->device)
        return false;
    return kvc_backend_list[backend]->device(device, text, capacity);
}
