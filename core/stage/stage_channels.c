/* stage_channels.c - sets channels of keys to 0 at the end of a prompt. */
#include "core/stage/stage.h"

#include "core/base/integers.h"
#include "core/base/types.h"

enum kvc_status kvc_stage_prune_channels(struct kvc_stage *stage, uint32_t window, uint32_t recent, uint32_t channels,
                                         struct kvc_error *error) {
    const struct kvc_lists *lists = &kvc_stage_lists(stage)->lists;
    const uint32_t d = stage->info.head_size, sees = kvc_runner_window(stage->session->runner, stage->layer);
    if (!stage->ends)
        return kvc_fail(error, KVC_USAGE,
                        "policy: channels are pruned only at the end of a prompt, in the class's prompt_end");
    if (!kvc_type_stores_zero(lists->format.key.type))
        return kvc_fail(error, KVC_USAGE, "policy: channels are pruned: the method's class must have zeroes = true");
    if (channels > d)
        return kvc_fail(error, KVC_USAGE, "policy: %u channels to prune: must be at most %u", channels, d);
    if (kvc_min_u32(window, stage->queries) == 0)
        return kvc_fail(error, KVC_USAGE,
                        "policy: channels are pruned by the last %u queries: the class's function queries must request "
                        "some, and the window must not be 0",
                        window);
    /* this turn's tokens, as far back as the next row sees */
    const int64_t now = (int64_t)stage->info.now, begin = now - (int64_t)stage->info.turn_tokens;
    const int64_t oldest = sees && now - sees + 1 > begin ? now - sees + 1 : begin, end = now - recent;
    const struct kvc_probabilities rows = kvc_stage_rows(stage, kvc_min_u32(window, stage->queries));
    if (channels == 0 || end <= oldest)
        return KVC_OK;
    kvc_stage_device(stage)->ops->prune_channels(kvc_stage_device(stage),
                                                 &(struct kvc_prune_channels){.lists = lists,
                                                                              .q = rows.q,
                                                                              .queries = rows.queries,
                                                                              .heads = rows.heads,
                                                                              .channels = channels,
                                                                              .oldest = (int32_t)oldest,
                                                                              .end = (int32_t)end});
    kvc_select_keys_changed(stage->session, stage->layer);
    return KVC_OK;
}
