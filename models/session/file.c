/* file.c - the file of a saved session, divided into sections. The file begins with a magic number and the
 * format's version. Each section has its kind, index, length and a hash. The hash is XXH64 of these fields, of the
 * section's bytes and of everything in front of it, so that a section of another file does not fit. The last section is
 * empty and ends the file. libc only. */
#include "models/session/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/assert.h"
#include "core/base/bytes_hash.h"
#include "models/files/output.h"

enum { FORMAT_VERSION = 4 };

static const char mark[8] = "KVCsaved";

struct file_start {
    char mark[8];
    uint32_t version, zero;
};
struct section_start {
    uint32_t section, index;
    uint64_t bytes, hash;
};
_Static_assert(sizeof(struct file_start) == 16 && sizeof(struct section_start) == 24, "as they lie in the file");

/* `before` is the hash of the previous section, or of the file's start. */
static uint64_t hash_of(uint64_t before, const struct section_start *start, const void *bytes) {
    const uint64_t seed = kvc_bytes_hash(before, start, offsetof(struct section_start, hash));
    return start->bytes ? kvc_bytes_hash(seed, bytes, (size_t)start->bytes) : seed;
}

/* ---- writing ---- */

static enum kvc_status session_file_store(struct kvc_archive *archive, enum kvc_section section, uint32_t index) {
    struct kvc_session_file *file = archive->user;
    struct section_start start = {(uint32_t)section, index, archive->count, 0};
    start.hash = file->hash = hash_of(file->hash, &start, archive->bytes);
    enum kvc_status status = kvc_output_write(file->output, file->offset, &start, sizeof start, archive->error);
    file->offset += sizeof start;
    if (status == KVC_OK && archive->count)
        status = kvc_output_write(file->output, file->offset, archive->bytes, archive->count, archive->error);
    file->offset += archive->count;
    file->named = status != KVC_OK;
    return status;
}

/* Checks that an existing file may be replaced: it must be a saved session or empty. */
static enum kvc_status check_replaced(const char *path, struct kvc_error *error) {
    char there[sizeof mark];
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return KVC_OK; /* kvc_output_open reports errors for other kinds of files */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t bytes = descriptor < 0 ? -1 : read(descriptor, there, sizeof there);
    if (descriptor >= 0)
        close(descriptor);
    if (bytes == (ssize_t)sizeof mark && memcmp(there, mark, sizeof mark) == 0)
        return KVC_OK;
    return kvc_fail(error, KVC_INPUT, "%s: is not a saved session and is not replaced by one; give another name", path);
}

enum kvc_status kvc_session_save_check(const char *path, struct kvc_error *error) {
    struct kvc_output *output = NULL;
    enum kvc_status status = check_replaced(path, error);
    if (status == KVC_OK)
        status = kvc_output_open(path, 0, &output, error);
    kvc_output_abandon(output);
    return status;
}

enum kvc_status kvc_session_file_create(const char *path, struct kvc_session_file *file, struct kvc_error *error) {
    struct file_start start = {.version = FORMAT_VERSION};
    *file = (struct kvc_session_file){.path = path, .descriptor = -1, .offset = sizeof start};
    file->archive = (struct kvc_archive){.error = &file->cause, .store = session_file_store, .user = file};
    memcpy(start.mark, mark, sizeof mark);
    file->hash = kvc_bytes_hash(0, &start, sizeof start);
    enum kvc_status status = check_replaced(path, error);
    if (status == KVC_OK)
        status = kvc_output_open(path, 0, &file->output, error);
    if (status == KVC_OK) {
        kvc_output_private(file->output); /* the file reveals the conversation */
        status = kvc_output_write(file->output, 0, &start, sizeof start, error);
    }
    if (status != KVC_OK)
        kvc_output_abandon(file->output);
    return status;
}

/* ---- reading ---- */

