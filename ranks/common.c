/* common.c - checks that all ranks run the same build with the same options. */
#include "ranks/common.h"

#include <stdio.h>
#include <string.h>

struct kvc_common kvc_common_here(const char *how, const char *share) {
    struct kvc_common here;
    memset(&here, 0, sizeof here); /* also clears the padding, because all bytes are sent */
    here.arithmetic = KVC_ARITHMETIC_VERSION;
    here.int8 = KVC_INT8_VERSION;
    here.int16 = KVC_INT16_VERSION;
    here.pointer = sizeof(void *);
    snprintf(here.version, sizeof here.version, "%s", KVC_VERSION);
    snprintf(here.how, sizeof here.how, "%s", how);
    snprintf(here.share, sizeof here.share, "%s", share ? share : "");
    return here;
}

enum kvc_status kvc_common_check(const struct kvc_common *all, uint32_t ranks, struct kvc_error *error) {
    for (uint32_t r = 1; r < ranks; r++) {
        if (strcmp(all[r].how, all[0].how) != 0)
            return kvc_fail(error, KVC_USAGE, "ranks: rank 0 was given '%s', rank %u '%s': must be the same",
                            all[0].how, r, all[r].how);
        if (strcmp(all[r].share, all[0].share) != 0)
            return kvc_fail(error, KVC_USAGE, "ranks: rank 0 was given the share '%s', rank %u '%s': must be the same",
                            all[0].share, r, all[r].share);
        if (memcmp(&all[r], &all[0], sizeof *all) != 0)
            return kvc_fail(error, KVC_INPUT,
                            "ranks: rank 0 is kvcull %s (arithmetic %u, int8 %u, int16 %u), rank %u %s (%u, %u, %u): "
                            "must be the same",
                            all[0].version, all[0].arithmetic, all[0].int8, all[0].int16, r, all[r].version,
                            all[r].arithmetic, all[r].int8, all[r].int16);
    }
    return KVC_OK;
}
