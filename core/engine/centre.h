/* centre.h - subtracts a constant, the centre, from all keys of a session. */
#ifndef KVC_CORE_ENGINE_CENTRE_H
#define KVC_CORE_ENGINE_CENTRE_H

#include "kvcull.h"

#include "core/base/ops.h"

struct kvc_archive;

#define KVC_CENTRE_ARRAYS 3 /* arrays [H_kv, d] that a session has for each of its layers */

/* Creates the session's centres if its policy and entry types permit them. */
enum kvc_status kvc_centre_open(struct kvc_session *session, struct kvc_error *error);
void kvc_centre_close(struct kvc_session *session);

/* Multiplies the channels of q [rows, H, d] and k [rows, H_kv, d] by the layer's factors, before both are rotated. The
 * first `stored` rows will be appended. If the layer has no entry yet, the function first computes the factors.
 * `queries` is false if q was not computed. Must be called for the first of the sessions of kvc_centre_keys. */
void kvc_centre_smooth(const struct kvc_session *session, uint32_t layer, struct kvc_span q, bool queries,
                       struct kvc_span k, uint32_t rows, uint32_t stored);

/* Subtracts the layer's centre from k [rows, H_kv, d], whose first `stored` rows will be appended to the lists of all
 * `count` sessions. If the layer has no entry yet, the function first computes the centre. */
void kvc_centre_keys(struct kvc_session *const *sessions, size_t count, uint32_t layer, struct kvc_span k,
                     uint32_t rows, uint32_t stored);

/* Writes or reads the centres, or copies them from archive->from. */
void kvc_centre_pass(struct kvc_archive *archive, struct kvc_session *session);

#endif
