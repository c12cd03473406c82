/* common.h - the build and options that all ranks must share. */
#ifndef KVC_RANKS_COMMON_H
#define KVC_RANKS_COMMON_H

#include <stdint.h>

#include "kvcull.h"

struct kvc_common {
    char version[32], how[96], share[160]; /* how, share: the texts of --ranks and --share, truncated */
    uint32_t arithmetic, int8, int16, pointer;
};

/* Describes this process. `share` may be NULL. */
struct kvc_common kvc_common_here(const char *how, const char *share);
/* Compares the descriptions of all ranks, [ranks]. Returns KVC_USAGE if two ranks have different options, or KVC_INPUT
 * if they are different builds. */
enum kvc_status kvc_common_check(const struct kvc_common *all, uint32_t ranks, struct kvc_error *error);

#endif
