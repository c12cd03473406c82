/* program.c - compiles the kernels, or loads them from the user's cache of binaries.
 *
 * The name of a cached file contains a hash of the device, its driver, the options and the source. The file begins with
 * that hash and a hash of its contents. It is written under another name and then renamed, so that it is never
 * incomplete under its own name. If a file cannot be read, is incomplete or does not load, it is replaced. If no folder
 * is writable, nothing is cached. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "backends/opencl/opencl.h"

#define KVC_PATH_BYTES 4096

struct header {
    uint64_t key, check, bytes;
};

static bool is_pocl(const struct kvc_opencl *opencl) {
    return strcmp(opencl->found.platform_name, "Portable Computing Language") == 0;
}

static uint64_t cache_key(const struct kvc_opencl *opencl, const char *options) {
    const char *const texts[] = {opencl->found.name, opencl->found.platform_name, opencl->found.driver, options};
    XXH64_state_t state;
    XXH64_reset(&state, 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        XXH64_update(&state, texts[i], strlen(texts[i]) + 1);
    for (size_t i = 0; i < kvc_opencl_source_count; i++)
        XXH64_update(&state, kvc_opencl_source[i], strlen(kvc_opencl_source[i]));
    return XXH64_digest(&state);
}

/* Writes the path of the cache folder and creates the folder if it is missing. Returns false if there is no such
 * folder. */
static bool cache_folder(char *path, size_t capacity) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (xdg && xdg[0] == '/')
        length = snprintf(path, capacity, "%s", xdg);
    else if (home && home[0] == '/')
        length = snprintf(path, capacity, "%s/.cache", home);
    else
        return false;
    if (length < 0 || (size_t)length + 64 >= capacity)
        return false;
    mkdir(path, 0700);
    strcat(path, "/kvcull");
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Returns the binary of a cached file (to be freed with free), or NULL if there is no complete one. */
static unsigned char *read_cached(const char *path, uint64_t key, size_t *bytes) {
    struct stat about;
    /* excludes pipes, which would block */
    FILE *file = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb") : NULL;
    struct header header;
    unsigned char *binary = NULL;
    if (!file)
        return NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && header.key == key && header.bytes > 0 &&
        header.bytes < (uint64_t)1 << 30 && (binary = malloc((size_t)header.bytes)) != NULL) {
        if (fread(binary, 1, (size_t)header.bytes, file) != header.bytes || fgetc(file) != EOF ||
            XXH64(binary, (size_t)header.bytes, 0) != header.check) {
            free(binary);
            binary = NULL;
        }
        *bytes = (size_t)header.bytes;
    }
    fclose(file);
    return binary;
}

static void write_cached(const char *path, uint64_t key, const unsigned char *binary, size_t bytes) {
    struct header header = {key, XXH64(binary, bytes, 0), bytes};
    char temporary[KVC_PATH_BYTES + 128];
    FILE *file;
    bool whole;
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    file = fopen(temporary, "wb");
    if (!file)
        return;
    whole = fwrite(&header, sizeof header, 1, file) == 1 && fwrite(binary, 1, bytes, file) == bytes;
    whole = fclose(file) == 0 && whole;
    if (!whole || rename(temporary, path) != 0)
        unlink(temporary);
}

