/* gguf_parts.c - opens a GGUF model in several files, NAME-00001-of-00003.gguf and so on. It finds the other parts next
 * to the given one, checks that they belong together and makes one list of their tensors. Each part gives its number,
 * the number of parts and the total number of tensors. The first part has the metadata. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/files/gguf_file.h"
#include "models/files/tensor_index.h"

#define NUMBER "split.no"
#define COUNT "split.count"
#define TENSORS "split.tensors.count"

enum { MOST_PARTS = 65535, DIGITS = 5 };

#define ENDING "-00000-of-00000.gguf" /* the zeros stand for any digits */

struct parts {
    char *path;              /* path of the given part; overwritten with the other parts' paths */
    size_t stem;             /* bytes of the path before the ending */
    struct kvc_gguf **files; /* [count] */
    uint32_t count;
    uint64_t tensors; /* total according to the parts' metadata */
    struct kvc_error *error;
};

/* Returns the number that five characters of a file name give, or 0 if they are not digits. */
static uint32_t digits(const char *text) {
    uint32_t number = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 0;
        }
        number = 10 * number + (uint32_t)(text[i] - '0');
    }
    return number;
}

/* Reads the part's number (from 1) and the number of parts from the name. Returns false if it is not the name of a
 * part. */
static bool read_name(const char *path, size_t *stem, uint32_t *number, uint32_t *count) {
    const size_t bytes = strlen(path);
    if (bytes < sizeof ENDING) { /* there must be a name before the ending */
        return false;
    }
    *stem = bytes - (sizeof ENDING - 1);
    const char *end = path + *stem;
    *number = digits(end + 1);
    *count = digits(end + 10);
    return *number && *count && !memcmp(end, "-", 1) && !memcmp(end + 6, "-of-", 4) && !strcmp(end + 15, ".gguf");
}

enum kvc_status kvc_gguf_check_output(const char *to, struct kvc_error *error) {
    size_t stem;
    uint32_t number, count;
    return read_name(to, &stem, &number, &count) && count > 1
               ? kvc_fail(error, KVC_USAGE,
                          "%s: is the name of one part of a model in several files, but kvcull writes a single file; "
                          "give a name that does not end in -NNNNN-of-NNNNN.gguf",
                          to)
               : KVC_OK;
}

/* Reads the part's number (from 0), the number of parts and of tensors from the file's metadata. */
static enum kvc_status read_keys(const struct kvc_gguf *file, const char *path, uint64_t *number, uint64_t *count,
                                 uint64_t *tensors, struct kvc_error *error) {
    if (!kvc_gguf_uint(file, COUNT, count) || *count > MOST_PARTS) {
        return kvc_fail(error, KVC_INPUT, "%s: " COUNT " is not a whole number of at most %d", path, MOST_PARTS);
    }
    *number = *tensors = 0;
    const bool numbered = kvc_gguf_uint(file, NUMBER, number);
    if (*count > 1 && (!numbered || *number >= *count)) {
        return kvc_fail(error, KVC_INPUT, "%s: " NUMBER " is missing or not below " COUNT ", %" PRIu64, path, *count);
    }
    if (*count > 1 && !kvc_gguf_uint(file, TENSORS, tensors)) {
        return kvc_fail(error, KVC_INPUT, "%s: " TENSORS " is missing or not a whole number", path);
    }
    return KVC_OK;
}

/* Parts other than the first hold tensors only. Each of their keys must describe the part itself, or have the same
 * value as in the first part. */
static enum kvc_status check_metadata(const struct parts *parts, const struct kvc_gguf *file) {
    const char *key;
    enum kvc_gguf_type type;
    for (size_t i = 0; kvc_gguf_key(file, i, &key, &type); i++) {
        const struct kvc_gguf_entry *here = &file->entries[i], *first = kvc_gguf_find(parts->files[0], key);
        if (!strncmp(key, "split.", 6) || !strcmp(key, "general.alignment")) {
            continue;
        }
        if (!first || first->type != type || first->value_bytes != here->value_bytes ||
            memcmp(first->value, here->value, (size_t)here->value_bytes) != 0) {
            return kvc_fail(parts->error, KVC_INPUT,
                            "%s: has the key %.255s, which is missing or different in the first part; metadata "
                            "must be in the first part",
                            parts->path, key);
        }
    }
    return KVC_OK;
}

