/* saved.h - a session twice: forked in memory, or saved to a file and loaded. Installed as kvcull/saved.h.
 */
#ifndef KVCULL_SAVED_H
#define KVCULL_SAVED_H

#include "kvcull.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A second session with the state of the first one: both go on from here with the same bits, each by itself. The caller
 * closes it. It takes as much cache and state as the first holds, and a copy of these, on the device where they lie;
 * nothing is computed. What the last step read (kvc_session_reads) and who watches (kvc_session_watch) are not copied.
 * KVC_USAGE: the session is within a prompt, or has failed; KVC_RESOURCE: no memory; KVC_INPUT: a file that its policy
 * names cannot be read any more. The first is as it was. */
enum kvc_status kvc_session_fork(struct kvc_session *session, struct kvc_session **copy, struct kvc_error *error);

/* What a caller keeps beside a session in its file. Zeroed: nothing. */
struct kvc_saved {
    int32_t *tokens; /* [token_count]: the text so far, say */
    size_t token_count;
    char *note; /* [note_bytes]: of the caller's own */
    size_t note_bytes;
    float *logits; /* [logit_count], 0 or vocab: what the next token is to be drawn from, if it is not known yet */
    size_t logit_count;
    struct kvc_sampler *sampler; /* NULL, or saved; loading: NULL, or one that gets what was saved. That is how far its
                                    draws are and which tokens were the last; options and biases are the caller's */
};
void kvc_saved_free(struct kvc_saved *saved); /* the arrays of a saved that was loaded; not the sampler */

/* Writes all that a session needs to go on with the same bits, on any backend of the same arithmetic: its entries and
 * their positions, what its policy keeps, recurrent state, counters; and saved, or NULL. The file appears under its
 * name when it is complete (kvc_output), in the place of an older one; the session stays as it is. KVC_USAGE as for
 * kvc_session_fork, and for tokens or logits that are not the model's; KVC_RESOURCE: it cannot be written;
 * KVC_INPUT: a file of that name is neither a saved session nor empty, and stays. */
enum kvc_status kvc_session_save(struct kvc_session *session, const char *path, const struct kvc_saved *saved,
                                 struct kvc_error *error);
/* Whether kvc_session_save could write to that path now, to be asked before hours of work; nothing is left there.
 * The status is that of kvc_session_save. */
enum kvc_status kvc_session_save_check(const char *path, struct kvc_error *error);
/* Opens a session that goes on where the saved one was. options: NULL, or where policy NULL and cache_type
 * KVC_ALL_TYPES stand for what the file has; context, seed and expected are the file's in any case. saved: NULL, or
 * gets what was saved beside it, to be freed with kvc_saved_free. KVC_INPUT: the file is damaged, or it is of another
 * model, policy, cache type or arithmetic; the error says which. There is no session then, and the sampler may have
 * got some of what was saved. */
enum kvc_status kvc_session_load(struct kvc_model *model, const struct kvc_session_options *options, const char *path,
                                 struct kvc_saved *saved, struct kvc_session **session, struct kvc_error *error);

#ifdef __cplusplus
}
#endif

#endif
