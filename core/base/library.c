/* library.c - opens libraries at run time and reports to the user where they were found. */
#include "core/base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvcull.h"

enum { FILES = 3, PATH_BYTES = 4096 };

struct library {
    const char *name, *use;
    const char *option; /* the configure option that enables the library; NULL: always enabled */
    const char *symbol; /* a function that only this library has */
    const char *files[FILES];
};

/* The libraries that this build can use. */
static const bool built[KVC_LIBRARIES] = {
#if defined(KVC_OPENBLAS)
    [KVC_LIBRARY_OPENBLAS] = true,
#endif
#if defined(KVC_OPENCL)
    [KVC_LIBRARY_OPENCL] = true,   [KVC_LIBRARY_CLBLAST] = true,
#endif
#if defined(KVC_CUDA)
    [KVC_LIBRARY_CUDA] = true,     [KVC_LIBRARY_CUBLAS] = true,
#endif
#if defined(KVC_NCCL)
    [KVC_LIBRARY_NCCL] = true,
#endif
    [KVC_LIBRARY_OPENMPI] = true, /* tools/mpi_plugin.sh may add a plug-in later */
    [KVC_LIBRARY_MPICH] = true,
};

/* A file name that begins with kvcull- is an MPI plug-in; plugin_path says where it can be. */
static const struct library libraries[KVC_LIBRARIES] = {
    [KVC_LIBRARY_OPENBLAS] =
        {"OpenBLAS", "--math fast on cpu", "--with-openblas", "openblas_set_num_threads", {"libopenblas.so.0"}},
    [KVC_LIBRARY_OPENCL] = {"OpenCL", "the opencl backend", "--with-opencl", "clGetPlatformIDs", {"libOpenCL.so.1"}},
    [KVC_LIBRARY_CLBLAST] = {"CLBlast", "--math fast on opencl", "--with-opencl", "CLBlastSgemm", {"libclblast.so.1"}},
    [KVC_LIBRARY_CUDA] = {"CUDA driver", "the cuda backend", "--with-cuda", "cuInit", {"libcuda.so.1"}},
    [KVC_LIBRARY_CUBLAS] = {"cuBLAS",
                            "--math fast on cuda",
                            "--with-cuda",
                            "cublasCreate_v2",
                            {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}},
    [KVC_LIBRARY_NCCL] =
        {"NCCL", "rows between CUDA devices", "--with-cuda, --with-nccl", "ncclGetUniqueId", {"libnccl.so.2"}},
    [KVC_LIBRARY_OPENMPI] = {"Open MPI", "--ranks", NULL, "MPI_Get_library_version", {"kvcull-mpi-openmpi.so"}},
    [KVC_LIBRARY_MPICH] = {"MPICH", "--ranks", NULL, "MPI_Get_library_version", {"kvcull-mpi-mpich.so"}},
};

static bool is_plugin(const char *file) { return strncmp(file, "kvcull-", 7) == 0; }

/* Writes the i-th path to try for a plug-in. Returns false past the last one. The paths are relative to the folder of
 * libkvcull or, if it is linked statically, of the program: kvcull (installed library), ../lib/kvcull (installed
 * program) and . (build folder). */
static bool plugin_path(size_t i, const char *file, char path[PATH_BYTES]) {
    static const char *const folders[] = {"/kvcull", "/../lib/kvcull", ""};
    const char *chosen = getenv("KVCULL_PLUGINS");
    if (chosen)
        return i == 0 && snprintf(path, PATH_BYTES, "%s/%s", chosen, file) < PATH_BYTES;
    Dl_info own;
    if (i >= sizeof folders / sizeof *folders || dladdr(libraries, &own) == 0 || !own.dli_fname)
        return false;
    const char *slash = strrchr(own.dli_fname, '/');
    return slash && snprintf(path, PATH_BYTES, "%.*s%s/%s", (int)(slash - own.dli_fname), own.dli_fname, folders[i],
                             file) < PATH_BYTES;
}

/* Opens a library or a plug-in. A plug-in is opened with RTLD_GLOBAL, because components of older versions of Open MPI
 * need to see MPI's symbols. */
static void *open_file(const char *file) {
    char path[PATH_BYTES];
    if (!is_plugin(file))
        return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; plugin_path(i, file, path); i++)
        if (access(path, R_OK) == 0)
            return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return NULL;
}

/* Returns a handle of the whole process if the process already contains the library, otherwise NULL. */
static void *open_process(const struct library *library) {
    void *process = dlopen(NULL, RTLD_NOW);
    if (process && !is_plugin(library->files[0]) && dlsym(process, library->symbol))
        return process;
    if (process)
        dlclose(process);
    return NULL;
}

void *kvc_library_open(enum kvc_library_id id, char *why, size_t capacity) {
    const struct library *library = &libraries[id];
    void *handle = open_process(library);
    for (size_t i = 0; !handle && i < FILES && library->files[i]; i++) {
        (void)dlerror(); /* forgets earlier errors */
        handle = open_file(library->files[i]);
        const char *error = dlerror();
        if (!handle && i == 0) /* reports the error for the first name, the newest version */
            snprintf(why, capacity, "%s", error ? error : "its plug-in is in no folder of plug-ins (KVCULL_PLUGINS)");
    }
    return handle;
}

bool kvc_library_find(void *handle, const char *name, void *function) {
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from an object pointer to a function pointer */
    return address != NULL;
}

bool kvc_library(size_t i, struct kvc_library_info *info) {
    if (i >= KVC_LIBRARIES)
        return false;
    const struct library *library = &libraries[i];
    *info = (struct kvc_library_info){.name = library->name, .use = library->use};
    if (!built[i]) {
        snprintf(info->detail, sizeof info->detail, "not in this build; see %s", library->option);
        return true;
    }
    void *handle = kvc_library_open((enum kvc_library_id)i, info->detail, sizeof info->detail);
    Dl_info where;
    info->found = handle != NULL;
    if (handle && dladdr(dlsym(handle, library->symbol), &where) != 0 && where.dli_fname)
        snprintf(info->detail, sizeof info->detail, "%s", where.dli_fname);
    return true;
}
