/* opencl.c - the backend "opencl": chooses and opens a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/opencl/opencl.h"
#include "core/base/backends.h"
#include "core/base/float.h"

enum { WHY = 200 };

static bool usable(char *detail, size_t capacity) {
    struct kvc_opencl_device *devices = malloc(KVC_OPENCL_DEVICES * sizeof *devices);
    struct kvc_cl cl;
    char why[WHY] = "no memory";
    size_t count = devices ? kvc_opencl_devices(&cl, devices, why, sizeof why) : 0;
    if (count)
        snprintf(detail, capacity, "%zu device%s, %s%.40s", count, count == 1 ? "" : "s",
                 count == 1 ? "" : "the first: ", devices[0].name);
    else
        snprintf(detail, capacity, "no OpenCL device here (%s)", why);
    free(devices);
    return count > 0;
}

static bool device(size_t i, char *detail, size_t capacity) {
    struct kvc_opencl_device *devices = malloc(KVC_OPENCL_DEVICES * sizeof *devices);
    struct kvc_cl cl;
    char why[WHY];
    size_t count = devices ? kvc_opencl_devices(&cl, devices, why, sizeof why) : 0;
    if (i < count)
        kvc_opencl_describe(&devices[i], i, detail, capacity);
    free(devices);
    return i < count;
}

/* Returns true if `text` contains `part`, without regard to the case of ASCII letters. */
static bool holds(const char *text, const char *part) {
    size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return false;
}

/* Finds the device with that index, or the first one whose name contains `name`. */
static enum kvc_status opencl_choose(struct kvc_opencl *opencl, const char *name, unsigned index,
                                     struct kvc_error *error) {
    struct kvc_opencl_device *devices = malloc(KVC_OPENCL_DEVICES * sizeof *devices);
    char why[WHY];
    size_t count, i = index;
    if (!devices)
        return kvc_fail(error, KVC_RESOURCE, "opencl: no memory");
    count = kvc_opencl_devices(&opencl->cl, devices, why, sizeof why);
    for (i = name ? 0 : index; name && i < count && !holds(devices[i].name, name); i++)
        ;
    if (i < count)
        opencl->found = devices[i];
    free(devices);
    if (i < count)
        return KVC_OK;
    if (count == 0)
        return kvc_fail(error, KVC_RESOURCE, "opencl: no device here; %s, or use the cpu backend", why);
    if (name)
        return kvc_fail(error, KVC_RESOURCE,
                        "opencl: no device's name contains '%s'; 'kvcull info backends' lists them", name);
    return kvc_fail(error, KVC_RESOURCE, "opencl: no device %u, the last is %zu; 'kvcull info backends' lists them",
                    index, count - 1);
}

/* Sets the device's shape and writes the compiler options. For tests, environment variables change them:
 * KVCULL_OPENCL_SHAPE=gpu, narrow (half as many work-items in a group) or broken; KVCULL_OPENCL_DIVISION=corrected;
 * KVCULL_OPENCL_DOT=emulated (plain code computes dot products, behind the extension's interface) or none;
 * KVCULL_OPENCL_LACKS=fma, denormals, division or order (backends/kernels/check.h). */
static void compile_options(struct kvc_opencl *opencl, const char *language, char *options, size_t capacity) {
    const char *shape = getenv("KVCULL_OPENCL_SHAPE"), *division = getenv("KVCULL_OPENCL_DIVISION");
    const char *lacks = getenv("KVCULL_OPENCL_LACKS"), *dot = getenv("KVCULL_OPENCL_DOT");
    const bool emulated = dot && strcmp(dot, "emulated") == 0;
    bool cpu = opencl->found.type & CL_DEVICE_TYPE_CPU;
    const bool narrow = shape && strcmp(shape, "narrow") == 0;
    if (narrow || (shape && strcmp(shape, "gpu") == 0))
        cpu = false;
    if (division && strcmp(division, "corrected") == 0)
        opencl->found.division = false;
    opencl->offload.workers = cpu ? 1 : 4;
    opencl->offload.group = narrow ? 64 : KVC_GROUP_OF(opencl->offload.workers);
    snprintf(options, capacity, "-cl-std=%s%s -DKVC_WORKERS=%u -DKVC_GROUP=%u%s", language,
             emulated ? " -DKVC_EMULATED_DOT" : "", shape && strcmp(shape, "broken") == 0 ? 3 : opencl->offload.workers,
             (unsigned)opencl->offload.group,
             opencl->found.division ? " -cl-fp32-correctly-rounded-divide-sqrt" : " -DKVC_CORRECTED");
    if (lacks && strspn(lacks, "abcdefghijklmnopqrstuvwxyz") == strlen(lacks) && strlen(lacks) < 20)
        snprintf(options + strlen(options), capacity - strlen(options), " -DKVC_LACKS_%s", lacks);
}

