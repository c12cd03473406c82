/** @file kvcull/saved.h
 * Copies of sessions: forked in memory, or saved to a file and loaded. Installed as kvcull/saved.h.
 */
#ifndef KVCULL_SAVED_H
#define KVCULL_SAVED_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Copies a session. Both continue independently, with bit-identical results.
 *
 * The copy needs as much cache and state as the original, on the same device; nothing is recomputed. The copy has no
 * output function (kvc_session_watch) and no recorded reads (kvc_session_reads). The caller closes it. Fails with
 * KVC_USAGE if the session is within a prompt or has failed, with KVC_RESOURCE if memory runs out, and with KVC_INPUT
 * if a file that the policy names cannot be read any more. The original does not change. */
enum kvc_status kvc_session_fork(struct kvc_session *session, struct kvc_session **copy, struct kvc_error *error);

/** Data that the caller stores in the file of a session. Zeroed memory: no data. Empty `tokens` and `logits` are loaded
 * as NULL. */
struct kvc_saved {
    int32_t *tokens;             /**< [token_count], for example the text so far */
    size_t token_count;          /**< length of `tokens` */
    char *note;                  /**< [note_bytes], any bytes */
    size_t note_bytes;           /**< length of `note` */
    float *logits;               /**< [logit_count], from which the next token will be drawn */
    size_t logit_count;          /**< 0 or the size of the vocabulary */
    struct kvc_sampler *sampler; /**< NULL, or a sampler whose number of draws and recent tokens are saved, or restored
                                      when loading. The sampler's options and biases are not in the file */
};
/** Frees the arrays that kvc_session_load allocated, but not the sampler. */
void kvc_saved_free(struct kvc_saved *saved);

/** Writes a session to a file, with the data in `saved` (or NULL). A session loaded from this file continues with
 * bit-identical results on every backend of the same arithmetic.
 *
 * The file contains entries, positions, the policy's state, recurrent state and counters. The file appears under its
 * name when it is complete (struct kvc_output) and replaces an older saved session. The session does not change. Fails
 * with KVC_USAGE as kvc_session_fork does, and for tokens or logits that are not the model's; with KVC_RESOURCE if the
 * file cannot be written; with KVC_INPUT if a file of that name exists that is neither empty nor a saved session. */
enum kvc_status kvc_session_save(struct kvc_session *session, const char *path, const struct kvc_saved *saved,
                                 struct kvc_error *error);
/** Checks in advance that kvc_session_save can write to a path, and fails as it would. Leaves no file behind. */
enum kvc_status kvc_session_save_check(const char *path, struct kvc_error *error);
/** Opens a session from a file; close it with kvc_session_close.
 *
 * `options` is NULL, or requires a policy and a cache type (policy NULL and cache_type.key KVC_ANY_TYPE accept the
 * file's); context, seed and expected always come from the file. `saved` is NULL, or receives the data stored with the
 * session, to be freed with kvc_saved_free. Fails with KVC_INPUT if the file is damaged or belongs to another model,
 * policy, cache type or arithmetic. After a failure there is no session, and the sampler may be partly restored. */
enum kvc_status kvc_session_load(struct kvc_model *model, const struct kvc_session_options *options, const char *path,
                                 struct kvc_saved *saved, struct kvc_session **session, struct kvc_error *error);

#ifdef __cplusplus
}
#endif

#endif
