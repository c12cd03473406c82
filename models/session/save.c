/* save.c - saves sessions to files and loads them: kvc_session_save and kvc_session_load. */
#include "models/session/file.h"

#include <string.h>

#include "core/engine/coordinator.h"
#include "core/engine/state.h"

/* Returns the model of a session. The runner's network is a member of the model. */
static struct kvc_model *model_of(const struct kvc_session *session) {
    const struct kvc_network *network = session->runner->network;
    return network ? (struct kvc_model *)((uintptr_t)network - offsetof(struct kvc_model, network)) : NULL;
}

static void log_file(const struct kvc_session *session, const char *done, const char *path) {
    KVC_LOG(&session->engine->log, KVC_LOG_INFO, KVC_LOG_CACHE, "session %s %s: %llu tokens, %llu bytes of cache", done,
            path, (unsigned long long)session->tokens,
            (unsigned long long)(session->cache.cache_bytes + session->cache.state_bytes));
}

enum kvc_status kvc_session_save(struct kvc_session *session, const char *path, const struct kvc_saved *saved,
                                 struct kvc_error *error) {
    struct kvc_model *model = model_of(session);
    struct kvc_session_file file;
    enum kvc_status status = kvc_state_check(session, path, error);
    if (status == KVC_OK && session->runner->coordinator->several)
        status = kvc_fail(error, KVC_USAGE, "%s: a session that several processes share cannot be saved", path);
    if (status == KVC_OK && !model)
        status = kvc_fail(error, KVC_USAGE, "%s: a replayed session has no model and cannot be continued", path);
    if (status == KVC_OK)
        status = kvc_session_file_create(path, &file, error);
    if (status != KVC_OK)
        return status;
    kvc_session_identity_write(&file.archive, model, session);
    kvc_state_pass(&file.archive, session);
    kvc_session_beside_write(&file.archive, model->network.vocab, saved);
    status = kvc_session_file_close(&file, error);
    if (status == KVC_OK)
        log_file(session, "saved to", path);
    return status;
}

/* Opens a session. The file supplies the options that the caller leaves open. */
static void open_session(struct kvc_archive *archive, struct kvc_model *model, const struct kvc_session_options *wanted,
                         const struct kvc_session_identity *identity, struct kvc_session **session) {
    struct kvc_session_options options;
    struct kvc_error cause;
    enum kvc_status status = KVC_OK;
    kvc_session_defaults(&options);
    if (wanted)
        options = *wanted;
    if (!options.policy)
        options.policy = identity->policy;
    if ((!wanted || options.cache_type.key == KVC_ANY_TYPE) &&
        !kvc_entry_types_from_name(identity->type, &options.cache_type))
        status = kvc_fail(&cause, KVC_INPUT, "kv-type: there is no type %.20s", identity->type);
    if (status == KVC_OK)
        status = kvc_session_open(model, &options, session, &cause);
    if (status != KVC_OK) /* a usage error means a bad file if the policy comes from it */
        kvc_archive_fail(archive, status == KVC_USAGE && !(wanted && wanted->policy) ? KVC_INPUT : status, "%s",
                         cause.text);
}

enum kvc_status kvc_session_load(struct kvc_model *model, const struct kvc_session_options *options, const char *path,
                                 struct kvc_saved *saved, struct kvc_session **session, struct kvc_error *error) {
    struct kvc_session_identity identity;
    struct kvc_session_file file;
    struct kvc_session *made = NULL;
    *session = NULL;
    if (saved)
        *saved = (struct kvc_saved){.sampler = saved->sampler};
    if (model->engine->ranks)
        return kvc_fail(error, KVC_USAGE, "%s: several processes cannot continue a saved session", path);
    enum kvc_status status = kvc_session_file_open(path, &file, error);
    if (status != KVC_OK)
        return status;
    kvc_session_identity_read(&file.archive, &identity);
    if (kvc_archive_fine(&file.archive))
        open_session(&file.archive, model, options, &identity, &made);
    kvc_session_identity_free(&identity);
    if (made && kvc_archive_fine(&file.archive))
        kvc_session_identity_compare(&file.archive, model, made);
    if (made && kvc_archive_fine(&file.archive))
        kvc_state_pass(&file.archive, made);
    if (kvc_archive_fine(&file.archive))
        kvc_session_beside_read(&file.archive, model->network.vocab, saved);
    status = kvc_session_file_close(&file, error);
    if (status != KVC_OK) {
        kvc_session_close(made);
        if (saved)
            kvc_saved_free(saved);
        return status;
    }
    log_file(made, "loaded from", path);
    *session = made;
    return KVC_OK;
}
