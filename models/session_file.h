/* session_file.h - the file of a saved session: sections with checksums, in the order in which they were written. */
#ifndef KVC_MODELS_SESSION_FILE_H
#define KVC_MODELS_SESSION_FILE_H

#include "core/engine/archive.h"
#include "core/engine/session.h"
#include "models/model.h"
#include "kvcull/saved.h"

/* An archive whose sections go to a file, which appears under its name when it is complete, or come from one. */
struct kvc_session_file {
    struct kvc_archive archive;
    const char *path;
    struct kvc_error cause; /* of the archive */
    bool named;             /* it begins with the file's name */
    uint64_t offset;        /* of what comes next */
    uint64_t hash;          /* of what comes before it */
    struct kvc_output *output;
    int descriptor;
    uint64_t bytes; /* of the file that is read */
};
enum kvc_status kvc_session_file_create(const char *path, struct kvc_session_file *file, struct kvc_error *error);
enum kvc_status kvc_session_file_open(const char *path, struct kvc_session_file *file, struct kvc_error *error);
/* After the last section. The file is there, or was read to its end: KVC_OK. Otherwise error says what is wrong with
 * it, and a file that was there before is as it was. */
enum kvc_status kvc_session_file_close(struct kvc_session_file *file, struct kvc_error *error);

/* What must be the same where a session goes on, and how it was opened: the first section (session_identity.c). */
struct kvc_session_identity {
    char *policy; /* as it was given; malloc'ed */
    char *type;   /* of the cache's entries, malloc'ed */
};
void kvc_session_identity_free(struct kvc_session_identity *identity);
void kvc_session_identity_write(struct kvc_archive *archive, struct kvc_model *model,
                                const struct kvc_session *session);
/* First how to open a session; then, of one that was opened so, whether everything is the same. */
void kvc_session_identity_read(struct kvc_archive *archive, struct kvc_session_identity *identity);
void kvc_session_identity_compare(struct kvc_archive *archive, struct kvc_model *model,
                                  const struct kvc_session *session);

/* What the caller keeps beside the session (session_beside.c). */
void kvc_session_beside_write(struct kvc_archive *archive, uint32_t vocab, const struct kvc_saved *saved);
void kvc_session_beside_read(struct kvc_archive *archive, uint32_t vocab, struct kvc_saved *saved);

#endif