static enum kvc_status open_queue(struct kvc_opencl *opencl, struct kvc_error *error) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)opencl->found.platform, 0};
    cl_device_exec_capabilities runs = 0;
    cl_bool unified = CL_FALSE;
    cl_int code;
    opencl->context = opencl->cl.clCreateContext(properties, 1, &opencl->found.id, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        opencl->queue = opencl->cl.clCreateCommandQueue(opencl->context, opencl->found.id, 0, &code);
    if (code != CL_SUCCESS)
        return kvc_fail(error, KVC_RESOURCE, "opencl: %s cannot be opened: %s (OpenCL error %d)", opencl->found.name,
                        kvc_opencl_error(code), (int)code);
    opencl->cl.clGetDeviceInfo(opencl->found.id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
    opencl->in_place = (opencl->found.type & CL_DEVICE_TYPE_CPU) && unified && !getenv("KVCULL_OPENCL_MEMORY");
    opencl->cl.clGetDeviceInfo(opencl->found.id, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof runs, &runs, NULL);
    opencl->native = (opencl->found.type & CL_DEVICE_TYPE_CPU) && (runs & CL_EXEC_NATIVE_KERNEL);
    return KVC_OK;
}

/* Builds the kernels. Compilers with a dot product of four bytes declare it only in OpenCL C 3.0, so OpenCL C 3.0 is
 * tried first. If a compiler accepts the kernels only in OpenCL C 1.2, plain code computes dot products. */
static enum kvc_status build(struct kvc_opencl *opencl, struct kvc_error *error) {
    const char *dot = getenv("KVCULL_OPENCL_DOT");
    char options[256];
    if (dot ? strcmp(dot, "emulated") == 0 : opencl->found.dot) {
        compile_options(opencl, "CL3.0", options, sizeof options);
        if (kvc_opencl_build(opencl, options, NULL) == KVC_OK)
            return KVC_OK;
    }
    compile_options(opencl, "CL1.2", options, sizeof options);
    return kvc_opencl_build(opencl, options, error);
}

/* Runs the self-test. If a device claims correctly rounded division and square roots but fails to compute them, integer
 * arithmetic computes them, as on devices that do not claim them. */
static enum kvc_status opencl_check(struct kvc_opencl *opencl, struct kvc_error *error) {
    bool only_division = false;
    enum kvc_status status = kvc_offload_check(&opencl->offload, &only_division, error);
    if (status == KVC_OK || !only_division || !opencl->found.division)
        return status;
    opencl->found.division = false;
    status = build(opencl, error);
    return status == KVC_OK ? kvc_offload_check(&opencl->offload, NULL, error) : status;
}

static enum kvc_status open_device(const char *path, unsigned index, int threads, enum kvc_math math,
                                   struct kvc_device **opened, struct kvc_error *error) {
    struct kvc_opencl *opencl = calloc(1, sizeof *opencl);
    const char *lose = getenv("KVCULL_OPENCL_LOSE"), *most = getenv("KVCULL_OPENCL_MOST"); /* for tests */
    const char *memory = getenv("KVCULL_OPENCL_MEMORY"), *checks = getenv("KVCULL_OPENCL_CHECKS");
    enum kvc_status status;
    uint64_t environment;
    (void)threads; /* the driver has its own threads */
    *opened = NULL;
    if (!opencl)
        return kvc_fail(error, KVC_RESOURCE, "opencl: no memory for a device");
    opencl->offload.driver = &kvc_opencl_driver;
    opencl->lose_after = lose ? (unsigned)strtoul(lose, NULL, 10) : 0;
    opencl->offload.small_batch_checks = checks != NULL;
    status = opencl_choose(opencl, path, index, error);
    if (status == KVC_OK && !opencl->found.compiler)
        status = kvc_fail(error, KVC_RESOURCE, "opencl: the driver of %s has no compiler", opencl->found.name);
    if (status == KVC_OK)
        status = open_queue(opencl, error);
    if (status != KVC_OK) {
        kvc_opencl_driver.close(&opencl->offload);
        return status;
    }
    snprintf(opencl->offload.device.name, sizeof opencl->offload.device.name, "opencl (%.60s)", opencl->found.name);
    opencl->offload.memory_bytes = memory ? strtoull(memory, NULL, 10) : opencl->found.memory;
    opencl->offload.most_bytes = most ? strtoull(most, NULL, 10) : opencl->found.most;
    environment = kvc_float_open();
    status = build(opencl, error);
    if (status == KVC_OK)
        status = kvc_offload_open(&opencl->offload, error);
    if (status == KVC_OK && math != KVC_MATH_FAST && !(checks && strcmp(checks, "none") == 0))
        status = opencl_check(opencl, error);
    if (status == KVC_OK && math == KVC_MATH_FAST)
        status = kvc_opencl_fill_fast(opencl, error);
    kvc_float_close(environment);
    if (status != KVC_OK) {
        kvc_offload_close(&opencl->offload.device);
        return status;
    }
    opencl->offload.table.name = "opencl";
    *opened = &opencl->offload.device;
    return KVC_OK;
}

static void opencl_missing(char *text, size_t capacity) { snprintf(text, capacity, "none"); }

const struct kvc_backend_class kvc_backend_opencl = {
    .name = "opencl", .usable = usable, .open = open_device, .missing = opencl_missing, .device = device};
