/* prune_rows.c - token pruning: the layers above compute only some rows of a prompt. A propagate stage chooses the kept
 * rows (kvc_stage_prune_tokens), and the others are dropped after the layer's prompt stage. */
#include "core/engine/prune_rows.h"

#include "core/base/assert.h"
#include "core/stage/stage.h"

#include <stdlib.h>

enum kvc_status kvc_stage_prune_tokens(struct kvc_stage *stage, const uint32_t *rows, uint32_t count,
                                       struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const uint64_t had = stage->info.turn;
    bool good = count > 0 && count <= had && rows[count - 1] == had - 1;
    for (uint32_t i = 1; i < count && good; i++)
        good = rows[i] > rows[i - 1];
    if (!kvc_policy_owner(session->policy,
                          KVC_STAGE_PROPAGATE)) /* without such a method, other sessions may share the prompt's rows */
        return kvc_fail(error, KVC_USAGE, "policy: prune to %u rows: no method holds the propagate stage", count);
    if (!good)
        return kvc_fail(error, KVC_USAGE,
                        "policy: prune to %u rows: must be some of the turn's %llu, ascending, the "
                        "last among them",
                        count, (unsigned long long)had);
    if (count == had || stage->layer + 1 == session->cache.layers) /* no layer follows the last one */
        return KVC_OK;
    uint32_t *kept_rows = malloc(count * sizeof *kept_rows);
    if (!kept_rows)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u rows", count);
    for (uint32_t i = 0; i < count; i++)
        kept_rows[i] = kvc_session_row(session, rows[i]);
    free(session->prompt.next_kept_rows);
    session->prompt.next_kept_rows = kept_rows;
    session->prompt.next_rows = count;
    return KVC_OK;
}

/* Converts next_kept_rows to row numbers of the pass and appends the rows that methods added. */
static void find_rows(const struct kvc_session *session, uint32_t *index, uint32_t extra) {
    const struct kvc_prompt *prompt = &session->prompt;
    for (uint32_t i = 0, at = 0; i < prompt->next_rows; i++) {
        while (kvc_session_row(session, at) != prompt->next_kept_rows[i]) {
            at++;
            KVC_ASSERT(at < prompt->chunk_rows); /* next_kept_rows is a subset of kept_rows */
        }
        index[i] = at;
    }
    for (uint32_t i = 0; i < extra; i++)
        index[prompt->next_rows + i] = prompt->extra_from + i;
}

enum kvc_status kvc_prune_rows(struct kvc_session *session, const struct kvc_row_source *source,
                               struct kvc_error *error) {
    struct kvc_prompt *prompt = &session->prompt;
    const uint32_t rows = prompt->next_rows, extra = kvc_prompt_extra_rows(session);
    if (!prompt->next_kept_rows)
        return KVC_OK;
    uint32_t *index = malloc((rows + extra) * sizeof *index);
    if (!index)
        return kvc_fail(error, KVC_RESOURCE, "session: no memory for %u rows", rows + extra);
    find_rows(session, index, extra);
    KVC_ASSERT(rows > 0 && rows < kvc_session_rows(session));
    free(prompt->kept_rows);
    prompt->kept_rows = prompt->next_kept_rows;
    prompt->kept_row_count = prompt->chunk_rows = rows;
    prompt->next_kept_rows = NULL;
    enum kvc_status status = source->gather(source->user, index, rows + extra, error);
    free(index);
    if (status == KVC_OK)
        status = kvc_pass_load(&session, 1, source, error);
    return status == KVC_OK ? kvc_prompt_set_window(session, rows, error) : status;
}
