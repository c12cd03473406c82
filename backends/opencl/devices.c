/* devices.c - finds the OpenCL devices of this machine and the properties that matter. */
#include <stdio.h>
#include <string.h>

#include "core/base/integers.h"
#include "backends/opencl/opencl.h"

static void text_of(cl_device_id id, cl_device_info what, char *text, size_t capacity) {
    size_t length = 0;
    if (clGetDeviceInfo(id, what, capacity, text, &length) != CL_SUCCESS || length == 0 || length > capacity)
        snprintf(text, capacity, "unknown");
    text[capacity - 1] = '\0';
}

static bool devices_look(cl_platform_id platform, cl_device_id id, struct kvc_opencl_device *device) {
    cl_device_fp_config config = 0;
    cl_bool available = CL_FALSE, compiler = CL_FALSE;
    cl_ulong memory = 0, most = 0;
    char extensions[8192] = "";
    memset(device, 0, sizeof *device);
    device->platform = platform;
    device->id = id;
    clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
    if (!available || clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof device->type, &device->type, NULL) != CL_SUCCESS)
        return false;
    clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL);
    clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
    text_of(id, CL_DEVICE_NAME, device->name, sizeof device->name);
    text_of(id, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof device->platform_name, device->platform_name, NULL) !=
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

size_t kvc_opencl_devices(struct kvc_opencl_device *devices) {
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    size_t count = 0;
    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS)
        return 0;
    platform_count = kvc_min_u32(platform_count, 16);
    for (int cpus = 0; cpus < 2; cpus++)
        for (cl_uint p = 0; p < platform_count; p++) {
            cl_device_id ids[16];
            cl_uint id_count = 0;
            if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, ids, &id_count) != CL_SUCCESS)
                continue;
            for (cl_uint i = 0; i < id_count && i < 16 && count < KVC_OPENCL_DEVICES; i++)
                if (devices_look(platforms[p], ids[i], &devices[count]) &&
                    ((devices[count].type & CL_DEVICE_TYPE_CPU) != 0) == (cpus == 1))
                    count++;
        }
    return count;
}

const char *kvc_opencl_none(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    char name[64];
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS || count == 0)
        return "a driver is needed; PoCL is one for CPUs";
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
            strcmp(name, "Portable Computing Language") == 0)
            return "PoCL is installed but finds no device: set XDG_CACHE_HOME to a writable folder";
    return "there is a driver, but it finds no device";
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