/* Writes the compiler's log to a file and returns an error that names the file. */
static enum kvc_status failed(struct kvc_opencl *opencl, cl_int code, const char *folder, struct kvc_error *error) {
    char path[KVC_PATH_BYTES + 64], *log = NULL;
    const char *temporary = getenv("TMPDIR");
    size_t bytes = 0;
    FILE *file = NULL;
    if (folder[0])
        snprintf(path, sizeof path, "%s/opencl-build.log", folder);
    else /* this folder is shared with other users, so only a new file is written */
        snprintf(path, sizeof path, "%s/kvcull-%ld-opencl-build.log", temporary ? temporary : "/tmp", (long)getpid());
    if (opencl->program &&
        opencl->cl.clGetProgramBuildInfo(opencl->program, opencl->found.id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 0 && (log = malloc(bytes)) != NULL &&
        opencl->cl.clGetProgramBuildInfo(opencl->program, opencl->found.id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) ==
            CL_SUCCESS)
        file = fopen(path, folder[0] ? "w" : "wx");
    if (file) {
        fwrite(log, 1, strnlen(log, bytes), file);
        fclose(file);
    }
    free(log);
    if (file)
        return kvc_fail(error, KVC_RESOURCE, "opencl: the kernels do not compile for %s (error %d); the log is %s",
                        opencl->found.name, (int)code, path);
    return kvc_fail(error, KVC_RESOURCE, "opencl: the kernels do not compile for %s (error %d)", opencl->found.name,
                    (int)code);
}

static bool program_load(struct kvc_opencl *opencl, const char *path, uint64_t key, const char *options) {
    size_t bytes = 0;
    unsigned char *binary = read_cached(path, key, &bytes);
    const unsigned char *binaries[1] = {binary};
    cl_int code = CL_INVALID_BINARY, one;
    if (!binary)
        return false;
    opencl->program =
        opencl->cl.clCreateProgramWithBinary(opencl->context, 1, &opencl->found.id, &bytes, binaries, &one, &code);
    if (code == CL_SUCCESS)
        code = opencl->cl.clBuildProgram(opencl->program, 1, &opencl->found.id, options, NULL, NULL);
    if (code != CL_SUCCESS && opencl->program) {
        opencl->cl.clReleaseProgram(opencl->program);
        opencl->program = NULL;
    }
    free(binary);
    return code == CL_SUCCESS;
}

static void program_store(struct kvc_opencl *opencl, const char *path, uint64_t key) {
    size_t bytes = 0;
    unsigned char *binary = NULL, *binaries[1];
    if (opencl->cl.clGetProgramInfo(opencl->program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0 || (binary = malloc(bytes)) == NULL)
        return;
    binaries[0] = binary;
    if (opencl->cl.clGetProgramInfo(opencl->program, CL_PROGRAM_BINARIES, sizeof binaries, binaries, NULL) ==
        CL_SUCCESS)
        write_cached(path, key, binary, bytes);
    free(binary);
}

/* Compiles the program. PoCL's clang prints its number of errors on stderr, in addition to the log, unless an option
 * turns off its carets. PoCL rejects that option, but does not notice it if a tab instead of a space separates it from
 * the previous option. If PoCL rejects the option even so, the kernels are built without it. */
static cl_int compile(struct kvc_opencl *opencl, const char *options) {
    char quiet[512];
    cl_int code = CL_INVALID_BUILD_OPTIONS;
    if (is_pocl(opencl) &&
        (size_t)snprintf(quiet, sizeof quiet, "%s -DKVC_LOG_ONLY=1\t-fno-caret-diagnostics", options) < sizeof quiet)
        code = opencl->cl.clBuildProgram(opencl->program, 1, &opencl->found.id, quiet, NULL, NULL);
    if (code == CL_INVALID_BUILD_OPTIONS)
        code = opencl->cl.clBuildProgram(opencl->program, 1, &opencl->found.id, options, NULL, NULL);
    return code;
}

enum kvc_status kvc_opencl_build(struct kvc_opencl *opencl, const char *options, struct kvc_error *error) {
    static const char *const names[] = {
#define KVC_KERNEL_NAMED(name) "kvc_k_" #name,
#include "backends/offload/kernels.def"
    };
    char folder[KVC_PATH_BYTES] = "", path[KVC_PATH_BYTES + 64] = "";
    const uint64_t key = cache_key(opencl, options);
    cl_int code = CL_SUCCESS;
    /* PoCL caches compiled kernels itself, and is slow to return a binary. */
    const char *forced = getenv("KVCULL_OPENCL_CACHE");
    const bool caches = !is_pocl(opencl) || forced;
    kvc_opencl_release_kernels(opencl);
    if (!cache_folder(folder, sizeof folder))
        folder[0] = '\0';
    if (folder[0] && caches)
        snprintf(path, sizeof path, "%s/opencl-%016llx.bin", folder, (unsigned long long)key);
    if (!path[0] || !program_load(opencl, path, key, options)) {
        /* Casts are needed because the C API declares inputs without const. */
        opencl->program =
            opencl->cl.clCreateProgramWithSource(opencl->context, (cl_uint)kvc_opencl_source_count,
                                                 (const char **)(uintptr_t)kvc_opencl_source, NULL, &code);
        if (code == CL_SUCCESS)
            code = compile(opencl, options);
        if (code != CL_SUCCESS)
            return failed(opencl, code, folder, error);
        if (path[0])
            program_store(opencl, path, key);
    }
    for (int i = 0; i < KVC_KERNELS; i++) {
        opencl->kernel[i] = opencl->cl.clCreateKernel(opencl->program, names[i], &code);
        if (code != CL_SUCCESS)
            return kvc_fail(error, KVC_RESOURCE, "opencl: no kernel %s for %s (error %d)", names[i], opencl->found.name,
                            (int)code);
    }
    return KVC_OK;
}
