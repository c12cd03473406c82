/* fork.c - creates a second session with the state of an existing one, in memory. */
#include "core/engine/coordinator.h"
#include "core/engine/state.h"
#include "kvcull/saved.h"

#include <string.h>

/* Copies the small part of the state through host memory, and device data directly on the device. */
static enum kvc_status copy_state(struct kvc_session *from, struct kvc_session *to, struct kvc_error *error) {
    struct kvc_archive archive = {.error = error, .from = from};
    kvc_state_pass(&archive, from);
    archive.reads = true;
    if (kvc_archive_fine(&archive))
        kvc_state_pass(&archive, to);
    kvc_archive_free(&archive);
    return archive.status;
}

enum kvc_status kvc_session_fork(struct kvc_session *session, struct kvc_session **copy, struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_error cause;
    struct kvc_session *made;
    *copy = NULL;
    kvc_session_defaults(&options);
    options.policy = session->policy->spec;
    options.cache_type = kvc_session_cache_type(session);
    options.chunk = session->chunk;
    options.memory_limit = session->cache.limit_bytes;
    options.record_reads = session->record.reads;
    enum kvc_status status = kvc_state_check(session, "fork", error);
    if (status == KVC_OK)
        status = kvc_session_create_bare(session->runner, &options, &made, error);
    if (status != KVC_OK)
        return status;
    status = copy_state(session, made, &cause);
    if (status != KVC_OK) {
        kvc_session_free(made);
        return kvc_fail(error, status, "fork: %s", cause.text);
    }
    *copy = made;
    KVC_LOG(&session->engine->log, KVC_LOG_INFO, KVC_LOG_CACHE, "session forked: %llu tokens, %llu bytes copied",
            (unsigned long long)session->tokens,
            (unsigned long long)(made->cache.cache_bytes + made->cache.state_bytes));
    session->runner->coordinator->begin_fork(session, made);
    return session->runner->coordinator->end(session->runner, KVC_OK, error);
}
