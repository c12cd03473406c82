/* open_device.h - opens a device by name. */
#ifndef KVC_CORE_ENGINE_OPEN_DEVICE_H
#define KVC_CORE_ENGINE_OPEN_DEVICE_H

#include "core/base/ops.h"
#include "kvcull.h"

/* `name`: "cpu", "ref", an instruction set of one of them ("avx2"), "name:index", or "name:part of a device's name". Of
 * the options, only `threads`, `math` and `ranks` are used. */
enum kvc_status kvc_open_device(const char *name, const struct kvc_engine_options *options, struct kvc_device **device,
                                struct kvc_error *error);

#endif
