/* common.h - what ranks must have in common: one build, and what they were given. */
#ifndef KVC_RANKS_COMMON_H
#define KVC_RANKS_COMMON_H

#include <stdint.h>

#include "kvcull.h"

struct kvc_common {
    char version[32], how[96], share[160]; /* how, share: as they were given, cut off */
    uint32_t arithmetic, int8, pointer;
};

/* Of this process; share may be NULL. */
struct kvc_common kvc_common_here(const char *how, const char *share);
/* all [ranks]: KVC_USAGE where two were given something else, KVC_INPUT where two are not of one build. */
enum kvc_status kvc_common_check(const struct kvc_common *all, uint32_t ranks, struct kvc_error *error);

#endif
