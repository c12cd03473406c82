/* available.c - computes the memory available to this process. This is the least memory that the machine, the control
 * groups or the process's own limits still allow. A limit that cannot be read is ignored. A control group's limit
 * covers all groups within it. The limits of all groups up to the root therefore apply, each reduced by the memory that
 * its group already uses. File pages do not count as used, because the kernel frees them before it refuses memory (as
 * in MemAvailable). Swap does not count as available. */
#include <stdlib.h>
#include <string.h>

#include "cli/info/info.h"

struct source { /* a file under `root` */
    const char *root, *folder, *name;
};

/* Reads the number that follows `key` on a line of a file, or the first line's number if key is NULL. Returns false if
 * there is no number but, for example, "max". */
static bool available_number(struct source source, const char *key, uint64_t *value) {
    char path[4096 + 512], line[512];
    FILE *stream = NULL;
    bool found = false;

    if (snprintf(path, sizeof path, "%s%s/%s", source.root, source.folder, source.name) < (int)sizeof path)
        stream = fopen(path, "r");
    while (stream && !found && fgets(line, sizeof line, stream)) {
        const size_t skip = key ? strlen(key) : 0;
        const char *at = line + skip;

        if (key && (strncmp(line, key, skip) != 0 || !strchr(" :\t", *at)))
            continue;
        at += strspn(at, " :\t");
        found = *at >= '0' && *at <= '9';
        if (found)
            *value = strtoull(at, NULL, 10);
        else if (!key)
            break;
    }
    if (stream)
        fclose(stream);
    return found;
}

static void lower(struct info_available *capacity, uint64_t limit, uint64_t used, const char *name,
                  const char *folder) {
    const uint64_t left = limit > used ? limit - used : 0;

    if (left < capacity->bytes) {
        capacity->bytes = left;
        snprintf(capacity->from, sizeof capacity->from, "%s%s%s", name, folder[0] ? " of " : "", folder);
    }
}

static const struct version { /* versions of control groups */
    const char *system, *controller, *limits[2], *used, *files[2];
} versions[] = {{"cgroup2", "", {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}},
                {"cgroup",
                 "memory",
                 {"memory.limit_in_bytes", NULL},
                 "memory.usage_in_bytes",
                 {"total_inactive_file", "total_active_file"}}};

static void group(struct info_available *capacity, const char *root, const char *folder,
                  const struct version *version) {
    uint64_t used = 0, files = 0, limit, one;

    (void)available_number((struct source){root, folder, version->used}, NULL, &used);
    for (size_t i = 0; i < 2; i++)
        if (available_number((struct source){root, folder, "memory.stat"}, version->files[i], &one))
            files += one;
    used -= cli_min(files, used);
    for (size_t i = 0; i < 2 && version->limits[i]; i++)
        if (available_number((struct source){root, folder, version->limits[i]}, NULL, &limit))
            lower(capacity, limit, used, version->limits[i], folder);
    /* version 1 reports the smallest limit of the group and all groups above it, even those that are not visible */
    if (available_number((struct source){root, folder, "memory.stat"}, "hierarchical_memory_limit", &limit))
        lower(capacity, limit, used, "hierarchical_memory_limit", folder);
}

/* Applies the limits of the group and of all groups above it, up to the mount point. */
static void groups(struct info_available *capacity, const char *root, const char *mount, const char *path,
                   const struct version *version) {
    char folder[4096];
    uint64_t inherited;

    if (strstr(path, "/..") || strcmp(path, "/") == 0)
        path = "";
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= (int)sizeof folder)
        return;
    for (;;) {
        char *slash = strrchr(folder, '/');

        group(capacity, root, folder, version);
        if (!slash || strlen(folder) <= strlen(mount))
            return;
        *slash = '\0';
        if (available_number((struct source){root, folder, "memory.use_hierarchy"}, NULL, &inherited) && inherited == 0)
            return; /* in old kernels, a group's limit may not cover the groups within it */
    }
}

static bool is_listed(const char *list, const char *word) {
    const size_t bytes = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    return false;
}

/* Finds where this version of control groups is mounted ("" if it is not), and the group at the root of this mount
 * (top). */
static void find_mount(const char *root, const struct version *version, char mount[4096], char top[4096]) {
    char path[4096 + 512], line[16384], system[64], options[4096], *end;
    FILE *stream = NULL;

    mount[0] = '\0';
    if (snprintf(path, sizeof path, "%s/proc/self/mountinfo", root) < (int)sizeof path)
        stream = fopen(path, "r");
    while (stream && !mount[0] && fgets(line, sizeof line, stream))
        if ((end = strstr(line, " - ")) && sscanf(end, " - %63s %*s %4095s", system, options) == 2 &&
            strcmp(system, version->system) == 0 &&
            (!version->controller[0] || is_listed(options, version->controller)) &&
            sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2)
            mount[0] = '\0';
    if (stream)
        fclose(stream);
}

static void control_groups(struct info_available *capacity, const char *root) {
    char path[4096 + 512], line[8192], mount[4096], top[4096];
    FILE *stream = NULL;

    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) < (int)sizeof path)
        stream = fopen(path, "r");
    while (stream && fgets(line, sizeof line, stream)) { /* number:controllers:path */
        char *controllers = strchr(line, ':'), *own = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!own)
            continue;
        *controllers++ = '\0';
        *own++ = '\0';
        own[strcspn(own, "\n")] = '\0';
        for (size_t i = 0; i < 2; i++) {
            const struct version *version = &versions[i];
            const bool this = version->controller[0] ? is_listed(controllers, version->controller)
                                                     : controllers[0] == '\0' && strcmp(line, "0") == 0;

            if (this)
                find_mount(root, version, mount, top);
            if (this && mount[0]) {
                const size_t above = strcmp(top, "/") == 0 ? 0 : strlen(top);
                const bool inside = strncmp(own, top, above) == 0 && (own[above] == '/' || own[above] == '\0');

                groups(capacity, root, mount, inside ? own + above : "", version);
            }
        }
    }
    if (stream)
        fclose(stream);
}

void info_available(const char *root, uint64_t mapped, struct info_available *capacity) {
    const struct source status = {root, "/proc/self", "status"}, limits = {root, "/proc/self", "limits"};
    uint64_t size = 0, limit;

    *capacity = (struct info_available){UINT64_MAX, ""};
    if (available_number((struct source){root, "/proc", "meminfo"}, "MemAvailable", &size))
        lower(capacity, size * 1024, 0, "the machine", "");
    control_groups(capacity, root);
    /* The address space already contains the mapped weights, and the data segment never contains them. */
    if (available_number(limits, "Max address space", &limit) && available_number(status, "VmSize", &size))
        lower(capacity, limit > UINT64_MAX - mapped ? limit : limit + mapped, size * 1024,
              "the address space (ulimit -v)", "");
    if (available_number(limits, "Max data size", &limit) && available_number(status, "VmData", &size))
        lower(capacity, limit > UINT64_MAX - mapped ? limit : limit + mapped, size * 1024,
              "the data segment (ulimit -d)", "");
}

uint64_t cli_available(void) {
    struct info_available capacity;

    info_available("", 0, &capacity);
    return capacity.bytes;
}
