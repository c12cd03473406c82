/* list.c - the built-in methods. Adding one: its file and a line here. */
#include "core/engine/engine.h"
#include "policies/policies.h"

/* clang-format off */
const struct kvc_policy_class *const kvc_policy_list[] = {
    &kvc_policy_full,
    &kvc_policy_window,
    &kvc_policy_streaming,
    &kvc_policy_h2o,
    &kvc_policy_scissorhands,
    &kvc_policy_keyformer,
    &kvc_policy_snapkv,
    &kvc_policy_pyramidkv,
    &kvc_policy_adakv,
    &kvc_policy_cake,
    &kvc_policy_fastkv,
    &kvc_policy_lacache,
    &kvc_policy_duo,
    &kvc_policy_morphkv,
    &kvc_policy_dapq,
    &kvc_policy_take,
    &kvc_policy_tova,
    &kvc_policy_quest,
    &kvc_policy_sparq,
    &kvc_policy_hsa,
    &kvc_policy_rocketkv,
    &kvc_policy_rocketkv_mt,
    &kvc_policy_topk,
    NULL};