/* Opens part i, unless it is the given one, and checks its numbers. */
static enum kvc_status open_part(struct parts *parts, uint32_t i) {
    char numbers[sizeof ENDING];
    snprintf(numbers, sizeof numbers, "-%05u-of-%05u.gguf", (i + 1) % 100000, parts->count % 100000);
    memcpy(parts->path + parts->stem, numbers, sizeof numbers);
    enum kvc_status status = parts->files[i] ? KVC_OK : kvc_gguf_open_file(parts->path, &parts->files[i], parts->error);
    uint64_t number = 0, count = 0, tensors = 0;
    if (!status) {
        status = read_keys(parts->files[i], parts->path, &number, &count, &tensors, parts->error);
    }
    if (!status && (number != i || count != parts->count || tensors != parts->tensors)) {
        return kvc_fail(parts->error, KVC_INPUT,
                        "%s: says that it is part %" PRIu64 " of %" PRIu64 " with %" PRIu64 " tensors in all; part "
                        "%u of %u with %" PRIu64 " was expected",
                        parts->path, number + 1, count, tensors, i + 1, parts->count, parts->tensors);
    }
    return status || i == 0 ? status : check_metadata(parts, parts->files[i]);
}

/* Moves the tensors of all parts to the first one. */
static enum kvc_status join_tensors(const struct parts *parts, const char *path) {
    struct kvc_gguf *first = parts->files[0];
    uint64_t total = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        total += parts->files[i]->tensor_count; /* cannot overflow: each below 2^32 */
    }
    if (total != parts->tensors) {
        return kvc_fail(parts->error, KVC_INPUT, "%s: its %u parts have %" PRIu64 " tensors; " TENSORS " says %" PRIu64,
                        path, parts->count, total, parts->tensors);
    }
    struct kvc_file_tensor *tensors = total <= UINT32_MAX ? calloc((size_t)total + 1, sizeof *tensors) : NULL;
    if (!tensors) {
        return kvc_fail(parts->error, KVC_RESOURCE, "%s: no memory for the tensors of %u parts", path, parts->count);
    }
    size_t used = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        struct kvc_gguf *file = parts->files[i];
        memcpy(tensors + used, file->tensors, file->tensor_count * sizeof *tensors);
        used += file->tensor_count;
        file->tensor_count = 0; /* the names now belong to the first part */
    }
    free(first->tensors);
    free(first->tensors_by_name);
    first->tensors = tensors;
    first->tensor_count = used;
    return kvc_tensor_index(path, tensors, used, &first->tensors_by_name, parts->error);
}

static enum kvc_status open_parts(struct parts *parts, const char *path) {
    enum kvc_status status = KVC_OK;
    for (uint32_t i = 0; !status && i < parts->count; i++) {
        status = open_part(parts, i);
    }
    if (!status) {
        status = join_tensors(parts, path);
    }
    if (!status) {
        parts->files[0]->parts = parts->files;
        parts->files[0]->part_count = parts->count;
    }
    return status;
}

/* Opens all parts of a model. `given` is one of them; it is closed on failure. */
static enum kvc_status gguf_parts_join(const char *path, size_t stem, uint32_t number, uint32_t count, uint64_t tensors,
                                       struct kvc_gguf **given, struct kvc_error *error) {
    struct parts parts = {strdup(path), stem, calloc(count, sizeof *parts.files), count, tensors, error};
    enum kvc_status status = KVC_OK;
    if (!parts.path || !parts.files) {
        status = kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    } else {
        parts.files[number] = *given;
        *given = NULL;
        status = open_parts(&parts, path);
    }
    free(parts.path);
    if (status) {
        for (uint32_t i = 0; parts.files && i < count; i++) {
            kvc_gguf_close(parts.files[i]);
        }
        free(parts.files);
        return status;
    }
    *given = parts.files[0];
    return KVC_OK;
}

enum kvc_status kvc_gguf_open(const char *path, struct kvc_gguf **out, struct kvc_error *error) {
    size_t stem = 0;
    uint32_t named_number = 0, named_count = 0;
    uint64_t number = 0, count = 0, tensors = 0;
    *out = NULL;
    struct kvc_gguf *file = NULL;
    enum kvc_status status = kvc_gguf_open_file(path, &file, error);
    if (status) {
        return status;
    }
    const bool named = read_name(path, &stem, &named_number, &named_count);
    if (kvc_gguf_has(file, COUNT)) {
        status = read_keys(file, path, &number, &count, &tensors, error);
    }
    if (!status && count > 1 && (!named || named_number != number + 1 || named_count != count)) {
        status = kvc_fail(error, KVC_INPUT,
                          "%s: says that it is part %" PRIu64 " of %" PRIu64 "; its name must end in "
                          "-%05" PRIu64 "-of-%05" PRIu64 ".gguf, and the other parts must lie beside it",
                          path, number + 1, count, number + 1, count);
    } else if (!status && count <= 1 && named && named_count > 1) {
        status = kvc_fail(error, KVC_INPUT, "%s: its name says part %u of %u, but it has no " COUNT " above 1", path,
                          named_number, named_count);
    } else if (!status && count > 1) {
        status = gguf_parts_join(path, stem, (uint32_t)number, (uint32_t)count, tensors, &file, error);
    }
    if (status) {
        kvc_gguf_close(file);
        return status;
    }
    *out = file;
    return KVC_OK;
}
