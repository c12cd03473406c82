/* archive.h - numbers and bytes that are written section by section and read again in the same order. The same function
 * writes and reads a state. All numbers are little-endian. Reading is checked against the end of the section, and the
 * first failure is kept. */
#ifndef KVC_CORE_ENGINE_ARCHIVE_H
#define KVC_CORE_ENGINE_ARCHIVE_H

#include "kvcull.h"

struct kvc_session;

/* Section types; files store these numbers. */
enum kvc_section {
    KVC_SECTION_IDENTITY = 1, /* data that must be equal in the loading session */
    KVC_SECTION_SESSION,
    KVC_SECTION_METHOD,    /* index: the method's index in the policy */
    KVC_SECTION_LAYER,     /* index: the layer's index */
    KVC_SECTION_LIST,      /* index: the list's index among all lists */
    KVC_SECTION_RECURRENT, /* state of delta nets */
    KVC_SECTION_CENTRES,   /* the centres that are subtracted from keys */
    KVC_SECTION_BESIDE,    /* data of the caller */
    KVC_SECTION_END
};

struct kvc_archive {
    bool reads;
    struct kvc_error *error;
    enum kvc_status status; /* status of the first failure */
    /* The current section or, if store and fetch are NULL, all sections one after another. */
    unsigned char *bytes;
    size_t count, capacity;
    size_t at;         /* reading: offset of the next byte */
    uint64_t left;     /* reading from a file: bytes of the file after this section */
    uint64_t promised; /* bytes that must follow in the file for the lists whose counts were read */
    /* `store` is called at the end of a written section, `fetch` before a section is read. */
    enum kvc_status (*store)(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
    enum kvc_status (*fetch)(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
    void *user;
    /* not NULL: device data are copied from this session and are not in the archive */
    const struct kvc_session *from;
};

void kvc_archive_free(struct kvc_archive *archive); /* frees its bytes */
/* Records a failure and its message, unless an earlier one is recorded. */
void kvc_archive_fail(struct kvc_archive *archive, enum kvc_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
static inline bool kvc_archive_fine(const struct kvc_archive *archive) { return archive->status == KVC_OK; }

void kvc_archive_begin(struct kvc_archive *archive, enum kvc_section section, uint32_t index);
void kvc_archive_end(struct kvc_archive *archive, enum kvc_section section, uint32_t index);

/* Returns the address of the section's next `bytes` bytes, to be written or read. Returns NULL if this call or an
 * earlier one has failed. */
unsigned char *kvc_archive_place(struct kvc_archive *archive, size_t bytes);
void kvc_archive_bytes(struct kvc_archive *archive, void *bytes, size_t count);
void kvc_archive_u64(struct kvc_archive *archive, uint64_t *number);
void kvc_archive_u32(struct kvc_archive *archive, uint32_t *number);
void kvc_archive_bool(struct kvc_archive *archive, bool *truth);
/* Writes or reads a number of at most `most`. `what` names it in the error. */
void kvc_archive_limited(struct kvc_archive *archive, uint64_t *number, uint64_t most, const char *what);
/* Writes or reads a count and as many bytes. Reading allocates the text with malloc and adds a NUL that is not
 * counted. */
void kvc_archive_text(struct kvc_archive *archive, char **text, size_t *bytes);

#endif
