/* file.h - the file of a saved session: sections with checksums, in the order of writing. core/engine/archive.h writes
 * the numbers of a section, and core/engine/state.h the session's state. This folder adds the file, the identity of the
 * model, and the caller's data. */
#ifndef KVC_MODELS_SESSION_FILE_H
#define KVC_MODELS_SESSION_FILE_H

#include "core/engine/archive.h"
#include "core/engine/session.h"
#include "models/model.h"
#include "kvcull/saved.h"

/* An archive whose sections are written to or read from a file. A written file appears under its name only when it is
 * complete. */
struct kvc_session_file {
    struct kvc_archive archive;
    const char *path;
    struct kvc_error cause; /* first error of the archive */
    bool named;             /* the error already begins with the file's name */
    uint64_t offset;        /* offset of the next section */
    uint64_t hash;          /* hash of everything in front of the next section */
    struct kvc_output *output;
    int descriptor;
    uint64_t bytes; /* size of the file being read */
};
enum kvc_status kvc_session_file_create(const char *path, struct kvc_session_file *file, struct kvc_error *error);
enum kvc_status kvc_session_file_open(const char *path, struct kvc_session_file *file, struct kvc_error *error);
/* Call it after the last section. Returns KVC_OK if the file has been completed, or was read to its end. Otherwise the
 * error says what is wrong, and an existing file is left unchanged. */
enum kvc_status kvc_session_file_close(struct kvc_session_file *file, struct kvc_error *error);

/* The first section: properties that must match before a saved session can continue, and how the session was opened
 * (identity.c). */
struct kvc_session_identity {
    char *policy; /* as given by the caller; allocated */
    char *type;   /* type of the cache's entries; allocated */
};
void kvc_session_identity_free(struct kvc_session_identity *identity);
void kvc_session_identity_write(struct kvc_archive *archive, struct kvc_model *model,
                                const struct kvc_session *session);
/* kvc_session_identity_read returns how to open the session. kvc_session_identity_compare checks the properties of the
 * opened session. */
void kvc_session_identity_read(struct kvc_archive *archive, struct kvc_session_identity *identity);
void kvc_session_identity_compare(struct kvc_archive *archive, struct kvc_model *model,
                                  const struct kvc_session *session);

/* The caller's data in a saved session (beside.c). */
void kvc_session_beside_write(struct kvc_archive *archive, uint32_t vocab, const struct kvc_saved *saved);
void kvc_session_beside_read(struct kvc_archive *archive, uint32_t vocab, struct kvc_saved *saved);

#endif
