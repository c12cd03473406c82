/* opencl.h - definitions that the files of the OpenCL backend share: the devices that were found, and an open
 * device. */
#ifndef KVC_BACKENDS_OPENCL_OPENCL_H
#define KVC_BACKENDS_OPENCL_OPENCL_H

#include "backends/offload/offload.h"
#include "backends/opencl/functions.h"

#define KVC_OPENCL_DEVICES 64

struct kvc_opencl_device {
    cl_platform_id platform;
    cl_device_id id;
    char name[128], platform_name[64], driver[128];
    cl_device_type type;
    uint64_t memory, most; /* memory: in bytes; most: largest size of one allocation */
    bool fma, denormals;   /* claimed for single precision; the self-test decides */
    bool division; /* whether division and square root are correctly rounded: first as claimed, then, in an open device,
                    * as tested */
    bool half;     /* the device has F16 arithmetic (not needed) */
    bool dot;      /* the device claims dot products of four bytes */
    bool compiler;
};

/* Opens the OpenCL library and finds the devices of all platforms, GPUs and accelerators before CPUs. Returns the
 * number of devices, at most KVC_OPENCL_DEVICES. If it is 0, `why` [capacity] receives the reason and what the user can
 * do. */
size_t kvc_opencl_devices(struct kvc_cl *cl, struct kvc_opencl_device *devices, char *why, size_t capacity);
/* Describes in one line what a device can and cannot do. */
void kvc_opencl_describe(const struct kvc_opencl_device *device, size_t index, char *text, size_t capacity);

union kvc_opencl_argument {
    void *handle;
    uint64_t wide;
};

struct kvc_opencl {
    struct kvc_offload offload; /* must be the first member */
    struct kvc_cl cl;
    struct kvc_opencl_device found;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel[KVC_KERNELS];
    union kvc_opencl_argument last[KVC_KERNELS][KVC_ARGUMENTS]; /* arguments of each kernel's last launch */
    unsigned known[KVC_KERNELS];                                /* how many of these arguments are still valid */
    bool native;         /* host functions can be queued as commands, and device memory is host memory */
    bool in_place;       /* device memory is host memory, so weights are used in the mapped file */
    void *sgemm;         /* --math=fast: CLBlast's function */
    unsigned lose_after; /* for tests (KVCULL_OPENCL_LOSE): number of launches until the device is lost; 0: never */
};

/* The kernels' source, joined. It is generated from the files that opencl.mk lists. */
extern const char *const kvc_opencl_source[];
extern const size_t kvc_opencl_source_count;

/* Compiles the kernels for the device, or loads them from the cache of binaries. These kernels replace earlier ones.
 * Defined in program.c. */
enum kvc_status kvc_opencl_build(struct kvc_opencl *opencl, const char *options, struct kvc_error *error);
extern const struct kvc_offload_driver kvc_opencl_driver;   /* defined in driver.c */
void kvc_opencl_release_kernels(struct kvc_opencl *opencl); /* defined in driver.c */
const char *kvc_opencl_error(cl_int code);
/* Prepares --math=fast, in which CLBlast computes linear layers with many rows (fast.c). */
enum kvc_status kvc_opencl_fill_fast(struct kvc_opencl *opencl, struct kvc_error *error);

#endif
