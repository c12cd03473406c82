/* archive.h - numbers and bytes that are written, section by section, and read again in the same order: one function
 * that passes over a state serves both ways. All numbers are little-endian; what is read is checked against the
 * section's end, and the first failure stays. */
#ifndef KVC_CORE_ENGINE_ARCHIVE_H
#define KVC_CORE_ENGINE_ARCHIVE_H

#include "kvcull.h"

struct kvc_session;

/* What sections hold; the numbers stand in files. */
enum kvc_section {
    KVC_SECTION_IDENTITY = 1, /* what must be the same where it is loaded */
    KVC_SECTION_SESSION,
    KVC_SECTION_METHOD,    /* index: of the policy's methods */
    KVC_SECTION_LAYER,     /* index: of the layers */
    KVC_SECTION_LIST,      /* index: of all lists */
    KVC_SECTION_RECURRENT, /* of delta nets */
    KVC_SECTION_BESIDE,    /* the caller's */
    KVC_SECTION_END
};

struct kvc_archive {
    bool reads;
    struct kvc_error *error;
    enum kvc_status status; /* of the first failure */
    /* The section under way; where store and fetch are NULL, all of them one after another. */
    unsigned char *bytes;
    size_t count, capacity;
    size_t at;         /* reading: what comes next */
    uint64_t left;     /* reading from a file: bytes of it after the section, */
    uint64_t promised; /* and how many of them what was read so far says that there are */
    /* At the end of a section that was written, and at the beginning of one that is to be read. */
    enum kvc_status (*store)(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
    enum kvc_status (*fetch)(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
    void *user;
    const struct kvc_session
        *from; /* not NULL: what lies on the device is not in the archive but copied from this one */
};

void kvc_archive_free(struct kvc_archive *archive); /* its bytes */
/* Keeps the first failure: error says what and why. */
void kvc_archive_fail(struct kvc_archive *archive, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
static inline bool kvc_archive_fine(const struct kvc_archive *archive) { return archive->status == KVC_OK; }

void kvc_archive_begin(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
void kvc_archive_end(struct kvc_archive *archive, enum kvc_section section, uint32_t index);

/* The next `bytes` of the section: where they are to be written to, or lie. NULL after a failure, which may be this. */
unsigned char *kvc_archive_place(struct kvc_archive *archive, size_t bytes);
void kvc_archive_bytes(struct kvc_archive *archive, void *bytes, size_t count);
void kvc_archive_u64(struct kvc_archive *archive, uint64_t *number);
void kvc_archive_u32(struct kvc_archive *archive, uint32_t *number);
void kvc_archive_bool(struct kvc_archive *archive, bool *truth);
/* A number that is at most `most`; what: it, for the error. */
void kvc_archive_limited(struct kvc_archive *archive, uint64_t *number, uint64_t most, const char *what);
/* A count and so many bytes. Reading: malloc'ed, with a NUL behind them that is not counted. */
void kvc_archive_text(struct kvc_archive *archive, char **text, size_t *bytes);

#endif