/* Reads the next bytes of the file. */
static enum kvc_status session_file_take(struct kvc_session_file *file, void *to, uint64_t bytes) {
    unsigned char *at = to;
    KVC_ASSERT(file->offset <= file->bytes);
    if (bytes > file->bytes - file->offset)
        return kvc_fail(&file->cause, KVC_INPUT, "it ends too early: %" PRIu64 " bytes are wanted from %" PRIu64 " on",
                        bytes, file->offset);
    while (bytes > 0) {
        const size_t some = bytes < (1u << 30) ? (size_t)bytes : 1u << 30;
        const ssize_t done = pread(file->descriptor, at, some, (off_t)file->offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return kvc_fail(&file->cause, KVC_INPUT, "it cannot be read: %s",
                            done < 0 ? strerror(errno) : "it has become shorter");
        at += done;
        bytes -= (uint64_t)done;
        file->offset += (uint64_t)done;
    }
    return KVC_OK;
}

static enum kvc_status fetch(struct kvc_archive *archive, enum kvc_section section, uint32_t index) {
    struct kvc_session_file *file = archive->user;
    const uint64_t offset = file->offset, before = file->hash;
    struct section_start start;
    enum kvc_status status = session_file_take(file, &start, sizeof start);
    if (status != KVC_OK)
        return status;
    if (start.section != (uint32_t)section || start.index != index)
        return kvc_fail(&file->cause, KVC_INPUT, "section %u.%u is at byte %" PRIu64 ", where %u.%u should be",
                        start.section, start.index, offset, (unsigned)section, index);
    if (start.bytes > file->bytes - file->offset)
        return kvc_fail(&file->cause, KVC_INPUT,
                        "it ends too early: section %u.%u at byte %" PRIu64 " has %" PRIu64 " bytes", start.section,
                        index, offset, start.bytes);
    if (start.bytes > archive->capacity) {
        unsigned char *grown = realloc(archive->bytes, (size_t)start.bytes);
        if (!grown)
            return kvc_fail(&file->cause, KVC_RESOURCE, "no memory for %" PRIu64 " bytes", start.bytes);
        archive->bytes = grown;
        archive->capacity = (size_t)start.bytes;
    }
    archive->count = (size_t)start.bytes;
    KVC_ASSERT(archive->count <= archive->capacity);
    archive->at = 0;
    status = session_file_take(file, archive->bytes, start.bytes);
    archive->left = file->bytes - file->offset;
    file->hash = start.hash;
    if (status == KVC_OK && hash_of(before, &start, archive->bytes) != start.hash)
        status = kvc_fail(&file->cause, KVC_INPUT,
                          "it is damaged, or has parts of another file: section %u.%u at byte %" PRIu64
                          " has another checksum",
                          start.section, index, offset);
    return status;
}

static enum kvc_status open_file(struct kvc_session_file *file) {
    struct file_start start;
    struct stat about;
    file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a named pipe must not block */
    if (file->descriptor < 0 || fstat(file->descriptor, &about) != 0)
        return kvc_fail(&file->cause, KVC_INPUT, "it cannot be read: %s", strerror(errno));
    if (!S_ISREG(about.st_mode))
        return kvc_fail(&file->cause, KVC_INPUT, "it is not a regular file");
    file->bytes = (uint64_t)about.st_size;
    if (file->bytes < sizeof start)
        return kvc_fail(&file->cause, KVC_INPUT, "it is not a saved session");
    const enum kvc_status status = session_file_take(file, &start, sizeof start);
    if (status != KVC_OK)
        return status;
    if (memcmp(start.mark, mark, sizeof mark) != 0)
        return kvc_fail(&file->cause, KVC_INPUT, "it is not a saved session");
    if (start.version != FORMAT_VERSION || start.zero != 0)
        return kvc_fail(&file->cause, KVC_INPUT, "it is of version %u.%u; this program reads version %d.0%s",
                        start.version, start.zero, FORMAT_VERSION,
                        start.version < FORMAT_VERSION ? "; give the model its text again and save that" : "");
    file->hash = kvc_bytes_hash(0, &start, sizeof start);
    return KVC_OK;
}

enum kvc_status kvc_session_file_open(const char *path, struct kvc_session_file *file, struct kvc_error *error) {
    *file = (struct kvc_session_file){.path = path, .descriptor = -1};
    file->archive = (struct kvc_archive){.reads = true, .error = &file->cause, .fetch = fetch, .user = file};
    const enum kvc_status status = open_file(file);
    if (status == KVC_OK)
        return KVC_OK;
    if (file->descriptor >= 0)
        close(file->descriptor);
    return kvc_fail(error, status, "%s: %s", path, file->cause.text);
}

/* ---- closing ---- */

enum kvc_status kvc_session_file_close(struct kvc_session_file *file, struct kvc_error *error) {
    struct kvc_archive *archive = &file->archive;
    kvc_archive_begin(archive, KVC_SECTION_END, 0);
    kvc_archive_end(archive, KVC_SECTION_END, 0);
    if (archive->reads && kvc_archive_fine(archive) && file->offset != file->bytes)
        kvc_archive_fail(archive, KVC_INPUT, "%" PRIu64 " bytes follow its end", file->bytes - file->offset);
    kvc_archive_free(archive);
    if (file->descriptor >= 0)
        close(file->descriptor);
    if (archive->status != KVC_OK) {
        kvc_output_abandon(file->output);
        return kvc_fail(error, archive->status, "%s%s%s", file->named ? "" : file->path, file->named ? "" : ": ",
                        file->cause.text);
    }
    return file->output ? kvc_output_commit(file->output, error) : KVC_OK;
}
