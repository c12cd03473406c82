/* archive.c - writes numbers and bytes to the sections of an archive in memory, and reads them. */
#include "core/engine/archive.h"

#include "core/base/assert.h"
#include "core/base/integers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kvc_archive_free(struct kvc_archive *archive) {
    free(archive->bytes);
    archive->bytes = NULL;
    archive->count = archive->capacity = archive->at = 0;
}

void kvc_archive_fail(struct kvc_archive *archive, enum kvc_status status, const char *format, ...) {
    char text[300];
    va_list arguments;
    if (!kvc_archive_fine(archive))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    archive->status = kvc_fail(archive->error, status, "%s", text);
}

void kvc_archive_begin(struct kvc_archive *archive, enum kvc_section section, uint32_t index) {
    if (!kvc_archive_fine(archive))
        return;
    if (!archive->reads && archive->store)
        archive->count = 0;
    if (archive->reads && archive->fetch)
        archive->status = archive->fetch(archive, section, index);
    KVC_ASSERT(!archive->reads || archive->at <= archive->count);
}

void kvc_archive_end(struct kvc_archive *archive, enum kvc_section section, uint32_t index) {
    if (!kvc_archive_fine(archive))
        return;
    if (archive->reads && archive->fetch && archive->at != archive->count)
        kvc_archive_fail(archive, KVC_INPUT, "section %u.%u has %zu bytes too many", (unsigned)section, index,
                         archive->count - archive->at);
    if (!archive->reads && archive->store)
        archive->status = archive->store(archive, section, index);
}

unsigned char *kvc_archive_place(struct kvc_archive *archive, size_t bytes) {
    if (!kvc_archive_fine(archive))
        return NULL;
    KVC_ASSERT(archive->at <= archive->count);
    if (archive->reads) {
        unsigned char *place = archive->bytes + archive->at;
        if (bytes > archive->count - archive->at) {
            kvc_archive_fail(archive, KVC_INPUT, "a section has %zu bytes, and %zu more are wanted", archive->count,
                             bytes - (archive->count - archive->at));
            return NULL;
        }
        archive->at += bytes;
        return place;
    }
    if (bytes > archive->capacity - archive->count) {
        const uint64_t capacity = kvc_max_u64(2 * (uint64_t)archive->capacity, archive->count + (uint64_t)bytes + 4096);
        unsigned char *grown = capacity > PTRDIFF_MAX ? NULL : realloc(archive->bytes, (size_t)capacity);
        if (!grown) {
            kvc_archive_fail(archive, KVC_RESOURCE, "no memory for %llu bytes", (unsigned long long)capacity);
            return NULL;
        }
        archive->bytes = grown;
        archive->capacity = (size_t)capacity;
    }
    archive->count += bytes;
    KVC_ASSERT(archive->count <= archive->capacity);
    return archive->bytes + archive->count - bytes;
}

void kvc_archive_bytes(struct kvc_archive *archive, void *bytes, size_t count) {
    unsigned char *place = count ? kvc_archive_place(archive, count) : NULL;
    if (place && archive->reads)
        memcpy(bytes, place, count);
    else if (place)
        memcpy(place, bytes, count);
}

/* all supported machines are little-endian (core/base/lists.h) */
void kvc_archive_u64(struct kvc_archive *archive, uint64_t *number) {
    kvc_archive_bytes(archive, number, sizeof *number);
}

void kvc_archive_u32(struct kvc_archive *archive, uint32_t *number) {
    kvc_archive_bytes(archive, number, sizeof *number);
}

void kvc_archive_bool(struct kvc_archive *archive, bool *truth) {
    uint32_t number = *truth;
    kvc_archive_u32(archive, &number);
    if (number > 1)
        kvc_archive_fail(archive, KVC_INPUT, "%u was read: must be 0 or 1", number);
    *truth = number == 1;
    KVC_ASSERT(archive->reads || number <= 1);
}

void kvc_archive_limited(struct kvc_archive *archive, uint64_t *number, uint64_t most, const char *what) {
    kvc_archive_u64(archive, number);
    if (archive->reads && *number > most)
        kvc_archive_fail(archive, KVC_INPUT, "%s: %llu: must be at most %llu", what, (unsigned long long)*number,
                         (unsigned long long)most);
}

void kvc_archive_text(struct kvc_archive *archive, char **text, size_t *bytes) {
    uint64_t count = *bytes;
    kvc_archive_u64(archive, &count);
    if (!archive->reads) {
        kvc_archive_bytes(archive, *text, (size_t)count);
        return;
    }
    *text = NULL;
    *bytes = 0;
    const unsigned char *place = kvc_archive_place(archive, (size_t)count);
    if (!kvc_archive_fine(archive))
        return;
    *text = malloc((size_t)count + 1);
    if (!*text) {
        kvc_archive_fail(archive, KVC_RESOURCE, "no memory for %llu bytes", (unsigned long long)count);
        return;
    }
    if (count)
        memcpy(*text, place, (size_t)count);
    (*text)[count] = '\0';
    *bytes = (size_t)count;
}
