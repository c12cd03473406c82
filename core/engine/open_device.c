/* open_device.c - opens a device by name: finds its backend, and says what is wrong with a name that no backend has. */
#include "core/engine/open_device.h"

#include "core/base/backends.h"
#include "core/base/cpu_paths.h"
#include "core/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { INDEX_MOST = 1023 };

#define PATH_NAME(NAME, name, build) #name,
static const char *const cpu_paths[] = {KVC_CPU_PATHS(PATH_NAME)};
enum { CPU_PATHS = sizeof cpu_paths / sizeof *cpu_paths };

static bool is_cpu_path(const char *name) {
    for (size_t i = 0; i < CPU_PATHS; i++)
        if (strcmp(name, cpu_paths[i]) == 0)
            return true;
    return false;
}

static enum kvc_status unknown_backend(const char *name, struct kvc_error *error) {
    struct kvc_nearest nearest = kvc_nearest(name, strcspn(name, ":"));
    char hint[KVC_NEAREST_HINT];
    for (size_t i = 0; kvc_backend_list[i]; i++)
        kvc_nearest_try(&nearest, kvc_backend_list[i]->name, strlen(kvc_backend_list[i]->name));
    for (size_t i = 0; i < CPU_PATHS; i++)
        kvc_nearest_try(&nearest, cpu_paths[i], strlen(cpu_paths[i]));
    return kvc_fail(error, KVC_USAGE, "backend '%s' is unknown; 'kvcull info backends' lists all%s", name,
                    kvc_nearest_hint(&nearest, hint));
}

/* A device's name in its parts: BACKEND, BACKEND:INDEX or BACKEND:PART. */
struct device_name {
    const char *text;
    size_t length;       /* length of the backend's name */
    bool given;          /* the name gives one of the backend's devices: by index, or by a part of the device's name */
    const char *part;    /* NULL: by index */
    unsigned long index; /* 0 if there is none */
};

static struct device_name parse(const char *text) {
    const char *colon = strchr(text, ':');
    struct device_name name = {.text = text, .length = colon ? (size_t)(colon - text) : strlen(text), .given = colon};
    if (!colon)
        return name;
    char *end;
    const unsigned long index = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end || index > INDEX_MOST || colon[1] == '-' || colon[1] == '+')
        name.part = colon + 1;
    else
        name.index = index;
    return name;
}

static bool is_backend(const struct device_name *name, const char *backend) {
    return strlen(backend) == name->length && memcmp(backend, name->text, name->length) == 0;
}

static const struct kvc_backend_class *find_backend(const struct device_name *name) {
    for (size_t i = 0; kvc_backend_list[i]; i++)
        if (is_backend(name, kvc_backend_list[i]->name))
            return kvc_backend_list[i];
    return NULL;
}

/* Returns true if the backend may have a device with this part in its name. A part that
 * begins like a number is taken for an invalid index. */
static bool may_have_part(const struct kvc_backend_class *backend, const char *part) {
    return backend && backend->device && part[0] && !(part[0] >= '0' && part[0] <= '9') && part[0] != '-';
}

/* Returns the number of the backend's devices, at least 1. */
static uint32_t count_devices(const struct kvc_backend_class *backend) {
    char text[160];
    uint32_t count = 1;
    while (backend->device(count, text, sizeof text))
        count++;
    return count;
}

/* Explains a name that no backend of this build has. */
static enum kvc_status no_such_backend(const struct device_name *name, struct kvc_error *error) {
    static const char *const foreign[] = {"rocm", "hip", "metal", "vulkan", "mps", "sycl"};
    if (is_backend(name, "opencl") || is_backend(name, "cuda"))
        return kvc_fail(error, KVC_RESOURCE,
                        "backend '%s' is not in this build; 'kvcull info backends' lists the others", name->text);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strncasecmp(name->text, foreign[i], strlen(foreign[i])))
            return kvc_fail(error, KVC_RESOURCE, "backend '%s': kvcull has no such backend; use opencl or cpu",
                            name->text);
    return unknown_backend(name->text, error);
}

enum kvc_status kvc_open_device(const char *text, const struct kvc_engine_options *options, struct kvc_device **device,
                                struct kvc_error *error) {
    struct device_name name = parse(text);
    const struct kvc_backend_class *backend = find_backend(&name);
    if (name.part && !may_have_part(backend, name.part))
        return kvc_fail(error, KVC_USAGE, "backend '%s': '%s' is not a device number from 0 to %d", text, name.part,
                        INDEX_MOST);
    if (!backend && is_cpu_path(text)) {
        name = (struct device_name){.text = "cpu", .length = strlen("cpu"), .given = true, .part = text};
        backend = find_backend(&name);
    }
    if (!backend)
        return no_such_backend(&name, error);
    if (!name.given && backend->in_turn && options->ranks)
        name.index = options->ranks->link->near % count_devices(backend);
    return backend->open(name.part, (unsigned)name.index, options->threads, options->math, device, error);
}
