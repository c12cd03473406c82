/* option_file.c - reads a text file that an option names, for the methods that need one. */
#include "policies/policies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum kvc_status kvc_read_option_file(const char *policy, const char *option, const char *path, uint32_t most,
                                     char **text, struct kvc_error *error) {
    struct stat about;
    *text = NULL;
    if (stat(path, &about) != 0)
        return kvc_fail(error, KVC_INPUT, "policy %s: %s=%.200s: %s", policy, option, path, strerror(errno));
    if (!S_ISREG(about.st_mode) || about.st_size > (off_t)most)
        return kvc_fail(error, KVC_INPUT, "policy %s: %s=%.200s: must be a regular file of at most %u bytes", policy,
                        option, path, most);
    FILE *file = fopen(path, "rb");
    if (!file)
        return kvc_fail(error, KVC_INPUT, "policy %s: %s=%.200s: %s", policy, option, path, strerror(errno));
    enum kvc_status status = KVC_OK;
    const size_t capacity = (size_t)about.st_size;
    *text = malloc(capacity + 1);
    if (!*text)
        status = kvc_fail(error, KVC_RESOURCE, "policy %s: no memory for %zu bytes", policy, capacity + 1);
    const size_t length = *text ? fread(*text, 1, capacity, file) : 0;
    if (*text)
        (*text)[length] = 0;
    if (status == KVC_OK && (ferror(file) || strlen(*text) != length))
        status = kvc_fail(error, KVC_INPUT, "policy %s: %s=%.200s: cannot be read as text", policy, option, path);
    fclose(file);
    return status;
}
