/* sampler.h - saves and loads a sampler's state, and restricts the tokens that it draws. */
#ifndef KVC_CORE_ENGINE_SAMPLER_H
#define KVC_CORE_ENGINE_SAMPLER_H

#include "core/engine/archive.h"

/* Writes or reads the number of draws and the recent tokens. If the receiving sampler has a shorter penalty window, it
 * keeps only the newest tokens. If sampler is NULL, the data are skipped. */
void kvc_sampler_pass(struct kvc_archive *archive, struct kvc_sampler *sampler);

/* Decides which tokens a sampler may draw. `user` belongs to the filter. */
struct kvc_token_filter {
    void *user;
    bool (*allows)(void *user, int32_t token);
    /* Sets the logits [vocab] of tokens that `allows` would refuse to -INFINITY. If `all` is false, it may
     * leave out tokens that are slow to find. kvc_sample passes false after several refusals, and true after many. */
    void (*strike)(void *user, float *logits, bool all);
    void (*accept)(void *user, int32_t token); /* the token was drawn */
    bool (*whole)(const void *user);           /* returns true if the answer may end here */
    void (*close)(void *user);
};
/* Closes the old filter and takes the new one; NULL: no filter. After a failure the caller still owns the new one. */
enum kvc_status kvc_sampler_filter(struct kvc_sampler *sampler, const struct kvc_token_filter *filter,
                                   struct kvc_error *error);
uint32_t kvc_sampler_vocab(const struct kvc_sampler *sampler);

#endif
