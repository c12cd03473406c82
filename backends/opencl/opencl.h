/* opencl.h - what the files of the OpenCL backend share: devices as found, and an open one. */
#ifndef KVC_BACKENDS_OPENCL_OPENCL_H
#define KVC_BACKENDS_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backends/offload/offload.h"

#define KVC_OPENCL_DEVICES 64

struct kvc_opencl_device {
    cl_platform_id platform;
    cl_device_id id;
    char name[128], platform_name[64], driver[128];
    cl_device_type type;
    uint64_t memory, most; /* bytes: in all, of one allocation */
    bool fma, denormals;   /* of single precision, as the device claims: a self-test decides */
    bool division;         /* and square root: correctly rounded, as it claims; once open, as it computes */
    bool half;             /* arithmetic in F16 (not needed) */
    bool dot;              /* dot products of four bytes, as it claims */
    bool compiler;
};

/* Devices of all platforms, GPUs and accelerators before CPUs; their number, at most KVC_OPENCL_DEVICES. */
size_t kvc_opencl_devices(struct kvc_opencl_device *devices);
/* Why there is no device at all, and what would help. */
const char *kvc_opencl_none(void);
/* What a device can and cannot do, in one line. */
void kvc_opencl_describe(const struct kvc_opencl_device *device, size_t index, char *text, size_t capacity);

union kvc_opencl_argument {
    void *handle;
    uint64_t wide;
};

struct kvc_opencl {
    struct kvc_offload offload; /* first */
    struct kvc_opencl_device found;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel[KVC_KERNELS];
    union kvc_opencl_argument last[KVC_KERNELS][KVC_ARGUMENTS]; /* as set by the last launch, of which */
    unsigned known[KVC_KERNELS];                                /* so many hold still */
    bool native;         /* functions of the host can be commands, and the memory is the host's */
    bool in_place;       /* the host's memory is the device's: weights stay where they are mapped */
    void *sgemm;         /* --math=fast: CLBlast's */
    unsigned lose_after; /* KVCULL_OPENCL_LOSE, for tests: launches until the device is lost; 0: never */
};

/* The kernels' source, joined (generated from the files that opencl.mk lists). */
extern const char *const kvc_opencl_source[];
extern const size_t kvc_opencl_source_count;

/* Compiles the kernels for the device, or takes them from the cache of binaries; they replace others: program.c. */
enum kvc_status kvc_opencl_build(struct kvc_opencl *opencl, const char *options, struct kvc_error *error);
extern const struct kvc_offload_driver kvc_opencl_driver;   /* driver.c */
void kvc_opencl_release_kernels(struct kvc_opencl *opencl); /* driver.c */
const char *kvc_opencl_error(cl_int code);
/* --math=fast: linear layers of many rows by CLBlast (fast.c). */
enum kvc_status kvc_opencl_fill_fast(struct kvc_opencl *opencl, struct kvc_error *error);

#endif
