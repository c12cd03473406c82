/* devices.c - finds the OpenCL devices of this machine and the properties that kvcull needs. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "backends/opencl/opencl.h"

static void text_of(const struct kvc_cl *cl, cl_device_id id, cl_device_info what, char *text, size_t capacity) {
    size_t length = 0;
    if (cl->clGetDeviceInfo(id, what, capacity, text, &length) != CL_SUCCESS || length == 0 || length > capacity)
        snprintf(text, capacity, "unknown");
    text[capacity - 1] = '\0';
}

static bool devices_look(const struct kvc_cl *cl, cl_platform_id platform, cl_device_id id,
                         struct kvc_opencl_device *device) {
    cl_device_fp_config config = 0;
    cl_bool available = CL_FALSE, compiler = CL_FALSE;
    cl_ulong memory = 0, most = 0;
    char extensions[8192] = "";
    memset(device, 0, sizeof *device);
    device->platform = platform;
    device->id = id;
    cl->clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
    if (!available || cl->clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof device->type, &device->type, NULL) != CL_SUCCESS)
        return false;
    cl->clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    cl->clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
    text_of(cl, id, CL_DEVICE_NAME, device->name, sizeof device->name);
    text_of(cl, id, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    if (cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof device->platform_name, device->platform_name, NULL) !=
        CL_SUCCESS)
        snprintf(device->platform_name, sizeof device->platform_name, "unknown");
    device->memory = memory;
    device->most = most;
    device->fma = config & CL_FP_FMA;
    device->denormals = config & CL_FP_DENORM;
    device->division = config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    device->half = strstr(extensions, "cl_khr_fp16") != NULL;
    device->dot = strstr(extensions, "cl_khr_integer_dot_product") != NULL;
    device->compiler = compiler;
    return true;
}

/* Returns the reason why no device was found, and what the user can do. */
static const char *none(const struct kvc_cl *cl, const cl_platform_id *platforms, cl_uint count) {
    char name[64];
    for (cl_uint p = 0; p < count; p++)
        if (cl->clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
            strcmp(name, "Portable Computing Language") == 0)
            return "PoCL is installed but finds no device: set XDG_CACHE_HOME to a writable folder";
    return count ? "there is a driver, but it finds no device" : "a driver is needed; PoCL is one for CPUs";
}

enum { PLATFORMS = 16, PLATFORM_DEVICES = 16 };

size_t kvc_opencl_devices(struct kvc_cl *cl, struct kvc_opencl_device *devices, char *why, size_t capacity) {
    cl_platform_id platforms[PLATFORMS];
    cl_uint platform_count = 0;
    size_t count = 0;
    if (!kvc_cl_open(cl, why, capacity))
        return 0;
    if (cl->clGetPlatformIDs(PLATFORMS, platforms, &platform_count) != CL_SUCCESS)
        platform_count = 0;
    platform_count = kvc_min_u32(platform_count, PLATFORMS);
    for (int cpus = 0; cpus < 2; cpus++)
        for (cl_uint p = 0; p < platform_count; p++) {
            cl_device_id ids[PLATFORM_DEVICES];
            cl_uint id_count = 0;
            if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, PLATFORM_DEVICES, ids, &id_count) != CL_SUCCESS)
                continue;
            for (cl_uint i = 0; i < id_count && i < PLATFORM_DEVICES && count < KVC_OPENCL_DEVICES; i++)
                if (devices_look(cl, platforms[p], ids[i], &devices[count]) &&
                    ((devices[count].type & CL_DEVICE_TYPE_CPU) != 0) == (cpus == 1))
                    count++;
        }
    if (count == 0)
        snprintf(why, capacity, "%s", none(cl, platforms, platform_count));
    return count;
}

void kvc_opencl_describe(const struct kvc_opencl_device *device, size_t index, char *text, size_t capacity) {
    snprintf(
        text, capacity,
        "%zu: %.50s, %.30s, %.1f GiB; fma %s, denormals %s, division %s, F16 storage yes%s; shape %s, driver %.32s",
        index, device->name, device->platform_name, (double)device->memory / 1073741824.0,
        device->fma ? "yes" : "not claimed", device->denormals ? "yes" : "not claimed",
        device->division ? "exact" : "corrected", device->compiler ? "" : ", no compiler",
        device->type & CL_DEVICE_TYPE_CPU ? "cpu" : "gpu", device->driver);
}
